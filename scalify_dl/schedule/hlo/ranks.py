"""Scheduled HLO files to a schedule: one module for all ranks, or one file a rank; buffer assignments beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.readers.hlo.module import Module, parse_module

from ..marks import looks_like_assignment
from ..tables import APART, BYTES, Named, Schedule
from .assignment import Assignment, read_assignment
from .exchange import Exchange
from .memory import Cell, cells
from .program import HOST, Program, Step

LARGEST = 20_000_000
"""Events of all ranks."""
REUSED = "bytes of temporary values are reused only when nothing needs them any more (no buffer assignment is given)"


def read_hlo(
    paths: Sequence[Path], texts: Sequence[str], streams: str = "pair", *, world: int = 0, fold: bool = False
) -> Schedule:
    """The schedule of one module on all its ranks, or of one module a rank.

    `world`: how many ranks there are, where no header says. `fold`: of one module only ranks that differ. They cannot
    hang: all do the same steps, each step waits for earlier ones, and meets the same step of the others. That is not
    so where one step sends what another receives.
    """
    dumps = [(path, text) for path, text in zip(paths, texts, strict=True) if not looks_like_assignment(text)]
    plans = [read_assignment(path, t) for path, t in zip(paths, texts, strict=True) if looks_like_assignment(t)]
    if not dumps or (plans and len(plans) != len(dumps)):
        raise InputError(
            f"{len(dumps)} modules and {len(plans)} buffer assignments", expected="an assignment for each module"
        )
    modules = [_module(path, text) for path, text in dumps]
    for module in modules if world > 1 else ():
        _spread(module, world)
    ranks = modules[0].replicas * modules[0].partitions
    if len(modules) not in (1, ranks):
        raise InputError(
            f"{len(modules)} modules, and the first says that {ranks} ranks run it", file=dumps[0][0],
            expected="one module for all ranks, or one a rank in their order",
        )  # fmt: skip
    made = _Ranks(ranks, several=len({text for _, text in dumps}) > 1)
    programs: dict[str, Program] = {}
    for n, (path, text) in enumerate(dumps):
        try:
            if text not in programs or plans:
                programs[text] = Program(
                    modules[n], plans[n] if plans else None, one_queue=streams == "rank", whole=made.several
                )
        except InputError as error:
            raise error.located(str(path)) from None
        chosen: Sequence[int] = range(ranks) if len(dumps) == 1 else (n,)
        if fold and len(dumps) == 1 and programs[text].in_lockstep:
            made.alone, chosen = True, _different(programs[text], chosen)
        for rank in chosen:
            made.rank(rank, programs[text], path, plans[n] if plans else None)
    return made.finished(programs.values())


def _module(path: Path, text: str) -> Module:
    try:
        module = parse_module(text)
    except InputError as error:
        raise error.located(str(path)) from None
    if module.header.get("is_scheduled") != "true":
        raise InputError(
            "the module is not scheduled: its text is in no order of time", file=path, line=1,
            expected="is_scheduled=true, as after XLA's passes",
        )  # fmt: skip
    return module


def _spread(module: Module, world: int) -> None:
    """Partitions or replicas of a module whose header says none: partitioned programs have channels."""
    if module.replicas * module.partitions == 1:
        lines = (i for computation in module.computations.values() for i in computation.instructions)
        channels = any(i.opcode == "partition-id" or "channel_id=" in i.attribute_text for i in lines)
        module.header["num_partitions" if channels else "replica_count"] = str(world)
        module.__dict__.pop("partitions", None)
        module.__dict__.pop("replicas", None)


def _different(program: Program, ranks: Sequence[int]) -> list[int]:
    """One of all ranks that do the same."""
    first: dict[object, int] = {}
    for rank in ranks:
        first.setdefault(tuple(tuple(_sides(s, rank)) for s in program.steps if s.exchange is not None), rank)
    return list(first.values())


class _Ranks:
    """Steps of programs as events of ranks. `alone`: as if nobody else were there, and no event waited for others."""

    def __init__(self, ranks: int, *, several: bool) -> None:
        self.ranks, self.several = ranks, several
        self.alone = False
        self.schedule = Schedule()
        self.groups: dict[tuple[int, ...], int] = {}
        self.channels: dict[tuple[int, int], int] = {}
        self.counts: defaultdict[tuple[str, int, int], int] = defaultdict(int)
        self.files: list[Path] = []
        self.schedule.namer = self.name

    def name(self, item: tuple[int, Program, int, str]) -> Named:
        """An event's name, from file and step."""
        file, program, n, side = item
        i = program.end if n < 0 else program.steps[n].instruction
        opcode = "end" if n < 0 else i.opcode + (f" ({side})" if side else "")
        return Named("the end" if n < 0 else i.name, opcode, None, str(self.files[file]), i.line)

    def rank(self, rank: int, program: Program, path: Path, plan: Assignment | None) -> None:
        """All steps of a rank's program."""
        schedule = self.schedule
        if len(schedule.named) + len(program.steps) > LARGEST:
            raise InputError(f"more than {LARGEST:,} events on {self.ranks} ranks", file=path)
        if path not in self.files:
            self.files.append(path)
        file = self.files.index(path)
        chains = {HOST: schedule.chain(rank, "compute")}
        buffers: dict[int, int] = {}
        last = -1
        events: list[list[int]] = []
        issued: dict[int, int] = {}
        held = self.held(program, plan)

        def touch(table: str, e: int, some: Sequence[Cell]) -> None:
            for buffer, lo, hi in dict.fromkeys(program.memory.range_of(cell) for cell in some if cell.size):
                if buffer not in buffers:
                    buffers[buffer] = schedule.buffer()
                schedule.add(table, e, buffers[buffer], lo, hi)

        def replacing(table: str, e: int, which: int, some: Sequence[Cell]) -> None:
            for n, pair in enumerate(program.replaced):
                if pair[which] in some:
                    schedule.add(table, e, rank * len(program.replaced) + n)

        for cell in program.given:
            if cell.size:
                buffer, lo, hi = program.memory.range_of(cell)
                buffers.setdefault(buffer, -1)
                if buffers[buffer] < 0:
                    buffers[buffer] = schedule.buffer()
                schedule.add("initial", buffers[buffer], lo, hi)
        for n, step in enumerate(program.steps):
            mine: list[int] = []
            for lane, side in zip(step.lanes, _sides(step, rank), strict=False):
                if side is None:
                    continue
                if lane not in chains:
                    chains[lane] = schedule.chain(rank, f"in flight {lane}")
                e = schedule.event(chains[lane], (file, program, n, side))
                mine.append(e)
                if lane != HOST and last >= 0:
                    issued[e] = last
                if side not in ("receive", "zeros"):
                    touch("reads", e, step.reads)
                    replacing("wants", e, 0, step.reads)
                if side != "send":
                    touch("writes", e, step.writes)
                    replacing("replaces", e, 1, step.writes)
                if step.exchange is not None and side != "zeros" and not self.alone:
                    self.meet(e, rank, step.exchange, side)
                if lane == HOST:
                    last = e
                    if held and (change := held.get(n)):
                        schedule.add("holds_memory", e, BYTES, change)
            events.append(mine)
        for n, step in enumerate(program.steps):
            for e in events[n]:
                awaited = [x for w in step.waits for x in events[w]] + ([issued[e]] if e in issued else [])
                schedule.waits(e, *dict.fromkeys(awaited))
        end = schedule.event(chains[HOST], (file, program, -1, ""))
        if held and (change := held.get(len(program.steps))):
            schedule.add("holds_memory", end, BYTES, change)
        touch("reads", end, _arrays(program))
        replacing("wants", end, 0, _arrays(program))
        schedule.add("last", rank, end)

    def meet(self, e: int, rank: int, exchange: Exchange, side: str) -> None:
        """A collective or a message of an event."""
        schedule = self.schedule
        if exchange.groups is not None:
            group = tuple(next((g for g in exchange.groups if rank in g), ()))
            if not group:
                return
            if group not in self.groups:
                self.groups[group] = len(self.groups)
                for m, member in enumerate(group):
                    schedule.add("member", self.groups[group], m, member)
            key = ("collective", self.groups[group], group.index(rank))
            schedule.add("collective", e, key[1], self.counts[key], key[2])
        else:
            assert exchange.pairs is not None
            sends = side == "send"
            pair = next(pair for pair in exchange.pairs if pair[0 if sends else 1] == rank)
            if pair not in self.channels:
                self.channels[pair] = len(self.channels)
                schedule.add("channel", self.channels[pair], *pair)
            key = ("send" if sends else "recv", self.channels[pair], 0)
            schedule.add(key[0], e, key[1], self.counts[key])
        self.counts[key] += 1
        issued = ("issue", rank, 0)
        schedule.add("issue", e, self.counts[issued])
        self.counts[issued] += 1
        for aspect, what in exchange.carries if self.several else ():
            schedule.carries(e, aspect, what)

    def held(self, program: Program, plan: Assignment | None) -> dict[int, int]:
        """Changes of memory by step of the host: from the first touch of a buffer to its last. With an assignment, all
        allocations live from the beginning."""
        host = [n for n, step in enumerate(program.steps) if step.lanes[0] == HOST]
        end = len(program.steps)
        if plan is not None:
            return {host[0] if host else end: sum(plan.sizes.values())}
        landed = {w: n for n, step in enumerate(program.steps) for w in step.waits}
        first: dict[int, int] = {program.memory.root(cell).number: -1 for cell in program.given}
        final: dict[int, int] = {program.memory.root(cell).number: end for cell in [*program.given, *_arrays(program)]}
        for n, step in enumerate(program.steps):
            until = n if step.lanes[0] == HOST else landed.get(n, end)
            for cell in (*step.reads, *step.writes):
                root = program.memory.root(cell).number
                first.setdefault(root, n)
                final[root] = max(final.get(root, 0), until)
        after, following = [end] * (end + 2), end
        for n in range(end, -1, -1):  # the host's step at or behind each step
            if n < end and program.steps[n].lanes[0] == HOST:
                following = n
            after[n] = following
        change: defaultdict[int, int] = defaultdict(int)
        for root, n in first.items():
            size = program.memory.cells[root].size
            change[after[max(n, 0)]] += size
            if final[root] < end:
                change[after[final[root] + 1]] -= size
        return change

    def finished(self, programs: Iterable[Program]) -> Schedule:
        """With what is assumed."""
        flying = False
        for program in programs:
            self.schedule.assumptions += [t for t in program.assumptions if t not in self.schedule.assumptions]
            flying = flying or any(step.lanes[0] != HOST for step in program.steps)
            if flying and program.memory.assignment is None and REUSED not in self.schedule.assumptions:
                self.schedule.assumptions.append(REUSED)
        if flying and self.several:
            self.schedule.assumptions.append(APART)
        return self.schedule


def _sides(step: Step, rank: int) -> list[str | None]:
    """What each lane of a step does on a rank; None where nothing."""
    exchange = step.exchange
    if exchange is None or exchange.pairs is None:
        return [""]
    sends = exchange.sides[0] and any(source == rank for source, _ in exchange.pairs)
    gets = exchange.sides[1] and any(target == rank for _, target in exchange.pairs)
    zeros = "zeros" if exchange.sides[1] else None  # what a rank without a source gets
    return ["send" if sends else None, "receive" if gets else zeros]


def _arrays(program: Program) -> list[Cell]:
    return list(cells(program.result))
