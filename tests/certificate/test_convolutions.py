"""Convolutions in the checker: what it makes of them is what the oracle does, and proofs with them replay."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from scalify_dl.certificate.files import read_lines
from scalify_dl.certificate.formulas.convolutions import convolved
from scalify_dl.certificate.formulas.programs import Op
from scalify_dl.oracle.meaning import MEANINGS, Call
from scalify_dl.oracle.program import Op as Executed
from scalify_dl.oracle.program import Tensor

from ..algebra.test_convolutions import depthwise, patches, shifts
from .test_certificate import certified, checker
from .test_equal_formulas import facts_of

SMALL = {
    "shifted products": lambda: shifts(features=3, n=5), "depthwise": depthwise,
    "patches": lambda: patches(side=2, window=2, made=5),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_a_proof_with_a_convolution_is_accepted(name: str, tmp_path: Path) -> None:
    facts = facts_of(SMALL[name]())
    path = certified(facts, tmp_path / "proof")
    assert next(read_lines(path))["equalities"]
    checker().accept(read_lines(path), facts.tables)


def labels(draw: random.Random, n: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for role, names in (("input", ("input_batch", "input_feature")),
                        ("kernel", ("kernel_output_feature", "kernel_input_feature")),
                        ("output", ("output_batch", "output_feature"))):  # fmt: skip
        order = draw.sample(range(n + 2), n + 2)
        found |= {name: [at] for name, at in zip(names, order, strict=False)} | {f"{role}_spatial": order[2:]}
    return found


def test_random_convolutions_are_worth_what_the_oracle_says() -> None:
    draw, numbers = random.Random(5), np.random.default_rng(5)
    compared = 0
    for _ in range(60):
        n = draw.choice((1, 2))
        groups, read, made = draw.choice((1, 2)), draw.choice((1, 2)), draw.choice((1, 2))
        window = {
            "window_stride": [draw.choice((1, 2)) for _ in range(n)],
            "window_dilation": [draw.choice((1, 2)) for _ in range(n)],
            "base_dilation": [draw.choice((1, 2)) for _ in range(n)],
            "window_pad_low": [draw.choice((-1, 0, 2)) for _ in range(n)],
            "window_pad_high": [draw.choice((0, 1)) for _ in range(n)],
            "window_reversal": [draw.choice((0, 1)) for _ in range(n)],
        }
        held = labels(draw, n) | window | {"feature_group_count": [groups]}
        x = numbers.integers(-4, 5, (2, read * groups, *(draw.choice((4, 5)) for _ in range(n)))).astype(np.float64)
        w = numbers.integers(-4, 5, (made * groups, read, *(draw.choice((1, 3)) for _ in range(n)))).astype(np.float64)
        x = x.transpose(np.argsort([*held["input_batch"], *held["input_feature"], *held["input_spatial"]]))
        features = [*held["kernel_output_feature"], *held["kernel_input_feature"]]
        w = w.transpose(np.argsort([*features, *held["kernel_spatial"]]))
        call = Call(Executed("c", "convolution", numbers=held), 0, [Tensor("z", "f64", ())])
        (wanted,) = MEANINGS["convolution"](call, [x, w])
        op = Op("c", "g", "convolution")
        op.attributes.update({key: dict(enumerate(values)) for key, values in held.items()})
        found = convolved(op, 0, x, w, lambda pairs: sum(a * b for a, b in pairs))
        assert found.shape == wanted.shape
        assert (found.astype(np.float64) == wanted).all()
        compared += wanted.size
    assert compared > 1000
