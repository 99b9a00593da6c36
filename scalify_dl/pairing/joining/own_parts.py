"""A rank's own part, put in the place of the one that it gathered: read as gathered again.

    g = all-gather(x);  concatenate(x, slice(g, 1))  on rank 0      →      concatenate(slice(g, 0), slice(g, 1))

`parts[rank] = x` between a gather and what puts its parts together keeps the gradient of one's own part. What ranks
put together differs by it in the text of their programs, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Graph, Op, Tensor

from .moved import cut_of, slice_of

__all__ = ["see_own_parts"]


def see_own_parts(program: Graph, ranks: Sequence[int]) -> None:
    """Concatenations of a value and of parts that are gathered of it read that one, too, as it is gathered on these
    ranks: a value stays what it is."""
    makers: dict[Tensor, Op] = {}
    ops: list[Op] = []
    for op in program.ops:
        if op.kind == "concatenate":
            gathers = [gather for x in op.operands if (gather := _gather_of(_root(x, makers), makers))]
            own = {_root(gather.operands[0], makers): gather for gather in gathers}
            for n, x in enumerate(op.operands if own else ()):
                gather = own.get(_root(x, makers))
                place = _place(gather, ranks) if gather else None
                if gather is None or place is None:
                    continue
                given, dim = gather.operands[0], gather.numbers["dimension"][0]
                size, part = given.shape[dim], Tensor(x.dtype, given.shape, x.name)
                ops.append(slice_of(op, (gather.result, place * size, (place + 1) * size), dim, part))
                if part.shape != x.shape:
                    shaped = Tensor(x.dtype, x.shape, x.name)
                    ops.append(Op("reshape", [part], [shaped], op.name, source=op.source, layer=op.layer, at=op.at))
                    part = shaped
                op.operands[n] = part
        makers |= dict.fromkeys(op.results, op)
        ops.append(op)
    program.ops = ops


def _root(x: Tensor, makers: dict[Tensor, Op]) -> Tensor:
    """A value before it is reshaped."""
    while x in makers and makers[x].kind == "reshape":
        x = makers[x].operands[0]
    return x


def _gather_of(x: Tensor, makers: dict[Tensor, Op]) -> Op | None:
    """The gather of which a value is what one rank gave."""
    cut = cut_of(makers[x]) if x in makers else None
    gather = makers.get(makers[x].operands[0]) if cut else None
    if cut is None or gather is None or gather.kind != "all-gather":
        return None
    dim = gather.numbers["dimension"][0]
    size = gather.operands[0].shape[dim]
    return gather if cut == (dim, cut[1] // size * size, cut[1] + size) else None


def _place(gather: Op, ranks: Sequence[int]) -> int | None:
    """Where a gather has what these ranks give; None where that is not one place."""
    places = {group.index(rank) for rank in ranks for group in gather.groups or () if rank in group}
    return places.pop() if len(places) == 1 else None
