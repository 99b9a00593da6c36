"""Whether two elements are equal: one node, or one normal form of the algebra; of elements that are alike one is asked.

Two pairs are alike where the one becomes the other by renaming unknowns: then what is so of the one is so of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scalify_dl.algebra.effort import now
from scalify_dl.algebra.form import Field, Undecided
from scalify_dl.algebra.same import same

from .alike import Atoms
from .domain import Array
from .formulas import Formulas
from .terms import UNDEFINED, Terms


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
    if _reached(terms, left)[UNDEFINED]:
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
    deadline = now() + seconds
    said = ""
    shared = _reached(terms, left[different]) & _reached(terms, right[different])
    for extremes, sums in ((True, True), (False, True), (False, False)):
        try:
            return _by_classes(terms, list(todo), shared if sums else None, extremes, deadline)
        except Undecided as error:
            said = said or str(error)
            if now() > deadline:
                break
    return Answer(False, f"element {place} is computed in another way: {said}")


def _by_classes(
    terms: Terms, todo: list[tuple[int, int]], shared: Array | None, extremes: bool, deadline: float
) -> Answer:
    """One of each class of pairs that are alike; Undecided where one is not found equal."""
    atoms = Atoms(terms, shared, extremes)
    needs: dict[str, None] = {}
    left, right = np.array(todo, dtype=np.int64).T
    while left.size:
        if now() > deadline:
            raise Undecided("too many elements to be compared one by one in the time given")
        pair = int(left[0]), int(right[0])
        basis = Field(most_terms=6000, deadline=deadline)
        formulas = Formulas(terms, basis, atoms.is_atom)
        if not same(basis, formulas.cell(pair[0]), formulas.cell(pair[1])):
            raise Undecided("the formulas differ")
        needs |= dict.fromkeys(need.what for need in basis.needs)
        needs |= formulas.stands_for
        others = ~atoms.alike(pair, left, right)
        others[0] = False
        left, right = left[others], right[others]
    words = {"nonzero": "what is divided by is not zero", "positive": "what a logarithm is taken of is above zero",
             "nonnegative": "what a root is taken of is not below zero"}  # fmt: skip
    return Answer(True, assumptions=[(words.get(what, what), what if what in words else "constant") for what in needs])


def _reached(terms: Terms, roots: Array) -> Array:
    """Which nodes are below some; what dots add up is not looked into."""
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
    return seen
