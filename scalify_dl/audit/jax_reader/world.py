"""A random program under construction: values by their types, and the steps that made them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

FLOATS = ("float32", "float32", "float32", "bfloat16", "float16", "float64")
INTEGERS = ("int32", "int32", "int8", "uint8", "uint32", "int16", "int64", "uint64", "uint16")
NARROW = ("int4", "uint4", "float8_e4m3fn", "float8_e5m2")
"""Types of less than a byte, or of one byte: rarely drawn, as few ops take them."""
LIMIT = 600
"""Most elements of a value."""


class Refused(Exception):
    """A step that does not fit the values at hand: another one is drawn."""


@dataclass(frozen=True)
class Step:
    """`function` of some earlier values gives one value or several. A `steady` one moves little where its operands do;
    others (comparisons, orders, roundings) may jump, so what follows from rounded operands is not compared. What is
    `drawn` by the machine is never."""

    name: str
    function: Callable[..., Any]
    operands: tuple[int, ...]
    steady: bool
    results: int
    drawn: bool = False


@dataclass
class World:
    """Values are numbered: inputs first, then results of steps."""

    rng: np.random.Generator
    types: list[Any] = field(default_factory=list)
    inputs: int = 0
    steps: list[Step] = field(default_factory=list)

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return bool(self.rng.random() < p)

    def choice(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low: int, high: int) -> int:
        """low … high, both included."""
        return int(self.rng.integers(low, high + 1))

    def extent(self) -> int:
        """A dim's size: small, now and then one or none at all."""
        return int(self.choice((2, 3, 4, 5, 6, 1, 2, 3, 4, 0 if self.chance(0.25) else 8)))

    def shape(self, ranks: Sequence[int] = (0, 1, 2, 2, 3, 4)) -> tuple[int, ...]:
        """A small shape."""
        while True:
            shape = tuple(self.extent() for _ in range(self.choice(ranks)))
            if np.prod(shape, dtype=int) <= LIMIT // 4:
                return shape

    def input(self, shape: tuple[int, ...], dtype: str) -> int:
        """A further input; only before the first step."""
        if self.steps:
            raise Refused("inputs come first")
        self.types.append(jax.ShapeDtypeStruct(shape, dtype))
        self.inputs += 1
        return len(self.types) - 1

    def find(self, accept: Callable[[Any], bool]) -> int:
        """A value that is accepted, later ones more often; Refused where there is none."""
        fitting = [n for n, type_ in enumerate(self.types) if accept(type_)]
        if not fitting:
            raise Refused("no value fits")
        weights = np.linspace(1, 3, len(fitting))
        return int(self.rng.choice(fitting, p=weights / weights.sum()))

    def add(
        self, name: str, function: Callable[..., Any], *operands: int, steady: bool = True, drawn: bool = False
    ) -> None:
        """A step, if JAX accepts it and it stays small."""
        try:
            made = jax.eval_shape(function, *(self.types[n] for n in operands))
        except (TypeError, ValueError, IndexError, NotImplementedError, ZeroDivisionError, OverflowError) as error:
            raise Refused(str(error)) from None
        results = jax.tree.leaves(made)
        if any(np.prod(r.shape, dtype=int) > LIMIT or len(r.shape) > 6 for r in results):
            raise Refused("too large")
        self.types += [jax.ShapeDtypeStruct(r.shape, r.dtype) for r in results]
        self.steps.append(Step(name, function, operands, steady, len(results), drawn))

    def program(self) -> Callable[..., tuple[Any, ...]]:
        """The whole program: inputs to the results of all steps."""
        steps = tuple(self.steps)

        def run(*arguments: Any) -> tuple[Any, ...]:
            values = list(arguments)
            for step in steps:
                values += jax.tree.leaves(step.function(*(values[n] for n in step.operands)))
            return tuple(values[len(arguments) :])

        return run


def is_float(type_: Any) -> bool:
    """Whether a value is of a real floating type."""
    return bool(jax.numpy.issubdtype(type_.dtype, jax.numpy.floating))


def is_integer(type_: Any) -> bool:
    """Whether a value is of an integer type."""
    return bool(jax.numpy.issubdtype(type_.dtype, jax.numpy.integer))


def is_bool(type_: Any) -> bool:
    """Whether a value is boolean."""
    return bool(type_.dtype == bool)


def is_number(type_: Any) -> bool:
    """Whether a value is real or an integer."""
    return is_float(type_) or is_integer(type_)


def drawn(rng: np.random.Generator, type_: Any) -> Any:
    """A concrete input: floats in quarters (sums and products of a few are exact), now and then with infinities;
    integers also at the ends of their type."""
    shape, dtype = type_.shape, np.dtype(type_.dtype)
    if is_bool(type_):
        return rng.integers(0, 2, shape).astype(bool)
    if is_float(type_):
        quarters = rng.integers(-8, 9, shape) / 4
        endless = rng.random(shape) < (0.2 if rng.random() < 0.06 else 0)
        return np.where(endless, np.copysign(np.inf, quarters), quarters).astype(dtype)
    info = jax.numpy.iinfo(dtype)
    small = rng.integers(0 if info.min == 0 else -3, 5, shape)
    ends = rng.choice(np.array([info.min, info.max, info.min + 1, info.max - 1, info.max // 2], dtype), shape)
    return np.where(rng.random(shape) < 0.25, ends, small.astype(dtype))
