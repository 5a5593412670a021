"""Models over regions in plain PyTorch, as published projects compute them, on request, for benches/regions.rs.

SCAN, SGR and SAF score one caption with all images in a loop, and form the attended vectors; VSRN, CVSE and VSE∞ multiply
one vector of each side. Batch normalisation and dropout are those of a training step.

Arguments: the model (scan_t2i, scan_i2t, sgr, saf, vsrn, cvse, vse_infinity), f32 or bf16 (autocast), the loss (max: the
hardest negatives; sum: all), number of threads, size of the vocabulary, width of word vectors, of the joint space, of
regions, number of regions, of images. The first input line has the captions as JSON. Then "score" scores all images with
all captions, already encoded, and "step" trains on the next batch; the answer is the seconds.
"""

import contextlib
import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn.functional import cosine_similarity, dropout, leaky_relu, normalize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

name, kind, loss = sys.argv[1:4]
threads, words, word, joint, image, regions, batch = map(int, sys.argv[4:])
torch.set_num_threads(threads)
torch.manual_seed(0)
captions = json.loads(sys.stdin.readline())
images = torch.rand(batch, regions, image)
CONCEPTS = 300


def precision():
    return torch.autocast("cpu", torch.bfloat16) if kind == "bf16" else contextlib.nullcontext()


def hinge(scores):
    """Sum of the hinge losses of both directions, of all negatives or the hardest."""
    matching, away = scores.diag()[:, None], torch.eye(len(scores), dtype=torch.bool)
    by_image = (0.2 + scores - matching).clamp(min=0).masked_fill(away, 0)
    by_caption = (0.2 + scores - matching.T).clamp(min=0).masked_fill(away, 0)
    if loss == "sum":
        return by_image.sum() + by_caption.sum()
    return by_image.max(1)[0].sum() + by_caption.max(0)[0].sum()


def is_word(lengths):
    """1 for each word of a padded batch and 0 for padding."""
    return (torch.arange(int(lengths.max()))[None] < lengths[:, None]).float()[:, :, None]


class WordStates(nn.Module):
    """Word vectors and a GRU, whose directions are averaged."""

    def __init__(self, bidirectional=True, drop=0.0):
        super().__init__()
        self.embed, self.drop = nn.Embedding(words, word), drop
        self.gru = nn.GRU(word, joint, 1, batch_first=True, bidirectional=bidirectional)

    def forward(self, some):
        """States of each word, padded with 0, and the lengths."""
        lengths = torch.tensor([len(caption) for caption in some])
        vectors = self.embed(pad_sequence([torch.tensor(caption) for caption in some], batch_first=True))
        packed = dropout(vectors, self.drop, self.training)
        packed = pack_padded_sequence(packed, lengths, batch_first=True, enforce_sorted=False)
        states = pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0]
        if self.gru.bidirectional:
            states = (states[:, :, :joint] + states[:, :, joint:]) / 2
        return states, lengths


def attend(query, context, scale):
    """Mean vector of `context` that each vector of `query` attends to, for SCAN and SGRAF."""
    attention = leaky_relu(context @ query.transpose(1, 2), 0.1)
    attention = attention / (attention.norm(dim=2, keepdim=True) + 1e-8)
    return torch.softmax(scale * attention.transpose(1, 2), dim=2) @ context


class Scan(nn.Module):
    def __init__(self, to_text):
        super().__init__()
        self.fc, self.text, self.to_text = nn.Linear(image, joint), WordStates(), to_text

    def encode_images(self, regions):
        return normalize(self.fc(regions), dim=2)

    def encode_captions(self, some):
        states, lengths = self.text(some)
        return [one[:length] for one, length in zip(normalize(states, dim=2), lengths)]

    def scores(self, v, sets):
        columns = []
        for caption in sets:
            caption = caption.expand(len(v), -1, -1)
            query, context, scale = (v, caption, 4.0) if self.to_text else (caption, v, 9.0)
            columns.append(cosine_similarity(query, attend(query, context, scale), dim=2).mean(1))
        return torch.stack(columns, 1)

    def losses(self, v, t):
        return hinge(self.scores(v, t).float())


