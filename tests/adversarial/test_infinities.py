"""Values that may be infinite: what is multiplied by zero, or multiplies a sum that is still pending."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.oracle import find_counterexample, load_program

from .infinities import RIGHT, WRONG

UNDEFINED = {"rows of a table that are no numbers masked by products"}
"""The baseline is NaN on most inputs; the oracle looks for others."""


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_program_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    assert not derive(tables).proved
    found = find_counterexample(load_program(tables))
    assert found.status == ("agrees" if name in UNDEFINED else "refuted"), found


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_program_is_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.claims, finite=derived.finite).false == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "a masked value times a flag",
            "select may be infinite (that comes from constant): it is multiplied by a flag",
        ),
        ("a partial sum over zero", "base/maximum may be zero: it divides a sum that is still pending"),
        ("a logarithm of parts of a maximum", "reduce may be negative: it is a part of a pending maximum"),
        (
            "infinite rows of a table masked by products",
            "gather may be infinite (that comes from log): it is multiplied",
        ),
    ],
)
def test_what_may_be_infinite_is_said(name: str, said: str) -> None:
    found = [text for _, text in derive(WRONG[name]().tables()).program.relation("diag_found")]
    assert any(str(text).startswith(said) for text in found), found


def test_inputs_are_assumed_to_be_finite_where_a_proof_relied_on_it() -> None:
    def listed(name: str) -> set[str]:
        return set(derive(RIGHT[name]().tables()).finite)

    assert listed("a_partial_sum_over_a_root") == {"base/x2"}
    assert listed("a_masked_value_kept_by_a_choice") == set()
    assert listed("a_masked_value_that_is_gathered") == set()
