"""The side-condition campaign: what it deletes, and the arguments for what nothing notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit import side_conditions as campaign
from scalify_dl.errors import InputError
from scalify_dl.pysouffle import rules_dir


def test_every_argument_is_about_a_condition_that_there_is() -> None:
    found = campaign.conditions(rules_dir(), campaign.all_files(rules_dir()))
    assert len(found) > 500
    assert len(campaign.arguments_for(rules_dir(), campaign.all_files(rules_dir()))) > 500


def test_an_argument_about_another_condition_is_refused(tmp_path: Path) -> None:
    text = "//? n != 2: two is\n//?   as good as three\np(n) :- q(n), n != 2,\n    !r(n).\n"
    (tmp_path / "a.dl").write_text(text)
    ((condition, why),) = campaign.arguments_for(tmp_path, ["a.dl"]).items()
    assert (condition.text, condition.line, why) == ("n != 2", 3, "n != 2: two is as good as three")
    (tmp_path / "a.dl").write_text(text.replace("//? n != 2", "//? n != 3"))
    with pytest.raises(InputError, match="no condition of this rule"):
        campaign.arguments_for(tmp_path, ["a.dl"])
    (tmp_path / "a.dl").write_text(text + "//? n != 2: nowhere\n")
    with pytest.raises(InputError, match="above no rule"):
        campaign.arguments_for(tmp_path, ["a.dl"])


def test_a_deleted_condition_is_noticed(tmp_path: Path) -> None:
    (condition,) = [
        c
        for c in campaign.conditions(rules_dir(), ["lemmas/loops/induction.dl"])
        if (c.head, c.text) == ("holds", "stop_together(dist_loop, base_loop)")
    ]
    edited = campaign.without(rules_dir(), condition, tmp_path / "rules")
    assert campaign.verdict(edited, condition.file, 0, 20.0).startswith("noticed")


def test_what_only_stands_behind_negations_grants_less() -> None:
    grants = campaign.granting(rules_dir())
    assert {"merge", "calm", "settle"} <= grants
    assert "elided_twice" not in grants
