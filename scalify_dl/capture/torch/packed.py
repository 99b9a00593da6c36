"""Several weights in one tensor (queries, keys and values; gate and up): each is cut by itself, a rank holds its block
of every one. Told by the values; equal weights are a strided placement, others become inputs of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from scalify_dl.ir.mesh import Mesh

__all__ = ["Packing", "packing_of"]

MOST = 64
"""So many weights are told apart."""


@dataclass(frozen=True)
class Packing:
    """Weights in a row along a dim, their sizes in the baseline and on a rank of an axis."""

    dim: int
    axis: str
    whole: tuple[int, ...]
    local: tuple[int, ...]

    def entry(self, shape: Sequence[int], mesh: Mesh) -> list[Any] | None:
        """The placement entry of a tensor of that shape; None where the weights are of several sizes."""
        if len(set(self.whole)) > 1 or len(set(self.local)) > 1 or self.whole == self.local:
            return None
        cut = f"_StridedShard(dim={self.dim}, sf={len(self.whole)})"
        return self._entry(cut, shape, sum(self.local), mesh)

    def entry_of(self, n: int, shape: Sequence[int], mesh: Mesh) -> list[Any]:
        """The placement entry of the n-th weight of a tensor of that shape."""
        cut = "Replicate()" if self.whole[n] == self.local[n] else f"Shard(dim={self.dim})"
        alone = [*shape[: self.dim], self.whole[n], *shape[self.dim + 1 :]]
        return self._entry(cut, alone, self.local[n], mesh)

    def _entry(self, cut: str, shape: Sequence[int], local: int, mesh: Mesh) -> list[Any]:
        axes = [name for name, size in mesh.axes if size > 1]
        text = ", ".join(cut if name == self.axis else "Replicate()" for name in axes)
        return [f"({text},)", list(shape), [*shape[: self.dim], local, *shape[self.dim + 1 :]], axes]

    def names(self, what: str) -> list[str]:
        """What the weights of a tensor are called: by their positions in the baseline's."""
        ends = [sum(self.whole[:n]) for n in range(len(self.whole) + 1)]
        along = "" if self.dim == 0 else f".dim{self.dim}"
        return [f"{what}{along}[{lo}:{hi}]" for lo, hi in pairwise(ends)]

    def fits(self, whole: torch.Tensor, parts: Mapping[int, torch.Tensor], mesh: Mesh) -> bool:
        """Whether every rank holds its blocks of a tensor that is packed so."""
        if self.dim >= whole.dim() or whole.shape[self.dim] != sum(self.whole) or len(parts) != mesh.size:
            return False
        at = [name for name, _ in mesh.axes].index(self.axis)
        weights = whole.split(self.whole, self.dim)
        for rank, part in parts.items():
            place = mesh.coordinates[rank][at]
            own = [w if n == m else w.narrow(self.dim, place * m, m)
                   for w, n, m in zip(weights, self.whole, self.local, strict=True)]  # fmt: skip
            if not torch.equal(torch.cat(own, self.dim), part):
                return False
        return True


def packing_of(whole: torch.Tensor, parts: Mapping[int, torch.Tensor], mesh: Mesh) -> Packing | None:
    """How a tensor of which rank r holds `parts[r]` is packed; None where values do not tell."""
    shapes = {part.shape for part in parts.values()}
    if len(parts) != mesh.size or len(shapes) != 1 or whole.dtype != parts[0].dtype:
        return None
    (local,) = shapes
    dims = [d for d, (n, m) in enumerate(zip(whole.shape, local, strict=False)) if n != m]
    if len(local) != whole.dim() or len(dims) != 1:
        return None
    (dim,) = dims
    rows = {row: n for n, row in enumerate(_rows(whole, dim))}
    if len(rows) < whole.shape[dim]:
        return None
    held = {rank: [rows.get(row, -1) for row in _rows(part, dim)] for rank, part in parts.items()}
    for at, (axis, size) in enumerate(mesh.axes):
        by_place = [held[next(r for r in held if mesh.coordinates[r][at] == place)] for place in range(size)]
        found = _weights(by_place, whole.shape[dim]) if size > 1 else None
        if found is not None:
            packing = Packing(dim, axis, *found)
            if packing.fits(whole, parts, mesh):
                return packing
    return None


def _rows(t: torch.Tensor, dim: int) -> list[bytes]:
    flat = t.detach().movedim(dim, 0).reshape(t.shape[dim], -1).contiguous().view(torch.uint8).numpy()
    return [row.tobytes() for row in flat]


def _weights(held: Sequence[Sequence[int]], length: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes of the weights, in the baseline and on a rank, from the baseline's positions that the ranks of an axis
    hold; None where these are no blocks of weights in a row."""
    first, second = held[0], held[1]
    steps = [b - a for a, b in zip(first, second, strict=True)]
    starts = [n for n in range(len(first)) if n == 0 or first[n] != first[n - 1] + 1 or steps[n] != steps[n - 1]]
    whole, local, at = [], [], 0
    for lo, hi in pairwise([*starts, len(first)]):
        size = (hi - lo) * (len(held) if steps[lo] else 1)
        if len(starts) > MOST or first[lo] != at or steps[lo] not in (0, hi - lo):
            return None
        whole.append(size)
        local.append(hi - lo)
        at += size
    return (tuple(whole), tuple(local)) if at == length else None
