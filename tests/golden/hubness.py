"""Writes hubness.json: hubness reduction methods, and measures of hubness and of retrieval, in float64.

    pip install numpy==2.4.6 scipy==1.17.1 POT==0.9.7.post1 scikit-learn==1.5.2 ranx==0.3.21 pytrec_eval-terrier==0.5.11
    pip download --no-deps --no-binary :all: scikit-hubness==0.21.1, and unpack it
    PYTHONPATH=scikit-hubness-0.21.1 python hubness.py

The formulas follow the papers. Where a library implements them, it is used: scikit-hubness for local scaling, NICDM,
mutual proximity, the item side of DisSimLocal, skewness, Robin Hood, Gini and antihubs; POT for Sinkhorn; scipy for
assignments; pytrec_eval and ranx for recalls, R-precision and mean average precision. scikit-hubness is imported module
by module, because the package imports search libraries that are not needed here.

Inputs are not in the file: Rust and Python compute them with the same linear congruential generator, without rounding.
The digest of a matrix in the file is its products with two streams, its squared norm, and its first and last two
values.
"""

import heapq
import importlib.util
import json
import math
import pathlib
import sys
import types

import numpy as np
import ot
import pytrec_eval
import ranx
import scipy
from scipy.optimize import linear_sum_assignment
from scipy.special import log_ndtr, logsumexp
from scipy.stats import skew

assert np.__version__ == "2.4.6" and scipy.__version__ == "1.17.1" and ot.__version__ == "0.9.7.post1"

# ------------------------------------------------------------------------------------------------- scikit-hubness, in parts

root = pathlib.Path(importlib.util.find_spec("skhubness").submodule_search_locations[0])
for name in ["skhubness", "skhubness.reduction", "skhubness.analysis"]:
    module = types.ModuleType(name)
    module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = module
sys.modules["skhubness.neighbors"] = types.SimpleNamespace(NearestNeighbors=None)
sys.modules["scipy.sparse.base"] = scipy.sparse
from skhubness.analysis.estimation import Hubness  # noqa: E402
from skhubness.reduction.dis_sim import DisSimLocal  # noqa: E402
from skhubness.reduction.local_scaling import LocalScaling  # noqa: E402
from skhubness.reduction.mutual_proximity import MutualProximity  # noqa: E402

# ---------------------------------------------------------------------------------------------------------------- inputs


def stream(seed, count):
    numbers, state = [], seed
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        numbers.append(state / 2**32)
    return np.array(numbers)


def scores(case, seed, queries, items):
    """Multiples of 1/1024 in [-3/4, 1), with higher scores for every fourth item. With ties: multiples of 1/8. With
    duplicates: every fifth row and column repeats the one before."""
    grid = 8 if case["ties"] else 1024
    s = np.floor(stream(seed, queries * items) * 1.5 * grid).reshape(queries, items) / grid - 0.75
    s += np.where(np.arange(items) % 4 == 1, 0.25, 0.0)
    if case["duplicates"]:
        s[4::5] = s[3::5][: len(s[4::5])]
        s[:, 4::5] = s[:, 3::5][:, : s[:, 4::5].shape[1]]
    return s


def vectors(seed, rows, width):
    return np.floor(stream(seed, rows * width) * 64).reshape(rows, width) / 32 - 1


def digest(matrix):
    flat = np.asarray(matrix, dtype=float).flatten()
    parts = [float(flat @ stream(seed, len(flat))) for seed in (101, 202)]
    return [*parts, float(flat @ flat), *map(float, flat[:2]), *map(float, flat[-2:])]


def close(a, b, tolerance=1e-9):
    assert np.allclose(a, b, rtol=tolerance, atol=tolerance), (a, b)


# --------------------------------------------------------------------------------------------------------------- methods

SMALLEST = 1e-12


def largest(matrix, k, axis):
    return -np.sort(-matrix, axis=axis).take(range(min(k, matrix.shape[axis])), axis=axis)


def inverted_softmax(s, bank, beta, own):
    if bank is not None or own:
        return beta * s - logsumexp(beta * (s if bank is None else bank), axis=0)
    others = [logsumexp(beta * np.delete(s, q, axis=0), axis=0) for q in range(len(s))]
    return beta * s - np.array(others)


def csls(s, bank, k):
    of_items = largest(s if bank is None else bank, k, 0).mean(axis=0)
    return 2 * s - largest(s, k, 1).mean(axis=1)[:, None] - of_items


def nnn(s, bank, alpha, k):
    return s - alpha * largest(bank, k, 0).mean(axis=0)


