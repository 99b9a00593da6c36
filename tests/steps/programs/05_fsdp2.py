"""FSDP2: `fully_shard` on every block and on the whole, batch over ranks, mean next-token loss, AdamW."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

MESH = {"dp": 2}
SHARDED = {"tokens": {"dp": 0}}
BUGS = {
    "wrong1": "the loss is divided by the number of ranks, though FSDP averages gradients already",
    "wrong2": "the norm is among the ignored parameters, so nobody reduces its gradients",
}
VOCAB, DIM, HIDDEN, BATCH, SEQ = 18, 12, 28, 6, 5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.mix = nn.Linear(SEQ, SEQ)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # BUG wrong2


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1))


def train_step(model, tokens):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = loss_of(model, tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return {"loss": loss.detach()}


def fsdp_step(model, tokens):
    loss = train_step(model, tokens)["loss"]
    dist.all_reduce(loss)
    return {"loss": loss / dist.get_world_size()}


def twice_averaged_step(model, tokens):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = loss_of(model, tokens) / dist.get_world_size()  # BUG wrong1
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss = loss.detach()
    dist.all_reduce(loss)
    return {"loss": loss}


def build_base():
    torch.manual_seed(5)
    model = Mixer()
    return model, (torch.randint(0, VOCAB, (BATCH, SEQ + 1)),), train_step


def local_batch(tokens):
    return tokens.chunk(dist.get_world_size())[dist.get_rank()]


def build_right(step=fsdp_step):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    model, (tokens,), _ = build_base()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, (local_batch(tokens),), step


def build_wrong1():
    return build_right(twice_averaged_step)


def build_wrong2():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    model, (tokens,), _ = build_base()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=set(model.norm.parameters()))  # BUG wrong2
    return model, (local_batch(tokens),), fsdp_step
