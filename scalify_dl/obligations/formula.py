"""Formulas as the rules write them, in a canonical form: equal up to renaming is equal.

A term of `datalog/integers/index_terms.dl` is a nest of branches: `X`, `Const(v)`, `Rank(base, weights)`,
`Table(function)`, `Unary(op, a)`, `Binary(op, a, b)`, `Choice(c, a, b)`. Here it is a nest of plain tuples, `("x",)`,
`("const", v)`, `("rank", base, weights)`, `("table", values)`, `(op, …)`, with mesh atoms that no weight mentions
left out, the others in a fixed order, and functions of the rank replaced by their values: layers, tensor names and
the order of mesh axes do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Term = tuple[Any, ...]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Mesh:
    """Ranks and their digits: `sizes[a]` of atom a, `digits[rank][a]`, and named functions of the rank."""

    sizes: tuple[int, ...]
    digits: Mapping[int, tuple[int, ...]]
    tables: Mapping[str, Mapping[int, int]]

    @classmethod
    def of(cls, relation: Callable[[str], Iterable[Row]]) -> Mesh:
        """From the relations `sub_axis`, `rank_digit` and `rank_function` of a run."""
        sizes = {a: size for a, _, _, size in relation("sub_axis")}
        digits: dict[int, dict[int, int]] = {}
        for rank, atom, value in relation("rank_digit"):
            digits.setdefault(rank, {})[atom] = value
        tables: dict[str, dict[int, int]] = {}
        for function, rank, value in relation("rank_function"):
            tables.setdefault(function, {})[rank] = value
        order = range(len(sizes))
        return cls(
            tuple(sizes[a] for a in order),
            {r: tuple(ds[a] for a in order) for r, ds in sorted(digits.items())} or {0: ()},
            tables,
        )


@dataclass(frozen=True)
class Formula:
    """`term` is true for every rank and every `lo <= x <= hi`; None is no bound.

    `sizes` are those of the atoms that the term mentions. A term with tables ranges over listed ranks instead: `ranks`
    holds their digits, in the order of the tables' values.
    """

    term: Term
    sizes: tuple[int, ...]
    ranks: tuple[tuple[int, ...], ...]
    lo: int | None
    hi: int | None

    @property
    def text(self) -> str:
        """All that it says."""
        return repr((self.term, self.sizes, self.ranks, self.lo, self.hi))

    @cached_property
    def key(self) -> str:
        """A hash of the meaning."""
        return hashlib.sha256(self.text.encode()).hexdigest()


UNBOUNDED = 2**30
"""The rules write it where the leaf has no bound."""


class Canonical:
    """Formulas of the rows of `obligation` of one run; equal terms are worked out once.

    Terms are recognised by identity, so the rows must live as long as this does.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._terms: dict[int, Term] = {}
        self._same: dict[Term, Term] = {}
        self._formulas: dict[Row, tuple[Formula, list[int]]] = {}

    def formula(self, term: Any, lo: int, hi: int) -> tuple[Formula, list[int]]:
        """The formula of a row, and the atoms of the mesh that its atoms are."""
        key = (self._plain(term), lo, hi)
        found = self._formulas.get(key)
        if found is None:
            found = self._formulas[key] = self._formula(*key)
        return found

    def _formula(self, term: Term, lo: int, hi: int) -> tuple[Formula, list[int]]:
        parts = list(_leaves(term, set()))
        weights = [part[2] for part in parts if part[0] == "rank"]
        mentioned = [a for a in range(len(self.mesh.sizes)) if any(w[a] for w in weights)]
        atoms = sorted(mentioned, key=lambda a: (self.mesh.sizes[a], tuple(w[a] for w in weights), a))
        tabled = any(part[0] == "table" for part in parts)
        formula = Formula(
            _pick(term, atoms),
            tuple(self.mesh.sizes[a] for a in atoms),
            tuple(tuple(ds[a] for a in atoms) for ds in self.mesh.digits.values()) if tabled else (),
            None if lo <= -UNBOUNDED else lo,
            None if hi >= UNBOUNDED else hi,
        )
        return formula, atoms

    def _plain(self, term: Any) -> Term:
        found = self._terms.get(id(term))
        if found is not None:
            return found
        name, fields = term
        out: Term
        if name == "Binary":
            op, a, b = fields
            out = (op, self._plain(a), self._plain(b))
        elif name == "Table":
            out = self._table(fields[0])
        elif name == "Const":
            out = ("const", fields[0])
        elif name == "X":
            out = ("x",)
        elif name == "Rank":
            given = tuple(_items(fields[1]))
            out = ("rank", fields[0], given + (0,) * (len(self.mesh.sizes) - len(given)))
        elif name == "Unary":
            out = (fields[0], self._plain(fields[1]))
        elif name == "Choice":
            out = ("choice", *map(self._plain, fields))
        else:
            raise ValueError(f"no such term: {name}")
        self._terms[id(term)] = out = self._same.setdefault(out, out)
        return out

    def _table(self, function: str) -> Term:
        values = self.mesh.tables[function]
        return ("table", tuple(values[r] for r in self.mesh.digits))


def canonical(term: Any, lo: int, hi: int, mesh: Mesh) -> tuple[Formula, list[int]]:
    """The formula of one row, and the atoms of the mesh that its atoms are."""
    return Canonical(mesh).formula(term, lo, hi)


def _items(cons: Any) -> Iterator[Any]:
    """The elements of a cons list."""
    while cons is not None:
        head, cons = cons
        yield head


def _leaves(term: Term, seen: set[int]) -> Iterator[Term]:
    """The functions of the rank in a term, in the order of the text, each object once."""
    if id(term) in seen:
        return
    seen.add(id(term))
    if term[0] in ("rank", "table"):
        yield term
    elif term[0] not in ("x", "const"):
        for part in term[1:]:
            yield from _leaves(part, seen)


def _pick(term: Term, atoms: list[int]) -> Term:
    """The term with the weights of these atoms only, in this order."""
    if term[0] == "rank":
        return ("rank", term[1], tuple(term[2][a] for a in atoms))
    if term[0] in ("x", "const", "table"):
        return term
    return (term[0], *(_pick(a, atoms) for a in term[1:]))
