"""Integer inputs that index a table: their default range is `[0, table size)`, an assumption that is listed."""

from __future__ import annotations

from .graph import Graph, Op, Tensor

CARRIERS = {
    "reshape": (0,),
    "broadcast": (0,),
    "transpose": (0,),
    "slice": (0,),
    "reverse": (0,),
    "convert": (0,),
    "concatenate": None,
    "select": (1, 2),
    "clamp": (1,),
    "maximum": None,
    "minimum": None,
}
"""Kinds whose result holds values of these operands (None: of all), perhaps clipped."""


def id_ranges(graph: Graph) -> dict[Tensor, tuple[int, int]]:
    """Integer inputs whose values reach the indices of a gather from one dim, with the narrowest such bounds."""
    made: dict[Tensor, Op] = {result: op for op in graph.ops for result in op.results}
    inputs = {port.tensor for port in graph.inputs if port.tensor.dtype[0] in "su"}
    found: dict[Tensor, tuple[int, int]] = {}
    for op in graph.ops:
        if op.kind != "gather" or len(op.numbers.get("start_index_map", ())) != 1:
            continue
        table = op.operands[0].shape[op.numbers["start_index_map"][0]]
        for tensor in _origins(op.operands[1], made):
            if tensor in inputs:
                found[tensor] = (0, min(table, found.get(tensor, (0, table))[1]))
    return found


def _origins(tensor: Tensor, made: dict[Tensor, Op]) -> set[Tensor]:
    """Inputs whose values a tensor carries."""
    seen: set[Tensor] = set()
    pending = [tensor]
    origins = set()
    while pending:
        tensor = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        op = made.get(tensor)
        if op is None:
            origins.add(tensor)
        elif op.kind in CARRIERS:
            positions = CARRIERS[op.kind]
            pending += op.operands if positions is None else [op.operands[n] for n in positions if n < len(op.operands)]
    return origins
