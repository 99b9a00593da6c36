"""A baseline and a distributed program, read together: files of ranks in order, open sizes, equal programs merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers.merge import merge
from scalify_dl.readers.rank_files import RankOf, in_order
from scalify_dl.readers.read import kind, read, read_ranks
from scalify_dl.readers.relations import Relations
from scalify_dl.readers.sizes import OpenInput, OpenSizes, Sizes, resolved

from .local_sizes import local_sizes


def rank_of(path: str | Path) -> RankOf | None:
    """The rank that a capture says a file is of."""
    if kind(path) != "fx":
        return None
    from scalify_dl.readers.fx.annotation import beside, load_annotations

    return load_annotations(beside(Path(path))).rank


def read_pair(
    base: str | Path,
    dist: Sequence[str | Path],
    mesh: Mesh,
    relations: Relations | None = None,
    sizes: Sizes | None = None,
    follow: Callable[[Sequence[Graph]], None] | None = None,
) -> tuple[Graph, list[Graph]]:
    """The baseline and the distributed programs; per-rank files are merged where they agree.

    `sizes` are those that the dumps leave open. A rank's follow from the baseline's and from the placement of inputs
    that `relations` states (or the dump itself): without one an input is taken to be whole on every rank. `follow` may
    change the programs that were read.
    """
    if not dist:
        raise InputError("no distributed program given")
    if len(dist) > 1 and len(dist) != mesh.size:
        raise InputError(
            f"{len(dist)} distributed files for a mesh of {mesh.size} ranks",
            expected="one file (an SPMD program) or one per rank, in row-major order of the mesh",
        )
    dist = in_order(dist, [rank_of(path) for path in dist], mesh)
    given, seen = sizes or Sizes(), []

    def of_base(dump: OpenSizes) -> Mapping[str, int]:
        seen.append(dump)
        return resolved(given, dump)

    base_graph = read(base, None, of_base)
    whole = [OpenInput(n, (p.tensor.name,), p.tensor.shape, p.path) for n, p in enumerate(base_graph.inputs)]

    def of_rank(dump: OpenSizes) -> Mapping[str, int]:
        seen.append(dump)
        return resolved(local_sizes(whole, dump, mesh, relations or Relations(), given), dump)

    if len(dist) == 1:
        graphs = [read(dist[0], mesh, of_rank, relations)]
    else:
        graphs = merge(read_ranks(dist, mesh, of_rank, relations))
    odd = given.unused(seen)
    if odd is not None:
        names = ", ".join(dict.fromkeys(name for dump in seen for name in dump.symbols))
        raise InputError(f"--size {odd}: no such size is open", expected=f"one of {names}" if names else None)
    if follow is not None:
        follow([base_graph, *graphs])
    return base_graph, graphs
