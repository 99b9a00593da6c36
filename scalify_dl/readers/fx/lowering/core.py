"""What every lowering uses: the registry, and a `Context` that emits vocabulary ops for one statement at a time.

A lowering is a function from an op's arguments to tensors, registered under the op's name:

    @lower("aten.rsqrt", "aten.rsqrt_")
    def rsqrt(c: Context, x: Tensor) -> Tensor:
        return c.unary("rsqrt", x)

Its parameters stand in the order of the ATen schema, and keyword-only ones bear the schema's names. Tensors arrive as
graph tensors, everything else as Python values. It returns a tensor, a tuple of tensors (or of functions that emit one
when it is used), or raises `Unsupported`, which makes an `unknown:` op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from inspect import Parameter, signature
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from ..dtypes import category, holds, is_floating, result_type
from .dims import Shape, broadcast_shape
from .emitter import Number, Unsupported, integer
from .structure import Structure

__all__ = ["KERNELS", "LOWERINGS", "Context", "Lowered", "Number", "Unsupported", "Written", "kernel", "lower"]

Lowered = Any
"""A tensor, a tuple of tensors or of functions that emit one, or None."""

F = TypeVar("F", bound=Callable[..., Lowered])

LOWERINGS: dict[str, Callable[..., Lowered]] = {}
"""Op name (`aten.mm`, or with its overload, `aten.max.dim`) → lowering."""


class Kernel(NamedTuple):
    """A kernel that writes: its parameters in order, and which it writes."""

    parameters: tuple[str, ...]
    written: tuple[str, ...]


class Written(NamedTuple):
    """What an op gives that writes arguments, too: its results, and what each written argument holds then."""

    results: tuple[Any, ...]
    values: tuple[Any, ...]


KERNELS: dict[str, Kernel] = {}
"""Kernels outside of torch whose lowering gives (None, what is written…)."""


def plain(x: Tensor | Number) -> Tensor | int | float:
    """An exact fraction counts as a Python float."""
    return float(x) if isinstance(x, Fraction) else x


def exact(number: object) -> Fraction | None:
    """A number as the dump prints it, exactly; None for infinities and what is no real number."""
    if isinstance(number, Fraction):
        return number
    if isinstance(number, int):
        return Fraction(number)
    return Fraction(repr(number)) if isinstance(number, float) and isfinite(number) else None


def whole(factor: Number, dtype: str) -> Number:
    """A factor as torch takes it into a computation in a dtype: integers truncate it."""
    return factor if category(dtype) > 1 else int(bool(factor)) if dtype == "pred" else integer(factor)


def fits(value: Fraction) -> bool:
    """Whether numerator and denominator fit the fact tables."""
    return abs(value.numerator) < 2**31 and value.denominator < 2**31


WHERE = frozenset({"device", "pin_memory", "memory_format", "non_blocking", "requires_grad", "generator"})
"""Keyword arguments that do not change what is computed, wherever they occur: no lowering sees them."""


COMPLEX = frozenset({"negate", "exponential", "log", "sqrt", "rsqrt", "sine", "cosine", "tan", "tanh"})
"""Ops of one operand that the vocabulary has for complex numbers, too."""

SWALLOWING = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def lower(*names: str) -> Callable[[F], F]:
    """Registers a lowering under op names, with or without an overload.

    A lowering names every argument that it takes: one that it does not know makes the op `unknown:`, never is ignored.
    Only those of a process group, which come in several forms, may be taken as they are, as `*group`; and what is
    handed on to another lowering, as `*passed, **named`.
    """

    def register(function: F) -> F:
        rest = [p.name for p in signature(function).parameters.values() if p.kind in SWALLOWING]
        assert rest in ([], ["group"], ["passed", "named"]), f"{names[0]} swallows arguments"
        for name in names:
            assert name not in LOWERINGS, name
            LOWERINGS[name] = function
        return function

    return register


def kernel(name: str, parameters: str, written: str) -> Callable[[F], F]:
    """Registers the lowering of a kernel that writes: of keyword parameters, it gives (None, what is written…)."""

    def register(function: F) -> F:
        KERNELS[name] = Kernel(tuple(parameters.split()), tuple(written.split()))
        return lower(name)(function)

    return register


def meant(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments that a lowering sees. Unsupported for tensors that are not dense."""
    layout = kwargs.get("layout")
    if layout is not None and getattr(layout, "path", None) != "torch.strided":
        raise Unsupported(f"layout {getattr(layout, 'path', layout)}")
    return {key: value for key, value in kwargs.items() if key not in WHERE and key != "layout"}


