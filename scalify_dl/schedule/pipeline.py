"""Orders of a pipeline schedule as chains, messages and buffers.

A rank computes on one chain. How its messages are queued is the stream model:

- `pair`: one queue for each peer, both directions (NCCL through `isend`, `irecv`: a communicator for each pair);
- `direction`: one for each peer and direction;
- `rank`: one for all (batched posts: the group's communicator);
- `host`: none, messages are blocking calls of the thread that computes.

A message is posted when what the rank computed before it has ended, and what it computes next waits for what it reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from .actions import Action
from .pipeline_csv import Orders, peer_stage
from .tables import ACTIVATIONS, Named, Schedule

STREAMS = ("pair", "direction", "rank", "host")
DURATIONS = {"F": 10, "B": 20, "I": 10, "W": 10}
"""Relative times of actions, unless given: a backward takes twice its forward."""
HELD = {"F": 1, "B": -1, "W": -1}
"""Activations of a micro-batch, held from its forward until the last of its backwards."""


def lower(orders: Orders, streams: str = "pair", durations: Mapping[str, int] | None = None) -> Schedule:
    """The schedule that orders describe."""
    made = _Lowering(orders, streams, {**DURATIONS, **(durations or {})})
    for rank in range(len(orders.ranks)):
        made.rank(rank)
    made.implied()
    return made.schedule


class _Lowering:
    """Ranks are lowered one by one; channels and their counts go on."""

    def __init__(self, orders: Orders, streams: str, durations: dict[str, int]) -> None:
        self.orders, self.streams, self.durations = orders, streams, durations
        self.messages = orders.has_messages
        self.schedule = Schedule()
        self.payload = self.schedule.text("payload")
        self.channels: dict[tuple[int, int], int] = {}
        self.counts: defaultdict[tuple[int, bool], int] = defaultdict(int)
        self.buffers: dict[tuple[object, ...], int] = {}
        self.made: dict[tuple[str, int, int], int] = {}
        """Computations by way, stage and micro-batch, where messages are implied."""
        self.needs: list[tuple[int, tuple[str, int, int]]] = []

    def rank(self, rank: int) -> None:
        """All actions of a rank, in its order."""
        orders, schedule = self.orders, self.schedule
        compute = schedule.chain(rank, "compute")
        queues: dict[object, int] = {}
        arrived: dict[tuple[int, str, int], int] = {}
        sent: list[int] = []
        last: int | None = None
        host = self.streams == "host"
        for action, cell in orders.ranks[rank]:
            named = Named(
                action.name, action.kind, action.micro_batch if action.micro_batch >= 0 else None, orders.file,
                orders.lines[rank], cell,
            )  # fmt: skip
            peer = peer_stage(action)
            if peer is None:
                e = schedule.event(compute, named)
                if not host:
                    way = "F" if action.kind == "F" else "B"
                    awaited = arrived.get((action.stage, way, action.micro_batch))
                    if awaited is not None and action.kind in ("F", "B", "I"):
                        schedule.waits(e, awaited)
                self.computes(e, rank, action)
                last = e
                continue
            there = orders.rank_of[peer]
            sends = action.kind[0] == "S"
            if host:
                queue = compute
            else:
                key = {"pair": there, "direction": (there, sends), "rank": None}[self.streams]
                if key not in queues:
                    queues[key] = schedule.chain(rank, "messages" if key is None else f"messages with {there}")
                queue = queues[key]
            e = schedule.event(queue, named)
            if not host and last is not None:
                schedule.waits(e, last)
            self.posts(e, rank, there, action, peer)
            if sends:
                sent.append(e)
            else:
                arrived[action.stage, action.kind[-1], action.micro_batch] = e
            if host:
                last = e
        end = schedule.event(compute, Named("end", "end", None, orders.file, orders.lines[rank]))
        schedule.add("last", rank, end)
        if not host:
            schedule.waits(end, *sent)

    def posts(self, e: int, rank: int, there: int, action: Action, peer: int) -> None:
        """A send or a receive."""
        schedule, sends = self.schedule, action.kind[0] == "S"
        ends = (rank, there) if sends else (there, rank)
        channel = self.channels.get(ends)
        if channel is None:
            channel = self.channels[ends] = len(self.channels)
            schedule.add("channel", channel, *ends)
        n = self.counts[channel, sends]
        self.counts[channel, sends] = n + 1
        schedule.add("send" if sends else "recv", e, channel, n)
        way = action.kind[-1]
        what = "output" if way == "F" else "input gradient"
        text = f"{what} of stage {action.stage if sends else peer}, micro-batch {action.micro_batch}"
        schedule.add("carries", e, self.payload, schedule.text(text))
        key = ("out" if sends else "in", way, action.stage, action.micro_batch)
        schedule.add("writes" if not sends else "reads", e, self.buffer(*key), 0, 1)

    def buffer(self, *key: object) -> int:
        """The buffer that a key stands for. A stage is on one rank, so that the stage says the rank."""
        found = self.buffers.get(key)
        if found is None:
            found = self.buffers[key] = self.schedule.buffer()
        return found

    def computes(self, e: int, rank: int, action: Action) -> None:
        """What a computation reads, writes, takes and holds."""
        add, (s, kind, mb) = self.schedule.add, action
        if t := self.durations.get(kind, 0):
            add("duration", e, t)
        if change := HELD.get(kind):
            add("holds_memory", e, ACTIVATIONS, change)
        if kind == "F":
            self.takes_from(e, rank, "F", s, s - 1, mb)
            add("writes", e, self.buffer("out", "F", s, mb), 0, 1)
            add("writes", e, self.buffer("kept", s, mb), 0, 1)
        elif kind in ("B", "I"):
            self.takes_from(e, rank, "B", s, s + 1, mb)
            add("reads", e, self.buffer("kept", s, mb), 0, 1)
            if s:
                add("writes", e, self.buffer("out", "B", s, mb), 0, 1)
            if kind == "I":
                add("writes", e, self.buffer("for W", s, mb), 0, 1)
        elif kind == "W":
            add("reads", e, self.buffer("for W", s, mb), 0, 1)
        if kind in ("B", "W"):
            add("adds", e, self.buffer("gradient", s), 0, 1)
        if kind == "REDUCE_GRAD":
            add("takes", e, self.buffer("gradient", s), 0, 1)
        if not self.messages and kind in ("F", "B", "I"):
            self.made["F" if kind == "F" else "B", s, mb] = e

    def takes_from(self, e: int, rank: int, way: str, stage: int, other: int, mb: int) -> None:
        """A computation reads what the neighbouring stage made: here, or received."""
        home = self.orders.rank_of.get(other)
        if home is None:
            return
        if home == rank:
            self.schedule.add("reads", e, self.buffer("out", way, other, mb), 0, 1)
        elif self.messages:
            self.schedule.add("reads", e, self.buffer("in", way, stage, mb), 0, 1)
        else:
            self.needs.append((e, (way, other, mb)))

    def implied(self) -> None:
        """Messages that the runtime adds: what a computation reads of another rank, it waits for."""
        for e, (way, stage, mb) in self.needs:
            if (maker := self.made.get((way, stage, mb))) is not None:
                self.schedule.waits(e, maker)
            self.schedule.add("reads", e, self.buffer("out", way, stage, mb), 0, 1)
        if self.needs:
            self.schedule.assumptions.append(
                "the file has no sends and receives: they are taken to be posted in time and to wait for no other"
            )
