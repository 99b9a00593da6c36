"""The backward pass: `BW.f(gradients of the results, operands of f)` gives the gradients of operands of f."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import prod

from scalify_dl.ir.graph import Tensor

from .call import Call, IllTyped, NoMeaning, backward
from .embedding import added_up
from .forward_ops import averaged, inverse, swapped
from .rotary import rotated
from .shapes import gathered, recut, spread

Tensors = Sequence[Tensor]


def asked(call: Call, gradients: Sequence[Tensor]) -> Tensors:
    """Those gradients that the op makes: all, or the first ones where only one operand can be meant."""
    if len(call.types) == len(gradients):
        return gradients
    if len(call.types) == 1 and call.targets and call.targets[0] is not None:
        return [gradients[call.targets[0] - 1]]
    if len(call.types) == 1 and [tuple(g.shape) for g in gradients].count(tuple(call.shapes[0])) == 1:
        return [g for g in gradients if tuple(g.shape) == tuple(call.shapes[0])]
    raise NoMeaning(f"{len(call.types)} of {len(gradients)} gradients, and which is not said")


@backward("multiref")
def multiref(call: Call) -> Tensors:
    if len({tuple(x.shape) for x in call.operands}) != 1:
        raise IllTyped(f"a sum of {' and '.join(str(list(x.shape)) for x in call.operands) or 'nothing'}")
    return [reduce(call.program.add, call.operands)]


@backward("identity", "contiguous", "float", "to")
def passed_on(call: Call) -> Tensors:
    return [call.operands[0]]


@backward("apply_mask")
def masked(call: Call) -> Tensors:
    return [call.operands[0]]


@backward("embedding")
def embedding(call: Call) -> Tensors:
    gradient, ids, table = call.operands
    return [added_up(call, gradient, ids, table)]


@backward("apply_rotary_emb")
def rotary(call: Call) -> Tensors:
    dq, dk, _, _, angles = call.operands
    return [rotated(call.program, x, angles, conjugate=True) for x in (dq, dk)]


@backward("pow")
def power(call: Call) -> Tensors:
    (gradient, x), n, p = call.operands, call.number(), call.program
    if n == 1:
        return [gradient]
    return [p.multiply(gradient, p.multiply(x if n == 2 else p.power(x, n - 1), n))]


@backward("mean")
def mean(call: Call) -> Tensors:
    (gradient, x), p = call.operands, call.program
    dims, share = averaged(call, x)
    gradient = recut(p, gradient, [1 if d in dims else n for d, n in enumerate(x.shape)])
    return [spread(p, p.multiply(gradient, share), x.shape)]


@backward("sum")
def total(call: Call) -> Tensors:
    gradient, x = call.operands
    if call.attributes.get("dim", "None") != "None" or prod(gradient.shape) != 1:
        raise NoMeaning("the gradient of a sum over some dims")
    return [spread(call.program, recut(call.program, gradient, ()), x.shape)]


@backward("add")
def add(call: Call) -> Tensors:
    gradient, *operands = call.operands
    call.must(alpha="1")
    if len(operands) + len(call.constants) != 2:
        raise IllTyped(f"the gradient of a sum of {len(operands)} tensors and {len(call.constants)} constants")
    if len(operands) == 2 and len(call.types) == 1 and operands[0].shape == operands[1].shape:
        return [gathered(call.program, gradient, operands[0].shape)]  # either's gradient is the same
    return asked(call, [gathered(call.program, gradient, x.shape) for x in operands])


@backward("mul")
def multiply(call: Call) -> Tensors:
    gradient, *operands = call.operands
    p = call.program
    if len(operands) == 1:
        return [p.multiply(gradient, call.number())]
    x, y = operands
    both = ((x, y), (y, x))
    return asked(
        call, [gathered(p, p.multiply(gradient, spread(p, other, gradient.shape)), own.shape) for own, other in both]
    )


@backward("div")
def divide(call: Call) -> Tensors:
    call.must(rounding_mode="None")
    gradient, _ = call.operands
    return [call.program.multiply(gradient, inverse(call.number()))]


@backward("rsqrt")
def rsqrt(call: Call) -> Tensors:
    (gradient, x), p = call.operands, call.program
    root = p.rsqrt(x)
    return [p.multiply(p.multiply(gradient, p.multiply(root, p.multiply(root, root))), Fraction(-1, 2))]


@backward("silu")
def silu(call: Call) -> Tensors:
    (gradient, x), p = call.operands, call.program
    part = p.logistic(x)
    slope = p.multiply(part, p.add(p.multiply(x, p.subtract(p.full(1, x.shape, x.dtype), part)), 1))
    return [p.multiply(gradient, slope)]


@backward("sigmoid")
def sigmoid(call: Call) -> Tensors:
    (gradient, x), p = call.operands, call.program
    part = p.logistic(x)
    return [p.multiply(gradient, p.multiply(part, p.subtract(p.full(1, x.shape, x.dtype), part)))]


@backward("linear")
def linear(call: Call) -> Tensors:
    gradient, x, w = call.operands
    call.must(bias="None")
    p, n = call.program, len(gradient.shape)
    if len(w.shape) != 2 or gradient.shape[-1] != w.shape[0] or gradient.shape[:-1] != x.shape[:-1]:
        raise IllTyped(f"gradient {list(gradient.shape)} of {list(x.shape)} times a weight of shape {list(w.shape)}")
    rows = list(range(n - 1))
    return asked(call, [p.dot(gradient, w, ([n - 1], [0])), p.dot(gradient, x, (rows, rows))])


@backward("matmul")
def matmul(call: Call) -> Tensors:
    gradient, x, y = call.operands
    n = len(gradient.shape)
    if n < 2 or {x.shape[:-2], y.shape[:-2]} != {gradient.shape[:-2]}:
        raise IllTyped(f"gradient {list(gradient.shape)} of {list(x.shape)} times {list(y.shape)}")
    batch = (list(range(n - 2)), list(range(n - 2)))
    p = call.program
    return asked(call, [p.dot(gradient, y, ([n - 1], [n - 1]), batch), p.dot(x, gradient, ([n - 2], [n - 2]), batch)])


@backward("view", "reshape")
def view(call: Call) -> Tensors:
    return [recut(call.program, call.operands[0], call.operands[1].shape)]


@backward("transpose")
def transpose(call: Call) -> Tensors:
    return [swapped(call.program, call.operands[0], call)]


@backward("softmax")
def softmax(call: Call) -> Tensors:
    call.must(dtype="None")
    (gradient, x), p = call.operands, call.program
    (dim,) = call.dims("dim", len(x.shape))
    y = p.softmax(x, dim)
    inner = p.reduce(p.multiply(gradient, y), dim)
    kept = [d for d in range(len(x.shape)) if d != dim]
    return [p.multiply(p.subtract(gradient, p.broadcast(inner, x.shape, kept)), y)]
