"""A TVMScript product is proved, and broken ones are refuted, by the command line."""

from __future__ import annotations

import pytest

from .running import Run

MATMUL = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 12), "float32"), B: T.Buffer((12, 10), "float32"), C: T.Buffer((8, 10), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for i, j, k in T.grid(8, 10, 12):
        with T.sblock("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            T.reads(A[v_i, v_k], B[v_k, v_j])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"""


def test_a_product_is_proved(kernel: Run) -> None:
    status, said = kernel(MATMUL, "--as", "matmul")
    assert (status, said["verdict"]) == (0, "PROVED")
    assert said["precision"] == [{"line": 13, "text": "sums are accumulated in f32"}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A[v_i, v_k] * B[v_k, v_j]", "A[v_i, v_k] + B[v_k, v_j]"),
        ("T.float32(0.0)", "T.float32(1.0)"),
        ("T.grid(8, 10, 12)", "T.grid(8, 10, 11)"),
        ("T.grid(8, 10, 12)", "T.grid(8, 9, 12)"),
        ("T.grid(8, 10, 12)", "T.grid(8, 11, 12)"),
        ("C[v_i, v_j] + A", "C[v_i, v_j] - A"),
        ("            with T.init():\n                C[v_i, v_j] = T.float32(0.0)\n", ""),
    ],
)
def test_a_broken_product_is_refuted(kernel: Run, old: str, new: str) -> None:
    assert old in MATMUL
    status, said = kernel(MATMUL.replace(old, new), "--as", "matmul")
    assert (status, said["verdict"]) == (1, "REFUTED")


def test_what_is_no_kernel_is_bad_input(kernel: Run) -> None:
    assert kernel("x = 1\n", "--as", "matmul")[0] == 2
    assert kernel(MATMUL, "--as", "frobnicate")[0] == 2
    assert kernel(MATMUL.replace("T.grid(8, 10, 12)", "T.zip(8, 10, 12)"), "--as", "matmul")[0] == 2
    assert kernel(MATMUL)[0] == 2
