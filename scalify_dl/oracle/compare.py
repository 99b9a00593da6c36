"""Does a distributed value hold what a correspondence says? With the first place where it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np

from scalify_dl.ir.layout import Digit, Layout, Pending, Repl
from scalify_dl.ir.mesh import primes

from .addressing import (
    Coords,
    Piece,
    digit_coordinates,
    local_part,
    local_parts,
    local_shape,
    pending_coordinates,
    pending_groups,
    pending_kind,
    piece_index,
)
from .dtypes import wrapped, wrapped_number
from .meaning.base import reducer

Array = np.ndarray[Any, Any]
PerRank = Mapping[int, Array]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The worst element: on which rank, at which local index, what should be there and what is.

    `share` is the part of all local elements (over all ranks) that are wrong. For pending values, `rank` is the first
    rank of its group and `actual` the reduction over the group.
    """

    rank: int
    index: tuple[int, ...]
    expected: float | complex | int | bool
    actual: float | complex | int | bool
    share: float


def _scaled(actual: Array, expected: Array, scale: Fraction) -> tuple[Array, Array]:
    """Both sides of `actual = scale · expected`; of integers `den · actual = num · expected`, in their type."""
    if scale == 1:
        return actual, expected
    if expected.dtype.kind in "iu":
        top, bottom = (wrapped_number(n, expected.dtype) for n in (scale.numerator, scale.denominator))
        return actual * bottom, expected * top
    return actual, np.asarray(expected * scale.numerator / scale.denominator)


ROUNDING = 2.0**-51
"""Relative error of one addition of parts, with some room."""


def wrong(actual: Array, expected: Array, tolerance: float, scale: float = 0.0, *, extended: bool = False) -> Array:
    """Where they differ. Reals: beyond `tolerance` times the largest expected magnitude, or `scale` where that is
    larger; an expected NaN says nothing, or of `extended` reals that there is NaN."""
    if actual.dtype.kind not in "fc" or expected.dtype.kind not in "fc" or tolerance == 0:
        unequal = actual != expected
        if actual.dtype.kind in "fc":
            unequal &= ~_unsaid(actual, expected, extended)
        return np.asarray(unequal)
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(expected[np.isfinite(expected)])
        # what is expected to be zero everywhere is a difference of terms: inputs are of size 1
        bound = tolerance * (max(float(magnitude.max()) if magnitude.size else 0.0, scale) or 1.0)
        near = np.abs(actual - expected) <= bound
    same = near | (actual == expected) | _unsaid(actual, expected, extended)
    return np.asarray(~same)


def _unsaid(actual: Array, expected: Array, extended: bool) -> Array:
    return np.asarray(np.isnan(expected) & np.isnan(actual) if extended else np.isnan(expected))


def _worst(actual: Array, expected: Array, bad: Array) -> tuple[int, ...]:
    with np.errstate(invalid="ignore"):
        size = np.where(bad, np.nan_to_num(np.abs(actual.astype(complex) - expected), nan=np.inf, posinf=np.inf), -1)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(size)), bad.shape))


