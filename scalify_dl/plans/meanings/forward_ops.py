"""The forward pass: what kinds compute."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program

from .call import Call, IllTyped, NoMeaning, dtype, forward
from .embedding import looked_up
from .rotary import rotated
from .shapes import common, recut, spread

Tensors = Sequence[Tensor]
MASKED = -1_000_000
"""What a causal mask has above its diagonal."""


@forward("multiref")
def multiref(call: Call) -> Tensors:
    (x,) = call.operands
    if "times" in call.attributes and call.integer("times") != len(call.types):
        raise IllTyped(f"times={call.attributes['times']} with {len(call.types)} results")
    return [x] * len(call.types)


@forward("identity", "contiguous")
def identity(call: Call) -> Tensors:
    (x,) = call.operands
    return [x]


@forward("float", "to")
def cast(call: Call) -> Tensors:
    (x,) = call.operands
    wanted = "float32" if call.kind == "float" else call.attributes.get("dtype_or_device", "")
    if dtype(wanted) != call.types[0][0]:
        raise IllTyped(f"a cast to {wanted} is declared to make {call.types[0][0]}")
    return [x]


@forward("embedding")
def embedding(call: Call) -> Tensors:
    ids, table = call.operands
    return [looked_up(call, ids, table)]


@forward("create_mask")
def causal_mask(call: Call) -> Tensors:
    p, (shape,) = call.program, call.shapes
    if len(shape) != 4 or shape[2] != call.operands[0].shape[1] or shape[2] != shape[3]:
        raise IllTyped(f"a mask of shape {list(shape)} for ids of shape {list(call.operands[0].shape)}")
    below = p.compare(p.iota(shape, 2), p.iota(shape, 3), direction="GE")
    return [p.select(below, p.full(0, shape), p.full(MASKED, shape))]


@forward("apply_mask")
def masked(call: Call) -> Tensors:
    x, mask = call.operands
    return [call.program.add(x, spread(call.program, mask, x.shape))]


@forward("apply_rotary_emb")
def rotary(call: Call) -> Tensors:
    q, k, angles = call.operands
    return [rotated(call.program, x, angles, conjugate=False) for x in (q, k)]


@forward("pow")
def power(call: Call) -> Tensors:
    (x,), n, p = call.operands, call.number(), call.program
    if n == 1:
        return [x]
    return [p.multiply(x, x) if n == 2 else p.power(x, n)]


def averaged(call: Call, x: Tensor) -> tuple[list[int], Fraction]:
    """The dims that a mean is over, and one by the number of elements."""
    dims = call.dims("dim", len(x.shape))
    return dims, Fraction(1, prod(x.shape[d] for d in dims))


@forward("mean")
def mean(call: Call) -> Tensors:
    call.must(dtype="None")
    (x,), p = call.operands, call.program
    dims, share = averaged(call, x)
    kept = [1 if d in dims else n for d, n in enumerate(x.shape)]
    shape = kept if call.attributes.get("keepdim") == "True" else [n for d, n in enumerate(x.shape) if d not in dims]
    return [recut(p, p.multiply(p.reduce(x, dims), share), shape)]


@forward("sum")
def total(call: Call) -> Tensors:
    if call.attributes.get("dim", "None") != "None" or prod(call.shapes[0]) != 1:
        raise NoMeaning("a sum over some dims")
    call.must(dtype="None")
    (x,), p = call.operands, call.program
    return [recut(p, p.reduce(x, list(range(len(x.shape)))), call.shapes[0])]


def second(call: Call) -> Tensor:
    """The second operand: a tensor, or the constant."""
    x = call.operands[0]
    return call.operands[1] if len(call.operands) == 2 else call.program.full(call.number(), x.shape, x.dtype)


@forward("add", "sub")
def add(call: Call) -> Tensors:
    p, x, y = call.program, call.operands[0], second(call)
    if len(call.operands) > 2:
        raise NoMeaning("a sum of more than two")
    alpha = call.integer("alpha") if "alpha" in call.attributes else 1
    if alpha != 1:
        y = p.multiply(y, alpha)
    shape = common(x.shape, y.shape)
    kind = p.add if call.kind == "add" else p.subtract
    return [kind(spread(p, x, shape), spread(p, y, shape))]


@forward("mul")
def multiply(call: Call) -> Tensors:
    p, x, y = call.program, call.operands[0], second(call)
    shape = common(x.shape, y.shape)
    return [p.multiply(spread(p, x, shape), spread(p, y, shape))]


@forward("div")
def divide(call: Call) -> Tensors:
    call.must(rounding_mode="None")
    p, x = call.program, call.operands[0]
    if len(call.operands) == 2:
        shape = common(x.shape, call.operands[1].shape)
        return [p.divide(spread(p, x, shape), spread(p, call.operands[1], shape))]
    return [p.multiply(x, inverse(call.number()))]


def inverse(number: Fraction) -> Fraction:
    """One by a number."""
    if number == 0:
        raise NoMeaning("a division by 0")
    return 1 / number


@forward("neg", "rsqrt", "sqrt", "exp", "tanh", "sigmoid", "relu")
def plain(call: Call) -> Tensors:
    (x,) = call.operands
    names = {"neg": "negate", "exp": "exponential", "sigmoid": "logistic"}
    call.must(inplace="False")
    return [call.program.op(names.get(call.kind, call.kind), x).result]


@forward("silu")
def silu(call: Call) -> Tensors:
    call.must(inplace="False")
    (x,) = call.operands
    return [call.program.multiply(x, call.program.logistic(x))]


@forward("linear")
def linear(call: Call) -> Tensors:
    x, w, p = call.operands[0], call.operands[1], call.program
    if len(w.shape) != 2 or x.shape[-1] != w.shape[1]:
        raise IllTyped(f"{list(x.shape)} times a weight of shape {list(w.shape)}")
    y = p.dot(x, w, ([len(x.shape) - 1], [1]))
    if len(call.operands) == 3:
        return [p.add(y, spread(p, call.operands[2], y.shape))]
    call.must(bias="None")
    return [y]


@forward("matmul")
def matmul(call: Call) -> Tensors:
    x, y = call.operands
    n = len(x.shape)
    if n < 2 or len(y.shape) != n or x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-2]:
        raise IllTyped(f"{list(x.shape)} times {list(y.shape)}")
    return [call.program.dot(x, y, ([n - 1], [n - 2]), (list(range(n - 2)), list(range(n - 2))))]


@forward("view", "reshape")
def view(call: Call) -> Tensors:
    (x,), (shape,) = call.operands, call.shapes
    if "size" in call.attributes:
        asked = call.integers("size")
        filled = [n if a == -1 else a for a, n in zip(asked, shape, strict=False)]
        if len(asked) != len(shape) or asked.count(-1) > 1 or filled != list(shape):
            raise IllTyped(f"size={call.attributes['size']} is declared to make {list(shape)}")
    return [recut(call.program, x, shape)]


def swapped(p: Program, x: Tensor, call: Call) -> Tensor:
    """Two dims exchanged."""
    (a,), (b,) = call.dims("dim0", len(x.shape)), call.dims("dim1", len(x.shape))
    order = list(range(len(x.shape)))
    order[a], order[b] = b, a
    return p.transpose(x, *order)


@forward("transpose")
def transpose(call: Call) -> Tensors:
    (x,) = call.operands
    return [swapped(call.program, x, call)]


@forward("softmax")
def softmax(call: Call) -> Tensors:
    call.must(dtype="None")
    (x,) = call.operands
    (dim,) = call.dims("dim", len(x.shape))
    return [call.program.softmax(x, dim)]
