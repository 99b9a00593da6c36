"""Pipelines of `torch.distributed.pipelining`: stages tell each other the shapes of what they will send.

That exchange, in the first step, steers the schedule and moves no values of the program: it runs, but is not recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.utils._python_dispatch import _disable_current_modes

from .ranks import NeedsRanks
from .reads import living

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["stages_apart"]


@contextlib.contextmanager
def stages_apart(recorder: Recorder) -> Iterator[None]:
    """Stages are initialised outside of the recording: their buffers are there before. NeedsRanks where the others do
    not run."""
    if not dist.is_initialized():
        yield
        return
    from torch.distributed.pipelining.schedules import _PipelineSchedule

    before = _PipelineSchedule._initialize_pp_stages

    def initialise(schedule: Any, *args: Any, **kwargs: Any) -> Any:
        if dist.get_backend() == "fake":
            raise NeedsRanks
        with _disable_current_modes():
            out = before(schedule, *args, **kwargs)
        recorder.names.older_than_the_step(living())
        return out

    _PipelineSchedule._initialize_pp_stages = initialise
    try:
        yield
    finally:
        _PipelineSchedule._initialize_pp_stages = before
