"""How the numbers of several captures are read: by equations where they follow from the named sizes, else as the one
simple formula that fits.

Equations are those of one capture (`infer`), as far as they hold in every capture: a rank's share of `seq` is `seq/tp`
even where it happens to grow like `batch`. What no equation gives must fit one formula only (`fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.facts.schema import TABLES
from scalify_dl.ir.expression import Expression

from .align import Aligned
from .family import Choice, SizeSymbol
from .fit import Ambiguous, Fitter, NoFormula
from .infer import Inference, numbers
from .shapes import dim
from .symbols import located
from .unify import Cell, Contradiction
from .wiring import Wiring


class Several:
    """Formulas of the numbers of aligned captures: `read(cell, values)`."""

    def __init__(
        self,
        aligned: Aligned,
        points: Sequence[Mapping[str, int]],
        symbols: Sequence[SizeSymbol],
        places: Mapping[str, str | None],
    ) -> None:
        self.aligned = aligned
        self.fitter = Fitter(points)
        self.fitted: dict[Cell, tuple[Fraction, Expression]] = {}
        first, *others = aligned.captures
        renamed = [Facts({table: rows(table) for table in TABLES}) for rows in aligned.rows[1:]]
        self.inference: Inference | None = None
        try:
            cells = [(symbol, located(first, symbol, places.get(symbol.name))) for symbol in symbols]
            elsewhere = [dict(numbers(facts, Wiring(facts))) for facts in renamed]
            self.inference = Inference(first, points[0], cells, elsewhere)
            self._inputs(elsewhere)
            self._attributes(elsewhere)
        except (InputError, Contradiction, KeyError):  # equations that only hold by chance: then what fits
            self.inference = None
        assert len(others) == len(renamed)

    def _inputs(self, elsewhere: Sequence[Mapping[Cell, int]]) -> None:
        """Dims of the baseline's inputs that only one formula fits."""
        inference = self.inference
        assert inference is not None
        wiring, unifier = inference.wiring, inference.unifier
        for graph, role in wiring.role.items():
            for tensor in wiring.inputs.get(graph, ()) if role == "base" else ():
                for cell in (dim(tensor, i) for i in range(len(wiring.shape[tensor]))):
                    values = [unifier.value[cell], *(other[cell] for other in elsewhere)]
                    if unifier.formula(cell) is None:
                        try:
                            found = self.fitter.fit(values)
                        except (Ambiguous, NoFormula):
                            continue
                        unifier.decide(cell, found)
                        unifier.propagate()

    def _attributes(self, elsewhere: Sequence[Mapping[Cell, int]]) -> None:
        """Attributes that are the same in every capture are numbers."""
        assert self.inference is not None
        unifier = self.inference.unifier
        for cell in [cell for cell in unifier.value if cell[0] == "attr"]:
            alike = all(other.get(cell) == unifier.value[cell] for other in elsewhere)
            if alike and unifier.formula(cell) is None:
                unifier.constant(cell)
                unifier.propagate()

    def read(self, cell: Cell, values: Sequence[int | Fraction]) -> Expression:
        """The formula of a number; NoFormula or Ambiguous where there is not exactly one."""
        unifier = self.inference.unifier if self.inference else None
        told = unifier.formula(cell) if unifier and cell in unifier.value else None
        if told is not None and self.fitter.values(told) == tuple(map(Fraction, values)):
            self.fitter.know(told)
            return told
        found = self.fitter.fit(values)
        if cell[0] in ("literal", "rank"):
            self.fitter.told(found, values)
        if found.constant is None:
            self.fitted[cell] = Fraction(values[0]), found
        return found

    def choices(self) -> list[Choice]:
        """What was fitted, constants and attributes."""
        out = []
        for cell, (value, formula) in self.fitted.items():
            owner = str(cell[1])
            if cell[0] == "literal":
                what = f"the {'denominator of the ' if cell[2] == 2 else ''}constant {self.aligned.name(owner)}"
            elif cell[0] in ("attr", "rank"):
                step = f"the step along {cell[4]} of " if cell[0] == "rank" and cell[4] else ""
                what = f"{step}{cell[2]} {cell[3]} of {self.aligned.name(owner)}"
            elif cell[0] in ("dim", "range"):
                what = f"{cell[0]} {cell[2]} of {self.aligned.name(owner)}"
            else:
                what = "a placement"
            out.append(Choice(owner, what, value, formula, "fits the captures"))
        return out
