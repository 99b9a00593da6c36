"""Where ranks run several programs: whether their collectives meet.

Every collective must be issued by all its members, alike, in the same order and over the same channel: ranks meet at
the channel where a dump names one, what comes after goes by the order; they must agree. Members of a permute are its
sources and targets. A loop or branch around collectives counts as one of them, which its members must have alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op

__all__ = ["check_meetings"]

Key = tuple[bool, tuple[object, ...]]
"""Who meets: (False, the members of a group, in order) or (True, the pairs of a permute)."""


class _Issued(NamedTuple):
    """A collective, or a loop or branch with what is issued in each of its regions."""

    op: Op
    inside: tuple[list[_Issued], ...] = ()


def check_meetings(programs: Sequence[Graph]) -> None:
    """Every group's collectives are issued alike and in the same order by the programs of all its members.

    Raises InputError with both call sites where they are not: such a job hangs, or reduces values of different meaning.
    """
    everyone = {rank for graph in programs for rank in graph.ranks or ()}
    parties: dict[Key, list[tuple[Graph, list[_Issued]]]] = {}
    for graph in programs:
        for key, sequence in _issued(graph, set(graph.ranks or ()), everyone).items():
            parties.setdefault(key, []).append((graph, sequence))
    for key, found in parties.items():
        present = {rank for graph, _ in found for rank in graph.ranks or ()}
        missing = _members(key) - present
        if missing:
            graph, sequence = found[0]
            op = _first(sequence)
            raise InputError(
                f"`{op.name}`: rank {min(missing)} never issues the {op.kind} over {_shown(key)}",
                file=graph.file, line=op.at[0], column=op.at[1],
            )  # fmt: skip
        first_graph, sequence = found[0]
        for graph, other in found[1:]:
            _compare(key, first_graph, sequence, graph, other)


def _issued(graph: Graph, ranks: set[int], everyone: set[int]) -> dict[Key, list[_Issued]]:
    """What the ranks of a program issue, in order, by who meets."""
    found: dict[Key, list[_Issued]] = {}
    for op in graph.ops:
        for key in _keys(op, everyone):
            if ranks & _members(key):
                found.setdefault(key, []).append(_Issued(op))
        inside = [_issued(region, ranks, everyone) for region in op.regions]
        for key in dict.fromkeys(key for each in inside for key in each):
            found.setdefault(key, []).append(_Issued(op, tuple(each.get(key, []) for each in inside)))
    return found


def _keys(op: Op, everyone: set[int]) -> Iterator[Key]:
    if op.pairs is not None:
        yield True, tuple(sorted(op.pairs))
    elif op.groups is not None:
        yield from ((False, tuple(group)) for group in op.groups)
    elif op.replica_groups_all:
        yield False, tuple(sorted(everyone))


def _members(key: Key) -> set[int]:
    is_permute, members = key
    return {rank for pair in members for rank in pair} if is_permute else set(members)  # type: ignore[attr-defined,arg-type]


def _shown(key: Key) -> str:
    is_permute, members = key
    return f"the pairs {list(members)}" if is_permute else str(list(members))


def _compare(key: Key, graph: Graph, sequence: list[_Issued], other_graph: Graph, other: list[_Issued]) -> None:
    for n, (a, b) in enumerate(zip_longest(sequence, other)):
        if a is None or b is None or _signature(a.op) != _signature(b.op):
            raise InputError(
                f"collective {n} over {'ranks ' * (not key[0])}{_shown(key)} is {_site(graph, a)} on rank"
                f" {_least(graph)}, but {_site(other_graph, b)} on rank {_least(other_graph)}",
                file=graph.file if a else other_graph.file,
                line=(a or b or sequence[-1]).op.at[0],
                hint="members of a group must issue the same collectives in the same order",
            )
        for ours, theirs in zip(a.inside, b.inside, strict=True):
            _compare(key, graph, ours, other_graph, theirs)


def _signature(op: Op) -> tuple[object, ...]:
    """What members of a group must agree on; of a loop how often it runs, where that is known."""
    if op.regions:
        return op.kind, op.numbers.get("trip_count"), len(op.regions)
    x = op.operands[0]
    return op.kind, x.dtype, x.shape, op.symbols.get("reducer"), op.numbers, op.channel


def _first(sequence: list[_Issued]) -> Op:
    """The first collective, perhaps in a loop."""
    issued = sequence[0]
    return next((_first(inside) for inside in issued.inside if inside), issued.op)


def _least(graph: Graph) -> int:
    return min(graph.ranks or (0,))


def _site(graph: Graph, issued: _Issued | None) -> str:
    if issued is None:
        return "missing"
    op = issued.op
    where = f"{op.source[0].file}:{op.source[0].line}" if op.source else f"{graph.file}:{op.at[0]}"
    channel = f", channel {op.channel}" if op.channel else ""
    times = "".join(f", {n} times" for n in op.numbers.get("trip_count", ()))
    of = f" of {op.operands[0].type}" if not op.regions else ""
    return f"`{op.name}` ({op.kind}{of}{channel}{times}, {where})"
