"""The numbers of one capture and the equations between them, from which their formulas follow.

Symbols are put at the input dims and mesh axes that were named; the shape rules of all ops (`shapes`) and the
placements of inputs then determine most numbers. The rest is for `decide` and `counts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.expression import Expression
from scalify_dl.ir.layout import Digit, Layout, parse_piece

from .counterpart import Counterparts
from .family import SizeSymbol
from .shapes import SIZED, Group, Shapes, dim, groups_with_ones, minimal_groups, step
from .unify import Cell, Contradiction, Unifier
from .wiring import Op, Wiring

ONE = Expression.number(1)
SECOND = "give a second capture (--sample)"


class Inference:
    """One capture as equations; `unifier` knows what follows from them."""

    def __init__(
        self,
        facts: Facts,
        point: Mapping[str, int],
        symbols: Sequence[tuple[SizeSymbol, Cell]],
        elsewhere: Sequence[Mapping[Cell, int]] = (),
        bare: bool = False,
    ) -> None:
        """`elsewhere` has the numbers of further captures: an equation must hold there, too. `bare` leaves out what
        is only likely."""
        self.point = point
        self.symbols = [symbol for symbol, _ in symbols]
        self.axes = [symbol.name for symbol in self.symbols if symbol.axis]
        self.facts = _explicit(facts)
        self.wiring = Wiring(self.facts)
        self.names: dict[str, str] = dict(facts["tensor_name"])
        self.place: dict[str, tuple[str, int]] = {
            op: (file, line) for op, position, file, line, _ in facts["source"] if position == 0
        }
        self.unifier = Unifier(point, elsewhere)
        self.shapes = Shapes(self.wiring, self.unifier, bare)
        self.counterparts = Counterparts(self.wiring)
        self.groups: dict[str, list[Group]] = {}
        self.now = ""
        """The op at hand, for messages."""
        for name in (symbol.name for symbol in self.symbols if point[symbol.name] == 1):
            raise InputError(
                f"{name} is 1 in the capture, which tells nothing about larger sizes",
                hint=f"capture the programs at another {name}, or {SECOND}",
            )
        try:
            self._cells()
            self._seed(symbols)
            self._equations()
            self.unifier.propagate()
        except Contradiction as error:
            raise self.contradiction(error) from None

    # ---- cells and equations ----

    def _cells(self) -> None:
        for cell, value in numbers(self.facts, self.wiring):
            self.unifier.add(cell, value)

    def _seed(self, symbols: Sequence[tuple[SizeSymbol, Cell]]) -> None:
        for symbol, cell in symbols:
            self.unifier.decide(cell, Expression.symbol(symbol.name))
        for axis in self.wiring.axes:
            if axis not in self.axes:
                self.unifier.constant(("axis", axis))
        for op in self.wiring.order:
            if not op.kind.startswith(("custom:", "unknown:")):
                for key, values in op.numbers.items():
                    if key not in SIZED:
                        for position in values:
                            self.unifier.constant(("attr", op.name, key, position))
            if op.kind in ("partition-id", "replica-id"):  # row-major numbers of ranks
                self.unifier.constant(("rank", op.name, "value", 0, ""))
                for place, axis in enumerate(self.wiring.axes):
                    cell = step(op, "value", 0, axis)
                    minor = self.unifier.multiplied([("axis", a) for a in self.wiring.axes[place + 1 :]])
                    if cell in self.unifier.value and minor.at(self.point) == self.unifier.value[cell]:
                        self.unifier.decide(cell, minor)
        # items of a table are counted by its dims
        for tensor, text in self.facts["literal"]:
            if text.startswith("{") and text != "{...}":
                self._table(tensor)
        for tensor, _ in self.facts["literal_hash"]:
            self._table(tensor)

    def _table(self, tensor: str) -> None:
        self.now = self.wiring.maker[tensor].name if tensor in self.wiring.maker else tensor
        for position in range(len(self.wiring.shape[tensor])):
            self.unifier.constant(dim(tensor, position))

    def _equations(self) -> None:
        for row, (dist, here, base, there, text, _) in enumerate(self.facts["shard"]):
            local = self._extents(row, 0, dist, here)
            self._placement(("shard", row), Layout.parse(text), local, self._extents(row, 1, base, there))
        for row, (dist, base, text) in enumerate(self.facts["expect"]):
            if text:
                sizes = [[dim(t, i) for i in range(len(self.wiring.shape[t]))] for t in (dist, base)]
                self._placement(("expect", row), Layout.parse(text), *sizes)
        for op in self.wiring.order:
            self.now = op.name
            self.shapes.add(op)
            if op.kind == "reshape":
                self.groups[op.name] = self._groups(op)
                self.shapes.reshape(op, self.groups[op.name])

    def _groups(self, op: Op) -> list[Group]:
        """As those of the op that this one stands for, whose dims are not cut down to one element."""
        here, there = (self.wiring.shape[tensor] for tensor in (op.operands[0], op.results[0]))
        base = self.counterparts.op.get(op.name)
        if base is not None:
            groups = self.groups.get(base.name, [])
            if all(prod(here[i] for i in a) == prod(there[i] for i in b) for a, b in groups):
                return groups
        return minimal_groups(here, there) if self.wiring.is_base(op) else groups_with_ones(here, there)

    def _extents(self, row: int, side: int, tensor: str, text: str) -> list[Cell]:
        """Sizes of a piece of a tensor."""
        cells = [dim(tensor, i) for i in range(len(self.wiring.shape[tensor]))]
        for n, window in enumerate(parse_piece(text)):
            lo = self.unifier.add(("piece", row, side, n, 1), window.lo)
            hi = self.unifier.add(("piece", row, side, n, 2), window.hi)
            cells[window.dim] = self.unifier.add(("extent", row, side, n), window.hi - window.lo)
            self.unifier.total([(1, hi), (-1, lo), (-1, cells[window.dim])])
        return cells

    def _placement(self, name: tuple[str, int], layout: Layout, local: list[Cell], whole: list[Cell]) -> None:
        """Sizes of entries multiply to dims and axes; a digit's stride is the product of those below it."""
        u = self.unifier
        digits: dict[int, list[tuple[int, int, Cell, Cell]]] = {}
        places = [*((str(i), entries, local[i]) for i, entries in enumerate(layout.dims))]
        places += [(axis, entries, ("axis", axis)) for axis, entries in layout.axes]  # type: ignore[misc]
        for where, entries, total in places:
            sizes = []
            for n, entry in enumerate(entries):
                size = u.add(("layout", *name, where, n, "size"), entry.size)
                stride = u.add(("layout", *name, where, n, "stride"), getattr(entry, "stride", 0))
                sizes.append(size)
                if isinstance(entry, Digit) and entry.stride:
                    digits.setdefault(entry.dim, []).append((entry.stride, entry.size, stride, size))
                else:
                    u.constant(stride)
            u.product(sizes, [total])
        for base_dim, found in digits.items():
            found.sort(key=lambda digit: digit[:2])
            below: list[Cell] = []
            for _, _, stride, size in found:
                if below:
                    u.product([stride], below)
                elif u.value[stride] == 1:
                    u.constant(stride)
                below = [stride, size]
            u.product(below, [whole[base_dim]])

    # ---- messages ----

    def name(self, thing: str) -> str:
        """What people call an op or a tensor."""
        op = self.wiring.ops.get(thing)
        tensor = op.results[0] if op and op.results else thing
        return self.names.get(tensor, tensor)

    def describe(self, cell: Cell) -> str:
        """What people call a number."""
        if cell[0] == "dim":
            return f"dim {cell[2]} of {self.name(str(cell[1]))}"
        if cell[0] in ("attr", "rank"):
            key = "the step between ranks of" if cell[0] == "rank" and cell[4] else ""
            return f"{key} {cell[2]} {cell[3]} of {self.name(str(cell[1]))}".strip()
        if cell[0] in ("shard", "layout", "piece", "extent"):
            row = cell[2] if cell[0] == "layout" else cell[1]
            table = str(cell[1]) if cell[0] == "layout" else "shard"
            return f"the placement of {self.name(str(self.facts[table][int(str(row))][0]))}"
        return " ".join(map(str, cell))

    def error(self, op: str, message: str, expected: str | None = None, hint: str | None = None) -> InputError:
        """An error at the place of an op."""
        file, line = self.place.get(op, (None, 0))
        return InputError(message, file=file, line=line, expected=expected, hint=hint)

    def contradiction(self, error: Contradiction) -> InputError:
        """The error that a number has two formulas."""
        value = self.unifier.value[error.cell]
        op = str(error.cell[1]) if error.cell[0] in ("attr", "rank") else self.now
        if error.cell[0] == "dim" and (maker := self.wiring.maker.get(str(error.cell[1]))):
            op = maker.name
        return self.error(
            op,
            f"{self.describe(error.cell)} ({value}) is both {error.one} and {error.other}: the program has no other"
            " sizes, or one capture does not tell",
            hint=self._hint(),
        )

    def _hint(self) -> str:
        """What to do where numbers have two formulas."""
        ones = self.of_one_element()
        if ones:
            return f"{ones[0]} is 1 in the capture: choose sizes at which no dim of a rank's share has one element"
        return f"leave out a symbol, name one size once, or {SECOND}"

    def of_one_element(self) -> list[str]:
        """Formulas of dims that have one element in the capture, and perhaps not at other sizes."""
        ones = (cell for cell, value in self.unifier.value.items() if cell[0] == "dim" and value == 1)
        found = {formula for cell in ones if (formula := self.unifier.formula(cell)) is not None}
        return sorted(str(formula) for formula in found if formula.constant is None)


