"""Per-rank graphs → programs: graphs that differ only in numbers become one program with rank-dependent values.

Rank r's graph folds into a program when both run the same ops on the same operands, op for op or with independent ones
in another order (`reordered`); numbers that differ
(slice bounds, scalar constants) are kept per rank in `Op.rank_numbers`. Ranks that really differ stay programs of
their own, whose collectives must meet (`meetings`).

Linear in the size of all graphs; what comes after sees one graph, whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.dtypes import is_integer
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.vocabulary import RANKED

from .group_names import GroupNames
from .meetings import check_meetings
from .rank_pads import WIDTHS, may_differ, write_out
from .reordered import reordered

__all__ = ["Alike", "Difference", "merge", "same_op"]

LIMIT = 2**31


class Difference(NamedTuple):
    """A number that the new rank has and the program has not."""

    op: Op
    key: str
    pos: int
    value: int


@dataclass(slots=True)
class _Program:
    """A program, the ranks that run it, and the groups that each rank names."""

    graph: Graph
    ranks: list[int]
    groups: dict[int, dict[int, list[list[int]]]] = field(default_factory=dict)  # op index → rank → groups


class Alike(NamedTuple):
    """The program of a rank that is an earlier rank's but for numbers; `file` is its dump."""

    graph: Graph
    differences: list[Difference]
    file: str | None


def merge(graphs: Iterable[Graph | Alike]) -> list[Graph]:
    """The programs of ranks 0, 1, … given each rank's graph, in rank order; `ranks` says who runs which.

    One graph alone is an SPMD program and comes back as it is. Graphs are consumed: those that fold into a program are
    dropped. Raises InputError where ranks disagree about a collective.
    """
    programs: list[_Program] = []
    names = GroupNames()
    for rank, graph in enumerate(graphs):
        if isinstance(graph, Alike):
            names.see(graph.graph, rank)
            program = next(each for each in programs if each.graph is graph.graph)
            _add(program, rank, graph.graph, graph.differences, graph.file)
            continue
        names.see(graph, rank)
        for program in programs:
            if _fold(program, graph, rank) or _fold_reordered(program, graph, rank):
                break
        else:
            programs.append(_Program(graph, [rank], _groups(graph, rank)))
            graph.files[rank] = graph.file
    if len(programs) == 1 and len(programs[0].ranks) == 1:
        programs[0].graph.files.clear()
        return [programs[0].graph]
    for program in programs:
        program.graph.ranks = program.ranks
        _join_groups(program)
        write_out(program.graph)
    if len(programs) > 1:
        check_meetings([program.graph for program in programs])
    return [program.graph for program in programs]


def _groups(graph: Graph, rank: int) -> dict[int, dict[int, list[list[int]]]]:
    return {i: {rank: op.groups} for i, op in enumerate(graph.ops) if op.groups is not None}


def _fold(program: _Program, graph: Graph, rank: int) -> bool:
    """Adds a rank to a program where its graph differs in numbers only; otherwise leaves both alone."""
    base = program.graph
    if (
        len(base.ops) != len(graph.ops)
        or not _same_ports(base.inputs, graph.inputs)
        or len(base.outputs) != len(graph.outputs)
    ):
        return False
    known: dict[Tensor, Tensor] = {b.tensor: a.tensor for a, b in zip(base.inputs, graph.inputs, strict=True)}
    differences: list[Difference] = []
    for ours, theirs in zip(base.ops, graph.ops, strict=True):
        if not same_op(ours, theirs, known, differences):
            return False
        for a, b in zip(ours.results, theirs.results, strict=True):
            known[b] = a
    for a_port, b_port in zip(base.outputs, graph.outputs, strict=True):
        if known.get(b_port.tensor) is not a_port.tensor or a_port.path != b_port.path:
            return False
    if {known[t]: types for t, types in graph.types.items() if t in known} != base.types:
        return False
    _add(program, rank, graph, differences, graph.file)
    return True


def _add(program: _Program, rank: int, graph: Graph, differences: list[Difference], file: str | None) -> None:
    """Adds a rank whose graph differs in these numbers."""
    base = program.graph
    for op, key, pos, value in differences:
        values = op.rank_numbers.get((key, pos))
        if values is None:
            common = op.numbers[key][pos] if key in op.numbers else _number(op)
            values = op.rank_numbers[key, pos] = dict.fromkeys(program.ranks, common)
        values[rank] = value
    changed = {(id(d.op), d.key, d.pos) for d in differences}
    for op in base.ops:
        for (key, pos), values in op.rank_numbers.items():
            if (id(op), key, pos) not in changed:
                values[rank] = op.numbers[key][pos] if key in op.numbers else _number(op)
    for i, ranks in _groups(graph, rank).items():
        program.groups.setdefault(i, {}).update(ranks)
    program.ranks.append(rank)
    base.files[rank], base.asynchronous = file, base.asynchronous or graph.asynchronous
    for op in graph.ops:
        if op.group_name and op.groups is not None:
            named = base.names.setdefault(op.group_name, [])
            named += [group for group in op.groups if group not in named]


