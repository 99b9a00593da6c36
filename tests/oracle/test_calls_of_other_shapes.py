"""Nobody checks the shapes that opaque calls are given: a call that is none of its kind is not run, and no crash."""

from __future__ import annotations

import numpy as np
import pytest

from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS
from scalify_dl.pairing.builder import Pair


@pytest.mark.parametrize(("name", "others"), [
    ("vllm.unified_attention", [(128, 16, 256), (128, 256)]), ("vllm.unified_attention", [(128, 256), (128, 256)]),
    ("AwsNeuronRmsNorm", [(), ()]), ("AwsNeuronTransferWithStaticRing", []),
])  # fmt: skip
def test_a_large_program_with_an_odd_call_is_not_run(name: str, others: list[tuple[int, ...]]) -> None:
    pair = Pair("tp=1")
    for p in (pair.base, pair.dist):
        shape = (128, 16, 256)
        x = p.input("x", shape) if p is pair.base else pair.dist.shard("x")
        more = [p.full(0.5, other) for other in others]
        result = (*shape, 1) if not others else shape
        y = p.custom(name, [x, *more], [("f32", result)], config='"2"')[0]
        p.output(p.tanh(y) if p is pair.base else p.negate(y))
    program = load_program(pair.facts().tables)
    assert sum(np.prod(t.shape) for t in program.tensors.values()) > DIRECT_ELEMENTS
    assert find_counterexample(program, localise=False).status != "refuted"
