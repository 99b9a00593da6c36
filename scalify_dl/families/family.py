"""A family of programs: facts whose numbers are formulas of symbolic sizes, and what they are at given sizes.

`lift` makes one from captures. `Family.facts` gives the facts of one member or, where symbols are left, of all of them
at once: an axis of symbolic size then has a few ranks in place of all, some at either end and one at a generic
coordinate k, which stands for all in between (neighbours of the ends are not like the others where a rank has one
element). That is enough because every number that depends on the rank is linear in the coordinate (`lift` checks it),
and because the rules treat ranks alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from scalify_dl.facts.model import Facts
from scalify_dl.facts.schema import TABLES
from scalify_dl.ir.dtypes import is_integer
from scalify_dl.ir.expression import Expression
from scalify_dl.ir.literals import ITEMS_LIMIT, LIMIT, Literal

ALIKE, UNLIKE = (2, 0), (3, 3)
"""Ranks at either end of a symbolic axis that stand for themselves: where no number depends on the rank, and else."""

Cell = Any
"""A cell of a table: a symbol (str), a number (int) or a formula (Expression)."""
Values = Mapping[str, Expression]


@dataclass(frozen=True)
class SizeSymbol:
    """An unknown size: a mesh axis, or a dim of a baseline input (`place` says which)."""

    name: str
    axis: bool
    place: str


@dataclass(frozen=True)
class Choice:
    """A number that equations leave open: what it is in the first capture, and how it is read."""

    op: str
    what: str
    value: Fraction
    formula: Expression
    why: str


@dataclass(frozen=True)
class Entry:
    """An entry of a layout: `dim:stride x size`, or a kind (`r`, `sum`, …) with a size."""

    kind: str
    dim: int
    stride: Expression
    size: Expression


@dataclass(frozen=True)
class LayoutFormula:
    """A layout whose numbers are formulas."""

    dims: tuple[tuple[Entry, ...], ...]
    axes: tuple[tuple[str, tuple[Entry, ...]], ...]
    scale: Fraction

    def put(self, values: Values) -> LayoutFormula:
        """At given sizes, canonical: entries of size 1 dropped, neighbours that continue each other merged."""
        return LayoutFormula(
            tuple(_merged(entries, values) for entries in self.dims),
            tuple((axis, _merged(entries, values)) for axis, entries in self.axes),
            self.scale,
        )

    def text(self, write: _Words) -> str:
        """Layout text; numbers that are formulas as words in braces."""
        text = "".join(f"[{write.entries(entries)}]" for entries in self.dims)
        text += "".join(f"|{axis}={write.entries(entries)}" for axis, entries in self.axes)
        return text if self.scale == 1 else f"{text} *{self.scale.numerator}/{self.scale.denominator}"

    def formulas(self) -> Iterator[Expression]:
        """Every number in it."""
        for entries in (*self.dims, *(entries for _, entries in self.axes)):
            for entry in entries:
                yield from (entry.stride, entry.size)


@dataclass(frozen=True)
class PieceFormula:
    """A piece of a tensor: (dim, lo, hi)."""

    windows: tuple[tuple[int, Expression, Expression], ...]

    def text(self, write: _Words, values: Values) -> str:
        """Piece text."""
        return ",".join(f"{d}:{write(lo.put(values))}:{write(hi.put(values))}" for d, lo, hi in self.windows)


@dataclass(frozen=True)
class RankFormula:
    """A number that depends on the rank: for every place on the axes of fixed size, `base` plus, for every symbolic
    axis, the coordinate times its weight."""

    places: Mapping[tuple[int, ...], tuple[Expression, Mapping[str, Expression]]]


@dataclass
class Family:
    """Facts with formulas. What `facts` makes anew (ranks, groups, values of constants) is kept by itself."""

    symbols: list[SizeSymbol]
    axes: list[tuple[str, Expression]]
    """Mesh axes in order, with their sizes."""
    tables: dict[str, list[tuple[Cell, ...]]] = field(default_factory=dict)
    shards: list[tuple[str, PieceFormula, str, PieceFormula, LayoutFormula, str]] = field(default_factory=list)
    expected: list[tuple[str, str, LayoutFormula | None]] = field(default_factory=list)
    literals: dict[str, tuple[Expression, Expression, str | None]] = field(default_factory=dict)
    """Scalar and splat constants: numerator, denominator, and the text where it is the same at all sizes."""
    rank_numbers: dict[tuple[str, str, int], RankFormula] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Collectives: the axes along which their groups run, major first."""
    permutes: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = field(default_factory=dict)
    """Permutes along axes of fixed size: places on these axes, from and to."""
    sizes: set[Expression] = field(default_factory=set)
    """Every extent: an integer from 1 on."""
    integers: set[Expression] = field(default_factory=set)
    """Every other number: an integer."""
    captures: int = 0
    choices: list[Choice] = field(default_factory=list)
    """Numbers that no equation gives, and that are read as formulas."""

    @property
    def fixed(self) -> list[str]:
        """Axes whose size is a number in every capture."""
        symbolic = {symbol.name for symbol in self.symbols if symbol.axis}
        return [axis for axis, _ in self.axes if axis not in symbolic]

    @property
    def ends(self) -> tuple[int, int]:
        """How many ranks at either end of a symbolic axis stand for themselves."""
        return UNLIKE if self.rank_numbers else ALIKE

    @property
    def formulas(self) -> int:
        """How many different formulas there are, besides numbers."""
        return sum(formula.constant is None for formula in self.sizes | self.integers)

    def inputs(self) -> dict[str, list[str]]:
        """Inputs of both programs with the formulas of their dims."""
        regions = {graph for _, _, graph in self.tables.get("region", ())}
        sizes: dict[str, dict[int, str]] = {t: {} for graph, _, t in self.tables["input"] if graph not in regions}
        for tensor, position, size in self.tables["dim"]:
            if tensor in sizes:
                sizes[tensor][position] = str(size)
        return {tensor: [dims[i] for i in sorted(dims)] for tensor, dims in sizes.items()}

    def facts(self, values: Values) -> SymbolicFacts:
        """The facts with these sizes in place of their symbols; ValueError where a number is none there."""
        return SymbolicFacts(self, values)

    def instantiate(self, values: Mapping[str, int]) -> Facts:
        """Ordinary facts of one member, with all ranks and groups; ValueError for sizes that do not fit."""
        missing = [symbol.name for symbol in self.symbols if symbol.name not in values]
        if missing:
            raise ValueError(f"no size is given for {', '.join(missing)}")
        return self.facts({name: Expression.number(value) for name, value in values.items()}).facts


