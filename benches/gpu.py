"""A GPU beside the processors of its machine, and beside PyTorch on the same GPU.

    python benches/gpu.py PAIRLOOM FLICKR8K SQUEEZENET [part ...]

PAIRLOOM is the program, FLICKR8K a folder with `dataset_flickr8k.json` and `images/`, SQUEEZENET a safetensors file of
torchvision's weights. The folder `lib` of a CUDA libtorch 2.11 is on `LD_LIBRARY_PATH`. Parts, all by default:

`models`    Losses of a training of each family over regions, and of three fine-tuned networks, on the processors and on the GPU: largest
            relative difference in the first step, in the fifth and in all; if a second training on the GPU has the same losses.
`networks`  Features of image networks with random weights: largest difference, relative to the largest value of a feature.
`train`     Time of a step of VSE++ (batches of 128, 1,024 dimensions, 2,048 features), beside PyTorch with cuDNN's GRU.
`extract`   Images a second of a whole stage, beside torchvision with PIL and a DataLoader, and beside its network alone.
`search`    Ranks of 100,000 x 100,000 x 512, on the GPU and on the processors, and PyTorch's products and `topk`.
`ranks`     A training in one process, in two that share the GPU (gloo), and in two that NCCL connects. NCCL takes them for
            two machines (`NCCL_HOSTID`), so its bytes go through sockets: this shows that it works, and no speed.
`kills`     Trainings that are killed at random moments and started again, in one process and in two that NCCL connects: bytes
            beside those of an undisturbed training, and seconds until the other process ends.

PyTorch computes in f32 without TF32, as Pairloom does, or in bf16 with autocast.
"""

import atexit
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

PROGRAM, FLICKR8K, SQUEEZENET = (Path(argument).resolve() for argument in sys.argv[1:4])
PARTS = sys.argv[4:] or ["models", "networks", "train", "extract", "search", "ranks", "kills"]
WORK = Path(tempfile.mkdtemp())
# Processes that must not outlive this one.
STARTED = []
atexit.register(lambda: [process.kill() for process in STARTED])
IMAGES = f'karpathy = {{ json = "{FLICKR8K}/dataset_flickr8k.json", images = "{FLICKR8K}/images" }}'


def run(name, text, device, *more):
    """Store of a run, and the seconds of its stages."""
    folder = WORK / f"{name}-{device}"
    folder.mkdir()
    (folder / "pipeline.toml").write_text(text)
    common = ["--quiet", "--store", folder / "store", "--device", device]
    subprocess.run([PROGRAM, "run", *common, folder / "pipeline.toml", *more], check=True, stdout=subprocess.DEVNULL)
    rows = sql(folder / "store", "SELECT stage, seconds, trained FROM store.stages")
    return folder / "store", {row["stage"]: row for row in rows}


def sql(store, query):
    got = subprocess.run([PROGRAM, "sql", "--store", store, "--format", "json", query], check=True, capture_output=True)
    return json.loads(got.stdout)


def losses(store):
    return np.array([row["loss"] for row in sql(store, "SELECT loss FROM fit.history ORDER BY step")])


REGIONS = f"""
[stage.pairs.ingest]
{IMAGES}
[stage.words.build_concepts]
captions = "pairs.captions"
[stage.cnn.extract]
images = "pairs.images"
network = "squeezenet1_0"
weights = {{ file = "{SQUEEZENET}" }}
pooling = {{ grid = 5 }}
normalize = true
[stage.fit.train]
regions = "cnn.regions"
captions = "pairs.captions"
loss = {{ sum = {{ margin = 0.2 }} }}
batch_size = 32
learning_rate = 5e-4
epochs = 1
"""
MODELS = {
    "scan, t2i": 'model.scan = { embed_size = 256, cross_attention = "t2i", aggregation = "mean", lambda_softmax = 9.0 }',
    "scan, i2t": 'model.scan = { embed_size = 256, cross_attention = "i2t", aggregation = "mean", lambda_softmax = 4.0 }',
    "sgr": 'model = { sgraf = { module = "sgr", embed_size = 256, similarity_dim = 64 } }',
    "saf": 'model = { sgraf = { module = "saf", embed_size = 256, similarity_dim = 64 } }',
    "vsrn": "model = { vsrn = { embed_size = 256, caption_dim = 128, caption_word_dim = 128 } }",
    "cvse": 'concepts = "words.concepts"\nmodel = { cvse = { embed_size = 256, level_loss = { sum = { margin = 0.2 } } } }',
    "vse_infinity": "model = { vse_infinity = { embed_size = 256 } }",
}
FINETUNED = f"""
[stage.pairs.ingest]
{IMAGES}
[stage.fit.train]
finetune = {{ images = "pairs.images", NETWORK }}
captions = "pairs.captions"
model.vse.embed_size = 256
loss = {{ sum = {{ margin = 0.2 }} }}
batch_size = 32
learning_rate = 2e-5
epochs = 1
"""


