"""Ops by name (`--as`) at one element of the result, as formulas: what they are for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from scalify_dl.algebra import laws
from scalify_dl.algebra.extended import Cell, finite, masked
from scalify_dl.algebra.form import Form
from scalify_dl.algebra.sized import worth
from scalify_dl.algebra.sums import greatest_cell
from scalify_dl.algebra.variables import Variable
from scalify_dl.oracle.dtypes import is_float
from scalify_dl.readers.tir.syntax import Buffer
from scalify_dl.registry import registering
from scalify_dl.sizes import Size

from ..domain import Undecided
from ..named import MATMULS
from ..named_more import EPSILON
from .decide import Stated
from .machine import Machine
from .places import Place, whole
from .positions import compared

Element = Callable[["Op", list[Place]], Cell]
NAMED: dict[str, Element] = {}
named = registering(NAMED)
"""Registers what an op is at a place of its result."""


class Op:
    """The arguments of a kernel, and what formulas are made of."""

    def __init__(self, machine: Machine, out: Buffer) -> None:
        self.machine, self.out, self.inputs = machine, out, machine.kernel.inputs
        self.elements, self.basis = machine.elements, machine.basis

    def read(self, at: int, places: Sequence[Place]) -> Form:
        """An element of an argument."""
        buffer = self.inputs[at]
        if not is_float(buffer.dtype) or len(places) != len(buffer.shape):
            raise Undecided("the arguments are none of this op")
        return self.elements.argument(buffer, places)

    def index(self, name: str, size: int) -> tuple[Place, list[Variable]]:
        """An index of its own, for sums and maxima."""
        mine = self.machine.digits(("of the op", name), size)
        return whole(mine), mine

    def shape(self, at: int) -> tuple[int, ...]:
        """The shape of an argument."""
        return self.inputs[at].shape

    def total(self, x: Cell, over: Sequence[Variable]) -> Form:
        """A sum."""
        return finite(self.machine.total(x, over), "a sum")

    def apply(self, kind: str, *xs: Cell) -> Cell:
        """An elementwise op."""
        return self.elements.apply(kind, xs, "f32")

    def takes(self, *counts: int) -> None:
        """Undecided unless there are so many arguments."""
        if len(self.inputs) not in counts:
            raise Undecided("the arguments are none of this op")

    def fits(self, one: int, other: int) -> int:
        """A size that two dims have."""
        if one != other:
            raise Undecided(f"dims of {one} and {other} elements where one size is needed")
        return one


def of_name(name: str) -> Stated:
    """What an op is at places of the only output, rounded to its type."""

    def stated(machine: Machine, outputs: list[Buffer], places: list[list[Place]]) -> list[Cell]:
        if name not in NAMED:
            known = ", ".join(sorted(NAMED))
            raise Undecided(f"what `{name}` is for all sizes is not known (of {known} it is)")
        if len(outputs) != 1:
            raise Undecided(f"one output of {name} was expected")
        op = Op(machine, outputs[0])
        cell = NAMED[name](op, places[0])
        wide = max((b.dtype for b in op.inputs), key=lambda dtype: int(dtype.strip("abcdefghijklmnopqrstuvwxyz") or 0))
        return [machine.elements.cast(cell, "f32" if wide in ("f16", "bf16") else wide, outputs[0].dtype)]

    return stated


def _matmul(left: bool, right: bool) -> Element:
    def element(op: Op, out: list[Place]) -> Cell:
        op.takes(2)
        *batch, i, j = out
        a, b = op.shape(0), op.shape(1)
        size = op.fits(a[-2 if left else -1], b[-1 if right else -2])
        k, over = op.index("k", size)
        sides = [
            [*batch[len(batch) - (len(shape) - 2) :], *pair]
            for shape, pair in ((a, (k, i) if left else (i, k)), (b, (j, k) if right else (k, j)))
        ]
        return op.total(op.read(0, sides[0]) * op.read(1, sides[1]), over)

    return element


for _names, _left, _right in MATMULS:
    for _name in _names:
        NAMED[_name] = _matmul(_left, _right)


def _elementwise(kind: str, count: int) -> Element:
    def element(op: Op, out: list[Place]) -> Cell:
        op.takes(count)
        found = []
        for at in range(count):
            shape, mine = op.shape(at), out[len(out) - len(op.shape(at)) :]
            found.append(op.read(at, [Place.number(0) if n == 1 else p for n, p in zip(shape, mine, strict=True)]))
        return op.apply(kind, *found)

    return element


_ELEMENTWISE = {
    "exp": "exponential", "exponential": "exponential", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh",
    "sigmoid": "logistic", "logistic": "logistic", "relu": "relu", "gelu": "gelu", "abs": "abs", "negate": "negate",
}  # fmt: skip
_PAIRS = {
    "add": "add", "subtract": "subtract", "sub": "subtract", "multiply": "multiply", "mul": "multiply",
    "divide": "divide", "div": "divide", "maximum": "maximum", "minimum": "minimum",
}  # fmt: skip
for _table, _count in ((_ELEMENTWISE, 1), (_PAIRS, 2)):
    for _name, _kind in _table.items():
        NAMED[_name] = _elementwise(_kind, _count)


@named("silu", "swish")
def _silu(op: Op, out: list[Place]) -> Cell:
    op.takes(1)
    x = op.read(0, out)
    return op.apply("multiply", x, op.apply("logistic", x))


@named("swiglu", "silu_and_mul")
def _swiglu(op: Op, out: list[Place]) -> Cell:
    op.takes(1, 2)
    gate = op.read(0, out)
    if len(op.inputs) == 1:
        op.fits(op.shape(0)[-1], 2 * op.out.shape[-1])
        up = op.read(0, [*out[:-1], out[-1] + Place.number(op.out.shape[-1])])
    else:
        up = op.read(1, out)
    return op.apply("multiply", op.apply("multiply", gate, op.apply("logistic", gate)), up)


@named("copy", "identity")
def _copy(op: Op, out: list[Place]) -> Cell:
    op.takes(1)
    return op.read(0, out)


@named("transpose")
def _transpose(op: Op, out: list[Place]) -> Cell:
    op.takes(1)
    return op.read(0, [*out[:-2], out[-1], out[-2]])


def _row(op: Op, out: list[Place]) -> tuple[Form, list[Variable], Form]:
    """An element of the row that the last dim is, its index, and how long the row is."""
    size = op.shape(0)[-1]
    k, over = op.index("row", size)
    return op.read(0, [*out[: len(op.shape(0)) - 1], k]), over, worth(op.basis, size)


def _reduction(name: str) -> Element:
    def element(op: Op, out: list[Place]) -> Cell:
        op.takes(1)
        x, over, size = _row(op, out)
        if name == "max":
            return greatest_cell(x, over)
        found = op.total(x, over)
        return found * laws.power(size, -1) if name == "mean" else found

    return element


for _name in ("sum", "max", "mean"):
    NAMED[_name] = NAMED[f"reduce_{_name}"] = _reduction(_name)


@named("cumsum")
def _cumsum(op: Op, out: list[Place]) -> Cell:
    op.takes(1)
    k, over = op.index("row", op.shape(0)[-1])
    return op.total(compared(op.basis, "LE", k, out[-1]) * op.read(0, [*out[:-1], k]), over)


@named("softmax")
def _softmax(op: Op, out: list[Place]) -> Cell:
    op.takes(1)
    x, over, _ = _row(op, out)
    total = op.total(op.apply("exponential", x), over)
    return op.apply("divide", op.apply("exponential", op.read(0, out)), total)


@named("log_softmax")
def _log_softmax(op: Op, out: list[Place]) -> Cell:
    op.takes(1)
    x, over, _ = _row(op, out)
    total = op.total(op.apply("exponential", x), over)
    return op.apply("subtract", op.read(0, out), op.apply("log", total))


def _weighted(op: Op, x: Cell, out: list[Place]) -> Cell:
    for at, kind in zip(range(1, len(op.inputs)), ("multiply", "add"), strict=False):
        op.fits(op.shape(at)[-1], op.out.shape[-1])
        x = op.apply(kind, x, op.read(at, [out[-1]]))
    return x


@named("rms_norm")
def _rms_norm(op: Op, out: list[Place]) -> Cell:
    op.takes(1, 2)
    x, over, size = _row(op, out)
    mean = op.total(x * x, over) * laws.power(size, -1)
    root = op.apply("rsqrt", mean + op.basis.constant(Fraction(EPSILON)))
    return _weighted(op, op.apply("multiply", op.read(0, out), root), out)


@named("layer_norm")
def _layer_norm(op: Op, out: list[Place]) -> Cell:
    op.takes(1, 2, 3)
    x, over, size = _row(op, out)
    mean = op.total(x, over) * laws.power(size, -1)
    centred = x - mean
    variance = op.total(centred * centred, over) * laws.power(size, -1)
    root = op.apply("rsqrt", variance + op.basis.constant(Fraction(EPSILON)))
    return _weighted(op, op.apply("multiply", op.read(0, out) - mean, root), out)


def _attention(causal: bool, heads_inside: bool) -> Element:
    def element(op: Op, out: list[Place]) -> Cell:
        op.takes(3)
        if heads_inside:
            batch, row, head, column = out
            before, after = [batch], [head]
        else:
            *rest, row, column = out
            before, after = rest, []
        positions = 1 if heads_inside else -2
        keys = op.fits(op.shape(1)[positions], op.shape(2)[positions])
        size = op.fits(op.shape(0)[-1], op.shape(1)[-1])
        if isinstance(size, Size):
            scale = laws.power(worth(op.basis, size), Fraction(-1, 2))
        else:
            scale = laws.constant_power(op.basis, Fraction(size), Fraction(-1, 2))
        n, over = op.index("key", keys)
        d, inner = op.index("inner", size)
        q, k = op.read(0, [*before, row, *after, d]), op.read(1, [*before, n, *after, d])
        score: Cell = op.total(q * k, inner) * scale
        if causal:
            seen = compared(op.basis, "GE", row, n)
            score = masked(seen, finite(score, "a score"), -1)
        weight = finite(op.apply("exponential", score), "a weight")
        above = op.total(weight * op.read(2, [*before, n, *after, column]), over)
        return op.apply("divide", above, op.total(weight, over))

    return element


NAMED["attention"] = _attention(causal=False, heads_inside=False)
NAMED["causal_attention"] = _attention(causal=True, heads_inside=False)
NAMED["attention_bshd"] = _attention(causal=False, heads_inside=True)
NAMED["causal_attention_bshd"] = _attention(causal=True, heads_inside=True)