class _Words:
    """Writes formulas as words, and remembers what they stand for."""

    def __init__(self) -> None:
        self.meaning: dict[str, str] = {}

    def __call__(self, formula: Expression) -> str:
        value = formula.constant
        if value is not None:
            return str(_integer(value))
        text = str(formula)
        word = "{" + text.replace(" ", "").replace("*", ".") + "}"
        self.meaning[word] = text
        return word

    def entries(self, entries: Iterable[Entry]) -> str:
        return ",".join(
            f"{e.dim}:{self(e.stride)}x{self(e.size)}" if e.kind == "digit" else f"{e.kind}{self(e.size)}"
            for e in entries
        )


class SymbolicFacts:
    """Facts at some sizes; where symbols are left, `facts` has their texts in number columns.

    `coordinates` names the generic coordinate of every axis that still is symbolic, `axis_of` its size.
    """

    def __init__(self, family: Family, values: Values) -> None:
        self.family = family
        self.values = values
        self.sizes = {axis: size.put(values) for axis, size in family.axes}
        self.coordinates: dict[str, str] = {}
        names = {symbol.name for symbol in family.symbols}
        for axis, size in self.sizes.items():
            if size.constant is None:
                name = f"k_{axis}" if len([s for s in family.symbols if s.axis]) > 1 else "k"
                while name in names:
                    name += "_"
                self.coordinates[axis] = name
        self.words = _Words()
        self._ranks_agree: dict[str, Expression] = {}
        """Constants that are the same on every rank at these sizes."""
        self.facts = Facts()
        self._fill()

    @property
    def symbolic(self) -> bool:
        """Whether a symbol is left."""
        return any(symbol.name not in self.values for symbol in self.family.symbols)

    def number(self, formula: Expression | int) -> int | str:
        """A cell of a number column."""
        if isinstance(formula, int):
            return formula
        formula = formula.put(self.values)
        value = formula.constant
        return str(formula) if value is None else _integer(value)

    def _fill(self) -> None:
        family, tables = self.family, self.facts.tables
        for name, rows in family.tables.items():
            columns = [i for i, c in enumerate(TABLES[name].columns) if c.number]
            if any(isinstance(row[i], Expression) for row in rows for i in columns):
                rows = [tuple(self.number(c) if isinstance(c, Expression) else c for c in row) for row in rows]
            tables[name] = list(rows)
        self._mesh()
        self._constants()
        for dist, dist_piece, base, base_piece, layout, why in family.shards:
            tables["shard"].append(
                (
                    dist,
                    dist_piece.text(self.words, self.values),
                    base,
                    base_piece.text(self.words, self.values),
                    layout.put(self.values).text(self.words),
                    why,
                )
            )
        for dist, base, wanted in family.expected:
            tables["expect"].append((dist, base, wanted.put(self.values).text(self.words) if wanted else ""))
        if self.symbolic:
            tables["whole_axis"] = [(axis,) for axis in self.coordinates]
            tables["written_number"] = list(self.words.meaning.items())

    def _places(self) -> list[dict[str, Expression]]:
        """Coordinates of every rank."""
        choices = []
        first, last = self.family.ends
        for axis, size in self.sizes.items():
            count = size.constant
            if count is None:
                middle = [*map(Expression.number, range(first)), Expression.symbol(self.coordinates[axis])]
                choices.append([*middle, *(size - Expression.number(i) for i in range(last, 0, -1))])
            else:
                choices.append([Expression.number(i) for i in range(_integer(count))])
        return [dict(zip(self.sizes, place, strict=True)) for place in product(*choices)]

    def _mesh(self) -> None:
        family, tables = self.family, self.facts.tables
        places = self._places()
        tables["mesh_axis"] = [(axis, p, self.number(size)) for p, (axis, size) in enumerate(family.axes)]
        tables["rank_coord"] = [
            (rank, axis, self.number(c)) for rank, place in enumerate(places) for axis, c in place.items()
        ]
        fixed = family.fixed
        kinds = {(op, kind) for op, _, kind in tables["op"]}
        results = {op: tensor for op, position, tensor in tables["result"] if position == 0}
        for (op, key, position), formula in family.rank_numbers.items():
            values = []
            for place in places:
                base, weights = formula.places[tuple(_integer(place[axis].constant) for axis in fixed)]
                value = base.put(self.values)
                for axis, weight in weights.items():
                    value += place[axis] * weight.put(self.values)
                values.append(value)
            if len(set(values)) > 1:
                tables["rank_number"] += [(op, key, position, r, self.number(v)) for r, v in enumerate(values)]
            elif (op, "constant") in kinds:
                self._ranks_agree[results[op]] = values[0]
            else:
                tables["attr_number"].append((op, key, position, self.number(values[0])))
        numbered = {tuple(place.values()): rank for rank, place in enumerate(places)}
        for op, pairs in family.permutes.items():
            for place in places:
                for source, target in pairs:
                    if all(place[axis].constant == c for axis, c in zip(fixed, source, strict=True)):
                        there = place | {a: Expression.number(c) for a, c in zip(fixed, target, strict=True)}
                        tables["permute_pair"].append(
                            (op, numbered[tuple(place.values())], numbered[tuple(there.values())])
                        )
        for op, axes in family.groups.items():
            if self.coordinates:
                tables.setdefault("group_along", []).extend((op, p, axis) for p, axis in enumerate(axes))
            else:
                tables["group"] += [(op, *row) for row in self._members(axes, numbered)]

    def _members(
        self, axes: tuple[str, ...], numbered: Mapping[tuple[Expression, ...], int]
    ) -> Iterator[tuple[int, int, int]]:
        """(group, position, rank) of groups along axes; axes of one position may be left out."""
        others = [axis for axis in self.sizes if axis not in axes]
        counts = {axis: range(_integer(size.constant)) for axis, size in self.sizes.items()}
        for number, outside in enumerate(product(*(counts[axis] for axis in others))):
            for position, inside in enumerate(product(*(counts[axis] for axis in axes))):
                place = dict(zip(others, outside, strict=True)) | dict(zip(axes, inside, strict=True))
                yield number, position, numbered[tuple(Expression.number(place[axis]) for axis in self.sizes)]

    def _constants(self) -> None:
        family, tables = self.family, self.facts.tables
        dtypes = {row[0]: row[2] for row in tables["tensor"]}
        extents: dict[str, list[int | str]] = {}
        for tensor, _, size in tables["dim"]:
            extents.setdefault(tensor, []).append(size)
        one = Expression.number(1)
        agreed = {tensor: (value, one, None) for tensor, value in self._ranks_agree.items()}
        for tensor, (above, below, text) in (family.literals | agreed).items():
            num, den = above.put(self.values), below.put(self.values)
            p, q = num.constant, den.constant
            if p is None or q is None:
                tables["literal_rational"].append((tensor, self.number(num), self.number(den)))
                tables["literal"].append((tensor, f"({num})/({den})" if str(den) != "1" else str(num)))
                continue
            exact = p / q
            tables["literal"].append((tensor, text or Literal.scalar(exact).text))
            if abs(exact.numerator) < LIMIT and exact.denominator < LIMIT:
                tables["literal_rational"].append((tensor, exact.numerator, exact.denominator))
            sizes = extents.get(tensor, [])
            whole = dtypes[tensor] == "pred" or is_integer(dtypes[tensor])
            if exact.denominator != 1 or not whole or any(isinstance(n, str) for n in sizes):
                continue
            count = prod(int(n) for n in sizes)
            if count <= ITEMS_LIMIT:
                tables["literal_item"] += [(tensor, index, exact.numerator) for index in range(count)]


def _integer(value: Fraction | None) -> int:
    if value is None or value.denominator != 1:
        raise ValueError(f"{value} is no whole number")
    return int(value)


def _merged(entries: Iterable[Entry], values: Values) -> tuple[Entry, ...]:
    merged: list[Entry] = []
    for entry in entries:
        entry = Entry(entry.kind, entry.dim, entry.stride.put(values), entry.size.put(values))
        if entry.size.constant == 1:
            continue
        last = merged[-1] if merged else None
        if last and last.kind == entry.kind and last.dim == entry.dim and last.stride == entry.stride * entry.size:
            merged[-1] = Entry(entry.kind, entry.dim, entry.stride, last.size * entry.size)
        else:
            merged.append(entry)
    return tuple(merged)
