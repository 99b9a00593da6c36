"""Values that the distributed side makes of what the baseline has, and the baseline does not make itself: a flat buffer
of all gradients, an optimiser's step on a part of it.

What an op makes of baseline values is a value of the baseline, too, where the distributed one holds its numbers; so
what follows is read as a multiple of it, as parts or as blocks. A wrong number enters where that ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from scalify_dl.ir.vocabulary import ELEMENTWISE

from .compare import wrong
from .meaning import MEANINGS, Call, Unsupported

if TYPE_CHECKING:
    from .program import Op
    from .readings import Readings

Array = np.ndarray[Any, Any]
_OF_WHOLES = {"concatenate", "pad", "reshape", "transpose", "broadcast", "slice"}
"""Kinds that put elements elsewhere: they are done to the baseline's values where every rank has these whole."""
MATCH = 1e-9
"""Relative difference up to which numbers are taken for equal."""
MOST = 1 << 20
"""So many elements of one value at most."""


def derived(op: Op, readings: Readings) -> Array | None:
    """What an op with one result makes of the baseline values that its operands read as; None where that is nothing."""
    function = MEANINGS.get(op.kind)
    whole = op.kind in _OF_WHOLES
    program = readings.program
    result = program.tensors[op.results[0]]
    total = op.kind == "reduce" and result.shape == ()
    if function is None or len(op.results) != 1 or op.by_rank or not (whole or total or op.kind in ELEMENTWISE):
        return None
    held = _operands(op, readings, whole)
    if held is None or max(x.size for x in held) > MOST:
        return None
    with suppress(ValueError, IndexError, TypeError, Unsupported):
        return np.asarray(function(Call(op, program.ranks[0], [result]), held)[0])
    return None


def _operands(op: Op, readings: Readings, whole: bool) -> list[Array] | None:
    """What the baseline has of the operands, of one shape for an elementwise op; numbers of the program's own as they
    are."""
    settled = [_settled(tensor, readings) for tensor in op.operands]
    held = [value for value in settled if value is not None]
    if len(held) == len(settled):
        return held
    read = [readings.of(tensor) if value is None else [] for tensor, value in zip(op.operands, settled, strict=True)]
    if whole or not all(value is not None or found for value, found in zip(settled, read, strict=True)):
        return None
    blocks = [
        readings.values_of(found[0].base) if value is None else value
        for value, found in zip(settled, read, strict=True)
    ]
    return _spread(blocks, next(b.shape for b, value in zip(blocks, settled, strict=True) if value is None))


def _settled(tensor: str, readings: Readings) -> Array | None:
    """What is whole on every rank: once parts of it are added up and divided by what it is a multiple of."""
    parts = readings.held(tensor)
    if tensor not in readings.varying:
        return _alike(parts.values())
    found = readings.of(tensor)
    if not found or not parts:
        return None
    axes, scale, program = found[0].axes, float(found[0].scale), readings.program
    sums: dict[tuple[int, ...], Array] = {}
    for rank, part in parts.items():
        kept = tuple(program.coords[rank].get(axis, 0) for axis in program.mesh if axis not in axes)
        sums[kept] = sums[kept] + part if kept in sums else part
    first = next(iter(sums.values()))
    if any(wrong(first, other, MATCH).any() for other in sums.values()):
        return None
    return first if scale == 1 else np.asarray(first / scale)


def _spread(held: Sequence[Array], shape: tuple[int, ...]) -> list[Array] | None:
    """The values in one shape; a number that is the same everywhere fits each."""
    out = []
    for value in held:
        if value.shape != shape:
            if not value.size or (value != value.flat[0]).any():
                return None
            value = np.full(shape, value.flat[0], dtype=value.dtype)
        out.append(value)
    return out


def _alike(values: Iterable[Array]) -> Array | None:
    """What all ranks hold, if it is the same."""
    parts = list(values)
    return parts[0] if parts and all(np.array_equal(parts[0], part) for part in parts[1:]) else None