def _fold_reordered(program: _Program, graph: Graph, rank: int) -> bool:
    """As `_fold`, where the rank does independent ops in another order."""
    ops, order = reordered(program.graph, graph), graph.ops
    if ops is None:
        return False
    graph.ops = ops
    if _fold(program, graph, rank):
        return True
    graph.ops = order
    return False


def _same_ports(ours: Sequence[Port], theirs: Sequence[Port]) -> bool:
    return len(ours) == len(theirs) and all(
        a.tensor.shape == b.tensor.shape and a.tensor.dtype == b.tensor.dtype and a.path == b.path
        for a, b in zip(ours, theirs, strict=True)
    )


def same_op(ours: Op, theirs: Op, known: dict[Tensor, Tensor], differences: list[Difference]) -> bool:
    """Whether two ops agree but for numbers, which are added to `differences`."""
    if (
        ours.kind != theirs.kind
        or len(ours.operands) != len(theirs.operands)
        or len(ours.results) != len(theirs.results)
        or ours.symbols != theirs.symbols
        or (ours.group_name != theirs.group_name and (ours.groups is None or theirs.groups is None))
        or (ours.groups is None) != (theirs.groups is None)
        or ours.pairs != theirs.pairs
        or ours.channel != theirs.channel
        or len(ours.regions) != len(theirs.regions)
        or not all(_same_region(a, b, known) for a, b in zip(ours.regions, theirs.regions, strict=True))
    ):
        return False
    for a, b in zip(ours.operands, theirs.operands, strict=True):
        if known.get(b) is not a:
            return False
    for a, b in zip(ours.results, theirs.results, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.literal != b.literal and not _same_literal(ours, a, theirs, b, differences):
            return False
    if ours.numbers != theirs.numbers:
        if ours.numbers.keys() != theirs.numbers.keys():
            return False
        for key, mine in ours.numbers.items():
            yours = theirs.numbers[key]
            if len(mine) != len(yours):
                return False
            moved = ours.kind == "pad" and key in WIDTHS and may_differ(ours, theirs)
            if mine != yours and not moved and key not in RANKED.get(ours.kind, ()):
                return False
            differences += [
                Difference(ours, key, pos, y) for pos, (x, y) in enumerate(zip(mine, yours, strict=True)) if x != y
            ]
    return True


def _same_region(ours: Graph, theirs: Graph, outside: dict[Tensor, Tensor]) -> bool:
    """Whether two bodies agree, numbers and groups included."""
    if not _same_ports(ours.inputs, theirs.inputs) or len(ours.outputs) != len(theirs.outputs):
        return False
    known = outside | {b.tensor: a.tensor for a, b in zip(ours.inputs, theirs.inputs, strict=True)}
    if len(ours.ops) != len(theirs.ops):
        return False
    for a, b in zip(ours.ops, theirs.ops, strict=True):
        differences: list[Difference] = []
        if not same_op(a, b, known, differences) or differences or a.groups != b.groups:
            return False
        known.update(zip(b.results, a.results, strict=True))
    return all(known.get(b.tensor) is a.tensor for a, b in zip(ours.outputs, theirs.outputs, strict=True))


def _same_literal(ours: Op, a: Tensor, theirs: Op, b: Tensor, differences: list[Difference]) -> bool:
    """Whether two scalar constants differ as numbers only."""
    mine, yours = _integer(a), _integer(b)
    if (mine is None and ("value", 0) not in ours.rank_numbers) or yours is None or a.shape or ours.kind != "constant":
        return False
    if mine != yours:
        differences.append(Difference(ours, "value", 0, yours))
    return True


def _integer(tensor: Tensor) -> int | None:
    """The value of a constant of an integer type that `rank_number` can hold."""
    literal = tensor.literal
    if (
        literal is None
        or literal.rational is None
        or not (tensor.dtype == "pred" or is_integer(tensor.dtype))
        or literal.rational.denominator != 1
        or abs(literal.rational) >= LIMIT
    ):
        return None
    return literal.rational.numerator


def _number(op: Op) -> int:
    """The value of the constant that an op is."""
    value = _integer(op.result)
    assert value is not None
    return value


def _join_groups(program: _Program) -> None:
    """The groups of every collective: what each rank says its own group is, which must be one partition."""
    for op in program.graph.ops:
        if ("value", 0) in op.rank_numbers:
            op.result.literal = None
    for i, by_rank in program.groups.items():
        op = program.graph.ops[i]
        groups: list[list[int]] = []
        owner: dict[int, list[int]] = {}
        for rank, named in by_rank.items():
            mine = next((group for group in named if rank in group), None)
            if mine is None:
                raise _error(
                    program.graph, op, f"rank {rank} issues a {op.kind} over {named}, of which it is no member"
                )
            for group in named:
                if group in groups:
                    continue
                clash = next((member for member in group if owner.get(member, group) != group), None)
                if clash is not None:
                    raise _error(
                        program.graph, op, f"ranks disagree about the group of rank {clash}: {owner[clash]} and {group}"
                    )
                groups.append(group)
                owner.update((member, group) for member in group)
        op.groups = groups


def _error(graph: Graph, op: Op, message: str) -> InputError:
    return InputError(f"`{op.name}`: {message}", file=graph.file, line=op.at[0], column=op.at[1])
