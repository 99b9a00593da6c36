"""Constants of HLO text → literals."""

from __future__ import annotations

import re
from math import prod

from ..literals import ELIDED, ITEMS_LIMIT, Literal, narrow, rational, scalar_text

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"[{}]|\([^()]*\)|[^{},\s]+")
INTEGER = ("pred", "s", "u")


def parse_constant(text: str, dtype: str, shape: tuple[int, ...]) -> Literal:
    """The literal of `constant(text)`; ValueError where it does not fit the type."""
    text = _COMMENT.sub("", text).strip()
    if text.startswith(f"{dtype}[") and "]" in text:  # older printers repeat the type
        text = text[text.index("]") + 1 :].lstrip()
        if text.startswith("{") and "}" in text and shape and not text.startswith("{{") and " {" in text:
            text = text[text.index("}") + 1 :].lstrip()
    if "..." in text:
        return Literal.elided()
    tokens = _TOKEN.findall(text)
    items = [token for token in tokens if token not in "{}"]
    count = prod(shape)
    if "{" not in tokens and len(items) == 1:
        return _scalar(items[0], dtype)
    if len(items) != count:
        raise ValueError(f"{len(items)} items for {dtype}[{','.join(map(str, shape))}]")
    canonical = {token: narrow(scalar_text(token), dtype) for token in set(items)}
    values = [canonical[token] for token in items]
    if count and len(canonical) == 1:
        splat = _scalar(items[0], dtype)
        return Literal(splat.text, splat.rational, _integers(values, dtype, count))
    return Literal(nested(values, shape), None, _integers(values, dtype, count))


def _scalar(token: str, dtype: str) -> Literal:
    text = narrow(scalar_text(token), dtype)
    return Literal(text, rational(text), None)


def _integers(values: list[str], dtype: str, count: int) -> tuple[int, ...] | None:
    """Row-major items of an integer or boolean constant, where the table holds them."""
    if not dtype.startswith(INTEGER) or count > ITEMS_LIMIT or count == 0:
        return None
    return tuple(map(int, values))


def nested(values: list[str], shape: tuple[int, ...]) -> str:
    """Row-major values as nested braces."""
    if not shape:
        return values[0] if values else ELIDED
    level = values
    for size in reversed(shape):
        if size == 0:
            return "{}"
        level = ["{" + ",".join(level[i : i + size]) + "}" for i in range(0, len(level), size)]
    return level[0]