# Feature maps of VGG have 3 x 3 cells with this crop, whose means over 7 x 7 cells overlap. ViT-B-16 attends to 197 tokens.
NETWORKS = {
    "squeezenet1_0": f'network = "squeezenet1_0", weights = {{ file = "{SQUEEZENET}" }}, resize = 96, crop = 96',
    "vgg16": 'network = "vgg16", weights = "random", resize = 96, crop = 96',
    "ViT-B-16": 'network = "ViT-B-16", weights = "random"',
}


def models():
    print("| model | first step | fifth step | all | same losses again | seconds, CPU | seconds, GPU |\n|---|---|---|---|---|---|---|")
    texts = {name: REGIONS + model + "\n" for name, model in MODELS.items()}
    finetuned = {f"vse, {network}": FINETUNED.replace("NETWORK", settings) for network, settings in NETWORKS.items()}
    for name, text in (texts | finetuned).items():
        (cpu, here), (gpu, there) = (run(name, text, device) for device in ("cpu", "cuda"))
        again, _ = run(f"{name}, again", text, "cuda")
        expected, got = losses(cpu), losses(gpu)
        difference = np.abs(got - expected) / np.abs(expected)
        seconds = here["fit"]["trained"], there["fit"]["trained"]
        same = "yes" if np.array_equal(got, losses(again)) else "NO"
        print(f"| {name} | {difference[0]:.1e} | {difference[4]:.1e} | {difference.max():.1e} | {same} | {seconds[0]:.2f} "
              f"| {seconds[1]:.2f} |", flush=True)  # fmt: skip


def networks():
    for network in ["squeezenet1_0", "mobilenet_v2", "vgg16", "resnet50", "resnext50_32x4d", "inception_resnet_v2", "ViT-B-32"]:
        text = f'[stage.pairs.ingest]\n{IMAGES}\n[stage.cnn.extract]\nimages = "pairs.images"\nnetwork = "{network}"\n'
        text += 'weights = "random"\nsplits = ["test"]\n'
        features, seconds = [], []
        for device in ("cpu", "cuda"):
            store, stages = run(network, text, device)
            output = WORK / f"{network}-{device}-features"
            subprocess.run([PROGRAM, "export", "--quiet", "--store", store, "--output", output, "cnn.features"], check=True)
            features.append(np.load(next(output.glob("*.npy"))))
            seconds.append(stages["cnn"]["seconds"])
        expected, got = features
        difference = (np.abs(got - expected).max(1) / np.abs(expected).max(1)).max()
        print(f"{network}: {difference:.1e}; {seconds[0]:.2f} s on the CPU, {seconds[1]:.2f} s on the GPU", flush=True)


def train():
    data = WORK / "random_precomp"
    data.mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", 10_000), ("dev", 100), ("test", 100)):
        np.save(data / f"{split}_ims.npy", rng.random((count, 2048), dtype=np.float32))
        words = lambda: " ".join(f"w{int(x)}" for x in 8000 * rng.random(rng.integers(6, 19)) ** 3)
        (data / f"{split}_caps.txt").write_text("".join(words() + "\n" for _ in range(5 * count)))
    for precision in ("f32", "mixed"):
        text = f"""
[stage.pairs.ingest]
precomp = {{ folder = "{data}" }}
[stage.fit.train]
features = "pairs.features"
captions = "pairs.captions"
loss = {{ max = {{ margin = 0.2 }} }}
model.vse.embed_size = 1024
model.vse.word_dim = 300
batch_size = 128
learning_rate = 2e-4
epochs = 1
min_count = 1
precision = "{precision}"
"""
        store, stages = run(f"train-{precision}", text, "cuda")
        steps = len(losses(store))
        print(f"VSE++, {precision}: {1e3 * stages['fit']['trained'] / steps:.2f} ms a step of {steps}", flush=True)
    peer_steps(rng)


