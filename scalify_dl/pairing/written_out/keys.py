"""Numbers of ranks that go into the bits of a random key.

    key = jax.random.fold_in(key, lax.axis_index("dp"))    # or jax.random.split(key, n)[lax.axis_index("dp")]
    keep = jax.random.bernoulli(key, 0.9, x.shape)

The draws of rank r are made of all bits of r: no rule of arithmetic says what they are of the baseline's. Written out,
with each number put in, they are draws that the baseline has too, one for each rank, and a rank has its own of them.

A number goes into a key where an integer that depends on it and on inputs is combined bit by bit (`xor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.mesh import Mesh

from .numbers import Numbers, computed
from .wanted import RANK_NUMBERS, Loop, combines_bits, loop_of

__all__ = ["Keys", "keys"]


@dataclass(frozen=True)
class Keys:
    """The known `numbers` of ranks that go into keys, the mesh axes along which they differ, and the loops that such
    keys go through."""

    numbers: frozenset[Tensor]
    axes: tuple[str, ...]
    loops: frozenset[Loop]


def keys(graph: Graph, mesh: Mesh) -> Keys:
    """The numbers of ranks that go into keys."""
    known = _known(graph.ops, mesh)
    numbered = {x for x, n in known.items() if len(n) > 1 and (n != n[:1]).any()}
    mixed: set[Tensor] = set()  # depends on the number of a rank, and on more
    wanted: set[Tensor] = set()
    loops: set[Loop] = set()
    for op in graph.ops:
        on_both = _integers(op) and any(x in mixed or x in numbered for x in op.operands)
        results = [x for x in op.results if on_both and x not in known]
        mixed.update(results)
        if on_both and combines_bits([op]) and any(x in mixed for x in op.operands):
            wanted.update(op.operands)
            loops.update([loop_of(op)] if op.kind == "while" else [])
    made = {result: op for op in graph.ops for result in op.results}
    found, stack = set(), [x for x in wanted if x in mixed or x in numbered]
    seen = set(stack)
    while stack:
        x = stack.pop()
        if x in numbered:
            found.add(x)
            continue
        more = [y for y in made[x].operands if (y in mixed or y in numbered) and y not in seen] if x in made else []
        seen.update(more)
        stack.extend(more)
    axes = tuple(axis for axis, _ in mesh.axes if any(_differs(known[x], mesh, axis) for x in found))
    return Keys(frozenset(found), axes, frozenset(loops))


def _known(ops: Sequence[Op], mesh: Mesh) -> dict[Tensor, Numbers]:
    """Integers that are known on each rank."""
    known: dict[Tensor, Numbers] = {}
    for op in ops:
        if op.kind in RANK_NUMBERS:
            known[op.result] = np.arange(mesh.size, dtype=np.int64)
        elif len(op.results) == 1 and not op.rank_numbers and all(x in known for x in op.operands):
            numbers = computed(op, [known[x] for x in op.operands])
            if numbers is not None:
                known[op.result] = numbers
    return known


def _integers(op: Op) -> bool:
    return any(x.dtype[0] in "su" for x in op.results)


def _differs(numbers: Numbers, mesh: Mesh, axis: str) -> bool:
    """Whether ranks that differ along that axis alone have other numbers."""
    place = [name for name, _ in mesh.axes].index(axis)
    first: dict[tuple[int, ...], int] = {}
    for rank, at in enumerate(mesh.coordinates):
        line = (*at[:place], *at[place + 1 :])
        if (numbers[first.setdefault(line, rank)] != numbers[rank]).any():
            return True
    return False
