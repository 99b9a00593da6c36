"""The wrong programs that are tried when a side condition of the rules is deleted (benchmarks/trials.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import mesh_trials  # noqa: E402, F401  (it registers its trials, as the next ones do)
import moved_trials  # noqa: E402, F401
import number_trials  # noqa: E402
import piece_trials  # noqa: E402, F401
import ring_trials  # noqa: E402, F401
import row_trials  # noqa: E402, F401
import whole_trials  # noqa: E402, F401
import window_trials  # noqa: E402, F401
from trials import TRIALS  # noqa: E402

sys.path.remove(str(BENCHMARKS))


PROGRAMS = TRIALS | number_trials.ROUNDED


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_program_is_not_proved_and_nothing_false_is_derived_of_it(name: str) -> None:
    tables = PROGRAMS[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    findings = audit(tables, derived.claims, trials=2)
    assert findings.false == []
    assert findings.problems == []
