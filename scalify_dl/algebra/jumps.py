"""What jumps (a comparison, a cast to integers), of numbers that ops computed of constants.

Formulas are of real numbers, of which 256 + 1 is above 256, 10³⁰ · 10³⁰ is finite and 10⁻³⁰ · 10⁻³⁰ is above zero; in
bf16 and in f32 they are not. So a jump between two such numbers is decided where nothing was rounded on the way
(`EXACT`), or where each was rounded once (`ONCE`) and they lie far apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.dtypes import is_float, largest, precision, smallest
from scalify_dl.oracle.program import Op, Program

from .cells import Array
from .form import Form, Undecided

EXACT, ONCE, ROUNDED = 2, 1, 0
JUMPS = frozenset({"compare", "is-finite", "sign"})
"""Kinds of which a rounding more may give something else, besides casts of real numbers to others."""
HANDED_ON = frozenset(
    ["broadcast", "reshape", "transpose", "slice", "concatenate", "reverse", "pad", "select", "maximum", "minimum",
     "clamp", "negate", "abs", "gather", "dynamic-slice", "dynamic-update-slice", "all-gather", "all-to-all",
     "collective-permute"]
)  # fmt: skip
"""Kinds that give elements of their operands, or their negatives."""


class Jumps:
    """How the numbers in each tensor of a program came about."""

    def __init__(self, program: Program) -> None:
        self._tensors, self._how = program.tensors, dict[str, int]()
        self.watched = any(self._jumps(op) for graph in program.graphs.values() for op in graph.ops)
        """Whether anything is asked: most programs have no such op."""

    def _jumps(self, op: Op) -> bool:
        if not op.operands or not is_float(self._tensors[op.operands[0]].dtype):
            return False
        return op.kind in JUMPS or (op.kind == "convert" and not is_float(self._tensors[op.results[0]].dtype))

    def made(self, op: Op, xs: list[Array], results: list[Array]) -> None:
        """Enters what an op made of these on one rank."""
        for tensor, x in zip(op.results, results, strict=True):
            if self.watched and is_float(self._tensors[tensor].dtype):
                how = self._made(op, xs, x, self._tensors[tensor].dtype)
                self._how[tensor] = min(how, self._how.get(tensor, how))

    def _made(self, op: Op, xs: list[Array], x: Array, dtype: str) -> int:
        operands = zip(op.operands, xs, strict=True)
        before = min((self._of(t, y) for t, y in operands if is_float(self._tensors[t].dtype)), default=EXACT)
        if op.kind in HANDED_ON:
            return before
        numbers = list(_numbers(x))
        known = len(numbers) == x.size and before == EXACT
        if op.kind in ("reduce", "all-reduce", "reduce-scatter", "dot"):  # no sum on the way has more bits
            known = known and all(number >= 0 for y in xs for number in _numbers(y))
        elif op.kind != "constant" and op.kind not in ELEMENTWISE:
            return ROUNDED
        if known and all(_is_short(number, dtype) for number in numbers):
            return EXACT
        return ONCE if known and all(_in_range(number, dtype) for number in numbers) else ROUNDED

    def decided(self, op: Op, xs: list[Array]) -> None:
        """Undecided where an op jumps between numbers of which the machine may have other ones."""
        if not self.watched or not self._jumps(op):
            return
        how = min(self._of(t, x) for t, x in zip(op.operands, xs, strict=True))
        far = how == ONCE and op.kind in ("compare", "sign")
        dtype = self._tensors[op.operands[0]].dtype
        pairs = zip(*(x.reshape(-1) for x in xs), strict=True) if how != EXACT else ()
        for cells in {tuple(map(id, cells)): cells for cells in pairs}.values():
            values = [number for number in map(_number, cells) if number is not None]
            one, other = (*values, Fraction(), Fraction())[:2]
            if len(values) == len(cells) and not (far and _far(one, other, dtype)):
                raise Undecided(f"`{op.kind}` of numbers that were rounded")

    def _of(self, tensor: str, x: Array) -> int:
        if tensor in self._how:
            return self._how[tensor]
        return EXACT if next(_numbers(x), None) is None else ROUNDED


def _number(cell: object) -> Fraction | None:
    """The number that a cell is; None where it depends on inputs or on sizes, or is no finite one."""
    value = cell.value if isinstance(cell, Form) else cell
    if isinstance(value, float | np.floating):
        return Fraction(float(value)) if np.isfinite(value) else None
    return Fraction(value) if isinstance(value, int | Fraction) else None


def _numbers(x: Array) -> Iterator[Fraction]:
    for cell in {id(cell): cell for cell in x.reshape(-1)}.values():
        number = _number(cell)
        if number is not None:
            yield number


def _in_range(number: Fraction, dtype: str) -> bool:
    return not number or smallest(dtype) <= abs(number) <= Fraction(largest(dtype))


def _is_short(number: Fraction, dtype: str) -> bool:
    """Whether the type has this number."""
    top, parts = abs(number.numerator), number.denominator
    top //= (top & -top) or 1
    return not parts & (parts - 1) and top < 1 << precision(dtype) and _in_range(number, dtype)


def _far(left: Fraction, right: Fraction, dtype: str) -> bool:
    """By half of the greater one, which one rounding of each to a type of eight bits or more does not make up."""
    return precision(dtype) >= 8 and 2 * abs(left - right) > max(abs(left), abs(right))
