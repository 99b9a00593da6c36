"""Zeros of the other sign, which verdicts list: rows are judged on numbers that have none."""

from __future__ import annotations

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair


def test_zeros_of_the_other_sign_that_a_verdict_lists_make_no_row_false() -> None:
    """1 / ((-2 x + 0) / -2) against 1 / x: where x is 0, one side divides by -0."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8,), {0: "tp"}, range=(0, 3), dtype="s32")
    results = []
    for g, v in ((pair.base, x), (pair.dist, dx)):
        divisor = g.emit("convert", [v], dtype="f32")
        minus_two = g.splat(-2.0, "f32", v.shape)
        if g is pair.dist:
            doubled = g.emit("multiply", [divisor, minus_two])
            zero = g.splat(0.0, "f32", v.shape)
            divisor = g.emit("divide", [g.emit("add", [doubled, zero]), minus_two])
        results.append(g.emit("divide", [g.splat(1.0, "f32", v.shape), divisor]))
    pair.outputs(*results)
    tables = pair.tables()
    derived = derive(tables)
    assert derived.proved
    assert any(why == "zero sign" for _, why in derived.assumed)
    assert audit(tables, derived.claims, trials=4, assumed=derived.assumed).false == []
    assert audit(tables, derived.claims, trials=4).false
