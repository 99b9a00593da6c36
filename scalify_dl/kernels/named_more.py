"""Named ops other than products: elementwise ones, reductions, norms, attention."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.ir.vocabulary import ARITY, ELEMENTWISE

from .named import NAMED, Make, Misfit, named

EPSILON = Fraction(1, 100_000)
_SKIPPED = frozenset(
    """compare complex convert select imag real bitcast-convert reduce-precision is-finite and or not xor clamp
    gelu-backward gelu-tanh-backward popcnt clz shift-left shift-right-arithmetic shift-right-logical""".split()  # noqa: SIM905
)
_SHORT = {"exp": "exponential", "sigmoid": "logistic", "sub": "subtract", "mul": "multiply", "div": "divide"}


def _elementwise(kind: str) -> Make:
    count = ARITY.get(kind, 1)

    def make(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        if len(xs) != count:
            raise Misfit(f"{count} operands")
        return p.op(kind, *(_stretched(p, x, shape) for x in xs)).result

    return make


def _stretched(p: Program, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """An operand broadcast to the result, last dims first."""
    if x.shape == shape:
        return x
    extra = len(shape) - len(x.shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[extra:], strict=True)):
        raise Misfit(f"operands that broadcast to {list(shape)}")
    kept = [d for d, n in enumerate(x.shape) if n != 1 or shape[extra + d] == 1]
    plain = p.reshape(x, [x.shape[d] for d in kept]) if len(kept) < len(x.shape) else x
    return p.broadcast(plain, shape, [extra + d for d in kept])


for _kind in sorted(ELEMENTWISE - _SKIPPED):
    NAMED.setdefault(_kind.replace("-", "_"), _elementwise(_kind))
for _name, _kind in _SHORT.items():
    NAMED[_name] = _elementwise(_kind)


def _one(xs: Sequence[Tensor]) -> Tensor:
    if len(xs) != 1:
        raise Misfit("one operand")
    return xs[0]


@named("silu", "swish")
def _silu(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    x = _one(xs)
    return p.multiply(x, p.logistic(x))


@named("swiglu", "silu_and_mul")
def _swiglu(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    if len(xs) == 1:
        gate, up = p.split(xs[0], len(shape) - 1, [shape[-1], shape[-1]])
    elif len(xs) == 2:
        gate, up = xs
    else:
        raise Misfit("gate and up, or both in one")
    return p.multiply(p.multiply(gate, p.logistic(gate)), up)


@named("copy", "identity")
def _copy(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    return _one(xs)


@named("transpose")
def _transpose(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    x = _one(xs)
    rank = len(x.shape)
    return p.transpose(x, *range(rank - 2), rank - 1, rank - 2)


def _reduced(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims that a result does not have."""
    if len(shape) == len(x.shape):
        return tuple(d for d, n in enumerate(x.shape) if n != shape[d])
    rank = len(x.shape)
    if shape == (1,) and rank > 1:
        return tuple(range(rank))
    for count in range(1, rank + 1):
        for first in range(rank - count, -1, -1):
            if x.shape[:first] + x.shape[first + count :] == shape:
                return tuple(range(first, first + count))
    raise Misfit("a result without some of the operand's dims")


def _reduction(reducer: str) -> Make:
    def make(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        x = _one(xs)
        dims = _reduced(x, shape)
        found = p.reduce(x, dims, "sum" if reducer == "mean" else reducer)
        if reducer == "mean":
            count = 1
            for d in dims:
                count *= x.shape[d]
            found = p.multiply(found, Fraction(1, count))
        return found if found.shape == shape else p.reshape(found, shape)

    return make


for _name in ("sum", "max", "min", "prod", "mean"):
    NAMED[_name] = NAMED[f"reduce_{_name}"] = _reduction(_name)


@named("cumsum")
def _cumsum(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    return p.cumulative(_one(xs), len(shape) - 1)


@named("softmax")
def _softmax(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    return p.softmax(_one(xs), len(shape) - 1)


@named("log_softmax")
def _log_softmax(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    x, last = _one(xs), len(shape) - 1
    kept = list(range(last))
    shifted = p.subtract(x, p.broadcast(p.reduce(x, last, "max"), shape, kept))
    return p.subtract(shifted, p.broadcast(p.log(p.reduce(p.exponential(shifted), last)), shape, kept))


def _scaled(p: Program, x: Tensor, weights: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    last = len(shape) - 1
    if any(w.shape != shape[-1:] for w in weights):
        raise Misfit("[…, n], then weights [n]")
    wide = [p.broadcast(w, shape, [last]) for w in weights]
    x = p.multiply(x, wide[0]) if wide else x
    return p.add(x, wide[1]) if len(wide) > 1 else x


@named("rms_norm")
def _rms_norm(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    if not 1 <= len(xs) <= 2:
        raise Misfit("x and a weight, or x alone")
    x, last = xs[0], len(shape) - 1
    square = p.multiply(p.reduce(p.multiply(x, x), last), Fraction(1, shape[-1]))
    root = p.rsqrt(p.add(square, EPSILON))
    return _scaled(p, p.multiply(x, p.broadcast(root, shape, list(range(last)))), xs[1:], shape)


@named("layer_norm")
def _layer_norm(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    if not 1 <= len(xs) <= 3:
        raise Misfit("x, weight and bias, or fewer of these")
    x, last = xs[0], len(shape) - 1
    kept = list(range(last))
    mean = p.multiply(p.reduce(x, last), Fraction(1, shape[-1]))
    centred = p.subtract(x, p.broadcast(mean, shape, kept))
    variance = p.multiply(p.reduce(p.multiply(centred, centred), last), Fraction(1, shape[-1]))
    root = p.rsqrt(p.add(variance, EPSILON))
    return _scaled(p, p.multiply(centred, p.broadcast(root, shape, kept)), xs[1:], shape)


def _attention(causal: bool, heads_inside: bool) -> Make:
    expected = "q, k and v " + ("[batch, positions, heads, size]" if heads_inside else "[…, positions, size]")

    def make(p: Program, xs: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        if len(xs) != 3 or (heads_inside and any(len(x.shape) != 4 for x in xs)):
            raise Misfit(expected)
        q, k, v = (p.transpose(x, 0, 2, 1, 3) for x in xs) if heads_inside else xs
        if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
            raise Misfit(expected)
        types = [(q.dtype, (*q.shape[:-1], v.shape[-1]))]
        found = p.op("attention", q, k, v, types=types, attributes={"causal": int(causal), "scale": ""}).result
        return p.transpose(found, 0, 2, 1, 3) if heads_inside else found

    return make


NAMED["attention"] = _attention(causal=False, heads_inside=False)
NAMED["causal_attention"] = _attention(causal=True, heads_inside=False)
NAMED["attention_bshd"] = _attention(causal=False, heads_inside=True)
NAMED["causal_attention_bshd"] = _attention(causal=True, heads_inside=True)
