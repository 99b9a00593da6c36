"""What only rounding decides refutes nothing: sizes of complex numbers, bits of reals."""

from __future__ import annotations

from scalify_dl.audit.pair import Pair
from scalify_dl.oracle import find_counterexample, load_program


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
