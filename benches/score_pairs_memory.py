"""Peak memory and time of `score_pairs` and `evaluate` over all pairs of many images and captions.

    python benches/score_pairs_memory.py target/release/pairloom Flickr8k.token.txt [IMAGES]

IMAGES (5,000) images of 36 random regions of 2,048 values, five captions each, SCAN with a joint space of 1,024. The
model is trained for one epoch on 128 images. Prints the peak of the stage alone, and of a process that trains first.
The peak counts the pages of files that are mapped, such as the regions that `evaluate` reads.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy

REGIONS, WIDTH, TRAIN, VALIDATION = 36, 2_048, 128, 32

INGEST_AND_TRAIN = """
[stage.pairs.ingest]
precomp = {{ folder = "{folder}", regions = true }}

[stage.fit.train]
regions = "pairs.regions"
captions = "pairs.captions"
loss = {{ max = {{ margin = 0.2 }} }}
model.scan = {{ embed_size = 1024 }}
epochs = 1
batch_size = 128
"""

SCORES = """
[stage.pairwise.score_pairs]
model = "fit.model"
regions = "pairs.regions"
captions = "pairs.captions"
"""

METRICS = """
[stage.test.evaluate]
model = "fit.model"
regions = "pairs.regions"
captions = "pairs.captions"
dataset = "f8k"
protocols = ["all"]
"""


def write_folder(folder, captions, images):
    random = numpy.random.default_rng(1)
    for split, count in [("train", TRAIN), ("dev", VALIDATION), ("test", images)]:
        path = os.path.join(folder, f"{split}_ims.npy")
        array = numpy.lib.format.open_memmap(path, "w+", numpy.float32, (count, REGIONS, WIDTH))
        for start in range(0, count, 100):
            array[start : start + 100] = random.standard_normal((min(100, count - start), REGIONS, WIDTH))
        array.flush()
        with open(os.path.join(folder, f"{split}_caps.txt"), "w") as file:
            file.writelines(captions[number % len(captions)] + "\n" for number in range(5 * count))


def run(pairloom, file, store, title):
    start = time.time()
    process = subprocess.Popen([pairloom, "run", "--quiet", "--store", store, file])
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"{file}: status {status}"
    print(f"{title}: {time.time() - start:.0f} s, peak {usage.ru_maxrss / 2**20:.2f} GiB", flush=True)


def main():
    pairloom, captions, *more = sys.argv[1:]
    images = int(more[0]) if more else 5_000
    with open(captions) as file:
        captions = [line.rstrip("\n").split("\t")[1] for line in file]
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, captions, images)
        files = {}
        train = INGEST_AND_TRAIN.format(folder=folder)
        for name, text in [("train", train), ("scores", train + SCORES), ("metrics", train + METRICS)]:
            files[name] = os.path.join(folder, f"{name}.toml")
            with open(files[name], "w") as file:
                file.write(text)
        store = os.path.join(folder, "store")
        run(pairloom, files["train"], store, "ingest and train")
        run(pairloom, files["scores"], store, "score_pairs")
        run(pairloom, files["metrics"], store, "evaluate with the model")
        run(pairloom, files["scores"], os.path.join(folder, "other"), "ingest, train and score_pairs in one process")


if __name__ == "__main__":
    main()
