"""Outputs that rest on equal formulas: the checker computes both sides anew, by its own algebra."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.audit import algebra_checked
from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError, read_lines
from scalify_dl.certificate.formulas.claims import WORDS, decide_claims, finite_inputs
from scalify_dl.certificate.formulas.elementwise import Elementwise
from scalify_dl.certificate.formulas.equal import equal
from scalify_dl.certificate.formulas.forms import Atoms, Form
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove import ahead

from ..algebra.programs import matmul
from ..algebra.test_written_differently import RIGHT, WRONG
from .test_certificate import certified, checker

NAMES = ("softmax", "vocabulary", "low rank", "norm", "blocks")


def facts_of(pair: Pair) -> Facts:
    return Facts({name: list(rows) for name, rows in pair.tables().items()})


def claimed(pair: Pair, *assumed: tuple[str, str, str]) -> None:
    """The checker's word on the claim that the output is the baseline's as it is, or in blocks over the axis."""
    tables = facts_of(pair).tables
    (dist, base, _), *_ = tables["expect"]
    dims = {t: [n for other, _, n in sorted(tables["dim"]) if other == t] for t in (dist, base)}
    words, axes = [], "r2" if tables["mesh_axis"][0][2] == 2 else ""
    for d, (local, whole) in enumerate(zip(dims[dist], dims[base], strict=True)):
        words.append(f"[{d}:1x{local}]")
        if local != whole:
            axes = f"{d}:{local}x{whole // local}"
    claims = [(dist, base, f"{''.join(words)}|tp={axes}")]
    decide_claims(tables, claims, [*assumed, *finite_inputs(tables, claims)])


@pytest.mark.parametrize("name", NAMES)
def test_a_certificate_of_equal_formulas_is_accepted(name: str, tmp_path: Path) -> None:
    facts = facts_of(RIGHT[name]())
    path = certified(facts, tmp_path / "proof")
    header = next(read_lines(path))
    assert header["equalities"]
    accepted = checker().accept(read_lines(path), facts.tables)
    assert {why for _, _, why in accepted.assumptions} >= {"finite"}


@pytest.mark.parametrize("name", NAMES)
def test_the_wrong_twin_is_refused(name: str) -> None:
    claimed(RIGHT[name]())
    with pytest.raises(CertificateError):
        claimed(WRONG[name]())


def alone(base: Callable[[Graph, Tensor], Tensor], dist: Callable[[Graph, Tensor], Tensor]) -> Pair:
    pair = Pair({"tp": 1})
    x, dx = pair.input((3,))
    pair.outputs(base(pair.base, x), dist(pair.dist, dx))
    return pair


def chosen(direction: str) -> Callable[[Graph, Tensor], Tensor]:
    def make(g: Graph, x: Tensor) -> Tensor:
        zero, one = g.splat(0, "f32", (3,)), g.splat(1, "f32", (3,))
        return g.emit("select", [g.emit("compare", [x, zero], direction=direction), x, one])

    return make


def least(g: Graph, x: Tensor) -> Tensor:
    return g.emit("negate", [g.emit("maximum", [g.emit("negate", [x]), g.emit("negate", [g.emit("abs", [x])])])])


def quotient(g: Graph, x: Tensor) -> Tensor:
    return g.emit("divide", [g.emit("multiply", [x, x]), x])


@pytest.mark.parametrize(("dtype", "most"), [("bf16", 256), ("f16", 2048)])
def test_whole_numbers_that_a_cast_rounds_are_no_numbers_there(dtype: str, most: int) -> None:
    def cast(n: int) -> Callable[[Graph, Tensor], Tensor]:
        def make(g: Graph, x: Tensor) -> Tensor:
            narrow = g.emit("convert", [g.splat(n, "s32", (3,))], dtype=dtype)
            return g.emit("add", [x, g.emit("convert", [narrow], dtype="f32")])

        return make

    def plain(n: int) -> Callable[[Graph, Tensor], Tensor]:
        return lambda g, x: g.emit("add", [x, g.splat(n, "f32", (3,))])

    claimed(alone(plain(most), cast(most)))
    with pytest.raises(CertificateError, match="rounds"):
        claimed(alone(plain(most + 1), cast(most + 1)))


def divided_twice() -> Pair:
    """x W / u / u, behind a product over ranks: the baseline divides by u²."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw), (u, du) = pair.input((2, 4), {1: "tp"}), pair.input((4, 3), {0: "tp"}), pair.input((2, 3))
    y = pair.base.emit("divide", [matmul(pair.base, x, w), pair.base.emit("multiply", [u, u])])
    summed = pair.dist.emit("all-reduce", [matmul(pair.dist, dx, dw)], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(y, pair.dist.emit("divide", [pair.dist.emit("divide", [summed, du]), du]))
    return pair


def spoilt(part: list[Any], how: str) -> list[Any]:
    number, dist, base, layout, given, needs = part
    if how == "a need":
        return [number, dist, base, layout, given, needs[:-1]]
    if how == "an unknown":
        return [number, dist, base, layout, given[:-1], needs]
    if how == "what an unknown holds":
        return [number, dist, base, layout, [[given[0][0], given[1][1], given[0][2]], *given[1:]], needs]
    return [number, dist, given[0][1], layout, given, needs]


def test_a_certificate_of_equal_parts_is_accepted_and_decided_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "ELEMENTS", 0)
    facts = facts_of(divided_twice())
    header, *lines = read_lines(certified(facts, tmp_path / "proof"))
    (part,) = header["parts"]
    accepted = checker().accept([header, *lines], facts.tables)
    assert {why for _, _, why in accepted.assumptions} >= {"finite", "nonzero"}
    for how in ("a need", "an unknown", "what an unknown holds", "what it is"):
        with pytest.raises(CertificateError):
            checker().accept([{**header, "parts": [spoilt(part, how)]}, *lines], facts.tables)
    with pytest.raises(CertificateError):
        checker().accept([{**header, "parts": [part, part]}, *lines], facts.tables)


