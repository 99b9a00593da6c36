"""Discharging obligations in bulk: each distinct formula once, from the cache, by enumeration, or by Z3."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError

from .cache import Cache
from .enumerate import Witness, count, enumerable, refute
from .formula import Canonical, Formula, Mesh

if TYPE_CHECKING:
    from .smt import Smt

Row = tuple[Any, ...]
Relation = Callable[[str], Iterable[Row]]
Outcome = tuple[bool | None, Witness | None]
"""Proved, refuted, or None for unknown; where it fails."""

MANY = 200
"""Distinct formulas for Z3 from which on worker processes pay."""


@dataclass
class Figures:
    """What discharging took: rows asked, distinct formulas, how each was decided."""

    asked: int = 0
    distinct: int = 0
    cached: int = 0
    enumerated: int = 0
    solved: int = 0
    unknown: int = 0


class Discharger:
    """Decides rows of `obligation`; made once, it remembers what it decided.

    `folder` holds the disk cache (None: none); `timeout_ms` is per formula, beyond it the formula stays unknown.
    """

    def __init__(self, folder: Path | None = None, timeout_ms: int = 5000, workers: int | None = None) -> None:
        self.cache = Cache(folder)
        self.timeout_ms = timeout_ms
        self.workers = workers
        self.figures = Figures()
        self._known: dict[str, Outcome] = {}
        self._smt: Smt | None = None

    def __call__(self, obligations: list[Row], relation: Relation) -> tuple[list[Row], list[Row]]:
        """Rows of `proved(formula, lo, hi)` and of `refuted(formula, lo, hi, rank, x)` for what could be decided.

        `relation` gives rows of the run by name (atom, rank_digit, rank_function). InputError where the premises of an
        obligation contradict each other.
        """
        mesh = Mesh.of(relation)
        canonical = Canonical(mesh)
        asked = [(row, *canonical.formula(*row)) for row in obligations]
        formulas = {formula.key: formula for _, formula, _ in asked}
        self.figures.asked += len(asked)
        self.figures.distinct += len(formulas)
        self._decide({key: f for key, f in formulas.items() if key not in self._known})
        proved, refuted = [], []
        for row, formula, atoms in asked:
            answer, witness = self._known[formula.key]
            if answer:
                proved.append(row)
            elif answer is not None and witness is not None:
                refuted.append((*row, _rank(mesh, formula, atoms, witness), witness.x))
        return proved, refuted

    def _decide(self, formulas: dict[str, Formula]) -> None:
        left = {}
        for key, formula in formulas.items():
            if count(formula) == 0:
                raise InputError(
                    f"the premises of an obligation contradict each other: {formula.lo} <= x and x <= {formula.hi}",
                    hint="correct the ranges in the relations file; nothing follows from contradictory premises",
                )
            known = self.cache.get(formula)
            if known is not None:
                self.figures.cached += 1
                self._known[key] = known
            elif enumerable(formula):
                self.figures.enumerated += 1
                witness = refute(formula)
                self._keep(formula, (witness is None, witness), "enumeration")
            else:
                left[key] = formula
        if left:
            self._solve(left)

    def _keep(self, formula: Formula, outcome: Outcome, by: str = "Z3") -> None:
        self._known[formula.key] = outcome
        if outcome[0] is None:
            self.figures.unknown += 1
        else:
            self.cache.put(formula, outcome[0], outcome[1], by)

    def _solve(self, formulas: dict[str, Formula]) -> None:
        self.figures.solved += len(formulas)
        if len(formulas) >= MANY:
            formulas = self._solve_in_workers(formulas)
        for formula in formulas.values():
            if self._smt is None:
                from .smt import Smt

                self._smt = Smt(self.timeout_ms)
            self._keep(formula, _outcome(self._smt, formula))

    def _solve_in_workers(self, formulas: dict[str, Formula]) -> dict[str, Formula]:
        """What the workers could not be asked: a killed worker loses nothing but time."""
        left = dict(formulas)
        keys = list(formulas)
        chunks = [keys[i : i + 25] for i in range(0, len(keys), 25)]
        pool = ProcessPoolExecutor(self.workers)
        try:
            tasks = [pool.submit(_solve_chunk, [formulas[k] for k in chunk], self.timeout_ms) for chunk in chunks]
            for chunk, task in zip(chunks, tasks, strict=True):
                for key, outcome in zip(chunk, task.result(), strict=True):
                    self._keep(formulas[key], outcome)
                    del left[key]
        except BrokenProcessPool:
            pass
        finally:  # on Ctrl-C, too
            pool.shutdown(wait=False, cancel_futures=True)
        return left


def _outcome(smt: Smt, formula: Formula) -> Outcome:
    from .smt import Answer

    answer, witness = smt.decide(formula)
    return {Answer.PROVED: True, Answer.REFUTED: False, Answer.UNKNOWN: None}[answer], witness


def _solve_chunk(formulas: list[Formula], timeout_ms: int) -> list[Outcome]:
    from .smt import Smt

    smt = Smt(timeout_ms)
    return [_outcome(smt, formula) for formula in formulas]


def _rank(mesh: Mesh, formula: Formula, atoms: list[int], witness: Witness) -> int:
    """The first rank of the mesh with the witness's digits."""
    ranks = list(mesh.digits)
    if formula.ranks:
        return ranks[witness.place]
    fits = (r for r, ds in mesh.digits.items() if tuple(ds[a] for a in atoms) == witness.digits)
    return next(fits, ranks[0])
