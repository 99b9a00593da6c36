"""Names that rules make: joined with a separator that no text of the facts contains (datalog/facts/schema.dl).

`¦piece¦x¦0:0:4` is elements 0 … 4 along dim 0 of `x`; `compare¦direction¦=EQ` says what an op does. Loading refuses
texts of facts with the separator, front ends write another character.
"""

from __future__ import annotations

import re
from collections.abc import Callable

SEPARATOR = "¦"
BY_VALUES = "by the values of the run, "
"""Begins the note about an input of which ranks do not hold what would be theirs."""


def _piece(found: re.Match[str]) -> str:
    dim, lo, hi = found[2].split(":")
    return f"{found[1]} (dim {dim} from {lo} to {hi})"


_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"¦piece¦([^¦]*)¦(\d+:\d+:\d+)(?!\d)"), _piece),
    (re.compile(r"¦piece¦([^¦]*)¦(?=\d)"), r"\1@"),
    (re.compile(r"¦[^¦]*¦~"), " "),
    (re.compile(r"¦([^¦]*)¦[:=]"), r" \1="),
    (re.compile(r"¦ ?"), " "),
)


def readable(text: str) -> str:
    """A text of the rules for people: made names and lists of attributes in words."""
    if SEPARATOR not in text:
        return text
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text.strip()
