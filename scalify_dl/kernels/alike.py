"""Which pairs of elements are one pair but for the names of their unknowns: what is so of the one is so of the other.

All pairs are walked beside one of them, node by node: a node of the one pair stands beside one node of each other pair,
of the same kind, and unknowns of the one beside as many different unknowns of the other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .domain import Array, Undecided
from .terms import Terms

MOST_NODES = 200_000
"""Nodes of one pair."""
SUMS = ("add", "dot")
EXTREMES = ("maximum", "minimum")


class Atoms:
    """What is not looked into. `shared` are nodes on both sides, `extremes` whether maxima are unknowns."""

    def __init__(self, terms: Terms, shared: Array | None, extremes: bool) -> None:
        self.terms = terms
        names = np.array(terms.names)
        codes = terms.codes[: terms.size]
        kinds = np.isin(names, EXTREMES) & extremes
        found = kinds[codes]
        if shared is not None:
            found |= np.isin(names, SUMS)[codes] & shared
        self.atoms: Array = (found & terms.finite[: terms.size]) | (codes == 2)
        self.whole: Array = np.array([name.startswith("dot") for name in terms.names])[codes] & ~self.atoms
        """Dots that are no unknowns: each by itself."""
        self.dtypes: Array = np.zeros(terms.size, dtype=np.int32)
        for start, stop, _, _, dtype in terms.leaves:
            self.dtypes[start:stop] = terms.code(f"type {dtype}")

    def is_atom(self, node: int) -> bool:
        """Whether a node is an unknown: it is finite, and on both sides, or its value makes no difference."""
        return bool(self.atoms[node])

    def below(self, node: int) -> tuple[int, ...]:
        """Operands of a node that is looked into."""
        if self.atoms[node] or self.whole[node] or self.terms.codes[node] <= 2:
            return ()
        return self.terms.args(node)

    def alike(self, pair: tuple[int, int], left: Array, right: Array) -> Array:
        """Which pairs are like one of them."""
        walk = _Walk(self, np.stack([left, right]))
        order = list(self._nodes(pair))
        walk.stand(pair[0], 0)
        walk.stand(pair[1], 1)
        unknowns = []
        for node in order:
            if not walk.alive.any():
                return walk.result()
            beside = walk.beside[node]
            if self.atoms[node]:
                walk.keep(self.atoms[beside] & (self.dtypes[beside] == self.dtypes[node]))
                walk.keep((self.terms.codes[walk.beside[node]] == 2) == (self.terms.codes[node] == 2))
                unknowns.append(node)
            elif not (below := self.below(node)):
                walk.keep(beside == node)
            else:
                same = (self.terms.codes[beside] == self.terms.codes[node]) & ~self.atoms[beside]
                walk.keep(same)
                walk.operands(node, below)
        if unknowns and walk.alive.any():
            every = np.sort(np.stack([walk.beside[node] for node in unknowns]), axis=0)
            walk.keep((np.diff(every, axis=0) != 0).all(axis=0))
        return walk.result()

    def _nodes(self, pair: tuple[int, int]) -> Iterator[int]:
        """The nodes of a pair, each before its operands."""
        done: dict[int, None] = {}
        stack = [(root, False) for root in pair]
        seen: set[int] = set()
        while stack:
            node, left = stack.pop()
            if left:
                done[node] = None
                continue
            if node in seen:
                continue
            seen.add(node)
            if len(seen) > MOST_NODES:
                raise Undecided("an element is too large a formula")
            stack.append((node, True))
            stack += [(x, False) for x in self.below(node) if x not in seen]
        return reversed(list(done))


class _Walk:
    """The nodes of all pairs that are still alike, beside those of one."""

    def __init__(self, atoms: Atoms, roots: Array) -> None:
        self.atoms, self.terms = atoms, atoms.terms
        self.roots = roots
        self.where = np.arange(roots.shape[1])
        self.alive: Array = np.ones(roots.shape[1], dtype=bool)
        self.count = roots.shape[1]
        self.beside: dict[int, Array] = {}

    def result(self) -> Array:
        """Which pairs are alike."""
        found = np.zeros(self.count, dtype=bool)
        found[self.where[self.alive]] = True
        return found

    def stand(self, node: int, side: int) -> None:
        """A root beside the roots."""
        self.beside_too(node, self.roots[side][self.where])

    def beside_too(self, node: int, others: Array) -> None:
        """A node that comes again stands beside the same nodes."""
        if node in self.beside:
            self.keep(self.beside[node] == others)
        else:
            self.beside[node] = others

    def keep(self, same: Array) -> None:
        """Leaves out pairs that are not alike; arrays are cut where most are gone."""
        self.alive &= same
        if 2 * int(self.alive.sum()) < len(self.alive):
            kept = self.alive
            self.where = self.where[kept]
            self.beside = {node: others[kept] for node, others in self.beside.items()}
            self.alive = np.ones(len(self.where), dtype=bool)

    def operands(self, node: int, below: tuple[int, ...]) -> None:
        """The operands of a node stand beside those of the others."""
        unique, which = np.unique(np.where(self.alive, self.beside[node], node), return_inverse=True)
        rows = [self.terms.args(x) for x in unique.tolist()]
        fits = np.array([len(row) == len(below) for row in rows])
        table = np.array([row if ok else below for row, ok in zip(rows, fits, strict=True)], dtype=np.int64)
        at = np.arange(len(self.where))
        start = self.where
        self.keep(fits[which])
        for n, x in enumerate(below):
            now = which if len(self.where) == len(at) else which[np.isin(start, self.where)]
            self.beside_too(x, table[now, n])