def distribution_normalisation(q, i, part):
    return (q - part * q.mean(axis=0)) @ (i - part * i.mean(axis=0)).T


def dual_softmax(s, beta):
    return s * np.exp(beta * s - logsumexp(beta * s, axis=0))


def ranking(s):
    return np.array([np.lexsort((np.arange(len(row)), -row)) for row in s])


def active(s, bank, k):
    retrieved = set(ranking(bank)[:, :k].flatten().tolist())
    return np.array([nearest in retrieved for nearest in ranking(s)[:, 0].tolist()])


def qb_norm(s, bank, beta, k):
    return np.where(active(s, bank, k)[:, None], beta * s - logsumexp(beta * bank, axis=0), s)


def db_norm(s, banks, betas, k, dynamic):
    total, corrected = np.zeros_like(s), np.zeros(len(s), dtype=bool)
    for bank, beta in zip(banks, betas):
        counts = active(s, bank, k) if dynamic else np.ones(len(s), dtype=bool)
        total[counts] += (beta * s - logsumexp(beta * bank, axis=0))[counts]
        corrected |= counts
    return np.where(corrected[:, None], total, s)


def sorted_distances(distance):
    order = np.argsort(distance, axis=1, kind="stable")
    return np.take_along_axis(distance, order, axis=1), order


def reduced(method, of_items, of_queries):
    """Distances of items to queries and of queries to items, as reduced by scikit-hubness."""
    method.fit(*sorted_distances(of_items))
    distances, order = sorted_distances(of_queries)
    got, _ = method.transform(distances, order)
    back = np.empty_like(got)
    np.put_along_axis(back, order, got, axis=1)
    return back


def squared(s, distance):
    return np.maximum(2 - 2 * s, 0) if distance == "cosine" else np.minimum(s, 0) ** 2


def linear(s, distance):
    return np.maximum(2 - 2 * s, 0) if distance == "cosine" else np.maximum(-s, 0)


def local_scaling(s, bank, k, distance):
    d = np.sqrt(squared(s, distance))
    of_items = np.sqrt(squared(s if bank is None else bank, distance)).T
    kth = lambda rows: np.maximum(np.sort(rows, axis=1)[:, min(k, rows.shape[1]) - 1], SMALLEST)
    sigma_q, sigma_i = kth(d), kth(of_items)
    got = np.exp(-(d**2) / (sigma_q[:, None] * sigma_i))
    # The library numbers neighbours from 0.
    if k <= min(d.shape[1], of_items.shape[1]) and sigma_q.min() > SMALLEST and sigma_i.min() > SMALLEST:
        close(got, 1 - reduced(LocalScaling(k=k - 1), of_items, d))
    return got


def nicdm(s, bank, k, distance):
    d, of_items = linear(s, distance), linear(s if bank is None else bank, distance).T
    mean = lambda rows: np.maximum(np.sort(rows, axis=1)[:, :k].mean(axis=1), SMALLEST)
    mu_q, mu_i = mean(d), mean(of_items)
    got = d / np.sqrt(mu_q[:, None] * mu_i)
    if mu_q.min() > SMALLEST and mu_i.min() > SMALLEST:
        close(got, reduced(LocalScaling(k=k - 1, method="nicdm"), of_items, d))
    return got


def mutual_proximity(s, bank):
    all_ = s if bank is None else bank
    z = lambda mean, deviation: (s - mean) / deviation
    z_q = z(s.mean(axis=1)[:, None], s.std(axis=1)[:, None])
    got = log_ndtr(z_q) + log_ndtr(z(all_.mean(axis=0), all_.std(axis=0)))
    close(np.exp(got), 1 - reduced(MutualProximity(), 2 - 2 * all_.T, 2 - 2 * s))
    return got


def empirical_proximity(s, of_items, of_queries):
    share = lambda list_: np.vectorize(lambda score: np.mean(list_ < score))
    from_query = np.array([share(of_queries[q])(s[q]) for q in range(len(s))])
    from_item = np.array([share(of_items[:, i])(s[:, i]) for i in range(s.shape[1])]).T
    return from_query * from_item


def joint(symmetric):
    """Empirical mutual proximity of all pairs of points (the paper's equation)."""
    n = len(symmetric)
    both = lambda i, j: np.mean((symmetric[i] < symmetric[i, j]) & (symmetric[j] < symmetric[i, j]))
    got = np.array([[both(i, j) for j in range(n)] for i in range(n)])
    d = 2 - 2 * symmetric
    close(got, 1 - reduced(MutualProximity(method="empiric"), d, d))
    return got


