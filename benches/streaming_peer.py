"""Benchmark of other data loaders on the data of streaming.rs; started by it, or alone.

    python streaming_peer.py FOLDER [--only NAME ...]

FOLDER has `features.npy` (n x 1,024 or n x 36 x 2,048, f32) and `tokens.npy` (n x 24, i32; the first of each row is the
index of the row). If absent, they are created with a fixed seed (`--regions` creates the larger data set). Each peer
reads the same rows in its own format below FOLDER, written once. Every measurement runs in a process of its own, one
after another, without workers, with one OpenMP thread (PyTorch's default in a worker; two were slower), batch size 128,
and the files in the page cache. Each batch is consumed: its row indices are collected and its first feature column is
summed. A peer fails unless every row occurs exactly once in an epoch, with the correct sum.

Prints one line of JSON per peer:
    peer                name and version
    samples_per_second  median of five epochs after a warm-up; `epochs` has each
    construct_ms        time to construct data set and loader, after imports
    first_batch_ms      time from then to the first batch of the process
    resume_ms           time in a new process, after construction, to load a state at 75 % of the epoch and the next batch;
                        null if the peer has no state
    resume_exact        true if that batch is the next one of the epoch
    shuffle             extent of shuffling, in the terms of the peer
    disk_mb, memory_mb  size on disk; peak of private and shared memory during an epoch (without page cache), minus that after
                        imports
Copies of the same bytes, in order and in batches of random rows, are printed as `peer: "memcpy ..."`. The packages are
pinned in streaming_peers.txt.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np

BATCH = 128
EPOCHS = 5
SEED = 7
TOKENS = 24

warnings.filterwarnings("ignore")


def rows(folder):
    """Rows as memory-mapped arrays; copy-on-write, because PyTorch warns about read-only arrays."""
    return [np.load(os.path.join(folder, f"{name}.npy"), mmap_mode="c") for name in ("features", "tokens")]


def make(folder, regions):
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(os.path.join(folder, "tokens.npy")):
        return
    count, shape = (2_000, (36, 2_048)) if regions else (40_000, (1_024,))
    draw = np.random.default_rng(SEED)
    tokens = draw.integers(4, 10_000, (count, TOKENS), dtype=np.int32)
    tokens[:, 0] = np.arange(count)
    np.save(os.path.join(folder, "features.npy"), draw.standard_normal((count, *shape), dtype=np.float32))
    np.save(os.path.join(folder, "tokens.npy"), tokens)


class Peer:
    """A loader: `write` creates its files, `open` returns the loader, which yields batches of (features, tokens)."""

    shuffle = "all rows"

    def __init__(self, folder):
        self.source = folder
        self.folder = os.path.join(folder, type(self).__name__)

    def write(self):
        pass

    def batches(self, loader, epoch):
        for batch in loader:
            yield batch["feature"], batch["tokens"]

    def state(self, loader):
        return None


class MemmapNaive(Peer):
    """PyTorch's DataLoader over a memory-mapped npy, one row at a time, with its default collation."""

    def open(self):
        import torch

        features, tokens = rows(self.source)

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return len(features)

            def __getitem__(self, row):
                return {"feature": features[row], "tokens": tokens[row]}

        draw = torch.Generator().manual_seed(SEED)
        return torch.utils.data.DataLoader(Rows(), BATCH, shuffle=True, generator=draw)

    @staticmethod
    def version():
        import torch

        return f"DataLoader {torch.__version__.split('+')[0]}, memmap, a row at a time"


