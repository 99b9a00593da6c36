"""Claims decided three ways, by the rules' intervals, by enumeration and by Z3, on random formulas."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.obligations import Mesh, canonical
from scalify_dl.obligations.enumerate import enumerable, refute, value
from scalify_dl.obligations.smt import Answer, Smt
from scalify_dl.pysouffle import Program, rules_dir
from scalify_dl.pysouffle.values import Branch

AXES = (("a", 2), ("b", 3))
DIGITS = dict(enumerate(product(range(2), range(3))))
TABLES = {"f": {0: 3, 1: 1, 2: 4, 3: 1, 4: 5, 5: 9}}


def nums(values: tuple[int, ...]) -> Any:
    out = None
    for v in reversed(values):
        out = (v, out)
    return out


X = Branch("X")
CONST = st.integers(-9, 9).map(lambda v: Branch("Const", (v,)))
RANK = st.tuples(st.integers(-4, 4), st.tuples(st.integers(-3, 5), st.integers(-3, 5))).map(
    lambda p: Branch("Rank", (p[0], nums(p[1])))
)


def binary(parts: tuple[Any, ...]) -> Branch:
    return Branch("Binary", parts)


def compared(numbers: st.SearchStrategy[Branch]) -> st.SearchStrategy[Branch]:
    return st.tuples(st.sampled_from(["EQ", "NE", "LT", "LE", "GT", "GE"]), numbers, numbers).map(binary)


def larger(numbers: st.SearchStrategy[Branch]) -> st.SearchStrategy[Branch]:
    return st.one_of(
        st.tuples(st.sampled_from(["add", "subtract", "maximum", "minimum"]), numbers, numbers).map(binary),
        st.tuples(st.just("multiply"), st.one_of(CONST, RANK), numbers).map(binary),
        numbers.map(lambda a: Branch("Unary", ("negate", a))),
        st.tuples(compared(numbers), numbers, numbers).map(lambda p: Branch("Choice", p)),
    )


NUMBERS = st.recursive(st.one_of(st.just(X), CONST, RANK, st.just(Branch("Table", ("f",)))), larger, max_leaves=8)
TRUTHS = st.recursive(
    compared(NUMBERS),
    lambda truths: st.one_of(
        st.tuples(st.sampled_from(["and", "or", "xor"]), truths, truths).map(binary),
        truths.map(lambda a: Branch("Unary", ("not", a))),
    ),
    max_leaves=4,
)
DIVIDED = st.tuples(
    st.sampled_from(["EQ", "LT", "GE"]),
    st.tuples(
        st.sampled_from(["divide", "remainder", "floor-divide"]),
        NUMBERS,
        st.integers(-4, 4).map(lambda v: Branch("Const", (v,))),
    ).map(lambda p: Branch("Binary", p)),
    NUMBERS,
).map(lambda p: Branch("Binary", p))


MESH = Mesh((2, 3), DIGITS, TABLES)


def decided_by_rules(
    claims: list[tuple[Branch, int, int]],
) -> tuple[set[Any], dict[Any, set[tuple[int, int]]], set[Any]]:
    """(valid, where wrong, left as obligations) of claims."""
    program = Program.from_file(rules_dir() / "verify.dl")
    program.insert("mesh_axis", [(axis, pos, size) for pos, (axis, size) in enumerate(AXES)])
    program.insert("rank_coord", [(r, axis, ds[pos]) for r, ds in DIGITS.items() for pos, (axis, _) in enumerate(AXES)])
    program.insert("rank_function", [(f, r, v) for f, by_rank in TABLES.items() for r, v in by_rank.items()])
    program.insert("claim", [(f, (lo, hi)) for f, lo, hi in claims])
    program.run()
    wrong: dict[Any, set[tuple[int, int]]] = {}
    for f, lo, hi, rank, at in program.relation("wrong"):
        wrong.setdefault((f, lo, hi), set()).add((rank, at))
    valid = {(f, lo, hi) for f, (lo, hi) in program.relation("valid")}
    return valid, wrong, set(program.relation("obligation"))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(TRUTHS, st.integers(-12, 3), st.integers(0, 25)), min_size=1, max_size=12))
def test_intervals_and_enumeration_agree(rows: list[tuple[Branch, int, int]]) -> None:
    claims = [(f, lo, lo + n) for f, lo, n in rows]
    valid, wrong, _ = decided_by_rules(claims)
    for row in claims:
        formula, atoms = canonical(*row, MESH)
        assert enumerable(formula)
        witness = refute(formula)
        if row in valid:
            assert witness is None, row
        for rank, at in wrong.get(row, ()):
            place = rank if formula.ranks else 0
            assert value(formula.term, at, tuple(DIGITS[rank][a] for a in atoms), place) == 0
        # without divisions the rules decide everything, up to numbers beyond 2^29
        assert (row in valid) == (witness is None)
        assert bool(wrong.get(row)) == (witness is not None)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.one_of(TRUTHS, DIVIDED), st.integers(-12, 3), st.integers(0, 25))
def test_enumeration_and_z3_agree(term: Branch, lo: int, n: int) -> None:
    formula, _ = canonical(term, lo, lo + n, MESH)
    witness = refute(formula)
    answer, case = Smt(20_000).decide(formula)
    assert answer is (Answer.PROVED if witness is None else Answer.REFUTED)
    if case is not None:
        assert value(formula.term, case.x, case.digits, case.place) == 0


def by_what_may_be_zero(term: Any) -> bool:
    """Whether a term divides by anything but a number other than zero: what that is depends on the type, so a solver is
    not asked."""
    if not isinstance(term, Branch):
        return False
    if term.name == "Binary" and term.fields[0] in ("divide", "remainder", "floor-divide"):
        by = term.fields[2]
        if by.name != "Const" or by.fields[0] == 0:
            return True
    return any(map(by_what_may_be_zero, term.fields))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(DIVIDED, min_size=1, max_size=8), st.integers(-12, 3), st.integers(0, 25))
def test_what_the_rules_decide_of_divisions_is_right(terms: list[Branch], lo: int, n: int) -> None:
    claims = [(f, lo, lo + n) for f in terms]
    valid, wrong, left = decided_by_rules(claims)
    for row in claims:
        witness = refute(canonical(*row, MESH)[0])
        assert row not in valid or witness is None
        assert not wrong.get(row) or witness is not None
        assert (row in valid) or bool(wrong.get(row)) or (row in left) or by_what_may_be_zero(row[0])
