"""Writes scan.json: scores and attention of SCAN, a loss and its gradients, by PyTorch 2.11 in double precision.

The formulas are those of Lee et al. (ECCV 2018), written out for one image and one caption at a time, with the attended
vectors formed. The caption encoder is torch.nn.GRU, both directions averaged at each word. Images have one to four
regions; captions have two to six words. A case is a form of the attention; all cases share data and parameters.
"""

import itertools
import json
import pathlib

import torch
from torch.nn.functional import cosine_similarity, leaky_relu, normalize

assert torch.__version__.startswith("2.11.0")
torch.manual_seed(20261123)
torch.set_default_dtype(torch.float64)
IMAGE, WORD, JOINT, WORDS, PLACES, MARGIN = 5, 3, 4, 11, 4, 0.2

images = [torch.randn(count, IMAGE).round(decimals=3).float().double() for count in [4, 3, 1, 4, 2]]
captions = [[1, 4, 2], [1, 5, 6, 7, 2], [3, 2], [1, 8, 9, 2], [1, 4, 4, 4, 10, 2]]

fc = torch.nn.Linear(IMAGE, JOINT)
embed = torch.nn.Embedding(WORDS, WORD)
gru = torch.nn.GRU(WORD, JOINT, 1, bidirectional=True)
parameters = {
    "img_enc.fc.weight": fc.weight,
    "img_enc.fc.bias": fc.bias,
    "txt_enc.embed.weight": embed.weight,
    **{f"txt_enc.rnn.{name}": value for name, value in gru.named_parameters()},
}
for value in parameters.values():
    value.data = value.data.round(decimals=3)  # Rounded, for a small file.


def dump(tensors):
    return {name: {"shape": list(value.shape), "values": value.flatten().tolist()} for name, value in tensors.items()}


def regions_of(image):
    return normalize(fc(image), dim=1)


def words_of(caption):
    states = gru(embed(torch.tensor(caption)))[0]
    return normalize((states[:, :JOINT] + states[:, JOINT:]) / 2, dim=1)


def attention(queries, contexts, activation, lambda_softmax):
    """Weights of the contexts, a column for each query."""
    scores = contexts @ queries.T
    scores = scores.clamp(min=0) if activation == "relu" else leaky_relu(scores, 0.1)
    scores = scores / (scores.norm(dim=1, keepdim=True) + 1e-8)
    return torch.softmax(lambda_softmax * scores, dim=0)


def attend(image, caption, form):
    """Queries, contexts and the attention between them."""
    regions, words = regions_of(image), words_of(caption)
    pair = (words, regions) if form["cross_attention"] == "t2i" else (regions, words)
    return *pair, attention(*pair, form["activation"], form["lambda_softmax"])


def words_to_regions(image, caption, form):
    weights = attend(image, caption, form)[2]
    return (weights.T if form["cross_attention"] == "t2i" else weights).flatten().tolist()


def score(image, caption, form):
    queries, contexts, weights = attend(image, caption, form)
    r = cosine_similarity(queries, weights.T @ contexts, dim=1)
    if form["aggregation"] == "log_sum_exp":
        return torch.log(torch.exp(form["lambda_lse"] * r).sum()) / form["lambda_lse"]
    return {"mean": r.mean, "max": r.max, "sum": r.sum}[form["aggregation"]]()


def case(cross_attention, activation, aggregation):
    form = {"cross_attention": cross_attention, "activation": activation, "aggregation": aggregation}
    form |= {"lambda_softmax": 9.0 if cross_attention == "t2i" else 4.0}
    form |= {"lambda_lse": 6.0} if aggregation == "log_sum_exp" else {}
    scores = torch.stack([torch.stack([score(image, caption, form) for caption in captions]) for image in images])
    matching = scores.diag()
    away = torch.eye(len(scores), dtype=torch.bool)
    by_image = (MARGIN + scores - matching[:, None]).clamp(min=0).masked_fill(away, 0)
    by_caption = (MARGIN + scores - matching[None, :]).clamp(min=0).masked_fill(away, 0)
    loss = by_image.sum() + by_caption.sum()
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    out = {"settings": form | {"embed_size": JOINT, "word_dim": WORD, "bidirectional": True}}
    out |= {"scores": scores.flatten().tolist(), "loss": loss.item()}
    out["attention"] = [words_to_regions(*pair, form) for pair in zip(images, captions)]
    return out | {"gradients": dump(dict(zip(parameters, gradients)))}


forms = itertools.product(["t2i", "i2t"], ["relu", "leaky_relu"], ["mean", "log_sum_exp", "max", "sum"])
out = {"width": IMAGE, "places": PLACES, "words": WORDS, "margin": MARGIN, "captions": captions}
padded = [torch.nn.functional.pad(image, (0, 0, 0, PLACES - len(image))) for image in images]
out["images"] = torch.stack(padded).flatten().tolist()
out["parameters"] = dump(parameters)
out["cases"] = [case(*form) for form in forms]
(pathlib.Path(__file__).parent / "scan.json").write_text(json.dumps(out))
