"""Ways to break where the values of a distributed program are: each changes one op of a copy, in which ops have the
same numbers, and keeps its shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from fractions import Fraction
from typing import NamedTuple

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import COLLECTIVES
from scalify_dl.lint.edits import groups, subsets

Change = Callable[[Graph, Op], None]
REDUCERS = ("sum", "max", "min")
HUGE = 10**30
"""Numbers as large stand for infinity."""


class Broken(NamedTuple):
    """One way: what kind of edit, the number of the op, in words, and how it is done."""

    sort: str
    at: int
    text: str
    change: Change

    def of(self, draft: Graph) -> None:
        """Breaks a copy."""
        self.change(draft, draft.ops[self.at])


def ways(graph: Graph, mesh: Mesh) -> Iterator[Broken]:
    """All of them, op by op."""
    maker = {t: op for op in graph.ops for t in op.results}
    for at, op in enumerate(graph.ops):
        for sort, text, change in _ways(mesh, op, maker):
            yield Broken(sort, at, f"{op.name} ({op.kind}): {text}", change)


def _ways(mesh: Mesh, op: Op, maker: Mapping[Tensor, Op]) -> Iterator[tuple[str, str, Change]]:
    if op.kind in COLLECTIVES and len(op.results) == 1:
        yield "dropped", "left out", _dropped
        if op.kind == "all-reduce":
            yield "doubled", "done twice", _doubled
        if op.symbols.get("reducer", [""])[0] in REDUCERS:
            for reducer in REDUCERS:
                if op.symbols["reducer"][0] != reducer:
                    yield "reducer", f"takes the {reducer}", _reducer(reducer)
        if op.groups is not None and op.kind != "collective-permute":
            yield from _groups(mesh, op)
        if op.pairs:
            yield "group", "pairs turned round", _turned
    if op.kind == "slice" and op.rank_numbers:
        yield "slice", "blocks of other ranks", _rotated
        yield "slice", "the first block on all ranks", _first
    elif op.kind == "slice":
        yield from _shifted(op)
    elif op.kind == "constant" and not op.rank_numbers and _is_scale(op):
        yield "scale", "twice as large", _scaled(2)
    elif op.kind == "constant" and op.rank_numbers:
        yield "own", "the numbers of other ranks", _rotated
        yield "own", "the first rank's number on all ranks", _first
    elif op.kind == "dynamic-slice" and any(maker.get(t, op).kind == "partition-id" for t in op.operands[1:]):
        table = maker.get(op.operands[0])
        if table is not None and table.kind == "constant" and table.result.literal and table.result.literal.items:
            yield "own", "the entries of other ranks", _rolled(1)
            yield "own", "the first rank's entry on all ranks", _rolled(0)


def _is_scale(op: Op) -> bool:
    """Whether it is one real number."""
    literal = op.result.literal
    number = literal.rational if literal is not None and not literal.items else None
    return op.result.dtype[0] in "fb" and number is not None and 0 < abs(number) < HUGE


def _groups(mesh: Mesh, op: Op) -> Iterator[tuple[str, str, Change]]:
    mine = {frozenset(group) for group in op.groups or ()}
    size = len(next(iter(mine), ()))
    each = [[rank] for rank in range(mesh.size)]
    others = [groups(mesh, axes) for axes in subsets([axis for axis, n in mesh.axes if n > 1])]
    if op.kind == "all-reduce":
        others.append(each)
        if size >= 4:
            others.append([list(part) for g in op.groups or () for part in (g[: size // 2], g[size // 2 :])])
    for other in others:
        fits = op.kind == "all-reduce" or len(other[0]) == size
        if fits and {frozenset(g) for g in other} != mine:
            yield "group", f"groups {other}", _grouped(other)
    if op.kind in ("all-gather", "reduce-scatter", "all-to-all"):
        yield "group", "ranks in reverse", _grouped([group[::-1] for group in op.groups or ()])


def _shifted(op: Op) -> Iterator[tuple[str, str, Change]]:
    for dim, n in enumerate(op.operands[0].shape):
        start, limit = op.numbers["start"][dim], op.numbers["limit"][dim]
        for by in dict.fromkeys((limit - start, start - limit, 1, -1)):
            if by and start + by >= 0 and limit + by <= n:
                yield "slice", f"dim {dim} from {start + by}", _moved(dim, by)


def _read(graph: Graph, old: Tensor, new: Tensor, first: int) -> None:
    for op in graph.ops[first:]:
        op.operands = [new if t is old else t for t in op.operands]
    for port in graph.outputs:
        if port.tensor is old:
            port.tensor = new


def _dropped(graph: Graph, op: Op) -> None:
    """Its operand as it is; repeated where a gather is wanted; the first block where a block is."""
    (x, *_), shape = op.operands, op.result.shape
    op.groups, op.pairs, op.along, op.replica_groups_all, op.group_name = None, None, (), False, None
    op.symbols, op.rank_numbers, op.channel = {}, {}, 0
    wide = [d for d, n in enumerate(shape) if n > x.shape[d]]
    narrow = [d for d, n in enumerate(shape) if n < x.shape[d]]
    if wide and not narrow:
        op.kind, op.numbers = "concatenate", {"dimension": [wide[0]]}
        op.operands = [x] * (shape[wide[0]] // x.shape[wide[0]])
    elif narrow and not wide:
        op.kind = "slice"
        op.numbers = {"start": [0] * len(shape), "limit": list(shape), "stride": [1] * len(shape)}
    else:
        op.kind, op.numbers = "reshape", {}


def _doubled(graph: Graph, op: Op) -> None:
    at, count, old = graph.ops.index(op), len(graph.ops), op.result
    made = graph.add(op.kind, [old], [(old.dtype, old.shape)], name=f"{op.name}.again", numbers=dict(op.numbers),
                     symbols=dict(op.symbols), groups=op.groups, source=op.source)  # fmt: skip
    _read(graph, old, made.result, at + 1)
    made.operands = [old]
    graph.ops[at + 1 : at + 1] = [graph.ops.pop(count)]


def _reducer(reducer: str) -> Change:
    def change(graph: Graph, op: Op) -> None:
        op.symbols = {**op.symbols, "reducer": [reducer]}

    return change


def _grouped(other: list[list[int]]) -> Change:
    def change(graph: Graph, op: Op) -> None:
        op.groups, op.along, op.replica_groups_all = other, (), False

    return change


def _turned(graph: Graph, op: Op) -> None:
    op.pairs = [(target, source) for source, target in op.pairs or ()]


def _rotated(graph: Graph, op: Op) -> None:
    ranks = sorted(next(iter(op.rank_numbers.values())))
    after = dict(zip(ranks, ranks[1:] + ranks[:1], strict=True))
    op.rank_numbers = {key: {r: by[after[r]] for r in ranks} for key, by in op.rank_numbers.items()}


def _first(graph: Graph, op: Op) -> None:
    op.rank_numbers = {key: dict.fromkeys(by, by[min(by)]) for key, by in op.rank_numbers.items()}


def _rolled(by: int) -> Change:
    """The table that an op reads by its rank, read one further on, or at its first entry only."""

    def change(graph: Graph, op: Op) -> None:
        (table,) = (o for o in graph.ops if op.operands[0] in o.results)
        items = list((table.result.literal and table.result.literal.items) or ())
        items = items[by:] + items[:by] if by else items[:1] * len(items)
        made = Tensor(table.result.dtype, table.result.shape, f"{table.name}.moved")
        made.literal = Literal("{" + ",".join(map(str, items)) + "}", items=tuple(items))
        new = copy(table)
        new.results, new.name = [made], made.name
        graph.ops.insert(graph.ops.index(op), new)
        op.operands = [made, *op.operands[1:]]

    return change


def _scaled(by: int) -> Change:
    """Another number, for all that reads it."""

    def change(graph: Graph, op: Op) -> None:
        old = op.result.literal
        number = (old.rational if old is not None else None) or Fraction(1)
        op.result.literal = Literal.scalar(number * by)

    return change


def _moved(dim: int, by: int) -> Change:
    def change(graph: Graph, op: Op) -> None:
        for key in ("start", "limit"):
            numbers = list(op.numbers[key])
            numbers[dim] += by
            op.numbers = {**op.numbers, key: numbers}

    return change
