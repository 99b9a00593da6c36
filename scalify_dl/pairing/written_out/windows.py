"""Writes and reads of one window at numbers that are known: `x.at[i].set(y)`, `x.at[i].add(y)`, `x.at[i].get()`.

A front end writes them as a scatter or a gather of a single index vector. They are a value with a part of it written
over, and a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scalify_dl.ir.graph import Op

from .numbers import Numbers

__all__ = ["Window", "is_one_window", "window_of"]

LOOSE = {"scatter": ("inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims"),
         "gather": ("collapsed_slice_dims", "start_index_map", "operand_batching_dims")}  # fmt: skip
"""Attributes by kind: dims that the window has one element of and updates or results have not; what the index vector
counts along; dims of a batch."""


class Window(NamedTuple):
    """Where a window begins, and its extents; `there` is False where all of it is outside."""

    starts: tuple[int, ...]
    shape: tuple[int, ...]
    there: bool = True


def is_one_window(op: Op) -> bool:
    """Whether a scatter or gather has a single index vector."""
    if op.kind not in LOOSE or op.numbers.get(LOOSE[op.kind][2]):
        return False
    moved = op.operands[2] if op.kind == "scatter" else op.result
    within = op.numbers.get("update_window_dims" if op.kind == "scatter" else "offset_dims", ())
    return len(within) == len(moved.shape)


def window_of(op: Op, index: Numbers) -> Window | None:
    """The window of a scatter or gather of one; None where it differs between ranks, or a part of a scatter's is not
    inside: a gather moves its window inside, a scatter writes nothing outside."""
    whole, (left_out, counted, _) = op.operands[0].shape, LOOSE[op.kind]
    if (index != index[:1]).any():
        return None
    shape = _extents(op, whole, op.numbers.get(left_out, ()))
    starts = [0] * len(whole)
    for dim, start in zip(op.numbers[counted], index[0].flat, strict=True):
        starts[dim] = int(start)
    last = [n - size for n, size in zip(whole, shape, strict=True)]
    inside = [min(max(a, 0), b) for a, b in zip(starts, last, strict=True)]
    if op.kind == "gather" or inside == starts:
        return Window(tuple(inside), shape)
    if any(a >= n or a + size <= 0 for a, n, size in zip(starts, whole, shape, strict=True)):
        return Window(tuple(starts), shape, there=False)
    return None


def _extents(op: Op, whole: Sequence[int], left_out: Sequence[int]) -> tuple[int, ...]:
    if op.kind == "gather":
        return tuple(op.numbers["slice_sizes"])
    given = iter(op.operands[2].shape)
    return tuple(1 if dim in left_out else next(given) for dim in range(len(whole)))
