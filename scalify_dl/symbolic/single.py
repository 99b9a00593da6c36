"""The family of one capture: its numbers are read by what the programs do with them (`infer`, `counts`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scalify_dl.facts.model import Facts

from .counts import Counts
from .decide import Choice, Decisions
from .expression import Expression, over
from .family import Family, SizeSymbol
from .infer import Inference
from .lift import Lifting
from .symbols import located
from .unify import Cell


@dataclass(frozen=True)
class Alternative:
    """A constant that is read as a number, and another reading of it."""

    cell: Cell
    what: str
    op: str
    value: Fraction
    formula: Expression


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
        self.inference = Inference(facts, point, cells)
        decisions = Decisions(self.inference)
        self.literals = Counts(decisions).literals
        self.choices: list[Choice] = decisions.choices
        """What equations leave open and is read as a formula."""

    def family(self, other: Alternative | None = None) -> Family:
        """The family; `other` is a reading of one number that takes the place of the one chosen."""
        literals = self.literals | ({str(other.cell[1]): other.formula} if other else {})

        def read(cell: Cell, values: Sequence[int | Fraction]) -> Expression:
            if cell[0] == "literal":
                if (formula := literals.get(str(cell[1]))) is not None:
                    return _sides(formula, self.point)[int(str(cell[2])) - 1]
                return Expression.number(values[0])
            return self._number(cell, values[0])

        return Lifting([self.inference.facts], [self.point], self.symbols, read).family()

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
                    yield tensor, [unifier.formula(cell) or Expression.number(unifier.value[cell]) for cell in cells]

    def alternatives(self) -> Iterator[Alternative]:
        """Constants read as numbers that are also a size, a size less one, or an axis, or one over it; those of the
        distributed program first."""
        wiring, unifier = self.inference.wiring, self.inference.unifier
        sizes = {f for cell in unifier.value if cell[0] in ("dim", "axis") and (f := unifier.formula(cell)) is not None}
        known: dict[Fraction, set[Expression]] = {}
        for size in sorted((f for f in sizes if f.constant is None), key=str):
            readings = [size, size - Expression.number(1)]
            if size.is_term:
                readings.append(Expression.number(1) / size)
            for formula in readings:
                known.setdefault(formula.at(self.point), set()).add(formula)
        values = {t: Fraction(n, d) for t, n, d in self.inference.facts["literal_rational"]}
        of = {tensor: op for tensor in values if (op := wiring.maker.get(tensor)) and tensor not in self.literals}
        for tensor, op in sorted(of.items(), key=lambda item: wiring.is_base(item[1])):
            if abs(values[tensor]) not in (0, 1):
                for formula in sorted(known.get(values[tensor], ()), key=lambda f: (len(str(f)), str(f))):
                    what = f"the constant {self.inference.name(tensor)}"
                    yield Alternative(("literal", tensor), what, op.name, values[tensor], formula)


def _sides(formula: Expression, point: Mapping[str, int]) -> tuple[Expression, Expression]:
    """Numerator and denominator; over 1 what is whole in the capture."""
    return (formula, Expression.number(1)) if formula.at(point).denominator == 1 else over(formula)
