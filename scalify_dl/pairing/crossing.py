"""Arguments of dumps whose names stand in another order on both sides: a call gives arguments by position."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh


def in_another_order(base: Graph, dist: Graph, mesh: Mesh, pairs: Mapping[int, tuple[int, bool]]) -> str | None:
    """What to say of arguments that pair by name although their names stand in another order; None where they do not.

    InputError where pairing them by position would fit their types as well.
    """
    arguments = ((d, b) for d, (b, by_path) in pairs.items() if by_path)
    named = sorted((d, b) for d, b in arguments if dist.inputs[d].argument and base.inputs[b].argument)
    if all(one[1] < other[1] for one, other in pairwise(named)):
        return None
    in_order = zip([d for d, _ in named], sorted(b for _, b in named), strict=True)
    names = ", ".join(f"`{dist.inputs[d].path}`" for d, _ in named[:8]) + (", …" if len(named) > 8 else "")
    if not all(_may_correspond(base.inputs[b].tensor, dist.inputs[d].tensor, mesh) for d, b in in_order):
        return f"inputs are paired by name: {names} stand in another order in the baseline"
    lines = [f'"#{d}": {{base: "#{b}"}}' for d, b in named]
    raise InputError(
        f"the baseline has the inputs {names} in another order: a call gives arguments by position, a dump does not say"
        " how it is called",
        file=dist.file,
        expected="in the relations file, which is which: by name it is `inputs: {" + ", ".join(lines) + "}`",
        hint="what scalify_dl.capture captures pairs by position: both functions are called with the same arguments",
    )


def _may_correspond(base: Tensor, dist: Tensor, mesh: Mesh) -> bool:
    """Whether a distributed value of that type may be (a shard of) that baseline value."""
    if base.dtype != dist.dtype or len(base.shape) != len(dist.shape):
        return False
    sizes = zip(base.shape, dist.shape, strict=True)
    return all(b == n or (0 < n < b and b % n == 0 and mesh.size % (b // n) == 0) for b, n in sizes)