def peer_steps(rng):
    import torch
    from torch.nn.functional import normalize
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    linear, vectors = torch.nn.Linear(2048, 1024).cuda(), torch.nn.Embedding(8003, 300).cuda()
    gru = torch.nn.GRU(300, 1024, 1, batch_first=True).cuda()
    parameters = [*linear.parameters(), *vectors.parameters(), *gru.parameters()]
    own = torch.eye(128, dtype=torch.bool).cuda()
    lengths = [torch.tensor(sorted(rng.integers(8, 21, 128), reverse=True)) for _ in range(40)]
    batches = [(torch.rand(128, 2048).pin_memory(), torch.randint(0, 8000, (128, int(n[0]))).pin_memory(), n) for n in lengths]
    for mixed in (False, True):
        optimiser = torch.optim.Adam(parameters, 2e-4, fused=True)

        def step(images, captions, lengths):
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
                packed = pack_padded_sequence(vectors(captions.cuda(non_blocking=True)), lengths, batch_first=True)
                states, counts = pad_packed_sequence(gru(packed)[0], batch_first=True)
                last = (counts - 1)[:, None, None].expand(-1, 1, 1024).cuda()
                texts = normalize(states.gather(1, last).squeeze(1), dim=1)
                scores = normalize(linear(images.cuda(non_blocking=True)), dim=1) @ texts.T
            scores = scores.float()
            matching = scores.diag().view(-1, 1)
            cost = lambda of: (0.2 + scores - of).clamp(min=0).masked_fill(own, 0)
            loss = cost(matching).max(1)[0].sum() + cost(matching.T).max(0)[0].sum()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 2.0)
            optimiser.step()
            return loss.item()

        for batch in batches:
            step(*batch)
        clock = time.perf_counter()
        for batch in batches * 5:
            step(*batch)
        seconds = (time.perf_counter() - clock) / (5 * len(batches))
        print(f"PyTorch, {'bf16' if mixed else 'f32'}: {1e3 * seconds:.2f} ms a step", flush=True)


def photographs(copies):
    """Copies of 300 photographs with a byte added, so that each is a picture of its own."""
    folder = WORK / f"photographs{copies}"
    folder.mkdir()
    for path in sorted((FLICKR8K / "images").iterdir())[:300]:
        for copy in range(copies):
            (folder / f"{copy}_{path.name}").write_bytes(path.read_bytes() + bytes([copy]))
    return folder


def extract():
    import torch
    from PIL import Image
    from torch.fx.experimental.optimization import fuse
    from torch.utils.data import DataLoader, Dataset
    from torchvision import models as published
    from torchvision import transforms

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    few, many = photographs(8), photographs(32)
    files = sorted(many.iterdir())
    normalise = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    transform = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), normalise])

    class Photographs(Dataset):
        def __len__(self):
            return len(files)

        def __getitem__(self, index):
            return transform(Image.open(files[index]).convert("RGB"))

    for name, precision in (("resnet50", "f32"), ("resnet152", "f32"), ("resnet152", "mixed")):
        seconds = []
        for folder in (few, many):
            text = f"""
[stage.pairs.ingest.image_folder]
images = "{folder}"
split = "train"
[stage.cnn.extract]
images = "pairs.images"
network = "{name}"
weights = "random"
batch_size = 64
precision = "{precision}"
"""
            _, stages = run(f"extract-{name}-{precision}-{folder.name}", text, "cuda")
            seconds.append(stages["cnn"]["seconds"])
        network = getattr(published, name)().cuda().eval()
        with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16, enabled=precision == "mixed"):
            network(torch.zeros(64, 3, 224, 224).cuda())
            torch.cuda.synchronize()
            clock = time.perf_counter()
            for batch in DataLoader(Photographs(), 64, num_workers=os.cpu_count(), pin_memory=True):
                network(batch.cuda(non_blocking=True)).cpu()
            theirs = time.perf_counter() - clock
            alone = images_a_second(network, torch.rand(64, 3, 224, 224).cuda())
            last = dict(memory_format=torch.channels_last)
            folded = images_a_second(fuse(network).to(**last), torch.rand(64, 3, 224, 224).cuda().to(**last))
        further = 0.75 * len(files) / (seconds[1] - seconds[0])
        print(f"{name}, {precision}: {len(files) / seconds[1]:.0f} images/s in a whole stage of {len(files)}, {further:.0f} "
              f"after the first quarter, torchvision {len(files) / theirs:.0f} with its network in memory, its network alone {alone:.0f}, with normalisation "
              f"folded in and channels last {folded:.0f}", flush=True)  # fmt: skip


