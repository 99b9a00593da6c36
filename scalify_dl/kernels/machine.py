"""Runs a kernel's text, statement by statement, each for many iterations at once, in a domain of elements.

Iterations of parallel loops, threads and blocks run side by side, and what one writes and another reaches is a race.
Serial loops around one store are run at once where its order makes no difference, else in turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from scalify_dl.oracle.dtypes import holds_all, is_float
from scalify_dl.readers.tir.syntax import (
    Alloc,
    Block,
    Buffer,
    Copy,
    Expr,
    Fill,
    Gemm,
    If,
    Kernel,
    Launch,
    Let,
    Loop,
    Reduce,
    Scan,
    Statement,
    Store,
)  # fmt: skip

from . import races, stores, tiled
from .alone import one_store
from .domain import Array, Cells, Domain, Undecided
from .evaluate import as_cells, evaluate
from .frame import Frame, Value
from .memory import Flaws, Memory

BATCH = 1 << 22
"""Most iterations that are run at once."""


class Machine:
    """One run of a kernel. `flaws` is what it does wrong, `casts` which casts round, `narrow` what is computed in
    fewer digits than f32 has, by line.

    What it writes holds nothing at first, unless the caller's `given` values are meant.
    """

    def __init__(self, kernel: Kernel, domain: Domain, seconds: float = 60.0, *, given: bool = False) -> None:
        self.kernel, self.domain = kernel, domain
        self.flaws = Flaws()
        self.casts: dict[tuple[int, str, str], None] = {}
        self.accumulators: dict[tuple[int, str], None] = {}
        self.narrow: dict[tuple[int, str], None] = {}
        self.memories: dict[int, Memory] = {}
        self.steps = self.regions = 0
        self.multiplied = 0
        """Products that contractions add up."""
        self.strayed: list[str] = []
        """Places beyond a buffer that elements of arguments say: others may lie within."""
        self.placed: set[int] = set()
        """Buffers that are written where elements of arguments say: others may reach all of it, each place once."""
        self.zeroed: set[str] = set()
        """Arguments that an atomic adds to what they hold when the kernel starts: zero."""
        self.deadline = time.process_time() + seconds
        outputs = {id(b) for b in kernel.outputs}
        self.shared = {id(b) for b in kernel.arguments if id(b) in outputs}
        self.arguments = {id(b) for b in kernel.arguments}
        for buffer in kernel.arguments:
            memory = Memory(buffer, domain, (), ())
            memory.written[:] = id(buffer) not in outputs
            if given or id(buffer) not in outputs:
                memory.cells[:] = domain.argument(buffer.name, buffer.shape, buffer.dtype).reshape(-1)
            self.memories[id(buffer)] = memory

    def run(self) -> dict[str, Array]:
        """Runs it; what the outputs hold."""
        self.body(self.kernel.body, Frame())
        return {b.name: self.memories[id(b)].cells.reshape(b.shape) for b in self.kernel.outputs}

    # ---- statements ----
    def body(self, statements: Sequence[Statement], frame: Frame) -> None:
        """Statements in order; a name holds until the end of its body."""
        for statement in statements:
            if isinstance(statement, Let):
                value = evaluate(self, statement.value, frame)
                frame = frame.named(statement.var, value)
            else:
                self.statement(statement, frame)

    def statement(self, statement: Statement, frame: Frame) -> None:
        """One statement."""
        if frame.idle:
            return
        self.steps += 1
        if self.steps % 128 == 0 and time.process_time() > self.deadline:
            raise Undecided("the kernel is too large to be followed in the time given", statement.line)
        match statement:
            case Loop():
                self.loop(statement, frame)
            case Store():
                stores.store(self, statement, frame, None)
            case Block():
                self.block(statement, frame)
            case If():
                self.choice(statement, frame)
            case Alloc(buffer=buffer):
                self.allocate(buffer, frame)
            case Launch():
                self.launch(statement, frame)
            case Fill() | Copy() | Gemm() | Reduce() | Scan():
                tiled.run(self, statement, frame)
            case _:
                raise Undecided("a statement that is not followed", statement.line)

    def allocate(self, buffer: Buffer, frame: Frame) -> None:
        """Fresh memory: threads share it where it is shared, blocks never do."""
        own = ("block", "parallel") if buffer.scope.startswith("shared") else ("block", "parallel", "thread", "serial")
        axes = tuple(
            at for at, (n, kind) in enumerate(zip(frame.shape, frame.kinds, strict=True)) if n > 1 and kind in own
        )
        if buffer.scope == "global":
            axes = ()
            if any(kind != "serial" and n > 1 for n, kind in zip(frame.shape, frame.kinds, strict=True)):
                raise Undecided(f"global memory `{buffer.name}` of a thread or block", buffer.line)
        self.memories[id(buffer)] = Memory(buffer, self.domain, tuple(frame.shape[a] for a in axes), axes)

    def choice(self, statement: If, frame: Frame) -> None:
        """A branch in the lanes where it is taken."""
        truth = self.truth(statement.condition, frame)
        if isinstance(truth, Cells):
            self.body(statement.then, self._guarded(frame, truth.array))
            if statement.otherwise:
                opposite = self.domain.apply("not", "pred", [truth.array], "pred")
                self.body(statement.otherwise, self._guarded(frame, opposite))
            return
        self.body(statement.then, frame.where(truth))
        if statement.otherwise:
            self.body(statement.otherwise, frame.where(~truth))

    def _guarded(self, frame: Frame, truth: Array) -> Frame:
        if frame.guard is not None:
            truth = self.domain.apply("and", "pred", [frame.spread(frame.guard.array), truth], "pred")
        return replace(frame, guard=Cells(truth))

    def truth(self, x: Expr, frame: Frame) -> Value:
        """A condition: known, or cells."""
        value = evaluate(self, x, frame)
        if isinstance(value, Cells):
            known = self.domain.known(value.array)
            return value if known is None else known.astype(bool)
        return value.astype(bool)

    def whole(self, x: Expr, frame: Frame, line: int, what: str) -> Array:
        """A known whole number in every lane."""
        return self.whole_of(evaluate(self, x, frame), frame, line, what)

    def whole_of(self, value: Value, frame: Frame, line: int, what: str) -> Array:
        """A value as a known whole number in every lane."""
        if isinstance(value, Cells):
            known = self.domain.known(value.array)
            if known is None or frame.guard is not None:
                raise Undecided(f"{what} depends on elements of arguments", line)
            return known
        return value

    # ---- loops ----
    def loop(self, loop: Loop, frame: Frame) -> None:
        """A loop: parallel ones at once, serial ones at once where that is the same, else in turn."""
        start = self.whole(loop.start, frame, loop.line, "where a loop starts")
        extent = self.whole(loop.extent, frame, loop.line, "how long a loop is")
        most = int(extent.max()) if extent.size else 0
        if most <= 0:
            return
        if loop.kind != "serial":
            self.body(loop.body, self._along(loop, start, extent, most, frame))
            return
        if one_store(loop.body) and most * int(np.prod(frame.shape, dtype=np.int64)) <= BATCH:
            try:
                self.body(loop.body, self._along(loop, start, extent, most, frame))
                return
            except stores.NeedsOrder:
                pass
        for turn in range(most):
            inner = frame.named(loop.var, start + turn)
            if extent.size > 1 or int(extent.reshape(-1)[0]) <= turn:
                inner = inner.where(np.asarray(turn < extent))
            self.body(loop.body, inner)

    def _along(self, loop: Loop, start: Array, extent: Array, most: int, frame: Frame) -> Frame:
        region, inner = frame.region, 0
        if loop.kind != "serial":
            self.regions += 1
            if all(kind == "serial" for kind in frame.kinds):
                region = self.regions
            elif loop.kind == "parallel":
                inner = self.regions
        steps = np.arange(most).reshape((1,) * len(frame.shape) + (most,))
        values = frame.spread(start)[..., None] + steps
        values = np.broadcast_to(values, (*values.shape[:-1], most))
        found = frame.with_axis(loop.var, values, loop.kind, region, loop.thread, inner)
        if extent.size > 1:
            found = found.where(np.asarray(steps < frame.spread(extent)[..., None]))
        return found

    def launch(self, launch: Launch, frame: Frame) -> None:
        """A grid: block by block, each with fresh memory; a race where blocks reach what one of them writes."""
        extents = [int(self.whole(x, frame, launch.line, "a grid")) for x in launch.extents]
        self.regions += 1
        region = self.regions
        for number, at in enumerate(np.ndindex(*reversed(extents))):
            block = tuple(reversed(at))
            names = dict(frame.names) | {v: np.array(i) for v, i in zip(launch.vars, block, strict=True)}
            self.body(launch.body, replace(frame, names=names, block=(region, number, *block)))

    # ---- blocks ----
    def block(self, block: Block, frame: Frame) -> None:
        """A block: its axes are bound, what starts a reduction runs where all its reduce axes are at their start."""
        for axis in block.axes:
            frame = frame.named(axis.var, self.whole(axis.value, frame, axis.line, f"the axis {axis.var}"))
        for condition in block.conditions:
            truth = self.truth(condition, frame)
            if isinstance(truth, Cells):
                raise Undecided("a condition of a block that depends on elements", block.line)
            frame = frame.where(truth)
        for axis in block.axes:
            value = frame.lookup(axis.var)
            assert not isinstance(value, Cells)
            outside = (value < axis.low) | (value >= axis.high)
            if outside.any() and (frame.full(outside) & frame.running()).any():
                text = f"the axis `{axis.var}` of block `{block.name}` leaves its domain [{axis.low}, {axis.high})"
                self.flaws.add("domain", axis.line, axis.var, text)
        starts: Array = np.array(True)
        for axis in block.axes:
            if axis.kind == "R":
                value = frame.lookup(axis.var)
                starts = starts & (value == axis.low)
        reduces = any(axis.kind == "R" for axis in block.axes)
        if frame.idle:
            return
        if len(block.body) == 1 and isinstance(block.body[0], Store) and len(block.init) <= 1 and reduces:
            first = block.init[0] if block.init else None
            if first is None or isinstance(first, Store):
                stores.store(self, block.body[0], frame, None if first is None else (first, starts), reduces=True)
                return
        if block.init:
            stores.in_turn(frame)
            self.body(block.init, frame.where(starts))
        self.body(block.body, frame)

    # ---- memory ----
    def memory(self, buffer: Buffer, line: int) -> Memory:
        """The memory of a buffer."""
        if id(buffer) not in self.memories:
            raise Undecided(f"`{buffer.name}` has no memory here", line)
        return self.memories[id(buffer)]

    def places(
        self, memory: Memory, indices: Sequence[Array], frame: Frame, line: int, what: str, told: Sequence[bool] = ()
    ) -> tuple[Array, Array | None]:
        """Places of indices, and which of them lie outside; what runs there is a flaw, unless elements say where."""
        outside: Array | None = None
        inside: list[Array] = []
        for at, (index, size) in enumerate(zip(indices, memory.buffer.shape, strict=True)):
            bad = (index < 0) | (index >= size)
            if bad.any():
                running = frame.full(bad) & frame.running()
                if running.any():
                    lane = tuple(int(i) for i in np.argwhere(running)[0])
                    where = int(frame.full(index)[lane])
                    text = f"`{memory.buffer.name}` is {what} at index {where} of dim {at}, which has {size} elements"
                    if at < len(told) and told[at]:
                        self.strayed.append(f"{self.kernel.file}:{line}: {text}, which elements of arguments say")
                    else:
                        self.flaws.add("bounds", line, memory.buffer.name, text + self.told(frame, lane))
                outside = bad if outside is None else outside | bad
                index = np.clip(index, 0, size - 1)
            inside.append(index)
        lanes = []
        for axis, size in zip(memory.axes, memory.lanes, strict=True):
            place = [1] * len(frame.shape)
            place[axis] = size
            lanes.append(np.arange(size).reshape(place))
        return memory.places(inside, lanes), outside

    def told(self, frame: Frame, lane: Iterable[int]) -> str:
        """In which iteration: values of loop variables, and the block."""
        at = tuple(lane)
        said = []
        for name, value in frame.names.items():
            if isinstance(value, Cells):
                continue
            full = np.broadcast_to(value.reshape(value.shape + (1,) * (len(at) - value.ndim)), frame.shape or ())
            said.append(f"{name}={int(full[at]) if at else int(value)}")
        return f" ({', '.join(said[:8])})" if said else ""

    def load(self, buffer: Buffer, indices: Sequence[Value], frame: Frame, line: int) -> Array:
        """Elements at indices in all lanes."""
        memory = self.memory(buffer, line)
        plain: list[Array] = []
        if frame.mask is not None:  # where nothing runs nothing is read
            zero, runs = self.domain.lift(np.array(0), "s32"), frame.running()
            indices = [
                Cells(np.where(runs, frame.spread(x.array), zero)) if isinstance(x, Cells) else x for x in indices
            ]
        for index in indices:
            known = self.domain.known(index.array) if isinstance(index, Cells) else index
            if known is None:
                return self._gathered(memory, indices, frame, line)
            plain.append(frame.spread(known))
        told = [isinstance(index, Cells) for index in indices]
        places, outside = self.places(memory, plain, frame, line, "read", told)
        races.read(self, memory, places, frame, line)
        found = memory.cells[places]
        if not memory.written.all():
            missing = ~memory.written[places]
            if missing.any() and (frame.full(missing) & frame.running()).any():
                self._unwritten(memory, places, frame.full(missing) & frame.running(), frame, line)
        if outside is not None:
            found = np.where(outside, np.asarray(self.domain.undefined, dtype=self.domain.dtype), found)
        return found

    def _unwritten(self, memory: Memory, places: Array, missing: Array, frame: Frame, line: int) -> None:
        lane = tuple(int(i) for i in np.argwhere(missing)[0]) if missing.ndim else ()
        place = int(frame.full(places)[lane]) if lane else int(places.reshape(-1)[0])
        text = f"`{memory.buffer.name}{list(memory.index(place))}` is read before anything is written there"
        self.flaws.add("unwritten", line, memory.buffer.name, text + self.told(frame, lane), certain=False)

    def _gathered(self, memory: Memory, indices: Sequence[Value], frame: Frame, line: int) -> Array:
        if memory.lanes or not memory.written.all():
            raise Undecided(f"`{memory.buffer.name}` is read at a place that is not known", line)
        cells = [frame.spread(as_cells(self, index, "s32")) for index in indices]
        return self.domain.gather(memory.cells.reshape(memory.shape), cells, memory.buffer.dtype)

    def cast(self, before: str, after: str, line: int) -> None:
        """Notes a cast that rounds."""
        if is_float(before) and is_float(after) and not holds_all(after, before):
            self.casts.setdefault((line, before, after))
