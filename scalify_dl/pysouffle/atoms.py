"""Atoms as text: `path("a", [1, nil])` to a relation's name and a row, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.schema import Relation
from scalify_dl.pysouffle.values import Branch, Row, Value

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>[+-]?(?:\d[\w.]*(?:(?<=[eE])[+-]?\d+)?|inf|nan)(?![\w.]))"
    r"|(?P<name>\$?[A-Za-z_?][\w?.]*)"
    r"|(?P<mark>[()\[\],]))"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def format_value(value: Value) -> str:
    """A value as it is written in a program: symbols quoted, records in brackets."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    if value is None:
        return "nil"
    if isinstance(value, Branch):
        return f"${value.name}({', '.join(map(format_value, value.fields))})" if value.fields else f"${value.name}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(format_value, value))}]"
    return repr(value)


def format_atom(relation: str, row: Row) -> str:
    """`relation(value, …)`."""
    return f"{relation}({', '.join(map(format_value, row))})"


def parse_atom(text: str, relations: Mapping[str, Relation]) -> tuple[Relation, Row]:
    """A ground atom: the relation and the row. Raises `InputError` with the column of what is wrong."""
    return _Parser(text, relations).atom()


class _Parser:
    def __init__(self, text: str, relations: Mapping[str, Relation]) -> None:
        self.text = text.strip().removesuffix(".")
        self.relations = relations
        self.at = 0

    def atom(self) -> tuple[Relation, Row]:
        kind, name = self.take()
        relation = self.relations.get(name)
        if kind != "name" or relation is None:
            from difflib import get_close_matches

            near = get_close_matches(name, self.relations, 3)
            mean = f"did you mean {' or '.join(near)}?" if near else None
            raise self.error(f'the program declares no relation "{name}"', at=0, hint=mean)
        self.expect("(")
        values: list[Value] = []
        while self.peek() != ")":
            if values:
                self.expect(",")
            kind = relation.attributes[len(values)].kind if len(values) < len(relation.attributes) else "number"
            values.append(self.value(kind))
        self.expect(")")
        if self.text[self.at :].strip():
            raise self.error("expected the end of the atom")
        if len(values) != len(relation.attributes):
            raise self.error(
                f"relation {relation.name} has {len(relation.attributes)} columns, the atom has {len(values)}", at=0
            )
        return relation, tuple(values)

    def value(self, kind: str = "", depth: int = 0) -> Value:
        if depth > 500:
            raise self.error("nested too deep")
        token, text = self.take()
        if token == "string":
            return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])
        if token == "number":
            try:
                return float(text) if kind == "float" or re.search(r"[.]|inf|nan", text) else int(text.rstrip("u"), 0)
            except ValueError:
                raise self.error(f'"{text}" is not a number') from None
        if text == "nil":
            return None
        if text == "[":
            return tuple(self.values("]", depth))
        if token == "name" and text.startswith("$"):
            return Branch(text[1:], tuple(self.values(")", depth)) if self.peek() == "(" and self.take() else ())
        raise self.error(f'expected a value, found "{text}"')

    def values(self, close: str, depth: int) -> list[Value]:
        found: list[Value] = []
        while self.peek() != close:
            if found:
                self.expect(",")
            found.append(self.value(depth=depth + 1))
        self.expect(close)
        return found

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match[match.lastgroup] if match and match.lastgroup else ""

    def take(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        if not match or not match.lastgroup:
            rest = self.text[self.at : self.at + 20]
            raise self.error(f'cannot read "{rest}"' if rest else "the atom ends too early")
        self.at = match.end()
        return match.lastgroup, match[match.lastgroup]

    def expect(self, mark: str) -> None:
        if self.take()[1] != mark:
            raise self.error(f'expected "{mark}"')

    def error(self, message: str, at: int | None = None, hint: str | None = None) -> InputError:
        return InputError(
            message,
            file=f"'{self.text[:200]}'",
            line=1,
            column=(self.at if at is None else at) + 1,
            hint=hint or 'write it as relation("symbol", 1, [1, nil], $Branch(2))',
        )
