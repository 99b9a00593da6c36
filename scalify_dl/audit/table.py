"""Reading a relation table of correspondences."""

from __future__ import annotations

from pathlib import Path

from scalify_dl.errors import InputError

COLUMNS = ("dist", "dist_piece", "base", "base_piece", "layout")
Row = tuple[str, str, str, str, str]


def read_corr(path: str | Path, relation: str = "corr") -> list[Row]:
    """Rows of a table, as `places_in` finds them."""
    return [row for _, row in places_in(path, relation)]


def places_in(path: str | Path, relation: str = "corr") -> list[tuple[str, Row]]:
    """Rows, each with its place (`theirs.csv:3`), of a table file, or of `corr.csv`, `corr.tsv` or `corr.facts` in a
    directory: five tab-separated columns. A first line with their names and empty lines are skipped.

    Raises InputError with file and line where a row has another number of columns, or there is none.
    """
    path = Path(path)
    if path.is_dir():
        found = [path / f"{relation}{suffix}" for suffix in (".csv", ".tsv", ".facts")]
        existing = [f for f in found if f.exists()]
        if not existing:
            raise InputError(
                f"no table `{relation}` in this directory", file=path, expected=" or ".join(f.name for f in found),
                hint="`dlverify run FACTS --out DIR` writes one",
            )  # fmt: skip
        path = existing[0]
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InputError(f"cannot read the table: {why}", file=path) from None
    rows: list[tuple[str, Row]] = []
    for number, line in enumerate(lines, 1):
        columns = line.split("\t")
        if not line.strip() or (number == 1 and tuple(columns) == COLUMNS):
            continue
        if len(columns) != len(COLUMNS):
            raise InputError(
                f"{len(columns)} column{'s' * (len(columns) != 1)}",
                file=path,
                line=number,
                expected=f"{len(COLUMNS)}, tab-separated: {', '.join(COLUMNS)}",
            )
        rows.append((f"{path}:{number}", (columns[0], columns[1], columns[2], columns[3], columns[4])))
    if not rows:
        raise InputError("the table has no rows: there is nothing to audit", file=path)
    return rows
