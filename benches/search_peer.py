"""Retrieval of images and captions by PyTorch, FAISS and numpy, on request, for benches/search.rs.

Arguments: a folder with the f32 vectors `images` and `captions`, number of threads, width, length of lists. Every input
line is the name of a task; the answer is its wall time and CPU time in seconds. Tasks: `product` (matrix product by
torch in f32), `topk` (torch: product, best items in both directions, and counts for ranks), `faiss` (IndexFlatIP in
both directions; writes its lists to `i2t` and `t2i`), `argsort` (the loops of VSE++'s evaluation).
"""

import os
import sys
import time

folder = sys.argv[1]
threads, width, top = map(int, sys.argv[2:5])
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(threads)

import numpy as np
import torch

try:
    import faiss
except ImportError:
    sys.exit("the peer needs faiss: pip install faiss-cpu")

torch.set_num_threads(threads)
faiss.omp_set_num_threads(threads)
images, captions = (
    np.fromfile(os.path.join(folder, name), dtype=np.float32).reshape(-1, width) for name in ("images", "captions")
)
each = len(captions) // len(images)
image_tensor, caption_tensor = torch.from_numpy(images), torch.from_numpy(captions)


def product():
    return image_tensor @ caption_tensor.T


def topk():
    scores = product()
    scores.topk(top, dim=1)
    scores.T.contiguous().topk(top, dim=1)


def flat():
    lists = []
    for name, queries, items in (("i2t", images, captions), ("t2i", captions, images)):
        index = faiss.IndexFlatIP(width)
        index.add(items)
        lists.append((name, index.search(queries, top)[1]))
    return lists


def argsort():
    for index in range(len(images)):
        order = np.argsort(np.dot(images[index], captions.T).flatten())[::-1]
        min(np.where(order == i)[0][0] for i in range(each * index, each * index + each))
    for index in range(len(images)):
        scores = np.dot(captions[each * index : each * index + each], images.T)
        for row in scores:
            np.where(np.argsort(row)[::-1] == index)[0][0]


work = {"product": product, "topk": topk, "faiss": flat, "argsort": argsort}
for line in sys.stdin:
    started, busy = time.perf_counter(), time.process_time()
    result = work[line.strip()]()
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    if line.strip() == "faiss":
        for name, ids in result:
            ids.astype("<i8").tofile(os.path.join(folder, name))
    del result
    print(seconds, busy, flush=True)
