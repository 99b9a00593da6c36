"""Pipelines of torch that end in an optimiser on shards (ZeRO-1): gradients are reduced and scattered over the copies,
each makes its block of every new weight, and gathers all. Imported where torch is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

from .captured import Block, Net, mean_square

RATE = 0.125


def builders(
    name: str, mesh: Mapping[str, int], batches: int, error: str = "", *, in_place: bool = False
) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    """What builds the pipeline, and the baseline. `in_place`: by c10d's collectives, each within one buffer."""
    stages, copies = mesh["pp"], mesh["dp"]

    def build_base() -> Any:
        torch.manual_seed(7)
        model = Net({str(n): Block() for n in range(stages)})
        x, target = (torch.randn(2 * batches * copies, 8) for _ in range(2))

        def step(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
            loss = mean_square(model(x), target)
            loss.backward()
            return {"loss": loss, **{f"new {n}": p.detach() - RATE * p.grad for n, p in model.named_parameters()}}

        return model, (x, target), step

    def build(device_mesh: Any) -> Any:
        whole, (x, target), _ = build_base()
        at, copy = device_mesh["pp"].get_local_rank(), device_mesh["dp"].get_local_rank()
        group, over = device_mesh.get_group("pp"), device_mesh.get_group("dp")
        model = Net({str(at): whole.layers[str(at)]})
        stage = PipelineStage(model, at, stages, torch.device("cpu"), group=group)
        schedule = getattr(schedules, name)(stage, batches, loss_fn=mean_square)
        rows = [value.chunk(copies)[copy].clone() for value in (x, target)]

        def stepped(weight: str, p: nn.Parameter) -> torch.Tensor:
            gradient = p.grad.reshape(-1)
            if error == "own gradients":
                shard = gradient.chunk(copies)[copy].clone()
            else:
                if in_place:
                    shard = gradient.chunk(copies)[copy]
                    dist.reduce_scatter_tensor(shard, gradient, group=over)
                else:
                    shard = funcol.reduce_scatter_tensor(gradient, "sum", 0, over)
                shard = shard / (1 if error == "copies added up" else copies)
            place = 0 if error == "one shard of the weight" and weight.endswith("down.weight") else copy
            new = p.detach().reshape(-1).chunk(copies)[place] - RATE * shard
            if error == "a scale on one copy" and copy == 1:
                new = new * 1.5
            if in_place:
                full = torch.empty(gradient.shape)
                mine = full.chunk(copies)[copy]
                mine.copy_(new)
                dist.all_gather_into_tensor(full, mine, group=over)
            else:
                full = funcol.all_gather_tensor(new, 0, over)
            if error == "gathered in another order":
                full = torch.cat(full.chunk(copies)[::-1])
            return full.reshape(p.shape)

        def step(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
            losses: list[torch.Tensor] = []
            given = {"target": target, "losses": losses} if at == stages - 1 else {}
            schedule.step(*((x,) if at == 0 else ()), **given)
            loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
            dist.broadcast(loss, group=group, group_src=stages - 1)
            dist.all_reduce(loss, group=over)
            return {"loss": loss / copies, **{f"new {n}": stepped(n, p) for n, p in model.named_parameters()}}

        return model, rows, step

    return build, build_base
