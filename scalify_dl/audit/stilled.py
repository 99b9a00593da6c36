"""Facts in which ranks stand for many: the same programs with some mesh axes still (docs/facts.md), where what ranks do
allows it. So rules are attacked on such facts, too: what they derive has to be true of every rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scalify_dl.facts.coordinates import Ranks
from scalify_dl.facts.ranks import NUMBERED, sizes_of

Tables = Mapping[str, Iterable[Sequence[Any]]]


class _Differs(Exception):
    """Ranks along the axes differ in a way that has no form."""


def stilled(tables: Tables, axes: Iterable[str]) -> Tables | None:
    """The facts with these axes still; None where ranks that differ along them alone do different things."""
    try:
        return _Stilled(tables, frozenset(axes)).tables
    except _Differs:
        return None


class _Stilled:
    def __init__(self, tables: Tables, axes: frozenset[str]) -> None:
        sizes = sizes_of(tables)
        self.axes = axes
        self.ranks = Ranks([tuple(row) for row in tables["rank_coord"]], list(sizes))
        kept = [rank for rank in self.ranks.all if all(c == 0 for c in self.ranks.place(rank, sorted(axes)))]
        if not axes or axes == sizes.keys() or any(kind in NUMBERED for _, _, kind in tables["op"]):
            raise _Differs
        self.number = {rank: n for n, rank in enumerate(kept)}
        self.home = {rank: self.ranks.at(sorted(axes), [0] * len(axes), rank) for rank in self.ranks.all}
        out = dict(tables)
        out["rank_coord"] = [
            (self.number[rank], axis, c) for rank, axis, c in tables["rank_coord"]
            if rank in self.number and axis not in axes
        ]  # fmt: skip
        out["whole_axis"] = [(axis,) for axis in sorted(axes)]
        runs = {(graph, self.number[self.home[rank]]) for graph, rank in tables.get("runs", ())}
        if len(runs) * (len(self.ranks.all) // len(kept)) != len(list(tables.get("runs", ()))):
            raise _Differs
        out["runs"] = sorted(runs)
        out["permute_pair"] = self._pairs(tables)
        out["rank_number"], out["number_along"], more = self._numbers(tables)
        out["attr_number"] = [*tables.get("attr_number", ()), *more]
        out["group"], out["group_along"] = self._groups(tables)
        self.tables: Tables = out

    def _pairs(self, tables: Tables) -> list[tuple[object, ...]]:
        found: dict[tuple[object, ...], int] = defaultdict(int)
        for op, source, target in tables.get("permute_pair", ()):
            if self.ranks.place(source, sorted(self.axes)) != self.ranks.place(target, sorted(self.axes)):
                raise _Differs
            found[op, self.number[self.home[source]], self.number[self.home[target]]] += 1
        if set(found.values()) - {len(self.ranks.all) // len(self.number)}:
            raise _Differs
        return list(found)

    def _numbers(self, tables: Tables) -> tuple[list[Any], list[Any], list[Any]]:
        values: dict[tuple[str, str, int], dict[int, int]] = defaultdict(dict)
        for op, key, position, rank, value in tables.get("rank_number", ()):
            values[op, key, position][rank] = value
        ranked, along, base = [], [], []
        for place, by_rank in values.items():
            if all(value == by_rank[self.home[rank]] for rank, value in by_rank.items()):
                ranked += [(*place, self.number[r], value) for r, value in by_rank.items() if r in self.number]
                continue
            strides = self._strides(by_rank)
            along += [(*place, axis, stride) for axis, stride in strides.items() if stride]
            base.append((*place, by_rank[min(self.number)]))
        return ranked, along, base

    def _strides(self, by_rank: Mapping[int, int]) -> dict[str, int]:
        """The strides of a number that is linear in all coordinates."""
        origin = min(self.number)
        if by_rank.keys() != set(self.ranks.all):
            raise _Differs
        strides = {
            axis: by_rank[self.ranks.at([axis], [1], origin)] - by_rank[origin] if self.ranks.size(axis) > 1 else 0
            for axis in self.ranks.axes
        }
        for rank, value in by_rank.items():
            place = self.ranks.place(rank, self.ranks.axes)
            rise = sum(c * strides[axis] for axis, c in zip(self.ranks.axes, place, strict=True))
            if value != by_rank[origin] + rise:
                raise _Differs
        return strides

    def _groups(self, tables: Tables) -> tuple[list[Any], list[Any]]:
        graphs = {op: graph for op, graph, _ in tables["op"]}
        roles = {row[0]: row[1] for row in tables["graph"]}
        found: dict[str, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
        rows: list[Any] = []
        for op, group, position, rank in tables.get("group", ()):
            if roles[graphs[op]] == "base":
                rows.append((op, group, position, rank))
            else:
                found[op][group][position] = rank
        along: list[Any] = []
        for op, members in found.items():
            groups = [[group[n] for n in sorted(group)] for _, group in sorted(members.items())]
            axes = None if tables.get("runs") else self.ranks.axes_of(groups)
            if axes is not None and (axes or len(groups[0]) == 1):
                if axes:
                    along += [(op, n, axis) for n, axis in enumerate(axes)]
                else:
                    rows += [(op, n, 0, rank) for n, rank in enumerate(self.number.values())]
                continue
            homes: dict[tuple[int, ...], int] = defaultdict(int)
            for group in groups:
                if len({self.ranks.place(rank, sorted(self.axes)) for rank in group}) > 1:
                    raise _Differs
                homes[tuple(self.number[self.home[rank]] for rank in group)] += 1
            if set(homes.values()) != {len(self.ranks.all) // len(self.number)}:
                raise _Differs
            rows += [(op, n, position, rank) for n, group in enumerate(homes) for position, rank in enumerate(group)]
        return rows, along
