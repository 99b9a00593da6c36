"""Reading and writing facts directories: one tab-separated `<table>.facts` per table."""

from __future__ import annotations

from operator import methodcaller
from pathlib import Path
from sys import intern

from scalify_dl.errors import InputError
from scalify_dl.garbage import paused
from scalify_dl.whole import locked, replace_directory

from .model import Facts, Row
from .names import SEPARATOR
from .schema import ANSWERS, FREE_TEXT, RESERVED, SYMBOLIC, TABLES, Table

LIMIT = 2**31
_tabs = methodcaller("count", "\t")
_CONTROL = bytes((*range(9), *range(11, 32), 127))
_MARK = "\ufeff"
SUFFIX = ".facts"
RESULTS = "relations.dl"
"""Declares what stands in a directory of facts and results; a directory without it has no results."""


def load(directory: str | Path, *, validate: bool = True) -> Facts:
    """Reads a facts directory; InputError with file, line and column on the first thing that is wrong."""
    directory = Path(directory)
    if not directory.is_dir():
        hint = "`dlverify verify BASE DIST… --mesh tp=2` takes dumps; " if directory.is_file() else ""
        raise InputError("no such facts directory", file=directory, hint=hint + "`dlverify export` writes one")
    with paused(), locked(directory, shared=True):
        return _load(directory, validate)


def _load(directory: Path, validate: bool) -> Facts:
    facts = Facts(directory=directory)
    present = set()
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX)
        if not path.is_file():
            raise InputError("this is no file", file=path, expected="a fact table, or nothing of this name")
        if name in RESERVED:
            raise InputError(f"table `{name}` is reserved for MPMD programs and not read yet", file=path)
        if name in ANSWERS:
            if path.stat().st_size:
                raise InputError(f"table `{name}` holds what a solver says during a run, it is no fact", file=path)
            continue
        if name in SYMBOLIC:
            if path.stat().st_size:
                raise InputError(
                    "these facts have symbolic sizes",
                    file=path,
                    hint="`dlverify family` takes the captures",
                )
            continue
        if name not in TABLES:
            raise InputError(f"unknown table `{name}`", file=path, expected=f"one of {', '.join(TABLES)}")
        present.add(name)
        facts.tables[name] = read_table(path, TABLES[name])
    missing = [name for name, table in TABLES.items() if table.required and name not in present]
    if missing:
        raise InputError(
            f"missing table `{missing[0]}`",
            file=directory / f"{missing[0]}{SUFFIX}",
            expected=TABLES[missing[0]].signature,
        )
    if validate:
        from .validate import validate as check

        check(facts)
    return facts


def read_table(path: Path, table: Table) -> list[Row]:
    """The rows of one file, numbers converted. InputError for a number that is not written as `str` writes it."""
    text = _text(path, table)
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    width = len(table.columns)
    if set(map(_tabs, lines)) != {width - 1}:
        at = next(n for n, line in enumerate(lines) if _tabs(line) != width - 1)
        raise InputError(
            f"{_tabs(lines[at]) + 1} columns in table `{table.name}`",
            file=path,
            line=at + 1,
            expected=f"{width} columns separated by tabs: {table.signature}",
        )
    cells = "\t".join(lines).split("\t")  # one split for the whole file: columns are strides of it
    columns: list[list[str] | list[int]] = []
    for position in range(width):
        values = cells[position::width]
        if not table.columns[position].number:
            columns.append(list(map(intern, values)))
            continue
        try:
            integers = list(map(int, values))
        except ValueError:
            raise not_a_number(path, table, position, values) from None
        if list(map(str, integers)) != values or max(integers) >= LIMIT or min(integers) <= -LIMIT:
            raise not_a_number(path, table, position, values)
        columns.append(integers)
    return list(zip(*columns, strict=True))


def _text(path: Path, table: Table) -> str:
    """The text of one file: no control characters but tabs and line feeds, and no separator of made names in ids."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "not UTF-8 text", file=path, line=data[: error.start].count(b"\n") + 1, expected="a table in UTF-8"
        ) from None
    if text.startswith(_MARK):
        raise InputError(
            f"table `{table.name}` has a byte order mark", file=path, line=1, column=1, expected="UTF-8 without one"
        )
    banned, what, hint = "", "", ""
    if len(data.translate(None, _CONTROL)) != len(data):
        banned, what, hint = _CONTROL.decode("ascii"), "control characters", "does the file have Windows line ends?"
    elif SEPARATOR in text and table.name not in FREE_TEXT:
        banned, what, hint = SEPARATOR, f"`{SEPARATOR}`", "names that rules make have it; write another character"
    if banned:
        at = next(i for i, character in enumerate(text) if character in banned)
        line = text.rfind("\n", 0, at) + 1
        raise InputError(
            f"table `{table.name}` has {what}",
            file=path,
            line=text.count("\n", 0, at) + 1,
            column=text.count("\t", line, at) + 1,
            expected=f"ids and texts without {what}",
            hint=hint,
        )
    return text


def not_a_number(path: Path, table: Table, position: int, values: list[str]) -> InputError:
    """The error for the first value of a number column that is none."""

    def fits(value: str) -> bool:
        try:
            return abs(int(value)) < LIMIT and str(int(value)) == value
        except ValueError:
            return False

    row = next(i for i, value in enumerate(values) if not fits(value))
    return InputError(
        f"`{values[row][:40]}` in column {position + 1} (`{table.columns[position].name}`) of table `{table.name}`",
        file=path,
        line=row + 1,
        column=position + 1,
        expected="a decimal integer below 2^31 in magnitude, without leading zeros, blanks or a plus sign",
    )


def write(facts: Facts, directory: str | Path) -> None:
    """Writes a facts directory: all of it, or nothing where an error occurs.

    Empty tables are empty files, as stock Soufflé wants them. An existing directory keeps what is neither a fact
    table nor a result of other facts (README, expected verdict).
    """
    directory = Path(directory)
    results = (directory / RESULTS).is_file()
    replace_directory(
        directory,
        lambda draft: write_tables(facts, draft),
        lambda entry: entry.suffix != SUFFIX and not (results and is_result(entry)),
    )


def write_tables(facts: Facts, directory: Path) -> None:
    """The files of a facts directory, into a new one."""
    for name, rows in facts.tables.items():
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        (directory / f"{name}{SUFFIX}").write_text(text, encoding="utf-8")
    for name in (*ANSWERS, *(name for name in SYMBOLIC if name not in facts.tables)):
        (directory / f"{name}{SUFFIX}").touch()


def is_result(entry: Path) -> bool:
    """Whether a file is one of those that stand beside facts for what was derived of them (prove/results.py)."""
    return entry.suffix == ".csv" or entry.name == RESULTS
