"""The programs as dumps, and as runs on as many devices as their mesh has.

python -m tests.lint.published.made      # whether right and wrong ones are so in numbers
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh
from jax.sharding import PartitionSpec as P

from . import experts, losses, norms
from .ops import PROGRAMS, Step

MADE = (experts, losses, norms)
"""Importing them enters their programs."""


def sizes(name: str) -> dict[str, int]:
    """Axes of the mesh."""
    return {axis: int(size) for axis, size in (part.split("=") for part in PROGRAMS[name][0].split(","))}


def spread(step: Step, mesh: Any) -> Any:
    """The step of all ranks, as a function of whole arrays."""
    specs = (step.params, *step.batch)
    return jax.shard_map(step.dist, mesh=mesh, in_specs=specs, out_specs=(P(), step.params), check_vma=False)


def dump(name: str, ok: bool, folder: Path) -> tuple[Path, Path]:
    """One device, and all ranks."""
    step, axes = PROGRAMS[name][1](ok), sizes(name)
    mesh = AbstractMesh(tuple(axes.values()), tuple(axes))
    made = []
    for word, function in (("base", step.base), ("dist", spread(step, mesh))):
        file = folder / f"{name}.{word}.mlir"
        file.write_text(jax.jit(function).lower(*step.args).as_text(debug_info=True))
        made.append(file)
    return made[0], made[1]


def agrees(name: str, ok: bool) -> bool:
    """Whether all ranks have what one device has."""
    step, axes, rng = PROGRAMS[name][1](ok), sizes(name), np.random.default_rng(0)

    def draw(x: jax.ShapeDtypeStruct) -> Any:
        if x.dtype == np.int32:
            return rng.integers(0, 32, x.shape, dtype=np.int32)
        few = np.array([1, 1, 1, 1, 0, 1, 0, 0], np.float32)  # tokens that count: more of them on the first rank
        if x.shape == few.shape and name.startswith("tokens"):
            return few
        return rng.normal(size=x.shape).astype(np.float32)

    args = jax.tree.map(draw, step.args)
    devices = np.array(jax.devices()[: int(np.prod([*axes.values()]))]).reshape([*axes.values()])
    one, all_ranks = jax.jit(step.base)(*args), jax.jit(spread(step, Mesh(devices, tuple(axes))))(*args)

    def close(x: Any, y: Any) -> bool:
        limit = 1e-3 * float(np.abs(x).max())
        mine = {str(shard.index): np.asarray(x)[shard.index] for shard in y.addressable_shards}
        return all(np.abs(mine[str(s.index)] - np.asarray(s.data)).max() < limit for s in y.addressable_shards)

    return all(jax.tree.leaves(jax.tree.map(close, one, all_ranks)))


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    for each in PROGRAMS:
        print(each, agrees(each, True), agrees(each, False), flush=True)
