"""Sources of values without operands, and opaque calls that somebody has to invent."""

from __future__ import annotations

import numpy as np

from ..dtypes import is_float, is_narrow, round_to, storage
from ..literals import invented, literal_array, seeded
from .base import Array, Call, meaning
from .declared import declared


@meaning("constant")
def constant(call: Call, xs: list[Array]) -> list[Array]:
    """The literal, the value of this rank, or (elided) an invented value."""
    result = call.results[0]
    if "value" in call.op.by_rank or "value" in call.op.numbers:
        return [np.full(result.shape, call.number("value")).astype(storage(result.dtype))]
    if result.items is None and (result.literal is None or result.literal == "{...}"):
        return [invented(result, call.seed)]
    value = literal_array(result)
    return [round_to(value, result.dtype) if call.rounding and is_narrow(result.dtype) else value]


@meaning("iota")
def iota(call: Call, xs: list[Array]) -> list[Array]:
    """The index along `dimension`."""
    shape, dim = call.results[0].shape, call.number("dimension", 0)
    index = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
    return [np.broadcast_to(index, shape).astype(storage(call.results[0].dtype))]


@meaning("partition-id", "replica-id")
def rank_id(call: Call, xs: list[Array]) -> list[Array]:
    """The rank."""
    return [np.asarray(call.rank).astype(storage(call.results[0].dtype))]


@meaning("empty")
def empty(call: Call, xs: list[Array]) -> list[Array]:
    """Uninitialised memory: NaN, so that any use of it shows (integers: a different value on every rank)."""
    result = call.results[0]
    if is_float(result.dtype):
        return [np.full(result.shape, np.nan)]
    return [seeded("empty", call.op.id, call.rank).integers(0, 2, result.shape).astype(storage(result.dtype))]


def opaque(call: Call, xs: list[Array]) -> list[Array]:
    """An invented function of all operand elements: smooth, the same for equal kinds and attributes; of the structure
    that rules declare, where they do."""
    if call.op.declared is not None:
        return declared(call, xs, call.op.declared)
    attributes = repr(sorted(call.op.numbers.items())) + repr(sorted(call.op.symbols.items()))
    values = []
    for position, result in enumerate(call.results):
        rng = seeded("opaque", call.op.kind, attributes, position, [x.shape for x in xs], result.shape)
        phase = rng.uniform(0, 6.0, result.shape)
        total = 0.0
        for x in xs:
            weights = rng.uniform(0.5, 1.5, x.shape)
            total += float(np.sum(weights * np.where(np.isfinite(x), x, 0).real)) / max(x.size, 1)
        value = 1 + 0.5 * np.sin(phase + total)
        if not is_float(result.dtype):
            value = np.floor(value * 4)
        values.append(value.astype(storage(result.dtype)))
    return values
