"""Does a distributed value hold what a correspondence says? With the first place where it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np

from scalify_dl.facts.layout import Digit, Layout, Pending, Repl

from .addressing import Coords, Piece, digit_coordinates, local_part, pending_groups, pending_kind, piece_index
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


def _scaled(value: Array, scale: Fraction) -> Array:
    if scale == 1:
        return value
    return np.asarray(value * scale.numerator / scale.denominator)


def wrong(actual: Array, expected: Array, tolerance: float, scale: float = 0.0) -> Array:
    """Where they differ. Reals: beyond `tolerance` times the largest expected magnitude, or `scale` where that is
    larger; an expected NaN says nothing."""
    if actual.dtype.kind not in "fc" or expected.dtype.kind not in "fc" or tolerance == 0:
        unequal = actual != expected
        if actual.dtype.kind in "fc":
            unequal &= ~np.isnan(expected)
        return np.asarray(unequal)
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(expected[np.isfinite(expected)])
        bound = tolerance * max(float(magnitude.max()) if magnitude.size else 0.0, scale, 1e-30)
        near = np.abs(actual - expected) <= bound
    same = near | (actual == expected) | np.isnan(expected)
    return np.asarray(~same)


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
) -> Mismatch | None:
    """None where every rank holds what the layout says: scale × baseline, pending positions combined.

    Raises IndexError where the layout addresses elements that the baseline value does not have, ValueError where
    its local shape is not the value's.
    """
    base = np.asarray(base[piece_index(base_piece, base.ndim)])
    parts = {rank: np.asarray(value[piece_index(dist_piece, value.ndim)]) for rank, value in dist.items()}
    kind = pending_kind(layout)
    here = {rank: coords[rank] for rank in parts}
    groups = pending_groups(layout, here) if kind else [[rank] for rank in parts]
    # a tolerance is relative to the whole value: a shard of small elements carries the rounding of the large ones
    finite = np.abs(base[np.isfinite(base)]) if base.dtype.kind in "fc" else np.zeros(0)
    scale = float(finite.max() * abs(layout.scale)) if finite.size else 0.0
    done: dict[tuple[Any, ...], bool] = {}
    worst: Mismatch | None = None
    bad_count = total = 0
    for group in groups:
        rank = group[0]
        key = (digit_coordinates(layout, here[rank]), *(id(dist[r]) for r in group))
        if key in done:
            continue
        done[key] = True
        actual = parts[rank]
        for other in group[1:]:
            actual = np.asarray(reducer(kind or "sum")(actual, parts[other]))
        if actual.shape != layout.local_shape:
            raise ValueError(f"the layout describes local shape {layout.local_shape}, the value has {actual.shape}")
        expected = _scaled(local_part(base, layout, here[rank]), layout.scale)
        bad = wrong(actual, expected, tolerance, scale)
        count = int(np.count_nonzero(bad))
        bad_count, total = bad_count + count, total + bad.size
        if count and worst is None:
            at = _worst(actual, expected, bad)
            worst = Mismatch(rank, at, expected[at].item(), actual[at].item(), 0.0)
    if worst is None:
        return None
    return Mismatch(worst.rank, worst.index, worst.expected, worst.actual, bad_count / max(total, 1))


def default_layouts(
    base_shape: Sequence[int], local_shape: Sequence[int], mesh: Mapping[str, int], pending: str | None = None
) -> Iterator[Layout]:
    """The placements accepted unasked: dims in order, each whole or in contiguous blocks over mesh axes.

    With `pending`, axes that split nothing may hold that pending reduction instead of replicas (not accepted unasked,
    but a frequent find when looking for what a value is).
    """
    if len(base_shape) != len(local_shape):
        return
    if any(n and b % n for b, n in zip(base_shape, local_shape, strict=True)):
        return
    ratios = [b // n if n else 1 for b, n in zip(base_shape, local_shape, strict=True)]
    axes = [axis for axis, size in mesh.items() if size > 1]
    whole = len(base_shape)
    seen = set()
    for owners in product([*range(whole), whole], repeat=len(axes)):
        split = [[a for a, owner in zip(axes, owners, strict=True) if owner == dim] for dim in range(whole)]
        if any(math.prod(mesh[a] for a in names) != ratio for names, ratio in zip(split, ratios, strict=True)):
            continue
        free = [a for a, owner in zip(axes, owners, strict=True) if owner == whole]
        choices = [set(c) for c in _subsets(free)] if pending else [set()]
        for order in product(*(permutations(names) for names in split)):
            for summed in choices:
                entries: dict[str, list[Any]] = {
                    a: ([Pending(pending or "sum", mesh[a])] if a in summed else [Repl(mesh[a])]) for a in mesh
                }
                for dim, names in enumerate(order):
                    stride = local_shape[dim]
                    for axis in reversed(names):
                        entries[axis] = [Digit(dim, stride, mesh[axis])]
                        stride *= mesh[axis]
                layout = Layout.of(
                    [[Digit(d, 1, n)] for d, n in enumerate(local_shape)], [(axis, entries[axis]) for axis in mesh]
                )
                if str(layout) not in seen:
                    seen.add(str(layout))
                    yield layout


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
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
