"""Formulas as the rules write them, in a canonical form: equal up to renaming is equal.

A term of `datalog/terms.dl` is a nest of branches: `X`, `Const(v)`, `Rank(base, weights)`, `Table(function)`,
`Unary(op, a)`, `Binary(op, a, b)`, `Choice(c, a, b)`. Here it is a nest of plain tuples, `("x",)`, `("const", v)`,
`("rank", base, weights)`, `("table", values)`, `(op, …)`, with mesh atoms that no weight mentions left out, the others
in a fixed order, and functions of the rank replaced by their values: layers, tensor names and the order of mesh axes do
not matter.
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
        """From the relations `atom`, `rank_digit` and `rank_function` of a run."""
        sizes = {a: size for a, _, _, size in relation("atom")}
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

    @cached_property
    def key(self) -> str:
        """A hash of the meaning."""
        text = repr((self.term, self.sizes, self.ranks, self.lo, self.hi))
        return hashlib.sha256(text.encode()).hexdigest()


UNBOUNDED = 2**30
"""The rules write it where the leaf has no bound."""


def canonical(term: Any, lo: int, hi: int, mesh: Mesh, memo: dict[int, Any] | None = None) -> tuple[Formula, list[int]]:
    """The formula of a row of `obligation`, and the atoms of the mesh that its atoms are."""
    weights: list[tuple[int, ...]] = []
    tables: list[bool] = []
    plain = _plain(term, mesh, weights, tables, {} if memo is None else memo)
    mentioned = [a for a in range(len(mesh.sizes)) if any(a < len(w) and w[a] for w in weights)]
    atoms = sorted(mentioned, key=lambda a: (mesh.sizes[a], tuple(w[a] for w in weights), a))
    ranks = tuple(tuple(ds[a] for a in atoms) for ds in mesh.digits.values()) if tables else ()
    formula = Formula(
        _pick(plain, atoms),
        tuple(mesh.sizes[a] for a in atoms),
        ranks,
        None if lo <= -UNBOUNDED else lo,
        None if hi >= UNBOUNDED else hi,
    )
    return formula, atoms


def _items(cons: Any) -> Iterator[Any]:
    """The elements of a cons list."""
    while cons is not None:
        head, cons = cons
        yield head


def _plain(term: Any, mesh: Mesh, weights: list[tuple[int, ...]], tables: list[bool], memo: dict[int, Any]) -> Term:
    found = memo.get(id(term))
    if found is not None and found[0] is term:
        weights += found[2]
        tables += found[3]
        return found[1]  # type: ignore[no-any-return]
    name, fields = term
    mine: list[tuple[int, ...]] = []
    tabled: list[bool] = []
    out: Term
    if name == "X":
        out = ("x",)
    elif name == "Const":
        out = ("const", fields[0])
    elif name == "Rank":
        w = tuple(_items(fields[1]))
        mine.append(w)
        out = ("rank", fields[0], w)
    elif name == "Table":
        tabled.append(True)
        values = mesh.tables[fields[0]]
        out = ("table", tuple(values[r] for r in mesh.digits))
    elif name in ("Unary", "Binary"):
        out = (fields[0], *(_plain(a, mesh, mine, tabled, memo) for a in fields[1:]))
    elif name == "Choice":
        out = ("choice", *(_plain(a, mesh, mine, tabled, memo) for a in fields))
    else:
        raise ValueError(f"no such term: {name}")
    memo[id(term)] = (term, out, mine, tabled)
    weights += mine
    tables += tabled
    return out


def _pick(term: Term, atoms: list[int]) -> Term:
    """The term with the weights of these atoms only, in this order."""
    if term[0] == "rank":
        return ("rank", term[1], tuple(term[2][a] if a < len(term[2]) else 0 for a in atoms))
    if term[0] in ("x", "const", "table"):
        return term
    return (term[0], *(_pick(a, atoms) for a in term[1:]))
