"""Random steps: reductions, contractions, windows, access by index, order, loops and branches."""

from __future__ import annotations

from typing import Any

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
    kind = w.choice(("int32", "int64", "uint8"))
    w.add(f.__name__, lambda x: f(x, d, kind), a, steady=False)


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
