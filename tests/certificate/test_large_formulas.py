"""Claims at large sizes, where the checker follows blocks with variables: right ones are accepted, others are not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.audit import algebra_blocks
from scalify_dl.audit.block_worth import Worth
from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import CertificateError, read_lines, table_hash
from scalify_dl.certificate.formulas.claims import decide_claims, finite_inputs
from scalify_dl.certificate.formulas.elementwise import HIGH, LOW, NAN
from scalify_dl.certificate.formulas.forms import Form, Unknown
from scalify_dl.certificate.formulas.large import blocks, places
from scalify_dl.certificate.formulas.large.atoms import Spread
from scalify_dl.certificate.formulas.large.elementwise import Wide
from scalify_dl.certificate.formulas.large.places import Place, variable
from scalify_dl.certificate.formulas.large.places import alone as alone_at
from scalify_dl.ir.graph import Graph, Tensor

from ..algebra.programs import SIZE, alone, compared, iota, number, over, two, where
from ..algebra.test_large import RIGHT, WRONG, attention, low_rank
from ..algebra.test_right_when_small import SMALL_ONLY
from .test_certificate import certified, checker
from .test_equal_formulas import claimed, facts_of


@pytest.mark.parametrize("name", RIGHT)
def test_a_large_pair_is_accepted(name: str) -> None:
    claimed(RIGHT[name]())


@pytest.mark.parametrize("name", WRONG)
def test_the_wrong_twin_of_a_large_pair_is_refused(name: str) -> None:
    with pytest.raises(CertificateError):
        claimed(WRONG[name]())


@pytest.mark.parametrize("name", SMALL_ONLY)
def test_what_is_right_at_two_elements_alone_is_refused_at_many(name: str) -> None:
    for size in (32 * SIZE, 4 * 1024 * 1024):
        with pytest.raises(CertificateError):
            claimed(alone(*SMALL_ONLY[name], size))


# ---- certificates, and forged ones ----
TWINS: dict[str, tuple[Callable[[], Pair], Callable[[], Pair]]] = {
    "attention in blocks": (attention, lambda: attention(direction="LT")),
    "low rank": (low_rank, lambda: low_rank(twice=True)),
    **{name: (RIGHT[name], WRONG[name]) for name in ("variance", "vocabulary", "softmax")},
}


@pytest.mark.parametrize("name", ["attention in blocks", "low rank", "vocabulary"])
def test_a_certificate_of_a_large_pair_is_accepted_and_not_of_its_wrong_twin(name: str, tmp_path: Path) -> None:
    right, wrong = (facts_of(make()) for make in TWINS[name])
    header, *lines = read_lines(certified(right, tmp_path / "proof"))
    assert header.get("equalities") or header.get("parts")
    assert checker().accept([header, *lines], right.tables).outputs
    with pytest.raises(CertificateError, match="about other facts"):
        checker().accept([header, *lines], wrong.tables)
    hashes = {name: table_hash(wrong.tables.get(Path(name).stem, ())) for name in header["facts"]}
    with pytest.raises(CertificateError, match=r"no law is known|cannot be followed|is not stated"):
        checker().accept([{**header, "facts": hashes}, *lines], wrong.tables)


Row = tuple[Any, ...]
Edit = Callable[[Row], Row | None]
"""Another row in the place of one, if it is one that is changed."""


def put(row: Row, at: int, value: Any) -> Row:
    return (*row[:at], value, *row[at + 1 :])


EDITS: dict[str, tuple[str, str, Edit]] = {
    "a block that is cut elsewhere": (
        "attention in blocks", "attr_number",
        lambda row: put(row, 3, row[3] - 1) if row[1] in ("start", "limit") and row[3] == SIZE // 2 else None,
    ),
    "a comparison": (
        "attention in blocks", "attr_symbol",
        lambda row: put(row, 3, "LT") if row[3] == "LE" and not row[0].startswith("base/") else None,
    ),
    "a maximum": (
        "attention in blocks", "attr_symbol",
        lambda row: put(row, 3, "min") if row[3] == "max" and row[0].startswith("base/") else None,
    ),
    "what is in the place of what is hidden": (
        "attention in blocks", "literal",
        lambda row: put(row, 1, "0") if row[1] == "-inf" and not row[0].startswith("base/") else None,
    ),
    "a constant": (
        "variance", "literal",
        lambda row: put(row, 1, "0.00024414") if "base/" in row[0] and row[1] == "0.000244140625" else None,
    ),
    "the dim of a sum": (
        "softmax", "attr_number",
        lambda row: put(row, 3, 0) if row[0] == "reduce~2" and row[1] == "dimensions" else None,
    ),
    "a reducer over ranks": (
        "vocabulary", "attr_symbol", lambda row: put(row, 3, "max") if row[0] == "all-reduce~2" else None,
    ),
    "a group of ranks": (
        "vocabulary", "group",
        lambda row: (row[0], row[3] // 2, row[3] % 2, row[3]) if row[0] == "all-reduce~2" else None,
    ),
    "what ranks hold": (
        "low rank", "shard",
        lambda row: put(row, 4, "[0:1x4096][1:2x32]|tp=1:1x2") if row[0].startswith("x2") else None,
    ),
    "an operand": (
        "low rank", "operand", lambda row: put(row, 2, "x1") if row[:2] == ("add", 0) else None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_program_is_not_what_was_proved(name: str) -> None:
    which, table, edit = EDITS[name]
    tables = {name: list(rows) for name, rows in facts_of(TWINS[which][0]()).tables.items()}
    claims = claims_of(tables)
    finite = finite_inputs(tables, claims)
    decide_claims(tables, claims, finite)
    edited = [edit(row) or row for row in tables[table]]
    assert edited != tables[table]
    with pytest.raises(CertificateError):
        decide_claims({**tables, table: edited}, claims, finite)


def claims_of(tables: Any) -> list[Row]:
    """That the output is the baseline's, as it is or in columns over the axis."""
    (dist, base, _), *_ = tables["expect"]
    own, theirs = ([n for other, _, n in sorted(tables["dim"]) if other == t] for t in (dist, base))
    dims = "".join(f"[{d}:1x{n}]" for d, n in enumerate(own))
    ranks = tables["mesh_axis"][0][2]
    return [(dist, base, f"{dims}|tp={'r' + str(ranks) if own == theirs else f'1:{own[1]}x{ranks}'}")]


