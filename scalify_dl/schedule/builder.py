"""Schedules in a few lines of Python.

```python
program = Builder()
zero, one = program.rank(0), program.rank(1)
zero.compute("forward", writes=["x"])
sent = zero.send(1, "x", payload="activations")
zero.wait(sent)
got = one.recv(0, "y", payload="activations")
one.wait(got)
one.compute("use", reads=["y"])
result = judge(program.build(), settings("both"))
```

A rank's program runs on its host chain. Asynchronous operations run on streams, first in first out, once what the host
did before they were issued has ended; what the host does after `wait` runs when the operation has ended. There are no
wildcards: a receive names its source.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence

from scalify_dl.errors import InputError

from .tables import ACTIVATIONS, BYTES, Named, Schedule

WHOLE = (0, 2**30)
"""Bytes of a buffer that is named without a range."""
Place = str | tuple[str, int, int]
"""A buffer of the rank, or half-open bytes of it."""


def _places(buffer: Place | Sequence[Place]) -> Sequence[Place]:
    if isinstance(buffer, str):
        return [buffer]
    match buffer:
        case (str(name), int(start), int(end)):
            return [(name, start, end)]
    return buffer


class Builder:
    """A schedule under construction."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.ranks: dict[int, Rank] = {}
        self.channels: dict[tuple[str, int, int], int] = {}
        self.groups: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.counts: defaultdict[tuple[str, int, int], int] = defaultdict(int)

    def rank(self, number: int) -> Rank:
        """A rank's program, to be written in its order."""
        if number not in self.ranks:
            self.ranks[number] = Rank(self, number)
        return self.ranks[number]

    def group(self, name: str, ranks: Sequence[int]) -> str:
        """A communicator of these ranks."""
        if name in self.groups:
            raise InputError(f"group {name} is given twice", hint="a communicator has a name of its own")
        if not ranks or len(set(ranks)) != len(ranks):
            raise InputError(f"group {name} has the ranks {list(ranks)}", expected="one rank or more, each once")
        self.groups[name] = (len(self.groups), tuple(ranks))
        for m, rank in enumerate(ranks):
            self.schedule.add("member", len(self.groups) - 1, m, rank)
        return name

    def build(self) -> Schedule:
        """The tables; nothing may be added afterwards."""
        for rank in self.ranks.values():
            rank.end()
        return self.schedule


