"""The directory that `--out` writes: the facts, every derived relation, and their declarations.

`<relation>.csv` is tab-separated without header, as Soufflé writes it; the fact tables stand beside as `<table>.facts`.
`relations.dl` declares all of them, so that `dlverify query` and Soufflé itself can go on from there.
"""

from __future__ import annotations

from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.facts import TABLES
from scalify_dl.facts.files import write
from scalify_dl.pysouffle import Program

from .pipeline import Analysis

DECLARATIONS = "relations.dl"


def kept(program: Program) -> list[str]:
    """Derived relations that a table can hold: all columns numbers or symbols."""
    return [
        name
        for name, relation in program.relations.items()
        if name not in TABLES and all(a.kind in ("number", "symbol") for a in relation.attributes)
    ]


def declaration(name: str, kinds: list[tuple[str, str]], suffix: str) -> str:
    """Declaration and input directive of one table."""
    columns = ", ".join(f"{column}:{kind}" for column, kind in kinds)
    return f'.decl {name}({columns})\n.input {name}(filename="{name}{suffix}")\n'


def write_results(analysis: Analysis, directory: Path) -> None:
    """Write facts and results. Tables of an earlier run are replaced."""
    try:
        write(analysis.facts, directory)
        lines = [
            declaration(table, [(c.name, "number" if c.number else "symbol") for c in TABLES[table].columns], ".facts")
            for table in TABLES
            if (directory / f"{table}.facts").exists()
        ]
        for old in directory.glob("*.csv"):
            old.unlink()
        for name in kept(analysis.program):
            rows = analysis.program.relation(name)
            if rows:
                text = "".join("\t".join(map(str, row)) + "\n" for row in sorted(rows))
                (directory / f"{name}.csv").write_text(text, "utf-8")
                attributes = analysis.program.relations[name].attributes
                lines.append(declaration(name, [(a.name, a.kind) for a in attributes], ".csv"))
        (directory / DECLARATIONS).write_text("".join(lines), "utf-8")
    except OSError as error:
        raise InputError(f"cannot write the results: {error.strerror}", file=directory) from error


def has_results(directory: Path) -> bool:
    """Whether `--out` wrote this directory."""
    return (directory / DECLARATIONS).is_file()
