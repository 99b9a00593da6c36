"""Sums over ranks that have the same: n times the value. Where that is a mean, or a share of a sum, as the program
writes it, the recovered program has the factor and the division; where it is none, it is a value counted n times.

    all_reduce(x / 4) over four ranks that have the same x:        multiply(divide(x, 4), 4)
    all_reduce(y + b / 4), y in parts over four ranks, b whole:    parts of add(y, multiply(divide(b, 4), 4))

A division belongs to a sum if both stand in one line of ops that only move or scale a value, and if the number is that
of the ranks, or of the ranks and of what else is summed there. A number further off (1/sqrt(16) of an attention behind
a query that was reduced twice) cancels the factor by chance: no mean. What may be either is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Pending, Repl
from scalify_dl.ir.literals import Literal

from .held import Held
from .lift import Counted, Lifter, Stop
from .refit import splat_of

if TYPE_CHECKING:
    from .lift import Numbers

CARRY = frozenset("reshape broadcast transpose convert negate all-gather all-to-all".split())  # noqa: SIM905
"""Kinds that move a value, or turn its sign."""
LINEAR = frozenset("add subtract dot concatenate select slice pad".split())  # noqa: SIM905
FAR = 4000
"""So many ops in front of a sum are looked at."""


@dataclass
class Line:
    """What a value came through, op by op, as long as that only moved, scaled or summed it: the numbers that it was
    multiplied by (and those of divisions), sums over ranks and their positions, how many elements were summed."""

    numbers: list[Fraction] = field(default_factory=list)
    divided: list[Fraction] = field(default_factory=list)
    sums: list[Op] = field(default_factory=list)
    over: list[tuple[int, ...]] = field(default_factory=list)
    count: int = 1

    def is_mean(self, sizes: Iterable[int]) -> bool:
        """Whether all that it was multiplied by is the number of elements that were summed, of one device or of these
        parts of them."""
        return self.count > 1 and prod(self.numbers, start=Fraction(1)) * self.count in products(sizes)

    @property
    def repeated(self) -> bool:
        """Whether it was summed twice over the same ranks."""
        return any(set(a) & set(b) for a, b in combinations(self.over, 2))


def line_of(lifter: Lifter, tensor: Tensor) -> Line:
    """The line of ops that ends in a value."""
    line = Line()
    while (op := lifter.maker.get(tensor)) is not None:
        number, operand = scaling(lifter, op)
        if number is not None:
            line.numbers.append(number)
            if op.kind == "divide":
                line.divided.append(number)
        elif op in lifter.out.sums:
            line.sums.append(op)
            line.over.append(lifter.out.sums[op])
            operand = op.operands[op.results.index(tensor)]
        elif op.kind == "reduce" and op.symbols.get("reducer") == ["sum"] and len(op.operands) == 1:
            held = lifter.out.held.get(operand)
            dims = op.numbers["dimensions"]
            line.count *= prod(held.base.shape[d] for d in dims) if held is not None and held.aligned else 1
        elif op.kind not in CARRY or len(op.operands) != 1:
            break
        tensor = operand
    return line


def scaling(lifter: Lifter, op: Op) -> tuple[Fraction | None, Tensor]:
    """The number that an op multiplies a value by, and the value; None for any other op."""
    if op.kind in ("multiply", "divide") and op.result.dtype[0] in "fbc":
        for n in (1, 0) if op.kind == "multiply" else (1,):
            literal = splat_of(lifter, op.operands[n])
            number = literal.rational if literal is not None else None
            if number:
                return number if op.kind == "multiply" else 1 / number, op.operands[1 - n]
    return None, op.operands[0] if op.operands else op.result


def products(sizes: Iterable[int]) -> set[int]:
    """Of some of the numbers, or of none."""
    found = {1}
    for size in sizes:
        found |= {number * size for number in found}
    return found


def by_all(numbers: Sequence[Fraction], wanted: Iterable[Fraction]) -> bool:
    """Whether one of the numbers, or all together, divide by one of these."""
    found = {*numbers, prod(numbers, start=Fraction(1))} if numbers else set()
    return not found.isdisjoint(1 / number for number in wanted)


def perhaps(numbers: Sequence[Fraction], times: Fraction) -> bool:
    """Whether a division by so many ranks may be in one of the numbers, together with others."""
    return any(
        (1 / abs(number) / times).denominator == 1 or (number.denominator != 1 and (1 / number).denominator != 1)
        for number in numbers
    )


def mean_in_front(lifter: Lifter, op: Op, tensor: Tensor, held: Held, again: Sequence[int]) -> bool:
    """Whether a value that is the same along positions was divided for the sum over them. Where that cannot be told,
    what is read behind without a division is in doubt."""
    times = Fraction(prod(lifter.grid.sizes[p] for p in again))
    line = line_of(lifter, tensor)
    repeated = any(set(over) & set(again) for over in line.over)
    others = {p for over in line.over for p in over} | set(held.pending)
    mine = set(lifter.out.sums[op])
    here = f"`{tensor.name}` is the same on all ranks of {', '.join(lifter.grid.axes_of(again))}"
    doubt = ""
    if line.is_mean(_sizes(lifter, others, again)):
        pass
    elif by_all(line.numbers, _divisors(lifter, times, mine - set(again), others - mine, line.count)):
        if not repeated and not _another(lifter, line, times, again):
            return True
        doubt = f"{here}, was summed before, and divided by {times}"
    elif not repeated and perhaps(line.numbers, times):
        doubt = f"{here}, and was scaled for their sum or for something else"
    elif not {times * p for p in products(_sizes(lifter, others, again))}.isdisjoint(
        1 / number for number in _far_numbers(lifter, tensor)
    ):
        doubt = f"{here}, something in front of it was divided by {times}"
    lifter.out.counted[op] = Counted(times, tuple(again), repeated, doubt)
    return False


def _divisors(
    lifter: Lifter, times: Fraction, rest: Iterable[int], others: Iterable[int], count: int
) -> Iterator[Fraction]:
    """What a mean divides by: the ranks that have the same and the rest of those that are summed with them, or these
    and others that are summed in the line, or these and the elements that are."""
    whole = times * prod(_sizes(lifter, rest))
    yield from (whole * p for p in products(_sizes(lifter, others)))
    if count > 1:
        yield times * count


def _another(lifter: Lifter, line: Line, times: Fraction, again: Sequence[int]) -> bool:
    """Whether another sum in the line is over as many ranks, so that a division may be that one's."""
    alike = [over for over in line.over if prod(lifter.grid.sizes[p] for p in over) == times and over != tuple(again)]
    return sum(number == 1 / times for number in line.numbers) in range(1, len(alike) + 1)


