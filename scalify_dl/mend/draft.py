"""A copy of the facts with edits of the distributed program applied: what `datalog/conclude/mending` proposes.

Readers of a changed value keep its name: what makes it gets another name for its raw result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.facts.model import Row


class Edit(NamedTuple):
    """One proposed edit, as the rules state it: `cause` is the op to blame, `why` the kind of fault."""

    cause: str
    verb: str
    target: str
    how: str
    num: int
    den: int
    why: str


class Draft:
    """Facts under edit; tables are copied where they change."""

    def __init__(self, facts: Facts) -> None:
        self.facts = Facts(dict(facts.tables))
        self._own: set[str] = set()
        self._count = 0
        self._taken = {row[0] for table in ("op", "tensor") for row in facts[table]}

    def rows(self, table: str) -> list[Row]:
        """A table to change in place."""
        if table not in self._own:
            self._own.add(table)
            self.facts.tables[table] = list(self.facts[table])
        return self.facts[table]

    def keep(self, table: str, wanted: Callable[[Row], bool]) -> list[Row]:
        """Drops the rows of a table that are not wanted; returns those that are dropped."""
        rows = self.rows(table)
        dropped = [row for row in rows if not wanted(row)]
        rows[:] = [row for row in rows if wanted(row)]
        return dropped

    def fresh(self, name: str) -> str:
        """A name for an op or a tensor that is not taken."""
        self._count += 1
        while (made := f"{name} edited {self._count}") in self._taken:
            self._count += 1
        self._taken.add(made)
        return made

    def maker(self, tensor: str) -> Row:
        """The row of `result` that makes a tensor."""
        for row in self.facts["result"]:
            if row[2] == tensor:
                return row
        raise InputError(f"{tensor} is made by no op")

    def shape(self, tensor: str) -> list[int]:
        """Its extents."""
        return [size for _, size in sorted((pos, size) for t, pos, size in self.facts["dim"] if t == tensor)]

    def operands(self, op: str) -> list[str]:
        """What an op reads, in order."""
        return [t for _, t in sorted((pos, t) for o, pos, t in self.facts["operand"] if o == op)]

    def like(self, tensor: str, shape: Iterable[int] | None = None, dtype: str = "") -> str:
        """A new tensor in the graph of another one, of its shape and element type unless others are given."""
        ((_, graph, own, rank),) = [row for row in self.facts["tensor"] if row[0] == tensor]
        sizes = [row[1:] for row in self.facts["dim"] if row[0] == tensor] if shape is None else list(enumerate(shape))
        made = self.fresh(tensor)
        self.rows("tensor").append((made, graph, dtype or own, rank if shape is None else len(sizes)))
        self.rows("dim").extend((made, pos, size) for pos, size in sizes)
        return made

    def emit(self, kind: str, operands: Iterable[str], result: str, beside: str, **attributes: object) -> str:
        """A new op in the graph of its result, at the place of `beside` in the sources."""
        ((_, graph, *_),) = [row for row in self.facts["tensor"] if row[0] == result]
        op = self.fresh(beside)
        self.rows("op").append((op, graph, kind))
        self.rows("operand").extend((op, pos, t) for pos, t in enumerate(operands))
        self.rows("result").append((op, 0, result))
        self.rows("source").extend((op, *row[1:]) for row in self.facts["source"] if row[0] == beside)
        for key, value in attributes.items():
            if isinstance(value, str):
                self.rows("attr_symbol").append((op, key, 0, value))
            elif isinstance(value, list):
                self.rows("attr_number").extend((op, key, pos, number) for pos, number in enumerate(value))
        return op

    def raw(self, tensor: str) -> str:
        """Renames what its op makes; the tensor is to be made anew by a later op. Returns the raw value."""
        row = self.maker(tensor)
        made = self.like(tensor)
        rows = self.rows("result")
        rows[rows.index(row)] = (row[0], row[1], made)
        return made

    def multiply(self, tensor: str, factor: Fraction, beside: str, result: str | None = None) -> str:
        """`factor` times a real tensor."""
        ((_, _, dtype, rank),) = [row for row in self.facts["tensor"] if row[0] == tensor]
        if not dtype.startswith(("f", "bf")):
            raise InputError(f"{tensor} is no real tensor")
        number = constant = self.like(tensor, ())
        self.emit("constant", (), constant, beside)
        text = repr(float(factor)) if _finite(factor) else f"{factor.numerator}/{factor.denominator}"
        self.rows("literal").append((constant, text.removesuffix(".0")))
        self.rows("literal_rational").append((constant, factor.numerator, factor.denominator))
        if rank:
            number = self.like(tensor)
            self.emit("broadcast", [constant], number, beside)
        made = self.like(tensor) if result is None else result
        self.emit("multiply", [tensor, number], made, beside)
        return made

    def groups(self, op: str, axes: Iterable[str]) -> None:
        """Groups of a collective along these axes."""
        names = [axis for axis, _, _ in sorted(self.facts["mesh_axis"], key=lambda row: row[1])]
        wanted, at = set(axes), {rank: dict[str, int]() for rank in self.facts.ranks}
        for rank, axis, coordinate in self.facts["rank_coord"]:
            at[rank][axis] = coordinate
        found: dict[tuple[int, ...], list[int]] = {}
        for rank in sorted(at, key=lambda r: [at[r][a] for a in names]):
            found.setdefault(tuple(at[rank][a] for a in names if a not in wanted), []).append(rank)
        self.keep("group", lambda row: row[0] != op)
        for number, ranks in enumerate(found.values()):
            self.rows("group").extend((op, number, pos, rank) for pos, rank in enumerate(ranks))

    def sum_over(
        self, tensor: str, axes: str, beside: str, factor: Fraction, result: str | None = None, reducer: str = "sum"
    ) -> str:
        """The sum (or maximum, minimum) of a tensor over mesh axes (names joined by commas), times a factor."""
        made = self.like(tensor) if result is None or factor != 1 else result
        self.groups(self.emit("all-reduce", [tensor], made, beside, reducer=reducer), axes.split(","))
        return made if factor == 1 else self.multiply(made, factor, beside, result)

    def read(self, op: str, pos: int, tensor: str) -> None:
        """Makes an op read another tensor."""
        rows = self.rows("operand")
        rows[:] = [(o, p, tensor if (o, p) == (op, pos) else t) for o, p, t in rows]


def _finite(factor: Fraction) -> bool:
    rest = factor.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1
