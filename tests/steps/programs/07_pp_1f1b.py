"""Pipeline of two stages under the 1F1B schedule, four micro-batches; embedding tied to the output, AdamW."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

MESH = {"pp": 2}
BUGS = {
    "wrong1": "the schedule sums gradients of micro-batches whose losses are means: four times too large",
    "wrong2": "the tied embedding's gradients on the first and the last stage are not added up",
}
VOCAB, DIM, HIDDEN, LAYERS, BATCH, SEQ, MICROBATCHES = 19, 12, 20, 4, 8, 5, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleDict({str(i): Block() for i in range(LAYERS)})
        self.norm = nn.LayerNorm(DIM)
        self.first = self.last = True

    def forward(self, x):
        if self.first:
            x = self.embed(x)  # BUG wrong2
        for layer in self.layers.values():
            x = layer(x)
        if self.last:
            x = F.linear(self.norm(x), self.embed.weight)  # BUG wrong2
        return x


def token_loss(logits, labels):
    return F.cross_entropy(logits.reshape(-1, VOCAB), labels.reshape(-1))


def train_step(model, tokens, labels):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = token_loss(model(tokens), labels)
    loss.backward()
    optimizer.step()
    return {"loss": loss}


def build_base():
    torch.manual_seed(7)
    model = Decoder()
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
    return model, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()), train_step


def stage_of(model, rank, ranks):
    """What this rank keeps of the model."""
    per_stage = LAYERS // ranks
    for i in range(LAYERS):
        if i // per_stage != rank:
            del model.layers[str(i)]
    model.first, model.last = rank == 0, rank == ranks - 1
    if not model.last:
        model.norm = None
    return PipelineStage(model, rank, ranks, torch.device("cpu"))


def run_schedule(schedule, model, tokens, labels):
    """Forward and backward of all micro-batches; the mean loss, known to the last stage, on every rank."""
    losses = []
    if model.first:
        schedule.step(tokens)  # BUG wrong1
    else:
        schedule.step(target=labels, losses=losses)  # BUG wrong1
    loss = torch.stack(losses).mean().detach() if model.last else torch.zeros(())
    dist.broadcast(loss, src=dist.get_world_size() - 1)
    return loss


def build_right():
    model, args, _ = build_base()
    stage = stage_of(model, dist.get_rank(), dist.get_world_size())
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=token_loss)

    def step(model, tokens, labels):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loss = run_schedule(schedule, model, tokens, labels)
        dist.all_reduce(model.embed.weight.grad)
        optimizer.step()
        return {"loss": loss}

    return model, args, step


def build_wrong1():
    model, args, _ = build_base()
    stage = stage_of(model, dist.get_rank(), dist.get_world_size())
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=token_loss, scale_grads=False)  # BUG wrong1

    def step(model, tokens, labels):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loss = run_schedule(schedule, model, tokens, labels)
        dist.all_reduce(model.embed.weight.grad)
        optimizer.step()
        return {"loss": loss}

    return model, args, step


def build_wrong2():
    model, args, _ = build_base()
    stage = stage_of(model, dist.get_rank(), dist.get_world_size())
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=token_loss)

    def step(model, tokens, labels):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        loss = run_schedule(schedule, model, tokens, labels)
        optimizer.step()  # BUG wrong2
        return {"loss": loss}

    return model, args, step
