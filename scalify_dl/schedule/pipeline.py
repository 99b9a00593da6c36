"""Orders of a pipeline schedule as chains, messages and buffers.

A rank computes on one chain. How its messages are queued is the stream model:

- `pair`: one queue for each peer, both directions (NCCL through `isend`, `irecv`: a communicator for each pair);
- `direction`: one for each peer and direction;
- `rank`: one for all (batched posts: the group's communicator);
- `host`: none, messages are blocking calls of the thread that computes.

A message is posted when what the rank computed before it has ended, and what it computes next waits for what it reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from .actions import KINDS, MESSAGES
from .pipeline_csv import Column, Orders
from .tables import ACTIVATIONS, Named, Schedule, ordinals

STREAMS = ("pair", "direction", "rank", "host")
DURATIONS = {"F": 10, "B": 20, "I": 10, "W": 10}
"""Relative times of actions, unless given: a backward takes twice its forward."""
OUT_F, OUT_B, IN_F, IN_B, KEPT, FOR_W, GRADIENT = range(7)
"""Buffers of a stage and micro-batch: sent and received either way, kept by a forward, left by I for W."""
Mask = npt.NDArray[np.bool_]
HELD = {"F": 1, "B": -1, "W": -1}
"""Activations of a micro-batch, held from its forward until the last of its backwards."""


def lower(
    orders: Orders, streams: str = "pair", durations: Mapping[str, int] | None = None, *, ends_wait: bool = True
) -> Schedule:
    """The schedule that orders describe; that the end of a rank waits for its sends matters to what nobody awaits, and
    not to what hangs."""
    return _Lowering(orders, streams, {**DURATIONS, **(durations or {})}, ends_wait).schedule


class _Lowering:
    """All ranks at once, by columns: event e is step `e - rank`, as each rank has an end behind its steps.

    Buffers of a stage and micro-batch are numbered by arithmetic: a stage is on one rank, so that these say the rank.
    What a message carries is the number of the buffer that its sender sends.
    """

    def __init__(self, orders: Orders, streams: str, durations: dict[str, int], ends_wait: bool) -> None:
        self.orders, self.host, self.ends_wait = orders, streams == "host", ends_wait
        self.batches = orders.batches
        self.schedule = schedule = Schedule()
        schedule.namer, schedule.meaning, schedule.maker = self.name, self.payload, self.maker
        self.aspect = schedule.text("payload")
        ranks = len(orders.lines)
        steps = np.bincount(orders.rank, minlength=ranks)
        self.ends = np.cumsum(steps) + np.arange(ranks)  # the end of each rank
        self.e = np.arange(len(orders.rank)) + orders.rank
        self.base = (orders.stage * self.batches + np.maximum(orders.batch, 0)) * 8
        self.stages = np.full(max(orders.rank_of) + 3, -1)  # ranks of stages, with none at either end
        self.stages[np.array(list(orders.rank_of)) + 1] = list(orders.rank_of.values())
        self.is_message = self.of(*MESSAGES)
        forward, self.sends = self.of("SEND_F", "RECV_F"), self.of("SEND_F", "SEND_B")
        self.other = orders.stage + np.where(forward == self.sends, 1, -1)
        self.there = self.stages[self.other + 1]
        self.chains(streams)
        self.costs(durations)
        self.messages(forward)
        self.computations()

    def of(self, *kinds: str) -> Mask:
        """Whether steps are of some kind."""
        return np.isin(self.orders.kind, [KINDS.index(kind) for kind in kinds])

    def name(self, e: int) -> Named:
        """An event's name, from its step."""
        rank = int(np.searchsorted(self.ends, e))
        file, line = self.orders.file, self.orders.lines[rank]
        if e == self.ends[rank]:
            return Named("end", "end", None, file, line)
        action = self.orders.action(e - rank)
        batch = action.micro_batch
        return Named(
            action.name, action.kind, batch if batch >= 0 else None, file, line, int(self.orders.cell[e - rank])
        )

    def payload(self, number: int) -> str:
        """What a buffer holds, in words."""
        (stage, batch), what = divmod(number // 8, self.batches), number % 8
        return f"{'output' if what == OUT_F else 'input gradient'} of stage {stage}, micro-batch {batch}"

    def maker(self, buffer: int) -> str:
        """The action that fills a buffer."""
        (stage, batch), what = divmod(buffer // 8, self.batches), buffer % 8
        kinds = {OUT_F: "F", KEPT: "F", IN_F: "RECV_F", IN_B: "RECV_B", FOR_W: "I", OUT_B: "BI"}.get(what, "")
        if what == OUT_B:
            return " or ".join(f"{stage}{kind}{batch}" for kind in kinds if self.of(kind).any())
        return f"{stage}{kinds}{batch}" if kinds else ""

    def chains(self, streams: str) -> None:
        """Events of every rank: on its host, or in a queue of messages."""
        count = len(self.orders.rank) + len(self.ends)
        ranks, queue, peer = np.zeros(count, np.int64), np.zeros(count, np.int64), np.full(count, -1)
        ranks[self.e], ranks[self.ends] = self.orders.rank, np.arange(len(self.ends))
        if not self.host:
            peers = self.there[self.is_message] if streams != "rank" else -1
            ways = self.sends[self.is_message] if streams == "direction" else 0
            peer[self.e[self.is_message]] = peers
            queue[self.e[self.is_message]] = 1 + (peers + 1) * 2 + ways
        width = 2 * len(self.ends) + 4

        def kind(e: int) -> str:
            return "compute" if not queue[e] else "messages" if peer[e] < 0 else f"messages with {peer[e]}"

        self.schedule.events(ranks * width + queue, ranks, kind)

    def costs(self, durations: dict[str, int]) -> None:
        """Times, and activations that are held."""
        kinds = self.orders.kind
        lasts = np.array([0 if kind in MESSAGES else durations.get(kind, 0) for kind in KINDS])[kinds]
        held = np.array([HELD.get(kind, 0) for kind in KINDS])[kinds]
        self.schedule.extend("duration", self.e[lasts != 0], lasts[lasts != 0])
        self.schedule.extend("holds_memory", self.e[held != 0], ACTIVATIONS, held[held != 0])

    def messages(self, forward: Mask) -> None:
        """Sends and receives: posted behind the computation before them, awaited at the end, or where they are read."""
        schedule, some = self.schedule, self.is_message
        here, there = self.orders.rank, self.there
        pairs = np.where(self.sends, here * len(self.ends) + there, there * len(self.ends) + here)[some]
        ends, channel = np.unique(pairs, return_inverse=True)
        schedule.extend("channel", np.arange(len(ends)), ends // len(self.ends), ends % len(self.ends))
        sends, e = self.sends[some], self.e[some]
        number = ordinals(channel * 2 + sends)
        schedule.extend("send", e[sends], channel[sends], number[sends])
        schedule.extend("recv", e[~sends], channel[~sends], number[~sends])
        out = np.where(forward, OUT_F, OUT_B)
        source = np.where(self.sends, self.base, (self.other * self.batches + self.orders.batch) * 8) + out
        schedule.extend("carries", e, self.aspect, source[some])
        schedule.extend("reads", e[sends], source[some][sends], 0, 1)
        self.into = self.base + np.where(forward, IN_F, IN_B)
        schedule.extend("writes", e[~sends], self.into[some][~sends], 0, 1)
        if self.host:
            return
        before = np.maximum.accumulate(np.where(some, -1, np.arange(len(some))))
        behind = some & (before >= 0) & (here[np.maximum(before, 0)] == here)
        schedule.extend("wait", self.e[behind], 0, self.e[before[behind]])
        if self.ends_wait:
            ranks = here[some][sends]
            schedule.extend("wait", self.ends[ranks], ordinals(ranks), e[sends])

    def computations(self) -> None:
        """What computations read and write."""
        schedule, stage, e, base = self.schedule, self.orders.stage, self.e, self.base
        forward, back = self.of("F"), self.of("B", "I")
        after = back & (stage > 0)
        schedule.extend("writes", e[forward], base[forward] + OUT_F, 0, 1)
        schedule.extend("writes", e[forward], base[forward] + KEPT, 0, 1)
        schedule.extend("writes", e[after], base[after] + OUT_B, 0, 1)
        schedule.extend("reads", e[back], base[back] + KEPT, 0, 1)
        for kind, table in (("I", "writes"), ("W", "reads")):
            schedule.extend(table, e[self.of(kind)], base[self.of(kind)] + FOR_W, 0, 1)
        for kinds, table in ((("REDUCE_GRAD",), "takes"), (("B", "W"), "adds")):
            some = self.of(*kinds)
            schedule.extend(table, e[some], stage[some] * self.batches * 8 + GRADIENT, 0, 1)
        schedule.extend("last", np.arange(len(self.ends)), self.ends)
        apart = np.isin(stage, list(self.orders.apart)), np.isin(stage + 1, list(self.orders.apart))
        if self.orders.apart:
            text = ", ".join(f"{s - 1} and {s}" for s in sorted(self.orders.apart))
            schedule.assumptions.append(f"stages that share no micro-batch are of different pipelines: {text}")
        needed: list[tuple[Column, Column]] = []
        for some, way, into, out in ((forward & ~apart[0], -1, IN_F, OUT_F), (back & ~apart[1], 1, IN_B, OUT_B)):
            home = self.stages[stage + way + 1]
            made = ((stage + way) * self.batches + np.maximum(self.orders.batch, 0)) * 8 + out
            near, far = some & (home == self.orders.rank), some & (home >= 0) & (home != self.orders.rank)
            schedule.extend("reads", e[near], made[near], 0, 1)
            if self.orders.has_messages:
                schedule.extend("reads", e[far], base[far] + into, 0, 1)
                if not self.host:
                    self.awaited(far, base + into)
            else:
                needed.append((e[far], made[far]))
        if needed:
            self.implied(*(np.concatenate(columns) for columns in zip(*needed, strict=True)))
        if self.ends_wait:
            self.not_looked_at(forward)

    def not_looked_at(self, forward: Mask) -> None:
        """What no order shows to be wrong: micro-batches without gradients, weights that are not there."""
        halves = np.intersect1d(self.base[self.of("I")], self.base[self.of("W")])
        backward = np.concatenate([self.base[self.of("B")], halves])
        lacking = np.setdiff1d(self.base[forward], backward) if self.of("B", "I", "W").any() else backward[:0]
        if len(lacking):
            stage, batch = divmod(int(lacking[0]) // 8, self.batches)
            more = f" (and {len(lacking) - 1:,} more)" if len(lacking) > 1 else ""
            self.schedule.assumptions.append(
                f"no gradients are wanted of {stage}F{batch}{more}, which has no whole backward"
            )
        if self.of("UNSHARD", "RESHARD").any():
            self.schedule.assumptions.append("a stage has its weights when it runs, wherever UNSHARD and RESHARD are")

    def awaited(self, readers: Mask, into: Column) -> None:
        """Computations wait for the last receive before them of what they read."""
        gets = self.is_message & ~self.sends
        received, count = np.sort(self.into[gets] * len(gets) + np.flatnonzero(gets)), len(gets)
        if not len(received):
            return
        asked = np.flatnonzero(readers)
        found = received[np.searchsorted(received, into[asked] * count + asked) - 1]
        known = (found // count == into[asked]) & (found % count < asked)
        self.schedule.extend("wait", self.e[asked[known]], 0, self.e[found[known] % count])

    def implied(self, e: Column, made: Column) -> None:
        """Messages that the runtime adds: what a computation reads of another rank, it waits for."""
        if not len(e):
            return
        forward, some = self.of("F"), self.of("F", "B", "I")
        fills = (self.base + np.where(forward, OUT_F, OUT_B))[some]
        makers = dict(zip(fills.tolist(), self.e[some].tolist(), strict=True))
        known = np.array([makers.get(b, -1) for b in made.tolist()])
        self.schedule.extend("wait", e[known >= 0], 0, known[known >= 0])
        self.schedule.extend("reads", e, made, 0, 1)
        self.schedule.assumptions.append(
            "the file has no sends and receives: they are taken to be posted in time and to wait for no other"
        )
