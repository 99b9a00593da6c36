"""Constants of HLO text → literals."""

from __future__ import annotations

import re
from math import prod

from scalify_dl.ir.literals import ELIDED, ITEMS_LIMIT, Literal, narrow, scalar_text, written_out

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_REPEATED_TYPE = re.compile(r"\A[a-z]\w*\[[\d,]*\](?:\{[\d,]*\})?\s+")  # by older printers
_TOKEN = re.compile(r"[{}]|\([^()]*\)|[^{},\s]+")
INTEGER = ("pred", "s", "u")


def parse_constant(text: str, dtype: str, shape: tuple[int, ...]) -> Literal:
    """The literal of `constant(text)`; ValueError where it does not fit the type."""
    text = _COMMENT.sub("", text).strip()
    text = _REPEATED_TYPE.sub("", text)
    if "..." in text:
        return Literal.elided()
    tokens = _TOKEN.findall(text)
    items = [token for token in tokens if token not in "{}"]
    count = prod(shape)
    if "{" not in tokens and len(items) == 1:
        return Literal.scalar(items[0], dtype)
    if len(items) != count:
        raise ValueError(f"{len(items)} items for {dtype}[{','.join(map(str, shape))}]")
    canonical = {token: narrow(scalar_text(token), dtype) for token in set(items)}
    values = [canonical[token] for token in items]
    if count and len(set(values)) == 1:
        splat = Literal.scalar(items[0], dtype)
        return Literal(splat.text, splat.rational, _integers(values, dtype) if count <= ITEMS_LIMIT else None)
    if not written_out(dtype, shape):
        return Literal.elided(_digest(items, values, dtype, shape))
    return Literal(nested(values, shape), None, _integers(values, dtype))


STORAGE = {"pred": "?", "f16": "<f2", "f32": "<f4", "f64": "<f8"} | {
    f"{sign}{8 * size}": f"<{kind}{size}" for sign, kind in (("s", "i"), ("u", "u")) for size in (1, 2, 4, 8)
}


def _digest(items: list[str], values: list[str], dtype: str, shape: tuple[int, ...]) -> str:
    """The hash of a constant too large to print: of its bytes, as all front ends do it, else of its text."""
    import hashlib  # (few programs have one)

    digest = hashlib.sha256(f"{dtype}{list(shape)}".encode())
    if dtype in STORAGE:
        import numpy as np

        numbers = [int(value) for value in values] if dtype.startswith(INTEGER) else [float(item) for item in items]
        digest.update(np.array(numbers, dtype=STORAGE[dtype]).tobytes())
    else:
        digest.update(",".join(values).encode())
    return digest.hexdigest()


def _integers(values: list[str], dtype: str) -> tuple[int, ...] | None:
    """Row-major items of an integer or boolean constant."""
    return tuple(map(int, values)) if values and dtype.startswith(INTEGER) else None


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