def test_at_zero_above_and_at_least_differ() -> None:
    claimed(alone(chosen("GT"), chosen("GT")))
    with pytest.raises(CertificateError, match="no law is known"):
        claimed(alone(chosen("GT"), chosen("GE")))


def test_maxima_are_compared_by_cases() -> None:
    claimed(alone(lambda g, x: x, least))
    with pytest.raises(CertificateError, match="no law is known"):
        claimed(alone(lambda g, x: g.emit("abs", [x]), least))


def test_what_a_step_needs_must_be_assumed() -> None:
    pair = alone(lambda g, x: x, quotient)
    with pytest.raises(CertificateError, match="needs what is not assumed"):
        claimed(pair)
    inputs = [tensor for _, _, tensor in facts_of(pair)["input"]]
    claimed(pair, *((tensor, WORDS["nonzero"], "nonzero") for tensor in inputs))
    with pytest.raises(CertificateError, match="needs what is not assumed"):
        claimed(pair, *((tensor, WORDS["nonnegative"], "nonnegative") for tensor in inputs))


def test_inputs_must_be_assumed_to_be_finite() -> None:
    facts = facts_of(RIGHT["softmax"]())
    (dist, base, _), *_ = facts["expect"]
    with pytest.raises(CertificateError, match="finite"):
        decide_claims(facts.tables, [(dist, base, "[0:1x2][1:1x4]|tp=")], [])


@pytest.mark.parametrize("layout", ["[0:1x2][1:1x4]|tp=r2", "[1:1x2][0:1x4]|tp=", "[0:1x2][1:1x4]|tp= *1/2", "x"])
def test_a_claim_with_another_layout_is_refused(layout: str) -> None:
    facts = facts_of(RIGHT["softmax"]())
    (dist, base, _), *_ = facts["expect"]
    with pytest.raises(CertificateError):
        decide_claims(facts.tables, [(dist, base, layout)], finite_inputs(facts.tables, [(dist, base, "[]|tp=")]))


def test_random_expressions_that_are_called_equal_are() -> None:
    followed, equal, wrong = algebra_checked.campaign(250, 1)
    assert wrong == []
    assert followed > 100
    assert equal > 80


def test_a_law_that_is_a_little_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_least(self: Elementwise, direction: str, p: Form) -> Form:
        loose = {"GT": "GE", "LE": "LT"}.get(direction, direction)
        return compared(self, loose, p)

    compared = Elementwise._compared
    monkeypatch.setattr(Elementwise, "_compared", at_least)
    assert algebra_checked.campaign(200, 2)[2]


def test_a_root_of_a_square_is_no_number_of_unknown_sign() -> None:
    atoms = Atoms()
    x = atoms.atom("input", 0)
    assert atoms.power(x * x, Fraction(1, 2)).key != x.key


def test_what_is_not_below_zero_stands_outside_of_a_greatest_one_for_the_checker_too() -> None:
    """… a factor of unknown sign does not, and truths do not."""
    atoms = Atoms()
    x, y, truth = atoms.atom("input", "x"), atoms.atom("input", "y"), atoms.above_zero(atoms.atom("input", "z"))
    zero, root = atoms.number(0), atoms.power(y + atoms.number(1), Fraction(-1, 2))
    for factor, outside in ((root, True), (atoms.exponential(y), True), (y, False), (truth, False)):
        assert (atoms.most([zero, factor * x]).key == (factor * atoms.most([zero, x])).key) is outside


def test_the_checker_knows_that_what_is_above_one_number_is_not_below_a_lesser_one() -> None:
    """So a value is cut off below and then above as it is the other way round, but not where the ends are exchanged."""
    atoms = Atoms()
    x, low, high = atoms.atom("input", "x"), atoms.number(0), atoms.number(6)

    def cut(first: Form, then: Form) -> Form:
        return -atoms.most([-atoms.most([x, first]), -then])

    other = atoms.most([low, -atoms.most([-high, -x])])
    assert equal(atoms, cut(low, high), other)
    assert not equal(atoms, cut(high, low), other)
