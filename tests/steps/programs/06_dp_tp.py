"""Data × tensor parallel: DTensor plans, gradients averaged over the data axis after the backward, SGD."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

MESH = {"dp": 2, "tp": 2}
BUGS = {
    "wrong1": "gradients are reduced over all ranks: shards of different tensor parallel ranks are mixed",
    "wrong2": "the batch is chosen by the global rank modulo dp, so ranks of one tensor parallel group differ",
}
DIM, HIDDEN, CLASSES, BATCH = 10, 28, 6, 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.up1, self.down1 = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
        self.up2, self.down2 = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, x):
        x = x + self.down1(F.relu(self.up1(self.norm1(x))))
        x = x + self.down2(F.relu(self.up2(self.norm2(x))))
        return self.head(x)


PLAN = {"up1": ColwiseParallel(), "down1": RowwiseParallel(), "up2": ColwiseParallel(), "down2": RowwiseParallel()}


def average_gradients(model, group):
    for p in model.parameters():
        grad = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
        dist.all_reduce(grad, group=group)
        grad.div_(group.size())


def average_over_all(model, group):
    for p in model.parameters():
        grad = p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
        dist.all_reduce(grad)  # BUG wrong1
        grad.div_(dist.get_world_size())


def train_step(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=1e-3)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return {"loss": loss}


def data_parallel_step(mesh, index, reduce):
    group = mesh.get_group("dp")

    def step(model, x, y):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=1e-3)
        x, y = x.chunk(group.size())[index], y.chunk(group.size())[index]  # BUG wrong2
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        reduce(model, group)
        optimizer.step()
        loss = loss.detach()
        dist.all_reduce(loss, group=group)
        return {"loss": loss / group.size()}

    return step


def build_base():
    torch.manual_seed(6)
    model = Net()
    return model, (torch.randn(BATCH, DIM), torch.randint(0, CLASSES, (BATCH,))), train_step


def parallel():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model, args, _ = build_base()
    parallelize_module(model, mesh["tp"], PLAN)
    return mesh, model, args


def build_right():
    mesh, model, args = parallel()
    return model, args, data_parallel_step(mesh, mesh.get_local_rank("dp"), average_gradients)


def build_wrong1():
    mesh, model, args = parallel()
    return model, args, data_parallel_step(mesh, mesh.get_local_rank("dp"), average_over_all)


def build_wrong2():
    mesh, model, args = parallel()
    index = dist.get_rank() % mesh["dp"].size()  # BUG wrong2
    return model, args, data_parallel_step(mesh, index, average_gradients)
