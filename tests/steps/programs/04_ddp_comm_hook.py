"""DistributedDataParallel with a communication hook on its buckets: classifier, mean loss, SGD with momentum."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

MESH = {"dp": 2}
SHARDED = {"x": {"dp": 0}, "y": {"dp": 0}}
BUGS = {
    "wrong1": "the hook sums the buckets and does not divide by the number of ranks",
    "wrong2": "the step calls the wrapped module, not the wrapper, so gradients are never reduced",
}
BATCH, FEATURES, HIDDEN, CLASSES = 8, 12, 20, 7


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.LayerNorm(HIDDEN), nn.ReLU())
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


def average(group, bucket):
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0].div_(dist.get_world_size(group)))


def add(group, bucket):
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)  # BUG wrong1
    return work.get_future().then(lambda done: done.value()[0])  # BUG wrong1


def train_step(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return {"loss": loss.detach()}


def ddp_step(model, x, y):
    loss = train_step(model, x, y)["loss"]
    dist.all_reduce(loss)
    return {"loss": loss / dist.get_world_size()}


def unwrapped_step(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.zero_grad()
    loss = F.cross_entropy(model.module(x), y)  # BUG wrong2
    loss.backward()  # BUG wrong2
    optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    return {"loss": loss / dist.get_world_size()}


def build_base():
    torch.manual_seed(4)
    model = Classifier()
    return model, (torch.randn(BATCH, FEATURES), torch.randint(0, CLASSES, (BATCH,))), train_step


def data_parallel(hook, step):
    model, (x, y), _ = build_base()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DDP(model)
    model.register_comm_hook(None, hook)
    return model, (x.chunk(world)[rank], y.chunk(world)[rank]), step


def build_right():
    return data_parallel(average, ddp_step)


def build_wrong1():
    return data_parallel(add, ddp_step)


def build_wrong2():
    return data_parallel(average, unwrapped_step)
