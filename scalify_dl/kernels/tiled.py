"""Tile statements: copies, fills, products, reductions and running sums of boxes of buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scalify_dl.oracle.dtypes import holds_all, is_float
from scalify_dl.readers.tir.syntax import Copy, Fill, Gemm, Reduce, Region, Scan

from . import races
from .domain import Array, Cells, Undecided
from .evaluate import as_cells, evaluate
from .frame import Frame

if TYPE_CHECKING:
    from .machine import Machine

_REDUCERS = {"sum": "add", "max": "maximum", "min": "minimum"}


def run(machine: Machine, statement: Copy | Fill | Gemm | Reduce | Scan, frame: Frame) -> None:
    """One tile statement, in one block at a time."""
    if any(n > 1 for n in frame.shape):
        raise Undecided("a tile statement in a parallel loop", statement.line)
    if frame.guard is not None:
        raise Undecided("a tile statement under a condition that depends on elements", statement.line)
    tile = Tile(machine, frame, statement.line)
    match statement:
        case Fill(region=region, value=value):
            cells = as_cells(machine, evaluate(machine, value, frame), region.buffer.dtype)
            tile.write(region, np.broadcast_to(cells.reshape(()), region.shape))
        case Copy(source=source, target=target, atomic=atomic):
            cells = tile.read(source, padded=True).reshape(target.shape)
            tile.moved(source, target)
            cells = tile.cast(cells, source.buffer.dtype, target.buffer.dtype)
            tile.write(target, cells, atomic)
        case Gemm():
            tile.product(statement)
        case Reduce():
            tile.reduce(statement)
        case Scan():
            tile.scan(statement)


class Tile:
    """What a tile statement does to memory."""

    def __init__(self, machine: Machine, frame: Frame, line: int) -> None:
        self.machine, self.frame, self.line = machine, frame, line

    def places(self, region: Region) -> tuple[Array, Array]:
        """Places of a box, and which of them lie in the buffer."""
        memory = self.machine.memory(region.buffer, self.line)
        inside: Array = np.ones((1,) * len(region.starts), dtype=bool)
        indices = []
        rank = len(region.starts)
        for d, (start, extent, size) in enumerate(zip(region.starts, region.extents, region.buffer.shape, strict=True)):
            said = evaluate(self.machine, start, self.frame)
            first = int(self.machine.whole_of(said, self.frame, self.line, "where a tile starts").reshape(-1)[0])
            if isinstance(said, Cells) and not 0 <= first < size:
                where = f"{self.machine.kernel.file}:{self.line}: a tile of `{region.buffer.name}`"
                self.machine.strayed.append(f"{where} starts at {first} of dim {d}, which elements of arguments say")
            at = (first + np.arange(extent)).reshape([extent if i == d else 1 for i in range(rank)])
            inside = inside & (at >= 0) & (at < size)
            indices.append(np.clip(at, 0, size - 1))
        lanes = [np.zeros((1,) * rank, dtype=np.int64) for _ in memory.lanes]
        places = np.broadcast_to(memory.places(indices, lanes), region.extents)
        return places.reshape(region.shape), np.broadcast_to(inside, region.extents).reshape(region.shape)

    def _within(self, shape: tuple[int, ...]) -> Frame:
        names = dict(self.frame.names.items())
        kinds, threads, inner = ("serial",) * len(shape), ("",) * len(shape), (0,) * len(shape)
        return replace(self.frame, names=names, shape=shape, kinds=kinds, threads=threads, inner=inner, mask=None)

    def read(self, region: Region, *, padded: bool = False) -> Array:
        """The elements of a box: 0 outside of a global buffer where `padded`, else a flaw there."""
        machine = self.machine
        memory = machine.memory(region.buffer, self.line)
        places, inside = self.places(region)
        cells = memory.cells[places]
        if not inside.all():
            if not padded or memory.buffer.scope != "global":
                self._outside(region, "read")
            zero = machine.domain.lift(np.array(0), region.buffer.dtype)
            cells = np.where(inside, cells, zero)
        missing = ~memory.written[places] & inside
        if missing.any():
            machine._unwritten(memory, places, missing, self._within(region.shape), self.line)
        frame = replace(self._within(region.shape), mask=inside)
        races.read(machine, memory, places, frame, self.line)
        return cells

    def moved(self, source: Region, target: Region) -> None:
        """A flaw where threads read of a buffer what others write, because a box is copied onto a part of itself."""
        if source.buffer is not target.buffer:
            return
        (there, _), (here, _) = self.places(source), self.places(target)
        if np.isin(there, here).any() and not np.array_equal(there.reshape(-1), here.reshape(-1)):
            text = f"`{source.buffer.name}` is copied onto a part of itself: threads read what others write"
            self.machine.flaws.add("race", self.line, source.buffer.name, text, certain=False)

    def _outside(self, region: Region, what: str) -> None:
        told = self.machine.told(self.frame, ())
        text = f"a tile of `{region.buffer.name}` is {what} outside of its shape {region.buffer.shape}{told}"
        self.machine.flaws.add("bounds", self.line, region.buffer.name, text)

    def write(self, region: Region, cells: Array, atomic: str = "") -> None:
        """Elements of a box; what lies outside of a global buffer is not written."""
        machine = self.machine
        memory = machine.memory(region.buffer, self.line)
        places, inside = self.places(region)
        if not inside.all() and memory.buffer.scope != "global":
            self._outside(region, "written")
        at, values = places[inside], np.broadcast_to(cells, region.shape)[inside]
        if atomic:
            old = memory.cells[at]
            missing = ~memory.written[at]
            if missing.any():
                if atomic != "sum" or id(region.buffer) not in machine.arguments:
                    machine._unwritten(memory, at, missing, self._within(at.shape), self.line)
                else:
                    machine.zeroed.add(region.buffer.name)
                    old = np.where(missing, machine.domain.lift(np.array(0), region.buffer.dtype), old)
            dtype = region.buffer.dtype
            values = machine.domain.apply(_REDUCERS[atomic], dtype, [old, values], dtype)
        frame = replace(self._within(region.shape), mask=inside)
        races.write(machine, memory, places, inside, frame, self.line, atomic)
        memory.cells[at] = values
        memory.note(at, self.line, self.frame.block[1] if self.frame.block else 0)

    def cast(self, cells: Array, before: str, after: str) -> Array:
        """Elements in another type."""
        if before == after:
            return cells
        self.machine.cast(before, after, self.line)
        return self.machine.domain.apply("convert", after, [cells], before)

    def _operand(self, region: Region, dtype: str) -> Array:
        """An operand of a product in the type of the sum: a narrower sum does not round what it adds."""
        cells, mine = self.read(region), region.buffer.dtype
        if mine == dtype or (is_float(mine) and is_float(dtype) and not holds_all(dtype, mine)):
            return cells
        return self.machine.domain.apply("convert", dtype, [cells], mine)

    def product(self, gemm: Gemm) -> None:
        """c += a @ b."""
        dtype = gemm.c.buffer.dtype
        a, b = (x.reshape(x.shape[-2:]) for x in (self._operand(gemm.a, dtype), self._operand(gemm.b, dtype)))
        a, b = a.T if gemm.transpose_a else a, b if gemm.transpose_b else b.T
        self.machine.multiplied += a.shape[0] * b.shape[0] * a.shape[1]
        memory = self.machine.memory(gemm.c.buffer, self.line)
        if not gemm.clear and self._whole(gemm.c) and memory.written.all() and not memory.lanes:
            self.machine.accumulators.setdefault((self.line, dtype))
            memory.pending.append((np.array(a), np.array(b)))
            return
        cells = self.machine.domain.contract(np.ascontiguousarray(a), np.ascontiguousarray(b), dtype)
        if not gemm.clear:
            old = self.read(gemm.c).reshape(cells.shape)
            cells = self.machine.domain.apply("add", dtype, [old, cells], dtype)
        if is_float(dtype):
            self.machine.accumulators.setdefault((self.line, dtype))
        self.write(gemm.c, cells.reshape(gemm.c.shape))

    def _whole(self, region: Region) -> bool:
        """Whether a box is all of a tile of two dims, that no other block sees."""
        buffer = region.buffer
        return buffer.scope != "global" and len(buffer.shape) == 2 and region.extents == buffer.shape

    def reduce(self, reduce: Reduce) -> None:
        """A reduction over one dim."""
        domain = self.machine.domain
        before, after = reduce.source.buffer.dtype, reduce.target.buffer.dtype
        cells = self.read(reduce.source)
        name = reduce.reducer
        if name.startswith("abs-"):
            cells, name = domain.apply("abs", before, [cells], before), name.removeprefix("abs-")
        found = self.cast(domain.fold(_REDUCERS[name], before, np.moveaxis(cells, reduce.dim, -1)), before, after)
        found = found.reshape(reduce.target.shape)
        if not reduce.clear:
            found = domain.apply(_REDUCERS[name], after, [self.read(reduce.target), found], after)
        self.write(reduce.target, found)

    def scan(self, scan: Scan) -> None:
        """A running sum."""
        domain, dtype = self.machine.domain, scan.source.buffer.dtype
        cells = np.moveaxis(self.read(scan.source), scan.dim, 0)
        cells = cells[::-1] if scan.reverse else cells
        rows = [cells[0]]
        for row in cells[1:]:
            rows.append(domain.apply("add", dtype, [rows[-1], row], dtype))
        found = np.stack(rows[::-1] if scan.reverse else rows)
        self.write(scan.target, self.cast(np.moveaxis(found, 0, scan.dim), dtype, scan.target.buffer.dtype))
