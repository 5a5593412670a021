"""Writes a checkpoint and a vocabulary in the published layout, converts both with the code in README.md, and writes
the embeddings by PyTorch.

    python tests/golden/published.py tests/golden README.md
"""

import argparse
import json
import os
import pickle
import re
import sys
import tempfile

import safetensors
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

assert torch.__version__.split("+")[0] == "2.11.0", torch.__version__
assert safetensors.__version__ == "0.8.0", safetensors.__version__
torch.manual_seed(20260102)

IMAGE, WORD, JOINT = 6, 5, 8
WORDS = ["<pad>", "<start>", "<end>", "<unk>", "a", "dog", "runs", "on", "grass", ".", "the", "red", "café"]
CAPTIONS = ["A dog runs on the red grass .", "dog", "a zebra on a café .", "the the the the the the the grass ."]


class Vocabulary:
    """Vocabulary class of the published code, for pickling."""

    def __init__(self):
        self.word2idx = {word: number for number, word in enumerate(WORDS)}
        self.idx2word = dict(enumerate(WORDS))
        self.idx = len(WORDS)


class Network(nn.Module):
    """Placeholder for an image network."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 2, 1)
        self.bn1 = nn.BatchNorm2d(2)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.DataParallel(Network())
        self.fc = nn.Linear(IMAGE, JOINT)

    def forward(self, features):
        return nn.functional.normalize(self.fc(features), dim=1)


class Captions(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), WORD)
        self.rnn = nn.GRU(WORD, JOINT, 1, batch_first=True)

    def forward(self, captions):
        lengths = torch.tensor([len(caption) for caption in captions])
        padded = nn.utils.rnn.pad_sequence(captions, batch_first=True)
        packed = pack_padded_sequence(self.embed(padded), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return nn.functional.normalize(states[torch.arange(len(captions)), lengths - 1], dim=1)


def numbers(caption):
    known = {word: number for number, word in enumerate(WORDS)}
    return torch.tensor([1, *(known.get(word, 3) for word in caption.lower().split()), 2])


target, readme = (os.path.abspath(path) for path in sys.argv[1:])
blocks = re.findall(r"```python\n(.*?)```", open(readme, encoding="utf-8").read(), re.DOTALL)
images, captions = Images(), Captions()
checkpoint = {
    "epoch": 3,
    "model": [images.state_dict(), captions.state_dict()],
    "best_rsum": 321.5,
    "opt": argparse.Namespace(margin=0.2, vocab_path="./vocab", finetune=False, learning_rate=0.0002),
    "Eiters": 1234,
}
found = []
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    # Old and new file formats of PyTorch, old and new pickle protocols.
    for zipped, protocol in [(False, 2), (True, 4)]:
        torch.save(checkpoint, "model_best.pth.tar", _use_new_zipfile_serialization=zipped)
        with open("vocab.pkl", "wb") as file:
            pickle.dump(Vocabulary(), file, protocol)
        for block in blocks:
            exec(block, {"__name__": "readme"})
        found.append((open("published.safetensors", "rb").read(), open("vocab.json", encoding="utf-8").read()))
assert len(blocks) == 2 and found[0] == found[1], (len(blocks), [len(part[0]) for part in found])
with open(os.path.join(target, "published.safetensors"), "wb") as file:
    file.write(found[0][0])

features = torch.randn(5, IMAGE)
with torch.no_grad():
    out = {
        "vocabulary": json.loads(found[0][1]),
        "features": features.tolist(),
        "captions": CAPTIONS,
        "images": images.double()(features.double()).tolist(),
        "texts": captions.double()([numbers(caption) for caption in CAPTIONS]).tolist(),
    }
with open(os.path.join(target, "published.json"), "w", encoding="utf-8") as file:
    json.dump(out, file, indent=1)
    file.write("\n")
