"""What jumps: gives something else for numbers that lie as near to one another as roundings do."""

from __future__ import annotations

from scalify_dl.ir.vocabulary import INDEX_REDUCERS, words

from .dtypes import is_float
from .program import Op, Program

JUMPS = words(
    "ceil compare convert floor is-finite remainder round-nearest-afz round-nearest-even sign sort top-k trunc"
)
"""Kinds that do, if they make no real number of one; so do reductions to positions."""


def is_jump(program: Program, op: Op) -> bool:
    """Whether an op jumps between real numbers."""

    def is_real(tensor: str) -> bool:
        return is_float(program.tensors[tensor].dtype)

    if not any(map(is_real, op.operands)):
        return False
    chosen = op.symbols.get("reducer", [""])[0] in INDEX_REDUCERS
    return chosen or (op.kind in JUMPS and not (op.kind == "convert" and is_real(op.results[0])))
