"""Inputs of several programs that are one, or unequal parts of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Repl, Window

from ..correspond import Correspondence, Shard
from .cells import Cells
from .values import in_blocks

__all__ = ["One", "inputs_alike", "rows_of", "same_everywhere"]


@dataclass(frozen=True)
class One:
    """Inputs that are one: a tensor of each program, and what is given of them. `sizes`, where they are unequal parts
    along `dim`: theirs by cell."""

    tensors: tuple[Tensor, ...]
    shards: tuple[Shard, ...]
    dim: int = 0
    sizes: tuple[int, ...] = ()


def same_everywhere(layout: Layout, axes: Sequence[str]) -> bool:
    """Whether a layout does not depend on the place along some axes."""
    return all(isinstance(entry, Repl) for axis, entries in layout.axes if axis in axes for entry in entries)


def rows_of(found: Correspondence) -> Mapping[Tensor, tuple[Shard, ...]]:
    """What is given of every input."""
    by_tensor: dict[Tensor, tuple[Shard, ...]] = {}
    for shard in found.shards:
        by_tensor[shard.dist] = (*by_tensor.get(shard.dist, ()), shard)
    return by_tensor


def inputs_alike(
    programs: Sequence[Graph], cells: Cells, rows: Sequence[Mapping[Tensor, tuple[Shard, ...]]]
) -> list[One]:
    """The inputs that all programs have, alike or in parts; the others are each program's own."""
    ported: list[dict[str, Tensor]] = []
    for program in programs:
        paths = [port.path for port in program.inputs]
        ported.append({p.path: p.tensor for p in program.inputs if p.path is not None and paths.count(p.path) == 1})
    ones = []
    for path in ported[0]:
        if not all(path in one for one in ported):
            continue
        tensors = tuple(one[path] for one in ported)
        given = [rows[k].get(tensors[p], ()) for k, p in enumerate(cells.program)]
        if len({t.type for t in tensors}) == 1 and given[0] and len({_said(some) for some in given}) == 1:
            ones.append(One(tensors, given[0]))
            continue
        parts = _parts(tensors, cells, given)
        if parts is not None:
            ones.append(parts)
    return ones


def _said(shards: Sequence[Shard]) -> tuple[object, ...]:
    return tuple((id(shard.base), shard.row, shard.why) for shard in shards)


def _parts(tensors: tuple[Tensor, ...], cells: Cells, given: Sequence[Sequence[Shard]]) -> One | None:
    """Inputs that are unequal parts of one baseline input, whose cells' windows follow each other."""
    first = given[0][0] if len(given[0]) == 1 else None
    if first is None or len(first.base_piece) != 1:
        return None
    dim, base = first.base_piece[0].dim, first.base
    sizes = [shape[dim] if len(shape) > dim else -1 for shape in (tensors[p].shape for p in cells.program)]
    at = 0
    whole: Layout | None = None
    for shards, n in zip(given, sizes, strict=True):
        if n == 0 and not shards:
            continue
        if len(shards) != 1 or shards[0].dist_piece or shards[0].base is not base:
            return None
        wide = _widened(shards[0].layout, dim, n, base.shape[dim])
        if shards[0].base_piece != (Window(dim, at, at + n),) or wide is None or wide != (whole or wide):
            return None
        if not same_everywhere(wide, cells.axes):
            return None
        whole, at = wide, at + n
    if whole is None or at != base.shape[dim] or not in_blocks(sizes):
        return None
    return One(tensors, (replace(first, layout=whole, base_piece=()),), dim, tuple(sizes))


def _widened(layout: Layout, dim: int, n: int, total: int) -> Layout | None:
    """The layout with all elements of a dim, where it has n of them, in order and nowhere else."""
    of_dim = [digit for digit in layout.digits() if digit.dim == dim]
    if of_dim != ([Digit(dim, 1, n)] if n > 1 else []) or layout.dims[dim] != tuple(of_dim):
        return None
    dims = [(Digit(dim, 1, total),) if d == dim else digits for d, digits in enumerate(layout.dims)]
    return Layout.of(dims, layout.axes, layout.scale)
