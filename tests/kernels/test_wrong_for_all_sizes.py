"""Loops over tiles that compute something else than they seem to, for all sizes."""

from __future__ import annotations

import pytest

from .running import Run

ROWS = """import tilelang
import tilelang.language as T

def rows(M, N, bm, bn):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, bm)) as b:
            x = T.alloc_shared((bm, bn), "float32")
            y = T.alloc_fragment((bm, bn), "float32")
            s = T.alloc_fragment((bm,), "float32")
            m = T.alloc_fragment((bm,), "float32")
            T.clear(s)
            T.clear(m)
            T.clear(y)
            for k in T.serial(T.ceildiv(N, bn)):
                T.copy(X[b * bm, k * bn], x)
LOOP
            for i in T.Parallel(bm):
                Y[b * bm + i] = LAST
    return main
"""
PART = "T.reduce_sum(x, m, dim=1)\nfor i in T.Parallel(bm):\n    "
SUM = "T.reduce_sum(x, s, dim=1, clear=False)"


def asked(kernel: Run, loop: str, named: str, last: str) -> str:
    """The verdict for all sizes."""
    body = "\n".join(" " * 16 + line for line in loop.splitlines())
    text = ROWS.replace("LOOP", body).replace("LAST", last)
    _, said = kernel(text, "--as", named, "--for-all", "M,N,bm,bn", "--reals")
    return str(said.get("verdict", said))


@pytest.mark.parametrize(
    ("loop", "named", "last"),
    [(SUM, "sum", "s[i]"), (SUM, "mean", "s[i] / N"), (f"{PART}s[i] += m[i]", "sum", "s[i]")],
)
def test_a_sum_over_tiles_is_one(kernel: Run, loop: str, named: str, last: str) -> None:
    assert asked(kernel, loop, named, last) == "PROVED"


@pytest.mark.parametrize(
    ("loop", "named", "last"),
    [
        (f"{PART}s[i] = m[i] - s[i]", "sum", "s[i]"),
        (f"{PART}s[i] = 2 * s[i] + m[i]", "sum", "s[i]"),
        (f"{PART}s[i] += m[i] * k", "sum", "s[i]"),
        (f"{PART}s[i] += m[i] * m[i]", "sum", "s[i]"),
        (f"{PART}s[i] = T.if_then_else(k == 0, m[i], s[i])", "sum", "s[i]"),
        (f"{PART}s[i] += m[bm - 1 - i]", "sum", "s[i]"),
        (f"{PART}s[i] += m[i] * T.if_then_else(i == 0, 2.0, 1.0)", "sum", "s[i]"),
        (f"{PART}s[i] = s[(i + 1) % bm] + m[i]", "sum", "s[i]"),
        (f"{PART}s[i] = T.max(s[i], m[i])", "max", "s[i]"),
        ("for i in T.Parallel(bm):\n    s[i] += m[i]\nT.reduce_sum(x, m, dim=1)", "sum", "s[i]"),  # one behind
        ("T.reduce_max(x, m, dim=1)\nfor i in T.Parallel(bm):\n    s[i] = T.max(s[i], m[i])", "max", "s[i]"),  # from 0
        ("T.reduce_max(x, m, dim=1)\nfor i in T.Parallel(bm):\n    s[i] += m[i]", "sum", "s[i]"),
        ("T.reduce_max(x, s, dim=1, clear=True)", "max", "s[i]"),
        ("T.reduce_sum(x, m, dim=1, clear=False)\nfor i in T.Parallel(bm):\n    s[i] += m[i]", "sum", "s[i]"),
        (f"for z in T.serial(bn):\n    {SUM}", "sum", "s[i]"),
        ("for i, j in T.Parallel(bm, bn):\n    y[i, j] += x[i, j]\nT.reduce_sum(y, s, dim=1, clear=False)", "sum",
         "s[i]"),
        ("for i, j in T.Parallel(bm, bn // 2):\n    y[i, j] = x[i, j]\nT.reduce_sum(y, s, dim=1, clear=False)", "sum",
         "s[i]"),
        ("for i, j in T.Parallel(bm, bn):\n    y[i, j] = T.exp(x[i, j])\nT.reduce_sum(y, s, dim=1, clear=False)", "max",
         "T.log(s[i])"),
        (SUM, "mean", "s[i] / bn"),
        (SUM, "mean", "s[i] * (1 // N)"),
    ],
)  # fmt: skip
def test_a_loop_that_is_another_is_refuted(kernel: Run, loop: str, named: str, last: str) -> None:
    assert asked(kernel, loop, named, last) == "REFUTED"
