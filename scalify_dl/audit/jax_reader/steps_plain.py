"""Random steps: elementwise ops, casts, and what only moves values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .world import FLOATS, INTEGERS, NARROW, Refused, World, is_bool, is_float, is_integer, is_number

Maker = Callable[[World], None]
STEPS: dict[str, tuple[Maker, float]] = {}
"""Name → what adds a step to a world (or raises Refused), and how often it is drawn."""


def step(weight: float = 1.0) -> Callable[[Maker], Maker]:
    """Registers a kind of step."""

    def register(maker: Maker) -> Maker:
        STEPS[maker.__name__] = (maker, weight)
        return maker

    return register


UNARY = (
    lax.abs, lax.neg, lax.exp, lax.expm1, lax.sin, lax.cos, lax.tan, lax.tanh, lax.logistic, lax.erf, lax.square,
    lax.cbrt, lax.sinh, lax.cosh, lax.asinh, lax.atan, lax.erfc, lax.integer_pow, lax.rsqrt, lax.sqrt, lax.log,
    lax.log1p, lax.erf_inv, lax.exp2, lax.reciprocal, lax.lgamma,
)  # fmt: skip
JUMPS = (lax.floor, lax.ceil, lax.sign, lax.round, jnp.round, jnp.trunc)
COMPARISONS = (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)


@step(3)
def unary(w: World) -> None:
    """A function of one real value, on a domain where it has one."""
    x, f = w.find(is_float), w.choice(UNARY)
    if f is lax.integer_pow:
        y = w.choice((-2, -1, 2, 3, 5))
        w.add(f"integer_pow {y}", lambda v: lax.integer_pow(jnp.abs(v) + jnp.ones_like(v), y), x)
    elif f in (lax.rsqrt, lax.sqrt, lax.log, lax.log1p, lax.reciprocal, lax.lgamma):
        w.add(f.__name__, lambda v: f(jnp.abs(v) + jnp.ones_like(v)), x)
    elif f is lax.erf_inv:
        w.add(f.__name__, lambda v: f(jnp.tanh(v) * 0.5), x)
    else:
        w.add(f.__name__, f, x, steady=f is not lax.tan)  # (which jumps at its poles)


@step(1)
def jump(w: World) -> None:
    """Rounding and signs."""
    f = w.choice((*JUMPS, jnp.isfinite, jnp.isnan, jnp.isinf, jnp.signbit))
    w.add(f.__name__, f, w.find(is_float), steady=False)


@step(1)
def bits(w: World) -> None:
    """A function of one integer. (XLA counts the bits of a negative number of 4 bits in 8.)"""
    x = w.find(is_integer)
    f = w.choice((lax.neg, lax.bitwise_not, lax.population_count, lax.clz, lax.abs, lax.sign))
    if f is lax.population_count and w.types[x].dtype.name == "int4":
        raise Refused
    w.add(f.__name__, f, x)


def pair(w: World, accept: Callable[[Any], bool]) -> tuple[int, int]:
    """Two values of one type."""
    a = w.find(accept)
    b = w.find(lambda t: t.shape == w.types[a].shape and t.dtype == w.types[a].dtype)
    return a, b


@step(3)
def binary(w: World) -> None:
    """Arithmetic on reals."""
    a, b = pair(w, is_float)
    f = w.choice((lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.div, lax.atan2, lax.pow, lax.rem))
    if f is lax.div:
        w.add("div", lambda x, y: x / (jnp.abs(y) + jnp.ones_like(y)), a, b)
    elif f is lax.pow:
        w.add("pow", lambda x, y: lax.pow(jnp.abs(x) + jnp.ones_like(x), jnp.tanh(y)), a, b)
    elif f is lax.rem:
        w.add("rem", lambda x, y: lax.rem(x, jnp.abs(y) + jnp.ones_like(y)), a, b, steady=False)
    else:
        w.add(f.__name__, f, a, b, steady=f is not lax.atan2)


@step(3)
def integers(w: World) -> None:
    """Arithmetic on integers: it wraps round."""
    a, b = pair(w, is_integer)
    f = w.choice((lax.add, lax.sub, lax.mul, lax.max, lax.min, lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor,
                  lax.div, lax.rem, jnp.floor_divide, jnp.remainder, lax.shift_left, lax.shift_right_logical,
                  lax.shift_right_arithmetic))  # fmt: skip
    if f in (jnp.floor_divide, jnp.remainder) or (f in (lax.div, lax.rem) and w.chance(0.5)):
        w.add(f.__name__, lambda x, y: f(x, jnp.maximum(y, jnp.ones_like(y))), a, b)
    else:
        w.add(f.__name__, f, a, b)


@step(1)
def logic(w: World) -> None:
    """Arithmetic on booleans."""
    a, b = pair(w, is_bool)
    f = w.choice((lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.max, lax.min))
    w.add(f"bool {f.__name__}", f, a, b)


@step(0.5)
def negation(w: World) -> None:
    """Not."""
    w.add("not", jnp.logical_not, w.find(is_bool))


@step(2)
def comparison(w: World) -> None:
    """A comparison of numbers or booleans."""
    a, b = pair(w, lambda t: True)
    f = w.choice(COMPARISONS)
    w.add(f.__name__, f, a, b, steady=False)


@step(2)
def choose(w: World) -> None:
    """Select by an array or a scalar."""
    a, b = pair(w, lambda t: True)
    p = w.find(lambda t: is_bool(t) and t.shape in (w.types[a].shape, ()))
    w.add("select", lambda c, x, y: lax.select(c, x, y) if c.shape == x.shape else jnp.where(c, x, y), p, a, b)


@step(1)
def clamp(w: World) -> None:
    """Clamp to constants, or between values."""
    a = w.find(is_number)
    if w.chance(0.5):
        low, high = pair(w, lambda t: t.dtype == w.types[a].dtype and t.shape in ((), w.types[a].shape))
        w.add("clamp", lambda x, y, z: lax.clamp(y, x, z), a, low, high)
    else:
        w.add("clip", lambda x: jnp.clip(x, 0, 3), a)


@step(1)
def constant(w: World) -> None:
    """A value and a constant: a scalar, a table, an infinity."""
    a = w.find(is_number)
    type_ = w.types[a]
    if is_float(type_):
        number = w.choice((0.5, -1.5, 1 / 3, 3e-5, np.inf, -np.inf, 1e4, 0.1))
        if not np.isfinite(number):
            f = jnp.maximum if number < 0 else jnp.minimum
            w.add("infinity", lambda x: f(x, jnp.asarray(number, x.dtype)), a)
            return
    else:
        info = jnp.iinfo(type_.dtype)
        number = w.choice((info.min, info.max, 1, 2, info.max // 3))
    table = np.full(type_.shape if w.chance(0.4) else (), number).astype(type_.dtype)
    if table.ndim and w.chance(0.7):
        table = table - np.arange(table.shape[-1]).astype(type_.dtype)
    w.add("constant", lambda x: x + jnp.asarray(table), a)


@step(2)
def cast(w: World) -> None:
    """Another type; reals to integers mostly where they fit."""
    a = w.find(lambda t: True)
    target = w.choice((*FLOATS, *INTEGERS, "bool")) if w.chance(0.93) else w.choice(NARROW)
    if is_float(w.types[a]) and target.strip("u").startswith("int"):
        fits = w.chance(0.7)
        w.add(f"to {target}", lambda x: (jnp.clip(x, 0, 7) if fits else x).astype(target), a, steady=False)
    else:
        w.add(f"to {target}", lambda x: x.astype(target), a, steady=target != "bool")


@step(0.5)
def precision(w: World) -> None:
    """Rounding to a format given by its bits."""
    e, m = w.choice(((8, 7), (5, 10), (8, 10), (4, 3), (3, 2), (11, 52)))
    w.add("reduce_precision", lambda x: lax.reduce_precision(x, e, m), w.find(is_float), steady=False)


@step(0.7)
def reread(w: World) -> None:
    """The bits of a number as another type, mostly of its width."""
    a = w.find(is_number)
    bits = 8 * np.dtype(w.types[a].dtype).itemsize
    kinds = (f"int{bits}", f"uint{bits}") + ((f"float{bits}",) if bits > 8 else ()) + (("bfloat16",) * (bits == 16))
    target = w.choice(kinds) if w.chance(0.9) else w.choice(("uint8", "int16", "uint32", "float32"))
    w.add("bitcast", lambda x: lax.bitcast_convert_type(x, target), a, steady=not is_float(w.types[a]))


@step(0.4)
def complexes(w: World) -> None:
    """Complex numbers, in and out."""
    a, b = pair(w, lambda t: t.dtype in (np.float32, np.float64))
    w.add("complex", lambda x, y: (lambda z: (jnp.real(z * z), jnp.imag(z * z)))(lax.complex(x, y)), a, b)


@step(2)
def reshape(w: World) -> None:
    """To other dims of equally many elements."""
    a = w.find(lambda t: bool(t.shape))
    count = int(np.prod(w.types[a].shape))
    shapes = [(count,), (1, count), (count, 1)]
    shapes += [(d, count // d) for d in (2, 3, 4) if count and count % d == 0]
    shapes += [(2, count // 4, 2)] if count and count % 4 == 0 else []
    shape = w.choice(shapes)
    w.add("reshape", lambda x: lax.reshape(x, shape), a)


@step(2)
def transpose(w: World) -> None:
    """Dims in another order."""
    a = w.find(lambda t: len(t.shape) > 1)
    order = tuple(int(d) for d in w.rng.permutation(len(w.types[a].shape)))
    w.add("transpose", lambda x: lax.transpose(x, order), a)


@step(2)
def broadcast(w: World) -> None:
    """New dims, in any order; dims of one element stretched."""
    a = w.find(lambda t: len(t.shape) <= 3)
    shape = w.types[a].shape
    rank = len(shape) + w.integer(0, 2)
    where = tuple(sorted(int(d) for d in w.rng.choice(rank, len(shape), replace=False)))
    target = [w.integer(1, 3) for _ in range(rank)]
    for d, n in zip(where, shape, strict=True):
        target[d] = n if n != 1 else w.choice((1, 1, 4))
    w.add("broadcast", lambda x: lax.broadcast_in_dim(x, tuple(target), where), a)


@step(2)
def cut(w: World) -> None:
    """A slice with steps."""
    a = w.find(lambda t: bool(t.shape))
    start, limit, stride = [], [], []
    for n in w.types[a].shape:
        low = w.integer(0, n)
        start.append(low)
        limit.append(w.integer(low, n))
        stride.append(w.choice((1, 1, 1, 2, 3)))
    w.add("slice", lambda x: lax.slice(x, start, limit, stride), a)


@step(1)
def pad(w: World) -> None:
    """Padding, also negative and between elements."""
    a = w.find(lambda t: bool(t.shape) and is_number(t))
    config = [(w.integer(-1, 2), w.integer(-1, 2), w.choice((0, 0, 1))) for _ in w.types[a].shape]
    number = w.choice((0, 1, 0.5)) if is_float(w.types[a]) else w.choice((0, 1))
    w.add("pad", lambda x: lax.pad(x, jnp.asarray(number, x.dtype), config), a)


@step(2)
def concatenate(w: World) -> None:
    """Two or three values side by side."""
    a = w.find(lambda t: bool(t.shape))
    d = w.integer(0, len(w.types[a].shape) - 1)

    def fits(t: Any) -> bool:
        s, own = t.shape, w.types[a].shape
        return t.dtype == w.types[a].dtype and len(s) == len(own) and s[:d] + s[d + 1 :] == own[:d] + own[d + 1 :]

    others = [w.find(fits) for _ in range(w.integer(1, 2))]
    w.add("concatenate", lambda *x: lax.concatenate(x, d), a, *others)


@step(1)
def reverse(w: World) -> None:
    """Elements in opposite order."""
    a = w.find(lambda t: bool(t.shape))
    dims = tuple(d for d in range(len(w.types[a].shape)) if w.chance(0.6)) or (0,)
    w.add("rev", lambda x: lax.rev(x, dims), a)


@step(1)
def iota(w: World) -> None:
    """A value and its index along a dim; in narrow types the index wraps."""
    a = w.find(lambda t: bool(t.shape) and is_number(t))
    shape, d = w.types[a].shape, w.integer(0, len(w.types[a].shape) - 1)
    w.add("iota", lambda x: x + lax.broadcasted_iota(x.dtype, shape, d), a)


@step(0.5)
def sub_function(w: World) -> None:
    """A function called from inside, twice."""
    a = w.find(is_number)
    inner = jax.jit(lambda x: x * x + x)
    w.add("call", lambda x: inner(inner(x)), a)
