"""What the outputs of a program have to be: as they are annotated, or whole or in blocks, with nothing pending."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Port, Tensor
from scalify_dl.ir.layout import Layout
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible, Placement, Rearranged
from scalify_dl.pairing.pairing import find, listing
from scalify_dl.readers.relations import OutputRelation, Relations

from .grid import Grid
from .held import Held
from .lift import Lifted


@dataclass(frozen=True)
class Boundary:
    """An output: what it holds, as far as it was lifted, and the layout that is asked of it; whether the ranks' shape
    fits this layout."""

    port: Port
    held: Held | None
    wanted: str
    stated: bool
    fits: bool = True


def boundaries(dist: Graph, lifted: Lifted, grid: Grid, relations: Relations) -> list[Boundary]:
    """The outputs that are looked at: those that the relations file names, else all."""
    said: dict[int, OutputRelation] = {}
    for relation in relations.outputs:
        positions = find(dist.outputs, relation.key)
        if not positions:
            raise relation.place.error(f"outputs: no distributed output `{relation.key}`",
                                       expected=f"one of {listing(dist.outputs)}")  # fmt: skip
        said |= dict.fromkeys(positions, relation)
    found, seen = [], set[Tensor]()
    for position, port in enumerate(dist.outputs):
        if (said and position not in said) or port.tensor in seen:
            continue
        seen.add(port.tensor)
        found.append(_boundary(port, lifted.held.get(port.tensor), grid, said.get(position)))
    return found


def _boundary(port: Port, held: Held | None, grid: Grid, relation: OutputRelation | None) -> Boundary:
    mesh = grid.mesh
    if held is None:
        of_ranks = _of_local_shape(port, mesh, relation)
        return Boundary(port, None, str(of_ranks) if of_ranks is not None else "", of_ranks is not None)
    shape = held.base.shape
    stated = _stated(port, shape, mesh, relation)
    if stated is not None:
        return Boundary(port, held, str(stated), True, stated.local_shape == port.tensor.shape)
    plain = held.calm and held.along is None and held.in_blocks
    return Boundary(port, held, str(held.layout(grid)) if plain else "", False)


def _stated(port: Port, shape: tuple[int, ...], mesh: Mesh, relation: OutputRelation | None) -> Layout | None:
    if relation is not None and (relation.dims is not None or relation.pending):
        return Placement(relation.dims or {}, relation.pending).layout(shape, mesh)
    if port.placement is None or relation is not None:
        return None
    try:
        return port.placement.layout(shape, mesh)
    except Rearranged:
        return None
    except Inexpressible:
        return None
    except InputError:
        return _of_other_shape(port, mesh)


def _of_other_shape(port: Port, mesh: Mesh) -> Layout | None:
    """The placement of a value of another shape than the lifted one: no rank can have it so."""
    known = getattr(port.placement, "global_shape", None)
    if port.placement is None or known is None:
        return None
    return port.placement.layout(known, mesh)


def _of_local_shape(port: Port, mesh: Mesh, relation: OutputRelation | None) -> Layout | None:
    """What is asked of an output of which nothing is known but the ranks' shape; None where nothing is."""
    ways = [n for n in range(1, mesh.size + 1) if mesh.size % n == 0]
    for whole in product(*([n * k for k in ways] for n in port.tensor.shape)):
        with suppress(InputError):
            stated = _stated(port, whole, mesh, relation)
            if stated is not None and stated.local_shape == port.tensor.shape:
                return stated
    return None