class Rank:
    """What one rank does, in its order."""

    def __init__(self, builder: Builder, number: int) -> None:
        self.builder, self.number = builder, number
        self.schedule = builder.schedule
        self.host = self.schedule.chain(number, "compute")
        self.streams: dict[str, int] = {}
        self.buffers: dict[str, int] = {}
        self.last: int | None = None
        self.waiting: list[tuple[int, list[str | int], dict[str, int]]] = []
        self.handles: dict[str, int] = {}
        self.issued = 0
        self.ended = False
        self.at: tuple[str, int] | None = None
        """File and line of what comes next, where it is not the caller's."""

    def compute(
        self, name: str, *, reads: Iterable[Place] = (), writes: Iterable[Place] = (), adds: Iterable[Place] = (),
        takes: Iterable[Place] = (), stream: str | None = None, after: Iterable[str | int] = (), duration: int = 0,
        activations: int = 0, memory: int = 0,
    ) -> int:  # fmt: skip
        """A computation on the host's chain, or on a stream; its number is a handle. `duration` in ticks, `activations`
        in micro-batches that are kept (below zero: given free), `memory` in bytes."""
        e = self._event(Named(name, "compute", *self._line()), stream, after)
        for table, places in (("reads", reads), ("writes", writes), ("adds", adds), ("takes", takes)):
            for place in places:
                self._touch(table, e, place)
        if duration:
            self.schedule.add("duration", e, duration)
        for unit, delta in ((ACTIVATIONS, activations), (BYTES, memory)):
            if delta:
                self.schedule.add("holds_memory", e, unit, delta)
        return e

    def send(self, to: int, buffer: Place | Sequence[Place], *, handle: str | None = None, stream: str | None = "",
             tag: str = "", name: str = "", after: Iterable[str | int] = (), **carries: str) -> int:  # fmt: skip
        """Sends a buffer, or several as one; `stream=None` blocks the host. `carries`: payload, shape, dtype."""
        e = self._message("send", to, name or f"send to {to}", stream, tag, carries, after)
        for place in _places(buffer):
            self._touch("reads", e, place)
        return self._handle(handle, e)

    def recv(self, source: int, buffer: Place | Sequence[Place], *, handle: str | None = None, stream: str | None = "",
             tag: str = "", name: str = "", after: Iterable[str | int] = (), **carries: str) -> int:  # fmt: skip
        """Receives into a buffer, or several."""
        e = self._message("recv", source, name or f"receive from {source}", stream, tag, carries, after)
        for place in _places(buffer):
            self._touch("writes", e, place)
        return self._handle(handle, e)

    def collective(self, kind: str, group: str, *, reads: Iterable[Place] = (), writes: Iterable[Place] = (),
                   takes: Iterable[Place] = (), handle: str | None = None, stream: str | None = "", name: str = "",
                   **carries: str) -> int:  # fmt: skip
        """A collective of a group (`all_reduce`, …); `takes`: what is reduced in place after accumulation."""
        if group not in self.builder.groups:
            raise InputError(f"group {group} is not declared", hint="program.group(name, ranks)")
        number, ranks = self.builder.groups[group]
        if self.number not in ranks:
            raise InputError(f"rank {self.number} is no member of group {group}")
        e = self._event(Named(name or kind, kind, *self._line()), f"group {group}" if stream == "" else stream)
        key = ("collective", number, ranks.index(self.number))
        self.schedule.add("collective", e, number, self.builder.counts[key], key[2])
        self.builder.counts[key] += 1
        for aspect, what in {"kind": kind, **carries}.items():
            self.schedule.carries(e, aspect, what)
        for table, places in (("reads", reads), ("writes", writes), ("takes", takes)):
            for place in places:
                self._touch(table, e, place)
        return self._handle(handle, e)

    def wait(self, *handles: str | int) -> None:
        """The host goes on when these have ended; a name that is issued only later is waited for all the same."""
        self._event(Named("wait", "wait", *self._line()), None, handles)

    def given(self, *places: Place) -> None:
        """Buffers that have contents when the program begins."""
        for place in places:
            self.schedule.add("initial", *self._bytes(place))

    def end(self) -> None:
        """The end of the rank's program, and what all its events wait for."""
        if self.ended:
            return
        self.schedule.add("last", self.number, self._event(Named("end", "end"), None))
        self.ended = True
        for e, wanted, known in self.waiting:
            numbers = []
            for handle in wanted:
                d = handle if isinstance(handle, int) else known.get(handle, self.handles.get(handle))
                if d is None:
                    raise InputError(f"rank {self.number} waits for {handle}, which it never issues")
                numbers.append(d)
            self.schedule.waits(e, *dict.fromkeys(numbers))

    def _event(self, named: Named, stream: str | None, after: Iterable[str | int] = ()) -> int:
        if self.ended:
            raise InputError(f"{named.name} of rank {self.number} comes after `build`", hint="build once, at the end")
        if stream is None:
            e = self.schedule.event(self.host, named)
            wanted = list(after)
            self.last = e
        else:
            if stream not in self.streams:
                self.streams[stream] = self.schedule.chain(self.number, stream)
            e = self.schedule.event(self.streams[stream], named)
            wanted = [*after] if self.last is None else [self.last, *after]
        self.schedule.add("issue", e, self.issued)
        self.issued += 1
        if wanted:
            self.waiting.append((e, wanted, dict(self.handles)))
        return e

    def _message(self, table: str, peer: int, name: str, stream: str | None, tag: str, carries: dict[str, str],
                 after: Iterable[str | int]) -> int:  # fmt: skip
        sends = table == "send"
        e = self._event(Named(name, table, *self._line()), f"messages with {peer}" if stream == "" else stream,
                        after)  # fmt: skip
        ends = (tag, self.number, peer) if sends else (tag, peer, self.number)
        channels = self.builder.channels
        if ends not in channels:
            channels[ends] = len(channels)
            self.schedule.add("channel", channels[ends], *ends[1:])
        key = (table, channels[ends], 0)
        self.schedule.add(table, e, channels[ends], self.builder.counts[key])
        self.builder.counts[key] += 1
        for aspect, what in carries.items():
            self.schedule.carries(e, aspect, what)
        return e

    def _handle(self, handle: str | None, e: int) -> int:
        if handle is not None:
            self.handles[handle] = e
        return e

    def _touch(self, table: str, e: int, place: Place) -> None:
        self.schedule.add(table, e, *self._bytes(place))

    def _bytes(self, place: Place) -> tuple[int, int, int]:
        name, lo, hi = (place, *WHOLE) if isinstance(place, str) else place
        if name not in self.buffers:
            self.buffers[name] = self.schedule.buffer()
        return self.buffers[name], lo, hi

    def _line(self) -> tuple[None, str, int]:
        """Where the program that builds this is, unless it says another place."""
        if self.at is not None:
            return None, *self.at
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        return None, frame.f_code.co_filename, frame.f_lineno
