"""The distributed graph of some fact tables, and copies of the tables with a change."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from scalify_dl.ir.vocabulary import COLLECTIVES

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]


class View:
    """The distributed top-level graph of some tables, indexed; `edit` copies the tables that change."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        inner = {graph for _, _, graph in tables["region"]}
        self.graphs = {g for g, role in tables["graph"] if role == "dist" and g not in inner}
        self.kind = {op: kind for op, graph, kind in tables["op"] if graph in self.graphs}
        self.order = {op: i for i, op in enumerate(self.kind)}
        self.focus = list(self.kind)
        self.operands: dict[str, list[str]] = defaultdict(list)
        for op, _, tensor in sorted(tables["operand"], key=lambda r: (r[0], r[1])):
            self.operands[op].append(tensor)
        self.results: dict[str, list[str]] = defaultdict(list)
        for op, _, tensor in sorted(tables["result"], key=lambda r: (r[0], r[1])):
            self.results[op].append(tensor)
        self.maker = {t: op for op in self.kind for t in self.results[op]}
        shape: dict[str, dict[int, int]] = defaultdict(dict)
        for tensor, pos, size in tables["dim"]:
            shape[tensor][pos] = size
        self.type = {
            t: (dtype, tuple(shape[t][i] for i in range(rank)))
            for t, g, dtype, rank in tables["tensor"]
            if g in self.graphs
        }
        self.users: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for op in self.kind:
            for pos, tensor in enumerate(self.operands[op]):
                self.users[tensor].append((op, pos))
        self.inputs = [t for g, _, t in tables["input"] if g in self.graphs]
        self.outputs = {t for g, _, t in tables["output"] if g in self.graphs}
        self.numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
        for op, key, _, value in sorted(tables["attr_number"], key=lambda r: (r[0], r[1], r[2])):
            self.numbers[op, key].append(value)
        self.symbols = {(op, key): value for op, key, pos, value in tables["attr_symbol"] if pos == 0}
        self.groups: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for op, group, _, rank in sorted(tables["group"]):
            self.groups[op][group].append(rank)
        self.ranks = sorted({row[0] for row in tables["rank_coord"]})

    def look_at(self, rng: random.Random, count: int) -> None:
        """Mutates only so many ops from now on, and as many collectives and constants beside them."""
        chosen: set[str] = set()
        rare = [op for op, kind in self.kind.items() if kind in COLLECTIVES or kind in ("constant", "iota", "compare")]
        for ops in (list(self.kind), rare):
            chosen.update(rng.sample(ops, min(count, len(ops))))
        self.focus = [op for op in self.kind if op in chosen]

    def ops(self, *kinds: str) -> list[str]:
        """Ops to mutate, of some kinds, in order (all without kinds)."""
        return [op for op in self.focus if not kinds or self.kind[op] in kinds]

    def edit(self, **changes: list[Row]) -> Tables:
        """The tables with some replaced."""
        return {**self.tables, **changes}

    def rewired(self, edges: dict[tuple[str, int], str]) -> list[Row]:
        """Operand rows with some edges going to other tensors."""
        return [(op, pos, edges.get((op, pos), t)) for op, pos, t in self.tables["operand"]]

    def with_numbers(self, op: str, key: str, values: list[int]) -> list[Row]:
        """Attribute rows with one list replaced."""
        rest = [r for r in self.tables["attr_number"] if r[:2] != (op, key)]
        return [*rest, *((op, key, i, v) for i, v in enumerate(values))]

    def with_symbol(self, op: str, key: str, value: str) -> list[Row]:
        """Attribute rows with one symbol replaced."""
        return [*(r for r in self.tables["attr_symbol"] if r[:2] != (op, key)), (op, key, 0, value)]

    def with_groups(self, op: str, groups: list[list[int]]) -> list[Row]:
        """Group rows of one op replaced."""
        rest = [r for r in self.tables["group"] if r[0] != op]
        return [*rest, *((op, g, i, rank) for g, group in enumerate(groups) for i, rank in enumerate(group))]

    def with_kind(self, op: str, kind: str) -> list[Row]:
        """Op rows with one kind replaced."""
        return [(o, g, kind if o == op else k) for o, g, k in self.tables["op"]]

    def bypass(self, op: str, tensor: str) -> dict[tuple[str, int], str] | None:
        """Edges that take `tensor` instead of the op's result; None where that is no edge at all or an output."""
        result = self.results[op][0]
        if result in self.outputs or not self.users[result] or self.type[tensor] != self.type[result]:
            return None
        return dict.fromkeys(self.users[result], tensor)
