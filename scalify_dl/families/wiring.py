"""One capture as a graph of ops, for reading its numbers: who makes and who uses a tensor, in topological order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from scalify_dl.facts.coordinates import Ranks
from scalify_dl.facts.model import Facts


@dataclass(eq=False)
class Op:
    """An op with what it reads and makes, and its attributes."""

    name: str
    kind: str
    graph: str
    operands: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)
    by_rank: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)
    groups: dict[int, dict[int, int]] = field(default_factory=dict)
    regions: list[str] = field(default_factory=list)

    def list(self, key: str) -> list[int]:
        """A list-valued attribute."""
        found = self.numbers.get(key, {})
        return [found[position] for position in sorted(found)]

    def number(self, key: str, default: int) -> int:
        """A scalar attribute."""
        return self.numbers.get(key, {}).get(0, default)


class Wiring:
    """The ops of both programs."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.role: dict[str, str] = dict(facts["graph"])
        self.ops = {name: Op(name, kind, graph) for name, graph, kind in facts["op"]}
        self.dtype: dict[str, str] = {row[0]: row[2] for row in facts["tensor"]}
        self.shape: dict[str, list[int]] = {row[0]: [0] * row[3] for row in facts["tensor"]}
        for tensor, position, size in facts["dim"]:
            self.shape[tensor][position] = size
        self.maker: dict[str, Op] = {}
        self.users: dict[str, list[tuple[Op, int]]] = {}
        for name, _, tensor in sorted(facts["operand"], key=lambda row: row[1]):
            self.ops[name].operands.append(tensor)
        for name, _, tensor in sorted(facts["result"], key=lambda row: row[1]):
            self.ops[name].results.append(tensor)
            self.maker[tensor] = self.ops[name]
        for op in self.ops.values():
            for position, tensor in enumerate(op.operands):
                self.users.setdefault(tensor, []).append((op, position))
        for name, key, position, value in facts["attr_number"]:
            self.ops[name].numbers.setdefault(key, {})[position] = value
        for name, key, position, rank, value in facts["rank_number"]:
            self.ops[name].by_rank.setdefault((key, position), {})[rank] = value
        for name, key, _, text in facts["attr_symbol"]:
            self.ops[name].symbols[key] = text
        for name, group, position, rank in facts["group"]:
            self.ops[name].groups.setdefault(group, {})[position] = rank
        for name, _, graph in sorted(facts["region"], key=lambda row: row[1]):
            self.ops[name].regions.append(graph)
        self.inputs = _ports(facts["input"])
        self.outputs = _ports(facts["output"])
        self.axes = [axis for axis, _, _ in sorted(facts["mesh_axis"], key=lambda row: row[1])]
        self.ranks = Ranks(facts["rank_coord"], self.axes)
        self.order = self._order()

    def _order(self) -> list[Op]:
        """Makers before users; ops of regions after those outside."""
        waiting = {op.name: sum(tensor in self.maker for tensor in op.operands) for op in self.ops.values()}
        ready = deque(op for op in self.ops.values() if not waiting[op.name])
        out = []
        while ready:
            op = ready.popleft()
            out.append(op)
            for tensor in op.results:
                for user, _ in self.users.get(tensor, ()):
                    waiting[user.name] -= 1
                    if not waiting[user.name]:
                        ready.append(user)
        depth = dict.fromkeys(self.role, 0)
        for op in out:  # a region is deeper than its op
            for graph in op.regions:
                depth[graph] = max(depth[graph], depth[op.graph] + 1)
        return sorted(out, key=lambda op: depth[op.graph])

    def is_base(self, op: Op) -> bool:
        """Whether an op is of the baseline."""
        return self.role[op.graph] == "base"

    def group_axes(self, op: Op) -> tuple[str, ...] | None:
        """The mesh axes along which the groups of a collective run; None where they are no whole axes."""
        if not op.groups:
            return None
        return self.ranks.axes_of([[group[p] for p in sorted(group)] for group in op.groups.values()])


def _ports(rows: Sequence[tuple[str, int, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for graph, _, tensor in sorted(rows, key=lambda row: (row[0], row[1])):
        found.setdefault(graph, []).append(tensor)
    return found
