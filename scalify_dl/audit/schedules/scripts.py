"""Small programs of ranks that post, wait and reduce: made at random, broken at random, and as schedules.

What Gloo does is modelled: a send ends when its receive is posted, messages of one sender, receiver and tag go in their
order, all others independently of each other. A handle is waited for exactly once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from scalify_dl.schedule.builder import Builder
from scalify_dl.schedule.tables import Schedule


class Call(NamedTuple):
    """`isend` and `irecv` of a peer and a tag, `wait` of a handle, `all_reduce` of a group."""

    name: str
    peer: int = -1
    tag: int = 0
    handle: int = -1
    group: int = -1


@dataclass
class Script:
    """What each rank calls, in its order, and the groups."""

    ranks: list[list[Call]]
    groups: list[tuple[int, ...]] = field(default_factory=list)


def right(rng: random.Random) -> Script:
    """A program that ends: things happen one after the other, and each rank posts its part of them."""
    count = rng.choice((2, 3, 4))
    groups = [tuple(range(count))]
    if count > 2:
        groups.append(tuple(sorted(rng.sample(range(count), 2))))
    ranks: list[list[Call]] = [[] for _ in range(count)]
    open_: list[list[int]] = [[] for _ in range(count)]
    handle = 0
    for _ in range(rng.randint(3, 7)):
        what = rng.random()
        if what < 0.2:
            group = rng.randrange(len(groups))
            for r in groups[group]:
                ranks[r].append(Call("all_reduce", group=group))
        else:
            a, b = rng.sample(range(count), 2)
            tag = rng.choice((0, 0, 1))
            for r, call in ((a, Call("isend", b, tag, handle)), (b, Call("irecv", a, tag, handle + 1))):
                ranks[r].append(call)
                if rng.random() < 0.6:
                    ranks[r].append(Call("wait", handle=call.handle))
                else:
                    open_[r].append(call.handle)
            handle += 2
        for r in range(count):
            if open_[r] and rng.random() < 0.4:
                ranks[r].append(Call("wait", handle=open_[r].pop(rng.randrange(len(open_[r])))))
    return mended(Script(ranks, groups))


def mended(script: Script) -> Script:
    """Every handle is waited for once, behind its post; at the end at the latest."""
    for calls in script.ranks:
        posted, waited, kept = set(), set(), []
        all_posted = {call.handle for call in calls if call.name in ("isend", "irecv")}
        late: list[int] = []
        for call in calls:
            if call.name == "wait":
                if call.handle in waited or call.handle not in all_posted:
                    continue
                waited.add(call.handle)
                if call.handle not in posted:
                    late.append(call.handle)
                    continue
            kept.append(call)
            if call.name in ("isend", "irecv"):
                posted.add(call.handle)
                if call.handle in late:
                    kept.append(Call("wait", handle=call.handle))
        kept += [Call("wait", handle=h) for h in sorted(all_posted - waited)]
        calls[:] = kept
    return script


def broken(script: Script, rng: random.Random) -> str:
    """Breaks a program in one way; which, in words."""
    while True:
        r = rng.randrange(len(script.ranks))
        calls = script.ranks[r]
        if len(calls) < 2:
            continue
        n = rng.randrange(len(calls) - 1)
        way = rng.choice(("swap", "swap", "move", "drop", "tag", "peer"))
        call = calls[n]
        if way == "swap":
            calls[n], calls[n + 1] = calls[n + 1], calls[n]
        elif way == "move":
            calls.insert(rng.randrange(len(calls)), calls.pop(n))
        elif way == "drop" and call.name != "wait":
            calls.pop(n)
        elif way == "tag" and call.peer >= 0:
            calls[n] = call._replace(tag=1 - call.tag)
        elif way == "peer" and call.peer >= 0 and len(script.ranks) > 2:
            others = [p for p in range(len(script.ranks)) if p not in (r, call.peer)]
            calls[n] = call._replace(peer=rng.choice(others))
        else:
            continue
        mended(script)
        return f"{way} at call {n} of rank {r}"


def as_schedule(script: Script) -> tuple[Schedule, list[list[int]]]:
    """The schedule, and the events of the host by rank and call."""
    program = Builder()
    for g, members in enumerate(script.groups):
        program.group(f"g{g}", members)
    events: list[list[int]] = []
    for r, calls in enumerate(script.ranks):
        rank = program.rank(r)
        mine = []
        for call in calls:
            if call.name == "wait":
                rank.wait(f"h{call.handle}")
                mine.append(len(program.schedule.named) - 1)
            elif call.name == "all_reduce":
                mine.append(rank.collective("all_reduce", f"g{call.group}", stream=None))
            else:
                post = rank.send if call.name == "isend" else rank.recv
                tag, stream = str(call.tag), f"{call.name} {call.peer} {call.tag}"
                mine.append(rank.compute(call.name))  # the post itself takes no time
                post(call.peer, f"b{call.handle}", handle=f"h{call.handle}", stream=stream, tag=tag)
        events.append(mine)
    return program.build(), events
