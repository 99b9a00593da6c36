"""StableHLO modules (text, bytecode, portable artifacts) → graphs of the op vocabulary.

    graph = read_baseline(data, "model.mlir")            # one device's program, or the whole program of `jit`
    graph, mesh = read_program(data, "model.mlir")       # what every rank runs: shard_map, pmap, per-device modules

Needs the `jax` extra for jaxlib's MLIR parser; nothing is traced or executed.
"""

from __future__ import annotations

from .parse import is_mlir
from .reader import read_baseline, read_program

__all__ = ["is_mlir", "read_baseline", "read_program"]