def check(
    base: Array,
    base_piece: Piece,
    dist: PerRank,
    dist_piece: Piece,
    layout: Layout,
    coords: Coords,
    tolerance: float,
    dtype: str = "",
    *,
    extended: bool = False,
) -> Mismatch | None:
    """None where every rank holds what the layout says: scale × baseline, pending positions combined (in `dtype`, where
    that is narrower than its storage). `extended`: NaN must be NaN, pending parts of an infinity or NaN add up to it.

    Raises IndexError where the layout addresses elements that the baseline value does not have, ValueError where
    its local shape is not the value's.
    """
    base = np.asarray(base[piece_index(base_piece, base.ndim)])
    parts = {rank: np.asarray(value[piece_index(dist_piece, value.ndim)]) for rank, value in dist.items()}
    kind = pending_kind(layout)
    if kind in ("and", "or") and base.dtype.kind in "fc" and base.size:  # bits of real numbers
        return Mismatch(min(parts), (0,) * base.ndim, base.flat[0].item(), float("nan"), 1.0)
    here = {rank: coords[rank] for rank in parts}
    groups = pending_groups(layout, here) if kind else [[rank] for rank in parts]
    # a tolerance is relative to the whole value: a shard of small elements carries the rounding of the large ones
    finite = np.abs(base[np.isfinite(base)]) if base.dtype.kind in "fc" else np.zeros(0)
    scale = float(finite.max() * abs(layout.scale)) if finite.size else 0.0
    if kind == "sum" and tolerance:  # nor can a sum be more exact than its parts, which may cancel
        reals = [np.abs(x[np.isfinite(x)]) for x in parts.values() if x.dtype.kind in "fc"]
        largest = max((float(x.max(initial=0.0)) for x in reals), default=0.0)
        scale = max(scale or 1.0, ROUNDING * len(parts) * largest / tolerance)  # zeros: as `wrong` has it
    if not kind and (ranks := _small(parts, layout, here, dist)):
        actual = np.stack([parts[rank] for rank in ranks])
        actual, expected = _scaled(actual, local_parts(base, layout, [here[r] for r in ranks]), layout.scale)
        actual, expected = wrapped(actual, dtype), wrapped(expected, dtype)
        bad = wrong(actual, expected, tolerance, scale, extended=extended)
        where = bad.any(axis=tuple(range(1, bad.ndim)))
        if not where.any():
            return None
        n = int(np.argmax(where))
        at = _worst(actual[n], expected[n], bad[n])
        share = int(np.count_nonzero(bad)) / max(bad.size, 1)
        return Mismatch(ranks[n], at, expected[n][at].item(), actual[n][at].item(), share)
    done: dict[tuple[Any, ...], bool] = {}
    worst: Mismatch | None = _unlike(parts, layout, here, tolerance, extended) if kind else None
    bad_count = total = 0
    for group in groups:
        rank = group[0]
        key = (digit_coordinates(layout, here[rank]), *(id(dist[r]) for r in group))
        if key in done:
            continue
        done[key] = True
        actual = parts[rank]
        with np.errstate(invalid="ignore"):  # infinities of both signs
            for other in group[1:]:
                actual = np.asarray(reducer(kind or "sum")(actual, parts[other]))
        actual, expected = _scaled(actual, local_part(base, layout, here[rank]), layout.scale)
        actual, expected = wrapped(actual, dtype), wrapped(expected, dtype)
        if actual.shape != local_shape(layout):
            raise ValueError(f"the layout describes local shape {layout.local_shape}, the value has {actual.shape}")
        if kind == "sum" and expected.dtype.kind in "fc" and not extended:  # parts of an infinity need not add up
            expected = np.where(np.isfinite(expected), expected, np.nan)
        bad = wrong(actual, expected, tolerance, scale, extended=extended)
        count = int(np.count_nonzero(bad))
        bad_count, total = bad_count + count, total + bad.size
        if count and worst is None:
            at = _worst(actual, expected, bad)
            worst = Mismatch(rank, at, expected[at].item(), actual[at].item(), 0.0)
    if worst is None:
        return None
    return Mismatch(worst.rank, worst.index, worst.expected, worst.actual, max(bad_count / max(total, 1), worst.share))


SMALL = 1 << 14
"""Elements of a value on one rank up to which all ranks are compared at once."""


def _small(parts: PerRank, layout: Layout, coords: Coords, dist: PerRank) -> list[int]:
    """Ranks that hold different parts of a small value, of the shape that the layout says; none of any other value."""
    kinds = {(value.shape, value.dtype) for value in parts.values()}
    shape = local_shape(layout)
    if len(kinds) != 1 or math.prod(shape) > SMALL or next(iter(kinds))[0] != shape:
        return []
    first: dict[tuple[Any, ...], int] = {}
    for rank in parts:
        first.setdefault((digit_coordinates(layout, coords[rank]), id(dist[rank])), rank)
    return list(first.values())


def stands(base: Array, value: PerRank, layout: Layout, coords: Coords, tolerance: float) -> bool:
    """Whether `check` finds no mismatch, of whole values in a layout without pending positions and scale: ends at the
    first rank that holds something else."""
    finite = np.abs(base[np.isfinite(base)]) if base.dtype.kind in "fc" else np.zeros(0)
    scale = float(finite.max()) if finite.size else 0.0
    done = set()
    for rank, actual in value.items():
        key = (digit_coordinates(layout, coords[rank]), id(actual))
        if key not in done:
            done.add(key)
            if actual.shape != local_shape(layout):
                return False
            if wrong(actual, local_part(base, layout, coords[rank]), tolerance, scale).any():
                return False
    return True


def _unlike(parts: PerRank, layout: Layout, here: Coords, tolerance: float, extended: bool) -> Mismatch | None:
    """Ranks that hold the same part of a pending value, but differ."""
    first: dict[tuple[Any, ...], Array] = {}
    for rank, part in parts.items():
        key = (digit_coordinates(layout, here[rank]), pending_coordinates(layout, here[rank]))
        other = first.setdefault(key, part)
        if other is not part and other.shape == part.shape:
            bad = wrong(part, other, tolerance, extended=extended)
            if bad.any():
                at = _worst(part, other, bad)
                return Mismatch(rank, at, other[at].item(), part[at].item(), float(bad.mean()))
    return None


