"""Writes losses.json: SUM and MAX with their gradients from PyTorch 2.11 in double precision.

The formulas are those of the papers, written with loops over anchors and negatives; autograd gives the gradients.
"""

import json
import pathlib

import torch

assert torch.__version__.startswith("2.11.0")
torch.manual_seed(20260101)


def objective(scores, margin, reduce):
    total = torch.zeros((), dtype=torch.float64)
    n = len(scores)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        if others:
            total = total + reduce(torch.stack([margin + scores[i, j] - scores[i, i] for j in others]).clamp(min=0))
            total = total + reduce(torch.stack([margin + scores[j, i] - scores[i, i] for j in others]).clamp(min=0))
    return total


cases = []
for n, margin in [(2, 0.2), (4, 0.2), (5, 0.05), (9, 0.5)]:
    images = torch.nn.functional.normalize(torch.randn(n, 3, dtype=torch.float64), dim=1)
    captions = torch.nn.functional.normalize(torch.randn(n, 3, dtype=torch.float64), dim=1)
    case = {"n": n, "margin": margin, "scores": (images @ captions.T).flatten().tolist()}
    for name, reduce in [("sum", torch.sum), ("max", torch.max)]:
        scores = torch.tensor(case["scores"], dtype=torch.float64).view(n, n).requires_grad_()
        value = objective(scores, margin, reduce)
        value.backward()
        case[name] = [value.item(), scores.grad.flatten().tolist()]
    cases.append(case)

(pathlib.Path(__file__).parent / "losses.json").write_text(json.dumps(cases, indent=None))
