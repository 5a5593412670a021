"""Writes vse.json: VSE++ embeddings, their gradients and five training steps by PyTorch 2.11 in double precision.

The caption encoder is torch.nn.GRU on a packed sequence; a bidirectional GRU averages both directions at each word. The
optimiser is torch.optim.Adam with clip_grad_norm_. A case is a configuration of the model; all cases share features and
captions.
"""

import itertools
import json
import pathlib

import torch
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

assert torch.__version__.startswith("2.11.0")
torch.manual_seed(20260101)
torch.set_default_dtype(torch.float64)
IMAGE, WORD, JOINT, WORDS, MARGIN, CLIP, RATE = 4, 3, 3, 11, 0.2, 0.4, 0.01

features = torch.randn(6, IMAGE).float().double()
captions = [[1, 4, 2], [1, 5, 6, 7, 2], [1], [1, 8, 9, 2], [1, 4, 4, 4, 10, 2], [1, 7, 2]]
lengths = torch.tensor([len(caption) for caption in captions])
padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(c) for c in captions], batch_first=True)
spoken = torch.arange(padded.shape[1])[None, :] < lengths[:, None]


def dump(tensors):
    return {name: {"shape": list(value.shape), "values": value.flatten().tolist()} for name, value in tensors.items()}


def case(bidirectional, pooling, absolute, normalize_images, words_frozen):
    fc = torch.nn.Linear(IMAGE, JOINT)
    embed = torch.nn.Embedding(WORDS, WORD)
    embed.weight.requires_grad_(not words_frozen)
    gru = torch.nn.GRU(WORD, JOINT, 1, batch_first=True, bidirectional=bidirectional)
    names = {
        "img_enc.fc.weight": fc.weight,
        "img_enc.fc.bias": fc.bias,
        "txt_enc.embed.weight": embed.weight,
        **{f"txt_enc.rnn.{name}": value for name, value in gru.named_parameters()},
    }
    for value in names.values():
        value.data = value.data.round(decimals=3)  # Rounded, for a small file.
    trained = {name: value for name, value in names.items() if value.requires_grad}

    def embeddings():
        packed = pack_padded_sequence(embed(padded), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(gru(packed)[0], batch_first=True)
        forwards, backwards = states[..., :JOINT], states[..., -JOINT:]
        if pooling == "last":
            last = forwards[torch.arange(len(captions)), lengths - 1]
            text = (last + backwards[:, 0]) / 2 if bidirectional else last
        else:
            states = (forwards + backwards) / 2 if bidirectional else forwards
            if pooling == "mean":
                text = states.masked_fill(~spoken[..., None], 0).sum(1) / lengths[:, None]
            else:
                text = states.masked_fill(~spoken[..., None], -torch.inf).max(1).values
        image, text = fc(features), normalize(text, dim=1)
        image = normalize(image, dim=1) if normalize_images else image
        return (image.abs(), text.abs()) if absolute else (image, text)

    def objective():
        images, texts = embeddings()
        scores = images @ texts.T
        matching = scores.diag()
        away = torch.eye(len(scores), dtype=torch.bool)
        by_image = (MARGIN + scores - matching[:, None]).clamp(min=0).masked_fill(away, 0)
        by_caption = (MARGIN + scores - matching[None, :]).clamp(min=0).masked_fill(away, 0)
        return by_image.max(1).values.sum() + by_caption.max(0).values.sum()

    out = {"form": {"image": IMAGE, "words": WORDS, "word": WORD, "embedding": JOINT, "bidirectional": bidirectional}}
    out["form"] |= {"pooling": pooling, "absolute": absolute, "normalize_images": normalize_images}
    out["form"] |= {"words_frozen": words_frozen}
    out["before"] = dump(names)
    out["images"], out["texts"] = [part.flatten().tolist() for part in embeddings()]
    optimiser = torch.optim.Adam(list(trained.values()), lr=RATE)
    out["losses"], out["norms"] = [], []
    for step in range(5):
        optimiser.zero_grad()
        loss = objective()
        loss.backward()
        if step == 0:
            out["gradients"] = dump({name: value.grad for name, value in trained.items()})
        out["norms"].append(torch.nn.utils.clip_grad_norm_(trained.values(), CLIP).item())
        optimiser.step()
        out["losses"].append(loss.item())
    out["after"] = dump(names)
    return out


forms = [(*form, False, True, False) for form in itertools.product([False, True], ["last", "mean", "max"])]
forms += [(False, "last", True, True, False), (True, "max", True, True, True), (False, "mean", False, False, True)]
out = {"features": features.flatten().tolist(), "captions": captions, "margin": MARGIN, "clip": CLIP, "rate": RATE}
out["cases"] = [case(*form) for form in forms]
(pathlib.Path(__file__).parent / "vse.json").write_text(json.dumps(out))
