"""Fact tables as programs that are run: ops and their attributes, and what layouts address."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from .composed import compose
from .forms import Form, Unknown
from .types import REALS

Tables = Mapping[str, Iterable[Sequence[Any]]]


class Op:
    """One op."""

    def __init__(self, name: str, graph: str, kind: str) -> None:
        self.name, self.graph, self.kind = name, graph, kind
        self.operands: dict[int, str] = {}
        self.results: dict[int, str] = {}
        self.attributes: dict[str, dict[int, Any]] = defaultdict(dict)
        self.by_rank: dict[tuple[str, int, int], int] = {}
        self.groups: dict[int, dict[int, int]] = defaultdict(dict)
        self.pairs: dict[int, int] = {}
        self.regions: dict[int, str] = {}

    def numbers(self, key: str, rank: int, default: list[int] | None = None) -> list[int]:
        values = self.attributes.get(key, {})
        ranked = {pos for k, pos, r in self.by_rank if k == key and r == rank}
        places = sorted(values.keys() | ranked)
        if not places:
            if default is None:
                raise Unknown(f"{self.kind} without {key}")
            return default
        return [self.by_rank.get((key, pos, rank), values.get(pos, 0)) for pos in places]

    def number(self, key: str, rank: int, default: int | None = None) -> int:
        return self.numbers(key, rank, None if default is None else [default])[0]

    def text(self, key: str, default: str = "") -> str:
        return str(self.attributes.get(key, {}).get(0, default))


class Program:
    """All ops of the tables. Unknown where they say what is not followed here."""

    def __init__(self, tables: Tables) -> None:
        rows = {name: [*table] for name, table in tables.items()}
        self.ops = {name: Op(name, graph, kind) for name, graph, kind in rows.get("op", ())}
        self.types = {t: dtype for t, _, dtype, _ in rows.get("tensor", ())}
        self.roles = {graph: role for graph, role in rows.get("graph", ())}  # noqa: C416
        self.graph_of = {t: graph for t, graph, *_ in rows.get("tensor", ())}
        dims: dict[str, dict[int, int]] = defaultdict(dict)
        for tensor, pos, size in rows.get("dim", ()):
            dims[tensor][pos] = size
        self.shapes = {t: tuple(dims[t][i] for i in range(n)) for t, _, _, n in rows.get("tensor", ())}
        for table, place in (("operand", "operands"), ("result", "results"), ("region", "regions")):
            for op, pos, other in rows.get(table, ()):
                getattr(self.ops[op], place)[pos] = other
        for table in ("attr_number", "attr_symbol"):
            for op, key, pos, value in rows.get(table, ()):
                self.ops[op].attributes[key][pos] = value
        for op, key, pos, rank, value in rows.get("rank_number", ()):
            self.ops[op].by_rank[key, pos, rank] = value
        self.coords: dict[int, dict[str, int]] = defaultdict(dict)
        for rank, axis, coord in rows.get("rank_coord", ()):
            self.coords[rank][axis] = coord
        self.sizes = {axis: size for axis, _, size in sorted(rows.get("mesh_axis", ()), key=lambda row: row[1])}
        self._ranks(rows)
        self.inputs: dict[str, dict[int, str]] = defaultdict(dict)
        self.outputs: dict[str, dict[int, str]] = defaultdict(dict)
        for table, found in (("input", self.inputs), ("output", self.outputs)):
            for graph, pos, tensor in rows.get(table, ()):
                found[graph][pos] = tensor
        self.literals = {tensor: text for tensor, text in rows.get("literal", ())}  # noqa: C416
        self.items: dict[str, dict[int, int]] = defaultdict(dict)
        for tensor, index, value in rows.get("literal_item", ()):
            self.items[tensor][index] = value
        self.ranges = {tensor: (low, limit) for tensor, low, limit, *_ in rows.get("range", ())}
        """That elements of inputs are at least the first number and below the second, where it is said."""
        self.makers = {t: op for op in self.ops.values() for t in op.results.values()}
        self.shards = [row[:5] for row in rows.get("shard", ())]
        regions = {graph for op in self.ops.values() for graph in op.regions.values()}
        alone = {graph: role for graph, role in self.roles.items() if graph not in regions}
        self.top = {role: [g for g, r in alone.items() if r == role] for role in ("base", "dist")}
        if any(len(graphs) != 1 for graphs in self.top.values()):
            raise Unknown("several programs")
        compose(self)

    def _ranks(self, rows: dict[str, list[Any]]) -> None:
        if any(at.keys() != self.sizes.keys() for at in self.coords.values()) or len(self.coords) != prod(
            self.sizes.values()
        ):
            raise Unknown("ranks that stand for others")
        for op, key, pos, axis, stride in rows.get("number_along", ()):
            for rank, at in self.coords.items():
                known = self.ops[op].by_rank.get((key, pos, rank), self.ops[op].attributes[key].get(pos, 0))
                self.ops[op].by_rank[key, pos, rank] = known + at[axis] * stride
        for op, group, pos, rank in rows.get("group", ()):
            self.ops[op].groups[group][pos] = rank
        along: dict[str, dict[int, str]] = defaultdict(dict)
        for op, pos, axis in rows.get("group_along", ()):
            along[op][pos] = axis
        for op, axes in along.items():
            named = [axes[i] for i in range(len(axes))]
            found: dict[Any, list[tuple[tuple[int, ...], int]]] = defaultdict(list)
            for rank, at in self.coords.items():
                rest = tuple(c for axis, c in sorted(at.items()) if axis not in named)
                found[rest].append((tuple(at[axis] for axis in named), rank))
            for n, members in enumerate(found.values()):
                self.ops[op].groups[n] = {i: rank for i, (_, rank) in enumerate(sorted(members))}
        for op, source, target in rows.get("permute_pair", ()):
            self.ops[op].pairs[target] = source


class Layout:
    """What the elements on each rank are of a baseline tensor; Unknown for what is pending."""

    _DIGIT = re.compile(r"(\d+):(\d+)x(\d+)")

    def __init__(self, text: str) -> None:
        text, _, scale = text.partition(" *")
        self.scale = Fraction(scale or 1)
        first, _, rest = text.partition("|")
        dims = re.findall(r"\[([^\]]*)\]", first)
        if "".join(f"[{dim}]" for dim in dims) != first.strip():
            raise Unknown(f"the layout {text}")
        self.dims = [[self._digit(word) for word in dim.split(",") if word] for dim in dims]
        self.axes: dict[str, list[tuple[int | None, int, int]]] = {}
        for entry in filter(None, rest.strip().split("|")):
            axis, _, words = entry.partition("=")
            self.axes[axis] = [self._digit(word) for word in words.split(",") if word]

    def _digit(self, word: str) -> tuple[int | None, int, int]:
        if re.fullmatch(r"r\d+", word):
            return None, 0, int(word[1:])
        found = self._DIGIT.fullmatch(word)
        if found is None:
            raise Unknown(f"the layout entry {word}")
        dim, stride, size = map(int, found.groups())
        return dim, stride, size

    def of(self, element: object, dtype: str) -> object:
        """What is held of an element of that type."""
        if self.scale == 1:
            return element
        if dtype not in REALS or not isinstance(element, Form):
            raise Unknown("a scale of what is no real number")
        return element.times(self.scale)

    def places(self, rank: int, shape: Sequence[int], base: Sequence[int], program: Program) -> Iterator[Any]:
        """For each element on a rank: its place, and its place in the baseline tensor."""
        start = [0] * len(base)
        for axis, digits in self.axes.items():
            self._add(start, digits, program.coords[rank][axis], program.sizes[axis])
        if [prod(size for _, _, size in dim) for dim in self.dims] != [*shape]:
            raise Unknown("a layout of another shape")
        for at in product(*map(range, shape)):
            place = list(start)
            for i, dim, size in zip(at, self.dims, shape, strict=True):
                self._add(place, dim, i, size)
            if any(not 0 <= i < n for i, n in zip(place, base, strict=True)):
                raise Unknown("a layout that goes beyond the tensor")
            yield at, tuple(place)

    @staticmethod
    def _add(place: list[int], digits: list[Any], value: int, whole: int) -> None:
        if prod(size for _, _, size in digits) != whole:
            raise Unknown("a layout whose digits are others than the extent")
        for dim, stride, size in reversed(digits):
            value, digit = divmod(value, size)
            if dim is not None:
                place[dim] += digit * stride
