"""Writes losses.json: values and gradients of every objective by PyTorch 2.11 in double precision.

    python losses.py

The formulas are those of the papers or, where `variant` is `official`, of the published code, for one query at a time.
Gradients in the scores are by autograd. Inputs are not in the file: Rust and Python compute them with the same linear
congruential generator, without rounding. A result has the value and, of the gradient, its products with two streams,
its squared norm and its first four entries, and then the derivatives in the learned scalars. The index of an objective is
its training step.
"""

import json
import math
import pathlib

import torch
from torch import tensor

assert torch.__version__.startswith("2.11.0")
torch.set_default_dtype(torch.float64)

INF = math.inf


# ---------------------------------------------------------------------------------------------------------------- inputs


def stream(seed, count):
    numbers, state = [], seed
    for _ in range(count):
        state = (1664525 * state + 1013904223) % 2**32
        numbers.append(state / 2**32)
    return numbers


class Inputs:
    def __init__(self, n, scale, ties, masked, rows):
        self.n = n
        grid = lambda u: math.floor(u * 8) / 8 if ties else u
        near = [[0.25 if i == j else 0.0 for j in range(n)] for i in range(n)]
        u = stream(n, n * n)
        self.s = tensor([[scale * (grid(u[i * n + j]) - 0.5 + near[i][j]) for j in range(n)] for i in range(n)])
        self.s.requires_grad_()
        self.scalars = []
        u = stream(n + 1, n * rows)
        self.to_captions = [
            [-INF if (i * 7 + m) % 13 == 0 else scale * (u[i * rows + m] - 0.5) for m in range(rows)] for i in range(n)
        ]
        u = stream(n + 2, n * rows)
        self.to_images = [
            [-INF if (i * 5 + m) % 11 == 0 else scale * (u[i * rows + m] - 0.5) for m in range(rows)] for i in range(n)
        ]
        u = stream(n + 3, n * n)
        self.phi = [[3 * u[i * n + j] + 8 * near[i][j] for j in range(n)] for i in range(n)]
        images = (3 * n + 3) // 4
        self.same = [[masked and i != j and i % images == j % images for j in range(n)] for i in range(n)]

    def learn(self, value):
        """Scalar that is trained, at its initial value."""
        self.scalars.append(tensor(value, requires_grad=True))
        return self.scalars[-1]

    def negatives(self, i):
        """Indices of the captions that are negatives of image i. The images that are negatives of caption i have the
        same indices."""
        return [j for j in range(self.n) if j != i and not self.same[i][j]]


def by_score(candidates, score):
    """Indices by descending score; ties are ordered by index."""
    return sorted(candidates, key=lambda c: (-score(c), c))


# ------------------------------------------------------------------------------------------------- objectives on triplets


def hinges(x, margin, i, captions, images):
    """Hinges of the triplets of image i with some captions, and of caption i with some images."""
    row = torch.relu(margin + x[i, captions] - x[i, i]).sum() if captions else 0
    column = torch.relu(margin + x[images, i] - x[i, i]).sum() if images else 0
    return row + column


def triplet(inputs, x, margin, k):
    plain = x.detach().tolist()
    total = (x * 0).sum()
    for i in range(inputs.n):
        captions = by_score(inputs.negatives(i), lambda j: plain[i][j])[:k]
        images = by_score(inputs.negatives(i), lambda j: plain[j][i])[:k]
        total = total + hinges(x, margin, i, captions, images)
    return total


def local_scaling(inputs, margin, k, over, density):
    n, s = inputs.n, inputs.s
    plain = s.detach().tolist()
    seen = s.detach() if density == "detached" else s
    rows = []
    for i in range(n):
        row = []
        for j in range(n):
            texts = [t for t in range(n) if t != j and not inputs.same[i][t]]
            texts = by_score(texts, lambda t: plain[i][t])[:k]
            images = [m for m in range(n) if m != i and not inputs.same[m][j]]
            images = by_score(images, lambda m: plain[m][j])[:k]
            mean_texts = seen[i, texts].mean() if texts else tensor(0.0)
            mean_images = seen[images, j].mean() if images else tensor(0.0)
            row.append(s[i, j] * torch.exp(mean_texts + mean_images))
        rows.append(torch.stack(row))
    return triplet(inputs, torch.stack(rows), margin, n if over == "sum" else 1)