def dis_sim_local(q, i, k):
    square = lambda a, b: ((a[:, None] - b[None]) ** 2).sum(axis=2)
    among = square(i, i)
    np.fill_diagonal(among, np.inf)
    near = lambda d: np.argsort(d, axis=1, kind="stable")[:, :k]
    of_items = ((i - i[near(among)].mean(axis=1)) ** 2).sum(axis=1)
    of_queries = ((q - i[near(square(q, i))].mean(axis=1)) ** 2).sum(axis=1)
    library = DisSimLocal(k=k).fit(*sorted_distances(among), X=i)
    close(of_items, library.X_train_dist_to_centroids_)
    return square(q, i) - of_queries[:, None] - of_items


def localized_centering(q, i, k, gamma):
    among = i @ i.T
    np.fill_diagonal(among, -np.inf)
    affinity = largest(among, k, 1)
    affinity = np.where(np.isfinite(affinity), affinity, 0).sum(axis=1) / np.isfinite(affinity).sum(axis=1)
    return q @ i.T - np.maximum(affinity, 0) ** gamma


def sinkhorn(s, tau, iterations):
    n, m = s.shape
    h, g = np.full(m, tau * math.log(m)), None
    for _ in range(iterations):
        g = tau * (math.log(n) + logsumexp((s - h) / tau, axis=1))
        h = tau * (math.log(m) + logsumexp((s - g[:, None]) / tau, axis=0))
    # Transposed, because POT scales the second side first.
    _, log = ot.sinkhorn(
        np.full(m, 1 / m), np.full(n, 1 / n), 1 - s.T, reg=tau, numItermax=iterations, stopThr=0, warn=False, log=True
    )
    close(h - h[0], -tau * (np.log(log["u"]) - np.log(log["u"][0])))
    return h, g


def relaxed_greedy(s, k, relaxation, strict):
    """Algorithm 1, with both cases of the pool sizes, and an end when no pair is left."""
    n, m = s.shape
    capacity, total = math.floor(relaxation * k + 0.5), min(n, m) * k
    if not strict:
        capacity, total = math.ceil(capacity * max(1, n / m)), n * k
    rows, columns, matched = [[] for _ in range(n)], [0] * m, 0
    for place in np.lexsort((np.arange(n * m), -s.flatten())).tolist():
        if matched == total:
            break
        i, j = place // m, place % m
        if len(rows[i]) < k and columns[j] < capacity:
            rows[i].append(j)
            columns[j] += 1
            matched += 1
    return rows


