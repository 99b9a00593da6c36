"""Regions: the graphs of loops and branches, where they run, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import eq, ge, gt, le, lt, ne

from scalify_dl.ir.dtypes import integers_of, is_integer
from scalify_dl.ir.shapes import Type
from scalify_dl.ir.vocabulary import words

from .model import Facts, Row
from .problems import error

Types = dict[str, Type]
"""Tensor → (dtype, shape)."""

_REGIONS = words("while conditional")
_HOLDS: dict[str, Callable[[int, int], bool]] = {"LT": lt, "LE": le, "GT": gt, "GE": ge, "NE": ne, "EQ": eq}


def ordered(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Numbered lists by owner; positions are known to be 0, 1, …"""
    out: dict[str, list[str]] = {}
    for owner, position, item in rows:
        items = out.setdefault(owner, [])
        if position != len(items):
            return ordered(sorted(rows, key=lambda row: row[1]))
        items.append(item)
    return out


def check_regions(facts: Facts, types: Types) -> None:
    """Loops and branches hand on what they are given."""
    regions = ordered(facts["region"])
    if not regions:
        return
    operands, results = ordered(facts["operand"]), ordered(facts["result"])
    inputs, outputs = ordered(facts["input"]), ordered(facts["output"])
    counter = Counter(facts, types)
    assumed = {(tensor, text.partition(" times")[0]) for tensor, text, _ in facts["assume"]}

    def typed(tensors: Iterable[str]) -> list[Type]:
        return [types[t] for t in tensors]

    for n, (op, _, kind) in enumerate(facts["op"]):
        if kind not in _REGIONS:
            continue
        graphs = regions[op]
        carried, made = typed(operands.get(op, ())), typed(results.get(op, ()))
        problem = ""
        if kind == "while":
            if len(graphs) != 2:
                problem = f"{len(graphs)} regions, expected a condition and a body"
            elif made != carried or any(typed(inputs.get(g, ())) != carried for g in graphs):
                problem = "operands, results and inputs of its regions of different types"
            elif typed(outputs.get(graphs[1], ())) != carried:
                problem = "a body that gives back other types than it takes"
            elif typed(outputs.get(graphs[0], ())) != [("pred", ())]:
                problem = "a condition that gives no single truth value"
        elif not carried or carried[0][1] or carried[0][0][0] not in "psu":
            problem = "no scalar index, of integers or a truth value, as its first operand"
        elif carried[0][0] == "pred" and len(graphs) != 2:
            problem = f"{len(graphs)} branches, and a truth value to choose by"
        elif any(typed(outputs.get(g, ())) != made for g in graphs):
            problem = "branches that give other types than its results"
        elif carried[1:] != [t for g in graphs for t in typed(inputs.get(g, ()))]:
            problem = "operands of other types than the inputs of its branches, one after the other"
        expected = None
        said = counter.trips.get(op)
        if not problem and kind == "while" and said is not None:
            counts = counter.runs(op, graphs, inputs, outputs, said)
            if counts is False:
                problem = f"the trip_count {said}, which its condition contradicts"
            elif counts is None and assumed.isdisjoint((t, f"the loop runs {said}") for t in results.get(op, ())):
                problem = f"the trip_count {said}, and a condition that cannot be counted"
                expected = f"no trip_count, or a row in `assume` for a result of the loop: `the loop runs {said} times`"
        if problem:
            raise error(facts, "op", n, f"`{op}` ({kind}) has {problem}", expected=expected)


def fits(dtype: str, value: int) -> bool:
    """Whether an integer or boolean type holds a value."""
    if dtype == "pred":
        return value in (0, 1)
    return is_integer(dtype) and value in integers_of(dtype)


def runs_of(facts: Facts) -> dict[str, frozenset[int]]:
    """Graph → the ranks that run it; regions run where their op does, the baseline on rank 0."""
    every = frozenset(row[0] for row in facts["rank_coord"])
    roles: dict[str, str] = dict(facts["graph"])
    named: dict[str, set[int]] = {}
    for graph, rank in facts["runs"]:
        named.setdefault(graph, set()).add(rank)
    graph_of = {op: graph for op, graph, _ in facts["op"]}
    inside = {graph: graph_of[op] for op, _, graph in facts["region"]}
    out = {}
    for graph, role in roles.items():
        top, passed = graph, {graph}
        while top in inside and inside[top] not in passed:
            top = inside[top]
            passed.add(top)
        out[graph] = frozenset({0}) if role == "base" else frozenset(named.get(top, every))
    return out


class Counter:
    """How often loops run whose condition compares a counter with a number: what `trip_count` says must agree."""

    def __init__(self, facts: Facts, types: Types) -> None:
        self.types = types
        self.trips = {op: value for op, key, _, value in facts["attr_number"] if key == "trip_count"}
        if not self.trips:
            return
        self.kinds = {op: kind for op, _, kind in facts["op"]}
        self.operands = ordered(facts["operand"])
        self.maker = {tensor: op for op, _, tensor in facts["result"]}
        self.values = {tensor: top for tensor, top, bottom in facts["literal_rational"] if bottom == 1}
        self.directions = {op: value for op, key, _, value in facts["attr_symbol"] if key == "direction"}

    def runs(
        self, op: str, graphs: list[str], inputs: dict[str, list[str]], outputs: dict[str, list[str]], count: int
    ) -> bool | None:
        """Whether a loop runs `count` times, by a counter that does not wrap round; None where it cannot be counted."""
        test = self.maker.get(outputs[graphs[0]][0], "")
        if self.kinds.get(test) != "compare":
            return None
        places = {tensor: k for k, tensor in enumerate(inputs.get(graphs[0], ()))}
        left, right = (self._counter(t, places, op, graphs, inputs, outputs) for t in self.operands[test])
        if left is None or right is None:
            return None
        dtype, _ = self.types[self.operands[test][0]]
        if not fits(dtype, 0):
            return None
        if count < 0 or not all(fits(dtype, first + count * step) for first, step in (left, right)):
            return False
        holds = _HOLDS[self.directions[test]]

        def at(turn: int) -> bool:
            return holds(left[0] + turn * left[1], right[0] + turn * right[1])

        if self.directions[test] in ("NE", "EQ"):
            return not at(count) and all(map(at, range(min(count, 4096))))
        return not at(count) and (count == 0 or (at(0) and at(count - 1)))

    def _counter(
        self,
        tensor: str,
        places: dict[str, int],
        op: str,
        graphs: list[str],
        inputs: dict[str, list[str]],
        outputs: dict[str, list[str]],
    ) -> tuple[int, int] | None:
        """First value and step of one side of the comparison."""
        if tensor in self.values:
            return self.values[tensor], 0
        if tensor not in places:
            return None
        place = places[tensor]
        first = self.values.get(self.operands[op][place])
        inside, after = inputs[graphs[1]][place], outputs[graphs[1]][place]
        if first is None:
            return None
        if after == inside:
            return first, 0
        made = self.maker.get(after, "")
        if self.kinds.get(made) not in ("add", "subtract"):
            return None
        one, two = self.operands[made]
        if one == inside and two in self.values:
            return first, self.values[two] if self.kinds[made] == "add" else -self.values[two]
        if two == inside and one in self.values and self.kinds[made] == "add":
            return first, self.values[one]
        return None
