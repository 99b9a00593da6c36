"""Layouts of tiled values: a baseline tensor cut into equal blocks, and which block every rank holds.

XLA's `devices=[2,1,4]<=[8]` and Shardy's `[{"dp"}, {"tp"}]` are both of this form, whatever the order of the devices.
The layout is found from the block numbers alone: every position of a mesh axis must either step through the blocks of
one dim or not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.facts.layout import Digit, Entry, Layout, Repl

from .mesh import Mesh


def layout_of_blocks(
    base_shape: Sequence[int], tiles: Sequence[int], blocks: Sequence[Sequence[int]], mesh: Mesh
) -> Layout:
    """The layout of a value of which rank r holds block `blocks[r]` (one number per dim, `tiles[d]` blocks of dim d).

    Raises InputError where the blocks are uneven, the ranks are not those of the mesh, or their order is no
    arrangement of mesh-axis digits.
    """
    if len(blocks) != mesh.size:
        raise InputError(f"a sharding over {len(blocks)} devices on the mesh {mesh} of {mesh.size} ranks")
    for d, (n, count) in enumerate(zip(base_shape, tiles, strict=True)):
        if n % count:
            raise InputError(f"dim {d} of size {n} is not divisible into {count} equal shards")
    local = [n // count for n, count in zip(base_shape, tiles, strict=True)]
    for factors in product(*(_factorings(size) for _, size in mesh.axes)):
        axes = _entries(factors, blocks, local)
        if axes is not None:
            dims = [[Digit(d, 1, n)] for d, n in enumerate(local)]
            return Layout.of(dims, [(axis, axes[i]) for i, (axis, _) in enumerate(mesh.axes)])
    raise InputError(f"the order of the devices in a sharding is no arrangement of the axes of the mesh {mesh}")


def _factorings(size: int) -> Iterator[tuple[int, ...]]:
    """Orders of the prime factors of an axis size, major to minor."""
    primes = []
    rest, p = size, 2
    while rest > 1:
        while rest % p == 0:
            primes.append(p)
            rest //= p
        p += 1
    yield from dict.fromkeys(permutations(primes))


def _entries(
    factors: Sequence[Sequence[int]], blocks: Sequence[Sequence[int]], local: Sequence[int]
) -> list[list[Entry]] | None:
    """Entries per axis where block numbers are sums of one digit per axis position; None where they are not."""
    sizes = [(axis, size) for axis, primes in enumerate(factors) for size in primes]
    strides = [prod(size for _, size in sizes[i + 1 :]) for i in range(len(sizes))]
    origin = blocks[0]
    if any(origin):
        return None
    axes: list[list[Entry]] = [[] for _ in factors]
    steps: list[Sequence[int]] = []
    for (axis, size), stride in zip(sizes, strides, strict=True):
        step = blocks[stride]
        moved = [d for d, n in enumerate(step) if n]
        if len(moved) > 1:
            return None
        axes[axis].append(Digit(moved[0], step[moved[0]] * local[moved[0]], size) if moved else Repl(size))
        steps.append(step)
    for rank, block in enumerate(blocks):
        digits = [rank // stride % size for (_, size), stride in zip(sizes, strides, strict=True)]
        if any(sum(a * step[d] for a, step in zip(digits, steps, strict=True)) != n for d, n in enumerate(block)):
            return None
    return axes
