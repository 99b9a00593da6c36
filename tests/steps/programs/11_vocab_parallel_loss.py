"""Vocabulary parallel embedding, projection and cross entropy by hand, the loss an autograd function; SGD."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

MESH = {"tp": 2}
SHARDED = {"embed.weight": {"tp": 0}, "head.weight": {"tp": 0}}
BUGS = {
    "wrong1": "logits of targets that another rank owns are not masked before they are summed over the ranks",
    "wrong2": "the hidden state enters the sharded projection without the backward sum over the ranks",
}
VOCAB, DIM, HIDDEN, BATCH, SEQ = 26, 14, 22, 4, 5


class CopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class ReduceFromRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def owned(tokens, size):
    """Which tokens this rank's part of the vocabulary has, and where they are in it."""
    start = dist.get_rank() * size
    mine = (tokens >= start) & (tokens < start + size)
    return mine, torch.where(mine, tokens - start, 0)


class VocabParallelCrossEntropy(torch.autograd.Function):
    """Mean cross entropy of (tokens, vocabulary / ranks) logits."""

    @staticmethod
    def forward(ctx, logits, target):
        largest = logits.max(dim=-1).values
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        logits = logits - largest.unsqueeze(-1)
        mine, index = owned(target, logits.shape[-1])
        predicted = logits.gather(-1, index.unsqueeze(-1)).squeeze(-1)
        predicted = predicted.masked_fill(~mine, 0.0)
        dist.all_reduce(predicted)
        exponentials = logits.exp()
        total = exponentials.sum(dim=-1)
        dist.all_reduce(total)
        ctx.save_for_backward(exponentials / total.unsqueeze(-1), mine, index)
        return (total.log() - predicted).mean()

    @staticmethod
    def backward(ctx, grad):
        softmax, mine, index = ctx.saved_tensors
        d = softmax.clone()
        rows = torch.arange(d.shape[0])
        d[rows, index] -= mine.to(d.dtype)
        return d * (grad / d.shape[0]), None


class UnmaskedCrossEntropy(VocabParallelCrossEntropy):
    @staticmethod
    def forward(ctx, logits, target):
        largest = logits.max(dim=-1).values
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        logits = logits - largest.unsqueeze(-1)
        mine, index = owned(target, logits.shape[-1])
        predicted = logits.gather(-1, index.unsqueeze(-1)).squeeze(-1)  # BUG wrong1
        dist.all_reduce(predicted)  # BUG wrong1
        exponentials = logits.exp()
        total = exponentials.sum(dim=-1)
        dist.all_reduce(total)
        ctx.save_for_backward(exponentials / total.unsqueeze(-1), mine, index)
        return (total.log() - predicted).mean()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def hidden(self, x):
        return x + self.down(torch.relu(self.up(x)))

    def forward(self, tokens, target):
        logits = self.head(self.hidden(self.embed(tokens)))
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


class VocabParallelEmbedding(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, tokens):
        mine, index = owned(tokens, self.weight.shape[0])
        x = F.embedding(index, self.weight)
        return ReduceFromRanks.apply(x.masked_fill(~mine.unsqueeze(-1), 0.0))


class VocabParallelModel(Model):
    cross_entropy = VocabParallelCrossEntropy

    def __init__(self, full):
        super().__init__()
        self.load_state_dict(full.state_dict())
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.embed = VocabParallelEmbedding(full.embed.weight.detach().chunk(ranks)[rank].clone())
        self.head.weight = nn.Parameter(full.head.weight.detach().chunk(ranks)[rank].clone())

    def forward(self, tokens, target):
        h = self.hidden(self.embed(tokens))
        logits = self.head(CopyToRanks.apply(h))
        return self.cross_entropy.apply(logits.flatten(0, 1), target.flatten())


class UnmaskedModel(VocabParallelModel):
    cross_entropy = UnmaskedCrossEntropy


class UncopiedModel(VocabParallelModel):
    def forward(self, tokens, target):
        h = self.hidden(self.embed(tokens))
        logits = self.head(h)  # BUG wrong2
        return self.cross_entropy.apply(logits.flatten(0, 1), target.flatten())


def train_step(model, tokens, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    loss = model(tokens, target)
    loss.backward()
    optimizer.step()
    return {"loss": loss}


def build_base():
    torch.manual_seed(11)
    model = Model()
    return model, (torch.randint(0, VOCAB, (BATCH, SEQ)), torch.randint(0, VOCAB, (BATCH, SEQ))), train_step


def build_right():
    model, args, step = build_base()
    return VocabParallelModel(model), args, step


def build_wrong1():
    model, args, step = build_base()
    return UnmaskedModel(model), args, step


def build_wrong2():
    model, args, step = build_base()
    return UncopiedModel(model), args, step
