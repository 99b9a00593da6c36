"""Claims that an output holds a baseline value: decided anew, from the inputs on.

A claim is a row of `proved_equal`. Each element of the baseline's inputs is an unknown real number, so each of these
inputs must be assumed to be finite; what the ranks hold of them is said by the facts. Of what steps need (divisors
other than zero and the like), all that is not derived must be assumed, too: rows of `assumed_equality`, which are
assumptions of the certificate.

Parts (rows of `equal_if`) are decided in the same way, with the values of `equal_given` for unknowns, which must be
numbers by the rules on infinities, or assumed to be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..files import CertificateError
from .elementwise import HIDDEN, NAN
from .equal import equal
from .forms import Atoms, Form, Many, Unknown
from .integers import Table, Whole, table, unknown_integer
from .large.claims import NEEDS, decide_large
from .machine import MOST_ELEMENTS, Machine, PerRank
from .programs import Layout, Program, Tables
from .types import REALS, WIDTHS

Rows = Iterable[Sequence[Any]]
FEW_ELEMENTS = 500
"""So many are followed one by one at once."""
WORDS = {
    "finite": "its values are finite",
    "nonzero": "it is not zero where it is divided by",
    "positive": "it is above zero where its logarithm is taken",
    "nonnegative": "it is not below zero where its root is taken",
    "masked": "what stands beside this mask is small: exp of the mask less that is nothing",
    "order": "equal elements of a row of it are found in the order of their places",
}
"""What an assumption says, at the end at least."""
ZEROS = "no row of it has zeros of both signs, which some orders tell apart"


def decide_claims(tables: Tables, claims: Rows, assumed: Rows) -> None:
    """CertificateError where a claim does not follow by the laws that are known here."""
    _worded(assumed)
    try:
        program = Program(tables)
        for dist, base, layout in claims:
            _Claim(program, dist, base, layout).test(_meant(assumed))
    except Unknown as error:
        raise CertificateError(f"the formulas of an output cannot be followed: {error}") from None


class Part(NamedTuple):
    """A claim on condition: what holds what, if each of `given` does, and what its steps need."""

    number: int
    dist: str
    base: str
    layout: str
    given: Sequence[Sequence[str]]
    needs: Rows

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """Its rows, as rules read them."""
        return {
            "equal_if": [(self.number, self.dist, self.base, self.layout)],
            "equal_given": [(self.number, place, *row) for place, row in enumerate(self.given)],
            "equal_needs": [(self.number, *row) for row in self.needs],
        }


def decide_parts(tables: Tables, parts: Iterable[Part], numbers: Collection[str]) -> None:
    """CertificateError where a part does not follow by the laws that are known here; `numbers` are the values of the
    baseline that are no infinities."""
    try:
        program = Program(tables)
        for part in parts:
            _worded(part.needs)
            claim = _Claim(program, part.dist, part.base, part.layout, part.given)
            assumed = _meant(part.needs)
            sure = {dist for dist, what in assumed if what == "finite"}
            endless = [base for dist, base, _ in part.given if dist not in sure and base not in numbers]
            if endless:
                raise CertificateError(f"{endless[0]} is not known to be finite")
            claim.decide(assumed)
    except Unknown as error:
        raise CertificateError(f"the formulas of a part cannot be followed: {error}") from None


def finite_inputs(tables: Tables, claims: Rows) -> list[tuple[str, str, str]]:
    """What claims assume of the baseline's inputs; nothing where the program is not followed here."""
    try:
        program = Program(tables)
        made = [_Claim(program, *claim) for claim in claims]
        return sorted({(t, "its values are finite", "finite") for claim in made for t in claim.inputs()})
    except Unknown:
        return []


def _worded(assumed: Rows) -> None:
    for tensor, text, what in assumed:
        if not str(text).endswith(WORDS.get(what, "")):
            raise CertificateError(f"it says of {tensor} `{text}`, where it assumes `{WORDS[what]}`")


def _meant(assumed: Rows) -> list[tuple[str, str]]:
    """What is assumed of which value."""
    return [(t, "zeros" if text == ZEROS else what) for t, text, what in assumed]


