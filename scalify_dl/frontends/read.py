"""Dumps → graphs; the kind of a file is told by its content."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from scalify_dl.errors import InputError

from .graph import Graph
from .merge import merge
from .mesh import Mesh

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


def read(path: str | Path, mesh: Mesh | None = None) -> Graph:
    """One dump as a graph; `mesh` for a distributed program, None for a baseline."""
    found = kind(path)
    if found == "hlo":
        from .hlo import read as read_hlo

        return read_hlo(path, mesh)
    if found == "stablehlo":
        return _stablehlo(Path(path), mesh)
    from .torch import read as read_fx

    return read_fx(path, mesh)


def _stablehlo(path: Path, mesh: Mesh | None) -> Graph:
    from .stablehlo import read_baseline, read_program

    data = path.read_bytes()
    if mesh is None:
        return read_baseline(data, str(path))
    graph, own = read_program(data, str(path))
    if own.size != mesh.size:
        raise InputError(f"the program runs on a mesh of {own.size} ranks ({own}), --mesh has {mesh.size}", file=path)
    return graph


def read_pair(base: str | Path, dist: Sequence[str | Path], mesh: Mesh) -> tuple[Graph, list[Graph]]:
    """The baseline and the distributed programs; per-rank files are merged where they agree."""
    if not dist:
        raise InputError("no distributed program given")
    if len(dist) > 1 and len(dist) != mesh.size:
        raise InputError(
            f"{len(dist)} distributed files for a mesh of {mesh.size} ranks",
            expected="one file (an SPMD program) or one per rank, in row-major order of the mesh",
        )
    base_graph = read(base)
    if len(dist) == 1:
        return base_graph, [read(dist[0], mesh)]
    return base_graph, merge(read(path, mesh) for path in dist)