def _sizes(lifter: Lifter, positions: Iterable[int], without: Sequence[int] = ()) -> list[int]:
    return [lifter.grid.sizes[p] for p in sorted(set(positions) - set(without))]


def _unclear(text: str) -> Stop:
    return Stop("unclear", f"{text}: whether that is a mean over the ranks is not known")


def _far_numbers(lifter: Lifter, tensor: Tensor) -> Iterator[Fraction]:
    """The numbers that anything was scaled by in which a value is linear."""
    seen: set[Tensor] = set()
    stack = [tensor]
    while stack and len(seen) < FAR:
        one = stack.pop()
        op = lifter.maker.get(one)
        if one in seen or op is None:
            continue
        seen.add(one)
        number, operand = scaling(lifter, op)
        if number is not None:
            yield number
            stack.append(operand)
        elif op.kind in LINEAR or op.kind in CARRY or op in lifter.out.sums or op.kind == "multiply":
            stack += op.operands
        elif op.kind == "divide" or (op.kind == "reduce" and op.symbols.get("reducer") == ["sum"]):
            stack += op.operands[:1]


def counted(lifter: Lifter, held: Held, again: Sequence[int], op: Op) -> Held:
    """What a mean over ranks that have the same is before it was divided: so many times the value."""
    times = prod(lifter.grid.sizes[p] for p in again)
    return replace(held, base=_times(lifter, held.base, Fraction(times), op))


def _times(lifter: Lifter, base: Tensor, number: Fraction, op: Op) -> Tensor:
    """A value of the baseline times a number (divided by it where that is a whole one), at an op's line."""
    kind, whole = ("divide", 1 / number) if number < 1 and (1 / number).denominator == 1 else ("multiply", number)
    splat = lifter.base.splat(Literal.scalar(whole, base.dtype), base.dtype, base.shape, source=op.source)
    made = lifter.base.add(kind, [base, splat], [(base.dtype, base.shape)], name=op.name, source=op.source)
    return made.result


