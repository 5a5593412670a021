"""Writes measure.txt: ranks, recalls and intervals by numpy in float64, with full sorts.

python tests/golden/measure.py > tests/golden/measure.txt

Scores are dot products of random unit vectors. Images have two to six captions, some of them identical, so that there
are ties. Scores are rounded to f32, so that ties do not depend on the order of summation. Lines: `name value …`; floats
as Python prints them (shortest form that reads back equal).
"""

import numpy as np
import scipy
from scipy.stats import binomtest

assert np.__version__ == "2.4.6" and scipy.__version__ == "1.17.1"

rng = np.random.default_rng(20)
IMAGES, WIDTH = 30, 12
images = rng.standard_normal((IMAGES, WIDTH))
images /= np.linalg.norm(images, axis=1, keepdims=True)
images[17] = images[4]
image_of, captions = [], []
for image in range(IMAGES):
    for k in range(2 + image % 5):
        caption = images[image] * 0.7 + rng.standard_normal(WIDTH) * 0.45
        if k == 1 and image % 3 == 0:
            caption = captions[len(captions) // 2]
        captions.append(caption / np.linalg.norm(caption))
        image_of.append(image)
images, captions, image_of = images.astype(np.float32), np.array(captions, np.float32), np.array(image_of)
scores = (images.astype(np.float64) @ captions.astype(np.float64).T).astype(np.float32)


def ranks(scores, match, tie):
    out = []
    for row, hit in zip(scores.astype(np.float64), match):
        order = np.lexsort((tie(hit), -row))
        out.append(int(np.flatnonzero(hit[order])[0]))
    return np.array(out)


def show(name, values):
    print(name, *(str(v) for v in values))


show("width", [WIDTH])
show("image_of", image_of)
show("images", images.reshape(-1))
show("captions", captions.reshape(-1))
match = np.arange(IMAGES)[:, None] == image_of[None, :]
for name, s, m in (("i2t", scores, match), ("t2i", scores.T, match.T)):
    index = ranks(s, m, lambda hit: np.arange(len(hit)))
    show(name + "_rank", index)
    show(name + "_optimistic", ranks(s, m, lambda hit: ~hit))
    show(name + "_pessimistic", ranks(s, m, lambda hit: hit))
    show(name + "_recalls", [100.0 * np.count_nonzero(index < k) / len(index) for k in (1, 5, 10)])
    show(name + "_middle", [np.floor(np.median(index)) + 1, index.mean() + 1])
    show(name + "_top3", np.array([np.lexsort((np.arange(len(r)), -r.astype(np.float64)))[:3] for r in s]).reshape(-1))
    for k in (1, 5, 10):
        hits = int(np.count_nonzero(index < k))
        ci = binomtest(hits, len(index)).proportion_ci(0.95, method="wilson")
        show(f"{name}_wilson_{k}", [100 * ci.low, 100 * ci.high])
