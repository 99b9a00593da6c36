"""Context parallel causal attention: tokens cut, keys and values gathered, gradients averaged in hooks, AdamW."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

MESH = {"cp": 2}
SHARDED = {"tokens": {"cp": 1}, "labels": {"cp": 1}}
BUGS = {
    "wrong1": "rotary positions start at 0 on every rank, not at the rank's first token",
    "wrong2": "keys and values of other ranks are gathered without autograd: gradients do not flow back to their ranks",
}
VOCAB, DIM, HEADS, BATCH, SEQ = 23, 24, 3, 2, 10


class GatherSequence(torch.autograd.Function):
    """All ranks' tokens; the backward sums over the ranks and keeps one's own."""

    @staticmethod
    def forward(ctx, x, dim):
        ctx.dim = dim
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size(), ctx.dim)[dist.get_rank()], None


def gather_without_grad(x, dim):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.detach())  # BUG wrong2
    parts[dist.get_rank()] = x
    return torch.cat(parts, dim)


def rotary(x, positions):
    half = x.shape[-1] // 2
    angles = torch.outer(positions, 1.0 / 100.0 ** (torch.arange(half) / half))
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def first(self, length):
        """The position of the first token."""
        return 0

    def gather(self, x):
        return x

    def mask(self, length, keys):
        return torch.arange(keys) <= torch.arange(length).unsqueeze(-1)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        positions = torch.arange(s) + self.first(s)  # BUG wrong1
        q, k = rotary(q, positions), rotary(k, positions)
        k, v = self.gather(k), self.gather(v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(s, k.shape[2]))
        return self.out(y.transpose(1, 2).reshape(b, s, DIM))


class ContextParallelAttention(Attention):
    def first(self, length):
        return dist.get_rank() * length

    def gather(self, x):
        return GatherSequence.apply(x.contiguous(), 2)

    def mask(self, length, keys):
        return torch.arange(keys) <= (torch.arange(length) + dist.get_rank() * length).unsqueeze(-1)


class UnshiftedAttention(ContextParallelAttention):
    def first(self, length):
        return 0  # BUG wrong1


class DetachedAttention(ContextParallelAttention):
    def gather(self, x):
        return gather_without_grad(x.contiguous(), 2)


class Decoder(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attention1, self.attention2 = attention(), attention()
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attention1(self.norm1(x))
        x = x + self.attention2(self.norm2(x))
        return self.head(x)


def train_step(model, tokens, labels):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
    loss.backward()
    optimizer.step()
    return {"loss": loss.detach()}


def context_parallel_step(model, tokens, labels):
    loss = train_step(model, tokens, labels)["loss"]
    dist.all_reduce(loss)
    return {"loss": loss / dist.get_world_size()}


def build_base(attention=Attention):
    torch.manual_seed(12)
    model = Decoder(attention)
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    return model, (tokens[:, :-1], tokens[:, 1:]), train_step


def average(p):
    dist.all_reduce(p.grad)
    p.grad.div_(dist.get_world_size())


def context_parallel(attention):
    model, args, _ = build_base(attention)
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(average)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return model, tuple(a.chunk(ranks, 1)[rank] for a in args), context_parallel_step


def build_right():
    return context_parallel(ContextParallelAttention)


def build_wrong1():
    return context_parallel(UnshiftedAttention)


def build_wrong2():
    return context_parallel(DetachedAttention)
