"""Random steps: reductions, contractions, windows, access by index, order, loops and branches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .steps_plain import step
from .world import Refused, World, is_bool, is_float, is_integer, is_number


def dims_of(w: World, a: int) -> tuple[int, ...]:
    """Some dims of a value, at least one."""
    rank = len(w.types[a].shape)
    return tuple(d for d in range(rank) if w.chance(0.5)) or (w.integer(0, rank - 1),)


@step(3)
def reduction(w: World) -> None:
    """A reduction by a known reducer, from its identity or another number."""
    a = w.find(lambda t: bool(t.shape))
    dims = dims_of(w, a)
    if is_bool(w.types[a]):
        f = w.choice((jnp.any, jnp.all))
        w.add(f.__name__, lambda x: f(x, dims), a)
        return
    f = w.choice((jnp.sum, jnp.max, jnp.min, jnp.prod, jnp.mean, jnp.any, jnp.var, "initial", "unusual"))
    narrow = w.types[a].dtype
    if f == "initial":
        if any(w.types[a].shape[d] < 2 for d in dims):
            raise Refused("XLA leaves out the number where there is nothing to add up")
        g = w.choice((lax.add, lax.max, lax.min))
        w.add("reduce from a number", lambda x: lax.reduce(x, jnp.asarray(2, x.dtype), g, dims), a)
    elif f == "unusual":
        one = jnp.asarray(0, narrow)
        w.add("reduce by a function", lambda x: lax.reduce(x, one, lambda p, q: p + q, dims), a)
    elif f in (jnp.mean, jnp.var) and not is_float(w.types[a]):
        raise Refused("of integers")
    elif f in (jnp.max, jnp.min) and 0 in w.types[a].shape:
        raise Refused("of nothing")
    else:
        keep = w.chance(0.3)
        kind = {"dtype": narrow} if f in (jnp.sum, jnp.prod) and w.chance(0.6) else {}
        w.add(f.__name__, lambda x: f(x, dims, keepdims=keep, **kind), a, steady=f is not jnp.any)


@step(1)
def position(w: World) -> None:
    """Where the extreme value is."""
    a = w.find(lambda t: bool(t.shape) and 0 not in t.shape and is_number(t))
    d, f = w.integer(0, len(w.types[a].shape) - 1), w.choice((lax.argmax, lax.argmin))
    w.add(f.__name__, lambda x: f(x, d, w.choice(("int32",))), a, steady=False)


@step(1)
def running(w: World) -> None:
    """A running reduction, either way."""
    a = w.find(lambda t: bool(t.shape) and is_number(t))
    d, back = w.integer(0, len(w.types[a].shape) - 1), w.chance(0.4)
    f = w.choice((lax.cumsum, lax.cummax, lax.cummin, lax.cumprod, lax.cumlogsumexp))
    if f is lax.cumlogsumexp and not is_float(w.types[a]):
        raise Refused("of integers")
    w.add(f.__name__, lambda x: f(x, d, reverse=back), a)


@step(4)
def dot(w: World) -> None:
    """Any contraction with batch dims, also to a wider type."""
    a = w.find(lambda t: 1 <= len(t.shape) <= 3 and is_number(t))
    s = w.types[a].shape
    b = w.find(lambda t: 1 <= len(t.shape) <= 3 and t.dtype == w.types[a].dtype and bool(set(t.shape) & set(s)))
    pairs = [(i, j) for i, n in enumerate(s) for j, m in enumerate(w.types[b].shape) if n == m]
    w.rng.shuffle(pairs)
    contract: list[tuple[int, int]] = []
    batch: list[tuple[int, int]] = []
    for i, j in pairs[: w.integer(1, 3)]:
        if all(i != p and j != q for p, q in contract + batch):
            (batch if contract and w.chance(0.5) else contract).append((int(i), int(j)))
    numbers = tuple((tuple(i for i, _ in p), tuple(j for _, j in p)) for p in (contract, batch))
    wide: Any = None
    if w.chance(0.3):
        wide = {"int8": "int32", "uint8": "uint32", "int32": "int64", "bfloat16": "float32", "float16": "float32"}.get(
            np.dtype(w.types[a].dtype).name
        )
    w.add("dot_general", lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=wide), a, b)


@step(1)
def convolution(w: World) -> None:
    """Strides, padding, dilations, groups and orders of dims away from their defaults."""
    dtype = w.choice(("float32", "float32", "int32"))
    groups = w.choice((1, 1, 2))
    spatial = w.choice((1, 2, 2))
    x = w.find(lambda t: t.dtype == dtype and len(t.shape) >= 1 and np.prod(t.shape) > 0)
    image = (2, *[w.integer(3, 5) for _ in range(spatial)], 2 * groups)
    kernel = (*[w.integer(1, 3) for _ in range(spatial)], 2, 2 * groups)
    labels = {1: ("NHC", "HIO", w.choice(("NHC", "NCH"))), 2: ("NHWC", "HWIO", w.choice(("NHWC", "CNHW")))}[spatial]
    of_batch = groups == 2 and w.chance(0.4)
    if of_batch:
        image, kernel = (4, *image[1:-1], 2), (*kernel[:-2], 2, 4)
    options: dict[str, Any] = {
        "window_strides": [w.integer(1, 2) for _ in range(spatial)],
        "padding": [(w.integer(-1, 2), w.integer(0, 2)) for _ in range(spatial)],
        "lhs_dilation": [w.choice((1, 1, 2)) for _ in range(spatial)],
        "rhs_dilation": [w.choice((1, 1, 2)) for _ in range(spatial)],
        "dimension_numbers": labels,
        "batch_group_count" if of_batch else "feature_group_count": groups,
    }
    a, b = int(np.prod(image)), int(np.prod(kernel))

    def f(v: Any) -> Any:
        flat = jnp.resize(v, (a + b,))
        return lax.conv_general_dilated(flat[:a].reshape(image), flat[a:].reshape(kernel), **options)

    w.add("conv", f, x)


@step(1)
def window(w: World) -> None:
    """A reduction over windows, and the gradient of one."""
    a = w.find(lambda t: is_float(t) and 1 <= len(t.shape) <= 3 and 0 not in t.shape and t.dtype == np.float32)
    rank = len(w.types[a].shape)
    size = [w.integer(1, min(3, n)) for n in w.types[a].shape]
    stride, base, inside = ([w.choice((1, 1, 2)) for _ in range(rank)] for _ in range(3))
    padding = [(w.integer(0, 1), w.integer(0, 1)) for _ in range(rank)]
    f, init = w.choice(((lax.add, 0.0), (lax.max, -np.inf), (lax.min, np.inf)))

    def pooled(x: Any, stretched: bool = True) -> Any:
        more = {"base_dilation": base, "window_dilation": inside} if stretched else {}
        start = jnp.asarray(init, x.dtype)
        return lax.reduce_window(x, start, f, size, stride, padding, **more)

    if w.chance(0.4) and f is lax.max:
        w.add("pool gradient", jax.grad(lambda x: (pooled(x, False) * 2).sum()), a, steady=False)
    elif init:
        w.add("reduce_window", lambda x: jnp.clip(pooled(x), -9, 9), a)
    else:
        w.add("reduce_window", pooled, a)


def index(w: World, n: int) -> int:
    """A value that can be an index along a dim of n elements."""
    return w.find(lambda t: is_integer(t) and np.dtype(t.dtype).name in ("int32", "uint8", "int8", "uint32"))


@step(2)
def take(w: World) -> None:
    """Rows by index: clipped, wrapped, filled or promised to be inside."""
    a = w.find(lambda t: bool(t.shape) and 0 not in t.shape)
    i, d = index(w, 0), w.integer(0, len(w.types[a].shape) - 1)
    n = w.types[a].shape[d]
    mode = w.choice(("clip", "wrap", "fill", "promise_in_bounds"))

    def f(x: Any, j: Any) -> Any:
        where = jnp.clip(j, 0, n - 1) if mode == "promise_in_bounds" else j
        return jnp.take(x, where, d, mode="clip" if mode == "promise_in_bounds" else mode, fill_value=0)

    w.add(f"take {mode}", f, a, i)


@step(1)
def take_along(w: World) -> None:
    """One element per row."""
    a = w.find(lambda t: bool(t.shape) and 0 not in t.shape)
    i = w.find(lambda t: is_integer(t) and t.shape == w.types[a].shape and t.dtype == np.int32)
    d = w.integer(0, len(w.types[a].shape) - 1)
    w.add("take_along_axis", lambda x, j: jnp.take_along_axis(x, jnp.clip(j, 0, x.shape[d] - 1), d), a, i)


@step(2)
def update(w: World) -> None:
    """Scatter: set where indices differ, add, multiply, max and min where they may repeat; outside is dropped."""
    a = w.find(lambda t: bool(t.shape) and 0 not in t.shape and is_number(t))
    i = w.find(lambda t: is_integer(t) and t.dtype == np.int32 and len(t.shape) <= 2)
    kind = w.choice(("add", "max", "min", "mul", "set"))

    def f(x: Any, j: Any) -> Any:
        if kind == "set":
            return x.at[j.reshape(-1)[:1]].set(jnp.asarray(2, x.dtype), mode="drop")
        rows = jnp.asarray(3, x.dtype)
        return getattr(x.at[j], {"mul": "multiply"}.get(kind, kind))(rows, mode="drop")

    w.add(f"scatter {kind}", f, a, i)


@step(1)
def dynamic(w: World) -> None:
    """Windows whose starts are values: they are clamped."""
    a = w.find(lambda t: bool(t.shape))
    i = w.find(lambda t: is_integer(t) and t.shape == ())
    shape = w.types[a].shape
    sizes = [w.integer(0 if n == 0 else 1, n) for n in shape]
    if w.chance(0.5):
        w.add("dynamic_slice", lambda x, s: lax.dynamic_slice(x, [s] * len(shape), sizes), a, i)
    else:
        w.add(
            "dynamic_update_slice",
            lambda x, s: lax.dynamic_update_slice(x, lax.slice(x, [0] * len(shape), sizes) * 0, [s] * len(shape)),
            a,
            i,
        )


@step(1)
def order(w: World) -> None:
    """Sorting along a dim, alone or with values; the largest."""
    a = w.find(lambda t: bool(t.shape) and 0 not in t.shape and is_number(t))
    d = w.integer(0, len(w.types[a].shape) - 1)
    kind = w.choice(("sort", "argsort", "descending", "pairs", "keys", "top"))
    if kind == "top":
        k = w.integer(1, w.types[a].shape[-1])
        w.add("top_k", lambda x: lax.top_k(x, k), a, steady=False)
    elif kind in ("pairs", "keys"):
        b = w.find(lambda t: t.shape == w.types[a].shape)
        keys = 1 if kind == "pairs" else 2
        if keys == 2 and is_bool(w.types[b]):
            raise Refused("a boolean key")
        w.add(f"sort {keys} keys", lambda x, y: lax.sort((x, y), dimension=d, num_keys=keys), a, b, steady=False)
    else:
        sorts: dict[str, Any] = {"sort": jnp.sort, "argsort": jnp.argsort, "descending": lambda x, d: -jnp.sort(-x, d)}
        w.add(kind, lambda x: sorts[kind](x, d), a, steady=False)


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
        w.add(kind, lambda x: lax.fori_loop(0, n, lambda i, c: c + i.astype(c.dtype), x), a)
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
    """A gradient through some ordinary functions."""
    a = w.find(lambda t: t.dtype == np.float32 and 1 <= len(t.shape) <= 3 and 0 not in t.shape)
    f = w.choice((
        lambda x: jax.nn.softmax(x).sum(0).max(), lambda x: (jax.nn.silu(x) * x).sum(), lambda x: jax.nn.gelu(x).sum(),
        lambda x: jax.nn.logsumexp(x), lambda x: jnp.sort(x, 0)[0].sum(), lambda x: jnp.cumsum(x, 0).prod(),
        lambda x: jnp.tanh(x[::2]).sum(), lambda x: (x - x.mean(-1, keepdims=True)).var(),
    ))  # fmt: skip
    w.add("gradient", jax.grad(lambda x: f(x).astype(jnp.float32)), a, steady=False)
