"""Races: what lanes of a parallel region, or blocks of a grid, reach of what another one writes.

And what one of them reads of what another one has written where each has memory of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from .domain import Array
from .frame import EVERY, Frame
from .memory import Memory

if TYPE_CHECKING:
    from .machine import Machine

_SHIFT = 40
_MANY = (1 << _SHIFT) - 1
_ATOMIC = _MANY - 1
_ANYBODY = -1


class Track:
    """Of each element who wrote it last, and who read it, as region and lane."""

    def __init__(self, size: int) -> None:
        self.writer = np.full(size, -1, dtype=np.int64)
        self.reader = np.full(size, -1, dtype=np.int64)


def _levels(memory: Memory, frame: Frame) -> list[tuple[str, int, Array]]:
    """What may race here: lanes of a parallel region, of parallel loops within it, which wait for their iterations
    at their ends, and blocks of a grid; region and number of each lane."""
    found: list[tuple[str, int, Array]] = []
    if frame.region:
        kinds = ("block", "parallel") if memory.buffer.scope.startswith("shared") else ("block", "parallel", "thread")
        outer = [kind in kinds and not inner for kind, inner in zip(frame.kinds, frame.inner, strict=True)]
        found.append(("iterations", frame.region, _numbers(frame, outer)))
        for at, inner in enumerate(frame.inner):
            if inner:
                upto = [kind in kinds and axis <= at for axis, kind in enumerate(frame.kinds)]
                found.append((f"iterations{sum(map(bool, frame.inner[:at]))}", inner, _numbers(frame, upto)))
    if frame.block and memory.buffer.scope == "global":
        found.append(("blocks", frame.block[0], np.array(frame.block[1])))
    return found


def _numbers(frame: Frame, which: list[bool]) -> Array:
    """Lanes numbered along some axes."""
    result: Array = np.zeros((1,) * len(frame.shape), dtype=np.int64)
    for at, size in enumerate(frame.shape):
        if which[at]:
            result = result * size + np.arange(size).reshape([size if d == at else 1 for d in range(len(frame.shape))])
    return result


def _track(memory: Memory, level: str) -> Track:
    found: Track = memory.tracks.setdefault(level, Track(len(memory.cells)))
    return found


def _said(level: str) -> str:
    return level.rstrip("0123456789")


def _owner(memory: Memory, frame: Frame) -> Array | None:
    """Who has this memory for its own: the threads of a launch, or its blocks; None where all have the same."""
    scope = memory.buffer.scope
    if scope == "global":
        return None
    if _together(frame):
        return np.array(_ANYBODY)
    mine = "blockIdx" if scope != "variable" and scope not in ("local", "local.var") else ""
    result: Array = np.zeros((1,) * len(frame.shape), dtype=np.int64)
    for at, (size, thread) in enumerate(zip(frame.shape, frame.threads, strict=True)):
        if thread and thread.startswith(mine):
            place = [1] * len(frame.shape)
            place[at] = size
            result = result + crc32(thread.encode()) * np.arange(size).reshape(place)
    if frame.block:
        return np.asarray(result + (frame.block[0] << _SHIFT) + (frame.block[1] << 8))
    return np.asarray(result + (frame.region << _SHIFT)) if any(frame.threads) else result


def _together(frame: Frame) -> bool:
    """Whether all threads that there are do one thing: each of them has what they add up to."""
    pairs = zip(frame.threads, frame.shape, strict=True)
    return EVERY in frame.threads and all(t in ("", EVERY) or t.startswith("block") or n == 1 for t, n in pairs)


def _own(machine: Machine, memory: Memory, at: Array, running: Array, frame: Frame, line: int) -> None:
    """A flaw where what is read is in memory that another one has for its own."""
    owner = _owner(memory, frame)
    if owner is None or memory.owners is None:
        return
    held = memory.owners[at]
    bad = (held != _ANYBODY) & (held != np.broadcast_to(owner, running.shape)[running])
    if bad.any():
        index = list(memory.index(int(at[bad][0])))
        text = f"`{memory.buffer.name}{index}` is read by another than wrote it, of which each has memory of its own"
        machine.flaws.add("race", line, memory.buffer.name, text, certain=False)


def read(machine: Machine, memory: Memory, places: Array, frame: Frame, line: int) -> None:
    """Notes a read; a flaw where another lane of the region has written there."""
    if id(memory.buffer) in machine.arguments and id(memory.buffer) not in machine.shared:
        return
    _own(machine, memory, frame.full(places)[frame.running()], frame.running(), frame, line)
    for level, region, lanes in _levels(memory, frame):
        track = _track(memory, level)
        running = frame.running()
        at = frame.full(places)[running]
        code = (region << _SHIFT) | np.broadcast_to(lanes, frame.shape)[running]
        writer = track.writer[at]
        bad = (writer >> _SHIFT == region) & (writer != code)
        if bad.any():
            index = list(memory.index(int(at[bad][0])))
            text = f"`{memory.buffer.name}{index}` is read while another of the parallel {_said(level)} writes it"
            certain = level == "blocks" and id(memory.buffer) not in machine.placed
            machine.flaws.add("race", line, memory.buffer.name, text, certain=certain)
        before = track.reader[at]
        track.reader[at] = code
        many = ((before >> _SHIFT == region) & (before != code)) | (track.reader[at] != code)
        track.reader[at[many]] = (region << _SHIFT) | _MANY


def write(
    machine: Machine, memory: Memory, places: Array, running: Array, frame: Frame, line: int, atomic: str
) -> None:
    """Notes a write; a flaw where another lane of the region reaches what is written. Atomics do not race."""
    owner = _owner(memory, frame)
    if owner is not None and (memory.owners is not None or owner.size > 1 or frame.block or any(frame.threads)):
        if memory.owners is None:
            memory.owners = np.where(memory.written, 0, _ANYBODY)
        wide = np.broadcast_to(running, frame.shape) if frame.shape else running
        memory.owners[np.broadcast_to(places, wide.shape)[wide]] = np.broadcast_to(owner, wide.shape)[wide]
    for level, region, lanes in _levels(memory, frame):
        track = _track(memory, level)
        running = np.broadcast_to(running, frame.shape) if frame.shape else running
        at = np.broadcast_to(places, running.shape)[running]
        code = (region << _SHIFT) | np.broadcast_to(lanes, running.shape)[running]
        if atomic:
            code = np.full_like(code, (region << _SHIFT) | _ATOMIC)
        writer, reader = track.writer[at], track.reader[at]
        bad = ((writer >> _SHIFT == region) & (writer != code)) | ((reader >> _SHIFT == region) & (reader != code))
        if bad.any():
            index = list(memory.index(int(at[bad][0])))
            text = f"`{memory.buffer.name}{index}` is written while another of the parallel {_said(level)} reaches it"
            certain = level == "blocks" and id(memory.buffer) not in machine.placed
            machine.flaws.add("race", line, memory.buffer.name, text, certain=certain)
        if level == "iterations" and _together(frame):
            track.writer[at] = _ANYBODY
            continue
        track.writer[at] = code
        several = track.writer[at] != code
        track.writer[at[several]] = (region << _SHIFT) | _MANY