def undone(lifter: Lifter, op: Op) -> Held | None:
    """What an op makes that divides a value which was counted several times by their number, where it belongs to a sum
    over them; None where it does not. Stop where that cannot be told."""
    number, tensor = scaling(lifter, op)
    held = lifter.out.held.get(tensor)
    if number is None or held is None or held.scale == 1:
        return None
    line = line_of(lifter, tensor)
    mine = {op: c for op in line.sums if (c := lifter.out.counted.get(op)) and (held.scale / c.times).denominator == 1}
    again = {p for c in mine.values() for p in c.again}
    rest = {p for op in mine for p in lifter.out.sums[op]} - again
    others = {p for over in line.over for p in over} | set(held.pending)
    makers = [c.repeated for c in lifter.out.counted.values() if (held.scale / c.times).denominator == 1]
    near = (prod(_sizes(lifter, {p for over in line.over for p in over})) / held.scale).denominator == 1
    said = f"`{tensor.name}` was counted {held.scale} times and is scaled by {number}"
    line.numbers.append(number)
    if by_all([number], _divisors(lifter, held.scale, rest, others - rest - again, line.count)):
        if near and not line.repeated and not any(makers) and not line.is_mean(_sizes(lifter, others, tuple(again))):
            left = number * held.scale
            base = held.base if left == 1 else _times(lifter, held.base, left, op)
            return replace(held, base=base, scale=Fraction(1))
        if line.repeated or not all(makers):
            raise _unclear(said)
    elif near and perhaps([number], held.scale) and not all(makers) and not line.is_mean(_sizes(lifter, others)):
        raise _unclear(said)
    return None


def multiple(lifter: Lifter, scale: Fraction, text: str) -> Stop:
    """What an op is in the way of that reads a value which was counted so many times."""
    doubt = in_doubt(lifter, scale)
    return _unclear(doubt) if doubt else Stop("multiple", text)


def in_doubt(lifter: Lifter, scale: Fraction) -> str:
    """Why it is not known of a value that was counted so many times whether it was divided by that in front."""
    return next((c.doubt for c in lifter.out.counted.values() if c.doubt and (scale / c.times).denominator == 1), "")


def shared_out(lifter: Lifter, op: Op, tensor: Tensor, held: Held, positions: Sequence[int]) -> Held | None:
    """A value that is the same along positions as parts of a sum over them: each rank's share, if it was divided for
    that. Stop where that cannot be told."""
    if any(not isinstance(held.mesh[p], Repl) for p in positions) or not held.calm or held.along is not None:
        return None
    times = Fraction(prod(lifter.grid.sizes[p] for p in positions))
    line = line_of(lifter, tensor)
    if 1 / times not in line.divided:
        if perhaps(line.numbers, times):
            raise _unclear(f"`{tensor.name}` is the same on all ranks, and was scaled before it is added to parts of a"
                           " sum")  # fmt: skip
        return None
    mesh = tuple(Pending("sum", e.size) if p in positions else e for p, e in enumerate(held.mesh))
    base = _times(lifter, held.base, times, op)
    return replace(held, base=base, mesh=mesh, free=frozenset())


def _chosen(lifter: Lifter, op: Op) -> tuple[Numbers, Tensor, bool] | None:
    """By rank, whether a value is kept or is zero: chosen by the rank's number, or multiplied by 1 or 0. With the
    value, and whether it is kept where that is true."""
    if op.kind == "select" and lifter.is_odd(op.operands[0]):
        chosen = lifter.numbers(op.operands[0])
        zero = [(s := splat_of(lifter, t)) is not None and s.rational == 0 for t in op.operands[1:]]
        one = chosen is not None and zero.count(True) == 1
        return (chosen, op.operands[1 + zero.index(False)], zero[1]) if one and chosen is not None else None
    odd = [t for t in op.operands if lifter.is_odd(t)]
    if op.kind == "multiply" and len(odd) == 1:
        chosen = lifter.numbers(odd[0])
        if chosen is not None and all(bool(((value == 0) | (value == 1)).all()) for value in chosen.values()):
            return chosen, next(t for t in op.operands if t is not odd[0]), True
    return None


def one_rank_only(lifter: Lifter, op: Op) -> Held | None:
    """A value that one of the ranks keeps while the others have zeros: parts of a sum."""
    found = _chosen(lifter, op)
    if found is None:
        return None
    chosen, kept, takes_true = found
    held = lifter.out.held.get(kept)
    positions = lifter.grid.varying(chosen)
    if held is None or held.along is not None or any(not isinstance(held.mesh[p], Repl) for p in positions):
        return None
    if any(value.size and value.min() != value.max() for value in chosen.values()):
        return None
    takes = {rank for rank, value in chosen.items() if bool(value.ravel()[:1].any()) is takes_true}
    places = [tuple(x for p, x in enumerate(lifter.grid.coordinates[rank]) if p not in positions) for rank in takes]
    others = lifter.grid.mesh.size // prod(lifter.grid.sizes[p] for p in positions)
    if len(set(places)) != len(places) or len(places) != others:
        return None
    mesh = tuple(Pending("sum", e.size) if p in positions else e for p, e in enumerate(held.mesh))
    return replace(held, mesh=mesh, free=frozenset())