def default_layouts(
    base_shape: Sequence[int], local_shape: Sequence[int], mesh: Mapping[str, int], pending: str | None = None
) -> Iterator[Layout]:
    """The placements accepted unasked: dims in order, each whole or in contiguous blocks over mesh axes (or parts).

    With `pending`, axes that split nothing may hold that pending reduction instead of replicas (not accepted unasked,
    but a frequent find when looking for what a value is).
    """
    if len(base_shape) != len(local_shape):
        return
    if any(n and b % n for b, n in zip(base_shape, local_shape, strict=True)):
        return
    ratios = [b // n if n else 1 for b, n in zip(base_shape, local_shape, strict=True)]
    seen = set()
    for cut in _cuts(mesh):
        for layout in _block_layouts(ratios, local_shape, mesh, cut, pending):
            if str(layout) not in seen:
                seen.add(str(layout))
                yield layout


def interleaved(layout: Layout, local_shape: Sequence[int]) -> Iterator[Layout]:
    """The layouts that a default one becomes where cut dims are merged with dims around them: local elements are in
    several equal blocks. Example: rows of [batch, seq/2] as one dim are `batch` blocks of seq/2 rows."""
    cuts = [(axis, e) for axis, entries in layout.axes for e in entries if isinstance(e, Digit)]
    for chosen, digit in cuts:
        local = local_shape[digit.dim]
        if digit.stride != local:
            continue
        for block in range(1, local):
            if local % block == 0:
                dims = [list(entries) for entries in layout.dims]
                blocks = Digit(digit.dim, block * digit.size, local // block)
                dims[digit.dim] = [blocks, Digit(digit.dim, 1, block)]
                moved = Digit(digit.dim, block, digit.size)
                axes = [
                    (axis, [moved if (axis, e) == (chosen, digit) else e for e in entries])
                    for axis, entries in layout.axes
                ]
                yield Layout.of(dims, axes)


Cut = dict[str, list[int]]
"""Each mesh axis as positions, major to minor: whole, or its prime factors in some order."""

POSITIONS_LIMIT = 6


def _cuts(mesh: Mapping[str, int]) -> Iterator[Cut]:
    """Whole axes first; then axes of which a part may split a value and the rest repeat it."""
    yield {axis: [size] for axis, size in mesh.items()}
    factors = {axis: primes(size) for axis, size in mesh.items()}
    if sum(map(len, factors.values())) <= POSITIONS_LIMIT and any(len(found) > 1 for found in factors.values()):
        for orders in product(*(sorted(set(permutations(found))) for found in factors.values())):
            yield {axis: list(order) for axis, order in zip(mesh, orders, strict=True)}


def _block_layouts(
    ratios: Sequence[int], local_shape: Sequence[int], mesh: Mapping[str, int], cut: Cut, pending: str | None
) -> Iterator[Layout]:
    """Every way to give the positions of the mesh to the dims such that dim d is split `ratios[d]` ways."""
    positions = [(axis, n) for axis, sizes in cut.items() for n, size in enumerate(sizes) if size > 1]
    whole = len(local_shape)
    for owners in product([*range(whole), whole], repeat=len(positions)):
        split = [[p for p, owner in zip(positions, owners, strict=True) if owner == dim] for dim in range(whole)]
        if any(math.prod(cut[a][n] for a, n in at) != ratio for at, ratio in zip(split, ratios, strict=True)):
            continue
        free = [p for p, owner in zip(positions, owners, strict=True) if owner == whole]
        choices = [set(c) for c in _subsets(free)] if pending else [set()]
        for order in product(*(permutations(at) for at in split)):
            for summed in choices:
                entries: dict[str, list[Any]] = {
                    axis: [
                        Pending(pending or "sum", size) if (axis, n) in summed else Repl(size)
                        for n, size in enumerate(sizes)
                    ]
                    for axis, sizes in cut.items()
                }
                for dim, at in enumerate(order):
                    stride = local_shape[dim]
                    for axis, n in reversed(at):
                        entries[axis][n] = Digit(dim, stride, cut[axis][n])
                        stride *= cut[axis][n]
                yield Layout.of(
                    [[Digit(d, 1, n)] for d, n in enumerate(local_shape)], [(axis, entries[axis]) for axis in mesh]
                )


def _subsets(names: Sequence[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], ...]]:
    for mask in product((False, True), repeat=len(names)):
        yield tuple(name for name, taken in zip(names, mask, strict=True) if taken)


def placement(
    base: Array, dist: PerRank, mesh: Mapping[str, int], coords: Coords, tolerance: float, *, pending: bool = True
) -> Layout | None:
    """A layout of the default family that the values agree with; with `pending` also one with pending sums."""
    local = next(iter(dist.values()))
    kind = "sum" if pending and base.dtype.kind == "f" else None
    for layout in default_layouts(base.shape, local.shape, mesh, kind):
        if check(base, (), dist, (), layout, coords, tolerance) is None:
            return layout
    return None
