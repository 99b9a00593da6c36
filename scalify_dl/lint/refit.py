"""Values that fit many placements: broadcasts, index vectors and numbers of the rank, made anew as they are wanted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.literals import ITEMS_LIMIT, Literal
from scalify_dl.ir.vocabulary import ELEMENTWISE

from .held import Held, renumbered

if TYPE_CHECKING:
    import numpy as np

    from .lift import Lifter


def refit(lifter: Lifter, tensor: Tensor, want: Held) -> Held | None:
    """The value in the placement of `want` (nothing pending in it); None where it has another one."""
    have = lifter.out.held.get(tensor)
    if have is not None and same_place(have, want):
        return have
    op = lifter.maker.get(tensor)
    if op is None:
        return None
    number = splat_of(lifter, tensor)
    if number is not None:
        return replace(want, base=lifter.splat(number, tensor.dtype, want.base.shape, op))
    if want.along is not None:
        return None
    if have is None:
        found = from_numbers(lifter, tensor, op, want)
        if found is not None:
            return found
    if op.kind == "broadcast":
        return _broadcast(lifter, op, want)
    if op.kind == "iota" and want.is_whole(op.numbers["dimension"][0]):
        (made,) = lifter.emit(op, [], [(tensor.dtype, tuple(want.base.shape))])
        return replace(want, base=made)
    if op.kind in ELEMENTWISE and op.operands:
        if have is not None and not have.calm:
            return None
        found_all = [lifter.refit(t, want) for t in op.operands]
        held = [h for h in found_all if h is not None]
        if len(held) < len(found_all):
            return None
        (made,) = lifter.emit(op, [h.base for h in held])
        return replace(want, base=made)
    if op.kind == "reshape" and have is not None:
        return _reshape(lifter, op, want)
    return None


def same_place(have: Held, want: Held) -> bool:
    """Whether two values lie alike, in values of one shape."""
    return (have.local, have.mesh, have.scale, have.along, have.parts) == (
        want.local, want.mesh, want.scale, want.along, want.parts
    ) and tuple(have.base.shape) == tuple(want.base.shape)  # fmt: skip


def splat_of(lifter: Lifter, tensor: Tensor) -> Literal | None:
    """The number that all elements are on every rank, where they are one; of ones that are summed, the ranks."""
    times = 1
    while True:
        op = lifter.maker.get(tensor)
        if op is None:
            return None
        if op.kind == "constant":
            literal = tensor.literal
            if literal is not None and literal.rational is not None and times > 1:
                return Literal.scalar(literal.rational * times, tensor.dtype)
            one = literal is not None and (literal.rational is not None or not literal.text.startswith("{"))
            return literal if one and times == 1 else None
        if op.kind == "select" and op.operands[1] is op.operands[2]:
            tensor = op.operands[1]
        elif op.kind in ("broadcast", "reshape", "transpose"):
            tensor = op.operands[0]
        elif op.kind == "all-reduce" and op.symbols["reducer"] == ["sum"] and len(op.operands) == 1 and op.groups:
            tensor, times = op.operands[0], times * len(op.groups[0])
        else:
            return None


def one_value(lifter: Lifter, op: Op) -> bool:
    """Whether it does not matter which of two a select chooses."""
    _, first, second = op.operands
    mine, other = splat_of(lifter, first), splat_of(lifter, second)
    return first is second or (mine is not None and mine == other)


def _broadcast(lifter: Lifter, op: Op, want: Held) -> Held | None:
    """The operand in the placement that its dims have, the result's other dims as wanted."""
    (operand,) = op.operands
    dims = op.numbers.get("dimensions", [])
    if not want.aligned:
        return None
    back: list[int | None] = [dims.index(d) if d in dims else None for d in range(len(want.base.shape))]
    shape = tuple(want.base.shape[d] for d in dims)
    local = tuple(renumbered(want.local[d], i) for i, d in enumerate(dims))
    narrow = want.moved(back, Tensor(operand.dtype, shape), local)
    inner = lifter.refit(operand, narrow)
    if inner is None or inner.along is not None:
        return None
    (made,) = lifter.emit(op, [inner.base], [(op.result.dtype, tuple(want.base.shape))])
    return replace(want, base=made)


