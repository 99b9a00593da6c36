"""Tile statements as formulas: each element of the target from those of the sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scalify_dl.algebra.extended import Cell, add, finite
from scalify_dl.algebra.sums import greatest_cell
from scalify_dl.readers.tir.syntax import Copy, Fill, Gemm, Reduce, Region, Scan, Statement

from ..domain import Undecided
from .elements import Pick
from .places import Place, whole
from .positions import compared

if TYPE_CHECKING:
    from .machine import Frame, Machine


def _read(machine: Machine, region: Region, mine: Sequence[Place], frame: Frame, inner: Frame) -> Cell:
    """The element of a box at indices within it; an element of an argument may say where it is."""
    left = list(mine)
    found: list[Place | Pick] = []
    for start, gone in zip(region.starts, region.dropped, strict=True):
        place, more = machine.elements.index(start, frame), Place.number(0) if gone else left.pop(0)
        if isinstance(place, Pick) and more.value != 0:
            raise Undecided("a tile of several rows from where an element says")
        found.append(place if isinstance(place, Pick) else place + more)
    return machine.read(region.buffer, found, inner)


def _index(machine: Machine, region: Region, mine: Sequence[Place], frame: Frame) -> list[Place]:
    """The places of a box at indices within it; `mine` are those of the dims that it has."""
    left, found = list(mine), []
    for start, gone in zip(region.starts, region.dropped, strict=True):
        place = machine.elements.place(start, frame)
        found.append(place if gone else place + left.pop(0))
    return found


def _within(
    machine: Machine, shape: Sequence[int], at: Statement, frame: Frame, what: str
) -> tuple[list[Place], Frame]:
    """Indices of a tile, as lanes."""
    places, lanes = [], []
    for d, size in enumerate(shape):
        mine = machine.digits((what, at.line, id(at), d), size)
        lanes += mine
        places.append(whole(mine))
    return places, replace(frame, lanes=tuple(lanes), written={})


def run(machine: Machine, at: Fill | Copy | Gemm | Reduce | Scan, frame: Frame) -> None:
    """One tile statement: each element of its target from those of its sources."""
    match at:
        case Fill(region=region, value=value):
            places, inner = _within(machine, region.shape, at, frame, "fill")
            cell = machine.elements.cell(value, frame, region.buffer.dtype)
            machine.write(region.buffer, _index(machine, region, places, frame), cell, inner)
        case Copy(source=source, target=target):
            _copy(machine, at, source, target, frame)
        case Gemm(c=c):
            places, inner = _within(machine, c.shape, at, frame, "gemm")
            *_, i, j = places
            depth = at.a.shape[-2 if at.transpose_a else -1]
            k = machine.digits(("depth", at.line, id(at)), depth)
            sides = []
            for region, turned, one in (
                (at.a, at.transpose_a, (i, whole(k))), (at.b, at.transpose_b, (whole(k), j)),
            ):  # fmt: skip
                extra = [Place.number(0)] * (len(region.shape) - 2)
                x = _read(machine, region, [*extra, *(one[::-1] if turned else one)], frame, inner)
                sides.append(machine.elements.operand(x, region.buffer.dtype, c.buffer.dtype))
            cell = machine.total(machine.elements.apply("multiply", sides, c.buffer.dtype), k)
            there = _index(machine, c, places, frame)
            if not at.clear:
                cell = add(machine.read(c.buffer, there, inner), cell)
            machine.write(c.buffer, there, cell, inner)
        case Reduce(source=source, target=target):
            _reduce(machine, at, source, target, frame)
        case Scan():
            _scan(machine, at, frame)


def _copy(machine: Machine, at: Copy, source: Region, target: Region, frame: Frame) -> None:
    """A copy; an atomic one is added."""
    if source.buffer is target.buffer:
        raise Undecided("a copy within one memory")
    sizes = [n for n in target.shape if n != 1]
    places, inner = _within(machine, sizes, at, frame, "copy")

    def of(region: Region) -> list[Place]:
        left = iter(places)
        return [Place.number(0) if n == 1 else next(left) for n in region.shape]

    cell = _read(machine, source, of(source), frame, inner)
    cell = machine.elements.cast(cell, source.buffer.dtype, target.buffer.dtype)
    there = _index(machine, target, of(target), frame)
    if at.atomic not in ("", "sum"):
        raise Undecided("an atomic other than a sum")
    if at.atomic:
        machine.added_to(target.buffer, there, cell, inner)
    else:
        machine.write(target.buffer, there, cell, inner)


def _reduce(machine: Machine, at: Reduce, source: Region, target: Region, frame: Frame) -> None:
    """A reduction over one dim."""
    kept = source.shape[: at.dim] + source.shape[at.dim + 1 :]
    places, inner = _within(machine, kept, at, frame, "reduce")
    over = machine.digits(("over", at.line, id(at)), source.shape[at.dim])
    there = [*places[: at.dim], whole(over), *places[at.dim :]]
    x = machine.read(source.buffer, _index(machine, source, there, frame), inner)
    name = at.reducer
    if name.startswith("abs-"):
        x, name = machine.elements.apply("abs", [x], source.buffer.dtype), name.removeprefix("abs-")
    if name not in ("sum", "max"):
        raise Undecided(f"a reduction by `{name}`")
    found = machine.total(x, over) if name == "sum" else greatest_cell(x, over)
    found = machine.elements.cast(found, source.buffer.dtype, target.buffer.dtype)
    mine = list(places) if kept else [Place.number(0)]
    if len(target.shape) > len(mine):
        mine = [*places[: at.dim], Place.number(0), *places[at.dim :]]
    goal = _index(machine, target, mine, frame)
    if not at.clear:
        old = machine.read(target.buffer, goal, inner)
        kind = "add" if name == "sum" else "maximum"
        found = machine.elements.apply(kind, [old, found], target.buffer.dtype)
    machine.write(target.buffer, goal, found, inner)


def _scan(machine: Machine, at: Scan, frame: Frame) -> None:
    """A running sum along one dim: of what stands up to each place, or from there on."""
    places, inner = _within(machine, at.source.shape, at, frame, "scan")
    over = machine.digits(("over", at.line, id(at)), at.source.shape[at.dim])
    there = [*places[: at.dim], whole(over), *places[at.dim + 1 :]]
    x = finite(machine.read(at.source.buffer, _index(machine, at.source, there, frame), inner), "a running sum")
    shown = compared(machine.basis, "GE" if at.reverse else "LE", whole(over), places[at.dim])
    found = machine.elements.cast(machine.total(shown * x, over), at.source.buffer.dtype, at.target.buffer.dtype)
    machine.write(at.target.buffer, _index(machine, at.target, places, frame), found, inner)
