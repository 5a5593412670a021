"""Writes vse.json: a VSE++ model in double precision with PyTorch 2.11, its gradients and five steps of training.

The text side is torch.nn.GRU on a packed sequence, the optimiser torch.optim.Adam, the bound clip_grad_norm_.
"""

import json
import pathlib

import torch
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

assert torch.__version__.startswith("2.11.0")
torch.manual_seed(20260101)
torch.set_default_dtype(torch.float64)
IMAGE, WORD, JOINT, WORDS, MARGIN, CLIP, RATE = 5, 3, 4, 11, 0.2, 0.4, 0.01

fc = torch.nn.Linear(IMAGE, JOINT)
embed = torch.nn.Embedding(WORDS, WORD)
gru = torch.nn.GRU(WORD, JOINT, 1, batch_first=True)
names = {
    "img_enc.fc.weight": fc.weight,
    "img_enc.fc.bias": fc.bias,
    "txt_enc.embed.weight": embed.weight,
    **{f"txt_enc.rnn.{name}": value for name, value in gru.named_parameters()},
}
features = torch.randn(6, IMAGE).float().double()
captions = [[1, 4, 2], [1, 5, 6, 7, 2], [1, 2], [1, 8, 9, 2], [1, 4, 4, 4, 10, 2], [1, 7, 2]]


def embeddings():
    lengths = torch.tensor([len(caption) for caption in captions])
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(c) for c in captions], batch_first=True)
    packed = pack_padded_sequence(embed(padded), lengths, batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(gru(packed)[0], batch_first=True)
    last = states[torch.arange(len(captions)), lengths - 1]
    return normalize(fc(features), dim=1), normalize(last, dim=1)


def objective():
    images, texts = embeddings()
    scores = images @ texts.T
    matching = scores.diag()
    away = torch.eye(len(scores), dtype=torch.bool)
    by_image = (MARGIN + scores - matching[:, None]).clamp(min=0).masked_fill(away, 0)
    by_caption = (MARGIN + scores - matching[None, :]).clamp(min=0).masked_fill(away, 0)
    return by_image.max(1).values.sum() + by_caption.max(0).values.sum()


def dump(tensors):
    return {name: {"shape": list(value.shape), "values": value.flatten().tolist()} for name, value in tensors.items()}


out = {"features": features.flatten().tolist(), "captions": captions, "margin": MARGIN, "clip": CLIP, "rate": RATE}
out["before"] = dump(names)
out["images"], out["texts"] = [part.flatten().tolist() for part in embeddings()]
optimiser = torch.optim.Adam(list(names.values()), lr=RATE)
out["losses"], out["norms"] = [], []
for step in range(5):
    optimiser.zero_grad()
    loss = objective()
    loss.backward()
    if step == 0:
        out["gradients"] = dump({name: value.grad for name, value in names.items()})
    out["norms"].append(torch.nn.utils.clip_grad_norm_(names.values(), CLIP).item())
    optimiser.step()
    out["losses"].append(loss.item())
out["after"] = dump(names)
(pathlib.Path(__file__).parent / "vse.json").write_text(json.dumps(out))
