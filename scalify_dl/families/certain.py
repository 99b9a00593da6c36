"""What the equations of one capture leave no choice of, and what is only read so.

A hard-coded 4 beside a batch of 4 is the same text as the batch. So where a number is read as a formula of the sizes,
it is tried as the number that it is: if the programs have no other sizes then, the formula is certain. What is likely
(a slice of all of a dim stays one, a reshape keeps the dims it does not touch) counts for nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator

from scalify_dl.ir.expression import Expression

from .infer import Inference
from .shapes import attribute, dim, step
from .single import Reading
from .unify import Cell
from .wiring import Op

WRITTEN = ("iota", "broadcast", "rng", "rng-uniform", "rng-normal", "empty")
"""Ops whose dims a program may write as it likes."""
GIVEN = ("piece", "extent", "layout")
"""Numbers of placements, which are said and not computed."""


class Certain:
    """The numbers of a reading that equations give, as far as they do: `supposed` are those that they do not."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.inference = Inference(reading.inference.facts, reading.point, reading.cells, bare=True)
        self.wiring, self.unifier = self.inference.wiring, self.inference.unifier
        regions = {graph for op in self.wiring.order for graph in op.regions}
        for graph, tensors in self.wiring.inputs.items():
            for tensor in tensors if graph not in regions else ():
                self._take(*(dim(tensor, i) for i in range(len(self.wiring.shape[tensor]))))
        self._take(*(cell for cell in self.unifier.value if cell[0] in GIVEN))
        ops = sorted(self.wiring.order, key=lambda op: not self.wiring.is_base(op))
        if all(symbol.axis for symbol in reading.symbols):  # of which the baseline knows nothing
            self._take(*(cell for op in ops if self.wiring.is_base(op) for cell in self._own(op)))
        for op in ops:  # dims that a program makes are numbers in its text
            if op.kind in WRITTEN:
                self._take(*(cell for cell in self._own(op) if self._read(cell) == self._number(cell)))
        self.ops = ops

    def supposed(self) -> Iterator[tuple[Op, Cell, Expression]]:
        """Numbers of ops that are read as a formula and may be numbers, each with its op and the formula. What follows
        from one is not told again."""
        while sum(map(self._excluded, self.ops)):
            pass
        for op in self.ops:
            for cell, formula in self._open(op):
                if self.unifier.formula(cell) is None:
                    yield op, cell, formula
                    self._take(cell)

    def _excluded(self, op: Op) -> bool:
        """Takes what can be no number, and numbers of what is known to be one; whether there were any."""
        found = False
        for cell, _ in self._open(op):
            if self.unifier.formula(cell) is None and self.unifier.excludes(cell, self._number(cell)):
                self._take(cell)
                found = True
        return found

    def _open(self, op: Op) -> list[tuple[Cell, Expression]]:
        """Numbers of an op that equations do not give and that are read as a formula."""
        read = [(cell, self._read(cell)) for cell in self.unifier.open(self._own(op))]
        return [(cell, formula) for cell, formula in read if formula is not None and formula != self._number(cell)]

    def _number(self, cell: Cell) -> Expression:
        return Expression.number(self.unifier.value[cell])

    def _read(self, cell: Cell) -> Expression | None:
        unifier = self.reading.inference.unifier
        return unifier.formula(cell) if cell in unifier.value else None

    def _take(self, *cells: Cell) -> None:
        for cell in cells:
            formula = self._read(cell)
            if formula is not None and self.unifier.formula(cell) is None:
                self.unifier.decide(cell, formula)
                self.unifier.propagate()

    def _own(self, op: Op) -> list[Cell]:
        """Attributes of an op and dims of its results."""
        cells: list[Cell] = [("attr", op.name, key, i) for key, values in op.numbers.items() for i in values]
        for key, i in op.by_rank:
            cells += [attribute(op, key, i), *(step(op, key, i, axis) for axis in self.wiring.axes)]
        cells += [dim(tensor, i) for tensor in op.results for i in range(len(self.wiring.shape[tensor]))]
        return [cell for cell in cells if cell in self.unifier.value]
