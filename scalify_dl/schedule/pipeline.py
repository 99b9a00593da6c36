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

from .actions import MESSAGES, Action
from .pipeline_csv import Orders, Step
from .tables import ACTIVATIONS, Named, Schedule

STREAMS = ("pair", "direction", "rank", "host")
DURATIONS = {"F": 10, "B": 20, "I": 10, "W": 10}
"""Relative times of actions, unless given: a backward takes twice its forward."""
OUT_F, OUT_B, IN_F, IN_B, KEPT, FOR_W, GRADIENT = range(7)
"""Buffers of a stage and micro-batch: sent and received either way, kept by a forward, left by I for W."""
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
    """Ranks are lowered one by one; channels and their counts go on.

    Buffers of a stage and micro-batch are numbered by arithmetic: a stage is on one rank, so that these say the rank.
    What a message carries is the number of the buffer that its sender sends.
    """

    def __init__(self, orders: Orders, streams: str, durations: dict[str, int]) -> None:
        self.orders, self.streams, self.durations = orders, streams, durations
        self.batches = orders.batches
        self.schedule = Schedule()
        self.schedule.namer, self.schedule.meaning = self.name, self.payload
        self.aspect = self.schedule.text("payload")
        self.channels: dict[tuple[int, int], int] = {}
        self.counts: defaultdict[tuple[int, bool], int] = defaultdict(int)
        self.made: dict[int, int] = {}
        """Computations by the buffer that they fill, where messages are implied."""
        self.needs: list[tuple[int, int]] = []

    def name(self, item: tuple[int, Step]) -> Named:
        """An event's name, from its rank and step."""
        rank, (stage, kind, batch, cell) = item
        file, line = self.orders.file, self.orders.lines[rank]
        if kind == "end":
            return Named("end", "end", None, file, line)
        action = Action(stage, kind, batch)
        return Named(action.name, kind, batch if batch >= 0 else None, file, line, cell)

    def payload(self, number: int) -> str:
        """What a buffer holds, in words."""
        (stage, batch), what = divmod(number // 8, self.batches), number % 8
        return f"{'output' if what == OUT_F else 'input gradient'} of stage {stage}, micro-batch {batch}"

    def rank(self, rank: int) -> None:
        """All actions of a rank, in its order."""
        schedule, batches, home = self.schedule, self.batches, self.orders.rank_of
        rows, event = schedule.rows, schedule.event
        waits, reads, writes, adds = rows["wait"], rows["reads"], rows["writes"], rows["adds"]
        carries, durations, held = rows["carries"], rows["duration"], rows["holds_memory"]
        compute = schedule.chain(rank, "compute")
        queues: dict[object, int] = {}
        arrived: dict[int, int] = {}
        sent: list[int] = []
        last = -1
        host = self.streams == "host"
        for step in self.orders.ranks[rank]:
            stage, kind, batch, _ = step
            base = (stage * batches + batch) * 8
            if kind in MESSAGES:
                forward, sends = kind[-1] == "F", kind[0] == "S"
                other = stage + 1 if forward == sends else stage - 1
                there = home[other]
                e = event(compute if host else self.queue(queues, rank, there, sends), (rank, step))
                if not host and last >= 0:
                    waits.extend((e, 0, last))
                channel = self.channel(rank, there) if sends else self.channel(there, rank)
                n = self.counts[channel, sends]
                self.counts[channel, sends] = n + 1
                out = OUT_F if forward else OUT_B
                if sends:
                    rows["send"].extend((e, channel, n))
                    carries.extend((e, self.aspect, base + out))
                    reads.extend((e, base + out, 0, 1))
                    sent.append(e)
                else:
                    rows["recv"].extend((e, channel, n))
                    carries.extend((e, self.aspect, (other * batches + batch) * 8 + out))
                    into = base + (IN_F if forward else IN_B)
                    writes.extend((e, into, 0, 1))
                    arrived[into] = e
                continue
            last = e = event(compute, (rank, step))
            if t := self.durations.get(kind, 0):
                durations.extend((e, t))
            if change := HELD.get(kind):
                held.extend((e, ACTIVATIONS, change))
            if kind == "F":
                self.takes_from(e, rank, IN_F, stage, stage - 1, batch, arrived)
                writes.extend((e, base + OUT_F, 0, 1, e, base + KEPT, 0, 1))
            elif kind in ("B", "I"):
                self.takes_from(e, rank, IN_B, stage, stage + 1, batch, arrived)
                reads.extend((e, base + KEPT, 0, 1))
                if stage:
                    writes.extend((e, base + OUT_B, 0, 1))
                if kind == "I":
                    writes.extend((e, base + FOR_W, 0, 1))
            elif kind == "W":
                reads.extend((e, base + FOR_W, 0, 1))
            elif kind == "REDUCE_GRAD":
                schedule.add("takes", e, stage * batches * 8 + GRADIENT, 0, 1)
            if kind in ("B", "W"):
                adds.extend((e, stage * batches * 8 + GRADIENT, 0, 1))
            if not self.orders.has_messages and kind in ("F", "B", "I"):
                self.made[base + (OUT_F if kind == "F" else OUT_B)] = e
        end = event(compute, (rank, (-1, "end", -1, 0)))
        schedule.add("last", rank, end)
        if not host:
            schedule.waits(end, *sent)

    def queue(self, queues: dict[object, int], rank: int, there: int, sends: bool) -> int:
        """The chain of a message."""
        key = there if self.streams == "pair" else (there, sends) if self.streams == "direction" else None
        if key not in queues:
            queues[key] = self.schedule.chain(rank, "messages" if key is None else f"messages with {there}")
        return queues[key]

    def channel(self, source: int, target: int) -> int:
        """The channel from one rank to another."""
        number = self.channels.get((source, target))
        if number is None:
            number = self.channels[source, target] = len(self.channels)
            self.schedule.add("channel", number, source, target)
        return number

    def takes_from(
        self, e: int, rank: int, into: int, stage: int, other: int, batch: int, arrived: dict[int, int]
    ) -> None:
        """A computation reads what the neighbouring stage made: here, or received."""
        home = self.orders.rank_of.get(other)
        if home is None:
            return
        made = (other * self.batches + batch) * 8 + (OUT_F if into == IN_F else OUT_B)
        if home == rank:
            self.schedule.rows["reads"].extend((e, made, 0, 1))
        elif self.orders.has_messages:
            into += (stage * self.batches + batch) * 8
            self.schedule.rows["reads"].extend((e, into, 0, 1))
            if self.streams != "host" and (awaited := arrived.get(into)) is not None:
                self.schedule.rows["wait"].extend((e, 0, awaited))
        else:
            self.needs.append((e, made))

    def implied(self) -> None:
        """Messages that the runtime adds: what a computation reads of another rank, it waits for."""
        for e, buffer in self.needs:
            if (maker := self.made.get(buffer)) is not None:
                self.schedule.waits(e, maker)
            self.schedule.add("reads", e, buffer, 0, 1)
        if self.needs:
            self.schedule.assumptions.append(
                "the file has no sends and receives: they are taken to be posted in time and to wait for no other"
            )
