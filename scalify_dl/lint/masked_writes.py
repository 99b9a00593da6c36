"""Lifting writes under a mask: each rank adds to its block of rows what is meant for it; the blocks together are what
one device adds to the whole table. So go gradients of reads under a mask (`masked.py`).

The rules prove it (`dlverify rules show masked-write`), or do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Digit, Entry, Pending, Repl

from .held import Held, whole_dims
from .lift import Lifter, Stop
from .refit import splat_of


def kept(lifter: Lifter, op: Op) -> None:
    """Remembers of what a rank keeps some elements under a mask, and has zeros elsewhere."""
    if op.kind == "select":
        zero, held = splat_of(lifter, op.operands[2]), lifter.out.held.get(op.operands[1])
        if zero is not None and zero.rational == 0 and held is not None and held.calm:
            lifter.out.kept[op.result] = held


def masked_write(lifter: Lifter, op: Op) -> Held:
    """Zeros of the whole table, to which all ranks' updates are added."""
    into, at, updates = op.operands
    ids = lifter.out.mixed.get(at)
    more = lifter.out.kept.get(updates) or lifter.out.held.get(updates)
    zero, dims = splat_of(lifter, into), op.numbers["scatter_dims_to_operand_dims"]
    found = [] if ids is None else [order for t in ranked(lifter, at) if (order := _order(lifter, t, into, dims))]
    plain = zero is not None and zero.rational == 0 and op.symbols.get("reducer") == ["sum"] and len(dims) == 1
    if not found or not plain or ids is None or more is None:
        raise Stop("lemma", "it writes at places that depend on the rank")
    grid, (dim,), order = lifter.grid, dims, found[0]
    if not (ids.aligned and more.aligned):
        raise Stop("lemma", "what it writes lies in another order than its dims")
    mesh = _added_up(op, ids, more)
    if any(not isinstance(mesh[p], Repl) for p in order):
        raise Stop("lemma", "ranks that have some of the rows have some of the ids only")
    stride = into.shape[dim]
    for p in reversed(order):
        mesh[p] = Digit(dim, stride, grid.sizes[p])
        stride *= grid.sizes[p]
    shape = tuple(stride if d == dim else n for d, n in enumerate(into.shape))
    assert zero is not None
    rows = lifter.splat(zero, into.dtype, shape, op)
    (made,) = lifter.emit(op, [rows, ids.base, more.base], [(into.dtype, shape)])
    return Held(made, whole_dims(into.shape), tuple(mesh), more.scale)


def _added_up(op: Op, ids: Held, more: Held) -> list[Entry]:
    """Over ranks that have some of the ids, with their updates, what they write is a part of the sum."""
    windows, vector = op.numbers["update_window_dims"], op.numbers["index_vector_dim"][0]
    rows = [d for d in range(len(more.local)) if d not in windows]
    of_ids = dict(zip((d for d in range(len(ids.local)) if d != vector), rows, strict=True))
    mesh: list[Entry] = []
    for at, it in zip(ids.mesh, more.mesh, strict=True):
        alike = isinstance(at, Digit) and it == Digit(of_ids.get(at.dim, -1), at.stride, at.size)
        if not (at == it and isinstance(at, Repl)) and (not alike or op.numbers.get("input_batching_dims")):
            raise Stop("lemma", "what it writes in blocks of rows is in blocks itself")
        mesh.append(Pending("sum", at.size) if alike else at)
    return mesh


def ranked(lifter: Lifter, tensor: Tensor) -> Iterator[Tensor]:
    """The numbers of the rank that a value is made of with an input's."""
    seen, stack = {tensor}, [tensor]
    while stack:
        one = stack.pop()
        if one in lifter.out.ranked:
            yield one
        elif one in lifter.out.mixed and one in lifter.maker:
            stack += [t for t in lifter.maker[one].operands if t not in seen]
            seen.update(lifter.maker[one].operands)


def _order(lifter: Lifter, tensor: Tensor, into: Tensor, dims: Sequence[int]) -> tuple[int, ...]:
    """Positions of the mesh (major first) whose coordinates, times the rows of a block, are these numbers."""
    numbers = lifter.numbers(tensor)
    if numbers is None or any(x.size == 0 or x.min() != x.max() for x in numbers.values()):
        return ()
    rows, grid = into.shape[dims[0]], lifter.grid
    for order in permutations(grid.varying(numbers)):
        if all(int(x.ravel()[0]) == rows * grid.number(grid.coordinates[rank], order) for rank, x in numbers.items()):
            return order
    return ()
