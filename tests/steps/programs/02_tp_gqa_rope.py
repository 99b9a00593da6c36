"""Tensor parallel grouped-query attention with rotary embeddings: heads over ranks, next-token loss, AdamW."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

MESH = {"tp": 2}
BUGS = {
    "wrong1": "key/value heads are tiled (0 1 0 1) instead of repeated (0 0 1 1), so queries meet other heads' keys",
    "wrong2": "the softmax scale is computed from the number of local heads, so it is too small by the root of tp",
}
VOCAB, DIM, HEADS, KV_HEADS, HEAD_DIM, BATCH, SEQ = 20, 48, 8, 4, 6, 3, 5


def rotary_tables(length, head_dim, theta=10000.0):
    frequencies = 1.0 / theta ** (torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(torch.arange(length), frequencies)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.wk = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.wv = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.wo = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)
        self.repeats = HEADS // KV_HEADS

    def repeat_kv(self, x):
        return x.repeat_interleave(self.repeats, dim=1)

    def scale(self, q):
        return HEAD_DIM**-0.5

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        q = self.wq(x).view(b, s, -1, HEAD_DIM).transpose(1, 2)
        k = self.wk(x).view(b, s, -1, HEAD_DIM).transpose(1, 2)
        v = self.wv(x).view(b, s, -1, HEAD_DIM).transpose(1, 2)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k, v = self.repeat_kv(k), self.repeat_kv(v)
        scores = q @ k.transpose(-2, -1) * self.scale(q)  # BUG wrong2
        mask = torch.full((s, s), float("-inf")).triu(1)
        y = torch.softmax(scores + mask, dim=-1) @ v
        return self.wo(y.transpose(1, 2).reshape(b, s, -1))


class TiledAttention(Attention):
    def repeat_kv(self, x):
        return x.repeat(1, self.repeats, 1, 1)  # BUG wrong1


class LocalScaleAttention(Attention):
    def scale(self, q):
        return (DIM // q.shape[1]) ** -0.5  # BUG wrong2


class Decoder(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.norm = nn.RMSNorm(DIM)
        self.attention = attention()
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        cos, sin = rotary_tables(SEQ, HEAD_DIM)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.attention(self.norm(x), self.cos, self.sin)
        return self.head(x)


def train_step(model, tokens):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return {"loss": loss}


def build_base(attention=Attention):
    torch.manual_seed(2)
    model = Decoder(attention)
    return model, (torch.randint(0, VOCAB, (BATCH, SEQ + 1)),), train_step


def tensor_parallel(attention):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model, args, step = build_base(attention)
    plan = {
        "attention.wq": ColwiseParallel(),
        "attention.wk": ColwiseParallel(),
        "attention.wv": ColwiseParallel(),
        "attention.wo": RowwiseParallel(),
    }
    parallelize_module(model, mesh, plan)
    return model, args, step


def build_right():
    return tensor_parallel(Attention)


def build_wrong1():
    return tensor_parallel(TiledAttention)


def build_wrong2():
    return tensor_parallel(LocalScaleAttention)
