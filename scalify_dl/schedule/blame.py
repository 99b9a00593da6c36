"""Which side of a disagreement is the odd one: what a channel loses, and who orders things as nobody else does.

Only words of findings rest on it, no verdict.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

from .tables import Schedule


@dataclass(frozen=True)
class Channel:
    """What one rank sends another, in order: events and what they carry (an empty text: unknown)."""

    sent: tuple[int, ...]
    wanted: tuple[int, ...]
    of: dict[int, tuple[tuple[int, int], ...]]

    def lost(self, side: str) -> list[int]:
        """Receives of what is never sent (`wanted`), or sends of what is never received (`sent`)."""
        mine, theirs = (self.wanted, self.sent) if side == "wanted" else (self.sent, self.wanted)
        left = Counter(self.of.get(e, ()) for e in theirs)
        found = []
        for e in mine:
            what = self.of.get(e, ())
            if left[what]:
                left[what] -= 1
            elif what:
                found.append(e)
        return found

    def partner(self, e: int, side: str) -> int | None:
        """The event on a side that carries what this one does."""
        return next((x for x in getattr(self, side) if self.of.get(x) == self.of.get(e)), None)


class Customs:
    """How a schedule does things elsewhere: by kind of action and micro-batch, on each rank."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    @cached_property
    def channels(self) -> dict[int, Channel]:
        """By number."""
        sides: dict[str, defaultdict[int, list[tuple[int, int]]]] = {}
        for table in ("send", "recv"):
            sides[table] = defaultdict(list)
            for e, c, n in self.schedule.tuples(table):
                sides[table][c].append((n, e))
        said: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for e, aspect, what in self.schedule.tuples("carries"):
            said[e].append((aspect, what))
        of = {e: tuple(sorted(some)) for e, some in said.items()}
        return {
            c: Channel(tuple(e for _, e in sorted(sides["send"][c])), tuple(e for _, e in sorted(sides["recv"][c])), of)
            for c in sides["send"].keys() | sides["recv"].keys()
        }

    @cached_property
    def channel_of(self) -> dict[int, int]:
        """By event."""
        return {e: c for table in ("send", "recv") for e, c, _ in self.schedule.tuples(table)}

    @cached_property
    def places(self) -> dict[int, dict[tuple[str, int], int]]:
        """By rank, where an action of a kind and micro-batch is in its program."""
        found: defaultdict[int, dict[tuple[str, int], int]] = defaultdict(dict)
        for e in range(len(self.schedule.named)):
            named = self.schedule.called(e)
            if named.micro_batch is not None:
                found[self.schedule.rank(e)].setdefault((named.op, named.micro_batch), e)
        return found

    def oddness(self, first: int, then: int) -> float:
        """How much of the schedule has two such actions the other way round: of other micro-batches on their rank, and
        on other ranks. 0.5 where nothing tells."""
        one, two = self.schedule.called(first), self.schedule.called(then)
        if one.micro_batch is None or two.micro_batch is None:
            return 0.5
        votes: list[bool] = []
        mine = self.schedule.rank(first)
        for rank, places in self.places.items():
            for shift in range(-4, 5):
                a = places.get((one.op, one.micro_batch + shift))
                b = places.get((two.op, two.micro_batch + shift))
                if a is not None and b is not None and a != b and (rank != mine or shift):
                    votes.append(b < a)
        return sum(votes) / len(votes) if votes else 0.5

    def may_move(self, e: int, before: int) -> bool:
        """Whether nothing that an event waits for itself comes behind the place where it would go."""
        mine = self.schedule.rank(e)
        waits = (d for x, _, d in self.schedule.tuples("wait") if x == e)
        return not any(d > before and self.schedule.rank(d) == mine for d in waits)

    def disorder(self, events: tuple[int, ...]) -> int:
        """How often a later micro-batch comes before an earlier one of the same kind of action."""
        last: dict[str, int] = {}
        count = 0
        for e in events:
            named = self.schedule.called(e)
            if named.micro_batch is not None:
                count += named.micro_batch < last.get(named.op, -1)
                last[named.op] = named.micro_batch
        return count
