"""The wrong programs that `rules check` begins with."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.trials import ROUNDED, TRIALS


@pytest.mark.parametrize("name", TRIALS | ROUNDED)
def test_a_wrong_program_is_not_proved_and_nothing_false_is_derived_of_it(name: str) -> None:
    tables = (TRIALS | ROUNDED)[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    findings = audit(tables, derived.claims, trials=2)
    assert findings.false == []
    assert findings.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIALS)
def test_formulas_prove_a_wrong_program_only_on_conditions_that_it_lists(name: str) -> None:
    tables = TRIALS[name]().tables()
    derived = derive(tables, formulas=2)
    assert derived.unproved or derived.assumed
    assert audit(tables, derived.claims, trials=2, assumed=derived.assumed, finite=derived.finite).false == []