class GlobalVector(nn.Module):
    """Attention with a gate that forms one vector of a set."""

    def __init__(self, places=None, drop=0.4):
        super().__init__()
        self.local, self.whole, self.common = nn.Linear(joint, joint), nn.Linear(joint, joint), nn.Linear(joint, 1)
        self.local_norm = nn.BatchNorm1d(places) if places else nn.Identity()
        self.whole_norm = nn.BatchNorm1d(joint) if places else nn.Identity()
        self.drop = nn.Dropout(drop)

    def forward(self, x, mean):
        local = self.drop(self.local_norm(self.local(x)).tanh())
        whole = self.drop(self.whole_norm(self.whole(mean)).tanh())
        weights = torch.softmax(self.common(local * whole[:, None]).squeeze(2), dim=1)
        return normalize((weights[:, :, None] * x).sum(1), dim=1)


class Sgraf(nn.Module):
    def __init__(self, is_saf, width=256, steps=3):
        super().__init__()
        self.fc, self.text, self.is_saf = nn.Linear(image, joint), WordStates(drop=0.4), is_saf
        self.of_image, self.of_caption = GlobalVector(regions), GlobalVector()
        self.local, self.whole, self.score = nn.Linear(joint, width), nn.Linear(joint, width), nn.Linear(width, 1)
        if is_saf:
            self.filter, self.filter_norm = nn.Linear(width, 1), nn.BatchNorm1d(1)
        else:
            step = lambda: nn.ModuleList(nn.Linear(width, width) for _ in range(3))
            self.steps = nn.ModuleList(step() for _ in range(steps))

    def encode_images(self, regions):
        v = normalize(self.fc(regions), dim=2)
        return v, self.of_image(v, v.mean(1))

    def encode_captions(self, some):
        states, lengths = self.text(some)
        sets = [one[:length] for one, length in zip(normalize(states, dim=2), lengths)]
        return [(one, self.of_caption(one[None], one.mean(0, keepdim=True))) for one in sets]

    def scores(self, v, sets):
        (v, of_image), columns = v, []
        for caption, of_caption in sets:
            caption = caption.expand(len(v), -1, -1)
            attended = normalize(attend(caption, v, 9.0), dim=2)
            local = normalize(self.local((attended - caption) ** 2), dim=2)
            whole = normalize(self.whole((of_image - of_caption) ** 2), dim=1)
            s = torch.cat([whole[:, None], local], 1)
            if self.is_saf:
                gates = torch.sigmoid(self.filter_norm(self.filter(s).transpose(1, 2)))
                gates = gates / (gates.sum(2, keepdim=True) + 1e-8)
                vector = normalize((gates @ s).squeeze(1), dim=1)
            else:
                for query, key, update in self.steps:
                    edges = torch.softmax(query(s) @ key(s).transpose(1, 2), dim=2)
                    s = update(edges @ s).relu()
                vector = s[:, 0]
            columns.append(torch.sigmoid(self.score(vector)).squeeze(1))
        return torch.stack(columns, 1)

    def losses(self, v, t):
        return hinge(self.scores(v, t).float())


class Vectors(nn.Module):
    """Models with one vector of an image and of a caption."""

    def scores(self, v, t):
        return v @ t.T

    def losses(self, v, t):
        return hinge(self.scores(v, t).float())


