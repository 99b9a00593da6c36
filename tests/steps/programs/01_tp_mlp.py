"""Tensor parallel MLP by DTensor plans: pre-norm residual blocks, up column-wise, down row-wise, mean squared error."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

MESH = {"tp": 2}
BUGS = {
    "wrong1": "the row-wise projection is left as a partial sum: every rank adds only its own part to the residual",
    "wrong2": "the plan loads the bias of the row-wise projection on every rank before the sum, so it is added twice",
}
DIM, HIDDEN, OUT, BATCH, SEQ = 16, 24, 5, 8, 6


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))  # BUG wrong1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(MLP() for _ in range(2))
        self.head = nn.Linear(DIM, OUT)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class RowwiseBias(nn.Module):
    """A linear layer whose weight is sharded by columns: partial products, summed over the ranks."""

    def __init__(self, linear, mesh):
        super().__init__()
        self.mesh = mesh
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x):
        x = x.redistribute(self.mesh, [Replicate()]) if x.placements[0].is_partial() else x
        partial = F.linear(x.to_local(), self.weight.to_local(), self.bias.to_local())  # BUG wrong2
        return SumOverRanks.apply(partial)


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def train_step(model, x, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    prediction = model(x)
    loss = F.mse_loss(prediction, target)
    loss.backward()
    optimizer.step()
    return {"loss": loss, "prediction": prediction}


def build_base():
    torch.manual_seed(1)
    model = Net()
    return model, (torch.randn(BATCH, SEQ, DIM), torch.randn(BATCH, SEQ, OUT)), train_step


def build_right():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model, args, step = build_base()
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model, args, step


def build_wrong1():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model, args, step = build_base()
    for block in model.blocks:
        plan = {
            "up": ColwiseParallel(),
            "down": RowwiseParallel(output_layouts=Partial()),  # BUG wrong1
        }
        parallelize_module(block, mesh, plan)
    return model, args, step


def build_wrong2():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model, args, step = build_base()
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()})
        block.down = RowwiseBias(block.down, mesh)
    return model, args, step
