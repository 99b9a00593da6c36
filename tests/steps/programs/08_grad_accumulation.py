"""Gradient accumulation under DistributedDataParallel: `no_sync` until the last micro-batch, padding ignored, SGD."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

MESH = {"dp": 2}
SHARDED = {"tokens": {"dp": 0}, "labels": {"dp": 0}}
BUGS = {
    "wrong1": "the mean of the micro-batches' means, though they have unequal numbers of labels",
    "wrong2": "gradients are zeroed before every micro-batch, so only the last one counts",
}
VOCAB, DIM, HIDDEN, BATCH, SEQ, ACCUMULATE, PAD = 21, 14, 26, 12, 5, 3, -100


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.hidden = nn.Linear(DIM, HIDDEN)
        self.out = nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens):
        return self.out(torch.tanh(self.hidden(self.embed(tokens))))


def train_step(model, tokens, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=PAD)
    loss.backward()
    optimizer.step()
    return {"loss": loss.detach()}


def accumulating_step(model, tokens, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    count = (labels != PAD).sum()
    dist.all_reduce(count)
    optimizer.zero_grad()
    total = 0.0
    for i, (x, y) in enumerate(zip(tokens.chunk(ACCUMULATE), labels.chunk(ACCUMULATE), strict=True)):
        with nullcontext() if i == ACCUMULATE - 1 else model.no_sync():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=PAD, reduction="sum")
            loss = loss * dist.get_world_size() / count  # DDP averages gradients over the ranks
            loss.backward()
        total = total + loss.detach()
    optimizer.step()
    dist.all_reduce(total)
    return {"loss": total / dist.get_world_size()}


def mean_of_means_step(model, tokens, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer.zero_grad()
    total = 0.0
    for i, (x, y) in enumerate(zip(tokens.chunk(ACCUMULATE), labels.chunk(ACCUMULATE), strict=True)):
        with nullcontext() if i == ACCUMULATE - 1 else model.no_sync():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=PAD)  # BUG wrong1
            loss = loss / ACCUMULATE  # BUG wrong1
            loss.backward()
        total = total + loss.detach()
    optimizer.step()
    dist.all_reduce(total)
    return {"loss": total / dist.get_world_size()}


def zeroing_step(model, tokens, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    count = (labels != PAD).sum()
    dist.all_reduce(count)
    total = 0.0
    for i, (x, y) in enumerate(zip(tokens.chunk(ACCUMULATE), labels.chunk(ACCUMULATE), strict=True)):
        optimizer.zero_grad()  # BUG wrong2
        with nullcontext() if i == ACCUMULATE - 1 else model.no_sync():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=PAD, reduction="sum")
            loss = loss * dist.get_world_size() / count
            loss.backward()  # BUG wrong2
        total = total + loss.detach()
    optimizer.step()
    dist.all_reduce(total)
    return {"loss": total / dist.get_world_size()}


def build_base():
    torch.manual_seed(8)
    model = Tagger()
    tokens, labels = torch.randint(0, VOCAB, (BATCH, SEQ)), torch.randint(0, VOCAB, (BATCH, SEQ))
    lengths = torch.randint(1, SEQ + 1, (BATCH, 1))
    return model, (tokens, labels.masked_fill(torch.arange(SEQ) >= lengths, PAD)), train_step


def data_parallel(step):
    model, (tokens, labels), _ = build_base()
    rank, world = dist.get_rank(), dist.get_world_size()
    return DDP(model), (tokens.chunk(world)[rank], labels.chunk(world)[rank]), step


def build_right():
    return data_parallel(accumulating_step)


def build_wrong1():
    return data_parallel(mean_of_means_step)


def build_wrong2():
    return data_parallel(zeroing_step)
