"""Ranks that are run together compute what each computes alone."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scalify_dl.audit.fuzz import random_pair
from scalify_dl.audit.pair import Pair
from scalify_dl.errors import InputError
from scalify_dl.oracle import execute, find_counterexample, load_program, run_trial
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.meaning.collectives import GROUPED
from scalify_dl.oracle.program import Op, Program
from scalify_dl.oracle.together import Stacked, meet_together
from scalify_dl.oracle.trial import Trial

from .small import row_parallel


def both_ways(program: Program, monkeypatch: pytest.MonkeyPatch) -> tuple[Trial | str, Trial | str]:
    """Everything that is computed, with all ranks together and one by one."""
    names = [r for graph in program.top("dist") for op in graph.ops for r in op.results]
    found: list[Trial | str] = []
    for least in (2, 10**9):
        monkeypatch.setattr(execute, "TOGETHER", least)
        try:
            found.append(run_trial(program, 3, "reals", keep_dist=names))
        except (Unsupported, Deadlock, InputError) as error:
            found.append(str(error))
    return found[0], found[1]


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_have_the_same_values_either_way(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    for seed in range(first, first + 10):
        together, alone = both_ways(load_program(random_pair(random.Random(seed)).tables()), monkeypatch)
        if isinstance(together, str) or isinstance(alone, str):
            assert together == alone, seed
            continue
        assert together.distributed.keys() == alone.distributed.keys()
        for tensor, values in alone.distributed.items():
            for rank, value in values.items():
                mine = together.distributed[tensor][rank]
                assert (mine.shape, mine.dtype) == (value.shape, value.dtype), (seed, tensor)
                np.testing.assert_allclose(mine, value, rtol=1e-9, atol=1e-9, err_msg=f"{seed} {tensor}")
                compared += 1
    assert compared


def test_ranks_run_together_where_they_hold_small_values_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair({"tp": 4})
    x, dx = pair.input((8, 2), {0: "tp"})
    pair.outputs(pair.base.emit("negate", [x]), pair.dist.emit("negate", [dx]))
    together, _ = both_ways(load_program(pair.tables()), monkeypatch)
    assert isinstance(together, Trial)
    (value,) = together.distributed.values()
    assert len({id(part.base) for part in value.values()}) == 1


def test_one_draw_that_refutes_is_enough_where_that_is_asked() -> None:
    """What it does not show of another output is left open."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 2), {0: "tp"})
    pair.outputs(pair.base.emit("negate", [x]), pair.dist.emit("abs", [dx]))
    pair.outputs(pair.base.emit("tanh", [x]), pair.dist.emit("tanh", [dx]))
    program = load_program(pair.tables())
    every, one = find_counterexample(program), find_counterexample(program, enough=True)
    (wrong,), (same,) = {c.output for c in every.counterexamples}, every.agreed
    assert one.status == every.status == "refuted"
    assert [c.output for c in one.counterexamples] == [wrong]
    assert one.cut
    assert one.trials == 1
    assert same not in one.agreed


def test_all_draws_are_tried_as_long_as_none_refutes() -> None:
    program = load_program(row_parallel().tables())
    every, one = find_counterexample(program), find_counterexample(program, enough=True)
    assert (one.status, one.trials, one.cut) == ("agrees", every.trials, False)


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather"])
@pytest.mark.parametrize("groups", [[[0, 1], [2, 3]], [[2, 0], [1, 3]], [[3, 1, 0, 2]]], ids=str)
def test_groups_that_meet_at_once_get_what_each_gets_by_itself(kind: str, groups: list[list[int]]) -> None:
    values = {rank: np.random.default_rng(rank).normal(size=(2, 3)) for rank in (0, 1, 2, 3)}
    op = Op("op", kind, numbers={"dimension": [1]}, symbols={"reducer": ["max"]}, groups=groups)
    found = meet_together(op, Stacked((0, 1, 2, 3), np.stack([*values.values()])))
    assert found is not None
    for group in groups:
        for rank, wanted in zip(group, GROUPED[kind](op, [values[rank] for rank in group]), strict=True):
            np.testing.assert_array_equal(found[rank], wanted)


def test_groups_that_leave_out_a_rank_or_are_of_several_sizes_meet_one_by_one() -> None:
    value = Stacked((0, 1, 2, 3), np.zeros((4, 2)))
    for groups in ([[0, 1]], [[0, 1, 2], [3]], [[0, 1], [1, 2]]):
        assert meet_together(Op("op", "all-reduce", groups=groups), value) is None
