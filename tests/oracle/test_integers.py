"""Integers in the oracle: drawn at the ends of their types, computed in the type of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.oracle.dtypes import convert, integer_limits, storage, wrapped
from scalify_dl.oracle.inputs import baseline_inputs
from scalify_dl.oracle.trial import run_trial


def drawn(pair: Pair, how: str = "ends") -> list[np.ndarray[Any, Any]]:
    """The baseline's inputs in some draws, one array for each input."""
    program = load_program(pair.tables())
    draws = [baseline_inputs(program, how, seed) for seed in range(4)]
    return [np.concatenate([d[t][0].ravel() for d in draws]) for t in draws[0]]


@pytest.mark.parametrize(("dtype", "least", "most"), [
    ("s8", -128, 127), ("u8", 0, 255), ("s32", -(2**31), 2**31 - 1), ("u64", 0, 2**64 - 1), ("s4", -8, 7),
    ("s2", -2, 1), ("s1", -1, 0),
])  # fmt: skip
def test_integers_are_drawn_at_both_ends_of_their_type(dtype: str, least: int, most: int) -> None:
    pair = Pair({"tp": 2})
    pair.outputs(*pair.input((8, 8), dtype=dtype))
    (values,) = drawn(pair)
    assert (int(values.min()), int(values.max())) == (least, most)
    (values,) = drawn(pair, "reals")
    assert least <= values.min() <= values.max() <= most


def test_a_range_bounds_what_is_drawn() -> None:
    pair = Pair({"tp": 2})
    pair.outputs(*pair.input((8, 8), dtype="s32", range=(3, 40)))
    (values,) = drawn(pair)
    assert (int(values.min()), int(values.max())) == (3, 39)


def test_what_becomes_a_position_on_either_side_stays_small() -> None:
    pair = Pair({"tp": 2})
    (table, _), (ids, dids) = pair.input((4, 2)), pair.input((8,), dtype="s32")
    looked = pair.dist.emit("add", [dids, dids])
    row = pair.dist.emit("reshape", [pair.dist.emit("slice", [looked], start=[0], limit=[1], stride=[1])], shape=())
    zero = pair.dist.constant(0, "s32")
    own = pair.dist.emit("dynamic-slice", [pair.dist.inputs[0].tensor, row, zero], sizes=[1, 2])
    pair.outputs(pair.base.emit("slice", [table], start=[0, 0], limit=[1, 2], stride=[1, 1]), own)
    pair.outputs(ids, dids)
    assert int(drawn(pair)[1].max()) < 4


@pytest.mark.parametrize("result", ["s32", "f32"])
def test_a_reduction_adds_up_in_the_type_of_its_result(result: str) -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((100,), dtype="s8", range=(100, 101))
    pair.base.add("reduce", [x], [(result, ())], numbers={"dimensions": [0]}, symbols={"reducer": ["sum"]})
    dot = {"lhs_contracting_dims": [0], "rhs_contracting_dims": [0], "lhs_batch_dims": [], "rhs_batch_dims": []}
    pair.base.add("dot", [x, x], [(result, ())], numbers=dot)
    pair.outputs(x, dx)
    program = load_program(pair.tables())
    found = run_trial(program, 0, "reals", keep_base=["base/reduce", "base/dot"], only="base").baseline
    assert (int(found["base/reduce"]), int(found["base/dot"])) == (10_000, 1_000_000)


def test_narrow_types_wrap_round_at_their_own_width() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((16,), dtype="s4", range=(7, 8))
    twice = pair.base.emit("add", [x, x])
    pair.outputs(twice, pair.dist.emit("add", [dx, dx]))
    found = run_trial(load_program(pair.tables()), 0, "reals", keep_base=["base/add"], only="base").baseline
    assert set(found["base/add"].tolist()) == {-2}


@pytest.mark.parametrize(("dtype", "number", "low"), [("s4", 9, -7), ("s4", -9, 7), ("u4", 17, 1), ("u2", 7, 3)])
def test_numbers_outside_a_narrow_type_are_those_modulo_its_range(dtype: str, number: int, low: int) -> None:
    assert wrapped(np.array([number, 0], dtype=storage(dtype)), dtype).tolist() == [low, 0]