# ------------------------------------------------------------------------------------------------------- HAL and InfoNCE


def weights_from_bank(inputs, variant, neighbours, alpha, beta, epsilon_positive, epsilon_negative):
    n, own = inputs.n, [inputs.s[i, i].item() for i in range(inputs.n)]
    k = min(neighbours, n) if variant == "official" else neighbours
    captions = [sorted(scores, reverse=True)[:k] for scores in inputs.to_captions]
    images = [sorted(scores, reverse=True)[:k] for scores in inputs.to_images]
    e = math.exp
    if variant == "paper":
        term = lambda s: e(beta * (s - epsilon_negative))
        matching = lambda s: e(beta * (s - epsilon_positive))
        epsilon = epsilon_negative
    else:
        term = lambda s: e(beta * s - epsilon_negative)
        matching = lambda s: e(beta * s)
        epsilon = epsilon_positive
    negative = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            around = sum(map(term, captions[i])) + sum(map(term, images[j]))
            negative[i][j] = around / (around + matching(own[i]) + matching(own[j]))
    positive = []
    for i in range(n):
        around = sum(e(alpha * (s - epsilon)) for s in captions[i] + images[i])
        q = e(alpha * (own[i] - epsilon_positive))
        positive.append(1 - q / (q + around))
    return negative, positive


def hal(inputs, bank, gamma, epsilon, variant="paper", max=None):
    n, s = inputs.n, inputs.s
    one = [[1.0] * n for _ in range(n)]
    w, w_own = weights_from_bank(inputs, variant, **bank) if bank else (one, [1.0] * n)
    w = tensor(w)
    # Value on the diagonal in the published code.
    extra = 0.0 if variant == "paper" else 1.0 if bank else math.exp(-gamma * epsilon)
    total = 0
    for i in range(n):
        others = inputs.negatives(i)
        across = torch.exp(gamma * w[i, others] * (s[i, others] - epsilon)).sum()
        down = torch.exp(gamma * w[others, i] * (s[others, i] - epsilon)).sum()
        total = total + (torch.log(1 + extra + across) + torch.log(1 + extra + down)) / gamma
        x = w_own[i] * s[i, i]
        if variant == "official":
            total = total - torch.log(1 + torch.relu(x))
        elif x.item() >= -0.99:
            total = total - torch.log(1 + x)
        else:  # the tangent in 0.01
            total = total - (math.log(0.01) + (1 + x - 0.01) / 0.01)
    if max is not None:
        total = total + triplet(inputs, s, max, 1)
    return total / n


def info_nce(inputs, temperature, learned=False):
    n = inputs.n
    logits = inputs.s * torch.exp(inputs.learn(-math.log(temperature))) if learned else inputs.s / temperature
    total = 0
    for i in range(n):
        others = [i, *inputs.negatives(i)]
        for candidates in (logits[i, others], logits[others, i]):
            total = total - torch.log_softmax(candidates, 0)[0]
    return total / (2 * n)


def sigmoid(inputs, temperature, bias, learned=False):
    if learned:
        temperature, bias = torch.exp(inputs.learn(math.log(temperature))), inputs.learn(bias)
    n, logits = inputs.n, inputs.s * temperature + bias
    total = 0
    for i in range(n):
        total = total + torch.log1p(torch.exp(-logits[i, i])) + torch.log1p(torch.exp(logits[i, inputs.negatives(i)])).sum()
    return total / n


# -------------------------------------------------------------------------------------------------------------------- SAM


def split_mix(state):
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        yield z ^ z >> 31


