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
from math import isfinite, prod
from typing import Any, TypeVar

from scalify_dl.errors import InputError
from scalify_dl.frontends.graph import Frame, Graph, Literal, Op, Tensor
from scalify_dl.frontends.torch.dtypes import is_floating, result_type

from .dims import Shape, broadcast_shape, kept_dim

__all__ = ["LOWERINGS", "Context", "Lowered", "Number", "Unsupported", "lower"]

Number = int | float | Fraction
Lowered = Any
"""A tensor, a tuple of tensors or of functions that emit one, or None."""

F = TypeVar("F", bound=Callable[..., Lowered])

LOWERINGS: dict[str, Callable[..., Lowered]] = {}
"""Op name (`aten.mm`, or with its overload, `aten.max.dim`) → lowering."""


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


def fits(value: Fraction) -> bool:
    """Whether numerator and denominator fit the fact tables."""
    return abs(value.numerator) < 2**31 and value.denominator < 2**31


def lower(*names: str) -> Callable[[F], F]:
    """Registers a lowering under op names, with or without an overload."""

    def register(function: F) -> F:
        for name in names:
            assert name not in LOWERINGS, name
            LOWERINGS[name] = function
        return function

    return register


class Unsupported(Exception):
    """This form of an op has no lowering; the text says why."""


