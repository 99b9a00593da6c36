"""Runs the rules over fact tables, for everything that audits what they derive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalify_dl.pysouffle import Program, rules_dir

Tables = Mapping[str, Iterable[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Derived:
    """What the rules concluded: correspondences, the layout of each proved output, and each output that is not
    proved."""

    corr: list[tuple[str, str, str, str, str]]
    proved: dict[tuple[str, str], str]
    unproved: list[tuple[str, str]]
    precision: bool
    """Whether a proof listed rounding that differs between the sides."""
    program: Program


def derive(
    tables: Tables, rules: Iterable[Path] = (), *, main: Path | None = None, timeout: float | None = 120
) -> Derived:
    """Derives correspondences and verdicts; `rules` are further files, `main` replaces the shipped `verify.dl`."""
    files = [main or rules_dir() / "verify.dl", *(Path(f).resolve() for f in rules)]
    source = "".join(f'#include "{file}"\n' for file in files)
    program = Program.from_source(source, name="rules", include_dirs=[files[0].parent])
    for table, rows in tables.items():
        if table in program.relations:
            program.insert(table, list(rows))  # type: ignore[arg-type]
    program.run(timeout=timeout)
    verdicts = program.relation("output_verdict")
    return Derived(
        [tuple(map(str, row)) for row in program.relation("corr")],  # type: ignore[misc]
        {(str(d), str(b)): str(layout) for d, b, verdict, layout in verdicts if verdict == "PROVED"},
        [(str(d), str(b)) for d, b, verdict, _ in verdicts if verdict != "PROVED"],
        any(row[2] == "precision" for row in program.relation("assumption")),
        program,
    )
