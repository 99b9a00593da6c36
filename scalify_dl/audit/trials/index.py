"""Wrong programs by hand about indices: right over the whole numbers, or if each element were another one, too."""

from __future__ import annotations

from functools import partial
from typing import Any

from scalify_dl.audit.fuzz.partitioner_steps import laid, rank_scalar
from scalify_dl.audit.pair import Pair

from .registry import TRIALS, trial


def scatter_in_blocks(dtype: str, width: int) -> Pair:
    """A scatter in blocks of so many rows, at indices minus the first one of the rank; ids are any of the type."""
    pair = Pair({"tp": 2})
    (i, di), (u, du) = pair.input((4, 2), dtype=dtype), pair.input((4,))
    g = pair.dist
    firsts = laid(g, [rank_scalar(pair, [0, width], dtype), rank_scalar(pair, [0, 0], dtype)], di.shape)
    attributes: dict[str, Any] = {
        "update_window_dims": [], "inserted_window_dims": [0, 1], "scatter_dims_to_operand_dims": [0, 1],
        "index_vector_dim": 1, "reducer": "sum",
    }  # fmt: skip
    pair.outputs(
        pair.base.emit("scatter", [pair.base.splat(0.0, "f32", (2 * width, 8)), i, u], **attributes),
        g.emit("scatter", [g.splat(0.0, "f32", (width, 8)), g.emit("subtract", [di, firsts]), du], **attributes),
    )
    return pair


TRIALS |= {
    f"a scatter in two blocks of {width} rows at {dtype}": partial(scatter_in_blocks, dtype, width)
    for dtype, width in (("u8", 192), ("u8", 129), ("s8", 96))
}


@trial
def windows_put_along_another_dim() -> Pair:
    """Windows of two elements in rows for such in columns: which dim they lie along, only what is inserted says."""
    pair = Pair({"tp": 2})
    (x, dx), (i, di), (u, du) = pair.input((6, 6)), pair.input((4, 2), dtype="s32", range=(0, 5)), pair.input((4, 2))
    attributes: dict[str, Any] = {
        "update_window_dims": [1], "scatter_dims_to_operand_dims": [0, 1], "index_vector_dim": 1, "reducer": "sum",
    }  # fmt: skip
    pair.outputs(
        pair.base.emit("scatter", [x, i, u], inserted_window_dims=[0], **attributes),
        pair.dist.emit("scatter", [dx, di, du], inserted_window_dims=[1], **attributes),
    )
    return pair
