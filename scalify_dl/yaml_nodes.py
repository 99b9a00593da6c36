"""YAML nodes of files that people write, read strictly: every key is known, every mistake is told with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from scalify_dl.errors import InputError, one_of

if TYPE_CHECKING:
    import yaml  # most runs read no such file


def kind(node: Any) -> str:
    """`scalar`, `sequence` or `mapping`."""
    return str(node.id)


class Place(NamedTuple):
    """Where in the file something is said."""

    file: str | None
    line: int
    column: int

    def error(self, message: str, *, expected: str | None = None, hint: str | None = None) -> InputError:
        """An error at this place."""
        return InputError(message, file=self.file, line=self.line, column=self.column, expected=expected, hint=hint)

    def twice(self, message: str, other: Place, *, hint: str | None = None) -> InputError:
        """An error at this place: it says again, or otherwise, what another place says."""
        where = "in the same entry" if other == self else f"in line {other.line}, column {other.column}"
        return self.error(f"{message} here and {where}", expected="each thing said once", hint=hint)


class Nodes:
    """Reads nodes of a file."""

    def __init__(self, file: str | None) -> None:
        self.file = file

    def place(self, node: yaml.Node) -> Place:
        """Where a node begins."""
        return Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def mapping(self, node: yaml.Node, what: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Key text, key node, value node; each key once."""
        if kind(node) != "mapping":
            raise self.place(node).error(f"{what}: a mapping was expected", expected="`key: value` lines")
        seen: set[str] = set()
        for key, value in node.value:
            text = self.text(key, f"a key of {what}")
            if text in seen:
                raise self.place(key).error(f"{what}: key `{text}` stands twice")
            seen.add(text)
            yield text, key, value

    def known(self, node: yaml.Node, what: str, keys: Mapping[str, Callable[[yaml.Node], Any]]) -> dict[str, Any]:
        """A mapping with a fixed set of keys."""
        found = {}
        for text, key, value in self.mapping(node, what):
            if text not in keys:
                raise self.place(key).error(f"{what}: unknown key `{text}`", **one_of(text, keys))
            found[text] = keys[text](value)
        return found

    def text(self, node: yaml.Node, what: str) -> str:
        """A word."""
        if kind(node) != "scalar":
            raise self.place(node).error(f"{what}: a word was expected")
        return str(node.value)

    def integer(self, node: yaml.Node, what: str) -> int:
        """A whole number."""
        text = self.text(node, what)
        if not re.fullmatch(r"-?\d{1,12}", text):
            raise self.place(node).error(f"{what}: `{text}` is not an integer")
        return int(text)

    def sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """The nodes of a list."""
        if kind(node) != "sequence":
            raise self.place(node).error(f"{what}: a list was expected", expected="[a, b]")
        return list(node.value)
