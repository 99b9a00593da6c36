"""Derived relations in a Python session: facts and results as pyDatalog predicates, with rules of one's own.

    book = Notebook.of(scalify_dl.verify("base.hlo", "dist.hlo", mesh="tp=2"))    # or Notebook.open("facts/", "out/")
    book.define("pending(D, L) <= corr(D, P, B, Q, L) & result(O, 0, D) & op(O, 'dist', 'dot')")
    book.ask("pending(D, L)")            # [('dot', '[0:1x8][1:1x6]|tp=sum2')]
    book.check("corr")                   # the numeric audit of a relation, one's own included

pyDatalog keeps one program per process, so a new `Notebook` forgets what an older one defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.facts import TABLES
from scalify_dl.facts.files import load
from scalify_dl.oracle.program import Tables

from .check import Audit, audit
from .table import read_corr

if TYPE_CHECKING:
    from scalify_dl.api import Report

DERIVED = (
    "corr", "frontier", "downstream", "output_verdict", "assumption", "unsupported", "base_match", "diag_expected",
    "diag_found", "diag_suggestion",
)  # fmt: skip
"""Relations of the rules whose names and columns stay (docs/cli.md)."""

Rows = Iterable[tuple[Any, ...]]


class Notebook:
    """Tables by name, queried with pyDatalog (extra `dev`)."""

    def __init__(self, tables: Tables) -> None:
        try:
            from pyDatalog import pyDatalog
        except ImportError:
            raise InputError("pyDatalog is not installed", hint="pip install pyDatalog") from None
        self._engine = pyDatalog
        self._facts: dict[str, Any] = {}
        pyDatalog.clear()
        for name, rows in tables.items():
            self.add(name, [tuple(row) for row in rows], len(TABLES[name].columns) if name in TABLES else 0)

    @classmethod
    def of(cls, report: Report) -> Notebook:
        """The facts of a report, and what was derived of them."""
        book = cls(report.analysis.facts.tables)
        for name in DERIVED:
            book.add(name, report.rows(name), len(report.analysis.program.relations[name].attributes))
        return book

    @classmethod
    def open(cls, facts: str | Path, results: str | Path | None = None) -> Notebook:
        """A facts directory, and the `corr` table of a result directory."""
        book = cls(load(facts).tables)
        if results is not None:
            book.add("corr", read_corr(results))
        return book

    def add(self, name: str, rows: Rows, columns: int = 0) -> None:
        """A relation from rows; an existing one gets more of them. `columns` is for one without rows."""
        found = [tuple(row) for row in rows]
        self._facts[name] = [*self._facts.get(name, ()), *found]
        if columns and not found:  # pyDatalog knows what has had a fact
            self._engine.assert_fact(name, *[None] * columns)
            self._engine.retract_fact(name, *[None] * columns)
        for row in found:
            self._engine.assert_fact(name, *row)

    def define(self, rules: str) -> None:
        """Rules in pyDatalog's syntax, one a line; variables are capitalised."""
        self._engine.load(rules)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The answers to one literal, sorted: the values of its variables in order of appearance."""
        found = self._engine.ask(query)
        return sorted(set(found.answers)) if found is not None else []

    def check(self, relation: str = "corr") -> Audit:
        """Audits a relation of five columns (dist, dist_piece, base, base_piece, layout), derived or added."""
        facts: Mapping[str, Any] = self._facts
        return audit(facts, self.ask(f"{relation}(D, P, B, Q, L)"))