class MemmapBatch(Peer):
    """The same with a batch sampler, and one fancy index of the map per batch, which is the fastest variant."""

    def open(self):
        import torch
        from torch.utils.data import BatchSampler, DataLoader, RandomSampler

        features, tokens = rows(self.source)

        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return len(features)

            def __getitem__(self, batch):
                return {"feature": torch.from_numpy(features[batch]), "tokens": torch.from_numpy(tokens[batch])}

        draw = torch.Generator().manual_seed(SEED)
        sampler = BatchSampler(RandomSampler(range(len(features)), generator=draw), BATCH, drop_last=False)
        return DataLoader(Rows(), sampler=sampler, batch_size=None)

    @staticmethod
    def version():
        import torch

        return f"DataLoader {torch.__version__.split('+')[0]}, memmap, a batch at a time"


def litdata_row(row):
    """Row as LitData stores it. At the top level because other processes import it by name."""
    import torch

    features, tokens = litdata_row.rows
    return {"feature": torch.from_numpy(features[row].copy()), "tokens": torch.from_numpy(tokens[row].copy())}


class LitData(Peer):
    """LitData with its strongest shuffle. Rows are decoded one by one, which is ten times as fast here as its
    default."""

    shuffle = "chunks, then all rows inside a chunk"
    options = {"batch_decode": 0, "item_shuffle_window": "full"}

    def write(self):
        import litdata

        litdata_row.rows = rows(self.source)
        count = len(litdata_row.rows[0])
        litdata.optimize(litdata_row, list(range(count)), self.folder, chunk_bytes="64MB", num_workers=1, verbose=False,
                         start_method="fork")

    def open(self):
        import litdata

        data = litdata.StreamingDataset(self.folder, shuffle=True, seed=SEED, drop_last=False, **self.options)
        return litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=0, drop_last=False)

    def state(self, loader):
        return loader.state_dict()

    def resume(self, loader, state):
        loader.load_state_dict(state)

    @staticmethod
    def version():
        import litdata

        return f"LitData {litdata.__version__}"


class LitDataBlocks(LitData):
    """LitData with its fastest setting: blocks of 32 adjacent rows are shuffled."""

    shuffle = "chunks, blocks of 32 rows inside a chunk, rows inside a block"
    options = {"batch_decode": "auto", "item_shuffle_window": 32}

    @staticmethod
    def version():
        return f"{LitData.version()}, blocks of 32"


class Mosaic(Peer):
    shuffle = "all rows (py1e: within a bounded distance of their shard)"

    def write(self):
        from streaming import MDSWriter

        features, tokens = rows(self.source)
        shape = ",".join(map(str, features.shape[1:]))
        columns = {"feature": f"ndarray:float32:{shape}", "tokens": f"ndarray:int32:{TOKENS}"}
        with MDSWriter(out=self.folder, columns=columns) as out:
            for feature, token in zip(features, tokens):
                out.write({"feature": np.array(feature), "tokens": np.array(token)})

    def open(self):
        import streaming

        data = streaming.StreamingDataset(local=self.folder, shuffle=True, shuffle_seed=SEED, batch_size=BATCH)
        return streaming.StreamingDataLoader(data, batch_size=BATCH, num_workers=0)

    def state(self, loader):
        return loader.state_dict()

    def resume(self, loader, state):
        loader.load_state_dict(state)

    @staticmethod
    def version():
        import streaming

        return f"MosaicML Streaming {streaming.__version__}"


class WebDataset(Peer):
    shuffle = "shards, then a buffer of 1,000 rows"

    def write(self):
        import webdataset

        os.makedirs(self.folder)
        features, tokens = rows(self.source)
        with webdataset.ShardWriter(os.path.join(self.folder, "%05d.tar"), maxsize=64 << 20, verbose=0) as out:
            for row, (feature, token) in enumerate(zip(features, tokens)):
                out.write({"__key__": f"{row:08}", "feature.npy": np.array(feature), "tokens.npy": np.array(token)})

    def open(self):
        import webdataset

        files = sorted(os.path.join(self.folder, name) for name in os.listdir(self.folder))
        data = webdataset.WebDataset(files, shardshuffle=len(files), seed=SEED, empty_check=False)
        data = data.shuffle(1000, seed=SEED).decode().to_tuple("feature.npy", "tokens.npy").batched(BATCH)
        return webdataset.WebLoader(data, batch_size=None, num_workers=0)

    def batches(self, loader, epoch):
        yield from loader

    @staticmethod
    def version():
        import webdataset

        return f"WebDataset {webdataset.__version__}"


