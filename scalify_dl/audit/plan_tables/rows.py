"""Rows of the tables of one side of a plan, and the numbers of its tensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scalify_dl.plans.tables import TABLES


class Rows:
    """Tables under construction: rows are lines of text."""

    def __init__(self, side: str) -> None:
        self.side = side
        self.lines: dict[str, list[str]] = {name: [] for name in TABLES}
        self.ops = 0
        self._fulls: dict[object, int] = {}
        self._next = 0
        self._tensors: set[str] = set()

    def add(self, table: str, *cells: object) -> None:
        """One row."""
        self.lines[table].append("\t".join(map(str, cells)))

    def number(self) -> int:
        """A number that nothing has yet."""
        self._next += 1
        return self._next

    def full(
        self, key: object, name: str, dtype: str, shape: Iterable[int], *, gradient: bool, weight: bool, loss: bool
    ) -> int:
        """A tensor of the model."""
        if key not in self._fulls:
            self._fulls[key] = self.number()
            text = "x".join(map(str, shape))
            self.add("full", self.side, self._fulls[key], name, dtype, text, int(gradient), int(weight), int(loss))
        return self._fulls[key]

    def tensor(self, rank: int, mb: int, tid: int, version: int, given: bool = False) -> str:
        """A tensor of a rank."""
        name = f"{self.side}.r{rank}.m{mb}.t{tid}.v{version}"
        if name not in self._tensors:
            self._tensors.add(name)
            self.lines["tensor"].append(f"{name}\t{self.side}\t{rank}\t{mb}\t{tid}\t{version}\t{int(given)}")
        return name

    def op(
        self, rank: int, mb: int, seq: int, cid: int, name: str, kind: str, direction: str, reads: Iterable[str],
        makes: Iterable[str],
    ) -> str:  # fmt: skip
        """An op."""
        op = f"{self.side}.n{self.ops}"
        self.ops += 1
        lines = self.lines
        lines["op"].append(f"{op}\t{self.side}\t{rank}\t{mb}\t{seq}\t{cid}\t{name}\t{kind}\t{direction}")
        lines["in"] += [f"{op}\t{n}\t{x}" for n, x in enumerate(reads)]
        lines["out"] += [f"{op}\t{n}\t{x}" for n, x in enumerate(makes)]
        return op

    def write(self, directory: Path) -> None:
        """Writes the tables."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, lines in self.lines.items():
            text = "\n".join(lines) + "\n" if lines else ""
            (directory / f"{self.side}_{name}.tsv").write_text(text, "utf-8")
