"""Integers and truth values that are known: what ops make of them, on each rank.

A known value is an array of its shape with a first dim more: one row for each rank, or a single one where it is the
same on all. Where a type could wrap round, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from scalify_dl.ir.dtypes import integers_of
from scalify_dl.ir.graph import Op, Tensor

__all__ = ["Numbers", "clamped", "computed"]

Numbers = npt.NDArray[np.int64]

ELEMENTS = 4096
LARGE = 2**31

_BINARY: dict[str, Callable[[Numbers, Numbers], npt.NDArray[np.generic]]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip
_TRUTHS: dict[str, Callable[[Numbers, Numbers], npt.NDArray[np.generic]]] = {
    "and": np.minimum, "or": np.maximum, "xor": np.not_equal
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Numbers, Numbers], npt.NDArray[np.generic]]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal
}  # fmt: skip


def computed(op: Op, xs: Sequence[Numbers]) -> Numbers | None:
    """What an op with one result makes of known operands; None where that is not known."""
    result = op.result
    if result.dtype != "pred" and result.dtype[0] not in "su":
        return None
    found = _meaning(op, xs, result)
    if found is None or found.size > ELEMENTS * max(1, found.shape[0]):
        return None
    numbers = np.asarray(found, dtype=np.int64)
    return numbers if _fits(numbers, result.dtype) else None


def _fits(numbers: Numbers, dtype: str) -> bool:
    if dtype == "pred":
        return bool(((numbers == 0) | (numbers == 1)).all())
    held = integers_of(dtype)
    return bool((numbers >= max(held.start, -LARGE)).all() and (numbers < min(held.stop, LARGE)).all())


def _meaning(op: Op, xs: Sequence[Numbers], result: Tensor) -> npt.NDArray[np.generic] | None:
    kind, shape = op.kind, result.shape
    if kind == "constant":
        return _constant(result)
    if kind == "iota":
        (dim,) = op.numbers["dimension"]
        line = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        return np.broadcast_to(line, shape)[None] if line.size <= ELEMENTS else None
    if not xs:
        return None
    if kind == "compare":
        return _COMPARISONS[op.symbols["direction"][0]](*_even(xs))
    if kind == "select":
        mask, yes, no = _even(xs)
        return np.where(mask != 0, yes, no)
    if kind == "clamp":
        least, x, most = _even(xs)
        return np.minimum(np.maximum(x, least), most)
    if kind == "not" and result.dtype == "pred":
        return 1 - xs[0]
    if kind in _TRUTHS and result.dtype == "pred":
        return _TRUTHS[kind](*_even(xs))
    if kind in _BINARY and result.dtype != "pred":
        return _BINARY[kind](*_even(xs))
    if kind in ("divide", "remainder") and result.dtype != "pred":
        x, y = _even(xs)
        if (x < 0).any() or (y <= 0).any():
            return None
        return x // y if kind == "divide" else x % y
    if kind == "reduce" and result.dtype == "pred" and len(xs) == 1 and op.symbols.get("reducer") in (["and"], ["or"]):
        over = tuple(dim + 1 for dim in op.numbers.get("dimensions", ()))
        extreme = np.minimum if op.symbols["reducer"] == ["and"] else np.maximum
        return np.asarray(extreme.reduce(xs[0], axis=over, initial=int(extreme is np.minimum)))
    if kind in ("convert", "copy"):
        return np.asarray(xs[0] != 0) if result.dtype == "pred" else xs[0]
    if kind == "reshape":
        return xs[0].reshape((xs[0].shape[0], *shape))
    if kind == "broadcast":
        wide = [1] * len(shape)
        for d, size in zip(op.numbers.get("dimensions", ()), xs[0].shape[1:], strict=True):
            wide[d] = size
        return np.broadcast_to(xs[0].reshape((xs[0].shape[0], *wide)), (xs[0].shape[0], *shape))
    if kind == "slice" and not op.rank_numbers:
        steps = zip(op.numbers["start"], op.numbers["limit"], op.numbers["stride"], strict=True)
        return xs[0][(slice(None), *(slice(*step) for step in steps))]
    if kind == "dynamic-slice":
        starts = clamped(xs[1:], xs[0].shape[1:], shape)
        return None if starts is None else xs[0][_window(starts, shape)]
    if kind == "dynamic-update-slice":
        starts = clamped(xs[2:], shape, xs[1].shape[1:])
        if starts is None:
            return None
        ranks = max(xs[0].shape[0], xs[1].shape[0])
        written = np.broadcast_to(xs[0], (ranks, *shape)).copy()
        written[_window(starts, xs[1].shape[1:])] = xs[1]
        return written
    return None


def clamped(starts: Sequence[Numbers], shape: Sequence[int], window: Sequence[int]) -> list[int] | None:
    """Where a window of that shape begins, moved inside; None where that differs between ranks."""
    if any((start != start[:1]).any() for start in starts):
        return None
    return [
        min(max(int(start.flat[0]), 0), whole - size) for start, whole, size in zip(starts, shape, window, strict=True)
    ]


def _window(starts: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    return (slice(None), *(slice(a, a + n) for a, n in zip(starts, shape, strict=True)))


def _even(xs: Sequence[Numbers]) -> Sequence[Numbers]:
    ranks = max(x.shape[0] for x in xs)
    return [np.broadcast_to(x, (ranks, *x.shape[1:])) for x in xs]


def _constant(result: Tensor) -> Numbers | None:
    literal = result.literal
    if literal is None:
        return None
    if literal.items is not None:
        return np.array(literal.items, dtype=np.int64).reshape((1, *result.shape)) if _small(literal.items) else None
    if literal.rational is None or literal.rational.denominator != 1 or abs(literal.rational) >= LARGE:
        return None
    return np.full((1, *result.shape), int(literal.rational), dtype=np.int64)


def _small(items: Sequence[int]) -> bool:
    return len(items) <= ELEMENTS and all(abs(n) < LARGE for n in items)
