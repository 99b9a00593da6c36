"""Whether two elements are equal: one node, or one normal form of the algebra; of elements that are alike one is asked.

Two pairs are alike where the one becomes the other by renaming unknowns: then what is so of the one is so of the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scalify_dl.algebra.form import Field, Undecided
from scalify_dl.algebra.same import same

from .domain import Array
from .formulas import Formulas
from .terms import UNDEFINED, Terms

MOST_UNKNOWNS = 100_000
"""Unknowns of one element, each time that it comes."""
SUMS = ("add", "dot")
EXTREMES = ("maximum", "minimum")


@dataclass(slots=True)
class Answer:
    """Whether all pairs are equal; if not, why not, and of which output and element."""

    equal: bool
    reason: str = ""
    assumptions: list[tuple[str, str]] = field(default_factory=list)


def all_equal(terms: Terms, pairs: Sequence[tuple[Array, Array]], seconds: float) -> Answer:
    """Whether arrays of nodes are equal, element by element."""
    left = np.concatenate([terms.canonical(a).reshape(-1) for a, _ in pairs])
    right = np.concatenate([terms.canonical(b).reshape(-1) for _, b in pairs])
    different = np.flatnonzero(left != right)
    if UNDEFINED in _reached(terms, left):
        return Answer(False, "the outputs rest on memory that nothing has written")
    if len(different) == 0:
        return Answer(True)
    todo = dict.fromkeys(zip(left[different].tolist(), right[different].tolist(), strict=True))
    at = int(different[0])
    for ours, _ in pairs:
        if at < ours.size:
            break
        at -= ours.size
    place = [int(i) for i in np.unravel_index(at, ours.shape)]
    deadline = time.process_time() + seconds
    said = ""
    shared = _reached(terms, left[different]) & _reached(terms, right[different])
    for extremes, sums in ((True, True), (False, True), (False, False)):
        try:
            return _by_classes(terms, list(todo), shared if sums else set(), extremes, deadline)
        except Undecided as error:
            said = said or str(error)
            if time.process_time() > deadline:
                break
    return Answer(False, f"element {place} is computed in another way: {said}")


def _by_classes(terms: Terms, todo: list[tuple[int, int]], shared: set[int], extremes: bool, deadline: float) -> Answer:
    """One of each class of pairs that are alike; Undecided where one is not found equal."""
    atoms = _Atoms(terms, shared, extremes)
    seen: set[tuple[object, ...]] = set()
    needs: dict[str, None] = {}
    for number, pair in enumerate(todo):
        if number % 256 == 0 and time.process_time() > deadline:
            raise Undecided("too many elements to be compared one by one in the time given")
        key = atoms.key(pair)
        if key in seen:
            continue
        basis = Field(most_terms=6000, deadline=deadline)
        formulas = Formulas(terms, basis, atoms.is_atom)
        if not same(basis, formulas.cell(pair[0]), formulas.cell(pair[1])):
            raise Undecided("the formulas differ")
        seen.add(key)
        needs |= dict.fromkeys(need.what for need in basis.needs)
        needs |= formulas.stands_for
    words = {"nonzero": "what is divided by is not zero", "positive": "what a logarithm is taken of is above zero",
             "nonnegative": "what a root is taken of is not below zero"}  # fmt: skip
    return Answer(True, assumptions=[(words.get(what, what), what if what in words else "constant") for what in needs])


def _reached(terms: Terms, roots: Array) -> set[int]:
    """All nodes below some; what dots add up is not looked into."""
    seen = np.zeros(terms.size, dtype=bool)
    dots = [code for code, name in enumerate(terms.names) if name.startswith("dot")]
    front = np.unique(roots)
    while front.size:
        seen[front] = True
        front = front[(terms.codes[front] > 2) & ~np.isin(terms.codes[front], dots)]
        many = [terms.children[node] for node in front.tolist() if node in terms.children]
        below = [np.asarray(row, dtype=np.int64) for row in many]
        pairs = np.array([node not in terms.children for node in front.tolist()], dtype=bool)
        below += [terms.left[front[pairs]], terms.right[front[pairs]]]
        front = np.unique(np.concatenate(below))
        front = front[(front >= 0) & ~seen[front]]
    return set(np.flatnonzero(seen).tolist())


class _Atoms:
    """What is not looked into, and which pairs are alike."""

    def __init__(self, terms: Terms, shared: set[int], extremes: bool) -> None:
        self.terms, self.shared, self.extremes = terms, shared, extremes
        self.shapes: dict[tuple[object, ...], int] = {}
        self.seen: dict[int, tuple[int, Array]] = {}

    def is_atom(self, node: int) -> bool:
        """Whether a node is an unknown: it is finite, and on both sides, or its value makes no difference."""
        name = self.terms.names[self.terms.codes[node]]
        if name == "input":
            return True
        if not self.terms.finite[node]:
            return False
        return (node in self.shared and name in SUMS) or (self.extremes and name in EXTREMES)

    def key(self, pair: tuple[int, int]) -> tuple[object, ...]:
        """What a pair is but for the names of its unknowns: two shapes, and where an unknown comes again."""
        (left, a), (right, b) = self.shape(pair[0]), self.shape(pair[1])
        _, first, which = np.unique(np.concatenate([a, b]), return_index=True, return_inverse=True)
        order = np.empty(len(first), dtype=np.int64)
        order[np.argsort(first)] = np.arange(len(first))
        return left, right, len(a), order[which].tobytes()

    def shape(self, root: int) -> tuple[int, Array]:
        """The shape of the tree that a node is, and its unknowns from left to right."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.seen:
                stack.pop()
                continue
            below = self._below(node)
            missing = [arg for arg in below if arg not in self.seen]
            if missing:
                stack += missing
                continue
            parts = [self.seen[arg] for arg in below]
            atoms = np.concatenate([part[1] for part in parts]) if parts else self._own(node)
            if len(atoms) > MOST_UNKNOWNS:
                raise Undecided("an element is too large a formula")
            what = (*self._word(node), *(part[0] for part in parts))
            self.seen[node] = self.shapes.setdefault(what, len(self.shapes)), atoms
            stack.pop()
        return self.seen[root]

    def _is_leaf(self, node: int) -> bool:
        code = self.terms.codes[node]
        return code <= 2 or self.is_atom(node) or self.terms.names[code].startswith("dot")

    def _below(self, node: int) -> tuple[int, ...]:
        return () if self._is_leaf(node) else self.terms.args(node)

    def _own(self, node: int) -> Array:
        return np.array([node] if self.is_atom(node) else [], dtype=np.int64)

    def _word(self, node: int) -> tuple[object, ...]:
        terms, code = self.terms, int(self.terms.codes[node])
        if code == 0:
            return "number", terms.values[node]
        if self.is_atom(node):
            return "unknown", terms.leaf(node)[2] if code == 2 else ""
        return ("dot", node) if terms.names[code].startswith("dot") else ("op", code)
