"""MLIR types and dense attributes → dtypes, shapes and literals of the graph model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.literals import ITEMS_LIMIT, Literal, narrow, scalar_text, written_out

if TYPE_CHECKING:
    from jaxlib.mlir import ir

Type = tuple[str, tuple[int, ...]]

OPEN = -1
"""A size that a type leaves open (`?`)."""

COMPLEX = {"complex<f32>": "c64", "complex<f64>": "c128"}
_INTEGER = re.compile(r"(u?)i(\d+)\Z")
_DENSE = re.compile(r"dense<(.*)>\s*:\s*tensor<", re.DOTALL)
_NUMBER = re.compile(r"\([^()]*\)|[^\s,\[\]]+")


def element_dtype(text: str) -> str:
    """`ui8` → `u8`, `i1` → `pred`, `f8E4M3FN` → `f8e4m3fn`, …"""
    match = _INTEGER.match(text)
    if match:
        return "pred" if text == "i1" else f"{'u' if match[1] else 's'}{match[2]}"
    if text in COMPLEX:
        return COMPLEX[text]
    if text.startswith(("f", "bf")) and text.isalnum():
        return text.lower()
    raise InputError(f"element type `{text}` is not supported")


class Types:
    """Types seen in one module, each converted once."""

    def __init__(self) -> None:
        self._known: dict[ir.Type, Type | None] = {}

    def __call__(self, type_: ir.Type) -> Type | None:
        """dtype and shape of a tensor, open sizes as OPEN; None for tokens and other non-tensors."""
        if type_ not in self._known:
            self._known[type_] = self._convert(type_)
        return self._known[type_]

    def _convert(self, type_: ir.Type) -> Type | None:
        from jaxlib.mlir import ir

        if not isinstance(type_, ir.RankedTensorType):
            if isinstance(type_, ir.UnrankedTensorType):
                raise InputError(f"`{type_}` has no fixed shape", hint="refine the module to static shapes first")
            return None
        shape = (OPEN if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank))
        return element_dtype(str(type_.element_type)), tuple(shape)


def is_open(type_: Type) -> bool:
    """Whether a size is not part of the type."""
    return OPEN in type_[1]


def agrees(type_: Type, shape: tuple[int, ...]) -> bool:
    """Whether a shape is one of the type."""
    return len(shape) == len(type_[1]) and all(a in (OPEN, b) for a, b in zip(type_[1], shape, strict=True))


def literal(attribute: Any, dtype: str, shape: tuple[int, ...]) -> Literal:
    """The literal of a dense elements attribute (`text` of the op where the bindings cannot read it)."""
    text = attribute if isinstance(attribute, str) else None
    if text is None and getattr(attribute, "is_splat", False):
        value = getattr(attribute.get_splat_value(), "value", None)
        if value is not None:
            return _splat(value, dtype, shape)
    if text is None:
        try:
            return array_literal(np.array(attribute), dtype)
        except (TypeError, ValueError):
            text = str(attribute)  # element types that numpy does not have
    match = _DENSE.search(text)
    if not match:
        return Literal.elided()  # dense_resource<…>: the values are not in the module text
    body = match[1].strip()
    if body.startswith('"0x'):
        return Literal.elided(hashlib.sha256(f"{dtype}{list(shape)}{body}".encode()).hexdigest())
    words = [number_text(word, dtype) for word in _NUMBER.findall(body)]
    count = int(np.prod(shape, dtype=np.int64))
    if len(words) == 1 or len(set(words)) == 1:
        return Literal.scalar(words[0], dtype)
    return _nested(words, shape, dtype) if len(words) == count else Literal.elided()


def _splat(value: bool | int | float, dtype: str, shape: tuple[int, ...]) -> Literal:
    scalar = Literal.scalar(number_text(value, dtype), dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if not shape or dtype[0] not in "psu" or not 0 < count <= ITEMS_LIMIT:
        return scalar
    return Literal(scalar.text, scalar.rational, (int(value),) * count)


def array_literal(values: np.ndarray[Any, Any], dtype: str) -> Literal:
    """The literal of an array; arrays too large to print by the hash of their bytes."""
    flat = values.reshape(-1)
    if flat.size and bool((flat == flat[0]).all()):
        return _splat(flat[0].item(), dtype, values.shape)
    if not written_out(dtype, values.shape):
        digest = hashlib.sha256(f"{dtype}{list(values.shape)}".encode())
        digest.update(np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes())
        return Literal.elided(digest.hexdigest())
    return _nested([number_text(value, dtype) for value in flat.tolist()], values.shape, dtype)


def _nested(words: Sequence[str], shape: tuple[int, ...], dtype: str) -> Literal:
    items = None
    if dtype[0] in "psu" and words and written_out(dtype, shape):
        items = tuple(int(word) for word in words)
    level = list(words)
    for size in reversed(shape):
        level = ["{" + ",".join(level[i : i + size]) + "}" for i in range(0, len(level), size)] if size else ["{}"]
    return Literal(level[0], None, items)


def number_text(value: bool | int | float | str, dtype: str) -> str:
    """Canonical text of one number as an element of a type."""
    if isinstance(value, str) and value.startswith("("):
        part = {"c64": "f32", "c128": "f64"}[dtype]
        return "(" + ",".join(number_text(word.strip(), part) for word in value[1:-1].split(",")) + ")"
    if dtype[0] in "psu":
        return str(int({"true": 1, "false": 0}.get(value, value) if isinstance(value, str) else value))
    return narrow(scalar_text(value if isinstance(value, str) else repr(value)), dtype)
