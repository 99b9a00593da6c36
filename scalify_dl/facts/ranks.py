"""Ranks that stand for many: meshes with axes along which no rank is told apart (`still`), and numbers and groups that
are said along axes (docs/facts.md).

`written_out` gives the same facts with every rank, for what runs programs rank by rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.vocabulary import GROUPED, RANKED

from .model import Facts
from .problems import error, first
from .regions import Types, fits

Tables = Mapping[str, Iterable[Sequence[Any]]]
LIMIT = 2**16
"""Ranks that can be written out."""
NUMBERED = frozenset({"partition-id", "replica-id"})
"""Kinds that give the number of a rank."""


def sizes_of(tables: Tables) -> dict[str, int]:
    """Mesh axes in their order, with sizes."""
    return {axis: size for axis, _, size in sorted(tables.get("mesh_axis", ()), key=lambda row: row[1])}


def still_axes(tables: Tables) -> frozenset[str]:
    """Whole axes of which no rank has a coordinate."""
    placed = {axis for _, axis, _ in tables.get("rank_coord", ())}
    return frozenset(axis for (axis,) in tables.get("whole_axis", ()) if axis not in placed)


def check_along(facts: Facts, types: Types) -> None:
    """InputError where groups or numbers along axes do not fit their op, or an op asks for a rank that is many."""
    _check_groups(facts)
    _check_numbers(facts, types)
    if still_axes(facts.tables):
        for n, (op, _, kind) in enumerate(facts["op"]):
            if kind in NUMBERED:
                raise error(
                    facts, "op", n, f"`{op}` ({kind}) gives a rank its number, and every rank stands for several",
                    expected="coordinates on every axis, or another op",
                )  # fmt: skip


def _check_groups(facts: Facts) -> None:
    rows = facts["group_along"]
    if not rows:
        return
    graphs = {op: (graph, kind) for op, graph, kind in facts["op"]}
    roles: dict[str, str] = dict(facts["graph"])
    grouped = {row[0] for row in facts["group"]}
    found: dict[str, list[tuple[int, str]]] = {}
    for op, position, axis in rows:
        found.setdefault(op, []).append((position, axis))
    for op, axes in found.items():
        graph, kind = graphs[op]
        problem = ""
        if kind not in GROUPED or roles[graph] != "dist":
            problem = f"`{op}` ({kind}) is no collective of a distributed program"
        elif op in grouped:
            problem = f"`{op}` has rows in `group` as well"
        elif facts["runs"]:
            problem = f"`{op}` is of one of several programs"
        elif sorted(position for position, _ in axes) != list(range(len(axes))):
            problem = f"`{op}` has no axes at the positions 0, 1, …"
        elif len({axis for _, axis in axes}) != len(axes):
            problem = f"`{op}` runs along an axis twice"
        if problem:
            raise error(facts, "group_along", first(rows, 0, {op}), problem)


def _check_numbers(facts: Facts, types: Types) -> None:
    rows = facts["number_along"]
    if not rows:
        return
    kinds = {op: kind for op, _, kind in facts["op"]}
    written = {(op, key, position) for op, key, position, _ in facts["attr_number"]}
    ranked = {(op, key, position) for op, key, position, _, _ in facts["rank_number"]}
    results = {op: tensor for op, position, tensor in facts["result"] if position == 0}
    texts = {tensor for table in ("literal", "literal_hash", "literal_item") for tensor, *_ in facts[table]}
    for n, (op, key, position, _, _) in enumerate(rows):
        kind = kinds[op]
        problem = ""
        if key not in RANKED.get(kind, ()):
            problem = f"`{op}` ({kind}): `{key}` depends on the rank"
        elif (op, key, position) not in written:
            problem = f"`{op}` has no `{key}` {position} in `attr_number`, the number at coordinate 0"
        elif (op, key, position) in ranked:
            problem = f"`{op}` has `{key}` {position} in `rank_number` as well"
        elif kind == "constant" and (position or types[results[op]][1] or results[op] in texts):
            problem = f"`{op}` is a constant that has another value as well, or no scalar"
        if problem:
            raise error(facts, "number_along", n, problem)
    for op, numbers in corners(facts).items():
        for values in numbers if kinds[op] == "constant" else ():
            value = values["value", 0]
            if not fits(types[results[op]][0], value):
                n = first(rows, 0, {op})
                raise error(facts, "number_along", n, f"the number {value} of a constant {types[results[op]][0]}")


def corners(facts: Facts) -> dict[str, list[dict[tuple[str, int], int]]]:
    """Ops with numbers along axes → (key, position) → number, at all ends of these axes: linear numbers that are within
    bounds there are within them everywhere."""
    sizes = sizes_of(facts.tables)
    strides: dict[str, dict[tuple[str, int], dict[str, int]]] = {}
    for op, key, position, axis, stride in facts["number_along"]:
        strides.setdefault(op, {}).setdefault((key, position), {})[axis] = stride
    base: dict[str, dict[tuple[str, int], int]] = {op: {} for op in strides}
    for op, key, position, value in facts["attr_number"]:
        if op in strides and (key, position) in strides[op]:
            base[op][key, position] = value
    out: dict[str, list[dict[tuple[str, int], int]]] = {}
    for op, keys in strides.items():
        axes = sorted({axis for by_axis in keys.values() for axis in by_axis})
        out[op] = []
        for ends in product((0, 1), repeat=len(axes)):
            at = {axis: end * (sizes[axis] - 1) for axis, end in zip(axes, ends, strict=True)}
            out[op].append(
                {
                    place: base[op].get(place, 0) + sum(at[axis] * stride for axis, stride in by_axis.items())
                    for place, by_axis in keys.items()
                }
            )
    return out


def written_out(tables: Tables) -> Tables:
    """The same facts with a row for every rank; the tables themselves where nothing is said along axes. InputError
    where there are too many ranks."""
    still = still_axes(tables)
    if not still and not any(tables.get(name) for name in ("group_along", "number_along")):
        return tables
    sizes = sizes_of(tables)
    count = prod(sizes.values())
    if count > LIMIT:
        raise InputError(f"{count} ranks", expected=f"at most {LIMIT}, where programs run rank by rank")
    return _Written(tables, still, sizes).tables


class _Written:
    """Facts with every rank. Ranks are numbered anew: those that stood for others come first among these."""

    def __init__(self, tables: Tables, still: frozenset[str], sizes: dict[str, int]) -> None:
        self.sizes = sizes
        coords: dict[int, dict[str, int]] = {}
        for rank, axis, coordinate in tables.get("rank_coord", ()):
            coords.setdefault(rank, {})[axis] = coordinate
        shifts = [
            dict(zip(sorted(still), at, strict=True)) for at in product(*(range(sizes[a]) for a in sorted(still)))
        ]
        self.copies = {rank: [n * len(coords) + rank for n in range(len(shifts))] for rank in coords}
        self.places = {
            self.copies[rank][n]: place | shift for rank, place in coords.items() for n, shift in enumerate(shifts)
        }
        out: dict[str, Iterable[Sequence[Any]]] = dict(tables)
        out["rank_coord"] = [(rank, axis, c) for rank in sorted(self.places) for axis, c in self.places[rank].items()]
        out["whole_axis"] = []
        out["rank_number"] = list(self._numbers(tables))
        out["group"] = list(self._groups(tables))
        far = {(op, key, position) for op, key, position, _, _ in tables.get("number_along", ())}
        out["attr_number"] = [row for row in tables.get("attr_number", ()) if tuple(row[:3]) not in far]
        out["group_along"], out["number_along"] = [], []
        out["runs"] = [(graph, copy) for graph, rank in tables.get("runs", ()) for copy in self.copies[rank]]
        out["permute_pair"] = [
            (op, self.copies[source][n], self.copies[target][n])
            for op, source, target in tables.get("permute_pair", ())
            for n in range(len(shifts))
        ]
        self.tables: Tables = out

    def _numbers(self, tables: Tables) -> Iterator[tuple[object, ...]]:
        for op, key, position, rank, value in tables.get("rank_number", ()):
            yield from ((op, key, position, copy, value) for copy in self.copies[rank])
        strides: dict[tuple[str, str, int], dict[str, int]] = {}
        for op, key, position, axis, stride in tables.get("number_along", ()):
            strides.setdefault((op, key, position), {})[axis] = stride
        for op, key, position, base in tables.get("attr_number", ()):
            found = strides.get((op, key, position))
            if found is not None:
                for rank, place in self.places.items():
                    yield op, key, position, rank, base + sum(place[axis] * stride for axis, stride in found.items())

    def _groups(self, tables: Tables) -> Iterator[tuple[object, ...]]:
        counts: dict[str, int] = {}
        graphs = {op: graph for op, graph, _ in tables.get("op", ())}
        roles = {row[0]: row[1] for row in tables.get("graph", ())}
        for op, group, _, _ in tables.get("group", ()):
            counts[op] = max(counts.get(op, 0), group + 1)
        for op, group, position, rank in tables.get("group", ()):
            copies = self.copies[rank] if roles[graphs[op]] == "dist" else [rank]
            yield from ((op, n * counts[op] + group, position, copy) for n, copy in enumerate(copies))
        along: dict[str, dict[int, str]] = {}
        for op, position, axis in tables.get("group_along", ()):
            along.setdefault(op, {})[position] = axis
        known: dict[tuple[str, ...], list[list[int]]] = {}
        for op, by_position in along.items():
            axes = tuple(by_position[n] for n in sorted(by_position))
            if axes not in known:
                known[axes] = self._along(axes)
            for group, members in enumerate(known[axes]):
                yield from ((op, group, position, rank) for position, rank in enumerate(members))

    def _along(self, axes: tuple[str, ...]) -> list[list[int]]:
        """Ranks that differ along axes alone, in row-major order of these."""
        found: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
        for rank, place in self.places.items():
            rest = tuple(place[axis] for axis in self.sizes if axis not in axes)
            found.setdefault(rest, []).append((tuple(place[axis] for axis in axes), rank))
        return [[rank for _, rank in sorted(members)] for members in found.values()]
