"""Reads of a sharded table as JAX writes them: ids clipped to the block, negative ones counted from its end,
rows that are not there no numbers."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

ROWS, WIDTH, IDS = 8, 3, 5


def read(g: Graph, table: Tensor, ids: Tensor) -> Tensor:
    op = g.add("gather", [table, g.emit("reshape", [ids], shape=(IDS, 1))], [("f32", (IDS, WIDTH))])
    op.numbers.update(
        offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=[1], slice_sizes=[1, WIDTH],
        operand_batching_dims=[], start_indices_batching_dims=[],
    )  # fmt: skip
    return op.result


def clipped(g: Graph, ids: Tensor, order: tuple[str, str], least: int) -> Tensor:
    """Between 0 and the last row of a block; what is negative counts from the end."""
    for kind, bound in zip(order, (least, 3) if order[0] == "maximum" else (3, least), strict=True):
        ids = g.emit(kind, [ids, g.splat(bound, "s32", ids.shape)])
    negative = g.emit("compare", [ids, g.splat(0, "s32", ids.shape)], direction="LT")
    return g.emit("select", [negative, g.emit("add", [ids, g.splat(4, "s32", ids.shape)]), ids])


def vocabulary(order: tuple[str, str], least: int = 0, mask: int = 4) -> Pair:
    pair = Pair({"tp": 2})
    ids, dids = pair.input((IDS,), dtype="s32", range=(0, ROWS))
    pair.dist.inputs[-1].range = (0, ROWS)
    table, block = pair.input((ROWS, WIDTH), {0: "tp"})
    g = pair.dist
    rank = g.emit("partition-id", [], shape=(), dtype="u32")
    first = g.emit("multiply", [g.emit("convert", [rank], dtype="s32"), g.constant(4, "s32")])
    own = g.emit("subtract", [dids, g.emit("broadcast", [first], shape=dids.shape, dimensions=[])])
    inside = g.emit("and", [g.emit("compare", [own, g.splat(n, "s32", own.shape)], direction=way)
                            for n, way in ((0, "GE"), (mask, "LT"))])  # fmt: skip
    places = clipped(g, own, order, least)
    rows = read(g, block, places)
    there = g.emit("and", [g.emit("compare", [places, g.splat(n, "s32", own.shape)], direction=way)
                           for n, way in ((0, "GE"), (3, "LE"))])  # fmt: skip
    there = g.emit("reduce", [g.emit("reshape", [there], shape=(IDS, 1))], dimensions=[1], reducer="and")
    there = g.emit("broadcast", [there], shape=rows.shape, dimensions=[0])
    rows = g.emit("select", [there, rows, g.splat(float("nan"), "f32", rows.shape)])
    keep = g.emit("broadcast", [inside], shape=rows.shape, dimensions=[0])
    kept = g.emit("select", [keep, rows, g.splat(0.0, "f32", rows.shape)])
    pair.outputs(read(pair.base, table, ids), g.emit("all-reduce", [kept], reducer="sum", groups=pair.groups("tp")))
    return pair


@pytest.mark.parametrize("order", [("maximum", "minimum"), ("minimum", "maximum")])
def test_a_clipped_id_is_not_negative(order: tuple[str, str]) -> None:
    assert not derive(vocabulary(order).tables()).unproved


def test_a_mask_of_fewer_rows_than_a_block_has_is_not_proved() -> None:
    assert derive(vocabulary(("maximum", "minimum"), mask=3).tables()).unproved
