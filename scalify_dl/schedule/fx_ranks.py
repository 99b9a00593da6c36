"""What the FX programs of all ranks share: groups, communicators, channels, and what is assumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scalify_dl.readers.fx.annotation import Annotations, beside, load_annotations

from .tables import APART, Schedule

__all__ = ["Groups", "Ranks"]

Groups = Mapping[str, Sequence[Sequence[int]]]
"""All groups that a name stands for."""


class Ranks:
    """What the programs of all ranks share: communicators, and what is assumed."""

    def __init__(self, one_queue: bool, several: bool, groups: Groups) -> None:
        self.schedule = Schedule()
        self.one_queue, self.several, self.groups = one_queue, several, groups
        self.beside: dict[Path, Annotations] = {}
        self.comms: dict[tuple[tuple[int, ...], str], int] = {}
        self.channels: dict[tuple[object, ...], int] = {}
        self.counts: defaultdict[tuple[object, ...], int] = defaultdict(int)
        self.unknown: dict[str, None] = {}
        """Operators without a schema that ran while something was in flight."""
        self.unmet: dict[str, None] = {}
        """Groups of which nobody says who is in them."""
        self.unclear: dict[str, None] = {}
        """Waits for collectives that are perhaps in other memory."""
        self.inputs_apart = False
        """Whether it matters that inputs share no memory."""

    def members(self, rank: int, path: Path, group: object) -> tuple[int, ...]:
        """Ranks of a group; only the rank itself where programs are alike, or nobody knows."""
        if not self.several:
            return (rank,)
        if isinstance(group, list | tuple) and all(isinstance(r, int) for r in group):
            return tuple(group)
        said = self.annotations(path).groups.get(str(group), ())
        known = {tuple(said)} if rank in said else {tuple(g) for g in self.groups.get(str(group), ()) if rank in g}
        if len(known) != 1:
            self.unmet[str(group)] = None
        return next(iter(known)) if len(known) == 1 else (rank,)

    def annotations(self, path: Path) -> Annotations:
        """What is said beside a file."""
        if path not in self.beside:
            self.beside[path] = load_annotations(beside(path))
        return self.beside[path]

    def comm(self, members: tuple[int, ...], name: object) -> int:
        """The communicator of some ranks."""
        key = (members, "" if len(members) > 1 else str(name))
        if key not in self.comms:
            self.comms[key] = len(self.comms)
            for m, rank in enumerate(members):
                self.schedule.add("member", self.comms[key], m, rank)
        return self.comms[key]

    def channel(self, key: tuple[object, ...]) -> int:
        """The channel of a group and tag between two ranks, which come last."""
        if key not in self.channels:
            self.channels[key] = len(self.channels)
            source, target = key[-2:]
            assert isinstance(source, int)
            assert isinstance(target, int)
            self.schedule.add("channel", self.channels[key], source, target)
        return self.channels[key]

    def next(self, key: tuple[object, ...]) -> int:
        """Counts from 0."""
        self.counts[key] += 1
        return self.counts[key] - 1

    def assume(self) -> None:
        """Listed in the report."""
        add = self.schedule.assumptions.append
        if self.unmet:
            add(f"all members of a group call its collectives alike: {_some(self.unmet)}")
        if self.several and sum(len(members) > 1 for members, _ in self.comms) > 1 and not self.one_queue:
            add(APART)
        if self.inputs_apart:
            add("inputs share no memory")
        if self.unclear:
            add(f"where it is not clear whether memory is shared, it is: {_some(self.unclear)}")
        if self.unknown:
            add(f"operators of which no schema is known write nothing: {_some(self.unknown)}")


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:8]) + (" …" if len(found) > 8 else "")
