"""Constants that count something: read as the size that they count.

An index is compared with and moved by numbers of the dim it points into: 19 is `seq - 1` where positions run to 20 =
seq. A sum is divided by the number of its summands: 1/160 of a sum over 8 x 5 x 4 elements is `1/(4*batch*seq)`. A
constant of the distributed program is first what that of the baseline is for which it stands. All others stay numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from scalify_dl.ir.expression import Expression
from scalify_dl.ir.vocabulary import words

from .align import NoSymbolicForm
from .decide import Decisions
from .family import Choice
from .shapes import attribute, dim, step
from .unify import Cell
from .wiring import Op

INDEX_OPS = words(
    """add subtract compare select minimum maximum clamp broadcast reshape transpose convert slice concatenate negate
    pad multiply remainder floor-divide divide iota all-gather"""
)
"""Ops that make positions of positions."""
THROUGH = words("convert broadcast reshape transpose multiply divide negate collective-permute")
"""Ops that leave the number of summands as it is."""
ONE = Expression.number(1)


class Counts:
    """Formulas of constants (`literals`), of numbers by rank and of ranges."""

    def __init__(self, decisions: Decisions) -> None:
        self.i = inference = decisions.i
        self.decisions = decisions
        self.wiring, self.unifier = inference.wiring, inference.unifier
        self.literals: dict[str, Expression] = {}
        self._value: dict[str, Fraction] = {t: Fraction(n, d) for t, n, d in inference.facts["literal_rational"]}
        self._parent: dict[str, str] = {}
        self._extents: dict[str, set[Expression]] = {}
        self._ranked: set[str] = set()
        self._ranks: set[str] = set()
        """Constants that are divisors of ranks."""
        self._tables = {tensor for tensor, _ in inference.facts["literal"]} - self._value.keys()
        self._spaces()
        self._coordinates()
        for of_base in (True, False):
            ops = [op for op in self.wiring.order if self.wiring.is_base(op) == of_base]
            for op in ops:
                if op.kind == "constant" or op.by_rank:
                    self._position(op)
            for op in ops:
                if op.kind in ("multiply", "divide"):
                    self._share(op)
        for tensor, *_ in inference.facts["range"]:
            for column in (1, 2):
                self._settle(("range", tensor, column), tensor, "")
        for cell in self.unifier.value:
            if self.unifier.formula(cell) is None:
                self.unifier.constant(cell)

    # ---- positions ----

    def _find(self, tensor: str) -> str:
        root = tensor
        while self._parent.setdefault(root, root) != root:
            root = self._parent[root]
        self._parent[tensor] = root
        return root

    def _spaces(self) -> None:
        """Which whole numbers are positions in the same dims, and the sizes of these."""
        inside: list[tuple[str, Cell]] = []
        ranked: list[str] = []
        for op in self.wiring.order:
            whole = [t for t in (*op.operands, *op.results) if self.wiring.dtype[t][0] in "su"]
            if op.kind in INDEX_OPS:
                for tensor in whole[1:]:
                    self._parent[self._find(tensor)] = self._find(whole[0])
            if op.kind == "iota":
                inside.append((op.results[0], dim(op.results[0], op.number("dimension", 0))))
            elif op.kind in ("gather", "scatter"):
                key = "start_index_map" if op.kind == "gather" else "scatter_dims_to_operand_dims"
                inside += [(op.operands[1], dim(op.operands[0], i)) for i in op.list(key)]
            elif op.kind in ("dynamic-slice", "dynamic-update-slice"):
                starts = op.operands[1 if op.kind == "dynamic-slice" else 2 :]
                block = op.results[0] if op.kind == "dynamic-slice" else op.operands[1]
                for i, start in enumerate(starts):
                    inside += [(start, dim(op.operands[0], i)), (start, dim(block, i))]
            if op.by_rank and op.results:
                ranked += [t for t in op.results if self.wiring.dtype[t][0] in "su"]
        for tensor, cell in inside:
            formula = self.unifier.formula(cell)
            if formula is not None:
                self._extents.setdefault(self._find(tensor), set()).add(formula)
        self._ranked = {self._find(tensor) for tensor in ranked}

    def extents(self, tensor: str) -> set[Expression]:
        """Sizes of the dims that whole numbers point into."""
        return self._extents.get(self._find(tensor), set())

    def _coordinates(self) -> None:
        """Ranks divided by, and modulo, sizes of axes: `rank // 4 % 2` is a position along axes."""
        axes = self.wiring.axes
        spans: dict[str, tuple[int, int]] = {}
        for op in self.wiring.order:
            if op.kind in ("partition-id", "replica-id"):
                spans[op.results[0]] = 0, len(axes)
                continue
            if op.kind in ("dynamic-slice", "gather"):
                self._entry_per_rank(op, spans)
            span = spans.get(op.operands[0]) if op.operands else None
            if span is None or not op.results:
                continue
            if op.kind in ("convert", "reshape", "broadcast"):
                spans[op.results[0]] = span
                continue
            tensor = self._constant(op.operands[1]) if op.kind in ("divide", "floor-divide", "remainder") else None
            if tensor is None:
                continue
            first, last = span
            for at in range(first, last + 1):  # the ranks along the minor axes from `at` on
                size = self.unifier.multiplied([("axis", axis) for axis in axes[at:last]])
                if size.at(self.i.point) == self._value[tensor]:
                    spans[op.results[0]] = (at, last) if op.kind == "remainder" else (first, at)
                    self._ranks.add(tensor)
                    self._count(self.wiring.maker[tensor], tensor, size, "counts ranks")
                    break

    def _entry_per_rank(self, op: Op, spans: Mapping[str, tuple[int, int]]) -> None:
        """An error where a table has an entry for every rank along an axis that is a symbol."""
        table = op.operands[0]
        for tensor in op.operands[1:]:
            span = spans.get(tensor)
            axes = self.wiring.axes[slice(*span)] if span else []
            if table in self._tables and any(axis in self.i.axes for axis in axes):
                raise NoSymbolicForm(
                    f"the table {self.i.name(table)} has an entry for every rank along {', '.join(axes)}: it has no"
                    " symbolic form",
                    hint="compute the number from the rank (axis index times block size)",
                )

    def _candidates(self, tensor: str, value: int | Fraction) -> set[Expression]:
        """Sizes, and last positions, of dims that a position points into; with axes, where it is of all ranks."""
        space = self._find(tensor)
        found = set()
        for extent in self._extents.get(space, ()):
            ranked = space in self._ranked
            wider = [Expression.symbol(axis) for axis in self.i.axes if ranked and axis in extent.symbols]
            for size in (extent, *(extent * axis for axis in wider)):
                for formula in (size, size - ONE, ONE - size, ONE - size - ONE):
                    if formula.at(self.i.point) == value:
                        found.add(formula)
        return found

    def _position(self, op: Op) -> None:
        """A constant, or what depends on the rank."""
        for key, position in op.by_rank:
            for cell in (attribute(op, key, position), *(step(op, key, position, axis) for axis in self.wiring.axes)):
                if cell in self.unifier.value:
                    self._settle(cell, op.results[0], op.name)
        for tensor in op.results:
            if tensor in self._value and tensor not in self.literals and tensor not in self._ranks:
                value = self._value[tensor]
                if self._mirrors(op, tensor, value) or value.denominator != 1 or abs(value) < 2:
                    continue
                found = self._candidates(tensor, value)
                if len(found) == 1:
                    self._count(op, tensor, found.pop(), "counts positions")

    def _settle(self, cell: Cell, tensor: str, op: str) -> None:
        """A number beside tensors: a size that it may be, else a number."""
        if self.unifier.formula(cell) is not None:
            return
        value = self.unifier.value[cell]
        found = self._candidates(tensor, value) if abs(value) > 1 else set()
        formula = found.pop() if len(found) == 1 else Expression.number(value)
        self.unifier.decide(cell, formula)
        self.unifier.propagate()
        if formula.constant is None:
            self.decisions.choices.append(
                Choice(op, self.i.describe(cell), Fraction(value), formula, "counts positions")
            )

    def _mirrors(self, op: Op, tensor: str, value: Fraction) -> bool:
        """Whether the constant is that of the baseline."""
        base = self.i.counterparts.op.get(op.name)
        other = base.results[0] if base and base.results else ""
        if other not in self._value:
            return False
        formula = self.literals.get(other)
        if formula is None:
            return self._value[other] == value
        scaled = self.decisions.related(value, formula)
        if scaled is not None:
            self._count(op, tensor, scaled, "as in the baseline")
        return scaled is not None

    def _count(self, op: Op, tensor: str, formula: Expression, why: str) -> None:
        if formula.constant is None:
            self.literals[tensor] = formula
            what = f"the constant {self.i.name(tensor)}"
            self.decisions.choices.append(Choice(op.name, what, self._value[tensor], formula, why))

    # ---- means ----

    def _share(self, op: Op) -> None:
        """x * (1/n) and x / n, where x is a sum of n."""
        for at, x in ((1, 0), (0, 1)):
            if at == 0 and op.kind == "divide":
                continue
            tensor = self._constant(op.operands[at])
            if tensor is None or tensor in self.literals or self._value[tensor] in (-1, 0, 1):
                continue
            wanted = self._value[tensor] if op.kind == "divide" else 1 / self._value[tensor]
            found = {count for count in self._summands(op.operands[x]) if count.at(self.i.point) == wanted}
            maker = self.wiring.maker[tensor]
            if len(found) == 1 and not self._mirrors(maker, tensor, self._value[tensor]):
                count = found.pop()
                self._count(maker, tensor, count if op.kind == "divide" else ONE / count, "counts summands")

    def _constant(self, tensor: str) -> str | None:
        """The constant that a tensor repeats."""
        while tensor not in self._value:
            op = self.wiring.maker.get(tensor)
            if op is None or op.kind not in ("broadcast", "reshape", "convert"):
                return None
            tensor = op.operands[0]
        return tensor

    def _summands(self, tensor: str) -> Iterator[Expression]:
        """How many values are summed in a tensor: by the last sum, the last two, …"""
        count = ONE
        while (op := self.wiring.maker.get(tensor)) is not None:
            factors = self._summed(op)
            if factors:
                count = count * self.unifier.multiplied(factors)
                yield count
                if not count.is_term:
                    return
            elif op.kind not in THROUGH:
                return
            tensors: Iterable[str] = op.operands
            tensor = next((t for t in tensors if self._constant(t) is None), "")

    def _summed(self, op: Op) -> list[Cell]:
        if op.symbols.get("reducer") != "sum":
            return []
        if op.kind == "reduce":
            return [dim(op.operands[0], i) for i in op.list("dimensions")]
        if op.kind in ("all-reduce", "reduce-scatter"):
            return [("axis", axis) for axis in self.wiring.group_axes(op) or ()]
        return []