class _Claim:
    def __init__(
        self, program: Program, dist: str, base: str, layout: str, given: Iterable[Sequence[str]] | None = None
    ) -> None:
        """`given`: what the unknowns are and hold; without, they are the inputs."""
        self.program, self.dist, self.base, self.layout = program, dist, base, Layout(layout)
        self.given = None if given is None else [(t, b, text) for t, b, text in given]
        self.masks: frozenset[str] = frozenset()
        """Constants that are masks."""
        self._begin()

    def _begin(self) -> None:
        self.atoms = Atoms()
        self.machine = Machine(self.program, self.atoms)
        self.machine.masks = self.masks
        self.unknowns: dict[str, np.ndarray[Any, Any]] = {}

    def test(self, assumed: list[tuple[str, str]]) -> None:
        endless = sorted(self.inputs() - {t for t, what in assumed if what == "finite"})
        if endless:
            raise CertificateError(f"{endless[0]} is not assumed to be finite")
        self.decide(assumed)

    def decide(self, assumed: list[tuple[str, str]]) -> None:
        """With large numbers as masks, if they are assumed to be some; where that does not do as what they are."""
        self._asked_of_programs()
        self.masks = frozenset(t for t, what in assumed if what == "masked")
        if self.masks:
            try:
                self._decide(assumed)
                return
            except (CertificateError, Unknown):
                self.masks = frozenset()
        self._decide(assumed)

    def _decide(self, assumed: list[tuple[str, str]]) -> None:
        """With variables where there are many elements; where that does not do, or they are few, element by element."""
        count = self._elements()
        if count > FEW_ELEMENTS:
            try:
                decide_large(self, assumed)
                return
            except (CertificateError, Unknown):
                if count > MOST_ELEMENTS:
                    raise
        try:
            self._decide_elements(assumed)
        except Many:
            if count > FEW_ELEMENTS:
                raise
            decide_large(self, assumed)

    def _elements(self) -> int:
        """How many there are in what is read and what comes out, at least."""
        ours, theirs = ([t for t, _, _ in self.given], [b for _, b, _ in self.given]) if self.given else ([], [])
        dist = {*self.reached(self.dist), *ours, self.dist}
        return sum(prod(self.program.shapes[t]) for t in {*theirs, self.base, *dist} if t in self.program.shapes)

    def _asked_of_programs(self) -> None:
        program = self.program
        (base_graph,), (dist_graph,) = program.top["base"], program.top["dist"]
        ours, theirs = [self.dist], [self.base]
        if self.given is not None:
            ours, theirs = ours + [t for t, _, _ in self.given], theirs + [b for _, b, _ in self.given]
        if any(program.graph_of.get(b) != base_graph for b in theirs) or any(
            program.graph_of.get(t) != dist_graph for t in ours
        ):
            raise Unknown("a value of no program")

    def _decide_elements(self, assumed: list[tuple[str, str]]) -> None:
        self._begin()
        program, ranks = self.program, sorted(self.program.coords)
        if self.given is None:
            base_known = {t: {0: self.unknown(t)} for t in self.reached(self.base)}
            dist_known = {t: self._held(t, ranks) for t in self.reached(self.dist)}
        else:
            base_known = {b: {0: self.unknown(b)} for _, b, _ in self.given}
            dist_known = {t: self._placed(t, b, text, ranks) for t, b, text in self.given}
        expected = self.machine.value(self.base, base_known, [0])[0]
        found = self.machine.value(self.dist, dist_known, ranks)
        needs = dict(self.atoms.needs)
        seen: set[tuple[int, ...]] = set()
        for rank in ranks:
            for at, place in self.layout.places(rank, found[rank].shape, expected.shape, program):
                seen.add(place)
                self._compare(found[rank][at], self.layout.of(expected[place], program.types[self.base]))
        if seen != {*np.ndindex(*expected.shape)}:
            raise CertificateError(f"the layout of {self.dist} leaves out elements of {self.base}")
        if self.machine.ordered.missing(assumed):
            raise CertificateError(f"{self.dist} needs an order of their places of equals, which is not assumed")
        allowed = self._allowed(assumed, base_known | dist_known)
        for what, key in needs:
            if not any((other, key) in allowed for other in NEEDS[what]) and not (
                what == "nonzero" and ("nonzero", (-self.atoms.of(key)).key) in allowed
            ):
                raise CertificateError(f"a step of {self.dist} needs what is not assumed: something is {what}")

    def inputs(self) -> set[str]:
        """The inputs of the baseline that both values are made of."""
        held = {dist: base for dist, _, base, _, _ in self.program.shards}
        found = {*self.reached(self.base), *(held.get(t, t) for t in self.reached(self.dist))}
        return {t for t in found if self.program.types.get(t) not in WIDTHS}

    def _compare(self, left: Any, right: Any) -> None:
        if isinstance(left, Table) or isinstance(right, Table):
            sides = [table(self.atoms, x).cases for x in (left, right)]
            nothing = self.atoms.number(0)
            for value in sides[0].keys() | sides[1].keys():
                self._compare(*(cases.get(value, nothing) for cases in sides))
            return
        if isinstance(left, Whole) or isinstance(right, Whole):
            raise Unknown("integers of which nothing is known")
        if left in (NAN, HIDDEN) or right in (NAN, HIDDEN):
            raise Unknown("what is no number, or a mask")
        forms = isinstance(left, Form) or isinstance(right, Form)
        same = equal(self.atoms, self.machine.of.form(left), self.machine.of.form(right)) if forms else left == right
        if not same:
            raise CertificateError(f"no law is known by which {self.dist} holds {self.base}")

    def reached(self, tensor: str) -> list[str]:
        """The inputs that a value is made of."""
        found, seen, stack = [], {tensor}, [tensor]
        while stack:
            at = stack.pop()
            op = self.program.makers.get(at)
            if op is None:
                found.append(at)
                continue
            stack += [t for t in op.operands.values() if t not in seen]
            seen.update(op.operands.values())
        return found

    def unknown(self, tensor: str) -> np.ndarray[Any, Any]:
        """The elements of an input of the baseline."""
        if tensor not in self.unknowns:
            dtype = self.program.types[tensor]
            if dtype not in REALS and dtype not in WIDTHS:
                raise Unknown("inputs that are no numbers")
            if prod(self.program.shapes[tensor]) > MOST_ELEMENTS:
                raise Many("a program of many elements")
            out = np.empty(self.program.shapes[tensor], dtype=object)
            for at in np.ndindex(*out.shape):
                if dtype in WIDTHS:
                    below, above = WIDTHS[dtype]
                    low, limit = self.program.ranges.get(tensor, (-(1 << below) if below else 0, 1 << above))
                    out[at] = unknown_integer(self.atoms, (tensor, at), low, limit - 1)
                else:
                    out[at] = self.atoms.atom("input", (tensor, at))
            self.unknowns[tensor] = out
        return self.unknowns[tensor]

    def _held(self, tensor: str, ranks: list[int]) -> PerRank:
        """What ranks hold of an input."""
        for dist, dist_piece, base, base_piece, text in self.program.shards:
            if dist != tensor or dist_piece or base_piece or base in self.program.makers:
                continue
            return self._placed(tensor, base, text, ranks)
        raise Unknown(f"nothing is known of the input {tensor}")

    def _placed(self, tensor: str, base: str, text: str, ranks: list[int]) -> PerRank:
        layout, whole = Layout(text), self.unknown(base)
        if self.program.types[tensor] != self.program.types[base]:
            raise Unknown("an unknown of another type")
        found = {}
        for rank in ranks:
            out = np.empty(self.program.shapes[tensor], dtype=object)
            for at, place in layout.places(rank, out.shape, whole.shape, self.program):
                out[at] = layout.of(whole[place], self.program.types[base])
            found[rank] = out
        return found

    def _allowed(self, assumed: list[tuple[str, str]], known: dict[str, PerRank]) -> set[tuple[str, Any]]:
        found = set()
        for tensor, what in assumed:
            for array in known.get(tensor, {}).values():
                for element in array.reshape(-1):
                    if what in NEEDS and isinstance(element, Form) and element.value is None:
                        found.add((what, element.parted(positive=True)[2].key))
        return found
