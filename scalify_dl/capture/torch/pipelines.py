"""Pipelines of `torch.distributed.pipelining`: stages tell each other the shapes of what they will send.

That exchange, in the first step, steers the schedule and moves no values of the program: it runs, but is not recorded.
What a schedule says of its order is noted beside the dump of a rank, and written with the plan of the step.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.whole import write_whole

from .ranks import NeedsRanks
from .reads import living

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["note_of", "stages_apart", "write_plan"]


@contextlib.contextmanager
def stages_apart(recorder: Recorder) -> Iterator[list[Any]]:
    """Stages are initialised outside of the recording: their buffers are there before. NeedsRanks where the others do
    not run. Gives the schedules whose stages these are."""
    schedules: list[Any] = []
    if not dist.is_initialized():
        yield schedules
        return
    from torch.distributed.pipelining.schedules import _PipelineSchedule

    before = _PipelineSchedule._initialize_pp_stages

    def initialise(schedule: Any, *args: Any, **kwargs: Any) -> Any:
        if dist.get_backend() == "fake":
            raise NeedsRanks
        with _disable_current_modes():
            out = before(schedule, *args, **kwargs)
        recorder.names.older_than_the_step(living())
        schedules.append(schedule)
        return out

    _PipelineSchedule._initialize_pp_stages = initialise
    try:
        yield schedules
    finally:
        _PipelineSchedule._initialize_pp_stages = before


def note_of(schedules: Sequence[Any]) -> dict[str, Any]:
    """The order of a schedule, and the ranks of its pipeline, as annotations; none where it has no order."""
    from scalify_dl.schedule.live import rows_of

    try:
        (schedule,) = schedules
        rows = rows_of(schedule)
    except (ValueError, InputError):
        return {}
    stage = getattr(schedule, "_stage", None) or schedule._stages[0]
    return {"pipeline": {"ranks": dist.get_process_group_ranks(stage.group or dist.group.WORLD), "order": rows}}


def write_plan(path: str | Path, base: Path, ranks: Sequence[Path], mesh: Mesh) -> None:
    """`<path>.plan.yaml` and `<path>.schedule.csv` for `dlverify plan`, where rank 0 noted a pipeline along an axis."""
    note = json.loads(ranks[0].with_name(ranks[0].name.replace(".fx.txt", ".json")).read_text("utf-8")).get("pipeline")
    along = [
        name for at, (name, size) in enumerate(mesh.axes)
        if note and note["ranks"] == [r for r, c in enumerate(mesh.coordinates) if not any((*c[:at], *c[at + 1 :]))]
    ]  # fmt: skip
    if not along:
        return
    schedule = Path(f"{path}.schedule.csv")
    write_whole(schedule, "".join(",".join(row) + "\n" for row in note["order"]))
    lines = [
        f"baseline: {json.dumps(base.name)}",
        "mesh: {" + ", ".join(f"{name}: {size}" for name, size in mesh.axes) + "}",
        f"pipeline: {along[0]}",
        f"schedule: {json.dumps(schedule.name)}",
        "ranks:",
        *(f"- {json.dumps(file.name)}" for file in ranks),
    ]
    write_whole(Path(f"{path}.plan.yaml"), "\n".join(lines) + "\n")
