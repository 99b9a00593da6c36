"""A dump that is written already, changed: an input that is several in a row becomes these."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .dumps import write_dump

__all__ = ["Dump"]


@dataclass
class Dump:
    """The text of a dump, line by line, and the JSON beside it."""

    lines: list[str]
    note: dict[str, Any]

    @classmethod
    def read(cls, stem: str) -> Dump:
        text, note = Path(f"{stem}.fx.txt").read_text("utf-8"), Path(f"{stem}.json").read_text("utf-8")
        return cls(text.split("\n"), json.loads(note))

    def write(self, stem: str) -> None:
        write_dump(stem, "\n".join(self.lines), self.note)

    def shape(self, name: str) -> list[int]:
        """The shape that a name has, as its statement says."""
        return [int(n) for n in self._type(name)[2].split(",") if n.strip()]

    def alike(self, what: str) -> set[str]:
        """Outputs that lie as an input does: what it holds in the end, an optimiser's state of it, and what is returned
        in its shape, as its gradient is."""
        shape = self.shape(next(name for name, path in self.note["inputs"] if path == what))
        named = (f"written {what}", f" of {what}", "output ")
        return {path for name, path in self.note["outputs"] if self.shape(name) == shape and path not in
                self.note["placements"] and (path.startswith(named[::2]) or path.endswith(named[1]))}  # fmt: skip

    def take_apart(self, what: str, dim: int, sizes: Sequence[int], names: Sequence[str], outputs: set[str]) -> None:
        """An input is put together from inputs of these sizes and names, and outputs are cut so."""
        at = [path for _, path in self.note["inputs"]].index(what)
        name = self.note["inputs"][at][0]
        known = self._type(name)
        parts = [self._fresh(f"{name}_{n}_of_{len(sizes)}") for n in range(1, len(sizes) + 1)]
        types = [self._typed(known, dim, size) for size in sizes]
        said = ", ".join(f"{part}: {type}" for part, type in zip(parts, types, strict=True))
        self.lines[1] = self.lines[1].replace(known[0], said)
        call = f"torch.ops.aten.cat.default([{', '.join(parts)}], {dim})"
        self.lines.insert(2, f"        {known[0]} = {call}")
        self.note["inputs"][at : at + 1] = [list(pair) for pair in zip(parts, names, strict=True)]
        end = max(n for n, line in enumerate(self.lines) if line.startswith("        return "))
        made: list[str] = []
        returned: list[list[str]] = []
        for value, path in self.note["outputs"]:
            if path not in outputs:
                returned.append([value, path])
                continue
            start = 0
            for n, size in enumerate(sizes):
                cut = self._fresh(f"slice_of_{value}_{len(made)}")
                call = f"torch.ops.aten.slice.Tensor({value}, {dim}, {start}, {start + size})"
                made.append(f"        {cut}: {types[n]} = {call}")
                returned.append([cut, path + names[n].removeprefix(what)])
                start += size
        comma = "," if len(returned) == 1 else ""
        self.lines[end : end + 1] = [*made, f"        return ({', '.join(value for value, _ in returned)}{comma})"]
        self.note["outputs"] = returned

    def _type(self, name: str) -> re.Match[str]:
        """Name, type and shape where a name is bound."""
        bound = re.compile(rf'(?<![\w.]){re.escape(name)}: "(\w+)\[([^\]]*)\]"')
        match = next((m for line in self.lines if (m := bound.search(line)) is not None), None)
        assert match is not None, name
        return match

    def _typed(self, known: re.Match[str], dim: int, size: int) -> str:
        shape = [int(n) for n in known[2].split(",")]
        return f'"{known[1]}[{", ".join(map(str, [*shape[:dim], size, *shape[dim + 1 :]]))}]"'

    def _fresh(self, stem: str) -> str:
        text = "\n".join(self.lines)
        while re.search(rf"\b{stem}\b", text):
            stem += "_"
        return stem
