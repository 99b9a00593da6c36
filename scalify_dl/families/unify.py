"""Numbers of one capture as unknown formulas, and the equations between them.

Every number (`Cell`) has its value in the capture; the formula is found by propagation: cells that are the same share
one formula, in products and sums all but one known give the last. What equations leave open is decided from outside
(`decide`), one cell at a time; a cell with two formulas is a `Contradiction`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from scalify_dl.ir.expression import Expression

Cell = tuple[Hashable, ...]
"""What a number is, such as ("dim", tensor, position)."""


class Contradiction(ValueError):
    """Equations give a cell two formulas."""

    def __init__(self, cell: Cell, one: Expression, other: Expression) -> None:
        self.cell, self.one, self.other = cell, one, other
        super().__init__(f"{one} and {other}")


@dataclass(frozen=True, eq=False)
class Product:
    """The product of `left` is that of `right`."""

    left: tuple[Cell, ...]
    right: tuple[Cell, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell in it."""
        return (*self.left, *self.right)


@dataclass(frozen=True, eq=False)
class Total:
    """The cells times their coefficients, and a constant, are zero together."""

    terms: tuple[tuple[int, Cell], ...]
    constant: int

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell in it."""
        return tuple(cell for _, cell in self.terms)


class Unifier:
    """Cells, equations and what is known. Equations must hold of the values; one that does not is left out.

    `elsewhere` are values of the same cells in further captures, as far as they are known there.
    """

    def __init__(self, point: Mapping[str, int], elsewhere: Sequence[Mapping[Cell, int]] = ()) -> None:
        self.point = point
        self.elsewhere = elsewhere
        self.value: dict[Cell, int] = {}
        self._parent: dict[Cell, Cell] = {}
        self._formula: dict[Cell, Expression] = {}
        self._watch: dict[Cell, list[Product | Total]] = {}
        self._waiting: deque[Product | Total] = deque()

    def add(self, cell: Cell, value: int) -> Cell:
        """A cell with its value in the capture."""
        self.value[cell] = value
        self._parent.setdefault(cell, cell)
        return cell

    def find(self, cell: Cell) -> Cell:
        """The cell that stands for all that are the same."""
        root = cell
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[cell] != root:
            self._parent[cell], cell = root, self._parent[cell]
        return root

    def formula(self, cell: Cell) -> Expression | None:
        """What is known of a cell."""
        return self._formula.get(self.find(cell))

    def same(self, a: Cell, b: Cell) -> None:
        """Two cells are one number."""
        if self.value[a] != self.value[b] or not all(_equal(a, b, other) for other in self.elsewhere):
            return
        one, other = self.find(a), self.find(b)
        if one == other:
            return
        mine, theirs = self._formula.get(one), self._formula.get(other)
        if mine is not None and theirs is not None and mine != theirs:
            raise Contradiction(b, theirs, mine)
        self._parent[other] = one
        self._watch.setdefault(one, []).extend(self._watch.pop(other, []))
        if mine is not None or theirs is not None:
            self._formula[one] = mine or theirs  # type: ignore[assignment]
            self._waiting.extend(self._watch[one])

    def product(self, left: Iterable[Cell], right: Iterable[Cell]) -> None:
        """The product of some cells is that of others."""
        equation = Product(tuple(left), tuple(right))
        a, b = (prod(self.value[c] for c in side) for side in (equation.left, equation.right))
        if a != b or not a or not all(_multiplies(equation, other) for other in self.elsewhere):
            return
        if len(equation.left) == len(equation.right) == 1:
            self.same(equation.left[0], equation.right[0])
        else:
            self._add(equation)

    def total(self, terms: Iterable[tuple[int, Cell]], constant: int = 0) -> None:
        """Cells times coefficients, and a constant, are zero together."""
        equation = Total(tuple(terms), constant)
        if all(_adds_up(equation, values) for values in (self.value, *self.elsewhere)):
            self._add(equation)

    def _add(self, equation: Product | Total) -> None:
        for cell in equation.cells:
            self._watch.setdefault(self.find(cell), []).append(equation)
        self._waiting.append(equation)

    def decide(self, cell: Cell, formula: Expression) -> None:
        """A cell has this formula; what follows from it."""
        root = self.find(cell)
        known = self._formula.get(root)
        if known is not None:
            if known != formula:
                raise Contradiction(cell, known, formula)
            return
        if formula.at(self.point) != self.value[cell]:
            raise ValueError(f"{cell} is {self.value[cell]}, and {formula} is not")
        self._formula[root] = formula
        self._waiting.extend(self._watch.get(root, ()))

    def excludes(self, cell: Cell, formula: Expression) -> bool:
        """Whether equations and what is known contradict this formula of a cell. Decides nothing."""
        before = dict(self._formula)
        try:
            self.decide(cell, formula)
            self.propagate()
        except Contradiction:
            return True
        finally:
            self._formula = before
            self._waiting.clear()
        return False

    def constant(self, cell: Cell) -> None:
        """A cell is the number it is in the capture."""
        self.decide(cell, Expression.number(self.value[cell]))

    def open(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those of which nothing is known."""
        return [cell for cell in cells if self.formula(cell) is None]

    def unrelated(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those open cells that no chain of equations between open cells leads to a size that is no constant."""
        seen: dict[Cell, bool] = {}
        for cell in self.open(cells):
            if self.find(cell) in seen:
                continue
            reached, related, waiting = {self.find(cell)}, False, [self.find(cell)]
            while waiting:
                for equation in self._watch.get(waiting.pop(), ()):
                    for other in equation.cells:
                        root = self.find(other)
                        related |= self._varies(other)
                        if self.formula(other) is None and root not in reached:
                            reached.add(root)
                            waiting.append(root)
            seen |= dict.fromkeys(reached, related)
        return [cell for cell in self.open(cells) if not seen[self.find(cell)]]

    def beside_size(self, cell: Cell) -> int:
        """1 for an open cell that is multiplied with a size, -1 for one of which a size is a factor: were that one a
        number, others would be quotients; else 0."""
        root, found = self.find(cell), 0
        for equation in self._watch.get(root, ()):
            if isinstance(equation, Product):
                sides = [equation.left, equation.right]
                if any(self.find(c) == root for c in equation.right):
                    sides.reverse()
                here, there = (any(self._varies(c) for c in side) for side in sides)
                if there:
                    return -1
                found |= here
        return found

    def _varies(self, cell: Cell) -> bool:
        formula = self.formula(cell)
        return formula is not None and formula.constant is None

    def propagate(self) -> None:
        """Follows equations until they give nothing new."""
        while self._waiting:
            equation = self._waiting.popleft()
            if isinstance(equation, Product):
                self._multiply(equation)
            else:
                self._sum(equation)

    def _multiply(self, equation: Product) -> None:
        left, right = self._cancelled(equation.left, equation.right)
        unknown = self.open((*left, *right))
        if len(unknown) > 1:
            return
        if unknown and unknown[0] in right:
            left, right = right, left
        above, below = (self.multiplied(side, unknown) for side in (right, left))
        if unknown:
            quotient = _divided(above, below)
            if quotient is not None:
                self.decide(unknown[0], quotient)
        elif above != below:
            raise Contradiction(equation.cells[0], below, above)

    def multiplied(self, cells: Iterable[Cell], without: Sequence[Cell] = ()) -> Expression:
        """The product of what is known of cells."""
        total = Expression.number(1)
        for cell in cells:
            if cell not in without:
                total = total * (self.formula(cell) or Expression.number(self.value[cell]))
        return total

    def _cancelled(self, left: Sequence[Cell], right: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
        """Both sides without cells that are the same, or have the same formula."""
        rest = list(right)
        kept = []
        for cell in left:
            formula, root = self.formula(cell), self.find(cell)
            for other in rest:
                if self.find(other) == root or (formula is not None and self.formula(other) == formula):
                    rest.remove(other)
                    break
            else:
                kept.append(cell)
        return kept, rest

    def _sum(self, equation: Total) -> None:
        coefficients: dict[Cell, int] = {}
        total = Expression.number(equation.constant)
        for coefficient, cell in equation.terms:
            formula = self.formula(cell)
            if formula is None:
                root = self.find(cell)
                coefficients[root] = coefficients.get(root, 0) + coefficient
            else:
                total = total + Expression.number(coefficient) * formula
        left = {cell: c for cell, c in coefficients.items() if c}
        if len(left) == 1:
            ((cell, coefficient),) = left.items()
            self.decide(cell, total / Expression.number(-coefficient))
        elif not left and total.constant != 0:
            raise Contradiction(equation.cells[0], Expression.number(0), total)


def _equal(a: Cell, b: Cell, values: Mapping[Cell, int]) -> bool:
    """Whether two cells are the same in values, as far as they are known."""
    return a not in values or b not in values or values[a] == values[b]


def _multiplies(equation: Product, values: Mapping[Cell, int]) -> bool:
    """Whether a product holds of values, as far as they are known."""
    known = all(cell in values for cell in equation.cells)
    return not known or prod(values[c] for c in equation.left) == prod(values[c] for c in equation.right)


def _adds_up(equation: Total, values: Mapping[Cell, int]) -> bool:
    known = all(cell in values for cell in equation.cells)
    return not known or sum(c * values[cell] for c, cell in equation.terms) + equation.constant == 0


def _divided(above: Expression, below: Expression) -> Expression | None:
    """The quotient, where it is a sum of products."""
    if below.is_term:
        return above / below
    for powers, coefficient in above.terms:  # a multiple of the divisor by one term
        head, scale = below.terms[0]
        factor = Expression.of([(powers, coefficient)]) / Expression.of([(head, scale)])
        if below * factor == above:
            return factor
    return None
