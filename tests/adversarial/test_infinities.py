"""Values that may be infinite: what is multiplied by zero, or multiplies a sum that is still pending."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.oracle import find_counterexample, load_program

from .infinities import RIGHT, WRONG


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_program_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    assert not derive(tables).proved
    found = find_counterexample(load_program(tables))
    assert found.status == "refuted", found


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_a_right_program_is_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.claims, finite=derived.finite).false == []
