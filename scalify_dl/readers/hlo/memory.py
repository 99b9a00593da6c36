"""How an array lies in memory, and a `bitcast` (the same bytes read with another type) as reshapes and transposes.

    f32[4,4]{1,0:T(2,2)}     rows and columns cut in 2; in memory: row block, column block, row, column

A layout orders the dims and cuts the minor ones into tiles, again and again (XLA's “tiled layout”). Where tiles divide
what they cut, memory is a list of digits of the dims: to read it otherwise is to reshape into digits, put them in the
order of memory, and go back by the other type's digits. Where they do not, there are gaps, and nothing is said.
"""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

from .types import ArrayType

_TILES = re.compile(r"T((?:\(\d+(?:,\d+)*\))+)\Z")
_TILE = re.compile(r"\(([\d,]+)\)")


class Memory(NamedTuple):
    """The digits of every dim, major to minor, and where each of them (counted through) stands in memory."""

    digits: tuple[int, ...]
    order: tuple[int, ...]
    """Positions in `digits`, major to minor in memory."""


def order_of(type_: ArrayType) -> tuple[int, ...]:
    """Dims minor to major."""
    return type_.minor_to_major or tuple(reversed(range(len(type_.shape))))


def tiles_of(type_: ArrayType) -> list[list[int]] | None:
    """The tiles of a layout, outermost first; None where it says something else than tiles."""
    if not type_.packing:
        return []
    match = _TILES.match(type_.packing)
    return [list(map(int, tile.split(","))) for tile in _TILE.findall(match[1])] if match else None


def memory(type_: ArrayType) -> Memory | None:
    """The digits of an array in memory; None where its tiles leave gaps, or the layout says something else."""
    tiles = tiles_of(type_)
    if tiles is None:
        return None
    # a digit is (dim, stride, size); they stand as in memory, major to minor
    held = [(d, 1, type_.shape[d]) for d in reversed(order_of(type_))]
    for tile in tiles:
        if len(tile) > len(held):
            return None
        kept, cut = held[: -len(tile)], held[-len(tile) :]
        if any(size % n or not n for (_, _, size), n in zip(cut, tile, strict=True)):
            return None
        outer = [(d, stride * n, size // n) for (d, stride, size), n in zip(cut, tile, strict=True)]
        inner = [(d, stride, n) for (d, stride, _), n in zip(cut, tile, strict=True)]
        held = kept + outer + inner
    logical = sorted(range(len(held)), key=lambda i: (held[i][0], -held[i][1], -held[i][2]))
    place = {i: position for position, i in enumerate(logical)}
    return Memory(tuple(held[i][2] for i in logical), tuple(place[i] for i in range(len(held))))


def alike(a: ArrayType, b: ArrayType) -> bool:
    """Whether two arrays lie in memory alike but for dims of one element, which the tiles do not reach."""
    tiles = tiles_of(a)
    if a.packing != b.packing or tiles is None:
        return False
    reach = max(map(len, tiles), default=0)

    def squeezed(type_: ArrayType) -> tuple[list[int], bool]:
        major = [type_.shape[d] for d in reversed(order_of(type_))]
        return [n for n in major if n != 1], reach <= len(major) and 1 not in major[len(major) - reach :]

    (sizes, whole), (others, entire) = squeezed(a), squeezed(b)
    in_order = _dims(a) == sorted(_dims(a)) and _dims(b) == sorted(_dims(b))
    return sizes == others and whole and entire and in_order


def _dims(type_: ArrayType) -> list[int]:
    """Dims of more than one element, major to minor."""
    return [d for d in reversed(order_of(type_)) if type_.shape[d] != 1]


Step = tuple[str, tuple[int, ...]]
"""`reshape` to a shape, or `transpose` by an order."""


def reread(source: ArrayType, target: ArrayType) -> list[Step] | None:
    """The steps that read the bytes of `source` as `target`; None where the layouts do not say.

    Both hold elements of one type, equally many of them.
    """
    if source.shape == target.shape and order_of(source) == order_of(target) and source.packing == target.packing:
        return []
    if alike(source, target):
        return [("reshape", target.shape)]
    before, after = memory(source), memory(target)
    if before is None or after is None:
        return None
    stored = tuple(after.digits[i] for i in after.order)
    back = tuple(after.order.index(i) for i in range(len(after.order)))
    shape, found = source.shape, []
    steps: list[Step] = [
        ("reshape", before.digits),
        ("transpose", before.order),
        ("reshape", stored),
        ("transpose", back),
        ("reshape", target.shape),
    ]
    for kind, numbers in steps:
        after_step = numbers if kind == "reshape" else tuple(shape[i] for i in numbers)
        if numbers != (shape if kind == "reshape" else tuple(range(len(shape)))):
            found.append((kind, numbers))
        shape = after_step
    assert prod(shape) == prod(source.shape)
    return found
