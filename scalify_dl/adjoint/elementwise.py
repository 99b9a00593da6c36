"""Elementwise ops: the gradient times the derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program

from .derive import Gradient, NoAdjoint, vjp

OF_OPERAND: dict[str, Callable[[Program, Tensor], Tensor]] = {
    "abs": lambda p, x: p.sign(x),
    "log": lambda p, x: p.divide(p.full(1, x.shape, x.dtype), x),
    "log-plus-one": lambda p, x: p.divide(p.full(1, x.shape, x.dtype), p.add(x, 1)),
    "sine": lambda p, x: p.cosine(x),
    "cosine": lambda p, x: p.negate(p.sine(x)),
    "erf": lambda p, x: p.multiply(p.exponential(p.negate(p.multiply(x, x))), 2 / sqrt(pi)),
    "relu": lambda p, x: _where(p, p.compare(x, 0, direction="GT"), p.full(1, x.shape, x.dtype)),
    "softplus": lambda p, x: p.logistic(x),
}
"""The derivative, from the operand."""
OF_RESULT: dict[str, Callable[[Program, Tensor], Tensor]] = {
    "exponential": lambda p, y: y,
    "exponential-minus-one": lambda p, y: p.add(y, 1),
    "tanh": lambda p, y: p.add(p.negate(p.multiply(y, y)), 1),
    "tan": lambda p, y: p.add(p.multiply(y, y), 1),
    "logistic": lambda p, y: p.multiply(y, p.add(p.negate(y), 1)),
    "sqrt": lambda p, y: p.divide(p.full(0.5, y.shape, y.dtype), y),
    "rsqrt": lambda p, y: p.multiply(p.multiply(p.multiply(y, y), y), -0.5),
    "cbrt": lambda p, y: p.divide(p.full(1, y.shape, y.dtype), p.multiply(p.multiply(y, y), 3)),
    "erf-inv": lambda p, y: p.multiply(p.exponential(p.multiply(y, y)), sqrt(pi) / 2),
}
"""The derivative, from the result."""


HOLOMORPHIC = frozenset(("exponential", "log", "sine", "cosine", "tan", "tanh", "multiply", "divide"))
"""Kinds whose rule is right for complex operands, too: of <g, z> the real part of their product is meant."""


def _real(op: Op) -> None:
    """NoAdjoint for complex operands of ops that are not holomorphic."""
    if op.operands[0].dtype[0] == "c" and op.kind not in HOLOMORPHIC:
        raise NoAdjoint(f"no backward is known of `{op.kind}` of complex numbers (`{op.name}`)")


def _where(p: Program, mask: Tensor, x: Tensor) -> Tensor:
    return p.select(mask, x, p.full(0, x.shape, x.dtype))


@vjp(*OF_OPERAND)
def of_operand(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """g f'(x)"""
    (g,) = gradients
    assert g is not None
    _real(op)
    return [p.multiply(g, OF_OPERAND[op.kind](p, op.operands[0]))]


@vjp(*OF_RESULT)
def of_result(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """g f'(x), by f(x)"""
    (g,) = gradients
    assert g is not None
    _real(op)
    return [p.multiply(g, OF_RESULT[op.kind](p, op.result))]


@vjp("add", "subtract", "negate", "convert", "reduce-precision")
def linear(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """As it is, or its negative."""
    (g,) = gradients
    assert g is not None
    if op.kind == "negate":
        return [p.negate(g)]
    return [g, p.negate(g) if op.kind == "subtract" else g][: len(op.operands)]


@vjp("multiply", "divide", "power", "atan2", "remainder")
def of_two(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """The derivative by each operand."""
    (g,) = gradients
    assert g is not None
    _real(op)
    a, b = op.operands
    if op.kind == "multiply" and a is b:
        return [p.multiply(g, p.multiply(a, 2)), None]
    if op.kind == "multiply":
        return [p.multiply(g, b), p.multiply(g, a)]
    if op.kind == "divide":
        return [p.divide(g, b), p.negate(p.divide(p.multiply(g, a), p.multiply(b, b)))]
    if op.kind == "atan2":
        scaled = p.divide(g, p.add(p.multiply(a, a), p.multiply(b, b)))
        return [p.multiply(scaled, b), p.negate(p.multiply(scaled, a))]
    if op.kind == "remainder":
        whole = p.subtract(a, op.result)  # a - b trunc(a / b)
        return [g, p.negate(p.multiply(g, p.divide(whole, b)))]
    zero = p.compare(b, 0, direction="EQ")
    one = p.full(1, b.shape, b.dtype)
    by_base = p.multiply(p.select(zero, one, b), p.power(a, p.select(zero, one, p.subtract(b, one))))
    positive = p.compare(a, 0, direction="GT")
    by_exponent = p.multiply(p.log(p.select(positive, a, p.full(1, a.shape, a.dtype))), op.result)
    return [p.multiply(g, p.select(zero, p.full(0, a.shape, a.dtype), by_base)), p.multiply(g, by_exponent)]


@vjp("maximum", "minimum")
def extreme(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """To the one that was taken; half to each of two that are equal."""
    (g,) = gradients
    assert g is not None
    a, b = op.operands
    better, tie = "GT" if op.kind == "maximum" else "LT", p.compare(a, b, direction="EQ")
    half, one, zero = (p.full(n, a.shape, a.dtype) for n in (0.5, 1, 0))
    mine = p.select(tie, half, p.select(p.compare(a, b, direction=better), one, zero))
    return [p.multiply(g, mine), p.multiply(g, p.subtract(one, mine))]


@vjp("select")
def select(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """To the one that was chosen."""
    (g,) = gradients
    assert g is not None
    zero = p.full(0, g.shape, g.dtype)
    return [None, p.select(op.operands[0], g, zero), p.select(op.operands[0], zero, g)]


@vjp("clamp")
def clamp(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """To the value between the bounds; else to the bound that it is. It is min(max(x, low), high)."""
    (g,) = gradients
    assert g is not None
    low, x, high = op.operands
    both = getattr(p, "and")
    raised = p.maximum(x, low)
    below = both(p.compare(low, x, direction="GT"), p.compare(low, high, direction="LE"))
    inside = both(p.compare(x, low, direction="GE"), p.compare(x, high, direction="LE"))
    return [_where(p, below, g), _where(p, inside, g), _where(p, p.compare(raised, high, direction="GT"), g)]


@vjp("gelu", "gelu-tanh")
def gelu(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """The op that frameworks have for it."""
    (g,) = gradients
    return [p.op(f"{op.kind}-backward", *filter(None, [g, op.operands[0]])).result]


@vjp("real", "imag", "complex")
def parts(p: Program, op: Op, gradients: Sequence[Gradient]) -> Sequence[Gradient]:
    """The real part of g z is what counts: it is Re g Re z - Im g Im z."""
    (g,) = gradients
    assert g is not None
    if op.kind == "complex":
        return [p.real(g), p.negate(p.imag(g))]
    zero = p.full(0, g.shape, g.dtype)
    return [p.complex(g, zero) if op.kind == "real" else p.complex(zero, p.negate(g))]
