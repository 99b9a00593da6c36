"""Pieces of large pairs: which are equal."""

from __future__ import annotations

import pytest

from scalify_dl.blocks.joint import joined
from scalify_dl.blocks.pieces import pieces
from scalify_dl.ir.graph import Graph


@pytest.mark.parametrize(("first", "second", "equal"), [("bf16", "bf16", True), ("bf16", "f16", False)])
def test_equal_pieces_are_entered_by_values_of_one_type(first: str, second: str, equal: bool) -> None:
    """A cast says what it makes, not of what."""
    base, dist = Graph("base"), Graph("dist")
    inputs = [graph.input("x", "f32", (4,)) for graph in (base, dist)]
    asked = []
    for dtype in (first, second):
        ends = [
            graph.emit("negate", [graph.emit("convert", [graph.emit("convert", [x], dtype=dtype)], dtype="f32")])
            for graph, x in zip((base, dist), inputs, strict=True)
        ]
        asked.append(ends)
    joint = joined(base, dist, {x: (x.type,) for x in inputs}, [(inputs[1], inputs[0])])
    block = [-1 if op is None else 0 for op in joint.ops]
    for number, ends in enumerate(asked):
        for end in ends:
            node, _ = joint.at[end]
            cast, _ = joint.reads[node][0]
            made, _ = joint.reads[cast][0]
            block[made], block[cast], block[node] = 2 * number, 2 * number + 1, 2 * number + 1
    role = [-1 if op is None else 0 for op in joint.ops]
    found = pieces(joint, role, block, [(joint.at[d], joint.at[b], "") for b, d in asked])
    one, other = (piece for piece in found if piece.asked)
    assert (one.key == other.key) is equal
