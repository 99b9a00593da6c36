"""`dlverify rules list` and `dlverify rules show`: the lemmas, as their headers state them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scalify_dl.errors import InputError
from scalify_dl.lemmas import FIELDS, Lemma, find_lemma, lemmas, lemmas_of
from scalify_dl.pysouffle import rules_dir


def rules_list(files: Sequence[Path], *, as_json: bool) -> None:
    """All lemmas of the shipped rules, or of these files: id, place, statement."""
    folder = rules_dir()
    for file in files:
        if not file.is_file():
            raise InputError("no such rules file", file=file, expected="a Datalog file (.dl)")
    found = [x for file in files for x in lemmas_of(file.resolve())] if files else lemmas(folder)
    if as_json:
        print(json.dumps([_content(x, folder) for x in found], indent=2, ensure_ascii=False))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("lemma", "file", "statement"):
        table.add_column(title, overflow="fold", no_wrap=title != "statement")
    for x in found:
        table.add_row(x.id, f"{_place(x.file, folder)}:{x.line}", Text(x.statement))
    Console().print(table)


def rules_show(name: str, *, as_json: bool) -> None:
    """One lemma: its header and its rules."""
    folder = rules_dir()
    lemma = find_lemma(folder, name)
    if as_json:
        print(json.dumps(_content(lemma, folder), indent=2, ensure_ascii=False))
        return
    console = Console()
    console.print(Text(f"{lemma.id}   {_place(lemma.file, folder)}:{lemma.line}", style="bold"))
    for field in FIELDS:
        if text := lemma.fields.get(field):
            console.print(Text(f"\n{field}", style="bold"))
            console.print(Text(text))
    console.print(Text("\nRules", style="bold"))
    for _, text in lemma.rules:
        console.print(Text(text))


def _place(file: Path, folder: Path) -> str:
    return str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file)


def _content(lemma: Lemma, folder: Path) -> dict[str, Any]:
    return {
        "id": lemma.id,
        "file": _place(lemma.file, folder),
        "line": lemma.line,
        **{field.lower().replace(" ", "_"): lemma.fields.get(field, "") for field in FIELDS},
        "rules": [text for _, text in lemma.rules],
    }
