"""Runs a kernel once for all sizes: memory holds one formula for all its elements, over index variables.

A grid, a parallel loop and a tile have a variable for each dim; what they write is a formula in these. A store is
followed where its place has each variable around it once, as digits that cover the memory: then every element is
written, by one iteration. Serial loops are in `loops.py`. Everything else is not followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scalify_dl.algebra.effort import now
from scalify_dl.algebra.extended import Cell, Masked, add, multiply
from scalify_dl.algebra.form import Field, Form
from scalify_dl.algebra.sized import size_of
from scalify_dl.algebra.sums import greatest_cell, summed
from scalify_dl.algebra.variables import Variable
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
from scalify_dl.sizes import Size, above

from ..alone import loads, one_store
from ..domain import Undecided
from . import lengths, loops, tiles
from .elements import Elements, Named, Pick, Value
from .places import MIRROR, Key, Place, Placed, digits, matched, whole
from .states import State, Tile, stateless


@dataclass(frozen=True, slots=True)
class Frame:
    """What names mean, and which variables are around."""

    names: Mapping[str, Value | Named] = field(default_factory=dict)
    lanes: tuple[Variable, ...] = ()
    """Those of the parallel loops and of the nest of one store: each runs the same, side by side."""
    outer: tuple[Variable, ...] = ()
    """Those of the grid and of serial loops."""
    written: Mapping[int, tuple[Place, ...]] = field(default_factory=dict)
    """What a parallel loop has written so far, and at which place: another iteration may reach no other place of it."""
    later: Mapping[int, Place] = field(default_factory=dict)
    """What the serial loops around count."""
    shown: Form | None = None
    """1 where the iterations around are there, if not all are."""


class Machine:
    """One run. `cuts` says where variables are cut into digits."""

    def __init__(
        self, kernel: Kernel, basis: Field, cuts: Mapping[Key, tuple[int, ...]], deadline: float, *, reals: bool,
        called: str = "kernel", names: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.basis, self.cuts, self.deadline, self.called = kernel, basis, cuts, deadline, called
        self.names = names or {}
        self.elements = Elements(self, reals=reals)
        self.memory: dict[int, Tile | None] = {}
        self.states: dict[int, State] = {}
        """Memory that loops around change, as it is at the beginning of an iteration."""
        self.outputs = {id(b) for b in kernel.outputs}
        self.arguments = {id(b) for b in kernel.arguments}
        self.begun: set[int] = set()
        """Serial loops of which another iteration than the first is meant."""
        self.written: set[int] = set()
        """Arguments that a grid wrote which has ended: another one may read them."""
        self.added: set[int] = set()
        """Arguments that atomics add to."""

    def run(self) -> None:
        """Runs it."""
        self.body(self.kernel.body, Frame())

    def digits(self, name: Key, size: int) -> list[Variable]:
        """The variables of something of a size, the lowest first."""
        return digits((self.called, *name), size, self.cuts)

    def body(self, statements: Sequence[Statement], frame: Frame) -> Frame:
        """Statements in order."""
        for at in statements:
            if now() > self.deadline:
                raise Undecided("the kernel is too large to be followed in the time given", at.line)
            if isinstance(at, Let):
                frame = replace(frame, names={**frame.names, at.var: self.elements.let(at.value, frame)})
                continue
            try:
                frame = self.statement(at, frame)
            except Undecided as error:
                error.line = error.line or at.line
                raise
        return frame

    def statement(self, at: Statement, frame: Frame) -> Frame:
        """One statement."""
        match at:
            case Launch(vars=names, extents=extents, body=body):
                if frame.outer or frame.lanes:
                    raise Undecided("a grid within a loop")
                inner = frame
                for name, extent in zip(names, extents, strict=True):
                    inner = self.bound(name, self.number(extent, inner), inner, outer=True)
                self.body(body, inner)
                self.written |= self.memory.keys() & self.arguments
            case Alloc(buffer=buffer):
                if buffer.scope == "global" and (frame.outer or frame.lanes):
                    raise Undecided("global memory that a block makes")
                self.memory[id(buffer)] = None
            case Loop():
                inner = self.loop(at, frame)
                return replace(frame, written=inner.written) if frame.lanes else frame
            case Block() | Store():
                return self.store([at], frame)
            case If(condition=condition, then=then, otherwise=otherwise):
                truth = self.elements.value(condition, frame)
                if not isinstance(truth, bool):
                    raise Undecided("a branch that depends on elements or places")
                return replace(frame, written=self.body(then if truth else otherwise, frame).written)
            case Fill() | Copy() | Gemm() | Reduce() | Scan():
                if frame.lanes:
                    raise Undecided("a tile statement in a parallel loop")
                tiles.run(self, at, frame)
            case _:
                raise Undecided("a statement that is not followed for all sizes")
        return frame

    def number(self, x: Expr, frame: Frame) -> int:
        """How often something runs: at least once, at all sizes."""
        found = self.elements.place(x, frame).value
        if found is None:
            raise Undecided("a length that depends on where it is")
        return self.some(found)

    def some(self, extent: int) -> int:
        """How often something runs, at least once."""
        if above(extent) is not True:
            raise Undecided(f"a loop of {extent} iterations, which may be none")
        return extent

    def bound(self, name: str, extent: int, frame: Frame, *, outer: bool) -> Frame:
        """A frame in which a variable runs through its values."""
        mine = self.digits(("loop", name), extent)
        place = whole(mine)
        if (self.called, "loop", name, MIRROR) in self.cuts:
            place = Place.number(extent - 1) + place.scaled(-1)
        names = {**frame.names, name: place}
        if outer:
            return replace(frame, names=names, outer=(*frame.outer, *mine))
        return replace(frame, names=names, lanes=(*frame.lanes, *mine))

    # ---- loops ----
    def loop(self, at: Loop, frame: Frame) -> Frame:
        """Parallel loops, and serial ones around one store, as lanes; other serial ones by what they change."""
        if at.kind == "thread":
            raise Undecided("threads by hand")
        if at.kind != "serial":
            if not self.elements.place(at.start, frame).value == 0:
                raise Undecided("a loop that does not start at 0")
            return self.body(at.body, self.bound(at.var, self.number(at.extent, frame), frame, outer=False))
        if one_store(at.body):
            return self.store([at], frame)
        length = lengths.length(self, at, frame)
        if isinstance(length.most, Size) or length.most > 1 or not length.begins:
            loops.serial(self, at, length, frame)
            return frame
        return self.body(at.body, replace(frame, names={**frame.names, at.var: Place.number(length.start)}))

    # ---- stores ----
    def store(self, statements: Sequence[Statement], frame: Frame) -> Frame:
        """One store in loops and a block around it."""
        (at,) = statements
        first: Store | None = None
        reduced: set[Variable] = set()
        while not isinstance(at, Store):
            if isinstance(at, Loop):
                extent = self.number(at.extent, frame)
                if not self.elements.place(at.start, frame).value == 0:
                    raise Undecided("a loop that does not start at 0")
                frame = self.bound(at.var, extent, frame, outer=False)
            elif isinstance(at, Block):
                if any(self.elements.value(c, frame) is not True for c in at.conditions) or len(at.init) > 1:
                    raise Undecided("a block whose condition is not known")
                for axis in at.axes:
                    place = self.elements.place(axis.value, frame)
                    low, high = place.bounds()
                    if not (low >= axis.low and high < axis.high) or not axis.low == 0:
                        raise Undecided("an axis that leaves its domain")
                    if axis.kind == "R":
                        reduced |= {*self.covered(at.name, len(reduced), place, axis.high)}
                    frame = replace(frame, names={**frame.names, axis.var: place})
                if at.init:
                    if not isinstance(at.init[0], Store):
                        raise Undecided("a reduction that starts otherwise than with one store")
                    first = at.init[0]
            else:
                raise Undecided("a statement that is not followed for all sizes", at.line)
            if len(at.body) != 1:
                raise Undecided("several statements where one store is followed", at.line)
            at = at.body[0]
        return self.stored(at, first, reduced, frame)

    def stored(self, at: Store, first: Store | None, reduced: set[Variable], frame: Frame) -> Frame:
        """A store of a value, or of a reduction over the lanes that its place does not have."""
        places = tuple(self.elements.place(x, frame) for x in at.indices)
        mine = {v for place in places for v in place.variables}
        over = [v for v in frame.lanes if v not in mine]
        own = list(loads(at.value, at.buffer))
        if any(tuple(self.elements.place(x, frame) for x in load.indices) != places for load in own):
            raise Undecided("a store that reads what another iteration writes")
        if id(at.buffer) in frame.written and frame.written[id(at.buffer)] != places:
            raise Undecided("two stores of one memory to different places in a parallel loop")
        if first is not None and not {*over} <= reduced:
            raise Undecided("a reduction that starts more than once")
        if at.atomic:
            self.atomic(at, places, frame)
            return frame
        if (over and own) or first is not None:
            cell = self.reduction(at, first, places, over, frame)
        elif over:
            raise Undecided("a store that several iterations make")
        else:
            cell = self.elements.cell(at.value, frame, at.buffer.dtype)
        self.write(at.buffer, places, cell, replace(frame, lanes=tuple(v for v in frame.lanes if v not in over)))
        return replace(frame, written={**frame.written, id(at.buffer): places})

    def reduction(
        self, at: Store, first: Store | None, places: Sequence[Place], over: Sequence[Variable], frame: Frame
    ) -> Cell:
        """c = c + x or max(c, x) over lanes, from what is there at first."""
        if first is not None:
            same = tuple(self.elements.place(x, frame) for x in first.indices) == tuple(places)
            if first.buffer is not at.buffer or not same:
                raise Undecided("a reduction that starts elsewhere")
            start = self.elements.cell(first.value, frame, at.buffer.dtype)
        else:
            start = self.read(at.buffer, places, frame)
        kind, x = self.elements.updated(at.value, at.buffer, at.line)
        cell = self.elements.cell(x, frame, at.buffer.dtype)
        if kind == "add":
            return add(start, self.total(cell, over))
        return self.elements.apply("maximum", [start, greatest_cell(cell, over)], at.buffer.dtype)

    def total(self, cell: Cell, over: Sequence[Variable]) -> Cell:
        """A sum over variables."""
        if isinstance(cell, Masked):
            raise Undecided("a sum of what may be infinite")
        return summed(self.basis, cell, over)

    def atomic(self, at: Store, places: Sequence[Place], frame: Frame) -> None:
        """Added to an argument by every lane, block and iteration."""
        kind, x = self.elements.updated(at.value, at.buffer, at.line)
        if at.atomic != "sum" or kind != "add":
            raise Undecided("an atomic that is not followed for all sizes")
        self.added_to(at.buffer, places, self.elements.cell(x, frame, at.buffer.dtype), frame)

    def added_to(self, buffer: Buffer, places: Sequence[Place], cell: Cell, frame: Frame) -> None:
        """The sum of what every lane, block and iteration adds."""
        stateless(cell, "an atomic adds what depends on the iterations before")
        if id(buffer) not in self.arguments:
            raise Undecided("an atomic on what is no argument")
        if frame.shown is not None:
            cell = multiply(frame.shown, cell)
        mine = {v for place in places for v in place.variables}
        everything = (*frame.outer, *frame.lanes)
        found = self.total(cell, [v for v in everything if v not in mine])
        old = self.memory.get(id(buffer))
        if id(buffer) in self.memory and id(buffer) not in self.added:
            raise Undecided("an atomic on what is written otherwise, too")
        if old is not None:
            found = add(found, self.held(old, places, buffer))
        self.added.add(id(buffer))
        self.elements.assumed[f"`{buffer.name}` is zero when the kernel starts: atomics add to it"] = "atomic"
        self.place(buffer, places, found, {*everything} & mine)

    def write(self, buffer: Buffer, places: Sequence[Place], cell: Cell, frame: Frame) -> None:
        """All of a memory written: a local one by the lanes, an argument by every block and iteration as well."""
        around = set(frame.lanes)
        if id(buffer) in self.arguments:
            around |= set(frame.outer)
            if id(buffer) in self.memory:
                raise Undecided(f"`{buffer.name}` is written in several places")
        self.place(buffer, places, cell, around)

    def place(self, buffer: Buffer, places: Sequence[Place], cell: Cell, around: set[Variable]) -> None:
        """One formula for all elements, where the variables around are the digits of its dims."""
        dims = []
        for d, (place, size) in enumerate(zip(places, buffer.shape, strict=True)):
            dims.append(self.covered(buffer.name, d, place, size))
        used = [v for dim in dims for v in dim]
        if len(set(used)) != len(used) or set(used) != around:
            raise Undecided(f"`{buffer.name}` is written by some iterations twice, or not by each to its own place")
        self.memory[id(buffer)] = loops.noted(self, buffer, Tile(tuple(dims), cell))

    def covered(self, name: str, dim: int, place: Place, size: int) -> tuple[Variable, ...]:
        """The variables of a place as digits that make up a whole dim, the lowest first."""
        left, stride, found = {s: v for v, s in place.parts}, 1, []
        while left:
            v = left.pop(stride, None)
            if v is None:
                raise Undecided(f"`{name}` is written at places that do not follow each other in dim {dim}")
            found.append(v)
            stride = stride * size_of(v)
        if not stride == size or not place.start == 0:
            raise Undecided(f"dim {dim} of `{name}` has {size} elements, of which {stride} are written")
        return tuple(found)

    # ---- reads ----
    def read(self, buffer: Buffer, there: Sequence[Place | Pick], frame: Frame) -> Cell:
        """The element of a memory at a place."""
        if id(buffer) in self.arguments and id(buffer) not in self.outputs:
            return self.elements.argument(buffer, there)
        places = [place for place in there if isinstance(place, Place)]
        if len(places) != len(there):
            raise Undecided(f"`{buffer.name}` is read at a place that is not known")
        held = self.memory.get(id(buffer))
        if held is None:
            raise Undecided(f"`{buffer.name}` is read before anything is written there")
        if id(buffer) in self.arguments and id(buffer) not in self.written:
            raise Undecided(f"`{buffer.name}` is read while other blocks write it")
        if frame.written.get(id(buffer), tuple(places)) != tuple(places):
            raise Undecided("a parallel iteration reads what another one writes")
        return self.held(held, places, buffer)

    def held(self, tile: Tile, places: Sequence[Place], buffer: Buffer) -> Cell:
        """A formula with the variables of a place in it."""
        values: dict[Variable, Variable | int] = {}
        for dim, place in zip(tile.dims, places, strict=True):
            values |= dict(zip(dim, matched(dim, place), strict=True))
        found: Cell = Placed(self.basis, values).cell(tile.cell)
        return found
