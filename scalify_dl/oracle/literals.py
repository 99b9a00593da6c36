"""Values of constants from their literal text, items, or (where a dump elides them) by invention."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.vocabulary import words

from .dtypes import is_float, is_narrow, round_to, storage
from .program import Program, Tensor

Array = np.ndarray[Any, Any]
ELIDED = "{...}"
SMALL = 4096
"""Elements of a constant up to which it is looked at."""
PASSED_ON = words(
    "convert broadcast reshape transpose reverse slice dynamic-slice gather concatenate pad select maximum minimum "
    "clamp dynamic-update-slice all-gather all-to-all collective-permute"
)
"""Kinds of ops whose elements are some of their operands', or cast."""


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
        values = _whole(tensor.items, dtype)
        return np.full(tensor.shape, values[0]) if values.size == 1 and tensor.shape else values.reshape(tensor.shape)
    assert tensor.literal is not None
    try:
        return _of_text(tensor.literal, tensor.dtype, tensor.shape)
    except ValueError as error:
        raise InputError(f"the literal of {tensor.id} {error}") from None


@lru_cache(1024)
def _of_text(text: str, dtype_name: str, shape: tuple[int, ...]) -> Array:
    """What a text says (loops ask for the same in every turn, and edits in every run); ValueError where that has
    another number of items."""
    dtype = storage(dtype_name)
    if not text.startswith("{"):
        value = scalar(text)
        if isinstance(value, int):
            return np.broadcast_to(_whole([value], dtype)[0], shape)
        return np.broadcast_to(np.array(value).astype(dtype), shape)
    flat = text.replace("{", "").replace("}", "")
    entries = flat.split("),") if "(" in flat else flat.split(",")
    found = [scalar(e if e.endswith(")") or "(" not in e else e + ")") for e in entries if e]
    whole = [value for value in found if isinstance(value, int)]
    values = _whole(whole, dtype) if len(whole) == len(found) else np.array(found).astype(dtype)
    if values.size != prod(shape):
        raise ValueError(f"has {values.size} items, its shape is {shape}")
    values = values.reshape(shape)
    values.flags.writeable = False  # others read it, too
    return values


def rounds_constants(program: Program) -> bool:
    """Whether a constant of a narrow real type, or one that is cast to a real type, as it is or among other elements,
    is another number there."""
    tried: set[tuple[str, str]] = set()
    for graph in program.graphs.values():
        among: dict[str, frozenset[str]] = {}
        for op in graph.ops:
            result = op.results[0] if op.results else ""
            if op.kind == "constant":
                among[result] = frozenset((result,)) if _is_known(program.tensors[result]) else frozenset()
            elif op.kind in PASSED_ON:
                among[result] = frozenset().union(*(among.get(operand, ()) for operand in op.operands))
            dtype = program.tensors[result].dtype if among.get(result) else ""
            if not dtype or not (is_narrow(dtype) or (op.kind == "convert" and is_float(dtype))):
                continue
            new = {(name, dtype) for name in among[result]} - tried
            if any(_is_rounded(program.tensors[name], dtype) for name, dtype in new):
                return True
            tried |= new
    return False


def _is_known(constant: Tensor) -> bool:
    return constant.literal not in (None, ELIDED) and prod(constant.shape) <= SMALL


def _is_rounded(constant: Tensor, dtype: str) -> bool:
    """Whether it is another number in that type."""
    value = np.asarray(literal_array(constant), np.float64)
    return not np.array_equal(round_to(value, dtype), value, equal_nan=True)


def _whole(numbers: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Whole numbers of any size in a type; in one of integers modulo its range."""
    if dtype.kind not in "iu":
        return np.array([float(n) if dtype.kind == "f" else n for n in numbers]).astype(dtype)
    bits = 8 * dtype.itemsize
    return np.array([n % (1 << bits) for n in numbers], dtype=f"u{dtype.itemsize}").view(dtype)


def invented(tensor: Tensor, seed: int) -> Array:
    """A value for a constant that the dump elides: equal for equal hashes, else for equal types."""
    rng = seeded("elided", tensor.sha256 or tensor.dtype, tensor.shape, seed)
    if is_float(tensor.dtype):
        return rng.uniform(0.05, 1.0, tensor.shape)
    return rng.integers(0, 2, tensor.shape).astype(storage(tensor.dtype))
