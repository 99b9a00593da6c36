"""Terms as formulas of the algebra."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from scalify_dl.algebra import elementwise, extended, laws
from scalify_dl.algebra.cells import number, total
from scalify_dl.algebra.extended import Cell
from scalify_dl.algebra.form import Field, Form, Undecided

from .terms import UNDEFINED, Terms

_COMPARED = ("LT", "LE", "EQ", "NE")
_CLOSE = Fraction(1, 1 << 22)


class Formulas:
    """Cells of nodes, over the unknowns that `is_atom` names."""

    def __init__(self, terms: Terms, field: Field, is_atom: Callable[[int], bool]) -> None:
        self.terms, self.field, self.is_atom = terms, field, is_atom
        self.known: dict[int, Cell] = {}
        self.stands_for: dict[str, None] = {}
        """Constants that are taken for numbers which they are near to."""

    def cell(self, node: int) -> Cell:
        """A node as a formula; its operands first."""
        stack = [node]
        while stack:
            top = stack[-1]
            if top in self.known:
                stack.pop()
                continue
            missing = [a for a in self._below(top) if a not in self.known]
            if missing:
                stack += missing
                continue
            self.known[top] = self._made(top)
            stack.pop()
        return self.known[node]

    def _below(self, node: int) -> tuple[int, ...]:
        if self.terms.codes[node] <= 2 or self.is_atom(node):
            return ()
        if self.terms.names[self.terms.codes[node]].startswith("dot"):
            return tuple(x for pair in self.terms.dots.products(node) for x in pair)
        return self.terms.args(node)

    def _made(self, node: int) -> Cell:
        terms, field = self.terms, self.field
        if node == UNDEFINED:
            raise Undecided("memory that nothing has written")
        name = terms.names[terms.codes[node]]
        if name == "number":
            return self._number(terms.values[node])
        if self.is_atom(node) or (name not in _PLAIN and not _known(name)):
            return self._unknown(node)
        if name == "dot":
            pairs = terms.dots.products(node)
            return total(field, [extended.multiply(self.known[a], self.known[b]) for a, b in pairs])
        xs = [self.known[a] for a in terms.args(node)]
        if name == "add":
            return total(field, xs)
        if name in ("multiply", "maximum", "minimum"):
            result = xs[0]
            for x in xs[1:]:
                result = elementwise.BINARY[name](result, x)
            return result
        if name == "inverse":
            return laws.power(extended.finite(xs[0], "a division"), -1)
        if name == "exp2":
            return extended.exponential(extended.multiply(xs[0], ln2(field, 1)))
        if name == "log2":
            return extended.multiply(extended.logarithm(xs[0]), ln2(field, -1))
        if name == "select":
            return extended.choose(elementwise.truth(field, xs[0]), xs[1], xs[2])
        if name in _COMPARED:
            return elementwise.compared(name, *xs)
        if name in elementwise.TRUTHS:
            return elementwise.TRUTHS[name](*xs)
        if name == "power":
            return elementwise.BINARY["power"](*xs)
        if name in elementwise.UNARY:
            return elementwise.UNARY[name](xs[0])
        parts = tuple(x if isinstance(x, Form) else extended.finite(x, name) for x in xs)
        return laws.function(field, "kernel", (name, *parts))

    def _unknown(self, node: int) -> Form:
        kind = self.terms.names[self.terms.codes[node]]
        if kind in _COMPARED or kind in elementwise.TRUTHS:
            return self.field.of(self.field.element("flag", ("input", "node", node), nonnegative=True))
        if kind == "input" and self.terms.leaf(node)[2] == "pred":
            return self.field.of(self.field.element("flag", ("input", "node", node), nonnegative=True))
        return self.field.of(self.field.element("input", ("node", node)))

    def _number(self, value: Fraction | float) -> Cell:
        if isinstance(value, float):
            return number(self.field, value)
        return stood_for(self.field, value, self._has_powers_of_two, self.stands_for)

    @property
    def _has_powers_of_two(self) -> bool:
        return "exp2" in self.terms.code_of or "log2" in self.terms.code_of


def ln2(field: Field, exponent: int) -> Form:
    """A power of log 2, an unknown of its own."""
    return field.of(field.element("input", ("ln 2", 0), positive=True), exponent)


def stood_for(field: Field, value: Fraction, powers_of_two: bool, said: dict[str, None]) -> Form:
    """A constant, or what it is near to: the root of a small ratio, or, where there are powers of two, that times
    log2(e); `said` is what it is taken for."""
    if value.denominator < 4096:
        return field.constant(value)
    if powers_of_two:
        q = abs(value) * Fraction(math.log(2))
        ratio = (q * q).limit_denominator(256)
        if ratio and ratio.numerator < 256 and abs(q * q / ratio - 1) < _CLOSE:
            said[f"the constant {float(value)!r} stands for {math.sqrt(ratio):.6g} · log2(e)"] = None
            root = laws.constant_power(field, ratio, Fraction(1, 2)) * ln2(field, -1)
            return root if value > 0 else -root
    square = value * value
    ratio = square.limit_denominator(1024)
    if ratio and ratio.numerator < 4096 and abs(square / ratio - 1) < Fraction(1, 1 << 23):
        said[f"the constant {float(value)!r} stands for the root of {ratio}"] = None
        root = laws.constant_power(field, ratio, Fraction(1, 2))
        return root if value > 0 else -root
    return field.constant(value)


_PLAIN = frozenset(
    ["add", "multiply", "maximum", "minimum", "inverse", "exp2", "log2", "select", "dot", "power", "real"]
)


def _known(name: str) -> bool:
    """Kinds of real numbers and truths; integers are unknowns."""
    if name.startswith("round:"):
        return True
    return name in elementwise.UNARY or name in _COMPARED or name in elementwise.TRUTHS
