"""What is PROVED of a plan, an interpreter of the plan as it stands finds, and what is folded it computes: right plans,
random ones, and mutants of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import numpy as np

from scalify_dl.audit.folds.campaign import campaign
from scalify_dl.audit.folds.compare import outcome
from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.folds.kinds import Unknown, computed
from scalify_dl.audit.folds.mutants import cell
from scalify_dl.audit.plan_tables import Shape, deepseek, write_plan
from scalify_dl.plans.model import Op

from .small import write_small
from .test_generated import EXPERTS


@pytest.mark.parametrize("unit", [False, True], ids=["written out", "unit form"])
@pytest.mark.parametrize("losses", [1, 2])
def test_the_interpreter_finds_the_right_plan_right(tmp_path: Path, unit: bool, losses: int) -> None:
    found = outcome(write_small(tmp_path, dp=4, unit=unit, losses=losses))
    assert (found.verdict, found.runs, found.mismatches) == ("PROVED", "right", [])
    assert found.compared


def test_the_interpreter_finds_a_wrong_plan_wrong(tmp_path: Path) -> None:
    tables = Edited(write_small(tmp_path / "right"))
    for op in tables.ops(cid=13):
        first, second = tables.of("p_in", op)
        first[2], second[2] = second[2], first[2]
    found = outcome(tables.write(tmp_path / "wrong"))
    assert (found.runs, found.mismatches) == ("wrong", [])
    assert found.verdict != "PROVED"


def test_the_interpreter_runs_experts_over_copies(tmp_path: Path) -> None:
    shape = Shape(dp=2, tp=2, pp=2, nm=2, batch=1, ep=2, unit=False)
    right = write_plan(tmp_path / "right", deepseek(EXPERTS), shape)
    found = outcome(right)
    assert (found.verdict, found.runs, found.mismatches) == ("PROVED", "right", [])
    tables = Edited(right)
    for op in tables.ops(kind="moe_gate", dir="bw"):
        tables.change("p_attr", op, 3, "1", "k")
    found = outcome(tables.write(tmp_path / "wrong"), seconds=1.0)
    assert (found.verdict, found.runs, found.mismatches) == ("UNKNOWN", "wrong", [])


def test_the_interpreter_says_which_attribute_an_op_lacks() -> None:
    with pytest.raises(Unknown, match="view without `size`"):
        computed(Op("p.n1", 0, 0, 0, 1, "view", "view", "fw", 1), [np.zeros((2, 2))], [(2, 2)], [None])


def test_a_message_without_operand_or_result_is_no_crash(tmp_path: Path) -> None:
    right = write_small(tmp_path / "right")
    for table in ("p_in", "p_out"):
        tables = Edited(right)
        ends = {row[0] for row in tables.tables["p_p2p"]}
        row = next(row for row in tables.tables[table] if row[0] in ends)
        tables.tables[table].remove(row)
        found = outcome(tables.write(tmp_path / table), seconds=1.0)
        assert found.mismatches == []
        assert found.verdict != "PROVED"


def test_random_plans_and_mutants_are_folded_as_they_run(tmp_path: Path) -> None:
    numbers, mismatches = campaign(0, 24, tmp_path / "told")
    assert mismatches == 0, (tmp_path / "told").read_text("utf-8")
    assert numbers["PROVED, right"] >= 3


def test_a_loss_is_of_its_own_micro_batch_not_of_the_ops() -> None:
    assert campaign(8603563, 1)[1] == 0  # the op is listed under another micro-batch than what it makes
    assert campaign(9101606, 1)[1] == 0  # what it makes is listed under none


@pytest.mark.parametrize("seed", [9102359, 9103660])
def test_reducers_over_another_tp_rank_or_a_copy_of_one_are_read_alike(seed: int) -> None:
    assert campaign(seed, 1)[1] == 0


def test_no_mutant_of_the_small_plan_is_proved_that_the_interpreter_refutes(tmp_path: Path) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        dp, mbs = rng.choice([(2, 2), (2, 1), (1, 2), (1, 4)])
        tables = Edited(write_small(tmp_path / "right", dp=dp, mbs=mbs, unit=rng.random() < 0.4))
        text = cell(tables, rng)
        assert not outcome(tables.write(tmp_path / "mutant"), seed).mismatches, text


@pytest.mark.slow
def test_many_random_plans_and_mutants_are_folded_as_they_run(tmp_path: Path) -> None:
    numbers, mismatches = campaign(100, 40, tmp_path / "told")
    assert mismatches == 0, (tmp_path / "told").read_text("utf-8")
    assert numbers["plans"] == 40
