"""Where a program of a pair was read from: what a check of its order needs, once its graph is facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .graph import Graph, Op


@dataclass(frozen=True)
class Origin:
    """A program: its file, the ranks that run it (None: all), and the process groups that it names. `files` are those
    of its ranks, where each has one: they compute alike, and may wait in other places."""

    file: str | None
    ranks: tuple[int, ...] | None
    asynchronous: bool
    groups: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    files: Mapping[int, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Origin:
        """The origin of a graph."""
        groups: dict[str, Sequence[Sequence[int]]] = dict(graph.names)
        pending = list(graph.ops)
        while pending:
            op: Op = pending.pop()
            if op.group_name and op.groups is not None:
                groups[op.group_name] = [list(group) for group in op.groups]
            pending += [inner for region in op.regions for inner in region.ops]
        ranks = None if graph.ranks is None else tuple(graph.ranks)
        return cls(graph.file, ranks, graph.asynchronous, groups, dict(graph.files))


def has_order(origins: Sequence[Origin]) -> bool:
    """Whether programs may race or hang: one that is synchronous cannot, as all ranks do the same steps, one after the
    other."""
    return len(origins) > 1 or any(origin.asynchronous for origin in origins)


IN_TIME = (
    "no race and no deadlock: what is asynchronous is awaited before it is used, and ranks that run several programs "
    "meet in one order"
)
"""What a proof assumes of the order of things; why: `schedule`."""
SCHEDULE = "schedule"
ONE_FILE = "every rank runs the one file that is given, which does not say whose it is"
"""What a proof assumes of a dump that may be one rank's; why: `spmd`."""
SPMD = "spmd"
