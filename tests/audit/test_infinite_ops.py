"""The table of what op kinds make of infinities, NaN and signs (ops/infinities/), against their numeric meanings."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from scalify_dl.audit.derive import load_rules
from scalify_dl.oracle.meaning.elementwise import PLAIN

VALUES = {
    "-inf": [-np.inf],
    "-": [-2.0, -1.0, -0.7, -0.25],
    "0": [0.0],
    "+": [0.25, 0.7, 1.0, 2.0],
    "inf": [np.inf],
    "nan": [np.nan],
}
UNLIKE = {"tan"}
"""Where rounding decides the sign."""


def named(value: float) -> str:
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return "0" if value == 0 else "+" if value > 0 else "-"


@pytest.fixture(scope="module")
def tables() -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str, str]]]:
    program = load_rules()
    program.run()
    unary = {(str(k), str(a), str(c)) for k, a, c in program.relation("unary")}
    return unary, {(str(k), str(a), str(b), str(c)) for k, a, b, c in program.relation("binary")}


def test_functions_of_one_value_make_what_the_table_says(tables) -> None:  # type: ignore[no-untyped-def]
    unary, _ = tables
    kinds = {k for k, _, _ in unary} & PLAIN.keys() - UNLIKE
    assert len(kinds) > 20
    for kind, (name, values) in product(sorted(kinds), VALUES.items()):
        allowed = {c for k, a, c in unary if (k, a) == (kind, name)} | ({"nan"} if name == "nan" else set())
        with np.errstate(all="ignore"):
            made = {named(float(PLAIN[kind](np.array([v]))[0])) for v in values}
        assert made <= allowed, (kind, name, made, allowed)


def test_functions_of_two_values_make_what_the_table_says(tables) -> None:  # type: ignore[no-untyped-def]
    _, binary = tables
    kinds = {k for k, *_ in binary}
    assert kinds <= PLAIN.keys()
    for kind, (first, xs), (second, ys) in product(sorted(kinds), VALUES.items(), VALUES.items()):
        allowed = {c for k, a, b, c in binary if (k, a, b) == (kind, first, second)}
        allowed |= {"nan"} if "nan" in (first, second) else set()
        with np.errstate(all="ignore"):
            made = {named(float(PLAIN[kind](np.array([x]), np.array([y]))[0])) for x, y in product(xs, ys)}
        assert made <= allowed, (kind, first, second, made, allowed)


def test_what_a_pending_maximum_passes_is_monotone_and_known_at_infinities() -> None:
    """A monotone kind without rows would let a maximum of negative parts pass a root."""
    program = load_rules()
    program.run()
    known = {str(k) for k, *_ in program.relation("unary")}
    kinds = {str(k) for (k,) in program.relation("monotone")} - {"convert"}
    assert kinds - known == set()
    for kind in sorted(kinds & PLAIN.keys()):
        with np.errstate(all="ignore"):
            values = np.asarray(PLAIN[kind](np.linspace(-3.0, 3.0, 97)))
        numbers = values[~np.isnan(values)]
        assert np.all(np.diff(numbers) >= 0), kind
