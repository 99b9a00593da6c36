"""The family of one capture: its numbers are read by what the programs do with them (`infer`, `counts`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import prod

from scalify_dl.facts.model import Facts
from scalify_dl.ir.expression import Expression, over

from .counts import Counts
from .decide import Decisions
from .family import Choice, Family, SizeSymbol
from .infer import Inference
from .lift import Lifting
from .symbols import located
from .unify import Cell
from .wiring import Op

ONE = Expression.number(1)
DIMS = 4
"""Most dims whose elements are counted together."""


@dataclass(frozen=True)
class Alternative:
    """Another reading of constants: their formulas, and in words, at an op."""

    op: str
    text: str
    literals: Mapping[str, Expression]


class Reading:
    """How one capture is read."""

    def __init__(
        self,
        facts: Facts,
        point: Mapping[str, int],
        symbols: Sequence[SizeSymbol],
        places: Mapping[str, str | None],
        also: Sequence[tuple[str, Cell]] = (),
    ) -> None:
        """`also` are further numbers that are a symbol, with its name."""
        self.point = point
        self.symbols = symbols
        cells: list[tuple[SizeSymbol, Cell]] = [(s, located(facts, s, places[s.name])) for s in symbols]
        named = {symbol.name: symbol for symbol in symbols}
        cells += [(named[name], cell) for name, cell in also]
        # what has no symbolic form, whatever the numbers are, is told first
        Lifting([facts], [point], symbols, lambda cell, values: Expression.number(values[0])).family()
        self.cells = cells
        self.inference = Inference(facts, point, cells)
        decisions = Decisions(self.inference)
        counts = Counts(decisions)
        self.literals = counts.literals
        self.extents = counts.extents
        self.choices: list[Choice] = decisions.choices
        """What equations leave open and is read as a formula."""
        self.written: list[Cell] = decisions.written
        """Numbers that programs write, that nothing decides, and that are read as numbers."""

    def family(self, other: Mapping[str, Expression] | None = None) -> Family:
        """The family; `other` are formulas of constants in place of those chosen."""
        literals = self.literals if other is None else other

        def read(cell: Cell, values: Sequence[int | Fraction]) -> Expression:
            if cell[0] == "literal":
                if (formula := literals.get(str(cell[1]))) is not None:
                    return _sides(formula, self.point)[int(str(cell[2])) - 1]
                return Expression.number(values[0])
            return self._number(cell, values[0])

        family = Lifting([self.inference.facts], [self.point], self.symbols, read).family()
        family.choices = self.choices
        return family

    def _number(self, cell: Cell, value: int | Fraction) -> Expression:
        unifier = self.inference.unifier
        if cell[0] == "rank" and len(cell) > 5:  # elsewhere on axes of fixed size
            plain: Cell = cell[:5]
            formula = unifier.formula(plain) or Expression.number(value)
            if cell[4] == "":
                for axis, coordinate in zip(self._fixed, cell[5:], strict=True):
                    weight = unifier.formula((*cell[:4], axis)) if coordinate else None
                    formula = formula + Expression.number(int(str(coordinate))) * (weight or Expression.number(0))
            return formula if formula.at(self.point) == value else Expression.number(value)
        known = unifier.formula(cell) if cell in unifier.value else None
        return Expression.number(value) if known is None else known

    @property
    def _fixed(self) -> list[str]:
        return [axis for axis in self.inference.wiring.axes if axis not in self.inference.axes]

    def inputs(self) -> Iterator[tuple[str, list[Expression]]]:
        """Inputs of both programs with their dims."""
        wiring, unifier = self.inference.wiring, self.inference.unifier
        regions = {graph for op in wiring.ops.values() for graph in op.regions}
        for graph, tensors in wiring.inputs.items():
            if graph not in regions:
                for tensor in tensors:
                    cells: list[Cell] = [("dim", tensor, i) for i in range(len(wiring.shape[tensor]))]
                    yield (
                        tensor,
                        [unifier.formula(cell) or Expression.number(unifier.value[cell]) for cell in cells],
                    )

    def alternatives(self) -> Iterator[Alternative]:
        """Constants that were read as sizes as numbers, all at once; then those that were read as numbers as counts of
        elements of some dims or of ranks, such a count less one, or one over it: all equal ones, and each."""
        wiring = self.inference.wiring
        if self.literals:
            first = next(iter(self.literals))
            text = f"{self._stated(first)}, read as {self.literals[first]}, may be a number, as others"
            yield Alternative(wiring.maker[first].name, text, {})
        alike: dict[Fraction, list[str]] = {}
        for tensor in self.plain():
            alike.setdefault(self.values[tensor], []).append(tensor)
        for value, tensors in alike.items():
            groups = [[tensor] for tensor in tensors]
            local = [tensor for tensor in tensors if not wiring.is_base(wiring.maker[tensor])]
            if len(local) > 1:
                groups.insert(0, local)
            for formula in sorted(self.counted.get(value, ()), key=lambda f: (len(str(f)), str(f))):
                for group in groups:
                    more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
                    text = f"{self._stated(group[0])}{more}, which may be a number, or {formula}"
                    literals = self.literals | dict.fromkeys(group, formula)
                    yield Alternative(wiring.maker[group[0]].name, text, literals)

    def _cut_up(self) -> Iterator[str]:
        """Dims of a size that slices of one written width take all of: as many as there are in the capture (loops that
        are written out)."""
        wiring, unifier = self.inference.wiring, self.inference.unifier
        cuts: dict[Cell, dict[int, Op]] = {}
        for op in wiring.order:
            if op.kind == "slice" and not op.by_rank:
                for i, start in op.numbers.get("start", {}).items():
                    cuts.setdefault(("dim", op.operands[0], i), {})[start] = op
        for cell, by_start in cuts.items():
            tensor, i = str(cell[1]), int(str(cell[2]))
            formula = unifier.formula(cell) if cell in unifier.value else None
            ends = [op.numbers["limit"][i] for _, op in sorted(by_start.items())]
            limit: Cell = ("attr", by_start[min(by_start)].name, "limit", i)
            width = unifier.formula(limit) if limit in unifier.value else None
            numbered = width is None or width.constant is not None
            extent = unifier.value.get(cell)
            if extent is None or formula is None or formula.constant is not None or not numbered or len(ends) < 2:
                continue
            if [*sorted(by_start), extent] == [0, *ends] and ends == [*range(ends[0], ends[-1] + 1, ends[0])]:
                all_of = f"{len(ends)} slices take all of dim {i} of {self.inference.name(tensor)}"
                yield f"{all_of} in the capture, and there may be more at other sizes"

    def _stated(self, tensor: str) -> str:
        return f"the constant {self.inference.name(tensor)} is {self.values[tensor]} in the capture"

    @cached_property
    def values(self) -> dict[str, Fraction]:
        """Scalar constants."""
        makers = self.inference.wiring.maker
        return {t: Fraction(n, d) for t, n, d in self.inference.facts["literal_rational"] if t in makers}

    def plain(self) -> list[str]:
        """Constants that are read as numbers, those of the distributed program first."""
        wiring = self.inference.wiring
        some = [t for t, v in self.values.items() if v not in (-1, 0, 1) and t not in self.literals]
        return sorted(some, key=lambda tensor: wiring.is_base(wiring.maker[tensor]))

    @cached_property
    def counted(self) -> dict[Fraction, set[Expression]]:
        """Formulas of elements along dims of a tensor, and of ranks, one less, one more, and one over them, by their
        values."""
        wiring, unifier = self.inference.wiring, self.inference.unifier
        found: set[tuple[Expression, ...]] = {tuple(unifier.multiplied([("axis", a)]) for a in wiring.axes)}
        for tensor, shape in wiring.shape.items():
            found.add(tuple(unifier.multiplied([("dim", tensor, i)]) for i in range(len(shape))))
        sizes: set[Expression] = set()
        for dims in found:
            for count in range(1, min(len(dims), DIMS) + 1):
                for some in combinations(dims, count):
                    if any(f.constant is None for f in some):
                        sizes.add(prod(some, start=ONE))
        known: dict[Fraction, set[Expression]] = {}
        for size in sizes:
            for formula in (
                size,
                size - ONE,
                size + ONE,
                *((ONE / size,) if size.is_term else ()),
            ):
                if formula.constant is None:
                    known.setdefault(formula.at(self.point), set()).add(formula)
        return known

    def doubts(self) -> list[str]:
        """Why programs that differ at other sizes may be another program that this capture is of, too."""
        wiring = self.inference.wiring
        out: dict[str, None] = {}
        both = {self.values[tensor] for tensor in self.plain() if wiring.is_base(wiring.maker[tensor])}
        for tensor in self.plain():
            value = self.values[tensor]
            if value not in both and value in self.counted:
                formula = min(self.counted[value], key=lambda f: (len(str(f)), str(f)))
                out[f"{self._stated(tensor)}, which may be a number, or {formula}"] = None
        for text in self._cut_up():
            out[text] = None
        for extent in self.inference.of_one_element():
            out[f"dims of {extent} have one element in the capture, as others that always have one"] = None
        return list(out)


def _sides(formula: Expression, point: Mapping[str, int]) -> tuple[Expression, Expression]:
    """Numerator and denominator; over 1 what is whole in the capture."""
    return (formula, Expression.number(1)) if formula.at(point).denominator == 1 else over(formula)
