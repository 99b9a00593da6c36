"""One store in many iterations at once: plain ones, and updates `c = c + x` that are a reduction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scalify_dl.oracle.dtypes import integer_limits, is_float, is_integer
from scalify_dl.readers.tir.syntax import Apply, Buffer, Expr, Load, Store

from . import races
from .alone import loads
from .domain import IDENTITY, Array, Cells, Undecided
from .evaluate import as_cells, evaluate
from .frame import EVERY, Frame, Value
from .memory import Memory

if TYPE_CHECKING:
    from .machine import Machine

Start = tuple[Store, Array]
"""What starts a reduction, and in which iterations."""


class NeedsOrder(Exception):
    """These iterations must be run in turn."""


def store(machine: Machine, st: Store, frame: Frame, start: Start | None, *, reduces: bool = False) -> None:
    """A store in all lanes; `reduces` where threads may share a reduction. NeedsOrder where the order matters."""
    if frame.idle:
        return
    memory = machine.memory(st.buffer, st.line)
    other = start is not None and (start[0].buffer is not st.buffer or start[0].indices != st.indices)
    if start is not None and (other or any(True for _ in loads(start[0].value, st.buffer))):
        in_turn(frame)
        store(machine, start[0], frame.where(start[1]), None)
        store(machine, st, frame, None)
        return
    said = [evaluate(machine, index, frame) for index in st.indices]
    indices = [machine.whole_of(value, frame, st.line, "where a store goes") for value in said]
    told = [isinstance(value, Cells) for value in said]
    if any(told):
        machine.placed.add(id(st.buffer))
    found, outside = machine.places(memory, [frame.spread(i) for i in indices], frame, st.line, "written", told)
    places = frame.spread(found)
    if outside is not None:
        frame = frame.where(~frame.spread(outside))
        if frame.idle:
            return
    update = updated(st)
    if update is not None:
        _update(machine, st, memory, places, frame, start, reduces, *update)
        return
    if start is not None:
        in_turn(frame)
        store(machine, start[0], frame.where(start[1]), None)
    _plain(machine, st, memory, places, frame)


def in_turn(frame: Frame) -> None:
    """NeedsOrder where lanes are iterations of serial loops."""
    if any(n > 1 and kind == "serial" for n, kind in zip(frame.shape, frame.kinds, strict=True)):
        raise NeedsOrder


def updated(st: Store) -> tuple[str, Expr] | None:
    """Of `c = c + x` the op and x; None for other stores."""
    value = st.value
    if not isinstance(value, Apply) or len(value.args) != 2:
        return None
    kind = "add" if value.kind == "subtract" else value.kind
    if kind not in IDENTITY or (kind in ("and", "or") and value.dtype != "pred"):
        return None
    own = Load(st.buffer, st.indices, st.line)
    for at, other in ((0, 1), (1, 0)):
        if value.args[at] == own and not any(True for _ in loads(value.args[other], st.buffer)):
            x = value.args[other]
            if value.kind == "subtract":
                if at == 1:
                    return None
                x = Apply("negate", (x,), x.dtype, value.line)
            return kind, x
    return None


# ---- updates ----
def _update(
    machine: Machine, st: Store, memory: Memory, places: Array, frame: Frame, start: Start | None, reduces: bool,
    kind: str, x: Expr,
) -> None:  # fmt: skip
    """All lanes that differ along axes which the target does not see are one reduction."""
    shape = frame.shape
    over = tuple(a for a, n in enumerate(shape) if n > 1 and places.shape[a] == 1)
    kept = tuple(1 if a in over else n for a, n in enumerate(shape))
    running = frame.running()
    runs: Array = np.asarray(running.any(axis=over, keepdims=True) if over else running)
    targets = np.broadcast_to(places, kept)
    if len(np.unique(targets[runs])) != int(runs.sum()):
        _scattered(machine, st, memory, places, frame, start, kind, x)
        return
    _share(machine, st, frame, over, reduces, memory, targets, runs)
    cells = _folded(machine, st, frame, over, kind, x)
    dtype, domain = st.buffer.dtype, machine.domain
    old = memory.cells[targets]
    begun: Array = np.zeros(kept, dtype=bool)
    first = old
    if start is not None:
        begins = frame.full(start[1]) & running
        begun = np.asarray(begins.any(axis=over, keepdims=True) if over else begins)
        if over:
            late = begins.transpose([*(a for a in range(len(shape)) if a not in over), *over])
            late = late.reshape(-1, int(np.prod([shape[a] for a in over])))[:, 1:]
            if late.any():
                raise NeedsOrder
        value = frame.spread(as_cells(machine, evaluate(machine, start[0].value, frame), dtype))
        if any(value.shape[a] > 1 for a in over):
            raise NeedsOrder
        first = np.where(begun, np.broadcast_to(value, kept), old)
    missing = ~memory.written[targets] & ~begun & runs
    if missing.any():
        if st.atomic and id(st.buffer) in machine.arguments:
            machine.zeroed.add(st.buffer.name)
            first = np.where(missing, domain.lift(np.array(0), dtype), first)
        else:
            machine._unwritten(memory, targets, missing, _shrunk(frame, kept), st.line)
    if not st.atomic:
        seen = _shrunk(frame, kept)
        races.read(machine, memory, targets, replace(seen, mask=runs, block=frame.block, region=frame.region), st.line)
    if over and kind == "add" and is_float(dtype):
        machine.accumulators.setdefault((st.line, dtype))
    write(machine, memory, targets, domain.apply(kind, dtype, [first, cells], dtype), runs, frame, st)


def _shrunk(frame: Frame, kept: tuple[int, ...]) -> Frame:
    names: dict[str, Value] = {}
    for name, value in frame.names.items():
        if not isinstance(value, Cells):
            full = frame.spread(value)
            cut = tuple(slice(0, 1) if k == 1 else slice(None) for k in kept)
            names[name] = full[cut] if full.ndim == len(kept) else full
    over = zip(kept, frame.shape, frame.threads, strict=True)
    threads = tuple(EVERY if thread and k < n else thread for k, n, thread in over)
    return Frame(names, kept, frame.kinds, threads=threads, inner=frame.inner)


def _share(
    machine: Machine, st: Store, frame: Frame, over: tuple[int, ...], reduces: bool, memory: Memory, targets: Array,
    runs: Array,
) -> None:  # fmt: skip
    """A flaw where lanes of parallel axes update one element without an atomic."""
    for a in over:
        kind = frame.kinds[a]
        if st.atomic or kind == "serial" or (kind == "thread" and reduces):
            continue
        several = frame.running().sum(axis=a) > 1
        if several.any():
            place = int(targets[runs].reshape(-1)[0])
            text = f"`{st.buffer.name}{list(memory.index(place))}` is updated by several parallel iterations at once"
            machine.flaws.add("race", st.line, st.buffer.name, text)


def _folded(machine: Machine, st: Store, frame: Frame, over: tuple[int, ...], kind: str, x: Expr) -> Array:
    """What is added in all, for each target."""
    domain, dtype = machine.domain, st.buffer.dtype
    identity = _identity(machine, kind, dtype, st.line)
    if kind == "add" and over and frame.guard is None and isinstance(x, Apply) and x.kind == "multiply":
        a, b = (frame.spread(as_cells(machine, evaluate(machine, e, frame), dtype)) for e in x.args)
        if frame.mask is not None and any(frame.spread(frame.mask).shape[o] > 1 for o in over):
            mask = frame.running()
            unseen = tuple(d for d, n in enumerate(b.shape) if n == 1)
            b = np.where(mask.any(axis=unseen, keepdims=True), b, identity)  # what lies beyond a buffer is nothing
            a = np.where(frame.spread(frame.mask), a, identity)
        return contracted(machine, a, b, frame.shape, over, dtype)
    cells = frame.spread(as_cells(machine, evaluate(machine, x, frame), dtype))
    if frame.guard is not None:
        guard = frame.spread(frame.guard.array)
        cells = domain.apply("select", dtype, [guard, cells, np.asarray(identity)], dtype)
    if not over:
        return np.broadcast_to(cells, frame.shape)
    if frame.mask is not None and any(frame.spread(frame.mask).shape[o] > 1 for o in over):
        cells = np.where(frame.spread(frame.mask), cells, identity)
    wide = list(cells.shape)
    for d in over:
        wide[d] = frame.shape[d]
    cells = np.broadcast_to(cells, wide)
    rest = [a for a in range(len(wide)) if a not in over]
    rows = cells.transpose([*rest, *over]).reshape(*(wide[a] for a in rest), -1)
    return domain.fold(kind, dtype, rows).reshape([1 if a in over else n for a, n in enumerate(wide)])


def contracted(
    machine: Machine, a: Array, b: Array, shape: tuple[int, ...], over: tuple[int, ...], dtype: str
) -> Array:
    """Σ a·b over axes, of arrays that have size 1 along axes which they do not see."""
    rest = [d for d in range(len(shape)) if d not in over]
    machine.multiplied += int(np.prod([max(a.shape[d], b.shape[d]) for d in range(len(shape))], dtype=np.int64))
    batch = [d for d in rest if a.shape[d] > 1 and b.shape[d] > 1]
    rows = [d for d in rest if d not in batch and a.shape[d] > 1]
    columns = [d for d in rest if d not in batch and d not in rows]
    widths = [shape[d] for d in over]

    def matrix(x: Array, free: list[int]) -> Array:
        wide = np.broadcast_to(x, [shape[d] if d in over else x.shape[d] for d in range(len(shape))])
        moved = wide.transpose([*batch, *free, *over, *(d for d in rest if d not in (*batch, *free))])
        return moved.reshape(
            int(np.prod([x.shape[d] for d in batch], dtype=int)),
            int(np.prod([x.shape[d] for d in free], dtype=int)),
            int(np.prod(widths, dtype=int)),
        )

    left, right = matrix(a, rows), matrix(b, columns)
    found = np.stack([machine.domain.contract(p, q, dtype) for p, q in zip(left, right, strict=True)])
    sizes = [*(a.shape[d] for d in batch), *(a.shape[d] for d in rows), *(b.shape[d] for d in columns)]
    order = [*batch, *rows, *columns]
    found = found.reshape(sizes).transpose([order.index(d) for d in rest])
    return found.reshape([1 if d in over else found.shape[rest.index(d)] for d in range(len(shape))])


def _identity(machine: Machine, kind: str, dtype: str, line: int) -> Array:
    value: float = IDENTITY[kind]
    if is_integer(dtype) and kind in ("maximum", "minimum"):
        value = integer_limits(dtype)[kind == "minimum"]
    return machine.domain.lift(np.array(value), dtype).reshape(())


def _scattered(
    machine: Machine, st: Store, memory: Memory, places: Array, frame: Frame, start: Start | None, kind: str, x: Expr
) -> None:
    """Updates whose targets meet in no regular way: those of one target are combined."""
    if start is not None:
        in_turn(frame)
        raise Undecided("a reduction that starts in no one iteration", st.line)
    domain, dtype = machine.domain, st.buffer.dtype
    running = frame.running()
    cells = np.broadcast_to(frame.spread(as_cells(machine, evaluate(machine, x, frame), dtype)), frame.shape)
    identity = _identity(machine, kind, dtype, st.line)
    if frame.guard is not None:
        cells = domain.apply("select", dtype, [frame.spread(frame.guard.array), cells, identity], dtype)
    at, values = np.broadcast_to(places, frame.shape)[running], cells[running]
    lanes = np.broadcast_to(frame.lanes, frame.shape)[running]
    order = np.argsort(at, kind="stable")
    at, values, lanes = at[order], values[order], lanes[order]
    targets, begin, counts = np.unique(at, return_index=True, return_counts=True)
    if not st.atomic and np.any((at[1:] == at[:-1]) & (lanes[1:] != lanes[:-1])):
        text = f"`{st.buffer.name}` is updated by several parallel iterations at once"
        machine.flaws.add("race", st.line, st.buffer.name, text, certain=id(st.buffer) not in machine.placed)
    rows = np.full((len(targets), int(counts.max())), identity, dtype=domain.dtype)
    rows[np.repeat(np.arange(len(targets)), counts), np.arange(len(at)) - np.repeat(begin, counts)] = values
    old = memory.cells[targets]
    missing = ~memory.written[targets]
    if missing.any():
        if st.atomic and id(st.buffer) in machine.arguments:
            machine.zeroed.add(st.buffer.name)
            old = np.where(missing, domain.lift(np.array(0), dtype), old)
        else:
            machine._unwritten(memory, targets, missing, Frame(), st.line)
    new = domain.apply(kind, dtype, [old, domain.fold(kind, dtype, rows)], dtype)
    races.write(machine, memory, places, running, frame, st.line, st.atomic)
    memory.cells[targets] = new
    memory.note(targets, st.line, frame.block[1] if frame.block else 0)


# ---- plain stores ----
def _plain(machine: Machine, st: Store, memory: Memory, places: Array, frame: Frame) -> None:
    """A store of what does not depend on the order of lanes."""
    running = frame.running()
    own = list(loads(st.value, st.buffer))
    at = np.broadcast_to(places, frame.shape)[running]
    unique = len(np.unique(at)) == len(at)
    if own and len(at) > 1:
        if not unique:
            in_turn(frame)
        lane_of = np.full(len(memory.cells), -1, dtype=np.int64)
        lane_of[at] = np.arange(len(at))
        for load, reading in _own(machine, st.value, st.buffer, frame):
            indices = [machine.whole(i, reading, load.line, "where a store reads") for i in load.indices]
            there, _ = machine.places(memory, [reading.spread(i) for i in indices], reading, load.line, "read")
            reached = lane_of[np.broadcast_to(reading.spread(there), frame.shape)[running]]
            if np.any(reading.running()[running] & (reached >= 0) & (reached != np.arange(len(at)))):
                in_turn(frame)
                text = f"`{st.buffer.name}` is read by a parallel iteration while another writes it"
                machine.flaws.add("race", st.line, st.buffer.name, text)
    cells = frame.spread(as_cells(machine, evaluate(machine, st.value, frame), st.buffer.dtype))
    if frame.guard is not None:
        old = memory.cells[places]
        guard = frame.spread(frame.guard.array)
        if not unique:
            in_turn(frame)
        cells = machine.domain.apply("select", st.buffer.dtype, [guard, cells, old], st.buffer.dtype)
    values = np.broadcast_to(cells, frame.shape)
    if not unique:
        _same_or_race(machine, st, memory, at, values[running], frame)
    write(machine, memory, np.broadcast_to(places, frame.shape), values, running, frame, st)


def _own(machine: Machine, x: Expr, buffer: Buffer, frame: Frame) -> Iterator[tuple[Load, Frame]]:
    """Where a value reads a buffer, and in which lanes: of a choice that is known, what is chosen is read."""
    if isinstance(x, Load):
        if x.buffer is buffer:
            yield x, frame
        for index in x.indices:
            yield from _own(machine, index, buffer, frame)
    elif isinstance(x, Apply):
        frames = [frame] * len(x.args)
        if x.kind == "select" or (x.kind in ("and", "or") and x.dtype == "pred"):
            if any(True for _ in loads(x.args[0], buffer)):
                in_turn(frame)
            elif not isinstance(truth := machine.truth(x.args[0], frame), Cells):
                ways = frame.where(truth), frame.where(~truth)
                frames[1:] = ways if x.kind == "select" else ways[:1] if x.kind == "and" else ways[1:]
        for argument, where in zip(x.args, frames, strict=True):
            yield from _own(machine, argument, buffer, where)


def _same_or_race(machine: Machine, st: Store, memory: Memory, at: Array, values: Array, frame: Frame) -> None:
    """A flaw where parallel lanes write different values to one place; equal ones make no difference."""
    lanes = np.broadcast_to(frame.lanes, frame.shape)[frame.running()]
    order = np.lexsort((np.arange(len(at)), lanes, at))
    at, values, lanes = at[order], values[order], lanes[order]
    last = np.append((at[1:] != at[:-1]) | (lanes[1:] != lanes[:-1]), True)  # what each lane leaves there
    at, values = at[last], values[last]
    meet = at[1:] == at[:-1]
    equal = (values[1:] == values[:-1]) | ((values[1:] != values[1:]) & (values[:-1] != values[:-1]))
    bad = meet & ~equal
    if bad.any():
        index = list(memory.index(int(at[1:][bad][0])))
        text = f"`{st.buffer.name}{index}` is written by several parallel iterations, different values"
        machine.flaws.add("race", st.line, st.buffer.name, text, certain=id(st.buffer) not in machine.placed)


def write(
    machine: Machine, memory: Memory, places: Array, values: Array, running: Array, frame: Frame, st: Store
) -> None:
    """Elements written in the lanes that run."""
    wide = np.broadcast_shapes(places.shape, values.shape, running.shape)
    lanes = frame if frame.shape == wide else _shrunk(frame, wide)
    if lanes is not frame:
        lanes = replace(lanes, shape=wide, block=frame.block, region=frame.region)
    keep = np.broadcast_to(running, wide)
    at = np.broadcast_to(places, wide)
    races.write(machine, memory, at, keep, lanes, st.line, st.atomic)
    memory.cells[at[keep]] = np.broadcast_to(values, wide)[keep]
    memory.note(at[keep], st.line, frame.block[1] if frame.block else 0)