class Context:
    """Emits ops into `graph`; knows which statement they come from.

    `iotas` says which tensors hold `index along dim + offset` and nothing else, `slices` which are a contiguous slice
    of another tensor along one dim, `scalars` the value of constants: what `index`, `cat` and friends need to see.
    `views` remembers reshapes and transposes, `scaled` factors, so that chains of them become one; `dense` what surely
    lies in memory row-major without gaps, `permutations` vectors that hold every index once. `groups` are the members
    of process groups by name; `alone` says that one rank runs the graph, so that every group is that rank;
    `constants` are values of tensor constants by name.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.name = ""
        self.frames: Sequence[Frame] = ()
        self.at = (0, 0)
        self.target = ""
        self.groups: Mapping[str, Sequence[int]] = {}
        self.alone = False
        self.constants: Mapping[str, Any] = {}
        self.dense: set[Tensor] = set()
        self.permutations: set[Tensor] = set()
        self.scaled: dict[Tensor, tuple[Tensor, Fraction]] = {}
        self.producers: dict[Tensor, Op] = {}
        self.iotas: dict[Tensor, tuple[int, int]] = {}
        self.slices: dict[Tensor, tuple[Tensor, int, int, int]] = {}
        self.scalars: dict[Tensor, Number | complex] = {}
        self.views: dict[Tensor, tuple[str, Tensor, tuple[int, ...]]] = {}

    # --- ops -----------------------------------------------------------------------------------------------------

    def op(
        self,
        kind: str,
        operands: Sequence[Tensor],
        types: Sequence[tuple[str, Shape]],
        numbers: dict[str, list[int]] | None = None,
        symbols: dict[str, list[str]] | None = None,
    ) -> Op:
        """Appends an op of the current statement."""
        name = f"{self.name}.{kind}"
        op = Op(kind, list(operands), [], name, numbers or {}, symbols or {}, source=self.frames, at=self.at)
        if len(types) == 1:
            op.results.append(Tensor(types[0][0], types[0][1], name))
        else:
            op.results.extend([Tensor(dtype, shape, f"{name}.{i}") for i, (dtype, shape) in enumerate(types)])
        for result in op.results:
            self.producers[result] = op
        self.graph.ops.append(op)
        return op

    def emit(
        self,
        kind: str,
        operands: Sequence[Tensor],
        dtype: str,
        shape: Shape,
        numbers: dict[str, list[int]] | None = None,
        symbols: dict[str, list[str]] | None = None,
    ) -> Tensor:
        """Appends an op with one result and returns that."""
        return self.op(kind, operands, ((dtype, shape),), numbers, symbols).results[0]

    # --- constants -----------------------------------------------------------------------------------------------

    def scalar(self, value: Number | complex, dtype: str) -> Tensor:
        """A scalar constant of a dtype; the value is exact (`Fraction`) or as the dump prints it."""
        if isinstance(value, complex):
            literal = Literal.scalar(f"({value.real!r},{value.imag!r})", dtype)
        elif dtype == "pred":
            literal = Literal.scalar(bool(value), dtype)
        elif isinstance(value, float) and not is_floating(dtype) and dtype[0] != "c":
            literal = Literal.scalar(int(value), dtype)  # torch truncates
        elif dtype[0] == "c" and not isinstance(value, Fraction):
            literal = Literal.scalar(f"({float(value)!r},0)", dtype)
        else:
            literal = Literal.scalar(int(value) if isinstance(value, bool) else value, dtype)
        tensor = self.emit("constant", (), dtype, ())
        tensor.literal = literal
        self.scalars[tensor] = value
        return tensor

    def splat(self, value: Number | complex, dtype: str, shape: Shape) -> Tensor:
        """A constant of a shape with one value."""
        return self.broadcast(self.scalar(value, dtype), shape)

    def iota(self, dtype: str, shape: Shape, dim: int) -> Tensor:
        """The index along a dim."""
        tensor = self.emit("iota", (), dtype, shape, {"dimension": [dim]})
        self.iotas[tensor] = (dim, 0)
        return tensor

    # --- shape -----------------------------------------------------------------------------------------------------

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """Row-major reshape; a reshape of a reshape is one reshape, and to the same shape none."""
        if x.shape == shape:
            return x
        if prod(x.shape) != prod(shape):
            raise InputError(f"{x.type} cannot be viewed as {list(shape)}")
        source = x
        while (view := self.views.get(source)) and view[0] == "reshape":
            source = view[1]
        if source.shape == shape:
            return source
        result = self.emit("reshape", (source,), x.dtype, shape)
        self.views[result] = ("reshape", source, ())
        if x in self.scalars:
            self.scalars[result] = self.scalars[x]
        if x in self.dense:
            self.dense.add(result)
        if x in self.iotas and (dim := kept_dim(x.shape, shape, self.iotas[x][0])) is not None:
            self.iotas[result] = (dim, self.iotas[x][1])
        return result

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Result dim j is dim `order[j]` of x; a transpose of a transpose is one transpose, or none."""
        order = tuple(order)
        if order == tuple(range(len(order))):
            return x
        source = x
        composed = order
        if (view := self.views.get(source)) and view[0] == "transpose":
            source, inner = view[1], view[2]
            composed = tuple(inner[d] for d in order)
            if composed == tuple(range(len(order))):
                return source
        shape = tuple(source.shape[d] for d in composed)
        result = self.emit("transpose", (source,), x.dtype, shape, {"dimensions": list(composed)})
        self.views[result] = ("transpose", source, composed)
        if x in self.iotas:
            self.iotas[result] = (order.index(self.iotas[x][0]), self.iotas[x][1])
        return result

    def broadcast(self, x: Tensor, shape: Shape) -> Tensor:
        """x broadcast to a shape as torch does: dims aligned at the right, dims of size 1 repeated."""
        if x.shape == shape:
            return x
        lead = len(shape) - len(x.shape)
        kept: list[int] = []
        for d, n in enumerate(x.shape):
            if n == shape[lead + d] if lead >= 0 else False:
                kept.append(d)
            elif n != 1 or lead < 0:
                raise InputError(f"{x.type} does not broadcast to {list(shape)}")
        narrow = self.reshape(x, tuple(x.shape[d] for d in kept))
        if narrow.shape == shape:
            return narrow
        dimensions = [lead + d for d in kept]
        result = self.emit("broadcast", (narrow,), x.dtype, shape, {"dimensions": dimensions})
        if x in self.scalars:
            self.scalars[result] = self.scalars[x]
        if narrow in self.iotas:
            dim, offset = self.iotas[narrow]
            self.iotas[result] = (dimensions[dim], offset)
        return result

    def spread(self, x: Tensor, shape: Shape, dims: Sequence[int]) -> Tensor:
        """x with its dim i at `dims[i]` of a shape, repeated along the others (`keepdim` without the reshape)."""
        if len(dims) == len(shape):
            return x
        return self.emit("broadcast", (x,), x.dtype, shape, {"dimensions": list(dims)})

    def slice(self, x: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
        """`x[start:stop:step]` along a dim, bounds within it."""
        if (start, stop, step) == (0, x.shape[dim], 1):
            return x
        rank = len(x.shape)
        size = -(-(stop - start) // step)
        result = self.emit(
            "slice",
            (x,),
            x.dtype,
            (*x.shape[:dim], size, *x.shape[dim + 1 :]),
            {
                "start": [start if d == dim else 0 for d in range(rank)],
                "limit": [stop if d == dim else x.shape[d] for d in range(rank)],
                "stride": [step if d == dim else 1 for d in range(rank)],
            },
        )
        if step == 1:
            self.slices[result] = (x, dim, start, stop)
            if x in self.iotas:
                along, offset = self.iotas[x]
                self.iotas[result] = (along, offset + (start if dim == along else 0))
        return result

    def block(self, x: Tensor, dim: int, index: int, count: int) -> Tensor:
        """One of `count` equal blocks of a dim, by way of a dim of blocks: what is inside of a block may be sharded."""
        size = x.shape[dim] // count
        split = self.reshape(x, (*x.shape[:dim], count, size, *x.shape[dim + 1 :]))
        result = self.reshape(self.slice(split, dim, index, index + 1), (*x.shape[:dim], size, *x.shape[dim + 1 :]))
        self.slices[result] = (x, dim, index * size, (index + 1) * size)
        return result

    def concatenate(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        """Concatenation; slices that partition one tensor equally are put together by reshapes alone, and a part among
        zeros is padded (which ranks that differ in the place of their part have in common)."""
        parts = [part for part in parts if part.shape[dim] or len(parts) == 1]
        if len(parts) == 1:
            return parts[0]
        whole = self._partition(parts)
        if whole is not None:
            source, along = whole
            if along == dim:
                return source
            count, rank = len(parts), len(source.shape)
            split = (*source.shape[:along], count, source.shape[along] // count, *source.shape[along + 1 :])
            rest = [d + (d >= along) for d in range(rank)]  # dims of `split` but the count
            rest[along] = along + 1
            order = [*rest[:dim], along, *rest[dim:]]
            moved = self.transpose(self.reshape(source, split), order)
            shape = list(parts[0].shape)
            shape[dim] *= count
            return self.reshape(moved, tuple(shape))
        filled = [i for i, part in enumerate(parts) if self.scalars.get(part) != 0]
        if len(filled) == 1:
            x = parts[filled[0]]
            low, high = [0] * len(x.shape), [0] * len(x.shape)
            low[dim] = sum(part.shape[dim] for part in parts[: filled[0]])
            high[dim] = sum(part.shape[dim] for part in parts[filled[0] + 1 :])
            return self.pad(x, low, high, 0)
        if len({part.shape for part in parts}) == 1:  # equal blocks: along a dim of blocks
            one = (*parts[0].shape[:dim], 1, *parts[0].shape[dim:])
            blocks = [self.reshape(part, one) for part in parts]
            many = (*one[:dim], len(parts), *one[dim + 1 :])
            stacked = self.emit("concatenate", blocks, parts[0].dtype, many, {"dimension": [dim]})
            return self.reshape(stacked, (*one[:dim], len(parts) * one[dim + 1], *one[dim + 2 :]))
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        return self.emit("concatenate", parts, parts[0].dtype, tuple(shape), {"dimension": [dim]})

    def _partition(self, parts: Sequence[Tensor]) -> tuple[Tensor, int] | None:
        """The tensor and dim that parts are consecutive equal slices of, covering all of it."""
        source, along, at = None, 0, 0
        for part in parts:
            cut = self.slices.get(part)
            if cut is None or (source is not None and (cut[0] is not source or cut[1] != along)) or cut[2] != at:
                return None
            source, along, at = cut[0], cut[1], cut[3]
            if part.shape[along] != parts[0].shape[along]:
                return None
        return (source, along) if source is not None and at == source.shape[along] else None

    def pad(
        self, x: Tensor, low: Sequence[int], high: Sequence[int], value: Number, interior: Sequence[int] = ()
    ) -> Tensor:
        """XLA's pad (negative amounts crop)."""
        gaps = list(interior) or [0] * len(x.shape)
        if not any(low) and not any(high) and not any(gaps):
            return x
        shape = tuple(
            lo + n + max(n - 1, 0) * gap + hi for lo, n, gap, hi in zip(low, x.shape, gaps, high, strict=True)
        )
        numbers = {"low": list(low), "high": list(high), "interior": gaps}
        return self.emit("pad", (x, self.scalar(value, x.dtype)), x.dtype, shape, numbers)

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
            return self.scalar(self.scalars[x], dtype)
        result = self.emit("convert", (x,), dtype, x.shape)
        if x in self.iotas:
            self.iotas[result] = self.iotas[x]
        return result

    def operand(self, x: Tensor | Number, dtype: str, shape: Shape) -> Tensor:
        """A tensor or number as an operand of that type."""
        if isinstance(x, Tensor):
            return self.broadcast(self.convert(x, dtype), shape)
        return self.splat(x, dtype, shape)

    def unary(self, kind: str, x: Tensor, floating: bool = True) -> Tensor:
        """An elementwise op of one operand; where it computes in reals, integers become f32 first."""
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
        gone = sorted(set(dims))
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
