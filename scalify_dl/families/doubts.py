"""What one capture does not tell: numbers that may be formulas of the sizes.

A baseline that scales by `head ** -0.5` and a distributed program that scales by 0.25 are the same text at heads of
16. So a number that could be a size, one over it, its root, or a part of it, and on which outputs rest, is told, and
needs a second capture. So is one that is read as a formula where nothing but its value says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fractions import Fraction

from scalify_dl.ir.expression import Expression

from . import guesses
from .certain import WRITTEN, Certain
from .shapes import SIZED, attribute, dim
from .single import Reading
from .wiring import Op

ONE = Expression.number(1)
READINGS = 3
"""Most readings of a number that are told."""
WHOLE = re.compile(r"(?<![\w.])-?[0-9]{1,9}(?![\w.])")
"""Whole numbers in texts of opaque calls."""
WITHIN = {"slice": ("start", "limit"), "dynamic-slice": ("sizes",), "gather": ("slice_sizes",), "pad": ("low", "high")}
"""Numbers of ops that count elements of the same dim of the operand."""


class Doubts:
    """The doubts of a reading, in words: `found`. `told`: sizes of which the text itself says what depends on them."""

    def __init__(self, reading: Reading, told: Collection[str] = ()) -> None:
        self.reading = reading
        self.told = set(told)
        self.inference = reading.inference
        self.texts: dict[str, str] = dict(self.inference.facts["literal"])
        self.wiring, self.unifier = self.inference.wiring, self.inference.unifier
        self.axes = set(self.inference.axes)
        self.sizes = [s.name for s in reading.symbols if not s.axis and s.name not in self.told]
        reached = self._reached()
        self.found = list(dict.fromkeys(self._all(reached)))

    def _reached(self) -> set[str]:
        """Ops on which checked outputs rest; those of regions, too."""
        waiting = [t for dist, base, _ in self.inference.facts["expect"] for t in (dist, base)]
        seen: set[str] = set()
        tensors: set[str] = set()
        while waiting:
            tensor = waiting.pop()
            if tensor in tensors:
                continue
            tensors.add(tensor)
            op = self.wiring.maker.get(tensor)
            if op is not None and op.name not in seen:
                seen.add(op.name)
                waiting += op.operands
                waiting += [t for graph in op.regions for t in self.wiring.outputs.get(graph, ())]
        return seen

    def _all(self, reached: set[str]) -> Iterator[str]:
        yield from self._read_so(reached)
        for tensor in self.reading.plain():
            op = self.wiring.maker[tensor]
            if op.name in reached:
                value = self.reading.values[tensor]
                what = f"the constant {self.inference.name(tensor)} ({self.texts[tensor]})"
                yield from self._told(what, value, op)
        for op in self.wiring.order:
            if op.name in reached:
                yield from self._parts(op)
                yield from self._written(op)
                yield from self._scale(op)

    def _read_so(self, reached: set[str]) -> Iterator[str]:
        """Numbers and constants that are read as formulas, and may be numbers."""
        for op, cell, formula in Certain(self.reading).supposed():
            if op.name in reached and formula.symbols - self.told:
                what = f"{self.inference.describe(cell)} ({self.unifier.value[cell]})"
                yield f"{what} may be a number, or {formula}"
        for tensor, formula in self.reading.literals.items():
            if self.wiring.maker[tensor].name in reached and formula.symbols - self.told:
                what = f"the constant {self.inference.name(tensor)} ({self.texts[tensor]})"
                yield f"{what} may be a number, or {formula}"

    def _told(self, what: str, value: Fraction, op: Op) -> Iterator[str]:
        """A number that may be a formula of sizes, those that have other sizes than the mesh first."""
        readings = sorted(self._readings(value, self.wiring.is_base(op)), key=lambda found: found[1] <= self.axes)
        spans = [str(e) for e in self._spans(op) if value.denominator == 1 and abs(value) > 1]
        if readings:
            words = dict.fromkeys(text for text, _ in readings[:READINGS])
            yield f"{what} may be a number, or {' or '.join(words)}"
        elif spans:
            yield f"{what} may be a number, or a part of {' or '.join(sorted(spans)[:READINGS])}"

    def _readings(self, value: Fraction, of_base: bool) -> Iterator[tuple[str, frozenset[str]]]:
        """What a number may be: formulas in words, the plain ones first, with their symbols."""
        value = abs(value)
        for formula in sorted(self.reading.counted.get(value, ()), key=lambda f: (len(str(f)), str(f))):
            if self._possible(formula, of_base):
                yield str(formula), formula.symbols
        for name in self.sizes:
            if (words := guesses.part(value, self.reading.point[name], name)) is not None:
                yield words, frozenset({name})
        for known, formulas in self.reading.counted.items():
            for formula in formulas if known.denominator == 1 and known > 1 else ():
                if self._possible(formula, of_base):
                    words = guesses.function(value, int(known), str(formula), formula.is_term)
                    if words is not None:
                        yield words, formula.symbols

    def _spans(self, op: Op) -> Iterator[Expression]:
        """Sizes of the dims that a position points into, where a text does not say what depends on them."""
        if op.kind == "constant" and self.wiring.dtype[op.results[0]][0] in "su":
            for extent in self.reading.extents(op.results[0]):
                if extent.symbols - self.told - (self.axes if self.wiring.is_base(op) else set()):
                    yield extent

    def _possible(self, formula: Expression, of_base: bool) -> bool:
        """The baseline knows nothing of the mesh, a text with open sizes shows what depends on them."""
        return not formula.symbols & (self.told | (self.axes if of_base else set()))

    def _parts(self, op: Op) -> Iterator[str]:
        """Numbers of elements along a dim that has other sizes."""
        counted = [(key, i, dim(op.operands[0], i)) for key in WITHIN.get(op.kind, ()) for i in op.numbers.get(key, {})]
        if op.kind == "top-k":
            counted.append(("k", 0, dim(op.operands[0], len(self.wiring.shape[op.operands[0]]) - 1)))
        for key, i, whole in counted:
            formula, extent = (self.unifier.formula(cell) for cell in (attribute(op, key, i), whole))
            if formula is None or extent is None or formula.constant is None or extent.symbols <= self.told:
                continue
            if abs(formula.constant) > 1:
                what = f"{key} {i} of {self.inference.name(op.name)}"
                yield f"{what} ({formula} of {extent}) may be a number, or a part of it"
        if op.kind.startswith(("custom:", "unknown:")):
            for key, values in op.numbers.items():
                for i, value in values.items() if key not in SIZED else ():
                    if abs(value) > 1:
                        what = f"{key} {i} of {self.inference.name(op.name)} ({value})"
                        yield from self._told(what, Fraction(value), op)
            for key, text in op.symbols.items():
                for word in WHOLE.findall(text):
                    what = f"{word} in {key} of {self.inference.name(op.name)}"
                    yield from self._told(what, Fraction(word), op) if abs(int(word)) > 1 else ()

    def _written(self, op: Op) -> Iterator[str]:
        """Dims that the program writes and that no input has."""
        for cell in self.reading.written if op.kind in WRITTEN else ():
            if cell[0] == "dim" and cell[1] in op.results and self.unifier.value[cell] > 1:
                value = self.unifier.value[cell]
                yield from self._told(f"{self.inference.describe(cell)} ({value})", Fraction(value), op)

    def _scale(self, op: Op) -> Iterator[str]:
        """The factor of the scores of attention."""
        if "scale" in op.symbols:
            try:
                value = Fraction(op.symbols["scale"])
            except ValueError:
                return
            if value not in (0, 1):
                yield from self._told(f"the scale of {self.inference.name(op.name)} ({value})", value, op)
