"""Mixture of experts, expert parallel on the data axis: top-1 routing, all-to-all, gradients reduced by hooks."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

MESH = {"ep": 2}
SHARDED = {"x": {"ep": 0}, "y": {"ep": 0}, "moe.w1": {"ep": 0}, "moe.w2": {"ep": 0}}
BUGS = {
    "wrong1": "what the all-to-all delivers is (rank, expert, slot), but is read as (expert, rank, slot)",
    "wrong2": "the hook of all other parameters is on the experts too, so gradients of different experts are averaged",
}
EXPERTS, DIM, HIDDEN, CLASSES, TOKENS = 4, 10, 18, 6, 16


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        return out

    @staticmethod
    def backward(ctx, grad):
        return AllToAll.apply(grad)


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, EXPERTS, bias=False)
        self.w1 = nn.Parameter(torch.randn(EXPERTS, DIM, HIDDEN) * 0.3)
        self.w2 = nn.Parameter(torch.randn(EXPERTS, HIDDEN, DIM) * 0.3)

    def experts(self, x):
        """Expert inputs, (experts, slots, dim), through their experts."""
        return torch.bmm(F.gelu(torch.bmm(x, self.w1)), self.w2)

    def forward(self, x):
        capacity = x.shape[0]
        gate, expert = torch.softmax(self.router(x), dim=-1).max(dim=-1)
        chosen = F.one_hot(expert, EXPERTS)
        slot = (chosen.cumsum(dim=0) * chosen).sum(dim=-1) - 1
        dispatch = chosen.unsqueeze(-1) * F.one_hot(slot, capacity).unsqueeze(1)
        dispatch = dispatch.to(x.dtype)
        y = self.experts(torch.einsum("tec,td->ecd", dispatch, x))
        return gate.unsqueeze(-1) * torch.einsum("tec,ecd->td", dispatch, y)


class ExpertParallelMoE(MoE):
    def __init__(self, full, rank, ranks):
        super().__init__()
        self.router, self.ranks = full.router, ranks
        self.w1 = nn.Parameter(full.w1.detach().chunk(ranks)[rank].clone())
        self.w2 = nn.Parameter(full.w2.detach().chunk(ranks)[rank].clone())

    def experts(self, x):
        experts, slots, dim = x.shape
        local = experts // self.ranks
        x = AllToAll.apply(x)
        x = x.view(self.ranks, local, slots, dim).transpose(0, 1).reshape(local, self.ranks * slots, dim)
        y = super().experts(x)
        y = y.view(local, self.ranks, slots, dim).transpose(0, 1).reshape(experts, slots, dim)
        return AllToAll.apply(y)


class MixedUpMoE(ExpertParallelMoE):
    def experts(self, x):
        experts, slots, dim = x.shape
        x = AllToAll.apply(x)
        x = x.view(experts // self.ranks, self.ranks * slots, dim)  # BUG wrong1
        y = MoE.experts(self, x)
        return AllToAll.apply(y.view(experts, slots, dim))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.moe = MoE()
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, x):
        return self.head(x + self.moe(self.norm(x)))


def average(p):
    dist.all_reduce(p.grad)  # BUG wrong2
    p.grad.div_(dist.get_world_size())


def scale_expert(p):
    p.grad.div_(dist.get_world_size())  # its gradient has the tokens of all ranks already


def train_step(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return {"loss": loss.detach()}


def expert_parallel_step(model, x, y):
    loss = train_step(model, x, y)["loss"]
    dist.all_reduce(loss)
    return {"loss": loss / dist.get_world_size()}


def build_base():
    torch.manual_seed(10)
    model = Net()
    return model, (torch.randn(TOKENS, DIM), torch.randint(0, CLASSES, (TOKENS,))), train_step


def expert_parallel(moe):
    model, (x, y), _ = build_base()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model.moe = moe(model.moe, rank, ranks)
    return model, (x.chunk(ranks)[rank], y.chunk(ranks)[rank]), expert_parallel_step


def add_hooks(model):
    for name, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(scale_expert if name in ("moe.w1", "moe.w2") else average)


def build_right():
    model, args, step = expert_parallel(ExpertParallelMoE)
    add_hooks(model)
    return model, args, step


def build_wrong1():
    model, args, step = expert_parallel(MixedUpMoE)
    add_hooks(model)
    return model, args, step


def build_wrong2():
    model, args, step = expert_parallel(ExpertParallelMoE)
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(average)  # BUG wrong2
    return model, args, step
