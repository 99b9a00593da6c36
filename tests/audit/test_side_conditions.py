"""The side-condition campaign: what it deletes, and the arguments for what nothing notices."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalify_dl.pysouffle import rules_dir

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import side_conditions

    yield side_conditions
    sys.modules.pop("side_conditions", None)


def test_every_argument_is_about_a_condition_that_there_is(campaign) -> None:  # type: ignore[no-untyped-def]
    found = campaign.conditions(rules_dir(), campaign.all_files(rules_dir()))
    assert len(found) > 500
    assert len(campaign.arguments_for(found)) > 50


def test_a_deleted_condition_is_noticed(campaign, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (condition,) = [
        c
        for c in campaign.conditions(rules_dir(), ["loops.dl"])
        if (c.head, c.text) == ("holds", "stop_together(a, b)")
    ]
    edited = campaign.without(rules_dir(), condition, tmp_path / "rules")
    assert campaign.verdict(edited, condition.file, 0, 20.0).startswith("noticed")


def test_what_only_stands_behind_negations_grants_less(campaign) -> None:  # type: ignore[no-untyped-def]
    grants = campaign.granting(rules_dir())
    assert {"merge", "calm", "settle"} <= grants
    assert "elided_twice" not in grants