def assignment(s):
    copies = -(-s.shape[0] // s.shape[1])
    _, columns = linear_sum_assignment(np.repeat(s, copies, axis=1), maximize=True)
    return float(sum(s[q, column // copies] for q, column in enumerate(columns)))


def k_best_assignments(s, k):
    """Sums of the k best assignments (Murty), with every subproblem solved anew. Items have sufficient capacity."""
    n, m = s.shape
    copies = -(-n // m)

    def best(fixed, without):
        allowed = np.ones_like(s, dtype=bool)
        for q, i in enumerate(fixed):
            allowed[q] = np.arange(m) == i
        for q, i in without:
            allowed[q, i] = False
        cost = np.repeat(np.where(allowed, -s, 1e6), copies, axis=1)
        items = linear_sum_assignment(cost)[1] // copies
        if all(allowed[np.arange(n), items]):
            heapq.heappush(open_, (-float(s[np.arange(n), items].sum()), tuple(items.tolist()), len(fixed), without))

    open_, sums = [], []
    best([], [])
    while open_ and len(sums) < k:
        loss, items, first, without = heapq.heappop(open_)
        sums.append(-loss)
        for q in range(first, n):
            best(items[:q], [(a, b) for a, b in without if a == q] + [(q, items[q])])
    return sums


# -------------------------------------------------------------------------------------------------------------- measures


def hubs(s, k):
    counts = np.bincount(ranking(s)[:, :k].flatten(), minlength=s.shape[1])
    gini = np.abs(counts[:, None] - counts[None]).sum() / (2 * len(counts) * counts.sum())
    close(gini, Hubness._calc_gini_index(counts, "time"))
    robin_hood = np.abs(counts - counts.mean()).sum() / (2 * counts.sum())
    close(robin_hood, Hubness._calc_robinhood_index(counts))
    _, antihubs = Hubness._calc_antihub_occurrence(counts)
    close(antihubs, (counts == 0).mean())
    # The library defines hubs by N >= 2k, for equal numbers of queries and items.
    _, occurrence = Hubness._calc_hub_occurrence(k, counts, len(s), hub_size=2 * len(s) / s.shape[1])
    is_hub = counts >= 2 * counts.mean()
    close(occurrence, counts[is_hub].sum() / counts.sum())
    flat = counts.max() == counts.min()
    skewness = 0.0 if flat else skew(counts)
    return list(map(float, [skewness, robin_hood, gini, antihubs, is_hub.mean(), occurrence, counts.max()]))


def split_mix(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        yield z ^ z >> 31


def bootstrap(measures, groups, resamples, level, seed):
    """Bootstrap with the random numbers of Pairloom, and resampling and percentiles by numpy."""
    state = next(split_mix(seed)) ^ int.from_bytes(b"bootstra", "big") * 0xFF51AFD7ED558CCD % 2**64
    numbers, sums = split_mix(state), []
    while len(sums) < resamples:
        drawn = [next(numbers) * groups >> 64 for _ in range(groups)]
        pick = [np.concatenate([np.flatnonzero(group == g) for g in drawn]) for _, group in measures]
        if all(len(chosen) for chosen in pick):
            sums.append(sum(values[chosen].mean() for (values, _), chosen in zip(measures, pick)))
    return [float(x) for x in np.percentile(sums, [50 - 50 * level, 50 + 50 * level])]


def randomisation(one, other, group):
    """Exact randomisation test: all swaps of all groups."""
    difference = np.bincount(group, weights=one - other)
    signs = 1 - 2 * (np.arange(2 ** len(difference))[:, None] >> np.arange(len(difference)) & 1)
    return float(np.mean(np.abs(signs @ difference) >= abs(difference.sum()) - 1e-9))


def retrieval(s, match):
    """R@K of the first hit, recall of relevant items, R-precision and mAP@R of each query, by two libraries."""
    qrel = {f"q{q}": {f"d{i}": int(match[q, i]) for i in range(s.shape[1])} for q in range(len(s))}
    place = np.argsort(ranking(s), axis=1)
    run = {f"q{q}": {f"d{i}": float(-place[q, i]) for i in range(s.shape[1])} for q in range(len(s))}
    names = {"success_1", "success_5", "success_10", "recall_5", "Rprec", "recip_rank"}
    got = pytrec_eval.RelevanceEvaluator(qrel, names).evaluate(run)
    result = {name: [got[f"q{q}"][name] for q in range(len(s))] for name in sorted(names)}
    relevant = match.sum(axis=1)
    ap = []
    for q in range(len(s)):
        one = {f"q{q}": {doc: 1 for doc, grade in qrel[f"q{q}"].items() if grade}}
        best = {f"q{q}": run[f"q{q}"]}
        ap.append(float(ranx.evaluate(ranx.Qrels(one), ranx.Run(best), f"map@{relevant[q]}")))
    return {**result, "map_at_r": ap}


# ------------------------------------------------------------------------------------------------------------------ cases

CASES = [
    dict(name="square", queries=9, items=9, bank=12, ties=False, duplicates=False),
    dict(name="images to captions", queries=6, items=30, bank=11, ties=False, duplicates=False),
    dict(name="captions to images", queries=30, items=6, bank=40, ties=False, duplicates=False),
    dict(name="ties", queries=20, items=12, bank=15, ties=True, duplicates=False),
    dict(name="duplicates", queries=25, items=15, bank=15, ties=False, duplicates=True),
    dict(name="one query", queries=1, items=7, bank=5, ties=False, duplicates=False),
    dict(name="no whole number of captions", queries=23, items=7, bank=9, ties=True, duplicates=True),
]
GREEDY = [(1, 1.0), (2, 1.0), (5, 1.0), (1, 1.5), (2, 1.25), (5, 1.3), (3, 2.0), (2, 1e9)]

cases = []
for number, case in enumerate(CASES):
    n, m, b = case["queries"], case["items"], case["bank"]
    seed = 1000 * (number + 1)
    s, bank = scores(case, seed, n, m), scores(case, seed + 1, b, m)
    item_bank, of_queries = scores(case, seed + 2, b + 3, m), scores(case, seed + 3, n, b)
    bank_of_banks = scores(case, seed + 4, b, 8)
    q, i = vectors(seed + 5, n, 5), vectors(seed + 6, m, 5)
    negative = s - 1
    got = {"inverted_softmax": [], "csls": [], "local_scaling": [], "nicdm": [], "mutual_proximity": []}
    for beta in (30.0, 300.0):
        for own in (False, True) if n > 1 else (True,):
            got["inverted_softmax"].append(digest(inverted_softmax(s, None, beta, own)))
        got["inverted_softmax"].append(digest(inverted_softmax(s, bank, beta, False)))
    for over in (None, bank):
        for k in (1, 3, 50):
            got["csls"].append(digest(csls(s, over, k)))
            for distance, of in (("cosine", s), ("order", negative)):
                other = over if over is None or distance == "cosine" else over - 1
                got["local_scaling"].append(digest(local_scaling(of, other, k, distance)))
                got["nicdm"].append(digest(nicdm(of, other, k, distance)))
        if over is not None or n > 1:
            got["mutual_proximity"].append(digest(mutual_proximity(s, over)))
    got["nnn"] = [digest(nnn(s, bank, 0.75, 4)), digest(nnn(s, bank, 0.5, 128))]
    got["distribution_normalisation"] = [digest(distribution_normalisation(q, i, part)) for part in (0.5, 1.0)]
    got["dual_softmax"] = [digest(dual_softmax(s, beta)) for beta in (20.0, 100.0)]
    got["qb_norm"] = [digest(qb_norm(s, bank, beta, k)) for beta, k in ((20.0, 1), (5.0, 2))]
    got["db_norm"] = [
        digest(db_norm(s, (bank, item_bank), betas, k, dynamic))
        for betas, k, dynamic in (((1 / 1.99, 3.0), 1, False), ((1 / 1.99, 3.0), 1, True), ((7.0, 2.0), 2, True))
    ]
    got["empirical_proximity"] = [digest(empirical_proximity(s, *over)) for over in ((bank, of_queries), (s, s))]
    got["dis_sim_local"] = [digest(dis_sim_local(q, i, k)) for k in (1, 3)]
    got["localized_centering"] = [digest(localized_centering(q, i, k, gamma)) for k, gamma in ((1, 1.0), (3, 2.0), (50, 0.5))]
    if n == m:
        got["joint"] = [digest(joint((s + s.T) / 2 + np.eye(n)))]
    got["sinkhorn"] = []
    for tau, iterations in ((0.05, 1), (0.05, 10), (0.2, 4)):
        h, g = sinkhorn(s, tau, iterations)
        got["sinkhorn"].append(digest(np.concatenate([h, g])))
    both = np.concatenate([bank, bank_of_banks], axis=1)
    got["dual_bank_sinkhorn"] = [digest(sinkhorn(both, 0.05, 10)[0][:m])]
    matchings = [relaxed_greedy(s, k, relaxation, strict) for k, relaxation in GREEDY for strict in (False, True)]
    match = np.arange(m)[None] * n // m == np.arange(n)[:, None] if n <= m else np.arange(n)[:, None] * m // n == np.arange(m)
    result = {**case, "methods": got, "assignment": assignment(s)}
    result["k_best_assignments"] = k_best_assignments(s, 8)
    # Items of all queries in sequence, with a full stop after each query.
    result["relaxed_greedy"] = ["".join("".join(f"{i} " for i in row) + "." for row in rows) for rows in matchings]
    result["hubs"] = [hubs(s, k) for k in (1, 2, 5)]
    result["retrieval"] = retrieval(s, match)
    cases.append(json.dumps(result, separators=(",", ":")))

values = [np.floor(stream(seed, 60) * 2) * 100 for seed in (7, 8, 9)]
groups = [np.arange(60) // 5, np.arange(60) // 5, np.arange(60) % 12]
measures = list(zip(values, groups))
resampling = {
    "one": bootstrap(measures[:1], 12, 200, 0.95, 3),
    "three": bootstrap(measures, 12, 300, 0.9, 4),
    "randomisation": [randomisation(values[0], values[1], groups[0]), randomisation(values[1], values[2], groups[2])],
}
z = [-1e10, -1000.0, -40.0, -16.0, -8.5, -3.0, -2.6, -2.5, -2.4, -1.0, -0.1, 0.0, 0.1, 1.0, 2.4, 2.5, 2.6, 5.0, 8.0]
normal = {"z": z, "log_ndtr": log_ndtr(z).tolist()}
parts = ['{"cases":[', ",\n".join(cases), '],\n"resampling":', json.dumps(resampling, separators=(",", ":"))]
parts += [',\n"normal":', json.dumps(normal, separators=(",", ":")), "}\n"]
(pathlib.Path(__file__).parent / "hubness.json").write_text("".join(parts))
