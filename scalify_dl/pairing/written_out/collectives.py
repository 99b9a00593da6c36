"""Collectives of what cells have for themselves: values that are there already, and sums of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

from scalify_dl.ir.graph import Op, Tensor

from .emitter import Emitter
from .stacks import of_shape
from .values import NotWrittenOut, Own, Shared, Value

__all__ = ["Collectives"]

JOINS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}


class Collectives:
    """What collectives give where ranks of several cells take part."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.cells = emitter.cells

    def done(self, op: Op, value: Value) -> Value:
        """What a collective of a value gives. NotWrittenOut where cells have their own, and the groups are others than
        those that are followed."""
        if op.kind == "collective-permute":
            return self._passed(op, value)
        groups = op.groups
        if isinstance(value, Shared) or groups is None:
            if isinstance(value, Own):
                raise NotWrittenOut(f"{op.kind} over a group that is not known")
            return Shared(self.emitter.emit(op, [value.tensor])[0], self._uniform(op, value))
        if all(self.cells.within(groups, cell) is not None for cell in range(self.cells.count)):
            return Own(tuple(self._inside(op, x, cell) for cell, x in enumerate(value.tensors)))
        columns = self._columns(groups)
        if op.kind == "all-reduce" and columns is not None:
            return Shared(self._summed(op, value.tensors, columns), True)
        order = self._order(groups)
        if order is None:
            raise NotWrittenOut(f"{op.kind} over groups across cells")
        return self._in_order(op, value, order)

    # --- groups ------------------------------------------------------------------------------------------------------

    def _columns(self, groups: Sequence[Sequence[int]]) -> list[list[int]] | None:
        """By group, the places in a cell whose ranks it has of every cell; None where it has others."""
        found = []
        for group in groups:
            columns = sorted({self.cells.column[rank] for rank in group})
            if sorted(group) != sorted(rank for column in columns for rank in self.cells.lines[column]):
                return None
            found.append(columns)
        return found

    def _order(self, groups: Sequence[Sequence[int]]) -> list[int] | None:
        """The order of cells in groups of one rank of each, the same in all; None where they are others."""
        orders = {tuple(self.cells.of_rank[rank] for rank in group) for group in groups}
        alike = all(self.cells.column[a] == self.cells.column[b] for group in groups for a, b in pairwise(group))
        if len(orders) != 1 or not alike:
            return None
        (order,) = orders
        return list(order) if sorted(order) == list(range(self.cells.count)) else None

    def _uniform(self, op: Op, value: Shared) -> bool:
        """Whether counterparts get the same of what ranks share."""
        groups = op.groups
        if groups is None:
            return False
        if op.kind in ("all-reduce", "all-gather", "collective-broadcast") and self._columns(groups) is not None:
            return op.kind == "all-reduce" or self._order(groups) is not None
        if not value.uniform:
            return False
        inside = [self.cells.within(groups, cell) for cell in range(self.cells.count)]
        return None not in inside and all(
            sorted(map(tuple, some or ())) == sorted(map(tuple, groups)) for some in inside
        )

    # --- kinds -------------------------------------------------------------------------------------------------------

    def _passed(self, op: Op, value: Value) -> Value:
        """What ranks receive from counterparts."""
        source: dict[int, set[int]] = {cell: set() for cell in range(self.cells.count)}
        for a, b in op.pairs or ():
            if self.cells.column[a] != self.cells.column[b]:
                return self._passed_otherwise(op, value)
            source[self.cells.of_rank[b]].add(self.cells.of_rank[a])
        per_cell = len(self.cells.lines)
        if any(len(cells) > 1 for cells in source.values()) or len(op.pairs or ()) != per_cell * sum(
            bool(cells) for cells in source.values()
        ):
            return self._passed_otherwise(op, value)
        if isinstance(value, Shared):
            if value.uniform and all(source.values()):
                return value
            if not value.uniform:
                return Shared(self.emitter.emit(op, [value.tensor])[0], False)
        received = [
            self.emitter.at(next(iter(source[cell])), value) if source[cell] else self.emitter.zeros(op.result)
            for cell in range(self.cells.count)
        ]
        return Shared(received[0], True) if len(set(received)) == 1 else Own(tuple(received))

    def _passed_otherwise(self, op: Op, value: Value) -> Value:
        if isinstance(value, Shared):
            return Shared(self.emitter.emit(op, [value.tensor])[0], False)
        raise NotWrittenOut("a permute within and between cells")

    def _inside(self, op: Op, x: Tensor, cell: int) -> Tensor:
        """A collective within one cell, done by the counterparts in all cells; of a stack, part by part."""
        stack = self.emitter.stacks.of(x)
        if stack is not None and op.kind == "all-reduce":
            parts = [self._inside(of_shape(op, part.shape), part, cell) for part in stack[1]]
            return self.emitter.stacks.stack(parts, stack[0], op)
        found = self.emitter.emit(op, [x])[0]
        made = self.emitter.made[found]
        made.groups = self.cells.within(op.groups or [], cell)
        made.replica_groups_all = False
        return found

    def _summed(self, op: Op, tensors: Sequence[Tensor], columns: Sequence[Sequence[int]]) -> Tensor:
        """The sum (maximum, …) over cells, then over the places in a cell."""
        (reducer,) = op.symbols.get("reducer", [""])
        kind = JOINS.get(reducer)
        if kind is None or op.regions or op.result.dtype == "pred":
            raise NotWrittenOut(f"all-reduce with {reducer}")
        total = reduce(lambda x, y: self.emitter.joined(kind, x, y, op), tensors)
        if all(len(some) == 1 for some in columns):
            return total
        found = self.emitter.emit(op, [total])[0]
        made = self.emitter.made[found]
        made.groups = [[ranks[column] for column in some] for ranks in self.cells.counterparts for some in columns]
        made.replica_groups_all = False
        return found

    def _in_order(self, op: Op, value: Own, order: Sequence[int]) -> Value:
        """Collectives over one rank of each cell, in that order of cells."""
        inputs = [value.tensors[cell] for cell in order]
        if op.kind == "all-gather":
            (dim,) = op.numbers["dimension"]
            return Shared(self.emitter.stacks.joined(inputs, dim, op), True)
        if op.kind == "collective-broadcast":
            return Shared(inputs[0], True)
        if op.kind == "reduce-scatter":
            (dim,) = op.numbers["dimension"]
            total = self._summed(op, inputs, [[0]])
            return self._placed(order, [self._block(total, dim, p, op) for p in range(len(order))])
        if op.kind == "all-to-all":
            (split,), (dim,) = op.numbers["split_dimension"], op.numbers["concat_dimension"]
            received = [
                self.emitter.emit_new("concatenate", [self._block(x, split, p, op) for x in inputs], op, dimension=dim)
                for p in range(len(order))
            ]
            return self._placed(order, received)
        raise NotWrittenOut(op.kind)

    def _block(self, x: Tensor, dim: int, place: int, op: Op) -> Tensor:
        n = x.shape[dim] // self.cells.count
        start, limit = [0] * len(x.shape), list(x.shape)
        start[dim], limit[dim] = place * n, (place + 1) * n
        return self.emitter.cut(x, start, limit, op)

    def _placed(self, order: Sequence[int], blocks: Sequence[Tensor]) -> Own:
        return Own(tuple(blocks[order.index(cell)] for cell in range(self.cells.count)))
