"""SCAN in PyTorch with attended vectors and a loop over captions, on request, for benches/regions.rs.

Arguments: f32 or bf16 (autocast), number of threads, size of the vocabulary, width of word vectors, of the joint space, of
regions, number of regions, of images. The first input line has the captions as JSON. Then "score" scores all images with
all captions, already encoded, and "step" trains on the next batch; the answer is the seconds.
"""

import contextlib
import json
import sys
import time

import torch
from torch.nn.functional import cosine_similarity, leaky_relu, normalize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

kind = sys.argv[1]
threads, words, word, joint, image, regions, batch = map(int, sys.argv[2:])
torch.set_num_threads(threads)
torch.manual_seed(0)
captions = json.loads(sys.stdin.readline())
images = torch.rand(batch, regions, image)
fc = torch.nn.Linear(image, joint)
embed = torch.nn.Embedding(words, word)
gru = torch.nn.GRU(word, joint, 1, batch_first=True, bidirectional=True)
parameters = [*fc.parameters(), *embed.parameters(), *gru.parameters()]
optimiser = torch.optim.Adam(parameters, lr=2e-4, fused=True)


def precision():
    return torch.autocast("cpu", torch.bfloat16) if kind == "bf16" else contextlib.nullcontext()


def encode_captions(some):
    """Unit vectors of the words of each caption."""
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(caption) for caption in some], batch_first=True)
    lengths = torch.tensor([len(caption) for caption in some])
    packed = pack_padded_sequence(embed(padded), lengths, batch_first=True, enforce_sorted=False)
    states = pad_packed_sequence(gru(packed)[0], batch_first=True)[0]
    states = normalize((states[:, :, :joint] + states[:, :, joint:]) / 2, dim=2)
    return [one[:length] for one, length in zip(states, lengths)]


def scores(v, sets):
    columns = []
    for query in sets:
        query = query.expand(len(v), -1, -1)
        attention = leaky_relu(v @ query.transpose(1, 2), 0.1)
        attention = attention / (attention.norm(dim=2, keepdim=True) + 1e-8)
        attention = torch.softmax(9.0 * attention.transpose(1, 2), dim=2)
        columns.append(cosine_similarity(query, attention @ v, dim=2).mean(1))
    return torch.stack(columns, 1)


def step(start):
    some = [captions[(start + i) % len(captions)] for i in range(batch)]
    optimiser.zero_grad()
    with precision():
        all_scores = scores(normalize(fc(images), dim=2), encode_captions(some)).float()
        matching, away = all_scores.diag()[:, None], torch.eye(batch, dtype=torch.bool)
        by_image = (0.2 + all_scores - matching).clamp(min=0).masked_fill(away, 0).max(1)[0].sum()
        by_caption = (0.2 + all_scores - matching.T).clamp(min=0).masked_fill(away, 0).max(0)[0].sum()
    (by_image + by_caption).backward()
    torch.nn.utils.clip_grad_norm_(parameters, 2.0)
    optimiser.step()


encoded, steps = None, 0
for line in sys.stdin:
    if line.strip() == "score":
        if encoded is None:
            with torch.no_grad():
                encoded = normalize(fc(images), dim=2), encode_captions(captions)
        clock = time.perf_counter()
        with torch.no_grad(), precision():
            scores(*encoded)
    else:
        clock = time.perf_counter()
        step(steps * batch)
        steps += 1
    print(time.perf_counter() - clock, flush=True)
