"""Layouts as arithmetic: which baseline element a local element on a rank is (docs/facts.md, “Layout text”).

Only the text form is shared with the rest of the project; the rules' layout calculus is not used, so that the oracle
cannot be wrong in the same way as the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Digit, Entry, Layout, Pending, Window, parse_piece

Array = np.ndarray[Any, Any]
Coords = Mapping[int, Mapping[str, int]]
Piece = tuple[Window, ...]


@lru_cache(maxsize=1 << 16)
def layout_of(text: str) -> Layout:
    """Reads layout text; InputError where it is malformed."""
    try:
        return Layout.parse(text)
    except ValueError as error:
        raise InputError(
            f"`{text}` is no layout: {error}", expected="`[0:1x8][1:1x128]|tp=2:256x4`, see docs/facts.md"
        ) from None


def piece_of(text: str) -> Piece:
    """Reads piece text; InputError where it is malformed."""
    try:
        return parse_piece(text)
    except ValueError as error:
        raise InputError(f"`{text}` is no piece: {error}", expected="dim:lo:hi[,dim:lo:hi…]") from None


def piece_index(piece: Piece, rank: int) -> tuple[slice, ...]:
    """A numpy index that takes the piece of a tensor with `rank` dims."""
    bounds = {window.dim: slice(window.lo, window.hi) for window in piece}
    return tuple(bounds.get(dim, slice(None)) for dim in range(rank))


@lru_cache(maxsize=1 << 12)
def pending_kind(layout: Layout) -> str | None:
    """The pending reduction, None where there is none; InputError where two kinds are mixed."""
    kinds = {e.reducer for _, entries in layout.axes for e in entries if isinstance(e, Pending) and e.size > 1}
    if len(kinds) > 1:
        raise InputError(f"the layout `{layout}` mixes pending {' and '.join(sorted(kinds))}")
    return kinds.pop() if kinds else None


def coordinates(entries: Sequence[Entry], coord: int) -> list[int]:
    """The value of each entry at a coordinate of the axis, in mixed radix."""
    values = []
    for entry in reversed(entries):
        coord, value = divmod(coord, max(entry.size, 1))
        values.append(value)
    if coord:
        raise InputError(f"a coordinate lies outside of the axis entries {','.join(map(str, entries))}")
    return values[::-1]


def digit_coordinates(layout: Layout, at: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """What tells ranks apart: ranks with equal digit coordinates hold the same part."""
    return _digit_coordinates(layout, tuple(at.get(axis, 0) for axis, _ in layout.axes))


@lru_cache(maxsize=1 << 12)
def _digit_coordinates(layout: Layout, at: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """`digit_coordinates`, which layers of a model share; coordinates in the order of the layout's axes."""
    return tuple(
        tuple(c for e, c in zip(entries, coordinates(entries, place), strict=True) if isinstance(e, Digit))
        for (_, entries), place in zip(layout.axes, at, strict=True)
    )


def _digit_values(digits: Sequence[Digit]) -> Iterator[tuple[Digit, Array]]:
    """Each digit with its value at every index of the local dim."""
    inner = 1
    index = np.arange(int(np.prod([d.size for d in digits], dtype=np.int64)))
    for digit in reversed(digits):
        yield digit, (index // inner) % digit.size
        inner *= digit.size


def addresses(layout: Layout, base_rank: int, at: Mapping[str, int]) -> tuple[Array, ...]:
    """Index arrays, one per baseline dim, broadcastable to the local shape, for the rank with coordinates `at`."""
    return _addresses(layout, base_rank, tuple(at.get(axis, 0) for axis, _ in layout.axes))


@lru_cache(maxsize=1 << 12)
def _addresses(layout: Layout, base_rank: int, at: tuple[int, ...]) -> tuple[Array, ...]:
    """`addresses`, which layers of a model share; coordinates in the order of the layout's axes."""
    local_rank = len(layout.dims)
    index: list[Array] = [np.zeros((1,) * local_rank, dtype=np.int64) for _ in range(base_rank)]

    def add(digit: Digit, value: Array) -> None:
        if digit.stride == 0:
            return
        if digit.dim >= base_rank:
            raise InputError(f"the layout `{layout}` names dim {digit.dim} of a value with {base_rank} dims")
        index[digit.dim] = index[digit.dim] + value * digit.stride

    for local, digits in enumerate(layout.dims):
        shape = [1] * local_rank
        for digit, value in _digit_values(digits):
            shape[local] = len(value)
            add(digit, value.reshape(shape))
    for (_, entries), place in zip(layout.axes, at, strict=True):
        for entry, coord in zip(entries, coordinates(entries, place), strict=True):
            if isinstance(entry, Digit):
                add(entry, np.full((1,) * local_rank, coord, dtype=np.int64))
    return tuple(index)


def local_part(base: Array, layout: Layout, at: Mapping[str, int]) -> Array:
    """What the rank holds of a baseline value, pending reductions and scale aside. IndexError if it addresses
    outside."""
    shape = local_shape(layout)
    part = base[addresses(layout, base.ndim, at)] if base.ndim else base
    return part if part.shape == shape else np.broadcast_to(part, shape)


FEW = 1 << 12
"""Elements of all ranks up to which their places in a baseline value are kept."""


def local_parts(base: Array, layout: Layout, places: Sequence[Mapping[str, int]]) -> Array:
    """`local_part` of some ranks, along a first dim."""
    if prod(local_shape(layout)) * len(places) > FEW:
        return np.stack([local_part(base, layout, at) for at in places])
    ats = tuple(tuple(at.get(axis, 0) for axis, _ in layout.axes) for at in places)
    return np.asarray(base.reshape(-1)[flat_addresses(layout, base.shape, ats)])


@lru_cache(maxsize=1 << 10)
def flat_addresses(layout: Layout, shape: tuple[int, ...], ats: tuple[tuple[int, ...], ...]) -> Array:
    """Where the elements of some ranks are among those of a baseline value."""
    whole = np.arange(prod(shape)).reshape(shape)
    axes = [axis for axis, _ in layout.axes]
    return np.stack([local_part(whole, layout, dict(zip(axes, at, strict=True))) for at in ats])


@lru_cache(maxsize=1 << 12)
def local_shape(layout: Layout) -> tuple[int, ...]:
    """The shape that a layout says ranks hold."""
    return layout.local_shape


def pending_coordinates(layout: Layout, at: Mapping[str, int]) -> tuple[int, ...]:
    """Which part of a pending value the rank holds: ranks that differ in replicated positions only hold the same."""
    return tuple(
        c
        for axis, entries in layout.axes
        for e, c in zip(entries, coordinates(entries, at.get(axis, 0)), strict=True)
        if isinstance(e, Pending)
    )


def pending_groups(layout: Layout, coords: Coords) -> list[list[int]]:
    """Ranks that hold parts of the same pending value: equal in everything but the pending positions."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, at in coords.items():
        key = []
        for axis, entries in layout.axes:
            for entry, value in zip(entries, coordinates(entries, at.get(axis, 0)), strict=True):
                key.append(-1 if isinstance(entry, Pending) else value)
        groups.setdefault(tuple(key), []).append(rank)
    return list(groups.values())
