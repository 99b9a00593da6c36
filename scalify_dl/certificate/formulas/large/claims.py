"""Claims of large programs: both sides on blocks, from unknowns on, compared block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...files import CertificateError
from ..elementwise import HIDDEN, NAN, Element
from ..equal import equal
from ..forms import Form, Unknown
from ..programs import Layout
from ..types import REALS
from .atoms import Spread
from .blocks import Blocks, Count, Masked, Peak, aligned, made, whole
from .cuts import cut_as_wanted, wanted
from .held import held
from .machine import Large, PerRank
from .places import of_dim

if TYPE_CHECKING:
    from ..claims import _Claim

NEEDS = {"nonzero": ("nonzero", "positive"), "positive": ("positive",), "nonnegative": ("nonnegative", "positive")}
"""For what steps need, the assumptions that will do."""
ROUNDS = 6
"""How often the unknowns are cut anew, as both sides ask."""


def decide_large(claim: _Claim, assumed: list[tuple[str, str]]) -> None:
    """CertificateError where a claim does not follow. Unknowns are cut where either side reads parts of them, until
    both read whole parts."""
    cuts: dict[tuple[str, int], Any] = {}
    for _ in range(ROUNDS):
        attempt = _Attempt(claim, cuts)
        try:
            left, right = attempt.sides()
        except Unknown:
            if not attempt.cut(cuts):
                raise
            continue
        if not attempt.cut(cuts):
            attempt.compare(left, right, assumed)
            return
    raise Unknown("parts that are cut ever finer")


class _Attempt:
    """Both sides, with unknowns that are cut in some way."""

    def __init__(self, claim: _Claim, cuts: dict[tuple[str, int], Any]) -> None:
        self.claim, self.program, self.cuts = claim, claim.program, dict(cuts)
        self.atoms = Spread()
        self.machine = Large(self.program, self.atoms)
        self.machine.masks = claim.masks
        self.unknowns: dict[str, Blocks] = {}
        self.names: dict[str, set[str]] = {}
        """Of unknown tensors of the baseline the names that what is held of them has."""
        self.known: dict[str, PerRank] = {}
        """What was computed."""

    def sides(self) -> tuple[PerRank, PerRank]:
        """What is expected on each rank, and what is found."""
        claim, ranks = self.claim, sorted(self.program.coords)
        if claim.given is None:
            base: dict[str, PerRank] = {t: {0: self.unknown(t)} for t in claim.reached(claim.base)}
            dist: dict[str, PerRank] = {t: self._input(t, ranks) for t in claim.reached(claim.dist)}
        else:
            base = {b: {0: self.unknown(b)} for _, b, _ in claim.given}
            dist = {t: self._placed(t, b, Layout(text), ranks) for t, b, text in claim.given}
        whole_value: Any = self.machine.value(claim.base, base, [0])[0]
        found = self.machine.value(claim.dist, dist, ranks)
        self.known = base | dist
        shape = self.program.shapes[claim.dist]
        dtype = self.program.types[claim.base]
        return {r: held(self.atoms, whole_value, dtype, claim.layout, r, shape, self.program) for r in ranks}, found

    def cut(self, cuts: dict[tuple[str, int], Any]) -> bool:
        """Whether unknowns are to be cut otherwise."""
        for (tensor, dim), (ends, steps) in wanted(self.atoms).items():
            cuts[tensor, dim] = cut_as_wanted(self.program.shapes[tensor][dim], ends, steps)
        return any(self.cuts.get(key, whole(self.program.shapes[key[0]][key[1]])) != parts
                   for key, parts in cuts.items())  # fmt: skip

    def unknown(self, tensor: str) -> Blocks:
        """The elements of a baseline value of which nothing is known."""
        self.names.setdefault(tensor, {tensor})
        if tensor not in self.unknowns:
            if self.program.types[tensor] not in REALS:
                raise Unknown("large inputs that are no real numbers")
            parts = [self.cuts.get((tensor, d), whole(n)) for d, n in enumerate(self.program.shapes[tensor])]

            def element(at: tuple[int, ...]) -> Form:
                places = []
                for d, i in enumerate(at):
                    start = sum(int(np.prod(digits)) for digits in parts[d][:i])
                    places.append(of_dim(d, parts[d][i], start))
                return self.atoms.element(tensor, tuple(places))

            self.unknowns[tensor] = made(parts, element)
        return self.unknowns[tensor]

    def _input(self, tensor: str, ranks: list[int]) -> PerRank:
        for dist, dist_piece, base, base_piece, text in self.program.shards:
            if dist == tensor and not dist_piece and not base_piece and base not in self.program.makers:
                return self._placed(tensor, base, Layout(text), ranks)
        raise Unknown(f"nothing is known of the input {tensor}")

    def _placed(self, tensor: str, base: str, layout: Layout, ranks: list[int]) -> PerRank:
        unknown, shape = self.unknown(base), self.program.shapes[tensor]
        if self.program.types[tensor] != self.program.types[base]:
            raise Unknown("an unknown of another type")
        self.names[base].add(tensor)
        dtype = self.program.types[base]
        return {rank: held(self.atoms, unknown, dtype, layout, rank, shape, self.program) for rank in ranks}

    def compare(self, expected: PerRank, found: PerRank, assumed: list[tuple[str, str]]) -> None:
        """CertificateError where they are not known to be one, or need what is not assumed."""
        needs = dict(self.atoms.needs)
        for rank, blocks in expected.items():
            left, right = aligned(self.atoms, [blocks, found[rank]])
            for a, b in zip(left.cells.reshape(-1), right.cells.reshape(-1), strict=True):
                self._compare(a, b)
        allowed = {(w, key) for t, w in assumed for key in self._keys(t)}
        for what, key in needs:
            others = [key, (-self.atoms.of(key)).key] if what == "nonzero" else [key]
            shown = any((w, k) in allowed for w in NEEDS[what] for k in others)
            if not (shown or any(w in NEEDS[what] and self._is_of(t, what, key) for t, w in assumed)):
                raise CertificateError(f"a step of {self.claim.dist} needs what is not assumed: something is {what}")

    def _keys(self, tensor: str) -> set[Any]:
        """What of the elements of a tensor is above, at or below zero where they are."""
        blocks = [x for array in self.known.get(tensor, {}).values() for x in array.cells.reshape(-1)]
        return {x.parted(positive=True)[2].key for x in blocks if isinstance(x, Form) and x.value is None}

    def _compare(self, left: Element, right: Element) -> None:
        if any(isinstance(x, Count | Masked | Peak) or x in (NAN, HIDDEN) for x in (left, right)):
            raise Unknown("what is no real number")
        forms = isinstance(left, Form) or isinstance(right, Form)
        of = self.machine.of
        if not (equal(self.atoms, of.form(left), of.form(right)) if forms else left == right):
            raise CertificateError(f"no law is known by which {self.claim.dist} holds {self.claim.base}")

    def _is_of(self, tensor: str, what: str, key: Any) -> bool:
        """Whether this is an element of an unknown tensor, wherever it is."""
        ((part, factor), *others) = key
        if others or len(part) != 1 or part[0][1] != 1 or self.atoms.kinds[part[0][0]][0] != "input":
            return False
        return (factor > 0 or what == "nonzero") and tensor in self.names[self.atoms.kinds[part[0][0]][1][0]]
