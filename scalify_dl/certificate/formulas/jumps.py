"""What jumps (a comparison, a sign), of numbers that the machine may have rounded: 256 + 1 is 256 in bf16."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import add, mul, sub

from .forms import Form, Unknown
from .programs import Op, Program
from .types import REALS, WIDTHS

JUMPS = ("compare", "is-finite", "sign")
COUNTS: dict[str, Callable[[int, int], int]] = {"add": add, "subtract": sub, "multiply": mul}
MOVES = ("broadcast", "reshape", "transpose", "reverse", "slice")


def surely(program: Program, op: Op, cells: tuple[object, ...], digits: int) -> object:
    """The first cell. Unknown where numbers decide that are computed, or constants of more digits than their type has
    that lie nearer than half of the greater one."""
    values = [cell.value for cell in cells if isinstance(cell, Form) and cell.value is not None]
    if len(values) == len(cells):
        few = all(abs(v.numerator) < 1 << digits and not v.denominator & (v.denominator - 1) for v in values)
        far = few or 2 * abs(values[0] - values[-1]) > max(map(abs, values))
        written = all(_is_written(program, operand) for operand in op.operands.values())
        if not (far and written) and any(_counted(program, operand) is None for operand in op.operands.values()):
            raise Unknown(f"{op.kind} of numbers that were rounded")
    return cells[0]


def _is_written(program: Program, tensor: str) -> bool:
    """Whether its elements are constants, as they stand in the program."""
    op = program.makers.get(tensor)
    return op is not None and (op.kind == "constant" or (op.kind in MOVES and _is_written(program, op.operands[0])))


def _counted(program: Program, tensor: str) -> int | None:
    """The whole number that all elements are, where it is computed of such by steps of which types hold the results:
    then nothing was rounded."""
    op, dtype = program.makers.get(tensor), program.types[tensor]
    if op is None or (op.kind not in MOVES and op.kind not in ("constant", "convert") and op.kind not in COUNTS):
        return None
    if op.kind == "constant":
        found = _whole(program.literals.get(tensor, ""))
    else:
        operands = [_counted(program, operand) for operand in op.operands.values()]
        numbers = [number for number in operands if number is not None]
        if len(numbers) != len(operands):
            return None
        found = COUNTS[op.kind](*numbers) if op.kind in COUNTS else numbers[0]
    least, most = WIDTHS[dtype] if dtype in WIDTHS else (REALS.get(dtype, 0),) * 2
    return found if found is not None and -(1 << least) < found < 1 << most else None


def _whole(text: str) -> int | None:
    """The number that a constant is everywhere, if it is a whole one."""
    try:
        value = Fraction(text)
    except ValueError:
        return None
    return int(value) if value.denominator == 1 else None