def draws(n, seed, step, side):
    """Random numbers of Pairloom: a stream for each path of numbers below the seed."""
    state = seed
    for part in (int.from_bytes(b"negative", "big"), step, side):
        state = next(split_mix(state)) ^ part * 0xFF51AFD7ED558CCD % 2**64
    numbers = split_mix(state)
    return [(next(numbers) >> 11) / 2**53 for _ in range(n)]


def semantic_margin(inputs, seed, step, temperature, sampler, variant, largest_margin):
    n, s, phi = inputs.n, inputs.s, inputs.phi
    plain = s.detach().tolist()
    coins = [draws(n, seed, step, side) for side in (0, 1)]
    cut = INF if largest_margin is None else largest_margin
    margin = lambda i, j: min((phi[i][i] - phi[i][j]) / temperature, cut)
    total = (s * 0).sum()

    if variant == "paper":
        def choose(i, side, score):
            ranked = by_score(inputs.negatives(i), score)
            if not ranked:
                return []
            if sampler == "random":
                return [inputs.negatives(i)[int(coins[side][i] * len(ranked))]]
            lowest = [c for c in ranked if score(c) == score(ranked[-1])]
            return [ranked[0] if sampler == "nearest" else lowest[0]]

        for i in range(n):
            for j in choose(i, 0, lambda j: plain[i][j]):
                total = total + torch.relu(margin(i, j) + s[i, j] - s[i, i])
            for k in choose(i, 1, lambda k: plain[k][i]):
                total = total + torch.relu(margin(i, k) + s[k, i] - s[i, i])
        return total

    def second(i, side, score):
        if sampler == "random":
            others = inputs.negatives(i)
            return others[int(coins[side][i] * len(others))] if others else None
        sign = 1 if sampler == "nearest" else -1
        ranked = by_score([i, *inputs.negatives(i)], lambda j: sign * score(j))
        return ranked[1] if len(ranked) > 1 else None

    first = [second(i, 0, lambda j: plain[i][j]) for i in range(n)]
    other = [second(i, 1, lambda j: plain[i][j] - plain[j][j]) for i in range(n)]
    margin_s = [0.0 if other[i] is None else margin(i, other[i]) for i in range(n)]
    margin_im = [0.0 if first[i] is None else margin(i, first[i]) for i in range(n)]
    for i in range(n):
        if (j := first[i]) is not None:
            total = total + torch.relu(s[i, j] - s[i, i] + margin_s[j])
        if (j := other[i]) is not None:
            total = total + torch.relu(s[i, j] - s[j, j] + margin_im[j])
    return total


# ------------------------------------------------------------------------------------------------------------------ cases

SEED = 11
BANK = {"neighbours": 250, "alpha": 40.0, "beta": 40.0, "epsilon_positive": 0.2, "epsilon_negative": 0.1}
FEW = {"neighbours": 5, "alpha": 6.0, "beta": 9.0, "epsilon_positive": 0.3, "epsilon_negative": 0.05}


def evaluate(inputs, objective, bank, seed, step):
    (name, settings), = objective["loss"].items()
    n = inputs.n
    sam = objective.get("semantic_margin")
    total = (inputs.s * 0).sum()
    if not sam or sam["keep_triplet"]:
        if name == "local_scaling":
            total = total + local_scaling(inputs, **settings)
        elif name == "hal":
            total = total + hal(inputs, bank, **settings)
        elif name == "info_nce":
            total = total + info_nce(inputs, **settings)
        elif name == "sigmoid":
            total = total + sigmoid(inputs, **settings)
        else:
            k = {"sum": n, "max": 1}.get(name) or settings["k"]
            total = total + triplet(inputs, inputs.s, settings["margin"], k)
    if sam:
        rest = {key: sam[key] for key in ("temperature", "sampler", "variant")}
        largest = sam.get("largest_margin", 1.0 if sam["variant"] == "official" else None)
        total = total + sam["weight"] * semantic_margin(inputs, seed, step, largest_margin=largest, **rest)
    return total


