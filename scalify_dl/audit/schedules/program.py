"""Schedules as lists that can be broken: chains of pieces, from tables and back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from scalify_dl.schedule.tables import Named, Schedule

HOW = ("reads", "writes", "adds", "takes")


@dataclass(eq=False)
class Piece:
    """One event: what it waits for, its channel or communicator, what it carries and touches."""

    name: str
    waits: list[Piece] = field(default_factory=list)
    sends: int | None = None
    receives: int | None = None
    joins: tuple[int, int] | None = None
    """Communicator and member."""
    carries: dict[str, str] = field(default_factory=dict)
    touches: list[tuple[str, int, int, int]] = field(default_factory=list)
    """How, buffer, bytes from and to."""
    ends_rank: bool = False

    def copy(self) -> Piece:
        """The same again, as another event."""
        return replace(self, waits=list(self.waits), carries=dict(self.carries), touches=list(self.touches))


@dataclass
class Chains:
    """A whole program."""

    chains: list[tuple[int, str, list[Piece]]]
    """Rank, kind, pieces in order."""
    channels: dict[int, tuple[int, int]]
    members: dict[int, list[int]]
    initial: list[tuple[int, int, int]] = field(default_factory=list)

    def pieces(self) -> list[Piece]:
        """All of them."""
        return [piece for _, _, pieces in self.chains for piece in pieces]


def taken_apart(schedule: Schedule) -> Chains:
    """The program of some tables; sequence numbers are dropped, they are the order in the chains."""
    pieces = [Piece(schedule.called(e).name) for e in range(len(schedule.named))]
    for e, _, d in schedule.tuples("wait"):
        pieces[e].waits.append(pieces[d])
    for e, channel, _ in schedule.tuples("send"):
        pieces[e].sends = channel
    for e, channel, _ in schedule.tuples("recv"):
        pieces[e].receives = channel
    for e, comm, _, m in schedule.tuples("collective"):
        pieces[e].joins = (comm, m)
    for e, aspect, what in schedule.tuples("carries"):
        pieces[e].carries[schedule.texts[aspect]] = schedule.meaning(what)
    for how in HOW:
        for e, b, lo, hi in schedule.tuples(how):
            pieces[e].touches.append((how, b, lo, hi))
    for _, e in schedule.tuples("last"):
        pieces[e].ends_rank = True
    chains: list[tuple[int, str, list[Piece]]] = [(rank, kind, []) for _, rank, kind in schedule.chains]
    for e, chain, _ in schedule.tuples("event"):
        chains[chain][2].append(pieces[e])
    members: defaultdict[int, list[int]] = defaultdict(list)
    for comm, _, rank in schedule.tuples("member"):
        members[comm].append(rank)
    channels = {channel: (source, target) for channel, source, target in schedule.tuples("channel")}
    return Chains(chains, channels, dict(members), [(b, lo, hi) for b, lo, hi in schedule.tuples("initial")])


def put_together(program: Chains) -> tuple[Schedule, list[Piece]]:
    """Tables, and the piece of each event. Counts follow the chains, so that the facts are well formed."""
    schedule, order = Schedule(), []
    number: dict[int, int] = {}
    counts: defaultdict[tuple[str, int, int], int] = defaultdict(int)
    for channel, ends in program.channels.items():
        schedule.add("channel", channel, *ends)
    for comm, ranks in program.members.items():
        for m, rank in enumerate(ranks):
            schedule.add("member", comm, m, rank)
    for row in program.initial:
        schedule.add("initial", *row)
    for rank, kind, pieces in program.chains:
        chain = schedule.chain(rank, kind)
        for piece in pieces:
            e = number[id(piece)] = schedule.event(chain, Named(piece.name, ""))
            order.append(piece)
            for table, key in (("send", piece.sends), ("recv", piece.receives)):
                if key is not None:
                    schedule.add(table, e, key, counts[table, key, 0])
                    counts[table, key, 0] += 1
            if piece.joins is not None:
                comm, m = piece.joins
                schedule.add("collective", e, comm, counts["", comm, m], m)
                counts["", comm, m] += 1
            for aspect, what in piece.carries.items():
                schedule.carries(e, aspect, what)
            for how, b, lo, hi in piece.touches:
                schedule.add(how, e, b, lo, hi)
            if piece.ends_rank:
                schedule.add("last", rank, e)
    for e, piece in enumerate(order):
        schedule.waits(e, *dict.fromkeys(number[id(d)] for d in piece.waits if id(d) in number))
    return schedule, order