class Vsrn(Vectors):
    def __init__(self, layers=4, hidden=512, narrow=300):
        super().__init__()
        self.fc, self.text = nn.Linear(image, joint), WordStates(bidirectional=False)
        convolution = lambda: nn.Conv1d(joint, joint, 1)
        self.layers = nn.ModuleList(nn.ModuleList(convolution() for _ in range(4)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(joint) for _ in range(layers))
        self.rnn = nn.GRU(joint, joint, 1, batch_first=True)
        self.inputs, self.encoder = nn.Linear(joint, hidden), nn.GRU(hidden, hidden, 1, batch_first=True)
        self.embed, self.decoder = nn.Embedding(words, narrow), nn.GRUCell(narrow + hidden, hidden)
        self.attention, self.logits = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, 1, bias=False)
        self.out = nn.Linear(hidden, words)

    def encode_images(self, sets):
        v = normalize(self.fc(sets), dim=2).transpose(1, 2)
        for (g, theta, phi, w), norm in zip(self.layers, self.norms):
            affinity = theta(v).transpose(1, 2) @ phi(v) / v.shape[2]
            update = (affinity @ g(v).transpose(1, 2)).transpose(1, 2)
            v = v + norm(w(update))
        self.reasoned = normalize(v.transpose(1, 2), dim=2)
        return normalize(self.rnn(self.reasoned)[1][0], dim=1)

    def encode_captions(self, some):
        states, lengths = self.text(some)
        self.some = some
        return normalize(states[torch.arange(len(some)), lengths - 1], dim=1)

    def caption_loss(self):
        """Negative log-likelihood of the captions, generated from the regions with attention, over the pairs."""
        outputs, last = self.encoder(dropout(self.inputs(self.reasoned), 0.2, self.training))
        state, total = last[0], 0.0
        padded = pad_sequence([torch.tensor(caption) for caption in self.some], batch_first=True, padding_value=-100)
        vectors = dropout(self.embed(padded.clamp(min=0)), 0.2, self.training)
        for at in range(padded.shape[1] - 1):
            both = torch.cat([outputs, state[:, None].expand_as(outputs)], 2)
            weights = torch.softmax(self.logits(torch.tanh(self.attention(both))), dim=1)
            context = (weights * outputs).sum(1)
            state = self.decoder(torch.cat([vectors[:, at], context], 1), state)
            logits = self.out(state).float()
            total = total + nn.functional.cross_entropy(logits, padded[:, at + 1], ignore_index=-100, reduction="sum")
        return total / len(self.some)

    def losses(self, v, t):
        return super().losses(v, t) + self.caption_loss()


class Consensus(nn.Module):
    """Weights of the concepts for instance vectors."""

    def __init__(self):
        super().__init__()
        gate = lambda: nn.Sequential(nn.Linear(joint, joint), nn.BatchNorm1d(joint), nn.Tanh())
        self.of_concepts, self.of_instances, self.common = gate(), gate(), nn.Linear(joint, 1)

    def forward(self, z, instances):
        both = self.of_instances(instances)[:, None] * self.of_concepts(z)[None]
        return torch.softmax(10 * self.common(both).squeeze(2), dim=1)


