"""Elementwise ops of the XLA front ends: their names; arithmetic on booleans is logic; comparisons name their order."""

from __future__ import annotations

from scalify_dl.errors import InputError
from scalify_dl.ir.vocabulary import ELEMENTWISE, words

_NO_OPCODE = words(
    "clz erf-inv floor-divide gelu gelu-tanh gelu-backward gelu-tanh-backward lgamma relu softplus trunc"
)
OPCODES = {kind: kind for kind in sorted(ELEMENTWISE - _NO_OPCODE)} | {"count-leading-zeros": "clz"}
"""HLO opcode → elementwise kind; StableHLO writes the same names with underscores."""

LOGICAL = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}
"""Arithmetic on booleans is logic."""


def comparison_order(name: str, dtype: str) -> dict[str, list[str]]:
    """The symbols of a comparison by `FLOAT`, `SIGNED`, `UNSIGNED` or `TOTALORDER`: the order of the element type goes
    without saying. The total order of floats tells zeros of both signs apart. InputError where it is another type's."""
    own = "SIGNED" if dtype[0] == "s" else "UNSIGNED" if dtype[0] in "up" else "FLOAT"
    if name == "TOTALORDER" and own == "FLOAT":
        return {"order": ["total"]}
    if name not in (own, "TOTALORDER"):
        raise InputError(f"numbers of type {dtype} are compared as {name}", expected=own)
    return {}
