"""What is made of constants alone, at the types that it has: 0.7 + 0.1 is 0.8 in f32, and not in the f64 of the oracle.

Over the reals such a number decides a choice in one way, and on the machine perhaps in the other one. So executions in
which constants and casts round (`Machine.rounding`) round every step of these, and what jumps (a comparison, a cast to
integers) is asked of the numbers that come of it.
"""

from __future__ import annotations

from scalify_dl.ir.vocabulary import ELEMENTWISE

from .jumping import is_jump
from .program import Program

FOLLOWED = ELEMENTWISE | {"broadcast", "reshape", "transpose", "slice", "concatenate", "reverse", "select", "reduce"}


def of_constants(program: Program) -> frozenset[str]:
    """Values that are made of constants alone."""
    found: set[str] = set()
    for graph in program.graphs.values():
        for op in graph.ops:
            plain = op.kind in FOLLOWED and op.operands and found.issuperset(op.operands)
            if op.kind in ("constant", "iota") or plain:
                found.update(op.results)
    return frozenset(found)


def jumps(program: Program) -> bool:
    """Whether something jumps between real numbers that are made of constants alone."""
    alone = of_constants(program)
    return any(
        op.operands and alone.issuperset(op.operands) and is_jump(program, op)
        for graph in program.graphs.values()
        for op in graph.ops
    )
