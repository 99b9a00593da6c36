"""Attributes of an instruction or module: `, key=value` pairs, values balanced in brackets, braces and strings."""

from __future__ import annotations

import re
from typing import Any

# One pair; possessive throughout, so that hostile text cannot make it backtrack. Braces up to five deep. (What is
# repeated and has parts is an atomic group: before Python 3.11.5 possessive ones match parts of them wrongly.)
_STRING = r'"(?>(?:[^"\\]++|\\.)*)"'
_BRACES = r"\{(?>(?:[^{}\"]++|" + _STRING + r")*)\}"
for _ in range(4):
    _BRACES = r"\{(?>(?:[^{}\"]++|" + _STRING + "|" + _BRACES + r")*)\}"
_PAREN = r"\((?>(?:[^()\"]++|" + _STRING + r"|\((?>(?:[^()]++|\([^()]*+\))*)\))*)\)"
_VALUE = r'(?>(?:[^,{}"\[\]()]++|' + _STRING + "|" + _BRACES + r"|\[[^\]]*+\]|" + _PAREN + ")*)"
_PAIR = re.compile(r"\s*+,\s*+([A-Za-z_][\w.\-]*+)=(" + _VALUE + ")")
_INTEGERS = re.compile(r"-?\d+")


class Attributes(dict[str, str]):
    """Attributes by name; `read` are the names that somebody asked for."""

    def __init__(self, pairs: dict[str, str]) -> None:
        super().__init__(pairs)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> str:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As `dict.get`."""
        self.read.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def all_read(self, harmless: frozenset[str]) -> bool:
        """Whether all that is not harmless was asked for."""
        return self.keys() - self.read <= harmless


def parse_attributes(text: str) -> Attributes:
    """The pairs of `, key=value, key=value`; ValueError where something else stands between them, or a key twice."""
    pairs: dict[str, str] = {}
    at = 0
    while match := _PAIR.match(text, at):
        if match[1] in pairs:
            raise ValueError(f"attribute `{match[1]}` is given twice")
        pairs[match[1]] = match[2].strip()
        at = match.end()
    if text[at:].strip():
        raise ValueError(f"attributes end unexpectedly at `{text[at:].strip()[:40]}`")
    return Attributes(pairs)


def integers(text: str) -> list[int]:
    """All integers of a list such as `{0,2,1}`."""
    return list(map(int, _INTEGERS.findall(text)))


def unquote(text: str) -> str:
    """A string literal's contents; other text as it stands."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(_unescape, text[1:-1])
    return text


_ESCAPE = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)
