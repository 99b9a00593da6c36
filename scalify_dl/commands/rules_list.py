"""`dlverify rules list` and `dlverify rules show`: the lemmas, as their headers state them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.text import Text

from scalify_dl.consoles import Console
from scalify_dl.errors import InputError
from scalify_dl.lemmas import FIELDS, Lemma, conditions, find_lemma, lemmas, lemmas_of, random_steps
from scalify_dl.pysouffle import rules_dir


def rules_list(files: Sequence[Path], *, as_json: bool) -> None:
    """All lemmas of the shipped rules, or of these files: id, place, statement."""
    folder = rules_dir()
    _there(files)
    found = [x for file in files for x in lemmas_of(file.resolve())] if files else lemmas(folder)
    if not found:
        names = ", ".join(map(str, files))
        print(f"dlverify: no lemma in {names}: the header of one begins with `// Lemma ID`", file=sys.stderr)
    if as_json:
        print(json.dumps([_content(x, folder) for x in found], indent=2, ensure_ascii=False))
        return
    console = _console()
    for x in found:
        console.print(_title(x, folder), soft_wrap=True)
        console.print(Padding(Text(x.statement), (0, 0, 0, 4), expand=False))


def _console() -> Console:
    """Lines fold at a terminal only: what goes into a pipe can be searched."""
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000
    return console


def _there(files: Sequence[Path]) -> None:
    for file in files:
        if not file.is_file():
            raise InputError("no such rules file", file=file, expected="a Datalog file (.dl)")
        try:
            file.read_text("utf-8")
        except UnicodeDecodeError:
            raise InputError("no text in UTF-8", file=file, expected="a Datalog file (.dl)") from None


def rules_show(name: str, files: Sequence[Path], *, as_json: bool) -> None:
    """One lemma, perhaps of these files: its header, its rules, what the relations in them say, and which random steps
    try it."""
    folder = rules_dir()
    _there(files)
    lemma = find_lemma(folder, name, files)
    if as_json:
        print(json.dumps(_content(lemma, folder), indent=2, ensure_ascii=False))
        return
    console = _console()
    console.print(_title(lemma, folder), soft_wrap=True)
    for field in FIELDS:
        if text := lemma.fields.get(field):
            console.print(Text(f"\n{field}", style="bold"))
            console.print(Text(text))
    console.print(Text("\nRules", style="bold"))
    for _, text in lemma.rules:
        console.print(Text(text), soft_wrap=True)
    console.print(Text("\nWhat it asks", style="bold"))
    for asked in conditions(lemma, folder):
        console.print(Text(f"{asked.name}({', '.join(asked.columns)})", style="bold"), soft_wrap=True)
        told = f"{asked.says}  " if asked.says else ""
        console.print(Padding(Text(f"{told}[{_place(asked.file, folder)}:{asked.line}]"), (0, 0, 0, 4), expand=False))
    if steps := random_steps(lemma.file):
        console.print(Text("\nTried by the random steps", style="bold"))
        console.print(Text(", ".join(steps)))


def _title(lemma: Lemma, folder: Path) -> Text:
    return Text.assemble((lemma.id, "bold"), f"   {_place(lemma.file, folder)}:{lemma.line}")


def _place(file: Path, folder: Path) -> str:
    return str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file)


def _content(lemma: Lemma, folder: Path) -> dict[str, Any]:
    return {
        "id": lemma.id,
        "file": _place(lemma.file, folder),
        "line": lemma.line,
        **{field.lower().replace(" ", "_"): lemma.fields.get(field, "") for field in FIELDS},
        "rules": [text for _, text in lemma.rules],
        "asks": {x.name: x.says for x in conditions(lemma, folder)},
        "random_steps": random_steps(lemma.file),
    }
