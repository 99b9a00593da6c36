"""Signs of sums of sums, as the checker looks at them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from scalify_dl.certificate.formulas import forms
from scalify_dl.certificate.formulas.forms import Atoms, Form, Unknown


def deep(atoms: Atoms, depth: int) -> Form:
    """Roots and quotients of sums of roots and quotients, each read twice."""
    x = atoms.atom("input", 0)
    form = atoms.power(x * x + atoms.number(1), Fraction(1, 2))
    for _ in range(depth):
        form = atoms.power(form + atoms.number(1), Fraction(1, 2)) + atoms.power(form + atoms.number(2), Fraction(-1))
    return form


def test_signs_of_what_is_read_often_are_looked_at_once() -> None:
    atoms = Atoms()
    assert deep(atoms, 8).positive()
    assert atoms.looks < 10_000  # millions, if each is looked at by itself


def test_signs_are_not_looked_at_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "MOST_LOOKS", 1_000)
    with pytest.raises(Unknown, match="signs of more than 1,000 products"):
        deep(Atoms(), 8)