def images_a_second(network, batch):
    """Images a second of a network whose batches are on the GPU."""
    import torch

    for _ in range(5):
        network(batch)
    torch.cuda.synchronize()
    clock = time.perf_counter()
    for _ in range(50):
        network(batch)
    torch.cuda.synchronize()
    return 50 * len(batch) / (time.perf_counter() - clock)


def search():
    import torch

    count, width = 100_000, 512
    rng = np.random.default_rng(1)
    images = rng.standard_normal((count, width), dtype=np.float32)
    captions = images + 6 * rng.standard_normal((count, width), dtype=np.float32)
    sides = []
    for name, vectors in (("images", images), ("captions", captions)):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        np.save(WORK / f"{name}.npy", vectors)
        sides.append(torch.from_numpy(vectors))
    text = f"""
[stage.theirs.ingest.embeddings]
images = "{WORK}/images.npy"
captions = "{WORK}/captions.npy"
captions_per_image = 1
[stage.test.evaluate]
images = "theirs.image_embeddings"
captions = "theirs.caption_embeddings"
dataset = "theirs"
"""
    digests = set()
    for device in ("cuda", "cpu"):
        store, stages = run("search", text, device)
        query = "SELECT direction, sum(rank) s, sum(rank * (query_id % 1009)) h FROM test.rankings GROUP BY 1 ORDER BY 1"
        digests.add(json.dumps(sql(store, query)))
        print(f"search on {device}: {stages['test']['seconds']:.1f} s", flush=True)
    print("equal ranks" if len(digests) == 1 else f"DIFFERENT RANKS: {digests}")
    torch.backends.cuda.matmul.allow_tf32 = False
    for _ in range(2):
        clock = time.perf_counter()
        there = [side.cuda() for side in sides]
        for queries, items in (there, there[::-1]):
            own, ranks = (queries * items).sum(1), []
            for start in range(0, count, 2048):
                scores = queries[start : start + 2048] @ items.T
                scores.topk(10, 1)
                ranks.append((scores > own[start : start + 2048, None]).sum(1))
            torch.cat(ranks).cpu()
        print(f"PyTorch, products, topk and counts on the GPU: {time.perf_counter() - clock:.2f} s", flush=True)


def ranks():
    text = Path("pipelines/quickstart.toml").read_text()
    text = text.replace("epochs = 12", "epochs = 4").replace("epochs = 9", "epochs = 3").replace("= 150", "= 1")
    one, _ = run("one", text, "cuda")
    gloo, _ = run("gloo", text, "cuda", "--set", "stage.fit.train.ranks=2")
    folder = WORK / "nccl"
    folder.mkdir()
    (folder / "pipeline.toml").write_text(text)
    finish(start_pair(folder, 29511), folder)
    logs = [folder / f"log{rank}" for rank in (0, 1)]
    lines = [line for log in logs for line in log.read_text().splitlines()]
    joined = [line for line in lines if "Init COMPLETE" in line]
    print(f"NCCL: {len(joined)} communicators, such as `{joined[0].split('INFO ')[1]}`")
    expected = losses(one)
    for name, store in (("two processes, gloo", gloo), ("two processes, NCCL", folder / "store")):
        difference = np.abs(losses(store) - expected) / np.abs(expected)
        print(f"{name}: difference in the loss of the first step {difference[0]:.1e}, of the tenth {difference[9]:.1e}")


