"""Whether the programs of a family exist: shapes that fit at all sizes, and the sizes at which parts lie inside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from math import prod

from scalify_dl.errors import InputError

from .expression import Expression
from .family import Cell, Family, RankFormula

_TAKEN = {"slice": "limit", "dynamic-slice": "sizes", "gather": "slice_sizes"}
"""Op kinds that take a part of their first operand, and the attribute that has an end or an extent per dim."""
_ONE = Expression.number(1)


class Extents:
    """The extents of a family's tensors, and what its ops demand of them."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.kinds: dict[str, str] = {op: kind for op, _, kind in family.tables["op"]}
        self.operands = _by_op(family, "operand")
        self.results = _by_op(family, "result")
        self.shapes: dict[str, dict[int, Expression]] = defaultdict(dict)
        for tensor, dim, size in family.tables["dim"]:
            self.shapes[tensor][dim] = _formula(size)
        self.numbers: dict[tuple[str, str], dict[int, Expression]] = defaultdict(dict)
        for op, name, dim, value in family.tables["attr_number"]:
            self.numbers[op, name][dim] = _formula(value)

    def check(self) -> None:
        """InputError where shapes fit in the captures and not at other sizes."""
        for op, kind in self.kinds.items():
            if op not in self.operands or op not in self.results:
                continue
            operands = [self.shapes[t] for t in self.operands[op].values()]
            result = self.shapes[self.results[op][0]]
            before, after = operands[0], result
            if kind == "reshape":
                self._same(op, "elements", _count(before), _count(after))
            elif kind == "concatenate":
                (dim,) = self._at(op, "dimension")
                self._same(op, f"dim {dim}", sum((s[dim] for s in operands), Expression.of([])), after[dim])
            elif kind == "slice":
                starts, limits, strides = (self.numbers[op, name] for name in ("start", "limit", "stride"))
                for dim in starts.keys() & limits.keys():
                    if strides.get(dim, _ONE) == _ONE:
                        self._same(op, f"dim {dim}", limits[dim] - starts[dim], after[dim])
            elif kind in ("all-gather", "reduce-scatter") and op in self.family.groups:
                (dim,) = self._at(op, "dimension")
                less, more = (before, after) if kind == "all-gather" else (after, before)
                self._same(op, f"dim {dim}", less[dim] * self._ranks(op), more[dim])

    def inside(self) -> set[Expression]:
        """Formulas of the sizes, each at least 1 where no op takes more than there is."""
        rooms: set[Expression] = set()
        for op, kind in self.kinds.items():
            if kind in _TAKEN:
                whole = self.shapes[self.operands[op][0]]
                rooms.update(whole[dim] - part + _ONE for dim, part in self.numbers[op, _TAKEN[kind]].items())
            elif kind == "dynamic-update-slice":
                whole, part = (self.shapes[self.operands[op][i]] for i in (0, 1))
                rooms.update(whole[dim] - size + _ONE for dim, size in part.items())
        for (op, name, dim), number in self.family.rank_numbers.items():
            if self.kinds.get(op) == "slice" and name in ("start", "limit"):
                whole = self.shapes[self.operands[op][0]]
                for end in self._ends(number):
                    rooms.add(end + _ONE if name == "start" else whole[dim] - end + _ONE)
        return {room for room in rooms if room.constant is None}

    def divided(self) -> set[Expression]:
        """Formulas of the sizes that are whole where what is dealt to ranks divides evenly."""
        return {
            self.shapes[self.operands[op][0]][dim] / self._ranks(op)
            for op, kind in self.kinds.items()
            if kind == "all-to-all" and op in self.family.groups
            for dim in self._at(op, "split_dimension")
        }

    def _ends(self, number: RankFormula) -> Iterator[Expression]:
        """What a number of the rank is on the first and last rank along every axis."""
        sizes = dict(self.family.axes)
        for base, slopes in number.places.values():
            for last in product((False, True), repeat=len(slopes)):
                steps = (
                    slope * (sizes[axis] - _ONE) for (axis, slope), at in zip(slopes.items(), last, strict=True) if at
                )
                yield sum(steps, base)

    def _ranks(self, op: str) -> Expression:
        sizes = dict(self.family.axes)
        return prod((sizes[axis] for axis in self.family.groups[op]), start=_ONE)

    def _at(self, op: str, name: str) -> list[int]:
        return [int(value.constant or 0) for value in self.numbers[op, name].values()]

    def _same(self, op: str, what: str, before: Expression, after: Expression) -> None:
        if before != after:
            raise InputError(
                f"{op} ({self.kinds[op]}): {what} {after} should be {before}; at the captured sizes they are alike",
                hint="add a capture (--sample) at sizes that differ more",
            )


def _by_op(family: Family, table: str) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for op, position, tensor in sorted(family.tables[table]):
        found[op][position] = tensor
    return found


def _count(shape: dict[int, Expression]) -> Expression:
    return prod(shape.values(), start=_ONE)


def _formula(value: Cell) -> Expression:
    return value if isinstance(value, Expression) else Expression.number(value)
