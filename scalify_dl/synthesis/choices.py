"""What an op may be on the ranks along one axis: placements of its operands, and those of its results that follow.

By the factors of its dims (`datalog/ops`): a parallel factor may be in blocks, a reduced one leaves parts of a sum, and
parts of a sum pass what is linear in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from scalify_dl.ir.graph import Op
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.lint.factors import Factors

from .layouts import PARTS, WHOLE, Layout, fits

BY_FACTORS = ELEMENTWISE | {"dot", "reduce", "slice", "concatenate", "gather", "cumulative"}
MOVES = frozenset(("reshape", "transpose", "broadcast"))


class Choice(NamedTuple):
    """Placements of operands and of results."""

    needs: tuple[Layout, ...]
    makes: tuple[Layout, ...]


Word = tuple[tuple[int, ...], tuple[int, ...]]
"""Along one axis: of every operand, and of every result."""


def choices(op: Op, said: Factors | None, mesh: Mesh) -> list[Choice]:
    """All that fit, over all axes."""
    words = list(dict.fromkeys(_words(op, said)))
    alone = [words[0]]
    found = []
    for row in product(*(alone if size == 1 else words for _, size in mesh.axes)):
        needs = tuple(tuple(word[0][n] for word in row) for n in range(len(op.operands)))
        makes = tuple(tuple(word[1][n] for word in row) for n in range(len(op.results)))
        types = [*zip(needs, op.operands, strict=True), *zip(makes, op.results, strict=True)]
        if all(fits(layout, t.shape, mesh) for layout, t in types):
            found.append(Choice(needs, makes))
    return found


def _words(op: Op, said: Factors | None) -> Iterator[Word]:
    count, made = len(op.operands), len(op.results)
    yield (WHOLE,) * count, (WHOLE,) * made
    if op.regions or op.rank_numbers:
        return
    if op.kind == "constant":
        if op.result.literal is not None and not op.result.literal.text.startswith("{"):
            yield from (((), (d,)) for d in range(len(op.result.shape)))
    elif op.kind in MOVES:
        yield (PARTS,), (PARTS,)
        yield from (((a,), (b,)) for a, b in _moved(op))
    elif op.kind in BY_FACTORS and said is not None and not said.view and not said.result_view:
        yield from _by_factors(op, said)


def _by_factors(op: Op, said: Factors) -> Iterator[Word]:
    where = [_dims(op, said.operand[n], t.shape) for n, t in enumerate(op.operands)]
    there = [_dims(op, said.result[n], t.shape) for n, t in enumerate(op.results)]
    for factor in sorted({f for dims in where for f in dims} | {f for dims in there for f in dims}):
        needs = tuple(dims.get(factor, WHOLE) for dims in where)
        if factor < 100 and all(factor in dims for dims in there):
            yield needs, tuple(dims[factor] for dims in there)
        elif 100 <= factor < 200 and said.reducer == "sum":
            yield needs, (PARTS,) * len(op.results)
    if op.kind != "convert":  # rounds
        for family in said.families.values():
            yield tuple(PARTS if n in family else WHOLE for n in range(len(op.operands))), (PARTS,) * len(op.results)


def _dims(op: Op, factors: dict[int, int], shape: Sequence[int]) -> dict[int, int]:
    """Factor → dim; of elementwise ops each dim is one."""
    return {d: d for d in range(len(shape))} if op.kind in ELEMENTWISE else {f: d for d, f in factors.items()}


def _moved(op: Op) -> Iterator[tuple[int, int]]:
    """Dims of the operand and of the result that are cut alike; `WHOLE` where the operand has none."""
    (x,), (y,) = op.operands, op.results
    if op.kind == "transpose":
        yield from ((d, n) for n, d in enumerate(op.numbers["dimensions"]))
    elif op.kind == "broadcast":
        at = {to: d for d, to in enumerate(op.numbers["dimensions"])}
        for n, size in enumerate(y.shape):
            yield (at[n] if n in at and x.shape[at[n]] == size else WHOLE), n
    else:
        yield from _regrouped(x.shape, y.shape)


def _regrouped(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The first dims of groups of dims that are as large: blocks of one are blocks of the other."""
    a = b = 0
    while a < len(old) and b < len(new):
        i, j = a + 1, b + 1
        while (left := prod(old[a:i])) != (right := prod(new[b:j])):
            if left < right and i < len(old):
                i += 1
            elif right < left and j < len(new):
                j += 1
            else:
                return
        first = [next((d for d in range(s, e) if sizes[d] > 1), s) for sizes, s, e in ((old, a, i), (new, b, j))]
        yield first[0], first[1]
        a, b = i, j