def _reshape(lifter: Lifter, op: Op, want: Held) -> Held | None:
    """Dims of size 1 put in or left out; the others as they are."""
    (operand,), result = op.operands, op.result
    kept_in = [d for d, n in enumerate(operand.shape) if n != 1]
    kept_out = [d for d, n in enumerate(result.shape) if n != 1]
    if not want.aligned or [operand.shape[d] for d in kept_in] != [result.shape[d] for d in kept_out]:
        return None
    if any(want.base.shape[d] != 1 for d in range(len(result.shape)) if d not in kept_out):
        return None
    back: list[int | None] = [None] * len(result.shape)
    shape, local = [1] * len(operand.shape), [()] * len(operand.shape)  # type: tuple[list[int], list[Any]]
    for i, d in zip(kept_in, kept_out, strict=True):
        back[d], shape[i], local[i] = i, want.base.shape[d], renumbered(want.local[d], i)
    inner = lifter.refit(operand, want.moved(back, Tensor(operand.dtype, tuple(shape)), tuple(local)))
    if inner is None or inner.along is not None:
        return None
    (made,) = lifter.emit(op, [inner.base], [(result.dtype, tuple(want.base.shape))])
    return replace(want, base=made)


def from_numbers(lifter: Lifter, tensor: Tensor, op: Op, want: Held) -> Held | None:
    """A value of the rank alone as one device's: what the ranks have, put together in the wanted placement, if that is
    an index vector or small."""
    numbers = lifter.numbers(tensor)
    if numbers is None or not want.aligned:
        return None
    import numpy as np  # most programs are proved without

    from scalify_dl.oracle.addressing import addresses

    shape = tuple(want.base.shape)
    whole: np.ndarray[Any, Any] = np.zeros(shape, dtype=next(iter(numbers.values())).dtype)
    seen = np.zeros(shape, dtype=bool)
    layout = want.layout(lifter.grid)
    coords = {rank: dict(zip((a for a, _ in lifter.grid.mesh.axes), at, strict=True))
              for rank, at in enumerate(lifter.grid.mesh.coordinates)}  # fmt: skip
    for rank, value in numbers.items():
        at = addresses(layout, whole.ndim, coords[rank])
        if value.shape != tuple(layout.local_shape) or bool((seen[at] & (whole[at] != value)).any()):
            return None
        whole[at] = value
        seen[at] = True
    if not seen.all() or whole.dtype.kind not in "iub":
        return None
    made = _index_vector(lifter, whole, tensor, op)
    if made is None and whole.size <= ITEMS_LIMIT:
        items = tuple(int(x) for x in whole.ravel())
        made = lifter.base.constant(Literal(_braces(whole), None, items), tensor.dtype, shape, source=op.source)
    return None if made is None else replace(want, base=made)


def _index_vector(lifter: Lifter, whole: np.ndarray[Any, Any], tensor: Tensor, op: Op) -> Tensor | None:
    """The numbers as an iota along some dim, if they are one."""
    import numpy as np

    for dim, size in enumerate(whole.shape):
        line = np.arange(size).reshape([-1 if d == dim else 1 for d in range(whole.ndim)])
        if bool((whole == line).all()):
            kind, types = "iota", [(tensor.dtype, whole.shape)]
            made = lifter.base.add(kind, [], types, name=op.name, numbers={"dimension": [dim]}, source=op.source)
            return made.result
    return None


def _braces(whole: np.ndarray[Any, Any]) -> str:
    if whole.ndim == 0:
        return str(int(whole))
    return "{" + ",".join(_braces(row) for row in whole) + "}"
