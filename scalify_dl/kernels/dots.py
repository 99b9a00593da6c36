"""Products of large matrices as terms: an element is the dot of a row and a column, that are kept once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalify_dl.oracle.dtypes import is_float

from .domain import Array
from .folding import UNDEFINED

if TYPE_CHECKING:
    from .terms import Terms


class Dots:
    """Vectors of nodes, each kept once, and their dots."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.numbers: dict[bytes, int] = {}
        self.rows: list[Array] = []
        self.finite: list[bool] = []
        self.joined: dict[tuple[int, ...], int] = {}

    def vector(self, row: Array) -> int:
        """The number of a vector."""
        key = row.tobytes()
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            self.rows.append(row.copy())
            self.finite.append(bool(self.terms.finite[row].all()))
        return self.numbers[key]

    def contract(self, left: Array, right: Array, dtype: str) -> Array:
        """Dots of all rows of [m, k] and [n, k], in an order of k that the left rows give where they give one."""
        lost = (left == UNDEFINED).any(axis=1)[:, None] | (right == UNDEFINED).any(axis=1)[None, :]
        finite = self.terms.finite[left].all(axis=0) & self.terms.finite[right].all(axis=0)
        kept = (left != 0).any(axis=0) & (right != 0).any(axis=0) | ~finite
        left, right = left[:, kept], right[:, kept]
        if not kept.any():
            return np.where(lost, UNDEFINED, np.zeros((len(left), len(right)), dtype=np.int64))
        first = left[int(np.argmax((left != 0).all(axis=1)))]
        order = np.argsort(first, kind="stable")
        left, right = np.ascontiguousarray(left[:, order]), np.ascontiguousarray(right[:, order])
        a = np.array([self.vector(row) for row in left], dtype=np.int64)
        b = np.array([self.vector(row) for row in right], dtype=np.int64)
        found = self._nodes(a[:, None], b[None, :], dtype)
        sure = self.terms.finite[left].all(axis=1)[:, None] & self.terms.finite[right].all(axis=1)[None, :]
        nothing = ~(left != 0).any(axis=1)[:, None] | ~(right != 0).any(axis=1)[None, :]
        found[nothing & sure] = 0
        found[lost] = UNDEFINED
        return found

    def _nodes(self, a: Array, b: Array, dtype: str) -> Array:
        terms = self.terms
        code = terms.code("dot" if is_float(dtype) else f"dot:{dtype}")
        a, b = np.broadcast_arrays(a, b)
        key = ((np.minimum(a, b) << 32) | np.maximum(a, b)).reshape(-1)
        unique, inverse = np.unique(key, return_inverse=True)
        table = terms.tables.setdefault(code, {})
        found = np.array([table.get(k, -1) for k in unique.tolist()], dtype=np.int64)
        missing = found < 0
        count = int(missing.sum())
        start = terms._new(code, count)
        made = np.arange(start, start + count)
        terms.left[made], terms.right[made] = unique[missing] >> 32, unique[missing] & 0xFFFFFFFF
        flags = np.array(self.finite)
        terms.finite[made] = flags[terms.left[made]] & flags[terms.right[made]]
        table.update(zip(unique[missing].tolist(), made.tolist(), strict=True))
        found[missing] = made
        return found[inverse.reshape(-1)].reshape(a.shape)

    def merged(self, nodes: list[int], dtype: str) -> int:
        """Dots that are added up as one: of vectors that follow each other."""
        left, right = self.terms.left, self.terms.right
        pairs = [(int(left[n]), int(right[n])) for n in nodes]
        pairs.sort(key=lambda p: (int(self.rows[p[0]][0]), p))
        a, b = (self._join(tuple(p[side] for p in pairs)) for side in (0, 1))
        return int(self._nodes(np.array([a]), np.array([b]), dtype)[0])

    def _join(self, numbers: tuple[int, ...]) -> int:
        if numbers not in self.joined:
            self.joined[numbers] = self.vector(np.concatenate([self.rows[n] for n in numbers]))
        return self.joined[numbers]

    def products(self, node: int) -> list[tuple[int, int]]:
        """What a dot adds up."""
        a, b = self.rows[self.terms.left[node]], self.rows[self.terms.right[node]]
        return list(zip(a.tolist(), b.tolist(), strict=True))
