"""Clipping by the global norm and AdamW, parameters sharded by hand (column and row parallel linear layers)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

MESH = {"tp": 2}
SHARDED = {"up.weight": {"tp": 0}, "up.bias": {"tp": 0}, "down.weight": {"tp": 1}}
BUGS = {
    "wrong1": "every rank clips by the norm of its own shards",
    "wrong2": "replicated parameters are counted on every rank in the global norm",
}
FEATURES, DIM, HIDDEN, CLASSES, BATCH = 9, 12, 22, 7, 10


class CopyToRanks(torch.autograd.Function):
    """Identity; the backward sums over the ranks."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class ReduceFromRanks(torch.autograd.Function):
    """Sum over the ranks; the backward is the identity."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class ColumnParallel(nn.Module):
    def __init__(self, full, rank, ranks):
        super().__init__()
        self.weight = nn.Parameter(full.weight.detach().chunk(ranks, 0)[rank].clone())
        self.bias = nn.Parameter(full.bias.detach().chunk(ranks, 0)[rank].clone())

    def forward(self, x):
        return F.linear(CopyToRanks.apply(x), self.weight, self.bias)


class RowParallel(nn.Module):
    def __init__(self, full, rank, ranks):
        super().__init__()
        self.weight = nn.Parameter(full.weight.detach().chunk(ranks, 1)[rank].clone())
        self.bias = nn.Parameter(full.bias.detach().clone())

    def forward(self, x):
        return ReduceFromRanks.apply(F.linear(x, self.weight)) + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(FEATURES, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, x):
        x = self.inputs(x)
        x = x + self.down(F.silu(self.up(self.norm(x))))
        return self.head(x)


def clip_by_(grads, norm, max_norm):
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for grad in grads:
        grad.mul_(scale)


def squares(grads):
    return torch.stack([grad.pow(2).sum() for grad in grads]).sum()


def clip_globally(model, max_norm):
    sharded = [p.grad for name, p in model.named_parameters() if name in SHARDED]
    replicated = [p.grad for name, p in model.named_parameters() if name not in SHARDED]
    total = squares(sharded)
    dist.all_reduce(total)
    norm = torch.sqrt(total + squares(replicated))
    clip_by_(sharded + replicated, norm, max_norm)
    return norm


def clip_locally(model, max_norm):
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # BUG wrong1


def clip_counting_twice(model, max_norm):
    grads = [p.grad for p in model.parameters()]
    total = squares(grads)  # BUG wrong2
    dist.all_reduce(total)  # BUG wrong2
    norm = torch.sqrt(total)
    clip_by_(grads, norm, max_norm)
    return norm


def step_with(clip):
    def train_step(model, x, y):
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2, betas=(0.9, 0.95), weight_decay=0.05)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = clip(model, 0.25)
        optimizer.step()
        return {"loss": loss, "grad_norm": norm}

    return train_step


def build_base():
    torch.manual_seed(9)
    model = Net()
    step = step_with(lambda model, max_norm: torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm))
    return model, (torch.randn(BATCH, FEATURES), torch.randint(0, CLASSES, (BATCH,))), step


def tensor_parallel(clip):
    model, args, _ = build_base()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model.up, model.down = ColumnParallel(model.up, rank, ranks), RowParallel(model.down, rank, ranks)
    return model, args, step_with(clip)


def build_right():
    return tensor_parallel(clip_globally)


def build_wrong1():
    return tensor_parallel(clip_locally)


def build_wrong2():
    return tensor_parallel(clip_counting_twice)
