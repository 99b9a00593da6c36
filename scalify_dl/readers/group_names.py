"""Process groups that have the same members and different names: which of them a collective is over.

A group of the same members under another name is another communicator: calls over one never meet calls over the other.
Programs of ranks are compared by the members of groups, in the order of the calls, so that has to be the order by name,
too. Where all but one of the names are the same, the other one is the same group, whatever each rank calls it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op

__all__ = ["GroupNames"]

Members = tuple[int, ...]


class _Call(NamedTuple):
    """A call over a group: its name and place, and the group's name."""

    name: str
    at: tuple[int, int]
    group: str | None


@dataclass(slots=True)
class GroupNames:
    """What the ranks that were seen so far call their groups, call by call."""

    called: dict[Members, tuple[str, list[_Call]]] = field(default_factory=dict)

    def see(self, graph: Graph, rank: int) -> None:
        """Takes in a rank's program. Raises InputError where it names groups in another order than its partners."""
        calls: dict[Members, list[_Call]] = {}
        for op in _collectives(graph):
            for group in op.groups or ():
                if rank in group:
                    calls.setdefault(tuple(group), []).append(_Call(op.name, op.at, op.group_name))
        for members, ours in calls.items():
            file, theirs = self.called.setdefault(members, (str(graph.file), ours))
            known, said = ({call.group for call in calls} for calls in (theirs, ours))
            both = known & said
            sure = len(known - both) <= 1 and len(said - both) <= 1  # what only one of them says is one group
            for mine, other in zip(ours, theirs, strict=False):
                if mine.group != other.group and not (sure and mine.group not in both and other.group not in both):
                    raise InputError(
                        f"`{mine.name}` is over the group `{mine.group}` on rank {rank}, but the call that other ranks"
                        f" make there, `{other.name}` ({file}:{other.at[0]}), is over `{other.group}`; both names are"
                        f" of the ranks {list(members)}",
                        file=graph.file, line=mine.at[0], column=mine.at[1],
                        expected="calls over groups of the same members in one order, by name, on all of them",
                        hint="groups of the same members are different communicators: use one, or the same names",
                    )  # fmt: skip


def _collectives(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        if op.groups is not None:
            yield op
        for region in op.regions:
            yield from _collectives(region)
