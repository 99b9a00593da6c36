"""Random steps: loops, branches, calls; what is not compared; memory that lies otherwise."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from .steps_plain import step
from .world import World, is_bool, is_float, is_integer, is_number

PARTS = (("a.part", 0), ("another.part", 2))
"""Names and versions of composites."""


@step(1)
def branch(w: World) -> None:
    """One of several functions, by an index that is clamped, or by a predicate."""
    a = w.find(is_float)
    if w.chance(0.5):
        i = w.find(lambda t: t.shape == () and t.dtype == np.int32)
        w.add("switch", lambda x, j: lax.switch(j, [lambda y: y + 1, lambda y: y * 2, lambda y: y - x], x), a, i)
    else:
        p = w.find(lambda t: t.shape == () and is_bool(t))
        w.add("cond", lambda x, c: lax.cond(c, lambda y: y + x, lambda y: y * y, x), a, p)


@step(1)
def loop(w: World) -> None:
    """A scan over rows, or a loop that counts in some type."""
    a = w.find(lambda t: is_number(t) and 1 <= len(t.shape) <= 2 and 0 not in t.shape)
    kind = w.choice(("scan", "reverse", "count", "while"))
    if kind in ("scan", "reverse"):
        w.add(kind, lambda x: lax.scan(lambda c, r: (c + r, c - r), x[0], x, reverse=kind == "reverse"), a)
    elif kind == "count":
        n = w.integer(0, 4)
        w.add(kind, lambda x: lax.fori_loop(0, n, lambda i, c: c + jnp.asarray(i).astype(c.dtype), x), a)
    else:
        # the last one stops when it has wrapped round
        dtype, start, far, by = w.choice((("int32", 0, 5, 2), ("int8", 100, 90, -3), ("uint8", 250, 240, 2)))
        test = (lambda c: c[0] < far) if start < far else (lambda c: c[0] > far)
        one = jnp.asarray(by, dtype)
        w.add(
            "while",
            lambda x: lax.while_loop(test, lambda c: (c[0] + one, c[1] + c[1]), (jnp.asarray(start, dtype), x))[1],
            a,
        )


@step(1)
def gradient(w: World) -> None:
    """A gradient through some ordinary functions. (Sums of softmax over rows tie but for rounding.)"""
    a = w.find(lambda t: t.dtype == np.float32 and 1 <= len(t.shape) <= 3 and 0 not in t.shape)
    f = w.choice((
        lambda x: jax.nn.softmax(x)[:1].sum(0).max(), lambda x: (jax.nn.silu(x) * x).sum(),
        lambda x: jax.nn.gelu(x).sum(),
        lambda x: jax.nn.logsumexp(x), lambda x: jnp.sort(x, 0)[0].sum(), lambda x: jnp.cumsum(x, 0).prod(),
        lambda x: jnp.tanh(x[::2]).sum(), lambda x: (x - x.mean(-1, keepdims=True)).var(),
    ))  # fmt: skip
    w.add("gradient", jax.grad(lambda x: f(x).astype(jnp.float32)), a, steady=False)


@step(1)
def bounded_by_value(w: World) -> None:
    """A loop whose number of steps is a value, several things carried, one of them seen from outside."""
    a = w.find(is_number)
    i = w.find(lambda t: t.shape == () and is_integer(t))
    up = w.chance(0.5)

    def f(x: Any, n: Any) -> Any:
        count = lax.rem(n, jnp.asarray(5, n.dtype))

        def body(k: Any, c: Any) -> Any:
            y, z = c
            return (z, y + x * jnp.asarray(k).astype(x.dtype)) if up else (y - z, z)

        return lax.fori_loop(jnp.zeros_like(n), count, body, (x, x))

    w.add("fori_loop", f, a, i)


@step(1)
def nested(w: World) -> None:
    """A scan with values that are carried, walked over and seen from outside, and a loop or a branch inside."""
    a = w.find(lambda t: is_number(t) and 1 <= len(t.shape) <= 3 and 0 not in t.shape)
    p = w.find(lambda t: t.shape == () and is_bool(t))
    kind, back = w.choice(("cond", "loop")), w.chance(0.4)

    def f(x: Any, test: Any) -> Any:
        def step_(c: Any, row: Any) -> Any:
            if kind == "cond":
                new = lax.cond(test, lambda u, v: u + v, lambda u, v: u * jnp.asarray(2, u.dtype), c, row)
            else:
                new = lax.fori_loop(0, 2, lambda _, u: u + row, c)
            return new, (new, row + x[0])

        return lax.scan(step_, x[-1], x, reverse=back)

    w.add(f"scan with a {kind}", f, a, p)


@step(0.5)
def until(w: World) -> None:
    """A loop that runs until a value says so."""
    a = w.find(lambda t: is_integer(t) and np.dtype(t.dtype).itemsize >= 2)

    def f(x: Any) -> Any:
        small = lax.rem(x, jnp.full_like(x, 7))
        return lax.while_loop(
            lambda c: jnp.any(c > jnp.zeros_like(c)), lambda c: c - jnp.where(c > 0, 1, 0).astype(c.dtype), small
        )

    w.add("while any", f, a)


@step(0.5)
def marked(w: World) -> None:
    """What only says how: a barrier, a layout, a name for a part."""
    a = w.find(lambda t: True)
    shape = w.types[a].shape
    kind = w.choice(("barrier", "layout", "layout", "composite"))
    if kind == "barrier":
        w.add(kind, lambda x: lax.optimization_barrier((x, x))[1], a)
    elif kind == "layout":
        order = tuple(int(d) for d in w.rng.permutation(len(shape)))
        w.add(kind, lambda x: with_layout_constraint(x, Layout(order)), a)
    else:
        name, version = w.choice(PARTS)
        more = {"factor": 2} if w.chance(0.5) else {}

        def part(y: Any, factor: int = 1) -> Any:
            return jnp.where(y == y[::-1] if y.ndim else True, y, y)

        w.add(kind, lambda x: lax.composite(part, name, version=version)(x, **more), a)


@step(0.3)
def random(w: World) -> None:
    """Random numbers: those that are computed are compared, those of the machine are not."""
    shape = w.shape()
    a = w.find(lambda t: t.dtype == np.uint32)
    kind = w.choice(("threefry", "generator", "uniform"))
    if kind == "threefry":
        key = w.integer(0, 99)
        w.add(kind, lambda x: jax.random.bits(jax.random.key(key), shape, "uint32"), a)
    elif kind == "generator":
        w.add(kind, lambda x: lax.rng_bit_generator(jnp.resize(x, (4,)) if x.size else jnp.zeros(4, x.dtype), shape),
              a, drawn=True)  # fmt: skip
    else:
        w.add(kind, lambda x: lax.rng_uniform(jnp.float32(0), jnp.float32(1), shape), a, drawn=True)


@step(0.1)
def opaque(w: World) -> None:
    """What has no lowering."""
    a = w.find(lambda t: is_float(t) and len(t.shape) == 2 and t.dtype in (np.float32, np.float64) and 0 not in t.shape)
    n = min(w.types[a].shape)
    kind = w.choice(("fft", "cholesky", "solve"))
    if kind == "fft":
        w.add(kind, lambda x: jnp.abs(jnp.fft.fft(x)), a, drawn=True)
    elif kind == "cholesky":
        w.add(
            kind, lambda x: lax.linalg.cholesky(x[:n, :n] @ x[:n, :n].T + 9 * jnp.eye(n, dtype=x.dtype)), a, drawn=True
        )
    else:
        w.add(kind, lambda x: lax.linalg.triangular_solve(x[:n, :n] + 9 * jnp.eye(n, dtype=x.dtype), x[:n]), a,
              drawn=True)  # fmt: skip
