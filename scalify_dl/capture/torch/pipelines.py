"""Pipelines of `torch.distributed.pipelining`: stages tell each other the shapes of what they will send.

That exchange, in the first step, steers the schedule and moves no values of the program: it runs, but is not recorded.
The order of a schedule is noted beside the dump of a rank, and written with the plan of the step: the one that its
runtime goes by, else what the rank was seen to run (what such a schedule says of itself need not be what it does).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.pipelining.stage import _PipelineStageBase
from torch.utils._python_dispatch import _disable_current_modes

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.whole import write_whole

from .ranks import NeedsRanks
from .reads import living

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["Pipelines", "note_of", "stages_apart", "write_plan"]


@dataclass
class Pipelines:
    """What a rank was seen to run: schedules, and what their stages did, as torch writes actions."""

    schedules: list[Any] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)

    def forward(self, stage: Any, chunk: int, *args: Any, **kwargs: Any) -> None:
        """One micro-batch forwards."""
        self.actions.append(f"{stage.stage_index}F{chunk}")

    def backward(self, stage: Any, chunk: int, *args: Any, full_backward: bool = True, **kwargs: Any) -> None:
        """One micro-batch backwards: all of it, or without the gradients of weights."""
        self.actions.append(f"{stage.stage_index}{'B' if full_backward else 'I'}{chunk}")

    def weights(self, stage: Any, chunk: int, *args: Any, **kwargs: Any) -> None:
        """The gradients of weights of one micro-batch."""
        self.actions.append(f"{stage.stage_index}W{chunk}")


@contextlib.contextmanager
def stages_apart(recorder: Recorder) -> Iterator[Pipelines]:
    """Stages are initialised outside of the recording: their buffers are there before. NeedsRanks where the others do
    not run. Gives the schedules whose stages these are, and what they do."""
    found = Pipelines()
    if not dist.is_initialized():
        yield found
        return

    before = _PipelineSchedule._initialize_pp_stages
    seen = {"forward_one_chunk": found.forward, "backward_one_chunk": found.backward,
            "backward_weight_one_chunk": found.weights}  # fmt: skip
    methods = {name: getattr(_PipelineStageBase, name) for name in seen}

    def initialise(schedule: Any, *args: Any, **kwargs: Any) -> Any:
        if dist.get_backend() == "fake":
            raise NeedsRanks
        with _disable_current_modes():
            out = before(schedule, *args, **kwargs)
        recorder.names.older_than_the_step(living())
        found.schedules.append(schedule)
        return out

    def noted(name: str) -> Any:
        def run(stage: Any, *args: Any, **kwargs: Any) -> Any:
            seen[name](stage, *args, **kwargs)
            return methods[name](stage, *args, **kwargs)

        return run

    _PipelineSchedule._initialize_pp_stages = initialise
    for name in seen:
        setattr(_PipelineStageBase, name, noted(name))
    try:
        yield found
    finally:
        _PipelineSchedule._initialize_pp_stages = before
        for name, method in methods.items():
            setattr(_PipelineStageBase, name, method)


def note_of(found: Pipelines) -> dict[str, Any]:
    """The order of a schedule, and the ranks of its pipeline, as annotations; none where there is not one schedule."""
    from scalify_dl.schedule.live import PLACES, rows_of

    if len(found.schedules) != 1:
        return {}
    (schedule,) = found.schedules
    note: dict[str, Any] = {"ran": found.actions}
    if getattr(schedule, PLACES[0], None):  # sends and receives, too, which the runtime goes by
        try:
            note["order"] = rows_of(schedule)
        except InputError:
            return {}
    stage = getattr(schedule, "_stage", None) or schedule._stages[0]
    return {"pipeline": {"ranks": dist.get_process_group_ranks(stage.group or dist.group.WORLD), **note}}


def write_plan(path: str | Path, base: Path, ranks: Sequence[Path], mesh: Mesh) -> None:
    """`<path>.plan.yaml` and `<path>.schedule.csv` for `dlverify plan`, where rank 0 noted a pipeline along an axis."""
    note = _note(ranks[0])
    along = [
        name for at, (name, size) in enumerate(mesh.axes)
        if note and note["ranks"] == [r for r, c in enumerate(mesh.coordinates) if not any((*c[:at], *c[at + 1 :]))]
    ]  # fmt: skip
    if not along:
        return
    schedule = Path(f"{path}.schedule.csv")
    order = note.get("order") or [(_note(ranks[rank]) or {"ran": []})["ran"] for rank in note["ranks"]]
    write_whole(schedule, "".join(",".join(row) + "\n" for row in order))
    lines = [
        f"baseline: {json.dumps(base.name)}",
        "mesh: {" + ", ".join(f"{name}: {size}" for name, size in mesh.axes) + "}",
        f"pipeline: {along[0]}",
        f"schedule: {json.dumps(schedule.name)}",
        "ranks:",
        *(f"- {json.dumps(file.name)}" for file in ranks),
    ]
    write_whole(Path(f"{path}.plan.yaml"), "\n".join(lines) + "\n")


def _note(dump: Path) -> Any:
    """What was noted of the pipeline beside the dump of a rank."""
    return json.loads(dump.with_name(dump.name.replace(".fx.txt", ".json")).read_text("utf-8")).get("pipeline")
