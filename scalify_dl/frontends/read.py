"""Dumps → graphs; the kind of a file is told by its content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from scalify_dl.errors import InputError

from .graph import Graph
from .local_sizes import local_sizes
from .merge import merge
from .mesh import Mesh
from .rank_files import RankOf, in_order
from .relations import Relations
from .sizes import OpenInput, OpenSizes, Resolve, Sizes, given_none, resolved

HEAD = 1 << 16
HLO = re.compile(rb"(\s|//[^\n]*\n)*HloModule\b")
MLIR = re.compile(
    rb"\AML\xefR|^\s*(builtin\.)?module\b(?!\s*,)|^\s*func\.func\b|^#loc|^\s*\"builtin\.module\"", re.MULTILINE
)
FX = re.compile(rb"^\s*class\s[^\n]*Module|^\s*def forward\(", re.MULTILINE)


def kind(path: str | Path) -> str:
    """`hlo`, `stablehlo` or `fx`; InputError for anything else."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", file=path) from None
    if HLO.match(head):
        return "hlo"
    if MLIR.search(head):
        return "stablehlo"
    if FX.search(head):
        return "fx"
    binary = b"\0" in head
    raise InputError(
        "not a program dump",
        file=path,
        line=1,
        column=1,
        expected="HLO text (`HloModule …`), StableHLO (`module …` or bytecode) or FX text (`class …: def forward`)",
        hint="HLO protos (.pb) are not read: dump with --xla_dump_hlo_as_text" if binary else None,
    )


def read(
    path: str | Path, mesh: Mesh | None = None, resolve: Resolve = given_none, relations: Relations | None = None
) -> Graph:
    """One dump as a graph; `mesh` for a distributed program, None for a baseline; `resolve` gives open sizes,
    `relations` the members of process groups."""
    found = kind(path)
    if found == "hlo":
        from .hlo import read as read_hlo

        return read_hlo(path, mesh)
    if found == "stablehlo":
        return _stablehlo(Path(path), mesh, resolve)
    from .torch import read as read_fx

    named = relations.groups if relations is not None and mesh is not None else {}
    return read_fx(path, mesh, resolve, {name: relation.groups for name, relation in named.items()})


def read_open_sizes(path: str | Path, mesh: Mesh | None) -> OpenSizes | None:
    """The sizes that a dump leaves open; None where it has none."""

    def stop(dump: OpenSizes) -> Mapping[str, int]:
        raise _Open(dump)

    try:
        read(path, mesh, stop)
    except _Open as found:
        return found.dump
    return None


class _Open(Exception):
    """A reader asks for sizes."""

    def __init__(self, dump: OpenSizes) -> None:
        self.dump = dump


def _stablehlo(path: Path, mesh: Mesh | None, resolve: Resolve) -> Graph:
    from .stablehlo import read_baseline, read_program

    data = path.read_bytes()
    if mesh is None:
        return read_baseline(data, str(path), resolve)
    graph, own = read_program(data, str(path), resolve)
    if own.size != mesh.size:
        raise InputError(f"the program runs on a mesh of {own.size} ranks ({own}), --mesh has {mesh.size}", file=path)
    return graph


def _rank_of(path: str | Path) -> RankOf | None:
    """The rank that a capture says a file is of."""
    if kind(path) != "fx":
        return None
    from .torch.annotation import beside, load_annotations

    return load_annotations(beside(Path(path))).rank


def read_pair(
    base: str | Path,
    dist: Sequence[str | Path],
    mesh: Mesh,
    relations: Relations | None = None,
    sizes: Sizes | None = None,
) -> tuple[Graph, list[Graph]]:
    """The baseline and the distributed programs; per-rank files are merged where they agree.

    `sizes` are those that the dumps leave open. A rank's follow from the baseline's and from the placement of inputs
    that `relations` states (or the dump itself): without one an input is taken to be whole on every rank.
    """
    if not dist:
        raise InputError("no distributed program given")
    if len(dist) > 1 and len(dist) != mesh.size:
        raise InputError(
            f"{len(dist)} distributed files for a mesh of {mesh.size} ranks",
            expected="one file (an SPMD program) or one per rank, in row-major order of the mesh",
        )
    dist = in_order(dist, [_rank_of(path) for path in dist], mesh)
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
        graphs = merge(read(path, mesh, of_rank, relations) for path in dist)
    odd = given.unused(seen)
    if odd is not None:
        names = ", ".join(dict.fromkeys(name for dump in seen for name in dump.symbols))
        raise InputError(f"--size {odd}: no such size is open", expected=f"one of {names}" if names else None)
    return base_graph, graphs