def start_one(folder, rank=0, variables=None):
    """Process of a run on the GPU, as a list of one."""
    command = [PROGRAM, "run", "--quiet", "--store", folder / "store", "--device", "cuda", folder / "pipeline.toml"]
    log = (folder / f"log{rank}").open("w")
    STARTED.append(subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | (variables or {})))
    return STARTED[-1:]


def start_pair(folder, port):
    """Two processes of one training, which NCCL takes for two machines."""
    shared = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"PAIRLOOM_RANK_TOKEN": os.urandom(16).hex(), "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
    processes = []
    for rank in (0, 1):
        own = {"RANK": str(rank), "NCCL_HOSTID": f"machine{rank}", "NCCL_DEBUG": "INFO"}
        processes += start_one(folder, rank, shared | own)
    return processes


def finish(processes, folder):
    """Waits for processes, and shows the ends of their logs if one fails."""
    codes = [process.wait(120) for process in processes]
    assert not any(codes), (codes, [(folder / f"log{rank}").read_text()[-2000:] for rank in range(len(codes))])


def results(folder):
    """Digests of a model, of its losses and of the ranks of its vectors."""
    tables = ("train/*/model", "train/*/history", "evaluate/*/rankings")
    files = [path for table in tables for path in folder.glob(f"store/v1/{table}/*")]
    assert len({path.parent.name for path in files}) == 3, files
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def kills():
    text = Path("pipelines/quickstart.toml").read_text().replace("epochs = 12", "epochs = 6\ncheckpoint_steps = 20")
    ports = iter(range(29520, 29620))
    pair = lambda folder: start_pair(folder, next(ports))
    moment = random.Random(20)

    def new_folder(name):
        folder = WORK / f"kills-{name}"
        folder.mkdir()
        (folder / "pipeline.toml").write_text(text)
        return folder

    last_checkpoint = lambda folder: max((path.name for path in folder.glob("store/v1/train/*/state-*")), default="")

    for name, start, rounds in (("one process", start_one, 4), ("two processes, NCCL", pair, 2)):
        undisturbed = [new_folder(f"{name}-{copy}") for copy in "ab"]
        for folder in undisturbed:
            finish(start(folder), folder)
        expected = results(undisturbed[0])
        seconds = sql(undisturbed[0] / "store", "SELECT trained FROM store.stages WHERE trained IS NOT NULL")[0]["trained"]
        hits, after, codes, equal = 0, [], set(), 0
        for each in range(rounds):
            folder = new_folder(f"{name}-{each}")
            for _ in range(2):
                before = last_checkpoint(folder)
                processes = start(folder)
                while last_checkpoint(folder) == before and processes[0].poll() is None:
                    time.sleep(0.01)
                time.sleep(moment.uniform(0, 0.4) * seconds)
                victim = processes.pop(moment.randrange(len(processes)))
                victim.kill()
                clock = time.perf_counter()
                codes |= {process.wait(120) for process in processes}
                after += [time.perf_counter() - clock] * len(processes)
                victim.wait()
                hits += not list(folder.glob("store/v1/train/*/manifest.json"))
            finish(start(folder), folder)
            equal += results(folder) == expected
        again = "the same" if results(undisturbed[1]) == expected else "OTHER"
        print(f"{name}: {hits} of {2 * rounds} kills between the first checkpoint and the end of the training, {seconds:.1f} s; model, "
              f"losses and ranks of {equal} of {rounds} trainings have the bytes of an undisturbed one; a second "
              f"undisturbed one has {again} bytes", flush=True)  # fmt: skip
        if codes:
            print(f"the other process ended after {min(after):.1f} to {max(after):.1f} s, with codes {sorted(codes)}", flush=True)


for part in PARTS:
    print(f"## {part}", flush=True)
    {"models": models, "networks": networks, "train": train, "extract": extract, "search": search, "ranks": ranks, "kills": kills}[part]()
