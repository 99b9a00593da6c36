"""Dumps → graphs; the kind of a file is told by its content."""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh

from .merge import Alike
from .relations import Relations
from .sizes import OpenSizes, Resolve, given_none

HEAD = 1 << 16
HLO = re.compile(rb"(\s|//[^\n]*\n)*HloModule\b")
MLIR = re.compile(
    rb"\AML\xefR|^\s*(builtin\.)?module\b(?!\s*,)|^\s*func\.func\b|^#loc|^\s*\"builtin\.module\"", re.MULTILINE
)
PROGRAM = re.compile(rb"\s*\{\s*\"program\"\s*:")
FX = re.compile(rb"^\s*class\s[^\n]*Module|^\s*def forward\(", re.MULTILINE)

OUTSIDE = "// outside of the capture: "
"""Begins lines at the head of a dump of MLIR or HLO text: what the program does and the dump does not say."""


SEEN = "// values in the captured run: "
"""Begins lines there that say what an integer input held: `input 3 from -100 to 31`."""
_SPAN = re.compile(r"input (\d+) from (-?\d+) to (-?\d+)")


def outside_lines(texts: Sequence[str]) -> str:
    """Lines for the head of a dump that say so."""
    return "".join(f"{OUTSIDE}{text}\n" for text in texts)


def seen_lines(spans: Mapping[int, tuple[int, int]]) -> str:
    """Lines for the head of a dump: of integer inputs, by position, the least and the greatest value."""
    return "".join(f"{SEEN}input {n} from {least} to {most}\n" for n, (least, most) in spans.items())


def _head(path: str | Path, graph: Graph) -> Graph:
    """The graph of a dump with what lines at its head say."""
    with Path(path).open("rb") as file:
        for number in itertools.count(1):
            line = file.readline(HEAD).decode("utf-8", "replace").strip()
            if line.startswith(OUTSIDE.strip()):
                graph.outside.append(line.removeprefix(OUTSIDE.strip()).strip())
            elif line.startswith(SEEN.strip()):
                said = _SPAN.fullmatch(line.removeprefix(SEEN.strip()).strip())
                if said is None or int(said[1]) >= len(graph.inputs):
                    raise InputError(
                        "what an input held", file=path, line=number,
                        expected="`input N from LEAST to MOST`, of an input of the program",
                    )  # fmt: skip
                graph.inputs[int(said[1])].seen = int(said[2]), int(said[3]) + 1
            else:
                return graph
    return graph


def kind(path: str | Path) -> str:
    """`hlo`, `stablehlo`, `fx` or `program`; InputError for anything else."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        hint = "`dlverify run` takes a directory of facts" if Path(path).is_dir() else None
        raise InputError(f"cannot read the file: {error.strerror}", file=path, hint=hint) from None
    if HLO.match(head):
        return "hlo"
    if MLIR.search(head):
        return "stablehlo"
    if FX.search(head):
        return "fx"
    if PROGRAM.match(head):
        return "program"
    hint = "HLO protos (.pb) are not read: dump with --xla_dump_hlo_as_text" if b"\0" in head else None
    if head.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        hint = "it begins with a byte order mark, as editors and shells of Windows write it: save it as UTF-8 without"
    raise InputError(
        "not a program dump",
        file=path,
        line=1,
        column=1,
        expected="HLO text (`HloModule …`), StableHLO (`module …` or bytecode), FX text (`class …: def forward`) or a "
        "program as JSON (`{\"program\": …`)",
        hint=hint,
    )


def read(
    path: str | Path, mesh: Mesh | None = None, resolve: Resolve = given_none, relations: Relations | None = None
) -> Graph:
    """One dump as a graph; `mesh` for a distributed program, None for a baseline; `resolve` gives open sizes,
    `relations` what a dump only names: members of process groups, reductions."""
    found = kind(path)
    if found == "hlo":
        from .hlo import read as read_hlo

        return _head(path, read_hlo(path, mesh))
    if found == "program":
        from .json_program import read as read_program

        return read_program(path, mesh)
    if found == "stablehlo":
        return _head(path, _stablehlo(Path(path), mesh, resolve))
    from .fx import read as read_fx

    return read_fx(path, mesh, resolve, *_said(relations if mesh is not None else None))


def read_ranks(
    paths: Sequence[str | Path], mesh: Mesh, resolve: Resolve = given_none, relations: Relations | None = None
) -> Iterator[Graph | Alike]:
    """The dumps of ranks 0, 1, … of a distributed program, as `read` reads each."""
    if all(kind(path) == "fx" for path in paths):
        from .fx import read_ranks as read_fx

        yield from read_fx(paths, mesh, resolve, *_said(relations))
    else:
        for path in paths:
            yield read(path, mesh, resolve, relations)


def _said(relations: Relations | None) -> tuple[Mapping[str, Sequence[Sequence[int]]], Mapping[str, str]]:
    """Process groups and reductions that a dump only names."""
    said = relations or Relations()
    divisions = {name: relation.groups for name, relation in said.groups.items()}
    return divisions, {r.pattern: r.reducer for r in said.reductions}


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
