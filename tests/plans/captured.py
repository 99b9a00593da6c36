"""Pipelines of `torch.distributed.pipelining` with copies and tensor parallel stages, and ways to get them wrong.

Imported where torch is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, SplitPoint, pipeline, schedules
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

DIM, HIDDEN = 8, 16
SINGLE = ("ScheduleGPipe", "Schedule1F1B")
MULTI = ("ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble")
IN_A_V = ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(x)))


class Net(nn.Module):
    def __init__(self, layers: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(dict(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers.values():
            x = layer(x)
        return x


def mean_square(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return ((y - target) ** 2).mean()


def gradients(model: nn.Module) -> dict[str, Any]:
    return {f"grad {name}": p.grad for name, p in model.named_parameters()}


def builders(
    name: str, mesh: Mapping[str, int], batches: int, error: str = ""
) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    """What builds the pipeline, and the baseline."""
    ranks = mesh["pp"]
    stages = ranks if name in SINGLE else 2 * ranks
    home = {s: stages - 1 - s if name in IN_A_V and s >= ranks else s % ranks for s in range(stages)}
    batch = 2 * batches * mesh["dp"]

    def build_base() -> Any:
        torch.manual_seed(7)
        model = Net({str(n): Block() for n in range(stages)})
        x, target = torch.randn(batch, DIM), torch.randn(batch, DIM)

        def step(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
            loss = mean_square(model(x), target)
            loss.backward()
            return {"loss": loss, **gradients(model)}

        return model, (x, target), step

    def build(device_mesh: Any) -> Any:
        whole, (x, target), _ = build_base()
        at, copy = device_mesh["pp"].get_local_rank(), device_mesh["dp"].get_local_rank()
        order = [1, 0, *range(2, stages)] if error == "stages in the wrong order" else list(range(stages))
        mine = {s: Net({str(order[s]): whole.layers[str(order[s])]}) for s in range(stages) if home[s] == at}
        model = Net({key: layer for part in mine.values() for key, layer in part.layers.items()})
        for layer in model.layers.values():
            parallelize_module(layer, device_mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        group = device_mesh.get_group("pp")
        parts = [PipelineStage(part, s, stages, torch.device("cpu"), group=group) for s, part in mine.items()]
        loss_fn = mean_square
        if error == "loss averaged twice":
            loss_fn = lambda y, t: mean_square(y, t) / batches  # noqa: E731
        schedule = getattr(schedules, name)(
            parts[0] if name in SINGLE else parts, batches, loss_fn=loss_fn,
            scale_grads=error != "gradients not scaled",
        )  # fmt: skip
        _wrong(error, model, mine)
        rows = [value.chunk(mesh["dp"])[copy].clone() for value in (x, target)]

        def step(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
            losses: list[torch.Tensor] = []
            if error == "targets in another order":
                target = torch.cat(target.chunk(batches)[::-1])
            if error == "a micro-batch twice":
                x, target = (torch.cat([v.chunk(batches)[0], *v.chunk(batches)[:-1]]) for v in (x, target))
            given = {"target": target, "losses": losses} if stages - 1 in mine else {}
            schedule.step(*((x,) if 0 in mine else ()), **given)
            loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
            if losses and error == "the last loss only":
                loss = losses[-1].detach()
            dist.broadcast(loss, group=group, group_src=home[stages - 1])
            found = gradients(model)
            for what, value in {"loss": loss, **found}.items():
                local = value.to_local() if hasattr(value, "to_local") else value
                if error == "a gradient not reduced" and what == "grad layers.0.up.weight":
                    continue
                dist.all_reduce(local, group=device_mesh.get_group("dp"))
                local /= 1 if error == "copies added up" else mesh["dp"]
            return {"loss": loss, **found}

        return model, rows, step

    return build, build_base


def traced() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    """What builds two stages that `pipeline()` cuts a model into, and the baseline."""
    _, build_base = builders("ScheduleGPipe", {"pp": 2, "dp": 1}, 4)

    def build(device_mesh: Any) -> Any:
        model, (x, target), _ = build_base()
        cut = pipeline(model, mb_args=(x.chunk(4)[0],), split_spec={"layers.1": SplitPoint.BEGINNING})
        stage = cut.build_stage(dist.get_rank(), torch.device("cpu"))
        schedule = schedules.ScheduleGPipe(stage, 4, loss_fn=mean_square)

        def step(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
            losses: list[torch.Tensor] = []
            if stage.is_first:
                schedule.step(x)
            else:
                schedule.step(target=target, losses=losses)
            loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
            dist.broadcast(loss, src=1)
            return {"loss": loss, **gradients(model)}

        return stage.submod, (x, target), step

    return build, build_base


def _wrong(error: str, model: nn.Module, mine: Mapping[int, nn.Module]) -> None:
    """Errors that sit in a stage."""
    if error == "no accumulation":
        for p in model.parameters():
            seen = []

            def only_new(p: torch.Tensor, seen: list[torch.Tensor] = seen) -> None:
                assert p.grad is not None
                p.grad = p.grad - seen[-1] if seen else p.grad  # what came before is lost
                seen.append(p.grad.clone() if not seen else seen[-1] + p.grad)

            p.register_post_accumulate_grad_hook(only_new)
    if error in ("a stale activation", "an activation of the run that tells shapes"):
        for s, part in mine.items():
            if s == 1:
                first: list[torch.Tensor] = []
                skipped = int(error == "a stale activation")  # stages are first run for their shapes

                def again(
                    _: nn.Module, args: tuple[torch.Tensor, ...], first: list[torch.Tensor] = first,
                    skipped: int = skipped,
                ) -> Any:  # fmt: skip
                    first.append(args[0])
                    return (args[0] * 0 + first[min(skipped, len(first) - 1)].detach(),)

                part.register_forward_pre_hook(again)
