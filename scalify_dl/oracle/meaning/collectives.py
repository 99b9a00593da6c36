"""Collectives: the values of one group of ranks, in group order, to the results in the same order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..program import Op
from .base import Array, reducer

GroupMeaning = Callable[[Op, list[Array]], list[Array]]


def _dimension(op: Op, key: str = "dimension") -> int:
    return op.number(key, 0)[0]


def _total(op: Op, values: list[Array]) -> Array:
    function, total = reducer(op.symbol("reducer", "sum")), values[0]
    for value in values[1:]:
        total = np.asarray(function(total, value))
    return total


def all_reduce(op: Op, values: list[Array]) -> list[Array]:
    """Everyone gets the reduction over the group."""
    return [_total(op, values)] * len(values)


def all_gather(op: Op, values: list[Array]) -> list[Array]:
    """Everyone gets the concatenation in group order."""
    return [np.concatenate(values, axis=_dimension(op))] * len(values)


def reduce_scatter(op: Op, values: list[Array]) -> list[Array]:
    """The i-th member gets the i-th block of the reduction."""
    return np.split(_total(op, values), len(values), axis=_dimension(op))


def all_to_all(op: Op, values: list[Array]) -> list[Array]:
    """The i-th member gets the i-th block of every member, concatenated in group order."""
    blocks = [np.split(value, len(values), axis=_dimension(op, "split_dimension")) for value in values]
    return [np.concatenate([b[i] for b in blocks], axis=_dimension(op, "concat_dimension")) for i in range(len(values))]


def collective_broadcast(op: Op, values: list[Array]) -> list[Array]:
    """Everyone gets the value of the first member."""
    return [values[0]] * len(values)


GROUPED: dict[str, GroupMeaning] = {
    "all-reduce": all_reduce,
    "all-gather": all_gather,
    "reduce-scatter": reduce_scatter,
    "all-to-all": all_to_all,
    "collective-broadcast": collective_broadcast,
}
COLLECTIVES = frozenset(GROUPED) | {"collective-permute"}


def collective_permute(op: Op, values: dict[int, Array]) -> dict[int, Array]:
    """Values by rank to values by rank; ranks without a source get zeros."""
    source = {target: origin for origin, target in op.pairs}
    return {rank: values[source[rank]] if rank in source else np.zeros_like(value) for rank, value in values.items()}
