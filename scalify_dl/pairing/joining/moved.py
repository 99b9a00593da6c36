"""Buffers that are written piece by piece: what is read of them is a piece again.

    t = concatenate(a, slice(empty));  slice(t, 0, |a|)      →      a

A flat buffer is filled one write after the other, each at another place on every rank. Only what is in it in the end
is one value of several programs, so slices of what is put together become the pieces that they are of.
"""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Graph, Op, Tensor

__all__ = ["cut_of", "see_pieces", "slice_of"]

Piece = tuple[Tensor, int, int]
"""Elements from … up to … along a dim of a tensor."""


def see_pieces(program: Graph) -> None:
    """Slices and concatenations of concatenations are replaced by those of the pieces; a value stays what it is."""
    seen = _Seen()
    for op in program.ops:
        op.operands = [seen.instead.get(x, x) for x in op.operands]
        seen.add(op)
    for port in program.outputs:
        port.tensor = seen.instead.get(port.tensor, port.tensor)
    needed = {port.tensor for port in program.outputs}
    kept = []
    for op in reversed(seen.ops):
        if op in seen.changed and needed.isdisjoint(op.results):
            continue
        needed.update(op.operands)
        needed.update(x for region in op.regions for inner in region.ops for x in inner.operands)
        kept.append(op)
    program.ops = kept[::-1]


class _Seen:
    """What is put together of which pieces, and which values are others that are there already."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.instead: dict[Tensor, Tensor] = {}
        self.changed: set[Op] = set()  # they only move elements: where nobody reads them they may go
        self.read: set[Tensor] = set()  # slices: what somebody puts together otherwise stays together
        self.pieces: dict[Tensor, tuple[int, list[Piece]]] = {}

    def add(self, op: Op) -> None:
        cut = cut_of(op)
        if op.kind == "concatenate":
            dim = op.numbers["dimension"][0]
            each = [self.along(x, dim) if x in self.read else [(x, 0, x.shape[dim])] for x in op.operands]
            whole = [piece for pieces in each for piece in pieces]
            if self.read.isdisjoint(op.operands):
                self.pieces[op.result] = dim, whole
                self.ops.append(op)
            else:
                self.put(op, dim, _run_on(whole))
        elif cut is not None:
            dim, start, limit = cut
            self.read.add(op.result)
            self.put(op, dim, _run_on(_between(self.along(op.operands[0], dim), start, limit)))
        else:
            self.ops.append(op)

    def along(self, x: Tensor, dim: int) -> list[Piece]:
        """The pieces of a value along a dim."""
        cut, pieces = self.pieces.get(x, (dim, [(x, 0, x.shape[dim])]))
        return pieces if cut == dim else [(x, 0, x.shape[dim])]

    def put(self, op: Op, dim: int, pieces: list[Piece]) -> None:
        """An op gives these pieces, one after the other."""
        result = op.result
        if not pieces:
            self.ops.append(op)
            return
        self.changed.add(op)
        if len(pieces) == 1 and pieces[0][2] - pieces[0][1] == pieces[0][0].shape[dim]:
            self.instead[result] = pieces[0][0]
            return
        self.pieces[result] = dim, pieces
        if len(pieces) == 1:
            made = slice_of(op, pieces[0], dim, result)
        else:
            parts = [self.part(op, piece, dim) for piece in pieces]
            made = Op("concatenate", parts, [result], op.name, {"dimension": [dim]})
            made.source, made.layer, made.at = op.source, op.layer, op.at
        self.changed.add(made)
        self.ops.append(made)

    def part(self, op: Op, piece: Piece, dim: int) -> Tensor:
        """One piece as a value."""
        x, start, limit = piece
        if limit - start == x.shape[dim]:
            return x
        result = Tensor(x.dtype, (*x.shape[:dim], limit - start, *x.shape[dim + 1 :]), op.result.name)
        made = slice_of(op, piece, dim, result)
        self.changed.add(made)
        self.ops.append(made)
        return result


def cut_of(op: Op) -> tuple[int, int, int] | None:
    """Of a slice that leaves out elements of one dim only, the same on all ranks: the dim, from where, up to where."""
    if op.kind != "slice" or op.rank_numbers or op.strides or set(op.numbers["stride"]) > {1}:
        return None
    start, limit, shape = op.numbers["start"], op.numbers["limit"], op.operands[0].shape
    dims = [d for d, n in enumerate(shape) if (start[d], limit[d]) != (0, n)]
    return (dims[0], start[dims[0]], limit[dims[0]]) if len(dims) == 1 else None


def _between(pieces: Sequence[Piece], start: int, limit: int) -> list[Piece]:
    """What of the pieces is from `start` up to `limit`."""
    found, at = [], 0
    for x, lo, hi in pieces:
        first, last = max(lo, lo + start - at), min(hi, lo + limit - at)
        if first < last:
            found.append((x, first, last))
        at += hi - lo
    return found


def _run_on(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of one value that follow each other are one."""
    found: list[Piece] = []
    for x, lo, hi in pieces:
        if found and found[-1][0] is x and found[-1][2] == lo:
            found[-1] = (x, found[-1][1], hi)
        elif lo < hi:
            found.append((x, lo, hi))
    return found


def slice_of(op: Op, piece: Piece, dim: int, result: Tensor) -> Op:
    """An op that takes one piece, for another one."""
    x, start, limit = piece
    lo, hi = [0] * len(x.shape), list(x.shape)
    lo[dim], hi[dim] = start, limit
    numbers = {"start": lo, "limit": hi, "stride": [1] * len(lo)}
    return Op("slice", [x], [result], op.name, numbers, source=op.source, layer=op.layer, at=op.at)
