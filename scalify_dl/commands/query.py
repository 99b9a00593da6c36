"""`dlverify query`: ad hoc Datalog over facts and results."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, fact_relations, rules_program
from scalify_dl.prove.query import HEAD, Query, parse_query
from scalify_dl.prove.results import DECLARATIONS, has_results, other_tables
from scalify_dl.prove.view import View
from scalify_dl.pysouffle import Program, Row, SourceError
from scalify_dl.whole import locked

from .progress import progress
from .run import load

_T = TypeVar("_T")


def query(directory: Path, text: str, rules: tuple[Path, ...], *, as_json: bool, as_tsv: bool, limit: int) -> None:
    """Answer a query: from the tables that `--out` wrote, or by running the rules on a facts directory."""
    if as_json and as_tsv:
        raise InputError("--json and --tsv together", expected="one of them")
    with progress("answering"):
        asked, rows = _kept(directory, text) if has_results(directory) else _derived(directory, text, rules)
    if asked.apart:
        print(f"dlverify: {asked.apart}", file=sys.stderr)
    rows = sorted(rows)
    if as_json:
        names = [name for name, _ in asked.columns] or ["holds"]
        print(
            json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2, ensure_ascii=False, default=str)
        )
    elif as_tsv:
        sys.stdout.writelines("\t".join(map(str, row)) + "\n" for row in rows)
    elif not asked.columns:
        print("yes" if rows else "no")
    else:
        _table(asked, rows, limit, load(directory))


def _ask(source_of: str, program: Program, text: str) -> Query:
    try:
        types = {n: [a.type for a in r.attributes] for n, r in program.relations.items()}
        names = {n: [a.name for a in r.attributes] for n, r in program.relations.items()}
        tables = {table: name for name, table in fact_relations(program).items() if name != table}
        return parse_query(text, types, names, tables)
    except InputError as error:
        raise error.located(source_of) from None


def _kept(directory: Path, text: str) -> tuple[Query, list[Row]]:
    """From tables: only those that the query names are read, while nobody replaces them."""
    with locked(directory, shared=True):
        return _read(directory, text)


def _read(directory: Path, text: str) -> tuple[Query, list[Row]]:
    lines = (directory / DECLARATIONS).read_text("utf-8").splitlines(keepends=True)
    declared = Program.from_source("".join(lines))
    asked = _ask(str(directory), declared, text)
    needed = [line for line in lines if re.split(r"[ (]", line)[1] in asked.relations]
    program = _compiled(lambda: Program.from_source("".join(needed) + asked.rule, name="query"), asked, declared)
    program.load(directory, missing="empty").run()
    return asked, program.relation(HEAD)


def _derived(directory: Path, text: str, rules: tuple[Path, ...]) -> tuple[Query, list[Row]]:
    """From facts: the rules run together with the query."""
    more = "".join(other_tables(rules_program(rules)).values())
    declared = rules_program(rules, more)
    asked = _ask("the query", declared, text)
    facts = load(directory)
    analysis = _compiled(lambda: analyse(facts, Options(rules=rules), more=more + asked.rule), asked, declared)
    return asked, list(analysis.rows(HEAD))


def _compiled(make: Callable[[], _T], asked: Query, declared: Program) -> _T:
    """Errors of the query are told without the rule that was made of it, with the columns of what it names."""
    try:
        return make()
    except SourceError as error:
        message = error.message.replace("'.' found", "the query ends there")  # the rule's, which is not shown
        found = {name: relation.attributes for name, relation in declared.relations.items() if name in asked.relations}
        said = [f"{name}({', '.join(f'{a.name}: {a.type}' for a in found[name])})" for name in sorted(found)]
        raise InputError(f"the query cannot be run: {message}", expected=", ".join(said), hint=error.hint) from None


def _known(value: object, view: View) -> str:
    """A value of a row; an id of what people have a name for is followed by that."""
    called = view.input_name(str(value)) if value in view.inputs else view.output_names.get(str(value))
    return f"{value} ({called})" if called and called != value else str(value)


def _table(asked: Query, rows: list[Row], limit: int, facts: Facts) -> None:
    """Rows for people: what has a name of theirs has it beside its id."""
    from rich.table import Table
    from rich.text import Text

    from scalify_dl.consoles import Console

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, kind in asked.columns:
        table.add_column(name, overflow="fold", justify="right" if kind == "number" else "left")
    shown = rows[:limit] if limit else rows
    view = View(facts.__getitem__, lambda _: ())
    for row in shown:
        table.add_row(*(Text(_known(value, view)) for value in row))
    console.print(table)
    more = f", {len(shown):,} shown (--limit 0 shows all)" if len(shown) < len(rows) else ""
    console.print(f"\n{len(rows):,} {'row' if len(rows) == 1 else 'rows'}{more}")
