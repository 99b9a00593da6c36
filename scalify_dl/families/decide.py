"""What equations leave open in one capture, decided: what its numbers are at other sizes.

Each decision is followed by what follows from it. Of the baseline first, then of the distributed program: a distributed
op relates to the op of the baseline that it stands for as their numbers do (4 for 8 heads on 2 ranks: 8/tp); a dim that
was merged splits as it was; factors of a size keep its symbols whole; whole slices stay whole, slices that meet keep
meeting. What the program writes and what nothing relates to a symbol are numbers, then other dims of inputs. Decisions
that make a number a formula are in `Decisions.choices`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from scalify_dl.errors import InputError
from scalify_dl.ir.expression import Expression, monomial
from scalify_dl.ir.layout import parse_piece

from .family import Choice
from .infer import SECOND, Inference
from .shapes import attribute, dim, step
from .unify import Cell, Contradiction
from .wiring import Op

ONE = Expression.number(1)


@dataclass(frozen=True)
class _Split:
    """A reshape that splits a size, and the ways to do it."""

    op: Op
    cells: list[Cell]
    ways: list[tuple[Expression, ...]]


class Decisions:
    """Decides what is open in an inference."""

    def __init__(self, inference: Inference) -> None:
        self.i = inference
        self.unifier = inference.unifier
        self.choices: list[Choice] = []
        self.written: list[Cell] = []
        """Numbers that programs write and that are read as numbers, though nothing says so."""
        self._known_splits: dict[tuple[Expression, tuple[int, ...]], tuple[Expression, ...]] = {}
        try:
            self._decide()
        except Contradiction as error:
            raise inference.contradiction(error) from None

    def _decide(self) -> None:
        base = [op for op in self.i.wiring.order if self.i.wiring.is_base(op)]
        inputs = [
            dim(tensor, i)
            for graph, role in self.i.wiring.role.items() if role == "base"
            for tensor in self.i.wiring.inputs.get(graph, ()) for i in range(len(self.i.wiring.shape[tensor]))
        ]  # fmt: skip
        if all(symbol.axis for symbol in self.i.symbols):  # nothing of the baseline depends on an axis
            self._constants([*inputs, *(cell for op in base for cell in self._own(op))])
        self._constants(self.unifier.unrelated(inputs))
        self._windows()
        self._ops(base, inputs)
        self._ops([op for op in self.i.wiring.order if not self.i.wiring.is_base(op)], [])
        self._constants([cell for cell in self.unifier.value if cell[0] not in ("range", "rank")])
        for cell in inputs:
            formula = self.unifier.formula(cell)
            if formula is not None and formula.symbols & set(self.i.axes):  # which the baseline knows nothing of
                what = self.i.describe(cell)
                self.choices.append(Choice("", what, Fraction(self.unifier.value[cell]), formula, "follows the mesh"))

    def _constants(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            if self.unifier.formula(cell) is None:
                self.unifier.constant(cell)
                self.unifier.propagate()

    def _own(self, op: Op) -> list[Cell]:
        """Numbers of an op: its attributes, dims of its results, and of a reshape those of its operand."""
        tensors = op.results if op.kind != "reshape" else [*op.results, *op.operands]
        cells = [dim(tensor, i) for tensor in tensors for i in range(len(self.i.wiring.shape[tensor]))]
        cells += [("attr", op.name, key, i) for key, values in op.numbers.items() for i in values]
        for key, i in op.by_rank:
            cells += [attribute(op, key, i), *(step(op, key, i, axis) for axis in self.i.wiring.axes)]
        return [cell for cell in cells if cell in self.unifier.value]

    def _ops(self, ops: Sequence[Op], inputs: Sequence[Cell]) -> None:
        """Decides what is open in these ops: what speaks for itself everywhere first, then one number at a time, of
        inputs before those that the program writes."""
        waiting = list(ops)
        while waiting := [op for op in waiting if self.unifier.open(self._own(op))]:
            progress = False
            for op in waiting:
                self.i.now = op.name
                progress |= self._obvious(op)
            if progress:
                continue
            free = self.unifier.open(inputs) + [cell for op in waiting for cell in self._written(op)]
            if alone := self.unifier.unrelated(free):
                self.written += [cell for cell in alone if cell not in inputs]
                self._constants(alone)
                continue
            rest = [cell for op in waiting for cell in self.unifier.open(self._own(op)) if cell[0] != "rank"]
            chosen = self._first((*free, *rest))
            if chosen is None:
                self._split_is_told(waiting)
                if not rest:
                    return
            tied = self.unifier.open(inputs)
            self._constants([chosen or rest[0]])
            if self.unifier.open(inputs) == tied:  # dims of inputs are shown as they are read
                self.written.append(chosen or rest[0])

    def _first(self, cells: Sequence[Cell]) -> Cell | None:
        """What is multiplied with a size, else what is no multiple of one: batch * 16 rather than 128 / batch."""
        second, seen = None, set()
        for cell in cells:
            root = self.unifier.find(cell)
            if root not in seen:
                seen.add(root)
                score = self.unifier.beside_size(cell)
                if score > 0:
                    return cell
                if score == 0 and second is None:
                    second = cell
        return second

    def _obvious(self, op: Op) -> bool:
        """Decides numbers of an op for which something speaks; whether there were any."""
        before = len(self.choices), len(self.unifier.open(self._own(op)))
        self._by_counterpart(op)
        if op.kind == "reshape":
            self._split(op)
        elif op.kind == "slice":
            self._slice(op)
        elif op.kind in ("gather", "reduce-window", "convolution"):
            self._whole(op)
        elif op.kind.startswith(("custom:", "unknown:")):
            self._opaque(op)
        elif op.kind == "pad":
            self._zeros(op, ("low", "high", "interior"))
        return (len(self.choices), len(self.unifier.open(self._own(op)))) != before

    def _choose(self, op: Op, cell: Cell, formula: Expression, why: str) -> None:
        if self.unifier.formula(cell) is None and formula.at(self.i.point) == self.unifier.value[cell]:
            self._note(op, cell, formula, why)
            self.unifier.decide(cell, formula)
            self.unifier.propagate()

    def _note(self, op: Op, cell: Cell, formula: Expression, why: str) -> None:
        if formula.constant is None:
            what = self.i.describe(cell)
            self.choices.append(Choice(op.name, what, Fraction(self.unifier.value[cell]), formula, why))

    def _by_counterpart(self, op: Op) -> None:
        base = self.i.counterparts.op.get(op.name)
        if base is None:
            return
        for cell in self.unifier.open(self._own(op)):
            other = self._mirrored(cell, op, base)
            formula = self.unifier.formula(other) if other in self.unifier.value else None
            if formula is None:
                continue
            scaled = self.related(self.unifier.value[cell], formula)
            if scaled is not None:
                self._choose(op, cell, scaled, "as in the baseline")

    @staticmethod
    def _mirrored(cell: Cell, op: Op, base: Op) -> Cell:
        if cell[0] == "dim":
            mine, theirs = (*op.results, *op.operands), (*base.results, *base.operands)
            return ("dim", dict(zip(mine, theirs, strict=False)).get(str(cell[1])), cell[2])
        return (cell[0], base.name, *cell[2:])

    def related(self, value: int | Fraction, formula: Expression) -> Expression | None:
        """The formula times or divided by axes that has this value; None where there is none, or several."""
        there = formula.at(self.i.point)
        if value == there:
            return formula
        found = []
        for powers in product((0, 1, -1), repeat=len(self.i.axes)):
            factor = Expression.of([(monomial(dict(zip(self.i.axes, powers, strict=True))), 1)])
            if there * factor.at(self.i.point) == value:
                found.append(formula * factor)
        return found[0] if len(found) == 1 and value else None

    # ---- splitting a size ----

    def _split(self, op: Op) -> None:
        for split in self._splits(op):
            # one element may be a dim or what is left of one
            if len(split.ways) == 1 and all(self.unifier.value[cell] != 1 for cell in split.cells):
                for cell, formula in zip(split.cells, split.ways[0], strict=True):
                    self._choose(op, cell, formula, "the only way to split the size")

    def _splits(self, op: Op) -> Iterator[_Split]:
        """Groups of a reshape of which one side is known; remembers those of which both are."""
        u = self.unifier
        x, out = op.operands[0], op.results[0]
        for here, there in self.i.groups[op.name]:
            sides: list[list[Cell]] = [[dim(x, i) for i in here], [dim(out, i) for i in there]]
            for known, other in (sides, sides[::-1]):
                if u.open(known):
                    continue
                total = u.multiplied(known)
                values = tuple(u.value[cell] for cell in other)
                if not u.open(other):
                    self._known_splits.setdefault((total, values), tuple(u.formula(c) or ONE for c in other))
                    continue
                remembered = self._known_splits.get((total, values))
                if remembered is not None:
                    yield _Split(op, other, [remembered])
                    continue
                rest = total
                missing = u.open(other)
                for cell in other:
                    formula = u.formula(cell)
                    if formula is not None and formula.is_term:
                        rest = rest / formula
                yield _Split(op, missing, _ways(rest, [u.value[cell] for cell in missing], self.i.point))

    # ---- other kinds ----

    def _slice(self, op: Op) -> None:
        """A slice to the end stays one, one from the start too; slices of a tensor that meet keep meeting."""
        u = self.unifier
        x = op.operands[0]
        for i in range(len(self.i.wiring.shape[x])):
            start, limit, stride = (attribute(op, key, i) for key in ("start", "limit", "stride"))
            size, whole = dim(op.results[0], i), dim(x, i)
            if stride in u.value:
                self._constants([stride])
            if u.value[start] == 0:
                self._constants([start])
            formula = u.formula(whole)
            if formula is not None and u.value[limit] == u.value[whole]:
                self._choose(op, limit, formula, "a slice to the end")
            block = u.formula(size)
            for axis in self.i.wiring.axes:  # ranks that read one block after the other
                cell = step(op, "start", i, axis)
                if block is not None and cell in u.value and abs(u.value[cell]) == u.value[size]:
                    sign = Expression.number(1 if u.value[cell] > 0 else -1)
                    self._choose(op, cell, block * sign, "blocks of ranks follow each other")
            for cell, key in ((start, "limit"), (limit, "start")):
                if u.formula(cell) is not None:
                    continue
                for user, position in self.i.wiring.users.get(x, ()):
                    other = attribute(user, key, i) if user.kind == "slice" and position == 0 else None
                    if other is not None and u.value[other] == u.value[cell] and (met := u.formula(other)) is not None:
                        self._choose(op, cell, met, "slices that meet")
                        break

    def _whole(self, op: Op) -> None:
        """Windows as long as the dim they are in stay so; others are numbers."""
        x = op.operands[0]
        key = "slice_sizes" if op.kind == "gather" else "window_size"
        for i in op.numbers.get(key, {}):
            cell = attribute(op, key, i)
            formula = self.unifier.formula(dim(x, i)) if dim(x, i) in self.unifier.value else None
            if formula is not None and self.unifier.value[cell] == self.unifier.value[dim(x, i)] != 1:
                self._choose(op, cell, formula, "the whole dim")
            elif self.unifier.value[cell] == 1:
                self._constants([cell])
        self._zeros(op, ("window_pad_low", "window_pad_high"))

    def _zeros(self, op: Op, keys: Sequence[str]) -> None:
        for key in keys:
            self._constants([c for i in op.numbers.get(key, {}) if self.unifier.value[c := attribute(op, key, i)] == 0])

    def _opaque(self, op: Op) -> None:
        """An op without shape rule: dims of its results are those of the first operand of the same shape."""
        shape = self.i.wiring.shape
        for out in op.results:
            alike = next((x for x in op.operands if shape[x] == shape[out]), None)
            for i in range(len(shape[out]) if alike else 0):
                formula = self.unifier.formula(dim(str(alike), i))
                if formula is not None:
                    self._choose(op, dim(out, i), formula, "the shape of an operand of an opaque op")

    def _windows(self) -> None:
        """Pieces of inputs: from 0, or from where another one ends, to the end or to where another one starts."""
        u = self.unifier
        rows = self.i.facts["shard"]
        ends: dict[tuple[str, int, int], list[Cell]] = {}
        for row, (dist, here, base, there, *_) in enumerate(rows):
            for side, (tensor, text) in enumerate(((dist, here), (base, there))):
                for n, window in enumerate(parse_piece(text)):
                    whole = dim(tensor, window.dim)
                    for which, value in ((1, window.lo), (2, window.hi)):
                        cell: Cell = ("piece", row, side, n, which)
                        ends.setdefault((tensor, window.dim, value), []).append(cell)
                        formula = u.formula(whole)
                        if value == 0 or (side and formula is not None and formula.constant is not None):
                            self._constants([cell])
                        if value == u.value[whole]:
                            u.same(cell, whole)
        for cells in ends.values():
            for cell in cells[1:]:
                u.same(cells[0], cell)
        u.propagate()

    def _written(self, op: Op) -> list[Cell]:
        """Numbers that the program itself gives and that do not follow from its operands, as far as they are open."""
        free = self.unifier.open(self._own(op))
        if op.kind in ("broadcast", "iota", "constant"):
            return [cell for cell in free if cell[0] == "dim"]
        known = all(not self.unifier.open([dim(x, i)]) for x in op.operands for i in range(len(self.i.wiring.shape[x])))
        return [cell for cell in free if known and cell[0] == "attr"]

    def _split_is_told(self, ops: Sequence[Op]) -> None:
        """An error where a size splits in several ways."""
        for op in ops:
            for split in self._splits(op) if op.kind == "reshape" else ():
                if len(split.ways) > 1:
                    raise self._ambiguous(split)

    def _ambiguous(self, split: _Split) -> InputError:
        numbers = " and ".join(self.i.describe(cell) for cell in split.cells)
        values = ", ".join(str(self.unifier.value[cell]) for cell in split.cells)
        ways = " or ".join(", ".join(map(str, way)) for way in split.ways[:3])
        return self.i.error(
            split.op.name,
            f"{numbers} ({values}) may be {ways}: one capture does not tell",
            hint=f"{SECOND}, or name a size that does (--symbolic name=input:dim)",
        )


def _ways(total: Expression, values: Sequence[int], point: Mapping[str, int]) -> list[tuple[Expression, ...]]:
    """Ways to write a single term as a product with these values at a point: symbols are shared out whole, factors are
    whole numbers where that can be, and as few as can be."""
    if not total.is_term:
        return []
    ((powers, _),) = total.terms
    units = [(name, 1 if power > 0 else -1) for name, power in powers for _ in range(abs(power))]
    found: dict[tuple[Expression, ...], tuple[bool, int]] = {}
    for owners in product(range(len(values)), repeat=len(units)):
        terms = []
        for i, value in enumerate(values):
            mine = [unit for unit, owner in zip(units, owners, strict=True) if owner == i]
            share = monomial({name: sum(power for other, power in mine if other == name) for name, _ in mine})
            term = Expression.of([(share, 1)])
            terms.append(term * Expression.number(value / term.at(point)))
        factors = [term.terms[0][1] for term in terms]
        found[tuple(terms)] = any(f.denominator != 1 for f in factors), sum(f != 1 for f in factors)
    best = min(found.values())
    return [way for way, cost in found.items() if cost == best]
