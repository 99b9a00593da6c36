"""Names of element types in kernels, as ours; which type two values meet in."""

from __future__ import annotations

import re

from scalify_dl.oracle.dtypes import holds_all, is_float, is_integer, precision

_FLOATS = {
    "float": "f32", "half": "f16", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "double": "f64", "float8_e4m3": "f8e4m3fn", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz", "float8_e4m3b11fnuz": "f8e4m3b11fnuz",
    "e4m3_float8": "f8e4m3fn", "e5m2_float8": "f8e5m2", "bool": "pred", "boolean": "pred", "fp16": "f16",
    "accum_float": "f32",
}  # fmt: skip
_INTEGER = re.compile(r"(u?)int(2|4|8|16|32|64)?\Z")
WEAK = ("int", "real")
"""Types of bare Python numbers."""


def dtype_of(text: str) -> str | None:
    """Our name of a type; None where it is none."""
    if text in _FLOATS:
        return _FLOATS[text]
    found = _INTEGER.match(text)
    return None if found is None else ("u" if found[1] else "s") + (found[2] or "32")


def is_real(dtype: str) -> bool:
    """Whether it is a type of real numbers."""
    return dtype == "real" or is_float(dtype)


def meet(left: str, right: str) -> str:
    """The type in which an op on two values is computed: that of the value which is no bare number, the wider one."""
    if left == right:
        return left
    for one, other in ((left, right), (right, left)):
        if one == "int":
            return "int" if other == "pred" else other
        if one == "pred":
            return other
        if one == "real":
            return other if is_float(other) else "f32" if is_integer(other) else "real"
    if is_float(left) != is_float(right):
        return left if is_float(left) else right
    if is_float(left):
        if holds_all(left, right):
            return left
        if holds_all(right, left):
            return right
        return "f32" if max(precision(left), precision(right)) <= precision("f32") else "f64"
    wide = max(int(left[1:]), int(right[1:]))
    same = [t for t in (left, right) if int(t[1:]) == wide]
    return same[0] if len(same) == 1 else f"u{wide}"
