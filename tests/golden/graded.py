"""Writes graded.txt: Semantic Recall, NCS, mAP@R and R-precision by numpy in float64, with full sorts.

python tests/golden/graded.py > tests/golden/graded.txt

40 images with 5 captions each. φ and scores are hashes of their indices, so that the test can compute them too. φ is a
multiple of 1/64, high for an image's own captions and often 0, with many ties; ties are ordered by index. Lines:
`direction measure variant ground_truth m k mean`, with `-` for fields that a measure does not have. Means are over
queries, from 0 to 1.
"""

import numpy as np

assert np.__version__ == "2.4.6"

IMAGES, EACH, LIST = 40, 5, 30
CUTOFFS, NEIGHBOURS = (1, 5, 10, 30), (1, 3, 8)


def draw(salt, place):
    x = ((place + 1) * 2654435761 + salt) % 2**32
    x ^= x >> 16
    x = x * 2246822519 % 2**32
    return x ^ (x >> 13)


captions = IMAGES * EACH
owner = np.arange(captions) // EACH
phi = np.zeros((IMAGES, captions))
scores = np.zeros((IMAGES, captions))
for i in range(IMAGES):
    for c in range(captions):
        place = i * captions + c
        phi[i, c] = max(0, draw(1, place) % 300 - 150 + (120 if owner[c] == i else 0)) / 64
        scores[i, c] = draw(2, place) % 1000 + phi[i, c] * 100


def order(values):
    return np.lexsort((np.arange(len(values)), -values))


def official_images(image, keep, m):
    total = {}
    for c in np.flatnonzero(owner == image):
        for other in order(phi[:, c])[:LIST]:
            total[other] = total.get(other, 0.0) + phi[other, c]
    ranked = sorted((i for i in total if keep or i != image), key=lambda i: (-total[i], i))
    return ranked[:m]


def measures(direction, query, keep):
    if direction == "i2t":
        rel, sim, own, image = phi[query], scores[query], np.flatnonzero(owner == query), query
    else:
        rel, sim, own, image = phi[:, query], scores[:, query], np.array([owner[query]]), owner[query]
    ranking, ideal = order(sim), order(rel)
    if not keep:
        ranking, ideal = ranking[~np.isin(ranking, own)], ideal[~np.isin(ideal, own)]
    for k in CUTOFFS:
        yield ("ncs", "official", "-", k), rel[ranking[:k]].mean() / (rel[ideal[:k]].mean() + 1e-10)
        n = min(k, len(ideal))
        weights = np.log2(k - np.arange(n) + 1)
        found, best = (rel[ranking[:k]] * weights).mean(), (rel[ideal[:k]] * weights).mean()
        yield ("ncs_ordered", "official", "-", k), found / (best + 1e-10)
    for m in NEIGHBOURS:
        near = ideal[:m]
        for k in CUTOFFS:
            both = np.intersect1d(ranking[:k], near)
            yield ("semantic_recall", "paper", m, k), len(both) / len(near)
            yield ("ncs", "paper", m, k), rel[both].sum() / rel[near].sum() if rel[near].sum() > 0 else 0.0
        hit = np.isin(ranking, near)[: len(near)]
        precision = np.cumsum(hit) / np.arange(1, len(hit) + 1)
        yield ("map_at_r", "-", m, "-"), (precision * hit).sum() / len(near)
        yield ("r_precision", "-", m, "-"), hit.mean()
        images = official_images(image, keep, m)
        near = np.flatnonzero(np.isin(owner, images)) if direction == "i2t" else np.array(images)
        for k in CUTOFFS:
            both = np.intersect1d(ranking[:k], near)
            yield ("semantic_recall", "official", m, k), len(both) / len(near)
            yield ("semantic_recall_any", "official", m, k), float(len(both) > 0)
            yield ("semantic_recall_soft", "official", m, k), rel[both].sum() / (rel[near].sum() + 1e-20) / len(near)


for direction, queries in (("i2t", IMAGES), ("t2i", captions)):
    for keep in (True, False):
        sums = {}
        for query in range(queries):
            for name, value in measures(direction, query, keep):
                sums[name] = sums.get(name, 0.0) + value
        for (name, variant, m, k), value in sums.items():
            print(direction, name, variant, str(keep).lower(), m, k, repr(float(value / queries)))