class Cvse(Vectors):
    def __init__(self):
        super().__init__()
        self.fc, self.text = nn.Linear(image, joint), WordStates(drop=0.4)
        self.of_image, self.of_caption = GlobalVector(regions), GlobalVector()
        self.v_consensus, self.t_consensus = Consensus(), Consensus()
        self.first = nn.Parameter(torch.empty(word, joint // 2).uniform_(-0.05, 0.05))
        self.second = nn.Parameter(torch.empty(joint // 2, joint).uniform_(-0.05, 0.05))
        near = (torch.arange(CONCEPTS)[:, None] - torch.arange(CONCEPTS)).abs() <= 2
        adjacency = torch.eye(CONCEPTS) + 0.05 * near
        d = torch.diag(adjacency.sum(1) ** -0.5)
        self.adjacency, self.vectors = (adjacency @ d).T @ d, torch.rand(CONCEPTS, word) - 0.5

    def concepts(self):
        hidden = leaky_relu(self.adjacency @ (self.vectors @ self.first), 0.2)
        return normalize(self.adjacency @ (hidden @ self.second), dim=1)

    def fuse(self, instance, weights, z):
        consensus = normalize(weights @ z, dim=1)
        return normalize(0.75 * instance + 0.25 * consensus, dim=1), (instance, consensus, weights)

    def encode_images(self, sets):
        v, z = normalize(self.fc(sets), dim=2), self.concepts()
        instance = self.of_image(v, v.mean(1))
        fused, self.of_images = self.fuse(instance, self.v_consensus(z, instance), z)
        return fused

    def encode_captions(self, some):
        states, lengths = self.text(some)
        states, z = normalize(states, dim=2), self.concepts()
        sets = [one[:length] for one, length in zip(states, lengths)]
        mean = lambda one: normalize(one.mean(0, keepdim=True), dim=1)
        instance = torch.cat([self.of_caption(one[None], mean(one)) for one in sets])
        labels = torch.zeros(len(some), CONCEPTS)
        for row, caption in enumerate(some):
            labels[row, [token - 4 for token in caption if 4 <= token < 4 + CONCEPTS]] = 1
        weights = 0.4 * torch.softmax(10 * labels, dim=1) + 0.6 * self.t_consensus(z, instance)
        fused, self.of_captions = self.fuse(instance, weights, z)
        return fused

    def losses(self, v, t):
        (v_instance, v_consensus, p), (t_instance, t_consensus, q) = self.of_images, self.of_captions
        levels = [(5 / 3, v_instance, t_instance), (1 / 3, v_consensus, t_consensus)]
        total = super().losses(v, t) + sum(share * hinge((a @ b.T).float()) for share, a, b in levels)
        p, q = p.float().clamp(min=1e-30), q.float().clamp(min=1e-30)
        return total + 2 / 3 * (q * (q.log() - p.log())).sum()


class Pooling(nn.Module):
    """Generalised pooling operator."""

    def __init__(self, width=32):
        super().__init__()
        self.width, self.linear = width, nn.Linear(width, 1, bias=False)
        self.gru = nn.GRU(width, width, 1, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        at, longest = torch.arange(int(lengths.max())), int(lengths.max())
        angles = at[:, None] / 10_000 ** (2 * torch.arange(self.width // 2) / self.width)
        codes = torch.stack([angles.sin(), angles.cos()], 2).view(longest, self.width).expand(len(x), -1, -1)
        packed = pack_padded_sequence(codes, lengths, batch_first=True, enforce_sorted=False)
        states = pad_packed_sequence(self.gru(packed)[0], batch_first=True)[0]
        states = (states[:, :, : self.width] + states[:, :, self.width :]) / 2
        present = is_word(lengths).bool()
        weights = torch.softmax(self.linear(states).masked_fill(~present, -10_000) / 0.1, dim=1)
        values = x[:, :longest].masked_fill(~present, -10_000).sort(dim=1, descending=True)[0]
        return normalize((weights * values.masked_fill(~present, 0)).sum(1), dim=1)


class VseInfinity(Vectors):
    def __init__(self):
        super().__init__()
        self.fc, self.text = nn.Linear(image, joint), WordStates()
        self.first, self.norm = nn.Linear(image, joint // 2), nn.BatchNorm1d(joint // 2)
        self.second, self.pool_regions, self.pool_words = nn.Linear(joint // 2, joint), Pooling(), Pooling()

    def encode_images(self, sets):
        lengths = torch.full((len(sets),), sets.shape[1])
        if self.training:
            kept = [one[torch.rand(len(one)) >= 0.2] for one in sets]
            kept = [few if len(few) else one for few, one in zip(kept, sets)]
            lengths, sets = torch.tensor([len(few) for few in kept]), pad_sequence(kept, batch_first=True)
        n, count, _ = sets.shape
        hidden = self.norm(self.first(sets).view(n * count, -1)).view(n, count, -1).relu()
        return self.pool_regions(self.fc(sets) + self.second(hidden), lengths)

    def encode_captions(self, some):
        return self.pool_words(*self.text([self.changed(caption) for caption in some] if self.training else some))

    @staticmethod
    def changed(caption):
        out = []
        for token, draw in zip(caption, (torch.rand(len(caption)) / 0.2).tolist()):
            if draw >= 1:
                out.append(token)
            elif draw < 0.5:
                out.append(3)
            elif draw < 0.6:
                out.append(int(torch.randint(words, ())))
        return out or caption


MODELS = {
    "scan_t2i": lambda: Scan(False),
    "scan_i2t": lambda: Scan(True),
    "sgr": lambda: Sgraf(False),
    "saf": lambda: Sgraf(True),
    "vsrn": Vsrn,
    "cvse": Cvse,
    "vse_infinity": VseInfinity,
}
model = MODELS[name]()
parameters = list(model.parameters())
optimiser = torch.optim.Adam(parameters, lr=2e-4, fused=True)


def step(start):
    some = [captions[(start + i) % len(captions)] for i in range(batch)]
    model.train()
    optimiser.zero_grad()
    with precision():
        loss = model.losses(model.encode_images(images), model.encode_captions(some))
    assert math.isfinite(loss.item())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 2.0)
    optimiser.step()


encoded, steps = None, 0
for line in sys.stdin:
    if line.strip() == "score":
        model.eval()
        if encoded is None:
            with torch.no_grad():
                encoded = model.encode_images(images), model.encode_captions(captions)
        clock = time.perf_counter()
        with torch.no_grad(), precision():
            model.scores(*encoded)
    else:
        clock = time.perf_counter()
        step(steps * batch)
        steps += 1
    print(time.perf_counter() - clock, flush=True)
