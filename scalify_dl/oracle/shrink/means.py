"""Numbers that count elements: 1/4096 is one thing in a mean over 4096 elements, another where two are left.

What two programs share at their own sizes (the mean of squares less the square of the mean is the variance) they need
not share at others while a constant stays what it was. So a difference at small sizes counts only if it is there as
well where constants that may count elements count those that are left, or at a size that no such number explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import prod

from scalify_dl.ir.literals import Literal, rational

from ..dtypes import is_float
from ..program import Op, Program, Tensor

NEAR = Fraction(1, 2**20)
"""How far a constant may be from what it stands for: f32 rounds it."""
FEW = 100
"""A share of a number of elements (a tenth of 1/1000) is a number of hundredths below 1."""

Counts = dict[int, set[int]]
"""For numbers of elements that are added up, what is left of them."""


def counts(own: Program, small: Program) -> Counts:
    """How many elements ops add up at their own sizes, and how many at small ones; also twice in a row, or less one."""
    single: set[tuple[int, int]] = set()
    for graph in own.graphs.values():
        for op in graph.ops:
            if found := _added_up(op):
                tensor, dims = found
                before, after = (prod(program.tensors[tensor].shape[d] for d in dims) for program in (own, small))
                single.add((before, after))
    every = single | {(a * c, b * d) for a, b in single for c, d in single}
    found_counts: Counts = {}
    for many, left in every:
        for less in (0, 1):
            if many != left and left > less:
                found_counts.setdefault(many - less, set()).add(left - less)
    return found_counts


def _added_up(op: Op) -> tuple[str, list[int]] | None:
    if op.kind == "reduce" and not op.regions:
        return op.operands[0], op.number("dimensions", 0, [])
    if op.kind == "dot":
        return op.operands[0], op.number("lhs_contracting_dims", 0, [])
    return None


def has_numbers(program: Program) -> bool:
    """Whether there are constants that may count something."""
    texts = {t.literal for t in program.tensors.values() if t.literal is not None and is_float(t.dtype)}
    plain = {None, *map(Fraction, (0, 1, -1, 2, -2)), Fraction(1, 2), Fraction(-1, 2)}
    return any(rational(text) not in plain for text in texts if not text.startswith("{"))


def recounted(own: Program, small: Program) -> Iterator[Program]:
    """The small program with other constants: those that are a number of elements, or one divided by it; then those
    that are a share of it, too. None where there are none. What several numbers of elements would give is tried both
    ways."""
    known = counts(own, small)
    constants = [
        (name, tensor, value)
        for name, tensor in small.tensors.items()
        if tensor.literal is not None and is_float(tensor.dtype) and not tensor.literal.startswith("{")
        if (value := rational(tensor.literal)) and abs(value) not in (1, 2)
    ]
    seen: list[dict[str, Tensor]] = [{}]
    for shares in (False, True):
        others = {value: _recounted(Fraction(value), known, shares) for value in {value for _, _, value in constants}}
        for place in (0, -1):
            changed = {}
            for name, tensor, value in constants:
                text = Literal.scalar(others[value][place]).text if others[value] else tensor.literal
                if text != tensor.literal:
                    changed[name] = replace(tensor, literal=text)
            if changed not in seen:
                seen.append(changed)
                yield replace(small, tensors=small.tensors | changed)


def _recounted(value: Fraction, known: Counts, shares: bool) -> list[Fraction]:
    found: set[Fraction] = set()
    for many, left in known.items():
        if _counts(abs(value * many), shares):
            found |= {value * many / n for n in left}
        if _counts(abs(value / many), shares):
            found |= {value / many * n for n in left}
    return sorted(found)


def _counts(ratio: Fraction, shares: bool) -> bool:
    whole = round(ratio * FEW)
    return _near(ratio, Fraction(1)) or (shares and 0 < whole < FEW and _near(ratio, Fraction(whole, FEW)))


def _near(value: Fraction, other: Fraction) -> bool:
    return abs(value - other) <= NEAR * other
