"""The directory that `--out` writes: the facts, every derived relation, and their declarations.

`<relation>.csv` is tab-separated without header, as Soufflé writes it; the fact tables stand beside as `<table>.facts`.
`relations.dl` declares all of them, so that `dlverify query` and Soufflé itself can go on from there.
"""

from __future__ import annotations

from pathlib import Path

from scalify_dl.facts import TABLES
from scalify_dl.facts.files import RESULTS, SUFFIX, is_result, write_tables
from scalify_dl.pysouffle import Program
from scalify_dl.whole import replace_directory

from .pipeline import Analysis, fact_relations

DECLARATIONS = RESULTS
NO_ROWS = "no_rows.csv"
"""The file of relations of which nothing was derived."""


def declaration(name: str, kinds: list[tuple[str, str]], file: str) -> str:
    """Declaration of a table, and on a second line the directive that reads it from a file."""
    columns = ", ".join(f"{column}:{kind}" for column, kind in kinds)
    return f'.decl {name}({columns})\n.input {name}(filename="{file}")\n'


def other_tables(program: Program) -> dict[str, str]:
    """Fact tables that the rules do not read (source lines, layers, notes), each with its declaration."""
    read = set(fact_relations(program).values())
    return {
        name: declaration(name, [(c.name, "number" if c.number else "symbol") for c in table.columns], f"{name}.facts")
        for name, table in TABLES.items()
        if name not in read and name not in program.relations
    }


def write_results(analysis: Analysis, directory: Path) -> None:
    """Write facts and results. Tables of an earlier run are replaced, all at once.

    Relations with columns that are neither numbers nor symbols (layouts as terms) stay out: `corr` has them as text.
    """
    replace_directory(
        directory, lambda draft: _fill(analysis, draft), lambda entry: entry.suffix != SUFFIX and not is_result(entry)
    )


def _fill(analysis: Analysis, directory: Path) -> None:
    program = analysis.program
    given = fact_relations(program)
    tables = [(f"{name}{SUFFIX}", text) for name, text in other_tables(program).items()]
    write_tables(analysis.facts, directory)
    for name, relation in program.relations.items():
        if not name.isidentifier() or any(a.kind not in ("number", "symbol") for a in relation.attributes):
            continue
        file = f"{given[name]}{SUFFIX}" if name in given else f"{name}.csv"
        tables.append((file, declaration(name, [(a.name, a.kind) for a in relation.attributes], file)))
        if name not in given and program.size(name):
            rows = sorted(program.relation(name))
            text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
            (directory / file).write_text(text, "utf-8")
    (directory / NO_ROWS).write_text("", "utf-8")
    declared = [t if (directory / file).exists() else t.replace(f'"{file}"', f'"{NO_ROWS}"') for file, t in tables]
    (directory / DECLARATIONS).write_text("".join(declared), "utf-8")


def has_results(directory: Path) -> bool:
    """Whether `--out` wrote this directory."""
    return (directory / DECLARATIONS).is_file()
