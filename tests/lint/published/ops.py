"""What the programs are made of: collectives whose backward is said, as frameworks have them, and small layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


@dataclass(frozen=True)
class Step:
    """A step on one device and on every rank, its arguments (parameters first), and how they and the gradients lie."""

    base: Callable[..., Any]
    dist: Callable[..., Any]
    args: tuple[Any, ...]
    params: dict[str, P]
    batch: tuple[P, ...] = ()


PROGRAMS: dict[str, tuple[str, Callable[[bool], Step]]] = {}


def bug(mesh: str) -> Callable[[Callable[[bool], Step]], Callable[[bool], Step]]:
    """Enters a program, which is told whether to be right."""

    def enter(make: Callable[[bool], Step]) -> Callable[[bool], Step]:
        PROGRAMS[make.__name__] = (mesh, make)
        return make

    return enter


def pair(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one array and what its backward does with the gradient."""
    made = jax.custom_vjp(forward)
    made.defvjp(lambda x: (forward(x), None), lambda _, g: (backward(g),))
    return made


def same(x: Any) -> Any:
    """One device."""
    return x


def copy_to(axis: str) -> Callable[..., Any]:
    """Into a parallel region: backward sums."""
    return pair(same, lambda g: lax.psum(g, axis))


def reduce_from(axis: str) -> Callable[..., Any]:
    """Out of a parallel region: forward sums."""
    return pair(lambda x: lax.psum(x, axis), same)


def gather(axis: str) -> Callable[..., Any]:
    """Rows of all ranks; backward sums and scatters."""
    return pair(lambda x: lax.all_gather(x, axis, tiled=True), lambda g: lax.psum_scatter(g, axis, tiled=True))


def scatter(axis: str) -> Callable[..., Any]:
    """Sums and scatters; backward gathers."""
    return pair(lambda x: lax.psum_scatter(x, axis, tiled=True), lambda g: lax.all_gather(g, axis, tiled=True))


def gather_and_keep_own(axis: str) -> Callable[..., Any]:
    """Rows of all ranks; backward takes the rank's own block, and forgets what other ranks have for it."""

    def own(g: Any) -> Any:
        rows = g.shape[0] // lax.axis_size(axis)
        return lax.dynamic_slice_in_dim(g, lax.axis_index(axis) * rows, rows)

    return pair(lambda x: lax.all_gather(x, axis, tiled=True), own)


def of(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    """A type."""
    return jax.ShapeDtypeStruct(shape, dtype)


def rms(x: Any, w: Any) -> Any:
    """RMS norm."""
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w


def losses(logits: Any, y: Any) -> Any:
    """Cross entropy of each token."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), y[:, None], 1)[:, 0]


def attention(q: Any, k: Any, v: Any) -> Any:
    """[tokens, heads, dim] each, causal."""
    scores = jnp.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[1:], bool))
    return jnp.einsum("hts,shd->thd", jax.nn.softmax(jnp.where(mask, scores, -1e30), -1), v)


def summed(tree: Any, *axes: str) -> Any:
    """All leaves summed over ranks."""
    return jax.tree.map(lambda x: lax.psum(x, axes), tree)


def square(x: Any) -> Any:
    """Sum of squares."""
    return jnp.sum(x * x)


def clipped(grads: dict[str, Any], squares: Any) -> dict[str, Any]:
    """Gradients, none of them longer than this together."""
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, 0.001 / (jnp.sqrt(squares) + 1e-6)), grads)
