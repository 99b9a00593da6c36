"""Versions of a program that are run as one have the values that each has alone, and are compared like it."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from scalify_dl.audit.fuzz import random_pair
from scalify_dl.audit.pair import Pair
from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import counterexample, find_counterexample, load_program, run_trial
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.program import Program
from scalify_dl.oracle.trial import measure_noise
from scalify_dl.oracle.versions import run_versions


def with_other_constants(program: Program, factor: int) -> Program:
    tensors = {
        name: replace(t, literal=str(float(t.literal) * factor)) if t.literal in ("0.5", "2", "3", "0.25") else t
        for name, t in program.tensors.items()
    }
    return replace(program, tensors=tensors)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_each_has_its_own_values(first: int) -> None:
    compared = 0
    for seed in range(first, first + 20):
        program = load_program(random_pair(random.Random(seed)).tables())
        versions = [program, *(with_other_constants(program, factor) for factor in (2, 3))]
        outputs = [base for _, base, _ in program.expects]
        try:
            trials = run_versions(versions, 5, outputs)
            alone = [run_trial(version, 5, "reals") for version in versions]
        except (Unsupported, Deadlock, InputError):
            continue
        for trial, own in zip(trials or [], alone, strict=bool(trials)):
            measure_noise(own, outputs)
            assert trial.baseline.keys() == own.baseline.keys()
            assert trial.unplaced == own.unplaced
            for tensor, value in own.baseline.items():
                np.testing.assert_allclose(trial.baseline[tensor], value, rtol=1e-9, atol=1e-9, err_msg=f"{seed}")
            for tensor, by_rank in own.distributed.items():
                assert trial.distributed[tensor].keys() == by_rank.keys()
                for rank, value in by_rank.items():
                    mine = trial.distributed[tensor][rank]
                    np.testing.assert_allclose(mine, value, rtol=1e-9, atol=1e-9, err_msg=f"{seed} {tensor} {rank}")
                    compared += 1
            for tensor in outputs:
                assert trial.tolerance(tensor) < 1e3 * own.tolerance(tensor)
                assert own.tolerance(tensor) < 1e3 * trial.tolerance(tensor)
    assert compared


def mean(g: Graph, x: Tensor) -> Tensor:
    total = g.emit("reduce", [x], dimensions=[1], reducer="sum")
    return g.emit("multiply", [total, g.splat(1 / x.shape[1], x.dtype, total.shape)])


def variances(size: int, *, less: float = 1.0) -> Pair:
    """The mean of squared deviations; the mean of squares less (some of) the square of the mean."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((64, size))
    g, h = pair.base, pair.dist
    away = g.emit("subtract", [x, g.emit("broadcast", [mean(g, x)], shape=x.shape, dimensions=[0])])
    squares, middle = mean(h, h.emit("multiply", [dx, dx])), mean(h, dx)
    square = h.emit("multiply", [middle, middle])
    rest = h.emit("multiply", [square, h.splat(less, dx.dtype, square.shape)])
    pair.outputs(mean(g, g.emit("multiply", [away, away])), h.emit("subtract", [squares, rest]))
    return pair


@pytest.mark.parametrize("size", [2**17, 2**24])
def test_constants_that_count_refute_nothing_at_once_either(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    at_once = counterexample._at_once
    monkeypatch.setattr(counterexample, "_at_once", lambda *args: asked.append(at_once(*args)) or asked[-1])
    assert find_counterexample(load_program(variances(size).tables()), enough=True).status != "refuted"
    assert asked
    assert not any(asked)
    wrong = find_counterexample(load_program(variances(size, less=0.5).tables()), enough=True)
    assert wrong.status == "refuted"
    assert asked[-1]
    assert wrong.best is not None
    assert wrong.best.sizes == "shrunk"