def test_a_sum_that_wraps_before_a_cast_is_refuted() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), {0: "tp"}, dtype="u32")
    whole, part = (g.emit("reduce", [v], dimensions=[0], reducer="sum") for g, v in ((pair.base, x), (pair.dist, dx)))
    wide = pair.dist.emit("convert", [part], dtype="f32")
    total = pair.dist.emit("all-reduce", [wide], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(pair.base.emit("convert", [whole], dtype="f32"), total)
    best = find_counterexample(load_program(pair.tables())).best
    assert best is not None
    assert (best.kind, best.draw) == ("refutation", "ends")


def _labels(least: int, size: int = 8) -> Pair:
    """Rows are left out where a label is the one that is ignored; on the ranks where it is below zero."""
    pair = Pair({"tp": 1})
    (x, dx), (labels, dlabels) = pair.input((size,)), pair.input((size,), dtype="s64")
    outs = []
    for g, value, label, direction, bound in (
        (pair.base, x, labels, "EQ", least), (pair.dist, dx, dlabels, "LT", 0),
    ):  # fmt: skip
        out = g.emit("compare", [label, g.splat(bound, "s64", (size,))], direction=direction)
        outs.append(g.emit("select", [out, g.splat(0.0, "f32", (size,)), value]))
    pair.outputs(*outs)
    return pair


def test_counterexamples_are_looked_for_among_numbers_that_a_captured_run_had() -> None:
    tables = _labels(-100).tables()
    assert find_counterexample(load_program(tables)).status == "refuted"
    seen = {**tables, "seen": [("base/x1", -100, 4)]}
    assert find_counterexample(load_program(seen)).status == "agrees"
    values = [baseline_inputs(load_program(seen), how, n)["base/x1"][0] for how in ("reals", "ends") for n in (0, 1)]
    assert set(np.unique(values)) == {-100, 0, 1, 2, 3}
    whole = {**_labels(-100, 12).tables(), "seen": [("base/x1", -100, 4)]}
    grids = [baseline_inputs(load_program(whole), "reals", n)["base/x1"][0].reshape(2, 6) == -100 for n in range(4)]
    assert any(len(set(grid.sum(1))) > 1 for grid in grids), "ranks that ignore equally many agree on wrong means"
    other = {**_labels(-1).tables(), "seen": [("base/x1", -100, 4)]}  # ignores another label than there is
    assert find_counterexample(load_program(other)).status == "refuted"


def test_integers_that_every_run_should_try_are_not_tried_equally_often_by_all_ranks() -> None:
    program = load_program(_labels(-100, 12).tables())
    program.special["base/x1"] = [7]
    grids = [baseline_inputs(program, "reals", n)["base/x1"][0].reshape(2, 6) == 7 for n in range(4)]
    assert all(grid.any() for grid in grids)
    assert any(len(set(grid.sum(1))) > 1 for grid in grids)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("u4", [0, 0, 15, 15]), ("s4", [-8, 0, 7, 7]), ("s8", [-100, 0, 27, 127])]
)
def test_reals_that_an_integer_type_does_not_hold_become_its_ends(dtype: str, expected: list[int]) -> None:
    """Types narrower than their storage have ends of their own, as XLA's conversions."""
    found = convert(np.array([-100.0, np.nan, 27.5, np.inf]), dtype, rounding=False)
    assert found.tolist() == expected


@pytest.mark.parametrize(("dtype", "reducer", "expected"), [("s4", "min", 7), ("s4", "max", -8), ("u2", "min", 3)])
@pytest.mark.parametrize("kind", ["reduce", "select-and-scatter"])
def test_what_nothing_is_reduced_to_is_an_end_of_the_type(kind: str, dtype: str, reducer: str, expected: int) -> None:
    """Of no elements, and where no window picks one: not the end of the bytes that hold the type."""
    pair = Pair({"tp": 1})
    x, _ = pair.input((0,) if kind == "reduce" else (2,), dtype=dtype)
    g = pair.base
    if kind == "reduce":
        g.output(g.emit("reduce", [x], dimensions=[0], reducer=reducer))
    else:
        one = g.splat(1, dtype, (1,))
        g.output(g.emit("select-and-scatter", [x, one], window_size=[2], select="max", reducer=reducer))
    program = load_program(pair.tables())
    (output,) = program.top("base")[0].outputs
    found = run_trial(program, 0, "ends", only="base", keep_base=[output]).baseline[output]
    assert set(np.atleast_1d(found).tolist()) - {1} == {expected}


@pytest.mark.parametrize("dtype", ["s64", "u64", "s32", "s8"])
def test_a_real_beyond_the_ends_of_a_type_becomes_its_end(dtype: str) -> None:
    least, most = integer_limits(dtype)
    found = convert(np.array([np.inf, -np.inf, 2.0**63, 2.0**70, -(2.0**70), 3.7, np.nan]), dtype, rounding=False)
    beyond = most if most < 2**63 else 2**63
    assert [int(x) for x in found] == [most, least, beyond, most, least, 3, 0]