OBJECTIVES = [
    ({"loss": {"sum": {"margin": 0.2}}}, None),
    ({"loss": {"max": {"margin": 0.2}}}, None),
    ({"loss": {"knn_margin": {"margin": 0.2, "k": 3}}}, None),
    ({"loss": {"knn_margin": {"margin": 0.05, "k": 10}}}, None),
    *(
        ({"loss": {"local_scaling": {"margin": 0.2, "k": k, "over": over, "density": density}}}, None)
        for k, over in [(3, "sum"), (1, "max")]
        for density in ["detached", "differentiated"]
    ),
    *(
        ({"loss": {"hal": {"gamma": gamma, "epsilon": epsilon, "variant": variant}}}, bank)
        for variant in ["paper", "official"]
        for gamma, epsilon, bank in [(30.0, 0.3, None), (60.0, 0.7, None), (30.0, 0.3, BANK), (8.0, 0.1, FEW)]
    ),
    ({"loss": {"hal": {"gamma": 30.0, "epsilon": 0.3, "max": 0.2}}}, BANK),
    ({"loss": {"info_nce": {"temperature": 0.07}}}, None),
    *(
        (
            {
                "loss": {"max": {"margin": 0.2}},
                "semantic_margin": {
                    "temperature": temperature, "sampler": sampler, "variant": variant, "keep_triplet": keep, "weight": weight,
                },
            },
            None,
        )
        for variant in ["paper", "official"]
        for sampler, temperature, keep, weight in [
            ("nearest", 3.0, True, 1.0), ("furthest", 10.0, False, 5.0), ("random", 3.0, False, 1.0),
        ]
    ),
    (
        {
            "loss": {"sum": {"margin": 0.2}},
            "semantic_margin": {
                "temperature": 3.0, "sampler": "nearest", "variant": "paper", "keep_triplet": True, "weight": 0.5,
                "largest_margin": 0.25,
            },
        },
        None,
    ),
    ({"loss": {"sigmoid": {"temperature": 10.0, "bias": -10.0}}}, None),
    ({"loss": {"sigmoid": {"temperature": 3.0, "bias": -1.5}}}, None),
    ({"loss": {"sigmoid": {"temperature": 10.0, "bias": -10.0, "learned": True}}}, None),
    ({"loss": {"info_nce": {"temperature": 0.07, "learned": True}}}, None),
]

batches = []
for n, rows, scale, ties, masked in [
    (1, 40, 1, False, False),
    (2, 40, 1, False, False),
    (7, 40, 1, False, False),
    (7, 40, 1, False, True),
    (7, 40, 1, True, False),
    (7, 40, 4, False, False),
    (128, 300, 1, False, False),
    (128, 300, 1, True, True),
]:
    results = []
    for step, (objective, bank) in enumerate(OBJECTIVES):
        inputs = Inputs(n, scale, ties, masked, rows)
        value = evaluate(inputs, objective, bank, SEED, step)
        value.backward()
        gradient = inputs.s.grad.flatten()
        products = [(gradient @ tensor(stream(n + part, n * n))).item() for part in (4, 5)]
        numbers = [value.item(), *products, (gradient @ gradient).item(), *gradient[:4].tolist()]
        results.append(numbers + [scalar.grad.item() for scalar in inputs.scalars])
    batch = {"n": n, "rows": rows, "scale": scale, "ties": ties, "masked": masked, "results": results}
    batches.append(json.dumps(batch, separators=(",", ":")))

objectives = [json.dumps({**objective, "bank": bank}, separators=(",", ":")) for objective, bank in OBJECTIVES]
parts = [f'{{"seed":{SEED},"objectives":[', ",\n".join(objectives), '],"batches":[', ",\n".join(batches), "]}\n"]
(pathlib.Path(__file__).parent / "losses.json").write_text("\n".join(parts))
