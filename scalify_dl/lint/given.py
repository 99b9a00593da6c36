"""What the inputs of a distributed program are, without a baseline: their shapes on one device, and their placements.

Order of trust: the relations file, annotations of the dump. What neither places is taken to be whole on every rank: a
guess, on which no verdict rests.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import cast

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Annotation, Graph, Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible, Placement
from scalify_dl.pairing.correspond import Correspondence, Shard, place
from scalify_dl.pairing.pairing import Finder, listing
from scalify_dl.readers.relations import InputRelation, Relations

from .grid import Grid
from .held import Held, Piece, tidy

GRADIENT, COTANGENT = "grad ", "tangent "
"""How readers name the gradient of an input, and the input that holds that of an output."""


@dataclass
class Given:
    """The baseline with its inputs, what every input holds, what was guessed."""

    base: Graph
    found: Correspondence
    held: dict[Tensor, Held]
    guessed: list[Port] = field(default_factory=list)
    unplaced: dict[Tensor, str] = field(default_factory=dict)
    """Inputs of which nothing is known, and why."""


def given(dist: Graph, mesh: Mesh, relations: Relations) -> Given:
    """What is said of the inputs of a program. InputError where it does not fit the program."""
    base = Graph("base", file=None)
    base.lookups_fail = dist.lookups_fail
    said = _said(dist, relations)
    guessed, unplaced = [], {}
    for position, port in enumerate(dist.inputs):
        relation = said.get(position)
        try:
            shape = _shape(port, relation, mesh)
        except Inexpressible as error:
            shape, unplaced[port.tensor] = None, error.message
        if shape is None and port.tensor not in unplaced:
            guessed.append(port)
        whole = port.tensor.shape if shape is None else tuple(shape)
        base.input(port.tensor.name, port.tensor.dtype, whole, path=port.path, range=port.range)
        base.inputs[-1].seen = port.seen
    found = _corresponding(base, dist, mesh, said)
    grid = Grid(mesh)
    held: dict[Tensor, Held] = {}
    by_tensor: dict[Tensor, list[Shard]] = {}
    for shard in found.shards:
        by_tensor.setdefault(shard.dist, []).append(shard)
    for port in dist.inputs:
        mine = by_tensor.get(port.tensor, [])
        if port.tensor in unplaced or not mine:
            unplaced.setdefault(port.tensor, "it is not placed")
            continue
        one = _held(mine, grid)
        if one is None:
            unplaced[port.tensor] = "its placement is no block of whole positions of mesh axes"
        else:
            held[port.tensor] = one
    return Given(base, found, held, [p for p in guessed if prod(p.tensor.shape) != 1 or p.tensor.shape], unplaced)


def _said(dist: Graph, relations: Relations) -> dict[int, InputRelation]:
    """Entries of the relations file by position; what they say of a baseline is left alone."""
    said: dict[int, InputRelation] = {}
    ports = Finder(dist.inputs)
    for relation in relations.inputs:
        if relation.of:
            raise relation.place.error(f"inputs: {relation.key}: `of` speaks of a baseline", expected="`dims`, `parts`")
        positions = ports.find(relation.key)
        if not positions:
            raise relation.place.error(f"inputs: no distributed input matches `{relation.key}`",
                                       expected=f"one of {listing(dist.inputs)}")  # fmt: skip
        for position in positions:
            if position in said and said[position].key == relation.key:
                continue
            exact = relation.key in (dist.inputs[position].tensor.name, dist.inputs[position].path)
            named = exact or not any(mark in relation.key for mark in "*?[")
            if named or (position not in said and dist.inputs[position].placement is None):
                said[position] = relation  # names go before annotations, and these before patterns
    return said


def _corresponding(base: Graph, dist: Graph, mesh: Mesh, said: Mapping[int, InputRelation]) -> Correspondence:
    """Both sides are one list: they pair one by one."""
    found = Correspondence()
    for n, (b, d) in enumerate(zip(base.inputs, dist.inputs, strict=True)):
        found.pairs[n] = n
        if n in said:
            found.used.add(said[n].key)
        place(b, d, n, True, mesh, said.get(n), found, dist.ranks)
    return found


def _shape(port: Port, relation: InputRelation | None, mesh: Mesh) -> Sequence[int] | None:
    """The shape on one device; None where nothing is said."""
    local = port.tensor.shape
    if relation is not None and (relation.dims is not None or relation.parts is not None):
        if relation.parts is None:
            assert relation.dims is None or isinstance(relation.dims, Mapping)
            return _stretched(Placement(relation.dims or {}), local, mesh)
        dims = relation.dims[0] if isinstance(relation.dims, tuple) else relation.dims or {}
        at = relation.parts.dim
        if not 0 <= at < len(local):
            raise relation.place.error(f"inputs: {relation.key}: no dim {at} in {port.tensor.type}")
        rest = Placement({d: parts for d, parts in dims.items() if d != at})
        shape = list(_stretched(rest, local, mesh))
        shape[at] = sum(relation.parts.sizes)
        return shape
    if port.placement is None:
        return None
    known = getattr(port.placement, "global_shape", None)
    if known is not None:
        port.placement.layout(known, mesh)
        return tuple(known)
    return _stretched(port.placement, local, mesh)


def _stretched(placement: Annotation, local: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    """The shape of which a placement makes the local one."""
    try:
        hash(placement)
    except TypeError:  # said by hand, as a mapping
        return _of_local(placement, local, mesh)
    return _kept(cast(Hashable, placement), local, mesh)


def _of_local(placement: Annotation, local: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    large = [n * mesh.size for n in local]
    cut = placement.layout(large, mesh).local_shape
    if len(cut) != len(local) or any(c == 0 for c, n in zip(cut, local, strict=True) if n):
        raise InputError(f"a placement does not fit {list(local)}")
    return tuple(n * (big // small) if n else 0 for n, big, small in zip(local, large, cut, strict=True))


_kept = lru_cache(maxsize=1024)(_of_local)
"""Layers ask the same."""


def _held(shards: Sequence[Shard], grid: Grid) -> Held | None:
    if not shards[0].dist_piece:
        layout = shards[0].layout
        mesh = grid.split(layout.axes)
        local = tuple(tidy(digits) for digits in layout.dims)
        return None if mesh is None else Held(shards[0].base, local, mesh, layout.scale)
    dim = shards[0].dist_piece[0].dim
    parts, first = [], None
    for shard in shards:
        mesh = grid.split(shard.layout.axes)
        if mesh is None:
            return None
        piece = Held(shard.base, tuple(tidy(d) for d in shard.layout.dims), mesh)
        first = first or piece
        cut = sorted(piece.cut(dim), key=lambda p: -getattr(piece.mesh[p], "stride", 0))
        (here,), (there,) = shard.dist_piece, shard.base_piece
        parts.append(Piece(here.lo, here.hi, there.lo, there.hi, tuple(cut)))
    assert first is not None
    where = [None if d == dim else d for d in range(len(first.local))]
    return first.moved(where, first.base, first.local, along=dim, parts=tuple(parts))
