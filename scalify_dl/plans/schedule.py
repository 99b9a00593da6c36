"""Training plans as schedules: every rank's ops in their order, messages that its thread sends and receives,
collectives, reducers on a stream of their own (docs/plans.md describes the tables).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from scalify_dl.schedule.tables import Named, Schedule

from .model import BROADCAST, LOCAL, REDUCER, SUM, Op, Side, read_side
from .tables import Tables

COPIES = "dp copies that are not written do what the written ones do"


def read_plan(directory: Path) -> Schedule:
    """The schedule of a directory of plan tables."""
    return lower_plan(read_side(Tables(directory, "p")))


def lower_plan(plan: Side, *, named: bool = True) -> Schedule:
    """The schedule of a plan. `named`: what is sent has to be what the receiver calls it, too."""
    return _Lowering(plan, named).schedule


class _Lowering:
    """Ranks one by one; tensors are buffers of their rank."""

    def __init__(self, plan: Side, named: bool) -> None:
        self.plan, self.named = plan, named
        self.schedule = Schedule()
        self.file = str(plan.tables.file("op"))
        self.buffers: dict[str, int] = {}
        self.groups: dict[tuple[bool, tuple[int, ...]], int] = {}
        self.channels: dict[tuple[str, int, int], int] = {}
        self.counts: defaultdict[tuple[str, int, int], int] = defaultdict(int)
        for tensor, value in plan.values.items():
            if value.given and value.rank >= 0:
                self.schedule.add("initial", self.buffer(tensor), 0, 1)
        for program in plan.programs():
            if program:
                self.rank(program)
        if len(plan.places) < plan.world["runtime_ndevs"]:
            self.schedule.assumptions.append(COPIES)

    def buffer(self, tensor: str) -> int:
        """The buffer of a tensor."""
        found = self.buffers.get(tensor)
        if found is None:
            found = self.buffers[tensor] = self.schedule.buffer()
        return found

    def rank(self, program: list[Op]) -> None:
        """All ops of a rank, in their order."""
        schedule, rank = self.schedule, program[0].rank
        host = schedule.chain(rank, "compute")
        stream: int | None = None
        last, reduced = -1, list[int]()
        by_reducer: dict[str, int] = {}
        for op in program:
            if op.kind == REDUCER:
                if stream is None:
                    stream = schedule.chain(rank, "reducers")
                e = schedule.event(stream, self.name(op))
                reduced.append(e)
                by_reducer |= dict.fromkeys(op.makes, e)
                if last >= 0:
                    schedule.waits(e, last)
                self.touch("takes", e, op.reads)
                self.touch("writes", e, [x for x in op.makes if x not in op.reads])
                self.meet(e, op)
                continue
            if op.kind == BROADCAST and op.members:
                last = self.broadcast(host, op)
                continue
            last = schedule.event(host, self.name(op))
            schedule.waits(last, *{by_reducer[tensor] for tensor in op.reads if tensor in by_reducer})
            if op.move is None or op.sends:  # a message is the next one of its channel, whatever its row names
                self.touch("reads", last, op.reads)
            self.touch("adds" if op.kind == SUM else "writes", last, op.makes)
            if op.move is not None:
                self.message(last, "", op.move, op, sends=op.sends)
            elif op.group is not None and op.members and op.kind not in LOCAL:
                self.meet(last, op)
        end = schedule.event(host, Named("end", "end", None, self.file))
        schedule.waits(end, *reduced)
        schedule.add("last", rank, end)

    def broadcast(self, host: int, op: Op) -> int:
        """A message to every member, or the one from the source."""
        source, e = op.broadcast_from, -1
        others = [rank for rank in op.members if rank != source and rank in self.plan.places]
        for target in others if op.rank == source else [op.rank]:
            e = self.schedule.event(host, self.name(op))
            self.touch("reads" if op.rank == source else "writes", e, op.reads if op.rank == source else op.makes)
            self.message(e, f"broadcast {op.members}", (source, target), op, sends=op.rank == source)
        if e < 0 or op.rank == source:
            e = self.schedule.event(host, self.name(op))
            self.touch("writes", e, op.makes)
        return e

    def name(self, op: Op) -> Named:
        """An op as its row calls it."""
        return Named(op.name or op.kind, op.kind, op.mb if op.mb >= 0 else None, self.file, op.line)

    def touch(self, table: str, e: int, tensors: Sequence[str]) -> None:
        """What an op reads or makes, but for what is on its way between ranks."""
        values, rows = self.plan.values, self.schedule.rows[table]
        for tensor in tensors if len(tensors) == 1 else dict.fromkeys(tensors):
            if values[tensor].rank >= 0:
                rows.extend((e, self.buffer(tensor), 0, 1))

    def message(self, e: int, name: str, ends: tuple[int, int], op: Op, *, sends: bool) -> None:
        """One side of a message; what it is called is the part of the model's tensor and the micro-batch."""
        key = (name, *ends)
        if key not in self.channels:
            self.channels[key] = len(self.channels)
            self.schedule.add("channel", self.channels[key], *ends)
        table = "send" if sends else "recv"
        count = (table, self.channels[key], 0)
        self.schedule.add(table, e, self.channels[key], self.counts[count])
        self.counts[count] += 1
        held = op.reads if sends else op.makes
        if held:
            part = self.plan.part(held[0])
            full = self.plan.fulls[part.full]
            self.schedule.carries(e, "shape", f"{full.dtype}{list(part.shape)}")
            if self.named:
                where = ", ".join(f"{lo}:{hi}" for lo, hi in part.spans)
                text = f"{full.name}[{where}] of micro-batch {op.mb}"
                self.schedule.carries(e, "payload", text + f", addend {part.addend} of {part.addends}")

    def meet(self, e: int, op: Op) -> None:
        """A member's part of a collective; members that are not written are left out."""
        members = tuple(sorted({rank for rank in op.members if rank in self.plan.places}))
        if op.rank not in members:
            return
        key = (op.kind == REDUCER, members)
        if key not in self.groups:
            self.groups[key] = len(self.groups)
            for m, rank in enumerate(members):
                self.schedule.add("member", self.groups[key], m, rank)
        count = ("collective", self.groups[key], op.rank)
        self.schedule.add("collective", e, self.groups[key], self.counts[count], members.index(op.rank))
        self.counts[count] += 1
        self.schedule.carries(e, "kind", op.kind)
        if op.reads:
            part = self.plan.part(op.reads[0])
            self.schedule.carries(e, "shape", f"{self.plan.fulls[part.full].dtype}{list(part.shape)}")
        if op.weights:
            self.schedule.carries(e, "weight", ", ".join(self.plan.named(tid) for tid in op.weights))
