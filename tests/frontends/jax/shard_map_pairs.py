"""A single-device function and one under `shard_map`, over 8 devices: dp=2, tp=4 (or one axis of 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType

B, D, F, V = 8, 16, 32, 64
"""Batch (or sequence), model width, hidden width, vocabulary."""
DP, TP = 2, 4


def gradient(function):
    """Value and gradients of the sum of squares."""

    def of(*args):
        return jax.value_and_grad(lambda *a: (function(*a) ** 2).sum(), tuple(range(len(args))))(*args)

    return of


@dataclass(frozen=True)
class Program:
    """One pair. `args` are (shape, dtype) or (shape, (lo, hi)) for integers below hi."""

    name: str
    right: bool
    base: Callable[..., Any]
    dist: Callable[..., Any]
    in_specs: Any
    out_specs: Any
    args: tuple[Any, ...]
    mesh: dict[str, int] = field(default_factory=lambda: {"dp": DP, "tp": TP})
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The single-device function and the one over the mesh, both of whole arrays, compiled when called."""
        mesh = jax.make_mesh(tuple(self.mesh.values()), tuple(self.mesh), axis_types=(AxisType.Auto,) * len(self.mesh))
        # replication of outputs is what is verified: JAX's own conservative check is off where no gradient needs it
        check = self.transform is gradient
        dist = jax.shard_map(self.dist, mesh=mesh, in_specs=self.in_specs, out_specs=self.out_specs, check_vma=check)
        return jax.jit(self.transform(self.base)), jax.jit(self.transform(dist))

    def abstract(self) -> list[jax.ShapeDtypeStruct]:
        """Arguments without data."""
        return [
            jax.ShapeDtypeStruct(shape, jnp.int32 if isinstance(kind, tuple) else kind) for shape, kind in self.args
        ]


PROGRAMS: list[Program] = []
X, W, W2 = ((B, D), jnp.float32), ((D, F), jnp.float32), ((F, D), jnp.float32)
IDS, TABLE = ((B,), (0, V)), ((V, D), jnp.float32)


def pair(
    name: str, base: Callable[..., Any], in_specs: Any, out_specs: Any, args: tuple[Any, ...], **mesh: int
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a right program; `wrong_…` ones are registered with `wrong`."""

    def register(dist: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(Program(name, True, base, dist, in_specs, out_specs, args, **({"mesh": mesh} if mesh else {})))
        return dist

    return register


def wrong(name: str, right: str, *, in_specs: Any = None, out_specs: Any = None) -> Callable[..., Any]:
    """Registers a wrong variant of a right program: same baseline, inputs and specs unless others are given."""

    def register(dist: Callable[..., Any]) -> Callable[..., Any]:
        model = next(program for program in PROGRAMS if program.name == right)
        PROGRAMS.append(
            Program(
                name,
                False,
                model.base,
                dist,
                model.in_specs if in_specs is None else in_specs,
                model.out_specs if out_specs is None else out_specs,
                model.args,
                model.mesh,
            )
        )
        return dist

    return register
