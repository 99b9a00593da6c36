"""Values of constants from their literal text, items, or (where a dump elides them) by invention."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np

from scalify_dl.errors import InputError

from .dtypes import is_float, storage
from .program import Tensor

Array = np.ndarray[Any, Any]
ELIDED = "{...}"


def seeded(*key: object) -> np.random.Generator:
    """A random generator that depends on the key alone."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def scalar(text: str) -> complex | float | int:
    """The number that a literal text names, integers exactly."""
    if text.startswith("("):
        real, imaginary = text[1:-1].split(",")
        return complex(float(scalar(real).real), float(scalar(imaginary).real))
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except ValueError:
        raise InputError(f"`{text}` is no literal", expected="see “Literal text” in docs/facts.md") from None


def literal_array(tensor: Tensor) -> Array:
    """The value of a constant whose text or items are known; a scalar text fills the whole shape."""
    dtype = storage(tensor.dtype)
    if tensor.items is not None:
        values = np.array(tensor.items, dtype=np.int64)
        if values.size == 1 and tensor.shape:
            return np.full(tensor.shape, values[0]).astype(dtype)
        return values.astype(dtype).reshape(tensor.shape)
    text = tensor.literal
    assert text is not None
    if not text.startswith("{"):
        value = scalar(text)
        if dtype.kind in "iu" and isinstance(value, int):
            value &= (1 << (8 * dtype.itemsize)) - 1
            unsigned = np.array(value, dtype=f"u{dtype.itemsize}")
            return np.broadcast_to(unsigned.view(dtype), tensor.shape)
        return np.broadcast_to(np.array(value).astype(dtype), tensor.shape)
    flat = text.replace("{", "").replace("}", "")
    entries = flat.split("),") if "(" in flat else flat.split(",")
    values = np.array([scalar(e if e.endswith(")") or "(" not in e else e + ")") for e in entries if e])
    try:
        return values.astype(dtype).reshape(tensor.shape)
    except ValueError:
        raise InputError(f"the literal of {tensor.id} has {values.size} items, its shape is {tensor.shape}") from None


def invented(tensor: Tensor, seed: int) -> Array:
    """A value for a constant that the dump elides: equal for equal hashes, else for equal types."""
    rng = seeded("elided", tensor.sha256 or tensor.dtype, tensor.shape, seed)
    if is_float(tensor.dtype):
        return rng.uniform(0.05, 1.0, tensor.shape)
    return rng.integers(0, 2, tensor.shape).astype(storage(tensor.dtype))
