"""Training steps of VSE++ in PyTorch, on request, for benches/training.rs.

Arguments: f32 or bf16 (autocast), max or hal, number of threads, size of the vocabulary, width of word vectors, of
embeddings, of image features. The first input line has the batches as JSON; every other line a number of steps, and the
answer is the milliseconds of each.
"""

import contextlib
import json
import sys
import time

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

kind, loss_name = sys.argv[1:3]
threads, words, word, joint, image = map(int, sys.argv[3:])
torch.set_num_threads(threads)
torch.manual_seed(0)
batches = json.loads(sys.stdin.readline())


class Captions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(words, word)
        self.embed.weight.data.uniform_(-0.1, 0.1)
        self.rnn = torch.nn.GRU(word, joint, 1, batch_first=True)

    def forward(self, captions, lengths):
        packed = pack_padded_sequence(self.embed(captions), lengths, batch_first=True)
        states, lengths = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        last = states.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, joint)).squeeze(1)
        return torch.nn.functional.normalize(last, dim=1)


def hal(scores, gamma=30.0, epsilon=0.3):
    away = torch.eye(len(scores), dtype=torch.bool)
    hubs = torch.exp(gamma * (scores - epsilon)).masked_fill(away, 0)
    both = torch.log1p(hubs.sum(0)) + torch.log1p(hubs.sum(1))
    return (both / gamma - torch.log1p(scores.diag())).mean()


def hardest(scores, margin=0.2):
    matching = scores.diag().view(-1, 1)
    away = torch.eye(len(scores), dtype=torch.bool)
    captions = (margin + scores - matching).clamp(min=0).masked_fill(away, 0)
    images = (margin + scores - matching.t()).clamp(min=0).masked_fill(away, 0)
    return captions.max(1)[0].sum() + images.max(0)[0].sum()


objective = {"max": hardest, "hal": hal}[loss_name]
fc = torch.nn.Linear(image, joint)
captions = Captions()
parameters = list(captions.parameters()) + list(fc.parameters())
optimiser = torch.optim.Adam(parameters, lr=2e-4, fused=True)
features = torch.rand(len(batches[0]), image)


def collate(batch):
    batch = sorted(batch, key=len, reverse=True)
    lengths = [len(caption) for caption in batch]
    padded = torch.zeros(len(batch), lengths[0], dtype=torch.long)
    for row, caption in zip(padded, batch):
        row[: len(caption)] = torch.tensor(caption)
    return padded, lengths


collated = [collate(batch) for batch in batches]
done = 0
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        started = time.perf_counter()
        padded, lengths = collated[done % len(collated)]
        with torch.autocast("cpu", torch.bfloat16) if kind == "bf16" else contextlib.nullcontext():
            images = torch.nn.functional.normalize(fc(features), dim=1)
            loss = objective(images @ captions(padded, lengths).t())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 2.0)
        optimiser.step()
        loss.item()
        times.append((time.perf_counter() - started) * 1e3)
        done += 1
    print(json.dumps(times), flush=True)
