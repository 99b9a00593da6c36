"""Dims of which every rank has one element: a program may put them in and leave them out as it likes, so that what
stands there says less than elsewhere. A rank with one head sums over its heads by a reshape, and a sum over them that
is put back in by a broadcast is no sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Op
from scalify_dl.ir.layout import Digit, Pending

from .held import Held, renumbered

if TYPE_CHECKING:
    from .lift import Lifter

REDUCERS = ("sum", "max", "min", "and", "or")


def restored(lifter: Lifter, op: Op) -> bool:
    """Whether all that reads a result puts dims of size 1 back."""
    readers = lifter.readers.get(op.result, [])
    return bool(readers) and all(
        other.kind in ("broadcast", "reshape") and len(other.result.shape) > len(op.result.shape)
        and prod(other.result.shape) == prod(op.result.shape) for other in readers
    )  # fmt: skip


def left_in(lifter: Lifter, op: Op, x: Held, gone: Sequence[int]) -> Held:
    """The reduction along `gone` alone; the other dims that the op reduces have one element on every rank, are those
    of the baseline still, and have no local dim."""
    made = lifter.emit(op, [x.base], dimensions=list(gone))[0] if gone else x.base
    kept = [d for d in range(len(x.base.shape)) if d not in gone]
    where: list[int | None] = [kept.index(d) if d in kept else None for d in range(len(x.base.shape))]
    local = tuple(renumbered(x.local[d], kept.index(d)) for d in kept if d not in op.numbers["dimensions"])
    return x.moved(where, made, local, free=frozenset())


def dropped(op: Op, x: Held) -> list[int]:
    """Dims of one element on every rank, of several ranks, that a reshape leaves out, and nothing else."""
    before, after = op.operands[0].shape, list(op.result.shape)
    found = [d for d, n in enumerate(before) if n == 1 and x.cut(d)]
    rest = [n for d, n in enumerate(before) if d not in found]
    return found if found and rest == after and x.along is None else []


def summed(lifter: Lifter, op: Op, x: Held, gone: Sequence[int]) -> Held:
    """What a reshape leaves of elements of which every rank has one: parts of the sum over them."""
    kept = [d for d in range(len(x.base.shape)) if d not in gone]
    shape = tuple(x.base.shape[d] for d in kept)
    made = lifter.base.add("reduce", [x.base], [(x.base.dtype, shape)], name=op.name, source=op.source, at=op.at,
                           numbers={"dimensions": list(gone)}, symbols={"reducer": ["sum"]})  # fmt: skip
    where: list[int | None] = [kept.index(d) if d in kept else None for d in range(len(x.base.shape))]
    local = tuple(renumbered(x.local[d], n) for n, d in enumerate(kept))
    found = x.moved(where, made.result, local, free=frozenset(kept.index(d) for d in x.free if d in kept))
    lifter.out.one_way.add(op.result)  # or each rank goes on with its own
    mesh = [Pending("sum", old.size) if isinstance(old, Digit) and old.dim in gone else new
            for old, new in zip(x.mesh, found.mesh, strict=True)]  # fmt: skip
    return Held(made.result, local, tuple(mesh), x.scale, found.free)


def elements(x: Held, positions: Sequence[int]) -> list[int]:
    """Dims of which the ranks along these positions, and no others, have one element each."""
    plain = x.aligned and x.along is None
    return [d for d in range(len(x.local)) if plain and prod(g.size for g in x.local[d]) == 1
            and (cut := x.cut(d)) and set(cut) <= {*positions}]  # fmt: skip


def reduced(lifter: Lifter, op: Op, x: Held, gone: Sequence[int], reducer: str) -> Held:
    """The reduction of blocks over the ranks that have one element each: the baseline's along these dims, which stay as
    dims of size 1."""
    kept = [d for d in range(len(x.base.shape)) if d not in gone]
    numbers, symbols = {"dimensions": list(gone)}, {"reducer": [reducer]}
    made = lifter.base.add("reduce", [x.base], [(x.base.dtype, tuple(x.base.shape[d] for d in kept))], name=op.name,
                           numbers=numbers, symbols=symbols, source=op.source, at=op.at)  # fmt: skip
    shape = tuple(1 if d in gone else n for d, n in enumerate(x.base.shape))
    wide = lifter.base.add("reshape", [made.result], [(x.base.dtype, shape)], name=op.name, source=op.source, at=op.at)
    return x.moved([None if d in gone else d for d in range(len(shape))], wide.result, x.local, free=frozenset())
