"""The lowest layer of a lowering context: appending ops, constants, and what is remembered about tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from scalify_dl.ir.graph import Frame, Graph, Literal, Op, Tensor
from scalify_dl.ir.literals import is_beyond

from ..dtypes import exact_integers, is_integer, wrapped
from .dims import Shape

Number = int | float | Fraction


class Unsupported(Exception):
    """This form of an op has no lowering; the text says why."""


def integer(value: Number) -> int:
    """A number as an integer. Unsupported for infinities and NaN, which torch refuses where it uses them."""
    if isinstance(value, float) and not isfinite(value):
        raise Unsupported(f"{value} as an integer")
    return int(value)


class Emitter:
    """Emits ops into `graph`; knows which statement they come from.

    `iotas` says which tensors hold `index along dim + offset` and nothing else, `slices` which are a contiguous slice
    of another tensor along one dim, `scalars` the value of constants: what `index`, `cat` and friends need to see.
    `views` remembers reshapes and transposes, `scaled` factors, so that chains of them become one; `dense` what surely
    lies in memory row-major without gaps, `permutations` vectors that hold every index once. `groups` are the members
    of process groups by name, `reductions` what collectives compute whose reduction the dump names; `alone` says that
    one rank runs the graph, so that every group is that rank;
    `places` are tensors of places in windows: of spatial dims of which sizes, in which windows;
    `untyped` are tensors of which not even the type is known; `constants` are values of tensor constants by name.
    `printed` and `printed_shape` are what the text shows for an item of the current statement, None where the item is
    not taken: what a library op computes in, its arguments do not tell.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.name = ""
        self.frames: Sequence[Frame] = ()
        self.at = (0, 0)
        self.target = ""
        self.groups: Mapping[str, Sequence[int]] = {}
        self.reductions: Mapping[str, str] = {}
        self.divisions: Mapping[str, Sequence[Sequence[int]]] = {}
        self.spanned: Sequence[int] = ()
        self.alone = False
        self.constants: Mapping[str, Any] = {}
        self.printed: Callable[[int], str | None] = lambda item: None
        self.printed_shape: Callable[[int], Shape | None] = lambda item: None
        self.dense: set[Tensor] = set()
        self.moved: set[Tensor] = set()
        self.untyped: set[Tensor] = set()
        self.permutations: set[Tensor] = set()
        self.scaled: dict[Tensor, tuple[Tensor, Fraction]] = {}
        self.producers: dict[Tensor, Op] = {}
        self.iotas: dict[Tensor, tuple[int, int]] = {}
        self.slices: dict[Tensor, tuple[Tensor, int, int, int]] = {}
        self.scalars: dict[Tensor, Number | complex] = {}
        self.places: dict[Tensor, tuple[Shape, tuple[Sequence[int], ...]]] = {}
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
        """A scalar constant of a dtype; the value is exact (`Fraction`) or as the dump prints it.

        Unsupported for numbers beyond a real type: some kernels compute with them in a wider one, others take
        infinity for them.
        """
        if not isinstance(value, complex) and is_beyond(value, dtype):
            raise Unsupported(f"the number {value!s:.40}, which {dtype} does not hold")
        if isinstance(value, complex):
            literal = Literal.scalar(f"({value.real!r},{value.imag!r})", dtype)
        elif dtype == "pred":
            value = bool(value)
            literal = Literal.scalar(value, dtype)
        elif is_integer(dtype):
            value = wrapped(integer(value), dtype)  # torch truncates and wraps
            literal = Literal.scalar(value, dtype)
        elif dtype[0] == "c" and not isinstance(value, Fraction):
            literal = Literal.scalar(f"({float(value)!r},0)", dtype)
        else:
            literal = Literal.scalar(int(value) if isinstance(value, bool) else value, dtype)
        tensor = self.emit("constant", (), dtype, ())
        tensor.literal = literal
        self.scalars[tensor] = value
        return tensor

    def iota(self, dtype: str, shape: Shape, dim: int) -> Tensor:
        """The index along a dim."""
        tensor = self.emit("iota", (), dtype, shape, {"dimension": [dim]})
        self.index(tensor, dim, 0)
        return tensor

    def index(self, tensor: Tensor, dim: int, offset: int) -> None:
        """Remembers that a tensor holds `index along dim + offset`, if its dtype can hold those."""
        low, high = exact_integers(tensor.dtype)
        if low <= offset and offset + tensor.shape[dim] - 1 <= high:
            self.iotas[tensor] = (dim, offset)
