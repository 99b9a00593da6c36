"""How ranks hold the baseline's tensors, told by the values that they have: which mesh axis shards which dim.

The baseline's batch is cut by hand, a weight is a plain tensor made of `w.chunk(n)[rank]`: nothing in the program says
so, but the numbers of the captured run do. What no cut of the baseline's value explains is said to have no layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import Any

import torch

from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers.fx.annotation import UNPLACED

__all__ = ["layout_entries", "layout_entry"]


def layout_entries(whole: torch.Tensor, parts: Mapping[int, torch.Tensor], mesh: Mesh) -> dict[int, list[Any]]:
    """The placement entries of a tensor of which rank r holds `parts[r]`, by rank; none where values do not decide."""
    entry = layout_entry(whole, parts, mesh)
    return _uneven(whole, parts, mesh) if entry is None else dict.fromkeys(parts, entry)


def layout_entry(whole: torch.Tensor, parts: Mapping[int, torch.Tensor], mesh: Mesh) -> list[Any] | None:
    """The placement entry of a tensor of which rank r holds `parts[r]`; None where values do not decide."""
    shapes = {tuple(part.shape) for part in parts.values()}
    if len(shapes) != 1 or whole.dtype != next(iter(parts.values())).dtype:
        return None
    local = shapes.pop()
    if len(local) != whole.dim():
        return None
    axes = [(name, size) for name, size in mesh.axes if size > 1]
    for named in _parts(axes):
        sizes = [size for _, size in named]
        found = [dims for dims in _cuts(whole.shape, local, sizes) if _fits(whole, parts, dims, sizes)]
        if len(found) > 1:
            return None
        if found:
            cuts = ["Replicate()" if dim is None else f"Shard(dim={dim})" for dim in found[0]]
            text = f"({', '.join(cuts)}{',' * bool(cuts)})"
            return [text, list(whole.shape), list(local), [name for name, _ in named]]
    text = UNPLACED + _swapped(whole, parts, mesh)
    return [text, list(whole.shape), list(local), [name for name, _ in axes], *_same(whole, parts)]


def _parts(axes: Sequence[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """The axes, then with one or more of them in two parts: several ranks in a row hold one block, or take turns."""
    ways = [[[axis], *_halves(*axis)] for axis in axes]
    for chosen in sorted(product(*ways), key=lambda way: sum(map(len, way))):
        yield [part for parts in chosen for part in parts]


def _halves(name: str, size: int) -> Iterator[list[tuple[str, int]]]:
    """An axis as a major and a minor part."""
    for major in range(2, size):
        if size % major == 0:
            yield [(f"{name}={major}", major), (f"{name}={size // major}", size // major)]


def _uneven(whole: torch.Tensor, parts: Mapping[int, torch.Tensor], mesh: Mesh) -> dict[int, list[Any]]:
    """The entries of unequal parts that follow each other along one mesh axis, and where each of them begins."""
    axes = [(name, size) for name, size in mesh.axes if size > 1]
    alike = all(part.dim() == whole.dim() and part.dtype == whole.dtype for part in parts.values())
    if not alike or len({part.shape for part in parts.values()}) == 1:
        return {}
    found = []
    for (n, (_, size)), dim in product(enumerate(axes), range(whole.dim())):
        lengths = {_place(mesh, rank)[n]: part.shape[dim] for rank, part in parts.items()}
        cuts = [0, *accumulate(lengths.get(at, 0) for at in range(size))]
        blocks = {rank: whole[(slice(None),) * dim + (slice(*cuts[_place(mesh, rank)[n]:][:2]),)] for rank in parts}
        if cuts[-1] == whole.shape[dim] and all(torch.equal(blocks[rank], part) for rank, part in parts.items()):
            text = ", ".join(f"Shard(dim={dim})" if at == n else "Replicate()" for at in range(len(axes)))
            found.append((f"({text},)", [dim, *cuts]))
    if len(found) != 1:
        return {}
    ((said, cuts),) = found
    names = [name for name, _ in axes]
    return {rank: [said, list(whole.shape), list(part.shape), names, cuts] for rank, part in parts.items()}


def _same(whole: torch.Tensor, parts: Mapping[int, torch.Tensor]) -> list[list[int]]:
    """The one block that every rank holds, if there is just one: dim, start and limit."""
    first, *others = parts.values()
    cut = [dim for dim, size in enumerate(first.shape) if whole.shape[dim] != size]
    if len(cut) != 1 or not all(torch.equal(first, other) for other in others):
        return []
    ((dim, size),) = ((d, first.shape[d]) for d in cut)
    fits = [lo for lo in range(0, whole.shape[dim] - size + 1, max(size, 1))
            if torch.equal(whole.narrow(dim, lo, size), first)]  # fmt: skip
    return [[dim, fits[0], fits[0] + size]] if len(fits) == 1 else []


def _swapped(whole: torch.Tensor, parts: Mapping[int, torch.Tensor], mesh: Mesh) -> str:
    """Where every rank holds a block of a cut, but not its own: the first that does not, in words."""
    local = next(iter(parts.values())).shape
    sizes = [size for _, size in mesh.axes if size > 1]
    for dims in _cuts(whole.shape, local, sizes):
        blocks = {place: _block(whole, dims, place, sizes) for place in product(*map(range, sizes))}
        held = {rank: [place for place, block in blocks.items() if torch.equal(block, part)]
                for rank, part in parts.items()}  # fmt: skip
        if not all(held.values()):
            continue
        for rank, places in held.items():
            own = _place(mesh, rank)
            if own not in places:
                said = [f"block {at} of {size} of dim {dim}, not block {mine}" for dim, at, mine, size
                        in zip(dims, places[0], own, sizes, strict=True) if dim is not None and at != mine]  # fmt: skip
                return f": rank {rank} holds {', and '.join(said)}"
    return ""


def _cuts(whole: Sequence[int], local: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int | None, ...]]:
    """Which dim each mesh axis shards (None: it holds copies), so that the local shape comes out."""
    for dims in product([None, *range(len(whole))], repeat=len(sizes)):
        shape = list(whole)
        for dim, size in zip(dims, sizes, strict=True):
            if dim is not None:
                if shape[dim] % size:
                    break
                shape[dim] //= size
        else:
            if shape == list(local):
                yield dims


def _fits(
    whole: torch.Tensor, parts: Mapping[int, torch.Tensor], dims: Sequence[int | None], sizes: Sequence[int]
) -> bool:
    """Whether every rank holds its block of a cut over so many positions each, the ranks in the order of the mesh."""
    places = list(product(*map(range, sizes)))
    return all(torch.equal(_block(whole, dims, places[rank], sizes), part) for rank, part in parts.items())


def _place(mesh: Mesh, rank: int) -> tuple[int, ...]:
    """Where a rank stands on the axes that have several places."""
    return tuple(at for at, (_, size) in zip(mesh.coordinates[rank], mesh.axes, strict=True) if size > 1)


def _block(
    whole: torch.Tensor, dims: Sequence[int | None], place: Sequence[int], sizes: Sequence[int]
) -> torch.Tensor:
    """The block of a cut at a place of the mesh."""
    for dim, at, size in zip(dims, place, sizes, strict=True):
        if dim is not None:
            whole = whole.chunk(size, dim)[at]
    return whole