class Lance(Peer):
    def write(self):
        import lance
        import pyarrow as pa

        features, tokens = rows(self.source)
        width = int(np.prod(features.shape[1:]))
        columns = {
            "feature": pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), width),
            "tokens": pa.FixedSizeListArray.from_arrays(pa.array(tokens.reshape(-1)), TOKENS),
        }
        lance.write_dataset(pa.table(columns), self.folder)

    def open(self):
        import lance

        return lance.dataset(self.folder)

    def batches(self, loader, epoch):
        shape = rows(self.source)[0].shape
        order = np.random.default_rng([SEED, epoch]).permutation(shape[0])
        for start in range(0, len(order), BATCH):
            table = loader.take(order[start : start + BATCH])
            feature = table["feature"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            tokens = table["tokens"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            yield feature.reshape(-1, *shape[1:]), tokens.reshape(-1, TOKENS)

    @staticmethod
    def version():
        import lance

        return f"Lance {lance.__version__}, take"


PEERS = {
    "memmap-rows": MemmapNaive,
    "memmap-batches": MemmapBatch,
    "litdata": LitData,
    "litdata-blocks": LitDataBlocks,
    "mosaicml": Mosaic,
    "webdataset": WebDataset,
    "lance": Lance,
}


def numbers(batch):
    """Row indices of a batch, and the sum of its first feature column."""
    feature, tokens = np.asarray(batch[0]), np.asarray(batch[1])
    return tokens[:, 0].copy(), feature.reshape(len(feature), -1)[:, 0].sum(dtype=np.float64)


def held_mb():
    """Private and shared memory of this process, without pages of mapped files, which are in the page cache."""
    with open("/proc/self/status", encoding="ascii") as status:
        kb = {line.split(":")[0]: line.split()[1] for line in status if line.startswith(("RssAnon", "RssShmem"))}
    return sum(map(int, kb.values())) / 1024


def check(seen, total, features):
    """Checks that every row occurs exactly once, in shuffled order, with the correct values."""
    seen = np.concatenate(seen)
    if not np.array_equal(np.sort(seen), np.arange(len(features))):
        missing = len(np.setdiff1d(np.arange(len(features)), seen))
        raise SystemExit(f"{missing} rows missing, {len(seen) - len(np.unique(seen))} repeated")
    if np.array_equal(seen, np.arange(len(features))):
        raise SystemExit("rows came unshuffled")
    expected = features.reshape(len(features), -1)[:, 0].sum(dtype=np.float64)
    if abs(total - expected) > 1e-3:
        raise SystemExit(f"first column sums to {total}, wanted {expected}")


def measure(peer, notes):
    name = peer.version()
    features, _ = rows(peer.source)
    count = len(features)
    cut = count * 3 // 4 // BATCH
    before = held_mb()
    clock = time.perf_counter()
    loader = peer.open()
    construct = time.perf_counter() - clock
    speeds, most, kept = [], before, {}
    for epoch in range(EPOCHS + 1):
        seen, total = [], 0.0
        clock = time.perf_counter()
        for number, batch in enumerate(peer.batches(loader, epoch)):
            if epoch == 0 and number == 0:
                first = time.perf_counter() - clock
            row, part = numbers(batch)
            seen.append(row)
            total += part
            if epoch == 0 and number % 8 == 0:
                most = max(most, held_mb())
            if epoch == 0 and number + 1 == cut:
                kept = {"state": peer.state(loader)}
            elif epoch == 0 and number == cut:
                kept["next"] = row.tolist()
        seconds = time.perf_counter() - clock
        check(seen, total, features)
        if epoch > 0:
            speeds.append(count / seconds)
    with open(notes, "w", encoding="utf-8") as file:
        json.dump(kept, file)
    disk = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(peer.folder) for name in names)
    disk = disk or sum(os.path.getsize(os.path.join(peer.source, f"{name}.npy")) for name in ("features", "tokens"))
    return {
        "peer": name,
        "samples_per_second": round(statistics.median(speeds)),
        "epochs": [round(speed) for speed in speeds],
        "construct_ms": round(construct * 1e3, 2),
        "first_batch_ms": round(first * 1e3, 2),
        "resume_ms": None,
        "resume_exact": None,
        "shuffle": peer.shuffle,
        "disk_mb": round(disk / 1e6),
        "memory_mb": round(most - before),
    }


def resume(peer, notes):
    peer.version()
    with open(notes, encoding="utf-8") as file:
        kept = json.load(file)
    loader = peer.open()
    clock = time.perf_counter()
    peer.resume(loader, kept["state"])
    row, _ = numbers(next(iter(peer.batches(loader, 0))))
    seconds = time.perf_counter() - clock
    return {"resume_ms": round(seconds * 1e3, 2), "resume_exact": row.tolist() == kept["next"]}


def memcpy(folder):
    """Copies of all bytes in order, and in batches of random rows, by one thread."""
    features, tokens = rows(folder)
    arrays = [np.array(features).reshape(len(features), -1), np.array(tokens)]
    count, size = len(features), sum(array.nbytes for array in arrays)
    targets = [np.empty_like(array) for array in arrays]
    batches = [np.empty((BATCH, array.shape[1]), array.dtype) for array in arrays]

    def in_order():
        for array, target in zip(arrays, targets):
            np.copyto(target, array)

    def random_rows():
        order = np.random.default_rng(SEED).permutation(count)
        for start in range(0, count, BATCH):
            part = order[start : start + BATCH]
            for array, batch in zip(arrays, batches):
                np.take(array, part, axis=0, out=batch[: len(part)], mode="clip")

    for name, work in (("memcpy in order", in_order), ("memcpy of random rows", random_rows)):
        times = []
        for _ in range(EPOCHS + 1):
            clock = time.perf_counter()
            work()
            times.append(time.perf_counter() - clock)
        seconds = statistics.median(times[1:])
        print(json.dumps({"peer": name, "samples_per_second": round(count / seconds),
                          "gb_per_second": round(size / seconds / 1e9, 2)}), flush=True)


def child(folder, name, task):
    """Runs a task of a peer in a process of its own, whose last output line is JSON."""
    command = [sys.executable, os.path.abspath(__file__), folder, "--task", task, "--only", name]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    words = argparse.ArgumentParser(description="Loaders that people use today, on the data of streaming.rs.")
    words.add_argument("folder")
    words.add_argument("--regions", action="store_true")
    words.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS))
    words.add_argument("--task", choices=["write", "measure", "resume"])
    words = words.parse_args()
    folder = os.path.abspath(words.folder)
    if words.task:
        peer = PEERS[words.only[0]](folder)
        notes = os.path.join(folder, f"{words.only[0]}.json")
        if words.task == "write":
            print(json.dumps(peer.write()))
        else:
            print(json.dumps({"measure": measure, "resume": resume}[words.task](peer, notes)))
        return
    make(folder, words.regions)
    memcpy(folder)
    for name in words.only:
        try:
            peer = PEERS[name](folder)
            # Removes files that were not written completely.
            done = os.path.join(folder, f"{name}.written")
            if not os.path.exists(done):
                child(folder, name, "write")
                open(done, "w", encoding="utf-8").close()
            result = child(folder, name, "measure")
            if hasattr(peer, "resume"):
                result |= child(folder, name, "resume")
        except (RuntimeError, OSError, ValueError) as error:
            result = {"peer": name, "error": str(error)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
