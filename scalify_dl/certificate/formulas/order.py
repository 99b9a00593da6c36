"""Rows in order: which element of a row is its j-th greatest, and where it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .elementwise import Elementwise
from .forms import Form, Unknown
from .integers import Table, compared, mixed
from .permuted import placed, turned_back
from .programs import Op

Array = np.ndarray[Any, Any]
MOST_IN_ORDER = 8
"""Elements of a row that is put in order."""
MOST_IN_RANKS = 500
"""Products in which truths say how many elements come before one."""


def in_order(of: Elementwise, row: list[Any], count: int, *, least: bool) -> list[dict[int, Form]]:
    """Of the first `count` in order for each place a truth that is 1 where the element there is it; the greatest
    comes first, or the least, of equals the one that stands first."""
    if len(row) > MOST_IN_ORDER:
        raise Unknown("the order of many")
    found: list[dict[int, Form]] = [{} for _ in range(count)]
    for i, x in enumerate(row):
        ranks = [of.atoms.number(1)]  # a truth for each number of elements that come before it
        for j, y in enumerate(row):
            if i == j:
                continue
            before = _before(of, y, x, "LE" if j < i else "LT", least)
            after = of.atoms.number(1) - before
            moved = [of.atoms.number(0), *(rank * before for rank in ranks)]
            kept = [*(rank * after for rank in ranks), of.atoms.number(0)]
            ranks = [a + b for a, b in zip(moved, kept, strict=True)][:count]
            if sum(len(rank.terms) for rank in ranks) > MOST_IN_RANKS:
                raise Unknown("an order of many cases")
        for rank, truth in enumerate(ranks):
            if truth.terms:
                found[rank][i] = truth
    return found


def _before(of: Elementwise, x: Any, y: Any, direction: str, least: bool) -> Form:
    """Where one comes before another; of equals, if `direction` says so."""
    if not least:
        direction = direction.replace("L", "G")
    whole = isinstance(x, int | Table) and isinstance(y, int | Table)
    return of.form(compared(of, direction, x, y) if whole else of.compare(direction, x, y))


def place_of_greatest(of: Elementwise, row: list[Any], *, least: bool) -> Table:
    """Where the greatest (or least) of a row is; of equals the first."""
    return Table(in_order(of, row, 1, least=least)[0])


class Ordered:
    """Sorts and top-k of one comparison, and what is to be known of their rows."""

    def __init__(self, of: Elementwise) -> None:
        self.of = of
        self.rows: dict[tuple[str, Any], set[str]] = {}
        """What must be so of a row, and results of ops in which it is one."""

    def top(self, op: Op, x: Array, count: int, rank: int) -> list[Array]:
        """The greatest of each row, and where they are."""
        values, places = (np.empty((*x.shape[:-1], count), dtype=object) for _ in range(2))
        for at in np.ndindex(*x.shape[:-1]):
            row = list(x[at])
            if not op.number("stable", rank, 1):
                self._need("order", op, row)
            if not all(isinstance(y, Form) and y.positive() for y in row):
                self._need("zeros", op, row)
            for j, cases in enumerate(in_order(self.of, row, count, least=False)):
                values[(*at, j)] = self.of.most(row) if j == 0 else mixed(self.of, cases, row)
                places[(*at, j)] = mixed(self.of, cases, range(len(row)))
        return [values, places]

    def sort(self, op: Op, xs: list[Array], rank: int) -> list[Array]:
        """All operands in the order of the first."""
        axis, direction = op.number("dimension", rank), op.text("direction")
        if direction not in ("ASC", "DESC"):
            raise Unknown("a sort by a comparison of its own")
        xs = [np.moveaxis(x, axis, -1) for x in xs]
        found = [np.empty(x.shape, dtype=object) for x in xs]
        for at in np.ndindex(*xs[0].shape[:-1]):
            row = list(xs[0][at])
            if len(xs) > 1 and not op.number("stable", rank, 0):
                self._need("order", op, row)
            for j, cases in enumerate(self._sorted(row, least=direction == "ASC")):
                for out, x in zip(found, xs, strict=True):
                    out[(*at, j)] = mixed(self.of, cases, list(x[at]))
        return [np.moveaxis(x, -1, axis) for x in found]

    def _sorted(self, row: list[Any], *, least: bool) -> list[dict[int, Form]]:
        """For each place in order where the element there was: by comparisons, or where these are many by name."""
        if all(isinstance(x, Table) for x in row) and (back := turned_back(self.of.atoms, [x.cases for x in row])):
            return back if least else back[::-1]
        try:
            return in_order(self.of, row, len(row), least=least)
        except Unknown:
            return placed(self.of.atoms, (self._key(row), least), len(row))

    def _key(self, row: list[Any]) -> Any:
        """Rows of one key are equal."""
        if not all(isinstance(x, Form | int | Table) for x in row):
            raise Unknown("an order of what is no number")
        tables = (x.cases if isinstance(x, Table) else {0: self.of.form(x)} for x in row)
        keys = tuple(tuple((value, cases[value].key) for value in sorted(cases)) for cases in tables)
        return keys, tuple(isinstance(x, Table) for x in row)

    def _need(self, what: str, op: Op, row: list[Any]) -> None:
        key = self._key(row)
        self.rows.setdefault((what, key), set()).update(op.results.values())

    def missing(self, assumed: Iterable[tuple[str, str]]) -> bool:
        """Whether something is to be known of a row that is not assumed of an op in which it is one."""
        known = {(t, what) for t, what in assumed}
        return any(known.isdisjoint((t, what) for t in where) for (what, _), where in self.rows.items())
