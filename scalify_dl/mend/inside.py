"""A reshape that mixes up dims: they are told apart first, and one of them is moved."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.errors import InputError

from .draft import Draft, Edit


def turn_inside(draft: Draft, edit: Edit) -> None:
    """Between what a reshape reads and what it makes, one of the dims of which both are made up is moved; its gradient
    (`how` names the reshape) is turned back."""
    op = edit.target
    (source,), (result,) = draft.operands(op), [t for o, _, t in draft.facts["result"] if o == op]
    before, after = draft.shape(source), draft.shape(result)
    dims = refined(before, after) if op == edit.how else refined(after, before)
    if not max(edit.num, edit.den) < len(dims):
        raise InputError(f"{op} has no so many dims")
    order = list(range(len(dims)))
    order.insert(edit.den, order.pop(edit.num))
    turned = [dims[dim] for dim in order]
    first, way, then = (dims, order, turned)
    if op != edit.how:
        first, way, then = turned, [order.index(dim) for dim in range(len(order))], dims
    told, moved = draft.like(source, first), draft.like(source, then)
    draft.emit("reshape", [source], told, edit.cause)
    draft.emit("transpose", [told], moved, edit.cause, dimensions=way)
    draft.read(op, 0, moved)


def refined(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Dims that both shapes put together, each in its own way. InputError where there are none."""
    found: list[int] = []
    left, right = ([size for size in shape if size > 1][::-1] for shape in (one, other))
    while left and right:
        small, great = sorted((left, right), key=lambda sizes: sizes[-1])
        size = small.pop()
        if great[-1] % size:
            raise InputError(f"{list(one)} and {list(other)} have no dims in common")
        found.append(size)
        great[-1] //= size
        if great[-1] == 1:
            great.pop()
    return found
