"""Sequence parallel decoder with loss parallel: activations cut over tokens, logits over the vocabulary."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

MESH = {"tp": 2}
BUGS = {
    "wrong1": "the last norm is left out of the plan: it runs on its rank's tokens, and its gradient is never summed",
    "wrong2": "the plan of the MLP expects whole inputs but gets its rank's tokens: parts of other tokens are summed",
}
VOCAB, DIM, HEADS, HIDDEN, BATCH, SEQ = 22, 16, 4, 40, 3, 6


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(DIM, DIM, bias=False) for _ in range(3))
        self.wo = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (w(x).view(b, s, -1, DIM // HEADS).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, s, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(DIM, HIDDEN, bias=False)
        self.w3 = nn.Linear(DIM, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))  # BUG wrong2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.RMSNorm(DIM)
        self.attention = Attention()
        self.ffn_norm = nn.RMSNorm(DIM)
        self.feed_forward = FeedForward()

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.RMSNorm(DIM)
        self.output = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))  # BUG wrong1


def train_step(model, tokens, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
    loss.backward()
    optimizer.step()
    return {"loss": loss}


def loss_parallel_step(model, tokens, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    with loss_parallel():
        loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss.backward()
    optimizer.step()
    return {"loss": loss}


def build_base():
    torch.manual_seed(3)
    model = Decoder()
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    return model, (tokens[:, :-1], tokens[:, 1:]), train_step


MODEL_PLAN = {
    "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
}
ATTENTION_PLAN = {
    "attention_norm": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "attention.wq": ColwiseParallel(),
    "attention.wk": ColwiseParallel(),
    "attention.wv": ColwiseParallel(),
    "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
    "ffn_norm": SequenceParallel(use_local_output=True),
}
FFN_PLAN = {
    "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "feed_forward.w1": ColwiseParallel(),
    "feed_forward.w3": ColwiseParallel(),
    "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
}


def sequence_parallel(model_plan, block_plan):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model, args, _ = build_base()
    parallelize_module(model, mesh, model_plan)
    for layer in model.layers:
        parallelize_module(layer, mesh, block_plan)
    return model, args, loss_parallel_step


def build_right():
    return sequence_parallel(MODEL_PLAN, {**ATTENTION_PLAN, **FFN_PLAN})


def build_wrong1():
    plan = {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        # "norm" is missing  # BUG wrong1
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
    }
    return sequence_parallel(plan, {**ATTENTION_PLAN, **FFN_PLAN})


def build_wrong2():
    plan = {
        "feed_forward.w1": ColwiseParallel(),  # BUG wrong2
        "feed_forward.w3": ColwiseParallel(),  # BUG wrong2
        "feed_forward.w2": RowwiseParallel(),
    }
    return sequence_parallel(MODEL_PLAN, {**ATTENTION_PLAN, **plan})
