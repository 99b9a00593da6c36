"""Whether the programs of a family exist: the laws of all ops and placements (`laws`), at all sizes.

What must be one number must be one function of the sizes, else the formulas are wrong: an error. What must be at least
another number, or divide, bounds the sizes of the family.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.expression import Expression, cleared

from .family import Cell, Family, LayoutFormula, PieceFormula, RankFormula
from .laws import ONE, Call, Law, Shape, laws


class Extents:
    """The extents of a family's tensors, and what its ops and placements demand of them.

    InputError where they fit in the captures and not at other sizes.
    """

    def __init__(self, family: Family, point: Mapping[str, int]) -> None:
        """`point` are the sizes of a capture."""
        self.family = family
        self.point = point
        self.names: dict[str, str] = dict(family.tables.get("tensor_name", []))
        self.kinds: dict[str, str] = {op: kind for op, _, kind in family.tables["op"]}
        self.dtypes: dict[str, str] = {row[0]: row[2] for row in family.tables["tensor"]}
        self.operands = _by_owner(family, "operand")
        self.results = _by_owner(family, "result")
        found: dict[str, dict[int, Expression]] = defaultdict(dict)
        for tensor, dim, size in family.tables["dim"]:
            found[tensor][dim] = _formula(size)
        self.shapes: dict[str, Shape] = {t: [found[t][i] for i in range(len(found[t]))] for t in self.dtypes}
        self.sizes: set[Expression] = set()
        """Formulas that are at least 1 where no op takes more than there is."""
        self.integers: set[Expression] = set()
        """Formulas that are whole where what is dealt out divides evenly."""
        for op, law in self._laws():
            self._take(op, law)
        for tensor, law in self._placements():
            self._take(tensor, law)

    def _take(self, where: str, law: Law) -> None:
        if law.kind == "whole":
            if law.other.is_term:
                self.integers.add(law.one / law.other)
            return
        if law.kind == "same":
            if law.one != law.other:
                kind = self.kinds.get(where, "placement")
                raise InputError(
                    f"{self._name(where)} ({kind}): {law.what} is read as {law.one} and as {law.other}; at the captured"
                    " sizes they are alike",
                    hint="add a capture (--sample) at sizes that differ more",
                )
            return
        room = law.one - law.other + ONE
        if room.constant is not None and room.constant < 1:
            raise InputError(f"{self._name(where)} ({self.kinds.get(where)}): {law.what} is {law.one}, not {law.other}")
        if not _always(room):
            self.sizes.add(room)

    # ---- ops ----

    def _laws(self) -> Iterator[tuple[str, Law]]:
        ends: dict[str, dict[str, dict[int, list[Expression]]]] = defaultdict(lambda: defaultdict(dict))
        for op, key, position, value in self.family.tables["attr_number"]:
            ends[op][key][position] = [_formula(value)]
        for (op, key, position), number in self.family.rank_numbers.items():
            ends[op][key][position] = list(self._ends(number))
        makers = {tensor: op for op, tensors in self.results.items() for tensor in tensors}
        for tensor, (above, below, _) in self.family.literals.items():
            if below == ONE:
                ends[makers[tensor]]["value"][0] = [above]
        for op, kind in self.kinds.items():
            if op not in self.results:
                continue
            operands, results = ([self.shapes[t] for t in side.get(op, ())] for side in (self.operands, self.results))
            dtypes = [self.dtypes[t] for t in self.results[op]]
            call = Call(kind, operands, results, dtypes, ends[op], self._ranks(op))
            try:
                yield from ((op, law) for law in laws(call))
            except (IndexError, KeyError, ValueError):
                raise InputError(f"{self._name(op)} ({kind}): its attributes do not fit its operands") from None
        yield from self._regions()

    def _regions(self) -> Iterator[tuple[str, Law]]:
        """Values go into regions, and come out of them, as they are."""
        inputs, outputs = _by_owner(self.family, "input"), _by_owner(self.family, "output")
        for op, _, graph in self.family.tables.get("region", ()):
            pairs: list[tuple[str, str]] = []
            if self.kinds[op] == "while":
                pairs += zip(self.operands.get(op, ()), inputs.get(graph, ()), strict=False)
            if len(outputs.get(graph, ())) == len(self.results.get(op, ())):
                pairs += zip(self.results.get(op, ()), outputs.get(graph, ()), strict=True)
            for one, other in pairs:
                if len(self.shapes[one]) == len(self.shapes[other]):
                    for i, (a, b) in enumerate(zip(self.shapes[one], self.shapes[other], strict=True)):
                        yield op, Law("same", f"dim {i}", a, b)

    def _ends(self, number: RankFormula) -> Iterator[Expression]:
        """What a number of the rank is on the first and last rank along every axis."""
        sizes = dict(self.family.axes)
        for base, slopes in number.places.values():
            for last in product((False, True), repeat=len(slopes)):
                steps = (
                    slope * (sizes[axis] - ONE) for (axis, slope), at in zip(slopes.items(), last, strict=True) if at
                )
                yield sum(steps, base)

    def _ranks(self, op: str) -> Expression | None:
        if op not in self.family.groups:
            return None
        sizes = dict(self.family.axes)
        return prod((sizes[axis] for axis in self.family.groups[op]), start=ONE)

    # ---- placements ----

    def _placements(self) -> Iterator[tuple[str, Law]]:
        whole = PieceFormula(())
        rows = [(d, dp, b, bp, layout) for d, dp, b, bp, layout, _ in self.family.shards]
        rows += [(d, whole, b, whole, layout) for d, b, layout in self.family.expected if layout is not None]
        for dist, dist_piece, base, base_piece, layout in rows:
            sides = []
            for tensor, piece in ((dist, dist_piece), (base, base_piece)):
                sizes = list(self.shapes[tensor])
                for dim, lo, hi in piece.windows:
                    yield tensor, Law("least", f"dim {dim}", sizes[dim], hi)
                    yield tensor, Law("least", f"a piece along dim {dim}", hi, lo + ONE)
                    sizes[dim] = hi - lo
                sides.append(sizes)
            yield from ((dist, law) for law in self._layout(layout, *sides))

    def _layout(self, layout: LayoutFormula, local: Shape, whole: Shape) -> Iterator[Law]:
        """Entries multiply to the local dims and the axes; digits address every element of the baseline's dims once."""
        axes = dict(self.family.axes)
        for i, entries in enumerate(layout.dims):
            yield Law("same", f"local dim {i}", prod((e.size for e in entries), start=ONE), local[i])
        for axis, entries in layout.axes:
            yield Law("same", f"axis {axis}", prod((e.size for e in entries), start=ONE), axes[axis])
        every = [e for entries in (*layout.dims, *(entries for _, entries in layout.axes)) for e in entries]
        for i, size in enumerate(whole):
            digits = [e for e in every if e.kind == "digit" and e.dim == i]
            digits.sort(key=lambda e: (e.stride.at(self.point), e.size.at(self.point)))
            covered = ONE
            for digit in digits:
                yield Law("same", f"the stride along baseline dim {i}", digit.stride, covered)
                covered = covered * digit.size
            yield Law("same", f"baseline dim {i}", covered, size)

    def _name(self, thing: str) -> str:
        """What people call an op (by its result) or a tensor."""
        tensor = next(iter(self.results.get(thing, ())), thing)
        return self.names.get(tensor, tensor)


def _always(room: Expression) -> bool:
    """Whether a formula is at least 1 at all sizes, by its form: with every size one more than a natural number, no
    coefficient of its excess is negative."""
    above, below = cleared(room)
    more = {name: Expression.symbol(name) + ONE for name in room.symbols}
    return all(c >= 0 for _, c in (above - below).put(more).terms)


def _by_owner(family: Family, table: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for owner, _, tensor in sorted(family.tables.get(table, ()), key=lambda row: (row[0], row[1])):
        found[owner].append(tensor)
    return found


def _formula(value: Cell) -> Expression:
    return value if isinstance(value, Expression) else Expression.number(value)
