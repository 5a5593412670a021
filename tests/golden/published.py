"""Writes a checkpoint and a vocabulary in the published layout, converts both with the code in `docs/tutorials/published-models.md`, and writes
the embeddings by PyTorch. Does the same with a checkpoint of CVSE, whose parameters and scores are those of cvse.json.

    python tests/golden/published.py tests/golden docs/tutorials/published-models.md
"""

import argparse
import json
import os
import pickle
import re
import sys
import tempfile

import numpy
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
checkpoint_block, vocabulary_block, concepts_block = blocks = re.findall(r"```python\n(.*?)```", open(readme, encoding="utf-8").read(), re.DOTALL)
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
        for block in (checkpoint_block, vocabulary_block):
            exec(block, {"__name__": "readme"})
        found.append((open("published.safetensors", "rb").read(), open("vocab.json", encoding="utf-8").read()))
assert found[0] == found[1], [len(part[0]) for part in found]
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

# CVSE: eight dictionaries, with layers that are stored twice or not used, and the files of its concepts.
PARTS = ["img_enc", "txt_enc", "V_att", "T_att", "V_consensus_att", "T_consensus_att", "C_GCN", "fusing"]
with open(os.path.join(target, "cvse.json"), encoding="utf-8") as file:
    cvse = json.load(file)
own = cvse["cases"][0]["parameters"]
tensors = {name: torch.tensor(value["values"]).view(value["shape"]) for name, value in own.items()}
of_part = lambda part: {name[len(part) + 1 :]: value for name, value in tensors.items() if name.startswith(part + ".")}
states = [of_part(part) for part in PARTS]
for state in states[2:6]:
    state["fc1.weight"] = state["embedding_1.0.weight"]
states[6]["adj_O_P"] = torch.zeros(3, 3)
states[7]["fc.weight"] = torch.ones(2)
word = lambda number: WORDS[number] if number < 4 else f"w{number}"
concepts = {word(row): int(concept) for row, concept in enumerate(own["concepts.of_words"]["values"]) if concept >= 0}
vectors = numpy.array(own["concepts.vectors"]["values"]).reshape(own["concepts.vectors"]["shape"])
vocabulary = Vocabulary()
vocabulary.word2idx = {word(number): number for number in range(cvse["words"])}
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    torch.save({"epoch": 3, "model": states, "best_rsum": 1.0, "opt": argparse.Namespace(), "Eiters": 1}, "model_best.pth.tar")
    with open("vocab.pkl", "wb") as file:
        pickle.dump(vocabulary, file)
    with open("category_concepts.json", "w", encoding="utf-8") as file:
        json.dump(concepts, file)
    with open("concepts_glove_word2vec.pkl", "wb") as file:
        pickle.dump(vectors, file)
    names = {"__name__": "readme"}
    for block in blocks:
        exec(block, names)
    content = open("published.safetensors", "rb").read()
with open(os.path.join(target, "published_cvse.safetensors"), "wb") as file:
    file.write(content)
