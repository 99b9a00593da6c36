"""The part of a large program around the ops at which its proof stops, as a program of its own.

Its inputs are values above that are proved to be the baseline's, its outputs what these ops make, next to what the
baseline ops make that they most likely implement. Edits are sought here and then proved of the whole program: what is
found on a part decides nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from scalify_dl.facts import Facts
from scalify_dl.facts.model import Row
from scalify_dl.facts.schema import TABLES
from scalify_dl.oracle.addressing import layout_of, pending_kind
from scalify_dl.oracle.dtypes import is_float
from scalify_dl.prove.pipeline import Analysis

MOST_STOPS = 64
"""Ops at which the proof stops; of more there is no one part around them."""
NEAR = 120
"""Ops above each of these that belong to its surroundings."""
MOST_OPS = 6_000


@dataclass
class Wiring:
    """Of both programs: operands and results of ops, and makers of tensors."""

    reads: dict[str, list[str]]
    makes: dict[str, list[str]]
    maker: dict[str, str]

    @classmethod
    def of(cls, facts: Facts) -> Wiring:
        reads, makes = defaultdict(list), defaultdict(list)
        for op, _, tensor in facts["operand"]:
            reads[op].append(tensor)
        for op, _, tensor in facts["result"]:
            makes[op].append(tensor)
        return cls(reads, makes, {tensor: op for op, _, tensor in facts["result"]})

    def below(self, tensors: Iterable[str]) -> set[str]:
        """All values that depend on some, themselves too."""
        readers = defaultdict(list)
        for op, operands in self.reads.items():
            for tensor in operands:
                readers[tensor].append(op)
        found = set(tensors)
        stack = list(found)
        while stack:
            for op in readers.get(stack.pop(), ()):
                for tensor in self.makes[op]:
                    if tensor not in found:
                        found.add(tensor)
                        stack.append(tensor)
        return found

    def above(
        self, ops: Iterable[str], near: int, may_stop: Callable[[str], bool], most: int
    ) -> tuple[set[str], set[str]]:
        """The next `near` ops above some, level by level, and on to where it may stop; with the values it stops at.
        None where these are more than `most`."""
        inside = dict.fromkeys(ops)
        ends: set[str] = set()
        level = list(inside)
        while level:
            following: list[str] = []
            for tensor in dict.fromkeys(t for op in level for t in self.reads.get(op, ())):
                maker = self.maker.get(tensor)
                if maker in inside:
                    continue
                if maker is None or (len(inside) >= near and may_stop(tensor)):
                    ends.add(tensor)
                else:
                    inside[maker] = None
                    following.append(maker)
                if len(inside) > most:
                    return set(), set()
            level = following
        return set(inside), {t for t in ends if self.maker.get(t) not in inside}


def windows(analysis: Analysis) -> Iterator[Facts]:
    """The facts of that part, first of as little as can be compared, then of more. None where the proof stops in too
    many places or at ops without a counterpart, where nothing near is proved, or programs have loops or are several."""
    facts = analysis.facts
    stops = [op for (op,) in analysis.rows("frontier")]
    roles: dict[str, str] = dict(facts["graph"])
    if not stops or len(stops) > MOST_STOPS or len(roles) != 2:
        return
    wiring = Wiring.of(facts)
    corr, parts = held(analysis, wiring)
    expected = _expected(analysis, wiring, stops, parts)
    if not expected:
        return
    below = wiring.below(row[0] for row in expected)
    seen: set[str] = set()
    for near in (0, NEAR * len(stops)):
        part = cut_out(facts, wiring, stops, expected, corr, below, near, MOST_OPS)
        if part is None or seen >= (inside := {op for op, graph, _ in part["op"] if roles[graph] == "dist"}):
            continue
        seen = inside
        yield part


def held(analysis: Analysis, wiring: Wiring) -> tuple[Mapping[str, list[Row]], Mapping[str, str]]:
    """Of real values that depend on inputs: the baseline values that each distributed one is, as rows of `corr`; and of
    which one it is a multiple or parts of a sum."""
    facts = analysis.facts
    real = {tensor for tensor, _, dtype, _ in facts["tensor"] if is_float(dtype)}
    varying = wiring.below(t for _, _, t in facts["input"])
    corr: dict[str, list[Row]] = defaultdict(list)
    parts: dict[str, str] = {}
    for row in analysis.rows("corr"):
        dist, dist_piece, base, base_piece, layout = row[:5]
        if not dist_piece and not base_piece and {dist, base} <= varying and {dist, base} <= real:
            if _plain(layout):
                corr[dist].append(row)
            else:
                parts[dist] = base
    return corr, parts


def cut_out(
    facts: Facts, wiring: Wiring, ops: Iterable[str], expected: list[Row], corr: Mapping[str, list[Row]],
    below: set[str], near: int, most: int, *, every: bool = False,
) -> Facts | None:  # fmt: skip
    """Distributed ops, and what is above them, up to values that are the baseline's (`corr`), with the baseline's ops
    between these and what is expected, and `near` more; None where that is nothing, or too much. `below`: what may not
    enter. `every`: all that is known of what enters is given, for rules, not one placement, for executions."""
    proved = {row[2] for rows in corr.values() for row in rows}
    makers = [wiring.maker[row[1]] for row in expected]
    base_inside, cuts = wiring.above(makers, near, proved.__contains__, most)
    made = {t for op in base_inside for t in wiring.makes[op]}

    def enters(tensor: str) -> list[Row]:
        rows = [row for row in corr.get(tensor, ()) if row[2] not in made]
        return rows if every else sorted(rows, key=lambda row: row[2] not in cuts)[:1]

    inside, ends = wiring.above(ops, 0, lambda t: bool(enters(t)), most)
    if not inside or not base_inside:
        return None
    ends |= _beside(corr, cuts, below)
    placed = {row[0] for row in facts["shard"]}
    shards: list[Row] = [(*row[:5], "given") for t in sorted(ends - placed) for row in enters(t)]
    inputs = {*ends, *cuts, *(row[2] for row in [*facts["shard"], *shards] if row[0] in ends)}
    return _part(facts, inside | base_inside, inputs, expected, shards)


def _beside(corr: Mapping[str, list[Row]], cuts: set[str], below: set[str]) -> set[str]:
    """Values that may be read instead: what holds a baseline value that enters, and is not computed of what stops."""
    found: dict[str, str] = {}
    for dist, rows in corr.items():
        for row in rows:
            if row[2] in cuts and dist not in below:
                found.setdefault(row[2], dist)
    return set(found.values())


def _expected(analysis: Analysis, wiring: Wiring, stops: list[str], parts: Mapping[str, str]) -> list[Row]:
    """What these ops make, next to what it should be: the results of the baseline ops that they most likely implement,
    or of a collective what its operand is parts of. Empty where that is not known of some."""
    counterparts: dict[str, str] = dict(analysis.rows("base_match"))
    rows: list[Row] = []
    for op in stops:
        reads = wiring.reads.get(op, [])
        if op in counterparts:
            theirs = wiring.makes[counterparts[op]]
        elif len(reads) == 1 and parts.get(reads[0]) in wiring.maker:
            theirs = [parts[reads[0]]]
        else:
            return []
        rows += [(ours, base, "") for ours, base in zip(wiring.makes[op], theirs, strict=False)]
    return rows


@cache
def _plain(text: str) -> bool:
    """Whether a layout is of a value itself, no multiple of it and no parts of a sum."""
    layout = layout_of(text)
    return layout.scale == 1 and pending_kind(layout) is None


def _part(facts: Facts, ops: set[str], inputs: set[str], expected: list[Row], shards: list[Row]) -> Facts:
    """These ops with everything that is said of them and of their values."""
    graph_of = {tensor: graph for tensor, graph, _, _ in facts["tensor"]}
    tensors = {row[2] for table in ("operand", "result") for row in facts[table] if row[0] in ops} | inputs
    kept = {"op": ops, "tensor": tensors}
    tables = {name: _rows(facts[name], name, kept) for name in facts}
    made = {row[2] for row in tables["result"]}
    inputs = {t for t in tensors if t not in made}
    ports: Mapping[str, Iterable[str]] = {
        "input": sorted(inputs),
        "output": dict.fromkeys(t for row in expected for t in row[:2]),
    }
    for table, names in ports.items():
        count: dict[str, int] = defaultdict(int)
        tables[table] = []
        for tensor in names:
            graph = graph_of[tensor]
            tables[table].append((graph, count[graph], tensor))
            count[graph] += 1
    tables["expect"] = expected
    tables["shard"] = [row for row in tables["shard"] if row[0] in inputs and row[2] in inputs] + shards
    return Facts(tables)


def _rows(rows: list[Row], name: str, kept: Mapping[str, set[str]]) -> list[Row]:
    columns = TABLES[name].columns if name in TABLES else ()
    for table, wanted in kept.items():
        places = [i for i, column in enumerate(columns) if column.refers == table or (name, i) == (table, 0)]
        for i in places:
            rows = [row for row in rows if row[i] in wanted]
    return rows