class Context(Structure):
    """Emits ops into `graph` for one statement at a time; what lowerings are written with."""

    # --- elementwise ------------------------------------------------------------------------------------------------

    def keep_scale(self, p: float) -> Fraction:
        """1 / (1 − p) of a dropout probability as the dump prints it, exactly."""
        return 1 / (1 - Fraction(repr(float(p)))) if p != 1 else Fraction(0)

    def convert(self, x: Tensor, dtype: str) -> Tensor:
        """x in another dtype (number → boolean is `x != 0`, as in torch)."""
        if x.dtype == dtype:
            return x
        if dtype == "pred":
            return self.compare("NE", x, 0)
        if x in self.scalars and not x.shape:
            value = self.scalars[x]
            if isinstance(value, complex) or holds(x.dtype, value):
                return self.scalar(value, dtype)
        result = self.emit("convert", (x,), dtype, x.shape)
        if x in self.iotas:
            self.index(result, *self.iotas[x])
        return result

    def operand(self, x: Tensor | Number, dtype: str, shape: Shape) -> Tensor:
        """A tensor or number as an operand of that type."""
        if isinstance(x, Tensor):
            return self.broadcast(self.convert(x, dtype), shape)
        return self.splat(x, dtype, shape)

    def unary(self, kind: str, x: Tensor, floating: bool = True) -> Tensor:
        """An elementwise op of one operand; where it computes in reals, integers become f32 first."""
        if x.dtype[0] == "c" and kind not in COMPLEX:
            raise Unsupported(f"{kind} of complex numbers")
        if floating and not is_floating(x.dtype) and x.dtype[0] != "c":
            x = self.convert(x, "f32")
        return self.emit(kind, (x,), x.dtype, x.shape)

    def binary(self, kind: str, x: Tensor | Number, y: Tensor | Number, dtype: str | None = None) -> Tensor:
        """An elementwise op of two operands, promoted (to `dtype`, if given) and broadcast as torch does."""
        if dtype is None:
            dtype = result_type((plain(x), plain(y)))
        shape = broadcast_shape(x, y)
        left, right = self.operand(x, dtype, shape), self.operand(y, dtype, shape)
        return self.emit(kind, (left, right), dtype, shape)

    def compare(self, direction: str, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """`x direction y`, a boolean."""
        dtype = result_type((plain(x), plain(y)))
        shape = broadcast_shape(x, y)
        left, right = self.operand(x, dtype, shape), self.operand(y, dtype, shape)
        return self.emit("compare", (left, right), "pred", shape, None, {"direction": [direction]})

    def select(self, condition: Tensor, yes: Tensor | Number, no: Tensor | Number, dtype: str | None = None) -> Tensor:
        """`yes` where the condition holds, else `no`."""
        dtype = dtype or result_type((plain(yes), plain(no)))
        shape = broadcast_shape(condition, yes, no)
        picked = self.convert(condition, "pred")
        operands = (self.broadcast(picked, shape), self.operand(yes, dtype, shape), self.operand(no, dtype, shape))
        return self.emit("select", operands, dtype, shape)

    def add(self, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """x + y"""
        return self.binary("add", x, y)

    def subtract(self, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """x − y"""
        return self.binary("subtract", x, y)

    def multiply(self, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """x · y"""
        if isinstance(x, Tensor) != isinstance(y, Tensor):
            tensor, number = (x, y) if isinstance(x, Tensor) else (y, x)
            factor = exact(number)
            if isinstance(tensor, Tensor) and is_floating(tensor.dtype) and factor is not None:
                return self.scale(tensor, factor)
        return self.binary("multiply", x, y)

    def divide(self, x: Tensor | Number, y: Tensor | Number) -> Tensor:
        """x / y; by a number, it is a product."""
        factor = None if isinstance(y, Tensor) else exact(y)
        if isinstance(x, Tensor) and is_floating(x.dtype) and factor and fits(1 / factor):
            return self.scale(x, 1 / factor)
        return self.binary("divide", x, y)

    def scale(self, x: Tensor, factor: Fraction) -> Tensor:
        """x times an exact number: chains of them become one factor, and a factor of 1 none."""
        source, inner = self.scaled.get(x, (x, Fraction(1)))
        if inner != 1 and fits(inner * factor):
            x, factor = source, inner * factor
        if factor == 1:
            return x
        result = self.emit("multiply", (x, self.splat(factor, x.dtype, x.shape)), x.dtype, x.shape)
        self.scaled[result] = (x, factor)
        return result

    # --- reductions and contractions ----------------------------------------------------------------------------------

    def reduce(self, x: Tensor, dims: Iterable[int], reducer: str, keepdim: bool = False) -> Tensor:
        """Reduction over dims; with `keepdim` they stay with size 1."""
        gone = sorted(set(dims)) if x.shape else []  # dim 0 of a scalar is none
        shape = tuple(n for d, n in enumerate(x.shape) if d not in gone)
        result = self.emit("reduce", (x,), x.dtype, shape, {"dimensions": gone}, {"reducer": [reducer]}) if gone else x
        return self.keep(result, x.shape, gone) if keepdim else result

    def keep(self, reduced: Tensor, shape: Shape, gone: Sequence[int]) -> Tensor:
        """A reduced tensor with the reduced dims back as size 1."""
        return self.reshape(reduced, tuple(1 if d in gone else n for d, n in enumerate(shape)))

    def dot(
        self,
        x: Tensor,
        y: Tensor,
        batch: tuple[Sequence[int], Sequence[int]],
        contract: tuple[Sequence[int], Sequence[int]],
    ) -> Tensor:
        """General contraction; result dims: batch, x's free, y's free."""
        if x.dtype != y.dtype:
            raise InputError(f"contraction of {x.type} and {y.type}")
        for left, right in (batch, contract):
            if [x.shape[d] for d in left] != [y.shape[d] for d in right]:
                raise InputError(f"cannot contract {x.type} (dims {list(left)}) with {y.type} (dims {list(right)})")
        free = [n for d, n in enumerate(x.shape) if d not in batch[0] and d not in contract[0]]
        free += [n for d, n in enumerate(y.shape) if d not in batch[1] and d not in contract[1]]
        shape = (*(x.shape[d] for d in batch[0]), *free)
        numbers = {
            "lhs_batch_dims": list(batch[0]),
            "rhs_batch_dims": list(batch[1]),
            "lhs_contracting_dims": list(contract[0]),
            "rhs_contracting_dims": list(contract[1]),
        }
        result = self.emit("dot", (x, y), x.dtype, shape, numbers)
        self.dense.add(result)
        return result