# ---- what may be slightly false is found ----
def test_random_programs_are_worth_what_their_blocks_say() -> None:
    followed, equal, wrong = algebra_blocks.campaign(60, 3)
    assert not wrong
    assert followed > 500
    assert equal > 20


def shown_somewhere(self: Spread, names: Any, shown: Form) -> bool:
    return bool(names) or shown.value == 1


def beyond(self: Spread, place: Place) -> Form:
    """At least zero, or nearly."""
    return BEFORE(self, place.plus(Place(1)) if place.terms else place)


def backwards(parts: Any) -> list[int]:
    return [sum(map(prod, parts[len(parts) - n :])) for n in range(len(parts) + 1)]


def once(self: Spread, form: Form, over: Any) -> Form:
    return TOTAL(self, form, [v for v in over if v in self.variables(form)])


BEFORE, TOTAL, NAMES = Spread.at_least_zero, Spread.total, blocks.names
FALSE: dict[str, tuple[Any, str, Any]] = {
    "places that are nearly zero": (Spread, "at_least_zero", beyond),
    "what may be hidden is shown": (Spread, "is_shown", shown_somewhere),
    "what is the same for all is added once": (Spread, "total", once),
    "parts in another order": (blocks, "starts", backwards),
    "digits in another order": (places, "strides", lambda digits: [prod(digits[:n]) for n in range(len(digits))]),
    "digits of two dims have one name": (blocks, "names", lambda *of: NAMES(*of[:3])),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_a_law_that_is_slightly_false_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FALSE[name])
    assert any(algebra_blocks.campaign(30, seed, enough=1)[2] for seed in (5, 4, 6))


def test_of_two_bounds_both_hold_where_the_stricter_one_does() -> None:
    atoms, (i, j) = Spread(), (variable(0, 0, 4), variable(1, 0, 5))
    for more, less in product(range(-3, 4), repeat=2):
        for sign in (1, -1):
            gaps = [Place(n).plus(alone_at(i), s).plus(alone_at(j), -s) for n, s in ((more, 1), (less, sign))]
            both = atoms.at_least_zero(gaps[0]) * atoms.at_least_zero(gaps[1])
            for at in ({i: a, j: b} for a in range(4) for b in range(5)):
                gap = at[i] - at[j]
                assert Worth(atoms, {}).form(both, at) == (gap + more >= 0 and sign * gap + less >= 0)


def online(direction: str) -> Pair:
    """What is left of an empty start beside a row of which some is hidden: exp(−∞ − max), which is 0 where the maximum
    is a number."""

    def kept(g: Graph, x: Tensor) -> Tensor:
        shown = where(g, compared(g, iota(g, x, 1), iota(g, x, 0), direction), x, float("-inf"))
        top = over(g, shown, "max", 1)
        rest = g.emit("exponential", [two(g, "subtract", number(g, float("-inf"), top), top)])
        return two(g, "add", over(g, x, "sum", 1), rest)

    return alone(lambda g, x: over(g, x, "sum", 1), kept, SIZE, SIZE)


def test_nothing_less_nothing_is_no_number() -> None:
    claimed(online("LE"))
    with pytest.raises(CertificateError, match="infinity"):
        claimed(online("LT"))


def shares(direction: str) -> Pair:
    """That what rows of which some is hidden are shared out among adds up to 1: not where all of a row is hidden."""

    def shared(g: Graph, x: Tensor) -> Tensor:
        hidden = where(g, compared(g, iota(g, x, 1), iota(g, x, 0), direction), x, float("-inf"))
        weights = g.emit("exponential", [hidden])
        total = g.emit("broadcast", [over(g, weights, "sum", 1)], shape=x.shape, dimensions=[0])
        return over(g, two(g, "divide", weights, total), "sum", 1)

    return alone(shared, lambda g, x: number(g, 1.0, over(g, x, "sum", 1)), SIZE, SIZE)


def test_a_sum_of_what_may_all_be_hidden_is_needed_to_be_other_than_zero() -> None:
    claimed(shares("LE"))
    with pytest.raises(CertificateError):
        claimed(shares("LT"))


def test_infinity_and_what_is_no_number_are_not_added_nor_compared() -> None:
    of, x = Wide(Spread()), Spread().element("x", ())
    for one, two_ in ((LOW, HIGH), (HIGH, x), (HIGH, HIGH)):
        with pytest.raises(Unknown):
            of.add(one, two_)
    for direction in ("LT", "GT", "NE"):
        with pytest.raises(Unknown):
            of.compare(direction, LOW, NAN)
