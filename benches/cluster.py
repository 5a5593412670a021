"""An evaluation in one process and on clusters of this machine: seconds, bytes between processes, equal tables, kills.

    python benches/cluster.py [--program PATH] [--images N] [--captions M] [--width D] [--executors 0 1 2 4] [--turns T] [--kills]

Writes random unit vectors (M is a multiple of N) and ingests them once. Every measurement begins with a store of its own that
has only the vectors, with a cache of its own, and with a scheduler and executors of its own, which have one thread each;
0 executors is `pairloom run` without a cluster, with all threads. Needs numpy, and `unshare` and `ip` of Linux.

A line for each measurement:
    seconds      of the stage `evaluate`, as the store records them, and of the whole command
    sockets      bytes on the loopback interface while the command ran, with headers. All processes are in a network namespace of
                 their own (`unshare --net`), so these are theirs. Without the right to make one, those of the whole machine.
    store        bytes that executors and the run wrote to files and read from them, as the kernel counts their calls
                 (`/proc/PID/io`, read ten times a second). Vectors and results travel this way. Of an executor that was
                 killed, those until then.
    tables       digest of all parts of the tables of `evaluate`. It must be the same for all.
With --kills, an executor of two is killed (`kill -9`) at five moments: 10, 30, 50, 70 and 90 % of the shortest time of a
command with two. The tasks that it had go to the other one after --executor-timeout.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NAMESPACE = "PAIRLOOM_BENCH_NAMESPACE"
VECTORS = """
[stage.theirs.ingest.embeddings]
images = "images.npy"
captions = "captions.npy"
captions_per_image = {captions_per_image}
"""
EVALUATION = """
[stage.test.evaluate]
images = "theirs.image_embeddings"
captions = "theirs.caption_embeddings"
dataset = "theirs"
methods = [{methods}]
"""


def in_own_namespace():
    """Starts this program again in a network namespace of its own. Returns true there, and false if there can be none."""
    if os.environ.get(NAMESPACE):
        return os.environ[NAMESPACE] == "own"
    command = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and subprocess.run([*command, "ip", "link", "set", "lo", "up"], stderr=subprocess.DEVNULL).returncode == 0:
        script = 'ip link set lo up && exec "$@"'
        os.environ[NAMESPACE] = "own"
        os.execvp("unshare", [*command, "sh", "-c", script, "sh", sys.executable, *sys.argv])
    return False


def loopback_bytes():
    for line in open("/proc/net/dev"):
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    raise SystemExit("there is no loopback interface")


def read_and_written(process):
    """Bytes of the calls of a process that read and wrote files; None if it has ended."""
    try:
        counts = dict(line.split(": ") for line in open(f"/proc/{process.pid}/io").read().splitlines())
    except (OSError, ValueError):
        return None
    return int(counts["rchar"]), int(counts["wchar"])


class Server:
    """Scheduler or executor, which listens when this is made."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.event = json.loads(self.process.stdout.readline())

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.stores = options, folder, 0
        self.pipeline, self.ingested = os.path.join(folder, "pipeline.toml"), os.path.join(folder, "ingested")
        vectors = VECTORS.format(captions_per_image=options.captions // options.images)
        with open(self.pipeline, "w") as file:
            file.write(vectors)
        subprocess.run(self.run_arguments(self.ingested), check=True)
        with open(self.pipeline, "w") as file:
            file.write(vectors + EVALUATION.format(methods=", ".join(options.methods)))

    def run_arguments(self, store):
        # The cache of the user has the searches of earlier turns.
        return [self.options.program, "run", "--quiet", "--store", store, "--cache", f"{store}-cache", self.pipeline]

    def measure(self, executors, kill_after=None):
        self.stores += 1
        store = os.path.join(self.folder, f"store{self.stores}")
        shutil.copytree(self.ingested, store)
        servers, arguments, options = [], self.run_arguments(store), self.options
        try:
            if executors:
                timeout = str(options.executor_timeout)
                scheduler = [options.program, "cluster", "scheduler", "--json", "--address", "127.0.0.1:0"]
                servers.append(Server(*scheduler, "--executor-timeout", timeout))
                uri = servers[0].event["uri"]
                executor = [options.program, "cluster", "executor", "--json", "--threads", "1", "--scheduler", uri]
                for _ in range(executors):
                    servers.append(Server(*executor, "--store", store))
                arguments += ["--cluster", uri]
            return self.run(store, arguments, servers[1:], kill_after)
        finally:
            for server in reversed(servers):
                server.stop()
            for made in (store, f"{store}-cache"):
                shutil.rmtree(made, ignore_errors=True)

    def run(self, store, arguments, executors, kill_after):
        """Runs the command beside executors, and prints its line. Returns its seconds and the digest of its tables."""
        sockets = loopback_bytes()
        before = {executor: read_and_written(executor.process) for executor in executors}
        counts, of_run, killed = dict(before), (0, 0), False
        start = time.time()
        run = subprocess.Popen(arguments)
        while run.poll() is None:
            of_run = read_and_written(run) or of_run
            for executor in executors:
                counts[executor] = read_and_written(executor.process) or counts[executor]
            if kill_after is not None and not killed and time.time() - start >= kill_after:
                executors[0].process.kill()
                executors[0].process.wait()
                killed = True
            time.sleep(0.1 if kill_after is None else 0.01)
        total = time.time() - start
        sockets = loopback_bytes() - sockets
        assert run.returncode == 0, "the evaluation failed"
        for executor in executors:
            counts[executor] = read_and_written(executor.process) or counts[executor]
        read, written = (sum(counts[executor][i] - before[executor][i] for executor in executors) for i in range(2))
        sql = "SELECT seconds FROM store.stages WHERE stage = 'test' ORDER BY run DESC LIMIT 1"
        query = [self.options.program, "sql", "--quiet", "--format", "csv", "--store", store, sql]
        seconds = float(subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()[1])
        digest = digest_of(os.path.join(store, "v1", "evaluate"))
        name = f"{len(executors)} executors" if executors else "in the process"
        if kill_after is not None:
            name += f", {'one killed after' if killed else 'which ended before a kill at'} {kill_after:.1f} s"
        megabytes = [f"{count / 1e6:.1f}" for count in (sockets, written, read, of_run[1], of_run[0])]
        print(
            f"{name}: {seconds:.2f} s, whole command {total:.2f} s, sockets {megabytes[0]} MB, executors wrote "
            f"{megabytes[1]} MB and read {megabytes[2]} MB, run wrote {megabytes[3]} MB and read {megabytes[4]} MB, "
            f"tables {digest}",
            flush=True,
        )
        return total, digest


def digest_of(folder):
    """Digest of the paths and contents of all Parquet parts below a folder."""
    digest = hashlib.sha256()
    parts = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if name.endswith(".parquet")]
    for part in sorted(parts):
        digest.update(os.path.relpath(part, folder).encode())
        with open(part, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def write_vectors(path, count, width, seed):
    import numpy as np

    draw = np.random.default_rng(seed)
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, width))
    for start in range(0, count, 10_000):
        some = draw.standard_normal((min(10_000, count - start), width), dtype=np.float32)
        vectors[start : start + len(some)] = some / np.linalg.norm(some, axis=1, keepdims=True)
    vectors.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/pairloom")
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--captions", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--executors", type=int, nargs="*", default=[0, 1, 2, 4])
    parser.add_argument("--methods", nargs="*", default=['"nns"'], help="as in a pipeline file")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--executor-timeout", type=int, default=15)
    parser.add_argument("--folder", help="for vectors and stores, in place of a temporary one")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    if not os.access(options.program, os.X_OK):
        parser.error(f"there is no program `{options.program}`: `cargo xtask build`, or name another by --program")
    if options.captions % options.images:
        parser.error(f"{options.captions} captions are no multiple of {options.images} images")
    is_own = in_own_namespace()
    print(f"{options.images:,} × {options.captions:,} × {options.width}, {os.cpu_count()} cores", flush=True)
    if not is_own:
        print("no network namespace can be made: sockets are those of the whole machine", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for seed, (name, count) in enumerate([("images", options.images), ("captions", options.captions)]):
            write_vectors(os.path.join(folder, f"{name}.npy"), count, options.width, seed)
        bench = Bench(options, folder)
        digests, times = set(), []
        # In turns, so that a change of the machine meets all.
        for _ in range(options.turns):
            for executors in options.executors:
                total, digest = bench.measure(executors)
                digests.add(digest)
                if executors == 2:
                    times.append(total)
        if options.kills:
            of_two = min(times) if times else bench.measure(2)[0]
            for share in (0.1, 0.3, 0.5, 0.7, 0.9):
                digests.add(bench.measure(2, share * of_two)[1])
        assert len(digests) == 1, f"the tables differ: {sorted(digests)}"
        print(f"all tables are equal: {digests.pop()}")


if __name__ == "__main__":
    main()
