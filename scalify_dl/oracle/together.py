"""Ops on all ranks at once: small values of one shape, stacked along a first dim of ranks.

A shrunk program is many ops on few elements, so that a call for each rank costs more than what it computes. What has no
way to be run together, or values that are large, is run rank by rank (`execute`); both give the same numbers but for
the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from .meaning import MEANINGS, Call
from .meaning.base import accumulated, reduce_over, reducer
from .meaning.contraction import dot_general
from .meaning.elementwise import PLAIN
from .meaning.structural import broadcasted
from .program import Op, Tensor

Array = np.ndarray[Any, Any]
SMALL = 4096
"""Elements of a value on one rank up to which ranks are run together."""


class Stacked(dict[int, Array]):
    """A value by rank, all of them in one array, in the order of the ranks. Parts are made when they are asked for, and
    kept: which ranks hold one object says which hold one value."""

    __slots__ = ("ranks", "whole")

    def __init__(self, ranks: tuple[int, ...], whole: Array) -> None:
        self.ranks, self.whole = ranks, whole

    def __missing__(self, rank: int) -> Array:
        part = self[rank] = self.whole[_places(self.ranks)[rank], ...]
        return part

    def __iter__(self) -> Iterator[int]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.ranks)

    def keys(self) -> Any:
        """The ranks."""
        return self.ranks

    def values(self) -> Any:
        """The parts, in the order of the ranks."""
        return [self[rank] for rank in self.ranks]

    def items(self) -> Any:
        """Ranks with their parts."""
        return [(rank, self[rank]) for rank in self.ranks]


@cache
def _places(ranks: tuple[int, ...]) -> dict[int, int]:
    return {rank: place for place, rank in enumerate(ranks)}


def run_together(
    op: Op, ranks: tuple[int, ...], operands: Sequence[Mapping[int, Array]], call: Call, types: Sequence[Tensor]
) -> Stacked | None:
    """The only result of an op on all ranks; None where the op has to be run rank by rank."""
    run = _TOGETHER.get(op.kind)
    if run is None or op.by_rank or len(types) != 1:
        return None
    wholes = []
    for value in operands:
        if isinstance(value, Stacked) and value.ranks == ranks:
            wholes.append(value.whole)
            continue
        first = value[ranks[0]]
        if first.size > SMALL:
            return None
        same = all(value[rank] is first for rank in ranks)
        wholes.append(first[None] if same else np.array([value[rank] for rank in ranks]))
    found = run(call, len(ranks), wholes)
    if found is None or found.size > SMALL * len(ranks):
        return None
    return Stacked(ranks, found)


def meet_together(op: Op, value: Mapping[int, Array]) -> Stacked | None:
    """What ranks get of an all-reduce or all-gather in groups of one size; None where each group has to meet by
    itself."""
    if not isinstance(value, Stacked) or op.kind not in ("all-reduce", "all-gather"):
        return None
    places, whole = _places(value.ranks), value.whole
    groups = op.groups or [sorted(value.ranks)]
    members = np.array([[places[rank] for rank in group] for group in groups if len(group) == len(groups[0])])
    if members.size != len(value.ranks) or len({*members.flat}) != members.size:
        return None
    parts = [whole[column] for column in members.T]
    if op.kind == "all-gather":
        if whole.size * len(parts) > SMALL * len(value.ranks):
            return None
        total = np.concatenate(parts, axis=op.number("dimension", 0)[0] + 1)
    else:
        total, function = parts[0], reducer(op.symbol("reducer", "sum"))
        for part in parts[1:]:
            total = np.asarray(function(total, part))
    found = np.empty((len(value.ranks), *total.shape[1:]), total.dtype)
    for column in members.T:
        found[column] = total
    return Stacked(value.ranks, found)


def _elementwise(call: Call, count: int, xs: list[Array]) -> Array | None:
    """One lane of an operand goes with all of the others."""
    if any(x.shape[1:] != call.results[0].shape for x in xs):
        return None
    if call.op.kind in PLAIN:
        return np.asarray(PLAIN[call.op.kind](*xs))
    return MEANINGS[call.op.kind](call, xs)[0]


def _reshape(call: Call, count: int, xs: list[Array]) -> Array:
    return np.ascontiguousarray(xs[0]).reshape((count, *call.results[0].shape))


def _transpose(call: Call, count: int, xs: list[Array]) -> Array:
    return np.transpose(xs[0], [0, *(d + 1 for d in call.numbers("dimensions", []))])


def _broadcast(call: Call, count: int, xs: list[Array]) -> Array:
    dims = [0, *(d + 1 for d in call.numbers("dimensions", []))]
    return broadcasted(xs[0], (count, *call.results[0].shape), dims)


def _slice(call: Call, count: int, xs: list[Array]) -> Array:
    start, limit = call.numbers("start", []), call.numbers("limit", [])
    stride = call.numbers("stride", [1] * len(start))
    return xs[0][(slice(None), *(slice(*bounds) for bounds in zip(start, limit, stride, strict=True)))]


def _concatenate(call: Call, count: int, xs: list[Array]) -> Array:
    return np.concatenate([_full(x, count) for x in xs], axis=call.number("dimension") + 1)


def _reduce(call: Call, count: int, xs: list[Array]) -> Array | None:
    name = call.symbol("reducer")
    if name in ("argmax", "argmin"):
        return None
    dims = tuple(d + 1 for d in call.numbers("dimensions", []))
    return reduce_over(name, accumulated(xs[0], call.results[0].dtype), dims, call.results[0].dtype)


def _dot(call: Call, count: int, xs: list[Array]) -> Array:
    x, y = (accumulated(_full(v, count), call.results[0].dtype) for v in xs)
    sides = [[d + 1 for d in call.numbers(f"{side}_{which}_dims", [])] for which in ("batch", "contracting")
             for side in ("lhs", "rhs")]  # fmt: skip
    return dot_general(x, y, ([0, *sides[0]], [0, *sides[1]]), (sides[2], sides[3]))


def _full(x: Array, count: int) -> Array:
    return x if len(x) == count else np.repeat(x, count, axis=0)


_TOGETHER: dict[str, Callable[[Call, int, list[Array]], Array | None]] = {
    **dict.fromkeys([*PLAIN, "compare", "convert"], _elementwise),
    "reshape": _reshape, "transpose": _transpose, "broadcast": _broadcast, "slice": _slice,
    "concatenate": _concatenate, "reduce": _reduce, "dot": _dot,
}  # fmt: skip
