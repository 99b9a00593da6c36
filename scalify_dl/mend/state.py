"""A program under repair: what an execution says of it, and the edits that were made so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.oracle import Search, find_counterexample
from scalify_dl.oracle.program import Program
from scalify_dl.oracle.readings import Reading
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.pysouffle import EvaluationError

from .propose import Proposal, cone

Progress = Callable[[str], None]
Output = tuple[str, str]


@dataclass(frozen=True)
class Tried:
    """One proposal that made something right: how many of the wrong outputs are left with it (and those before it)."""

    proposal: Proposal
    left: int


def is_right(reading: Reading) -> bool:
    """Whether every rank holds its part of a baseline value as it is."""
    return reading.scale == 1 and not reading.axes and reading.placed


@dataclass
class State:
    """The facts with the edits that were tried, and the outputs that are wrong then."""

    facts: Facts
    search: Search
    tried: list[Tried]
    proved: int = 0
    """How many outputs the rules prove, where that was asked for."""

    @property
    def wrong(self) -> list[Output]:
        return [(c.output, c.base) for c in self.search.counterexamples if c.kind != "precision"]

    def run(
        self, program: Program, outputs: set[str] | None = None, *, trials: int = 1, seed: int = 0, once: bool = True
    ) -> Search:
        """An edited program on inputs of the kind on which this one came out wrong."""
        best = self.search.best
        return find_counterexample(
            program, outputs=outputs, trials=trials, seed=seed, rounding=False, localise=False, once=once,
            draw=best.draw if best is not None and best.draw in ("positive", "small") else "",
        )  # fmt: skip

    def score(self) -> tuple[int, int, int]:
        """Outputs that are wrong, values above them that are nothing of the baseline's, and those that are
        parts of a sum (they count twice) or multiples."""
        readings = self.search.readings
        if readings is None:
            return len(self.wrong), 0, 0
        values = cone(self.facts, [d for d, _ in self.wrong])
        read = [found for found in map(readings.of, values) if found and not any(map(is_right, found))]
        odd = sum(2 if all(reading.axes for reading in found) else 1 for found in read)
        return len(self.wrong), sum(map(readings.lost, values)), odd


def refuted_at_once(program: Program, outputs: set[str] | None = None) -> int:
    """How many outputs one run at small sizes refutes, whatever constants count there: most edits mend nothing, and
    this is seen so, at a fraction of what it takes to be sure of one that does; 0 where it is not seen."""
    try:
        search = find_counterexample(program, outputs=outputs, rounding=False, localise=False, once=True, enough=True)
    except (InputError, MemoryError):
        return 0
    return 0 if search.problems else len(search.counterexamples)


PATIENCE = 300.0
"""Seconds of wall time for one edit: a machine that does other things gives it a part of itself."""


AGAIN = 6.0
"""CPU seconds for formulas of an edited program that are looked at once more."""


def proved(facts: Facts, options: Options, *, formulas: bool = True) -> int:
    """How many outputs the rules prove, with what formulas show to be equal or without."""
    try:
        limited = replace(options, timeout=min(options.timeout or PATIENCE, PATIENCE))
        analysis = analyse(facts, limited, numbers_first=not formulas, again=AGAIN)
    except (InputError, EvaluationError):
        return 0
    return 0 if analysis.stopped else sum(row[2] == "PROVED" for row in analysis.rows("output_verdict"))


def by_formulas(complete: list[State], options: Options, progress: Progress) -> State:
    """Of ways that mend all, the one of which the rules prove most, with what formulas show of it: these take long."""
    best = max(complete, key=lambda way: way.proved)
    progress("comparing the mended program by its formulas")
    best.proved = max(best.proved, proved(best.facts, options))
    return best