def numbers(facts: Facts, wiring: Wiring) -> Iterator[tuple[Cell, int]]:
    """The numbers of a capture, with what they are. Ids of ranks become numbers by rank."""
    for axis, _, size in facts["mesh_axis"]:
        yield ("axis", axis), size
    for tensor, position, size in facts["dim"]:
        yield dim(tensor, position), size
    for op, key, position, value in facts["attr_number"]:
        yield ("attr", op, key, position), value
    for name, _, kind in facts["op"]:
        if kind in ("partition-id", "replica-id"):
            wiring.ops[name].by_rank["value", 0] = {rank: rank for rank in wiring.ranks.all}
    ranks = wiring.ranks
    for call in wiring.order:
        for (key, position), values in call.by_rank.items():
            origin = ranks.at([], ())
            yield ("rank", call.name, key, position, ""), values[origin]
            for axis in wiring.axes:
                if ranks.size(axis) > 1:
                    yield step(call, key, position, axis), values[ranks.moved(origin, axis, 1)] - values[origin]
    for tensor, lo, hi, _ in facts["range"]:
        yield ("range", tensor, 1), lo
        yield ("range", tensor, 2), hi


def _explicit(facts: Facts) -> Facts:
    """The same facts, with placements that say what a dim of one element is: the share of a dim that is cut as often
    as it has elements."""
    shape: dict[str, int] = {row[0]: row[3] for row in facts["tensor"]}

    def written(text: str, dist: str, base: str) -> str:
        layout = Layout.parse(text)
        if shape[dist] != shape[base]:
            return text
        cut = {e.dim for _, entries in layout.axes for e in entries if isinstance(e, Digit) and e.stride == 1}
        dims = tuple(
            (Digit(i, 1, 1),) if not entries and i in cut else entries for i, entries in enumerate(layout.dims)
        )
        return str(Layout(dims, layout.axes, layout.scale))

    out = Facts(dict(facts.tables), facts.directory)
    out.tables["shard"] = [(*r[:4], written(r[4], r[0], r[2]), r[5]) for r in facts["shard"]]
    out.tables["expect"] = [(*r[:2], written(r[2], r[0], r[1]) if r[2] else "") for r in facts["expect"]]
    return out
