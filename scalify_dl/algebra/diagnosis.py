"""Where two programs part for the algebra: the first values that agree when run and whose formulas are not one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout
from scalify_dl.oracle.compare import check, default_layouts
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.program import Program
from scalify_dl.oracle.trial import run_trial

from .cells import Array
from .form import Undecided

SECONDS = 1.0
"""CPU time in which the first such pair is looked for."""
FEW_OPS = 300

Fits = Callable[[str, str, Layout], bool]


def first_difference(
    program: Program, dist: Iterable[str], base: Iterable[str], fits: Fits, tolerance: float
) -> tuple[str, str, Layout] | None:
    """The first value of the distributed side that holds a baseline value in an execution, and not by formulas.

    `dist` and `base` are the values of both sides, in order; `fits` whether the formulas of a pair are equal.
    """
    ours, theirs = list(dist), list(base)
    if len(ours) + len(theirs) > FEW_OPS:
        return None
    until = time.process_time() + SECONDS
    try:
        trial = run_trial(program, 1, "reals", keep_base=theirs, keep_dist=ours)
    except (Unsupported, Deadlock, InputError):
        return None
    for t in ours:
        values = trial.distributed.get(t)
        if values is None:
            continue
        known = [b for b in theirs if b in trial.baseline]
        alike = [pair for b in known for pair in _held(program, values, trial.baseline[b], b, tolerance)]
        if time.process_time() > until:
            return None
        try:
            if alike and not any(fits(t, b, layout) for b, layout in alike):
                return t, *alike[0]
        except Undecided:
            continue
    return None


def _held(
    program: Program, values: Mapping[int, Array], expected: Array, base: str, tolerance: float
) -> list[tuple[str, Layout]]:
    """The layouts in which values hold a baseline value."""
    found = []
    for layout in default_layouts(expected.shape, next(iter(values.values())).shape, program.mesh):
        try:
            if check(expected, (), values, (), layout, program.coords, tolerance) is None:
                found.append((base, layout))
        except (IndexError, ValueError):
            continue
    return found
