"""What a run of the program and of its lift says: a violation is one only where the ranks' numbers confirm it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from scalify_dl.errors import InputError
from scalify_dl.oracle import load_program, relations, run_trial
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS, elements
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.readings import Readings
from scalify_dl.oracle.shrink import shrink
from scalify_dl.oracle.shrink.extents import Conflict
from scalify_dl.prove.pipeline import Analysis
from scalify_dl.refute.refute import refute


class Run:
    """A run on random inputs, when it is first asked for."""

    def __init__(self, analysis: Analysis, layouts: dict[tuple[str, str], str]) -> None:
        self.analysis = analysis
        self.layouts = layouts

    @cached_property
    def readings(self) -> Readings | None:
        """What every value of the run is of the lift's; None where the program cannot be run."""
        try:
            program = load_program(self.analysis.facts.tables)
            rows = relations(self.analysis.rows("corr"))
            if elements(program) > DIRECT_ELEMENTS:
                small = shrink(program, rows, 2)
                rows = [r for row in rows if (r := small.relation(row)) is not None]
                program = small.program
            every = {role: [t for g in program.top(role) for t in (*g.inputs, *(r for op in g.ops for r in op.results))]
                     for role in ("base", "dist")}  # fmt: skip
            trial = run_trial(program, 1, "reals", keep_base=every["base"], keep_dist=every["dist"], relations=rows)
        except (Unsupported, Deadlock, Conflict, InputError, MemoryError):
            return None
        return Readings(trial, rows)

    def contradicts(self, value: str, counterparts: Sequence[str]) -> bool:
        """Whether a distributed value is none of these, in no placement and no parts of a sum."""
        readings = self.readings
        if readings is None or value not in readings.trial.distributed:
            return False
        if readings.trial.unplaced or readings.trial.unpaired:
            return False
        known = [b for b in counterparts if b in readings.trial.baseline]
        found = readings.of(value)
        return not any(r.scale == 1 and self._same(r.base, b, readings) for r in found for b in known)

    @staticmethod
    def _same(one: str, other: str, readings: Readings) -> bool:
        x, y = readings.trial.baseline[one], readings.trial.baseline[other]
        return one == other or (x.shape == y.shape and bool((x == y).all()))

    def different(self, outputs: Sequence[tuple[str, str]]) -> list[str]:
        """The outputs among these of which a run shows that they are not as they are asked for."""
        if not outputs:
            return []
        found = refute(self.analysis, list(outputs), lambda text: None)
        return [dist for dist, _ in found.refuted]
