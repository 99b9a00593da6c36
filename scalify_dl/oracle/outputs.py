"""The outputs under test: the placements that each may still have, and what a run makes of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from scalify_dl.ir.layout import Layout

from .addressing import layout_of, pending_kind
from .compare import Mismatch, check, default_layouts, stands
from .found import Counterexample, Search
from .program import Program
from .trial import Trial, measure_noise


@dataclass(slots=True)
class Output:
    """An output under test: the placements it may still have."""

    dist: str
    base: str
    candidates: list[Layout]


def outputs_of(program: Program, wanted: Collection[str] | None, search: Search) -> list[Output]:
    pending = []
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Layout]] = {}
    for dist, base, text in program.expects:
        if wanted is not None and dist not in wanted:
            continue
        if text:
            candidates = [layout_of(text)]
        else:
            shapes = program.tensors[base].shape, program.tensors[dist].shape
            if shapes not in known:
                known[shapes] = list(default_layouts(*shapes, program.mesh))
            candidates = [*known[shapes]]
        if candidates:
            pending.append(Output(dist, base, candidates))
        else:
            search.problems.append(
                f"output {program.name(dist)} has shape {list(program.tensors[dist].shape)} on each rank, the baseline"
                f" {list(program.tensors[base].shape)}: no placement that is accepted unasked fits"
            )
    return pending


def not_numbers(trial: Trial, pending: list[Output]) -> list[Output]:
    """Outputs whose baseline value is NaN somewhere, or too large for exact integers."""
    bad = []
    for output in pending:
        value = trial.baseline[output.base]
        if value.dtype.kind in "fc" and value.size:
            with np.errstate(invalid="ignore"):
                large = trial.how == "integers" and bool(np.any(np.abs(value[np.isfinite(value)]) >= 2.0**50))
            if large or bool(np.isnan(value).any()):
                bad.append(output)
    return bad


def compared(trial: Trial, output: Output, others: Iterable[Output]) -> tuple[Layout, Mismatch] | None:
    """Drops the placements that the trial contradicts; the closest one with its worst element where none is left.

    The noise of `others` is measured with that of the first output that needs it: it takes a run of the baseline.
    """
    base, dist = trial.baseline[output.base], trial.distributed[output.dist]
    coords = trial.program.coords
    floor = trial.floor

    def exact() -> list[Layout]:
        return [c for c in output.candidates if check(base, (), dist, (), c, coords, floor) is None]

    if not trial.measured:
        if agreeing := exact():
            output.candidates = agreeing
            return None
        measure_noise(trial, [output.base, *(other.base for other in others)])
    tolerance = trial.tolerance(output.base)
    results = [(layout, check(base, (), dist, (), layout, coords, tolerance)) for layout in output.candidates]
    agreeing = [layout for layout, wrong in results if wrong is None]
    if agreeing:
        output.candidates = exact() or agreeing
        return None
    return min(((layout, m) for layout, m in results if m is not None), key=lambda pair: pair[1].share)


def differs(trial: Trial, output: Output) -> bool:
    """Whether a trial whose noise is measured contradicts all placements: no more is looked at than shows that."""
    base, dist = trial.baseline[output.base], trial.distributed[output.dist]
    coords, tolerance = trial.program.coords, trial.tolerance(output.base)

    def holds(layout: Layout) -> bool:
        if layout.scale == 1 and pending_kind(layout) is None:
            return stands(base, dist, layout, coords, tolerance)
        return check(base, (), dist, (), layout, coords, tolerance) is None

    return not any(map(holds, output.candidates))


def counterexample(trial: Trial, output: Output, layout: Layout, mismatch: Mismatch, sizes: str) -> Counterexample:
    program = trial.program
    reason = trial.invented.get(output.dist) or trial.invented.get(output.base)
    kind = "witness" if reason else "precision" if trial.rounding else "refutation"
    return Counterexample(
        kind,
        reason or ("the two sides agree over the reals and differ where casts round" if trial.rounding else ""),
        output.dist,
        output.base,
        program.name(output.dist),
        trial.seed,
        trial.how,
        sizes,
        str(layout),
        mismatch,
        program.tensors[output.dist].shape,
        program.tensors[output.base].shape,
    )
