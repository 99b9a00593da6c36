"""What jumps (a comparison, a sign), of numbers that the machine may have rounded: 256 + 1 is 256 in bf16."""

from __future__ import annotations

from .forms import Form, Unknown
from .programs import Op, Program

JUMPS = ("compare", "is-finite", "sign")
MOVES = ("broadcast", "reshape", "transpose", "reverse", "slice")


def surely(program: Program, op: Op, cells: tuple[object, ...], digits: int) -> object:
    """The first cell. Unknown where numbers decide that are computed, or constants of more digits than their type has
    that lie nearer than half of the greater one."""
    values = [cell.value for cell in cells if isinstance(cell, Form) and cell.value is not None]
    if len(values) == len(cells):
        few = all(abs(v.numerator) < 1 << digits and not v.denominator & (v.denominator - 1) for v in values)
        far = few or 2 * abs(values[0] - values[-1]) > max(map(abs, values))
        if not far or not all(_is_written(program, operand) for operand in op.operands.values()):
            raise Unknown(f"{op.kind} of numbers that were rounded")
    return cells[0]


def _is_written(program: Program, tensor: str) -> bool:
    """Whether its elements are constants, as they stand in the program."""
    op = program.makers.get(tensor)
    return op is not None and (op.kind == "constant" or (op.kind in MOVES and _is_written(program, op.operands[0])))
