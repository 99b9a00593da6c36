"""One block of a grid stands for all only where all do the same to their own parts, and what is stated does, too."""

from __future__ import annotations

import pytest

from .running import Run
from .test_tilelang import GEMM

SIZES = ("--size", "M=64", "--size", "N=64", "--size", "K=16")
ROWS = """
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((8, 32), "float32"), Y: T.Tensor((8, 32), "float32")):
    with T.Kernel(4, 2, threads=32) as (bx, by):
        x = T.alloc_fragment((4, 8), "float32")
        y = T.alloc_fragment((4, 8), "float32")
        T.copy(X[by * 4, bx * 8], x)
        for i, j in T.Parallel(4, 8):
            y[i, j] = VALUE
        T.copy(y, Y[by * 4, bx * 8])
"""
SOFTMAX = """
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((8, 32), "float32"), Y: T.Tensor((8, 32), "float32")):
    with T.Kernel(BLOCKS, 2, threads=32) as (bx, by):
        x = T.alloc_fragment((4, 32 // BLOCKS), "float32")
        top = T.alloc_fragment([4], "float32")
        total = T.alloc_fragment([4], "float32")
        T.copy(X[by * 4, bx * (32 // BLOCKS)], x)
        T.reduce_max(x, top, dim=1, clear=True)
        for i, j in T.Parallel(4, 32 // BLOCKS):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=1, clear=True)
        for i, j in T.Parallel(4, 32 // BLOCKS):
            x[i, j] = x[i, j] / total[i]
        T.copy(x, Y[by * 4, bx * (32 // BLOCKS)])
"""
LOOPS = """
# from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((32, 8), "float32"), B: T.Buffer((8, 48), "float32"), C: T.Buffer((32, 48), "float32")):
    for i, j, k in T.grid(32, 48, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def blocks(found: dict[str, object]) -> dict[str, int]:
    """Variables of which one block was judged for all, and of how many."""
    alike = found["alike"]
    assert isinstance(alike, list)
    return {one["variable"]: one["blocks"] for one in alike}


def test_one_block_of_a_product_stands_for_all(kernel: Run) -> None:
    status, found = kernel(GEMM, "--as", "matmul", *SIZES)
    assert (status, blocks(found)) == (0, {"bx": 4, "by": 4})
    assert found["outputs"][0]["shape"] == [64, 64]
    large = ("--size", "M=2048", "--size", "N=2048", "--size", "K=512", "--size", "block_M=64", "--size", "block_N=64",
             "--size", "block_K=32")  # fmt: skip
    status, found = kernel(GEMM, "--as", "matmul", *large)
    assert (status, blocks(found)) == (0, {"bx": 32, "by": 32})


def test_loops_around_everything_are_a_grid(kernel: Run) -> None:
    status, found = kernel(LOOPS, "--as", "matmul")
    assert (status, blocks(found)) == (0, {"i": 32, "j": 48})


def test_rows_of_a_softmax_are_alike_and_its_columns_are_not(kernel: Run) -> None:
    status, found = kernel(SOFTMAX.replace("BLOCKS", "1"), "--as", "softmax")
    assert (status, blocks(found)) == (0, {"by": 2})
    status, found = kernel(SOFTMAX.replace("BLOCKS", "4"), "--as", "softmax")  # each block for itself
    assert (status, blocks(found)) == (1, {})


@pytest.mark.parametrize(
    "edit",
    [
        ("C[by * block_M, bx * block_N]", "C[bx * block_M, by * block_N]"),
        ("A[by * block_M, k", "A[(T.ceildiv(M, block_M) - 1 - by) * block_M, k"),
        ("A[by * block_M, k", "A[(by + 1) * block_M, k"),
        ("A[by * block_M, k", "A[by * block_M + 1, k"),
        ("A[by * block_M, k", "A[by // 2 * block_M, k"),
        ("A[by * block_M, k", "A[by % 2 * block_M, k"),
        ("A[by * block_M, k", "A[by * block_M // 2, k"),
        ("T.ceildiv(K, block_K), num", "T.min(bx + 1, T.ceildiv(K, block_K)), num"),
        ("T.ceildiv(K, block_K), num", "T.ceildiv(K, block_K) - T.if_then_else(bx == 3, 1, 0), num"),
        ("T.clear(C_local)", "T.fill(C_local, by // 3)"),
        ("with T.Kernel(T.ceildiv(N, block_N), T", "with T.Kernel(T.ceildiv(N, block_N) - 1, T"),
    ],
)
def test_blocks_that_do_not_do_the_same_are_all_judged(kernel: Run, edit: tuple[str, str]) -> None:
    assert edit[0] in GEMM
    status, found = kernel(GEMM.replace(*edit), "--as", "matmul", *SIZES)
    assert status == 1, found


@pytest.mark.parametrize(
    ("value", "named", "verdict", "cut"),
    [
        ("T.exp(x[i, j])", "exp", 0, {"bx": 4, "by": 2}),
        ("T.exp(x[i, j]) + T.Cast('float32', by)", "exp", 1, {"bx": 4}),
        ("T.if_then_else(bx * 8 + j < 31, T.exp(x[i, j]), T.float32(0))", "exp", 1, {"by": 2}),
        ("T.if_then_else(bx * 8 + j < 32, T.exp(x[i, j]), T.float32(0))", "exp", 0, {"by": 2}),
        ("T.if_then_else(by * 4 + i < 7, T.exp(x[i, j]), T.float32(0))", "exp", 1, {"bx": 4}),
        ("x[i, T.min(j, 7 - bx)]", "abs", 1, {"by": 2}),
        ("T.exp(X[by * 4 + i, bx * 8 + j])", "exp", 0, {"bx": 4, "by": 2}),
        ("T.exp(X[by * 4 + i, 31 - (bx * 8 + j)])", "exp", 1, {"by": 2}),
        ("T.exp(X[by * 4 + i, (bx * 8 + j + 1) % 32])", "exp", 1, {"by": 2}),
        ("T.exp(X[(by * 4 + i) // 2 * 2, bx * 8 + j])", "exp", 1, {"bx": 4}),
    ],
)
def test_a_variable_stands_for_a_place_only_where_nothing_else_depends_on_it(
    kernel: Run, value: str, named: str, verdict: int, cut: dict[str, int]
) -> None:
    status, found = kernel(ROWS.replace("VALUE", value), "--as", named)
    assert status == verdict, found
    assert set(blocks(found).items()) <= set(cut.items())


def test_running_sums_of_blocks_are_no_running_sum(kernel: Run) -> None:
    text = ROWS.replace("            y[i, j] = VALUE\n", "            y[i, j] = x[i, j]\n        T.cumsum(y, dim=1)\n")
    status, found = kernel(text, "--as", "cumsum")
    assert (status, blocks(found)) == (1, {})
