"""Outputs that rules do not prove with symbols, because they are written differently: asked of the algebra.

At the sizes of the run they are asked for as ever; an output that is equal there is followed once more with symbols
in the place of the sizes (`algebra/any_size.py`). Symbols stand for whole numbers above 0 there, so for s/8 to be one s
is 8 times a symbol: that 8 divides s is a condition of the proof.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from scalify_dl.algebra.effort import now
from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts, Row
from scalify_dl.facts.schema import TABLES
from scalify_dl.ir.expression import Expression, monomial
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl
from scalify_dl.prove.normal_forms import Stated
from scalify_dl.sizes import symbol, terms_of

from .conditions import LARGE, Condition
from .family import Entry, LayoutFormula, SymbolicFacts

if TYPE_CHECKING:
    from scalify_dl.algebra.any_size import Formulas

SECONDS = 12.0
"""CPU time for all that is asked of one family."""
TURNS = 40
"""Most symbols that become multiples."""
WITH_SYMBOLS = frozenset({"dim", "attr_number", "rank_number", "literal_rational", "written_number"})
"""Tables whose numbers may be formulas."""
ONE = Expression.number(1)


@dataclass(frozen=True)
class Equalities:
    """Rows of `proved_equal`, `assumed_equality` and `written_number`, and where they are so."""

    proved: list[Row]
    needs: list[Row]
    words: list[Row]
    conditions: list[Condition]


class Multiples:
    """Sizes as multiples of symbols, so that formulas are sums of products of symbols with whole coefficients."""

    def __init__(self, formulas: Iterable[Expression]) -> None:
        """ValueError where there are none."""
        self.values: dict[str, Expression] = {}
        """What the symbols of the family are."""
        self.conditions: list[Condition] = []
        self.known: dict[Expression, int] = {}
        waiting = sorted(set(formulas), key=lambda one: (len(one.symbols), -_below(one), str(one)))
        self.back = {name: Expression.symbol(name) for formula in waiting for name in formula.symbols}
        """What the new symbols are of those of the family."""
        for formula in waiting:
            for _ in range(TURNS):
                found = self._divided(formula.put(self.values))
                if found is None:
                    break
                self._narrow(*found)
            else:
                raise ValueError(f"{formula} is a quotient")

    @staticmethod
    def _divided(formula: Expression) -> tuple[str, Expression] | None:
        """A symbol that is divided, and by what."""
        for powers, c in formula.terms:
            below = Expression.of([(monomial({s: -e for s, e in powers if e < 0}), c.denominator)])
            if below != ONE:
                above = [s for s, e in powers if e > 0]
                if not above:
                    raise ValueError(f"{formula} is a quotient")
                return above[0], below
        return None

    def _narrow(self, name: str, by: Expression) -> None:
        new = f"{name}/{by}"
        there = by.put(self.back)
        self.conditions.append(Condition("integer", str(self.back[name]), str(there)))
        self.back[new] = self.back[name] / there
        changed = {name: by * Expression.symbol(new)}
        self.values = {s: e.put(changed) for s, e in self.values.items()}
        self.values.setdefault(name, changed[name])

    def size(self, formula: Expression) -> int:
        """A formula as a size; ValueError where it is none."""
        if formula not in self.known:
            total: int = 0
            for powers, c in formula.put(self.values).terms:
                if c.denominator != 1 or any(e < 0 for _, e in powers):
                    raise ValueError(f"{formula} is a quotient")
                total = total + prod((symbol(s) for s, e in powers for _ in range(e)), start=int(c))
            self.known[formula] = total
        return self.known[formula]

    def formula(self, size: int) -> Expression:
        """A size as a formula of the symbols of the family."""
        found = Expression.number(0)
        for names, c in terms_of(size).items():
            found += prod((self.back[name] for name in names), start=Expression.number(c))
        return found


def _below(formula: Expression) -> int:
    return max((c.denominator for _, c in formula.terms), default=1)


class Differently:
    """What is asked of the algebra for one family."""

    def __init__(self) -> None:
        self.left = SECONDS

    def equalities(
        self, facts: SymbolicFacts, point: Mapping[str, int], wanted: Collection[tuple[str, str]]
    ) -> Equalities | None:
        """Which of some outputs are equal by their formulas; None where none is, or nothing can be asked."""
        begun = now()
        try:
            if self.left <= 0 or facts.coordinates or not facts.symbolic:
                return None
            return _equalities(facts, point, wanted, self.left)
        except (ValueError, InputError):
            return None
        finally:
            self.left -= now() - begun


def _equalities(
    facts: SymbolicFacts, point: Mapping[str, int], wanted: Collection[tuple[str, str]], seconds: float
) -> Equalities | None:
    from scalify_dl.algebra.any_size import decided_for_all  # imported where something is left to decide
    from scalify_dl.algebra.decide import decider
    from scalify_dl.oracle.program import Shard

    family, values = facts.family, facts.values
    layouts = [layout.put(values) for _, here, _, there, layout, _ in family.shards if not _cut(here, there)]
    layouts += [layout.put(values) for _, _, layout in family.expected if layout]
    multiples = Multiples([*_numbers(facts.facts), *(f for layout in layouts for f in layout.formulas())])
    formulas = _formulas(facts.facts, multiples)
    given = [
        Shard(dist, (), base, (), _sized(layout.put(values), multiples))
        for dist, here, base, there, layout, _ in family.shards if not _cut(here, there)
    ]  # fmt: skip
    here = family.instantiate(point)
    rows = [row[:5] for row in here["shard"]]
    decide = decider(here.tables, rows, seconds)
    stated, texts = Stated(here), {row[:2]: row[2] for row in here["expect"]}
    proved: list[Row] = []
    needs: dict[Row, None] = {}
    before = set(facts.words.meaning)
    bounds: set[int] = set()
    for dist, base, layout in family.expected:
        if (dist, base) not in wanted:
            continue
        asked = _sized(layout.put(values), multiples) if layout else None
        found = decided_for_all(decide, given, formulas, (dist, base, texts[dist, base]), asked)
        if found is not None:
            text = _written(found.layout, multiples).put({}).text(facts.words)
            proved.append((dist, base, text))
            needs.update(dict.fromkeys(stated.rows(found.answer)))
            bounds.update(found.bounds)
    if not proved:
        return None
    words = [(word, value) for word, value in facts.words.meaning.items() if word not in before]
    less = [Condition("less", str(multiples.formula(bound)), str(LARGE)) for bound in bounds]
    return Equalities(proved, list(needs), words, [*multiples.conditions, *less])


def _cut(*pieces: object) -> bool:
    return any(piece.windows for piece in pieces)  # type: ignore[attr-defined]


def _numbers(facts: Facts) -> Iterator[Expression]:
    """The formulas in number columns; ValueError where a table has some of which nothing is known."""
    for name, rows in facts.tables.items():
        columns = [i for i, c in enumerate(TABLES[name].columns) if c.number] if name in TABLES else [1]
        for row in rows:
            for i in columns:
                if isinstance(row[i], str):
                    if name not in WITH_SYMBOLS:
                        raise ValueError(f"formulas in the table {name}")
                    if name != "written_number":
                        yield Expression.parse(row[i])


def _formulas(facts: Facts, multiples: Multiples) -> Formulas:
    from scalify_dl.algebra.any_size import Formulas

    def number(cell: int | str) -> int:
        return multiples.size(Expression.parse(cell)) if isinstance(cell, str) else cell

    dims: dict[str, dict[int, int]] = {row[0]: {} for row in facts["tensor"]}
    for tensor, position, size in facts["dim"]:
        dims[tensor][position] = number(size)
    return Formulas(
        {tensor: tuple(sizes[i] for i in range(len(sizes))) for tensor, sizes in dims.items()},
        {row[:3]: number(row[3]) for row in facts["attr_number"] if isinstance(row[3], str)},
        {row[:4]: number(row[4]) for row in facts["rank_number"] if isinstance(row[4], str)},
        {t: (number(p), number(q)) for t, p, q in facts["literal_rational"] if str in (type(p), type(q))},
    )


def _sized(layout: LayoutFormula, multiples: Multiples) -> Layout:
    """A layout whose numbers are sizes."""

    def entry(each: Entry) -> Digit | Repl | Pending:
        size = multiples.size(each.size)
        if each.kind == "digit":
            return Digit(each.dim, multiples.size(each.stride), size)
        return Repl(size) if each.kind == "r" else Pending(each.kind, size)

    dims = [tuple(map(entry, entries)) for entries in layout.dims]
    local = tuple(tuple(e if isinstance(e, Digit) else Digit(0, 0, e.size) for e in entries) for entries in dims)
    return Layout(local, tuple((axis, tuple(map(entry, entries))) for axis, entries in layout.axes), layout.scale)


def _written(layout: Layout, multiples: Multiples) -> LayoutFormula:
    """A layout of sizes as one of formulas."""

    def entry(each: Digit | Repl | Pending) -> Entry:
        size = multiples.formula(each.size)
        if isinstance(each, Digit) and each.stride != 0:
            return Entry("digit", each.dim, multiples.formula(each.stride), size)
        kind = each.reducer if isinstance(each, Pending) else "r"
        return Entry(kind, 0, ONE, size)

    dims = tuple(tuple(map(entry, digits)) for digits in layout.dims)
    return LayoutFormula(dims, tuple((a, tuple(map(entry, entries))) for a, entries in layout.axes), layout.scale)
