"""What the FX programs of all ranks share: groups, communicators, channels, and what is assumed."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

from scalify_dl.readers.fx.annotation import Annotations, beside, load_annotations
from scalify_dl.readers.fx.reader import Module
from scalify_dl.readers.fx.syntax import Call

from .tables import APART, Schedule

__all__ = ["AT_ONCE", "EQUAL", "MESSAGES", "SPACES", "Groups", "Ranks", "collectives", "group_of", "size_of"]

SPACES = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd")
"""Namespaces of operators that are issued and not waited for."""
MESSAGES = ("isend", "irecv", "batch_p2p_ops")
AT_ONCE = ("wait_tensor", "_wrap_tensor_autograd")
EQUAL = ("all_reduce", "all_reduce_", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "broadcast_")
"""Collectives whose results are as large on all members."""
_ARRAY = re.compile(r"(\w+)\[([\d, ]*)\]")

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
        self.called: defaultdict[tuple[int, ...], dict[int, set[str]]] = defaultdict(dict)
        """What each rank calls the groups of some members."""
        self.one_of_several: dict[str, None] = {}
        """Names of groups of the same members of which nobody says which are one."""
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

    def call(self, rank: int, path: Path, groups: Iterable[object]) -> None:
        """Takes note of the groups over which a rank calls, before any of them is asked for."""
        for group in groups:
            self.called[self.members(rank, path, group)].setdefault(rank, set()).add(str(group))

    def comm(self, members: tuple[int, ...], name: object) -> int:
        """The communicator of some ranks: groups of the same members have one each. What all of them call alike is one
        group, and so is the one that is left over, whatever each calls it."""
        said = self.called[members].values() if self.several else [{str(name)}]
        known = set[str]().union(*said).intersection(*said)
        if any(len(names - known) > 1 for names in said):
            self.one_of_several[f"{list(members)}"] = None
        key = (members, str(name) if str(name) in known else "")
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
        if self.one_of_several:
            add(f"ranks call over groups of the same members in one order: {_some(self.one_of_several)}")
        if self.unclear:
            add(f"where it is not clear whether memory is shared, it is: {_some(self.unclear)}")
        if self.unknown:
            add(f"operators of which no schema is known write nothing: {_some(self.unknown)}")


def group_of(call: Call) -> object:
    """The group of a collective: its name, or its ranks."""
    group = call.kwargs.get("group_name")
    if group is None:
        lists = [a for a in call.args[1:] if isinstance(a, list | tuple) and a and isinstance(a[0], int)]
        names = [a for a in call.args[1:] if isinstance(a, str) and a]
        group = lists[-1] if lists and not names else names[-1] if names else ""
    return group


def collectives(module: Module) -> Iterator[Call]:
    """Calls that members of a group make together."""
    for value in (statement.value for statement in module.statements):
        if isinstance(value, Call):
            space, packet, *_ = (*value.function.removeprefix("torch.ops.").split("."), "")
            if space in SPACES and packet not in (*AT_ONCE, *MESSAGES):
                yield value


def size_of(type_: str | None) -> str | None:
    """How many numbers of which type a tensor holds."""
    array = _ARRAY.fullmatch(type_ or "")
    return array and f"{prod(int(n) for n in array[2].split(',') if n.strip()):,} numbers of {array[1]}"


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    return ", ".join(found[:8]) + (" …" if len(found) > 8 else "")
