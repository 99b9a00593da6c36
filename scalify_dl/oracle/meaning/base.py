"""What every meaning sees: one op on one rank, and the table from op kind to meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalify_dl.ir.dtypes import is_integer
from scalify_dl.registry import registering

from ..dtypes import integer_limits, storage, wrapped
from ..program import Op, Tensor

Array = np.ndarray[Any, Any]


class Unsupported(Exception):
    """The oracle has no numeric meaning for this op; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Call:
    """An op on a rank: attributes as they are there, and the types of the results."""

    op: Op
    rank: int
    results: Sequence[Tensor]
    rounding: bool = False
    seed: int = 0

    def numbers(self, key: str, default: Sequence[int] | None = None) -> list[int]:
        """A list attribute."""
        return self.op.number(key, self.rank, default)

    def number(self, key: str, default: int | None = None) -> int:
        """A scalar attribute."""
        return self.op.number(key, self.rank, None if default is None else [default])[0]

    def symbol(self, key: str, default: str | None = None) -> str:
        """A symbol attribute."""
        return self.op.symbol(key, default)


Meaning = Callable[[Call, list[Array]], list[Array]]
"""Operand values of one rank → result values."""

MEANINGS: dict[str, Meaning] = {}

meaning = registering(MEANINGS)
"""Registers the meaning of some kinds."""


REDUCERS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reducer(name: str) -> np.ufunc:
    """The binary function of a named reducer."""
    found = REDUCERS.get(name)
    if found is None:
        raise Unsupported(f"the reducer `{name}` has no numeric meaning")
    return found


def identity(name: str, dtype: np.dtype[Any], declared: str = "") -> Any:
    """The value that leaves every other one as it is under the reducer, of a type that may be narrower than its
    storage."""
    if name in ("max", "min"):
        if declared and is_integer(declared):
            least, most = integer_limits(declared)
            return dtype.type(least if name == "max" else most)
        if dtype.kind == "f":
            return dtype.type(-np.inf if name == "max" else np.inf)
        if dtype.kind == "b":
            return dtype.type(name == "min")
        info = np.iinfo(dtype)
        return dtype.type(info.min if name == "max" else info.max)
    if name == "and":
        return dtype.type(True) if dtype.kind == "b" else dtype.type(-1 if dtype.kind == "i" else np.iinfo(dtype).max)
    return dtype.type(1 if name == "prod" else 0)


def accumulated(x: Array, dtype: str) -> Array:
    """Integers and truth values in the type in which an op adds them up, that of its result."""
    return wrapped(x.astype(storage(dtype)), dtype) if x.dtype.kind in "iub" else x


def reduce_over(name: str, x: Array, axes: tuple[int, ...], declared: str) -> Array:
    """The reduction of x over axes, in x's own (declared) type, from the identity."""
    function = reducer(name)
    if x.dtype.kind == "b" and name in ("sum", "prod"):
        raise Unsupported(f"the reducer `{name}` has no meaning on booleans")
    start = identity(name, x.dtype, declared)
    if name in ("sum", "prod"):
        return np.asarray(function.reduce(x, axis=axes, dtype=x.dtype, initial=start))
    return np.asarray(function.reduce(x, axis=axes, initial=start))
