"""Plan tables in memory, to be edited row by row and written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Row = list[str]


class Edited:
    """The tables of a directory."""

    def __init__(self, directory: Path) -> None:
        self.tables: dict[str, list[Row]] = {
            file.stem: [line.split("\t") for line in file.read_text("utf-8").splitlines()]
            for file in sorted(directory.glob("*.tsv"))
        }

    def write(self, directory: Path) -> Path:
        """Writes all tables; the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            (directory / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
        return directory

    def ops(self, **wanted: object) -> list[str]:
        """Ids of ops of the plan by columns: rank, mb, cid, name, kind, dir."""
        columns = ("op", "side", "rank", "mb", "seq", "cid", "name", "kind", "dir")
        return [
            row[0]
            for row in self.tables["p_op"]
            if all(row[columns.index(key)] == str(value) for key, value in wanted.items())
        ]

    def change(self, table: str, op: str, column: int, value: str | Callable[[str], str], where: str = "") -> None:
        """Changes a column of the rows of an op (those that have the text `where`)."""
        rows = [row for row in self.tables[table] if row[0] == op and (not where or where in row)]
        assert rows, (table, op, where)
        for row in rows:
            row[column] = value if isinstance(value, str) else value(row[column])

    def drop(self, ops: Iterable[str]) -> None:
        """Removes ops with all their rows."""
        gone = set(ops)
        for table in ("op", "in", "out", "attr", "const", "coll", "coll_member", "p2p", "adapter", "wred"):
            self.tables[f"p_{table}"] = [row for row in self.tables[f"p_{table}"] if row[0] not in gone]

    def of(self, table: str, op: str) -> list[Row]:
        """The rows of an op."""
        return [row for row in self.tables[table] if row[0] == op]

    def members(self, op: str, ranks: list[int]) -> None:
        """Gives a collective other members, wherever that is written."""
        rows = self.tables["p_coll_member"]
        at = next(n for n, row in enumerate(rows) if row[0] == op)
        rest = [row for row in rows if row[0] != op]
        self.tables["p_coll_member"] = rest[:at] + [[op, str(n), str(r)] for n, r in enumerate(ranks)] + rest[at:]
        for row in self.of("p_attr", op):
            if row[1] == "ranks":
                row[3] = str(ranks)

    def bypass(self, op: str) -> None:
        """Removes an op; what read its result reads its operand."""
        ((_, _, source),) = self.of("p_in", op)
        ((_, _, result),) = self.of("p_out", op)
        self.drop([op])
        for row in self.tables["p_in"]:
            if row[2] == result:
                row[2] = source

    def kind(self, op: str, kind: str) -> None:
        """Makes a collective one of another kind."""
        self.change("p_op", op, 7, kind)
        self.change("p_coll", op, 2, kind)
