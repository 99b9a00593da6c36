"""Wrong programs by hand about dims that ops need in order.

Every op here is done alike on both sides, on values one of whose dims the distributed side has in another order. Where
the op treats the elements of that dim alike the result has that order, too; elsewhere it is another result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Repl

from .registry import TRIALS

Ops = Callable[[Graph, dict[str, Tensor]], list[Tensor]]
ROWS: dict[str, Any] = {
    "offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1, 4],
    "index_vector_dim": 1,
}  # fmt: skip
WRITTEN: dict[str, Any] = {
    "update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0], "index_vector_dim": 1,
}  # fmt: skip
CONVOLVED: dict[str, Any] = {
    "window_size": [4], "window_stride": [1], "window_dilation": [1], "base_dilation": [1], "window_pad_low": [2],
    "window_pad_high": [1], "input_batch": [0], "input_feature": [2], "input_spatial": [1], "kernel_input_feature": [1],
    "kernel_output_feature": [2], "kernel_spatial": [0], "output_batch": [0], "output_feature": [2],
    "output_spatial": [1],
}  # fmt: skip
WINDOW: dict[str, Any] = {"window_size": [3, 1], "window_pad_low": [1, 0], "window_pad_high": [1, 0]}


def moving(g: Graph, v: dict[str, Tensor]) -> list[Tensor]:
    """Parts, edges and orders along dim 0."""
    x, zero, i = v["x"], g.constant(0.0, "f32"), v["i"]
    none = g.constant(0, "s32")
    return [
        g.emit("slice", [x], start=[0, 0], limit=[2, 4], stride=[1, 1]),
        g.emit("pad", [x, zero], low=[0, 0], high=[1, 0], interior=[0, 0]),
        g.emit("concatenate", [x, v["y"]], dimension=0),
        g.emit("concatenate", [v["y"], x], dimension=0),
        g.emit("reverse", [x], dimensions=[0]),
        g.emit("cumulative", [x], dimension=0, reducer="sum"),
        g.add("top-k", [x], [("f32", (4, 2)), ("s32", (4, 2))], numbers={"k": [2]}).results[1],
        g.emit("reduce", [x], dimensions=[0], reducer="argmax", dtype="s32", shape=[4]),
        g.emit("dynamic-slice", [x, i, none], sizes=[2, 4]),
        g.emit("dynamic-update-slice", [v["y"], g.emit("dynamic-slice", [x, i, none], sizes=[4, 2]), none, i]),
        g.emit("dynamic-update-slice", [x, v["row"], i, none]),
        g.emit("reduce-window", [x], **WINDOW, reducer="sum"),
        g.emit("select-and-scatter", [x, v["y"]], **WINDOW, reducer="sum", select="max"),
        g.emit("select-and-scatter", [v["y"], x], **WINDOW, reducer="sum", select="max"),
    ]


def indexed(g: Graph, v: dict[str, Tensor]) -> list[Tensor]:
    """Rows read and written."""
    x, y, ids, row = v["x"], v["y"], v["ids"], v["row"]
    inner: dict[str, Any] = {
        "offset_dims": [1],
        "collapsed_slice_dims": [0],
        "start_index_map": [0, 1],
        "index_vector_dim": 1,
    }
    return [
        g.emit("gather", [x, ids], **ROWS),
        g.emit("gather", [y, v["order"]], **ROWS),
        g.emit("gather", [x, v["pairs"]], **inner, slice_sizes=[1, 2]),
        g.emit("scatter", [x, ids, v["rows"]], **WRITTEN, reducer="sum"),
        g.emit("scatter", [x, ids, v["rows"]], **WRITTEN, reducer="replace"),
        g.emit("scatter", [y, v["order"], x], **WRITTEN, reducer="replace"),
        g.emit("scatter", [y, v["order"], x], **WRITTEN, reducer="sum"),
        g.emit("scatter", [y, v["all ids"], x], **WRITTEN, reducer="sum"),
        g.emit("scatter", [y, v["all ids"], x], **WRITTEN, reducer="max"),
        g.emit("dynamic-update-slice", [x, row, v["i"], g.constant(0, "s32")]),
    ]


def contracted(g: Graph, v: dict[str, Tensor]) -> list[Tensor]:
    """Convolutions of batches, windows, features, in groups or not; attention."""
    results = [
        g.emit("convolution", [v["wide"], v["kernel"]], **CONVOLVED, feature_group_count=[1], batch_group_count=[n])
        for n in (1, 2)
    ]
    results.append(
        g.emit("convolution", [v["broad"], v["slim"]], **CONVOLVED, feature_group_count=[2], batch_group_count=[1])
    )
    for operands in ([v["wide"], v["deep"], v["deep"]], [v["deep"], v["wide"], v["wide"]]):
        call = g.add("attention", operands, [("f32", (4, 4, 4)), ("f32", (4, 4))], symbols={"scale": ["0.5"]})
        results.extend(call.results)
    for operands in ([v["deep"], v["wide"], *[v["deep"]] * 3, v["x"]], [v["wide"]] * 5 + [v["x"]]):
        types = [("f32", (4, 4, 4))] * 3
        results.extend(g.add("attention-backward", operands, types, symbols={"scale": ["0.5"]}).results)
    batches = [*[v["batches"]] * 5, v["deep"]]
    results.append(g.add("attention-backward", batches, [("f32", (4, 4, 4, 2))], symbols={"scale": ["0.5"]}).result)
    return results


def batched(g: Graph, v: dict[str, Tensor]) -> list[Tensor]:
    """Rows read and written batch by batch, or by all their indices; windows in front."""
    read: dict[str, Any] = {
        "collapsed_slice_dims": [1], "start_index_map": [1], "operand_batching_dims": [0],
        "start_indices_batching_dims": [0], "slice_sizes": [1, 1, 4], "index_vector_dim": 1,
    }  # fmt: skip
    written: dict[str, Any] = {
        "inserted_window_dims": [1], "scatter_dims_to_operand_dims": [1], "input_batching_dims": [0],
        "scatter_indices_batching_dims": [0], "index_vector_dim": 1,
    }  # fmt: skip
    every = [0, 1, 2, 3]
    results = [g.emit("gather", [v["deep"], v["order"]], **read, offset_dims=[k]) for k in (0, 1)]
    results.append(
        g.emit(
            "gather", [v["cube"], v["square"]], offset_dims=[], collapsed_slice_dims=every, start_index_map=every,
            slice_sizes=[1, 1, 1, 1], index_vector_dim=0,
        )
    )  # fmt: skip
    for reducer in ("sum", "replace", "max"):
        for k in (0, 1):
            results.append(
                g.emit("scatter", [v["deep"], v["order"], v["x"]], **written, update_window_dims=[k], reducer=reducer)
            )
        results.append(
            g.emit(
                "scatter", [v["y"], v["order"], v["x"]], **WRITTEN | {"update_window_dims": [0]}, reducer=reducer
            )
        )  # fmt: skip
        results.append(
            g.emit(
                "scatter", [v["cube"], v["square"], v["four"]], update_window_dims=[], inserted_window_dims=every,
                scatter_dims_to_operand_dims=every, index_vector_dim=0, reducer=reducer,
            )
        )  # fmt: skip
    return results


SHAPES = {
    "x": (4, 4), "y": (4, 4), "row": (1, 4), "rows": (3, 4), "i": (), "ids": (3, 1), "order": (4, 1), "all ids": (4, 1),
    "pairs": (3, 2), "wide": (4, 4, 4), "deep": (4, 4, 4), "kernel": (4, 4, 4), "slim": (4, 4, 4),
    "broad": (4, 4, 8), "batches": (4, 4, 4, 2), "cube": (2, 2, 2, 2), "square": (4, 4), "four": (4,),
}  # fmt: skip


WHOLE = {"i", "ids", "order", "all ids", "pairs", "square"}
"""Whole numbers."""


def mixed(ops: Ops, mixed_up: dict[str, tuple[int, ...]]) -> Pair:
    """Ops on values of which some have dims in another order."""
    pair = Pair({"tp": 2})
    base: dict[str, Tensor] = {}
    dist: dict[str, Tensor] = {}
    for name, shape in SHAPES.items():
        digits = [[Digit(d, 1, n)] for d, n in enumerate(shape)]
        for dim in mixed_up.get(name, ()):
            digits[dim] = [Digit(dim, 1, 2), Digit(dim, 2, shape[dim] // 2)]
        layout = Layout.of(digits, [("tp", [Repl(2)])])
        dtype, bounds = ("s32", (0, 2 if name == "square" else 3)) if name in WHOLE else ("f32", None)
        base[name], dist[name] = pair.input(shape, dtype=dtype, range=bounds, layout=layout)
    for one, other in zip(ops(pair.base, base), ops(pair.dist, dist), strict=True):
        pair.outputs(one, other)
    return pair


ONE: list[tuple[str, Ops, str, tuple[int, ...]]] = [
    ("parts", moving, "x", (0, 1)), ("rows", indexed, "x", (0, 1)), ("ids", indexed, "order", (0,)),
    ("updates", indexed, "rows", (1,)), ("windows", contracted, "wide", (0, 1, 2)),
    ("kernels", contracted, "kernel", (0, 1, 2)), ("kernels in groups", contracted, "slim", (0, 1, 2)),
    ("operands of groups", contracted, "broad", (0, 1, 2)), ("queries", contracted, "deep", (0, 1, 2)),
    ("sums of exponentials", contracted, "x", (0, 1)), ("ids of batches", batched, "order", (0,)),
    ("batches", batched, "deep", (0,)),
]  # fmt: skip
for title, ops, name, dims in ONE:
    for dim in dims:
        TRIALS[f"{title} with dim {dim} in another order"] = partial(mixed, ops, {name: (dim,)})
SEVERAL: list[tuple[str, Ops, dict[str, tuple[int, ...]]]] = [
    ("batches like heads", contracted, {"batches": (1,), "deep": (0, 1)}),
    ("batches like windows", batched, {"order": (0,), "deep": (2,)}),
    ("batches of ids and updates", batched, {"order": (0,), "x": (0,)}),
    ("batches of ids and later updates", batched, {"order": (0,), "x": (1,)}),
    ("windows like ids", batched, {"order": (0,), "x": (0, 1)}),
    ("coordinates and ids", batched, {"square": (0, 1)}),
    ("coordinates, ids and updates", batched, {"square": (0, 1), "four": (0,)}),
]
for title, ops, mixed_up in SEVERAL:
    TRIALS[f"{title} in another order"] = partial(mixed, ops, mixed_up)
