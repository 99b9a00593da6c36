"""Pads whose widths depend on the rank, as writes of a block at the rank's own place: what `merge` makes of the
gradients of slices that are the ranks' own (`slice_backward`)."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Literal, Op, Tensor

WIDTHS = ("low", "high")


def may_differ(ours: Op, theirs: Op) -> bool:
    """Whether two pads of one result write the same block, at another place perhaps."""
    return all(
        not any(op.numbers["interior"]) and min((*op.numbers["low"], *op.numbers["high"]), default=0) >= 0
        for op in (ours, theirs)
    )


def write_out(graph: Graph) -> None:
    """Replaces them; the results are the same tensors."""
    if any(map(_moved, graph.ops)):
        graph.ops = [new for op in graph.ops for new in (_write(op) if _moved(op) else [op])]


def _moved(op: Op) -> bool:
    return op.kind == "pad" and bool(op.rank_numbers)


def _write(pad: Op) -> list[Op]:
    block, value = pad.operands
    around = Op("broadcast", [value], [Tensor(value.dtype, pad.result.shape)], numbers={"dimensions": []})
    starts = []
    for dim, low in enumerate(pad.numbers["low"]):
        start = Op("constant", [], [Tensor("s32", ())])
        if ("low", dim) in pad.rank_numbers:
            start.rank_numbers["value", 0] = pad.rank_numbers["low", dim]
        else:
            start.result.literal = Literal.scalar(low, "s32")
        starts.append(start)
    write = Op("dynamic-update-slice", [around.result, block, *(s.result for s in starts)], pad.results)
    made = [around, *starts, write]
    for op in made:
        op.name, op.source, op.layer, op.at = pad.name, pad.source, pad.layer, pad.at
    return made
