"""Right schedules of many kinds: pipelines by list scheduling, and small programs with streams and collectives.

Pipelines are computed in rounds: in each, every rank takes what is ready and best by the rule of its kind. So any
placement of stages and any rule gives an order that can be run. Messages are then posted in one order of all ranks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from scalify_dl.schedule.actions import Action, parse
from scalify_dl.schedule.builder import Builder
from scalify_dl.schedule.pipeline import lower
from scalify_dl.schedule.pipeline_csv import orders_of
from scalify_dl.schedule.tables import Schedule

Rows = list[list[str]]
KINDS = [
    (placement, halves, rule)
    for placement in ("loop", "v")
    for halves in (False, True)
    for rule in ("breadth", "depth", "backward")
]
"""Where stages are, whether the backward is in two halves, what is done first."""


def pipeline(ranks: int, batches: int, placement: str, halves: bool, rule: str, per: int = 2) -> Rows:
    """Computations of `ranks * per` stages, in an order that can be run."""
    stages = ranks * per

    def home(s: int) -> int:
        lap, place = divmod(s, ranks)
        return ranks - 1 - place if placement == "v" and lap % 2 else place

    kinds = ("F", "I", "W") if halves else ("F", "B")
    left = [Action(s, k, m) for s in range(stages) for k in kinds for m in range(batches)]
    done: set[Action] = set()
    back = kinds[1]

    def ready(a: Action) -> bool:
        s, k, m = a
        if k == "F":
            return s == 0 or Action(s - 1, "F", m) in done
        if k == "W":
            return Action(s, "I", m) in done
        return Action(s, "F", m) in done and (s == stages - 1 or Action(s + 1, back, m) in done)

    def rank_of(a: Action) -> tuple[int, ...]:
        s, k, m = a
        early = kinds.index(k)
        return {"breadth": (early, s, m), "depth": (m, early, s), "backward": (-(k == back), m, s)}[rule]

    orders: Rows = [[] for _ in range(ranks)]
    while left:
        taken = []
        for r in range(ranks):
            if able := [a for a in left if home(a.stage) == r and ready(a)]:
                taken.append(min(able, key=rank_of))
                orders[r].append(taken[-1].name)
        done.update(taken)
        left = [a for a in left if a not in taken]
    for r in range(ranks):
        orders[r] += [f"{s}REDUCE_GRAD" for s in range(stages) if home(s) == r]
    return with_messages(orders)


def with_messages(orders: Rows) -> Rows:
    """Sends behind the cell that makes their contents, and each receive at the same moment on the other side."""
    parsed = [[parse(cell) for cell in row] for row in orders]
    home = {a.stage: r for r, row in enumerate(parsed) for cell in row for a in cell}
    ways = {"F": ("F", -1), "B": ("B", 1), "I": ("B", 1)}
    made = {(ways[a.kind][0], a.stage, a.micro_batch) for row in parsed for c in row for a in c if a.kind in ways}
    out: Rows = [[] for _ in orders]
    at, done, moved = [0] * len(orders), set(), True

    def needs(s: int, kind: str, m: int) -> tuple[str, int, int] | None:
        way, step = ways.get(kind, ("", 0))
        return (way, s + step, m) if (way, s + step, m) in made else None

    while moved:
        moved = False
        for r, row in enumerate(parsed):
            if at[r] == len(row):
                continue
            cell = row[at[r]]
            if any((need := needs(*a)) is not None and need not in done for a in cell):
                continue
            out[r].append(orders[r][at[r]])
            at[r], moved = at[r] + 1, True
            for s, kind, m in cell:
                way, step = ways.get(kind, ("", 0))
                done.add((way, s, m))
                if way and (way, target := s - step, m) in made and home[target] != r:
                    out[r].append(f"{s}SEND_{way}{m}")
                    out[home[target]].append(f"{target}RECV_{way}{m}")
    if any(n < len(row) for n, row in zip(at, parsed, strict=True)):
        raise ValueError("these computations wait for each other")
    return out


def tables(rows: Rows, streams: str) -> Schedule:
    """Rows of actions as a schedule."""
    return lower(orders_of(rows), streams)


def ring(ranks: int, rounds: int) -> Builder:
    """Blocks passed round a ring while they are used, in two buffers that take turns."""
    program = Builder()
    for r in range(ranks):
        rank = program.rank(r)
        rank.compute("load", writes=["a"])
        for n in range(rounds):
            here, there = ("a", "b") if n % 2 == 0 else ("b", "a")
            sent = rank.send((r + 1) % ranks, here, stream="out", payload=f"block {n}")
            got = rank.recv((r - 1) % ranks, there, stream="in", payload=f"block {n}")
            rank.compute(f"use {n}", reads=[here], adds=["sum"])
            rank.wait(sent, got)
    return program


def buckets(ranks: int, count: int) -> Builder:
    """Gradients reduced in buckets while the backward goes on, then used."""
    program = Builder()
    program.group("all", range(ranks))
    for r in range(ranks):
        rank = program.rank(r)
        for n in range(count):
            for half in range(2):
                rank.compute(f"backward {n} {half}", adds=[(f"g{n}", 4 * half, 4 * half + 4)])
            rank.collective("all_reduce", "all", takes=[(f"g{n}", 0, 8)], handle=f"h{n}", reducer="sum", shape=str(n))
        for n in range(count):
            rank.wait(f"h{n}")
            rank.compute(f"update {n}", reads=[(f"g{n}", 0, 8)])
    return program


def prefetch(ranks: int, layers: int) -> Builder:
    """Parameters gathered one layer ahead into two buffers, on a stream of their own."""
    program = Builder()
    program.group("all", range(ranks))
    for r in range(ranks):
        rank = program.rank(r)
        rank.given(*[(f"w{n}", 0, 2) for n in range(layers)])

        def gather(n: int, rank: object = rank) -> None:
            rank.collective(  # type: ignore[attr-defined]
                "all_gather", "all", reads=[(f"w{n}", 0, 2)], writes=[(f"p{n % 2}", 0, 4)], handle=f"h{n}", layer=str(n)
            )

        gather(0)
        for n in range(layers):
            rank.wait(f"h{n}")
            if n + 1 < layers:
                gather(n + 1)
            rank.compute(f"forward {n}", reads=[(f"p{n % 2}", 0, 4)])
    return program


def exchange(ranks: int, rounds: int) -> Builder:
    """Neighbours swap borders, even ranks sending first, with calls that block the host."""
    program = Builder()
    for r in range(ranks):
        rank = program.rank(r)
        rank.given("mine")
        for n in range(rounds):
            other = r ^ 1
            if other >= ranks:
                continue
            if r % 2 == 0:
                rank.send(other, "mine", stream=None, payload=f"{n}")
            rank.recv(other, f"border {n}", stream=None, payload=f"{n}")
            if r % 2:
                rank.send(other, "mine", stream=None, payload=f"{n}")
            rank.compute(f"use {n}", reads=[f"border {n}"])
    return program


SMALL: list[Callable[[int, int], Builder]] = [ring, buckets, prefetch, exchange]


def sources(seed: int) -> Iterator[tuple[str, Schedule]]:
    """All kinds in turn, at random sizes, without end."""
    rng = random.Random(seed)
    while True:
        for placement, halves, rule in KINDS:
            ranks, batches, streams = (
                rng.randint(2, 3),
                rng.randint(1, 3),
                rng.choice(("pair", "direction", "rank", "host")),
            )
            rows = pipeline(ranks, batches, placement, halves, rule)
            yield f"{placement} {rule} {'halves ' if halves else ''}{ranks}x{batches} {streams}", tables(rows, streams)
        for make in SMALL:
            ranks, count = rng.randint(2, 4), rng.randint(1, 4)
            yield f"{make.__name__} {ranks}x{count}", make(ranks, count).build()
