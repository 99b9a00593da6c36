"""What only rounding decides refutes nothing: sizes of complex numbers, bits of reals."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing import builder as by_hand


def test_sizes_of_complex_numbers_are_not_exact() -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((8,), dtype="c64")
    size = pair.base.emit("abs", [x])
    parts = [pair.dist.emit(kind, [dx]) for kind in ("real", "imag")]
    squares = [pair.dist.emit("multiply", [part, part]) for part in parts]
    pair.outputs(pair.base.emit("multiply", [size, size]), pair.dist.emit("add", squares))
    assert find_counterexample(load_program(pair.tables())).status == "agrees"


def test_bits_of_reals_are_a_witness_at_most() -> None:
    pair = Pair({"tp": 1})
    x, dx = pair.input((8,))
    bits = pair.dist.emit("bitcast-convert", [dx], dtype="s32", **{"from": "f32"})
    pair.outputs(x, pair.dist.emit("bitcast-convert", [bits], dtype="f32", **{"from": "s32"}))
    assert find_counterexample(load_program(pair.tables())).status != "refuted"


def test_a_root_that_one_side_computes_is_near_a_constant_that_both_have_elsewhere() -> None:
    pair = by_hand.Pair("tp=2")
    root = 1.4142135
    b, d = pair.base, pair.dist
    x, w = b.input("x", (8,)), b.input("w", (8,))
    b.output(b.multiply(b.multiply(x, x), 2.0))
    b.output(b.multiply(w, root))
    rooted = d.multiply(d.shard("x"), root)
    d.output(d.multiply(rooted, rooted))
    d.output(d.multiply(d.shard("w"), root))
    assert find_counterexample(load_program(pair.facts().tables)).status == "agrees"


def masked(number: float) -> str:
    """x where it is positive, else infinity, in a narrower type; on the other side a number in its place."""
    pair, made = Pair({"tp": 2}), []
    x, dx = pair.input((8,))
    for g, v, other in ((pair.base, x, float("inf")), (pair.dist, dx, number)):
        positive = g.emit("compare", [v, g.splat(0.0, "f32", v.shape)], direction="GT")
        chosen = g.emit("select", [positive, v, g.splat(other, "f32", v.shape)])
        made.append(g.emit("convert", [chosen], dtype="bf16"))
    pair.outputs(*made)
    return find_counterexample(load_program(pair.tables())).status


LARGEST = 3.4028234663852886e38


def test_a_constant_that_is_infinite_in_the_type_it_is_cast_to_with_others_refutes_nothing() -> None:
    assert masked(LARGEST) != "refuted"


@pytest.mark.parametrize("number", [1e30, -LARGEST])
def test_one_that_is_another_number_there_does(number: float) -> None:
    assert masked(number) == "refuted"
