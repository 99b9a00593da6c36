"""What a run of the program and of its lift says: a violation is one only where the ranks' numbers confirm it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout, Repl
from scalify_dl.oracle import Trial, load_program, relations, run_trial, shrink
from scalify_dl.oracle.addressing import local_part
from scalify_dl.oracle.compare import check, default_layouts, wrong
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS, elements
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import MEANINGS, Call, Unsupported
from scalify_dl.oracle.program import Shard
from scalify_dl.oracle.shrink.extents import Conflict
from scalify_dl.oracle.taint import invented_values
from scalify_dl.prove.pipeline import Analysis
from scalify_dl.refute.refute import refute

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-9
HUGE = 1e30
LAYOUTS = 256
"""So many placements of one value are compared."""


class Untold(Sequence[Any]):
    """Types of results that nobody knows: what asks for them is not run."""

    def __getitem__(self, at: object) -> Any:
        raise Unsupported("it asks for the types of its results")

    def __len__(self) -> int:
        raise Unsupported("it asks for the number of its results")


class Run:
    """A run on random inputs, when it is first asked for. `supposed` says in which placements values are compared that
    the rules prove nothing of."""

    def __init__(self, analysis: Analysis, supposed: Iterable[Shard] = ()) -> None:
        self.analysis = analysis
        self.supposed = list(supposed)
        self._small = self.supposed

    @cached_property
    def trial(self) -> tuple[Trial, list[Shard]] | None:
        """All values of a run, and the correspondences that the rules proved, at its sizes; None where the program
        cannot be run."""
        try:
            program = load_program(self.analysis.facts.tables)
            rows = relations(self.analysis.rows("corr"))
            if elements(program) > DIRECT_ELEMENTS:
                small = shrink(program, [*rows, *self.supposed], 2)
                rows = [r for row in rows if (r := small.relation(row)) is not None]
                self._small = [r for row in self.supposed if (r := small.relation(row)) is not None]
                program = small.program
            every = {
                role: [t for g in program.top(role) for t in (*g.inputs, *(r for op in g.ops for r in op.results))]
                for role in ("base", "dist")
            }
            trial = run_trial(program, 1, "reals", keep_base=every["base"], keep_dist=every["dist"], relations=rows)
        except (Unsupported, Deadlock, Conflict, InputError, MemoryError):
            return None
        return trial, rows

    @cached_property
    def invented(self) -> Mapping[str, str]:
        """Values of the run that are no more than invented, or follow from such."""
        assert self.trial is not None
        trial, _ = self.trial
        return invented_values(trial.program, trial.unplaced, trial.unpaired)

    def contradicts(self, value: str, counterpart: str, operands: Sequence[str]) -> bool:
        """Whether a distributed value is not the counterpart, in any placement in blocks or any that operands have,
        nor its parts of a reduction."""
        found = self._compared(value, counterpart)
        return found is not None and next(self._fits(*found, operands), None) is None

    def not_of_whole(self, op: str, value: str, bases: Sequence[str], operands: Sequence[str]) -> bool:
        """Whether a distributed value is nothing that its op makes of whole values, in no placement, or the op makes
        nothing of them: for ops of which nobody knows the shapes on one device."""
        if self.trial is None or not self.invented.keys().isdisjoint((value, *bases)):
            return False
        trial, _ = self.trial
        (numeric,) = (o for g in trial.program.top("dist") for o in g.ops if o.id == op)
        xs, dist = [trial.baseline.get(b) for b in bases], trial.distributed.get(value)
        function = MEANINGS.get(numeric.kind)
        known = [x for x in xs if x is not None]
        if function is None or dist is None or len(known) < len(xs):
            return False
        try:
            base = function(Call(numeric, 0, Untold()), known)[0]
        except Unsupported:
            return False
        except (ValueError, IndexError, TypeError):
            return not numeric.numbers  # numbers of its own may be of the ranks' sizes
        found = self._numbers_of(base, dist)
        return found is not None and next(self._fits(*found, operands), None) is None

    def placement(self, value: str, counterpart: str, operands: Sequence[str]) -> Layout | None:
        """The placement, at the sizes of the run, in which it is the counterpart: one that an operand has, or the only
        one."""
        found = self._compared(value, counterpart)
        if found is None or not found[0].any():
            return None
        assert self.trial is not None
        of_operands = {str(row.layout) for row in (*self.trial[1], *self._small) if row.dist in operands}
        fits = list(self._fits(*found, operands))
        own = [layout for layout in fits if str(layout) in of_operands]
        return own[0] if own else fits[0] if len(fits) == 1 else None

    def _compared(self, value: str, counterpart: str) -> tuple[Array, Mapping[int, Array]] | None:
        """The numbers of a counterpart, and of a value by rank; None where they say nothing."""
        if self.trial is None or value in self.invented or counterpart in self.invented:
            return None
        trial, _ = self.trial
        base, dist = trial.baseline.get(counterpart), trial.distributed.get(value)
        return None if base is None or dist is None else self._numbers_of(base, dist)

    def _numbers_of(self, base: Array, dist: Mapping[int, Array]) -> tuple[Array, Mapping[int, Array]] | None:
        if any(bool(np.isnan(x).any()) for x in (base, *dist.values()) if x.dtype.kind == "f"):
            return None
        return _tamed(base), {rank: _tamed(x) for rank, x in dist.items()}

    def _fits(self, base: Array, dist: Mapping[int, Array], operands: Sequence[str]) -> Iterator[Layout]:
        """The placements in which numbers by rank are those of a baseline."""
        assert self.trial is not None
        trial, rows = self.trial
        coords, told = trial.program.coords, set[str]()
        for layout in self._layouts(base.shape, next(iter(dist.values())).shape, rows, operands):
            try:
                if str(layout) not in told and check(base, (), dist, (), layout, coords, TOLERANCE) is None:
                    told.add(str(layout))
                    yield layout
            except (ValueError, IndexError, InputError):
                continue

    def agrees(self, value: str) -> bool:
        """Whether a value is what is supposed, on all ranks."""
        if self.trial is None:
            return False
        mine, asked = ([row for row in rows if row.dist == value] for rows in (self._small, self.supposed))
        return bool(mine) and len(mine) == len(asked) and all(self._is(row) is True for row in mine)

    def denies(self, value: str) -> bool:
        """Whether a value is not what is supposed, on some rank."""
        return self.trial is not None and any(self._is(row) is False for row in self._small if row.dist == value)

    def _is(self, row: Shard) -> bool | None:
        """Whether a value, or a part of it, is what a correspondence says; None where a run says nothing of it."""
        if self.trial is None or not self.invented.keys().isdisjoint((row.dist, row.base)):
            return None
        trial = self.trial[0]
        base, dist = trial.baseline.get(row.base), trial.distributed.get(row.dist)
        if base is None or dist is None:
            return None
        if base.dtype.kind in "fc" and not bool(np.isfinite(base).all()):
            return None
        coords = trial.program.coords
        try:
            return check(base, row.base_piece, dist, row.dist_piece, row.layout, coords, TOLERANCE) is None
        except (ValueError, IndexError, InputError):
            return None

    def _layouts(
        self, base: Sequence[int], local: Sequence[int], rows: Sequence[Shard], operands: Sequence[str]
    ) -> Iterator[Layout]:
        assert self.trial is not None
        mesh = self.trial[0].program.mesh
        mine = [row for row in (*rows, *self._small) if row.dist in operands]
        yield from {str(row.layout): row.layout for row in mine}.values()
        for pending in (None, "sum", "max", "min"):
            yield from islice(default_layouts(base, local, mesh, pending), LAYOUTS)

    def strays(self, value: str, counterpart: str) -> bool:
        """Whether ranks hold numbers of a value that are neither zero nor those that are supposed to stand there."""
        found = self._compared(value, counterpart)
        rows = [row for row in self._small if (row.dist, row.base) == (value, counterpart)]
        if found is None or self.trial is None or len(rows) != 1:
            return False
        base, dist = found
        for rank, mine in dist.items():
            expected = local_part(base, rows[0].layout, self.trial[0].program.coords[rank])
            if expected.shape != mine.shape:
                return False
            if (wrong(mine, expected, TOLERANCE) & (mine != 0)).any():
                return True
        return False

    def alike(self, value: str) -> frozenset[int]:
        """The dims of more than one element along which all ranks have the same numbers."""
        found = list(self.trial[0].distributed.get(value, {}).values()) if self.trial is not None else []

        def same(x: Array, d: int) -> bool:
            return x.shape[d] > 1 and not wrong(x, np.broadcast_to(x.take([0], d), x.shape), TOLERANCE).any()

        return frozenset(d for d in range(found[0].ndim if found else 0) if all(same(x, d) for x in found))

    def disagree(self, value: str, layout: Layout) -> bool:
        """Whether ranks hold different numbers of a value, which a layout says have the same block of it."""
        if self.trial is None or value in self.invented:
            return False
        trial, _ = self.trial
        found = trial.distributed.get(value, {})
        if any(x.dtype.kind in "fc" and not bool(np.isfinite(x).all()) for x in found.values()):
            return False
        first: dict[object, Array] = {}
        for rank, x in found.items():
            block = tuple(trial.program.coords[rank][axis] for axis in held_apart(layout))
            mine = first.setdefault(block, x)
            if x.dtype.kind in "fc" and np.abs(x - mine).max(initial=0) > TOLERANCE * np.abs(mine).max(initial=1):
                return True
        return False

    def different(self, outputs: Sequence[tuple[str, str]]) -> list[str]:
        """The outputs among these of which a run shows that they are not as they are asked for."""
        if not outputs:
            return []
        found = refute(self.analysis, list(outputs), lambda text: None)
        return [dist for dist, _ in found.refuted]


def held_apart(layout: Layout) -> list[str]:
    """Axes along which ranks may hold different numbers."""
    return [axis for axis, entries in layout.axes if not all(isinstance(entry, Repl) for entry in entries)]


def _tamed(x: Array) -> Array:
    """Numbers with those that stand for infinity (masks) as small as others, which they would drown out."""
    return np.where(np.abs(x) > HUGE, np.sign(x) * 1e3, x) if x.dtype.kind == "f" else x
