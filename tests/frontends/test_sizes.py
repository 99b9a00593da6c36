"""Formulas of sizes, and what follows from given sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.ir.expression import Expression
from scalify_dl.readers.sizes import Formula, NoFormula, OpenInput, OpenSizes, Sizes


def dump(*inputs: tuple[str, tuple[int | str, ...]], constraints: tuple[str, ...] = ()) -> OpenSizes:
    ports = (
        OpenInput(n, (name,), tuple(Formula.parse(d) if isinstance(d, str) else d for d in dims))
        for n, (name, dims) in enumerate(inputs)
    )
    return OpenSizes(tuple(ports), tuple(map(Formula.parse, constraints)))


def solved(sizes: list[str], found: OpenSizes) -> dict[str, str]:
    return {name: str(value) for name, value in Sizes.parse(sizes).solve(found).items()}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*s0 + 1", 15),
        ("(s0//2)", 3),
        ("Min(5, s0)", 5),
        ("Max(5, s0, s1)", 10),
        ("Mod(s1, 4)", 2),
        ("floordiv(s1, 3)", 3),
        ("mod(s1, 4) == 2", 1),
        ("Eq(Mod(s1, 5), 0)", 1),
        ("CeilToInt(IntTrueDiv(s0, 2))", 4),
        ("s0**2 - s1", 39),
        ("(s0 > 3) & (s1 > 3)", 1),
    ],
)
def test_a_formula_has_the_value_that_the_exporter_means(text: str, value: int) -> None:
    assert Formula.parse(text).at({"s0": 7, "s1": 10}) == value


@pytest.mark.parametrize(
    "text", ["__import__('os')", "s0.real", "s0[0]", "2**s0", "f(s0)", "'a'", "", "s0 +", "1.5*s0", "(s0**9)**9"]
)
def test_other_texts_are_no_formulas(text: str) -> None:
    with pytest.raises(NoFormula):
        Formula.parse(text)


def test_formulas_that_have_no_whole_value_are_told() -> None:
    for text in ("s0/2", "s0//s1"):
        with pytest.raises(NoFormula):
            Formula.parse(text).at({"s0": 7, "s1": 0})


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 9), st.integers(0, 9))
def test_symbols_follow_from_dims_that_are_linear_in_them(a: int, b: int, factor: int, shift: int) -> None:
    found = dump(("x", (f"{factor}*a + {shift}", 8)), ("y", ("a*b",)))
    assert solved([f"x:0={factor * a + shift}", f"y:0={a * b}"], found) == {"a": str(a), "b": str(b)}


def test_formulas_of_a_family_are_solved_like_numbers() -> None:
    found = dump(("x", ("2*s39", "s27")))
    sizes = Sizes(dims={("x", 0): Expression.symbol("batch"), ("0", 1): Expression.symbol("seq")})
    assert {name: str(value) for name, value in sizes.solve(found).items()} == {"s39": "batch/2", "s27": "seq"}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (["x:0=7"], "cannot be 7"),
        (["x:0=8"], "s27 (in x:1)"),
        (["x:0=8", "x:1=5", "y:0=5"], "dim 0 of y is s39 = 4, not 5"),
        (["x:0=8", "x:1=5", "y:1=9"], "dim 1 of y is 8, not 9"),
        (["x=8"], "open: s39"),
        (["x:0=0"], "--size"),
        (["x:0=99999999999"], "--size"),
    ],
)
def test_sizes_that_contradict_or_do_not_suffice_are_bad_input(sizes: list[str], message: str) -> None:
    found = dump(("x", ("2*s39", "s27")), ("y", ("s39", 8)))
    with pytest.raises(InputError) as error:
        solved(sizes, found)
    assert message in str(error.value)


def test_sizes_outside_of_the_constraints_are_bad_input() -> None:
    found = dump(("x", ("a",)), constraints=("a <= 8", "Eq(Mod(a, 2), 0)"))
    found.check({"a": 8})
    for wrong in (9, 10, 7):
        with pytest.raises(InputError, match="violates"):
            found.check({"a": wrong})
