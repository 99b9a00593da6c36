"""Kernels proved for all sizes of some names; wrong ones refuted at sizes that are tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from .running import Run
from .test_tilelang import ATTENTION, GEMM, SOFTMAX, SPLIT, sizes

ALL = ("--for-all", "M,N,K,block_M,block_N,block_K")
FLASH = ("--as", "attention_bshd", "--for-all", "seq,BM,BN", "--size", "dim=64")
MAKER = "def softmax(M, N, BM, BN):\n"
MATMUL = """
def spec(M, N, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        for i, j, k in T.grid(M, N, K):
            with T.block("c"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def within_a_function(text: str) -> str:
    """The softmax with its sizes as parameters."""
    head, body = text.split("@T.prim_func\n")
    lines = ["@T.prim_func", *body.splitlines()]
    return head.replace("M, N, BM, BN = 8, 16, 4, 8\n", "") + MAKER + "\n".join("    " + line for line in lines)


def test_a_product_is_proved_for_all_blocks_that_divide(kernel: Run) -> None:
    status, said = kernel(GEMM, "--as", "matmul", *ALL)
    assert (status, said["verdict"]) == (0, "PROVED")
    blocks = dict.fromkeys(ALL[1].split(",")[3:], "")
    assert said["for_all"] == {"M": "block_M", "N": "block_N", "K": "block_K", **blocks}
    assert "a cast from f32 to f16 rounds" in [p["text"] for p in said["precision"]]
    assert {a["why"] for a in said["assumptions"]} == {"finite", "range"}


def test_atomics_are_summed_over_the_blocks_that_share_a_place(kernel: Run) -> None:
    status, said = kernel(SPLIT, *ALL, "--size", "dtype=float32", other=MATMUL)
    assert status == 0, said
    assert said["for_all"]["K"] == "2·block_K"
    assert "atomic" in {a["why"] for a in said["assumptions"]}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            T.clear(C_local)\n", ""),
        ("k * block_K]", "k * block_K + 1]"),
        ("B[k * block_K, bx", "B[k * block_K, by"),
        ("T.ceildiv(K, block_K), num", "K // block_K - 1, num"),
        ("C[by * block_M, bx * block_N]", "C[bx * block_M, by * block_N]"),
    ],
)
def test_a_wrong_product_is_refuted_at_some_size(kernel: Run, old: str, new: str) -> None:
    assert old in GEMM
    status, said = kernel(GEMM.replace(old, new), "--as", "matmul", *ALL)
    assert status == 1, said
    assert said["sizes"]


def test_a_running_log_of_a_sum_is_followed(kernel: Run) -> None:
    names = ("--as", "softmax", "--for-all", "M,N,BM,BN")
    status, said = kernel(within_a_function(SOFTMAX), *names)
    assert (status, said["for_all"]) == (0, {"M": "BM", "N": "BN", "BM": "", "BN": ""})
    assert kernel(within_a_function(SOFTMAX.replace("T.exp2(lse[i] - ", "T.exp2(lse[i] + ")), *names)[0] == 1
    started = SOFTMAX.replace('T.fill(lse, -T.infinity("float32"))', "T.fill(lse, 0)")
    assert kernel(within_a_function(started), *names)[0] == 1


def test_flash_attention_is_proved_for_all_lengths_and_blocks(kernel: Run) -> None:
    status, said = kernel(ATTENTION, *FLASH)
    assert status == 0, said
    for old, new in (("o[i, j] *= factor[i]", "o[i, j] *= 1"), ("total[i] * factor[i] +", "total[i] +")):
        assert kernel(ATTENTION.replace(old, new), *FLASH)[0] == 1
    # what is there at first is multiplied by exp(−∞ − max)
    assert kernel(ATTENTION.replace("T.fill(total, 0)", "T.fill(total, 1)"), *FLASH)[0] == 0


def test_what_starts_from_infinity_must_be_a_number_after_one_turn(kernel: Run) -> None:
    """x + log(1 + exp(y − x)) is log(exp(x) + exp(y)), but not where x is −∞, as it is at first."""
    text = within_a_function(SOFTMAX)
    wrong = text.replace(
        "lse[i] = top[i] * 1.44269504 + T.log2(T.exp2(lse[i] - top[i] * 1.44269504) + total[i])",
        "lse[i] = lse[i] + T.log2(1.0 + total[i] * T.exp2(top[i] * 1.44269504 - lse[i]))",
    )
    assert wrong != text
    assert kernel(wrong, "--as", "softmax", "--for-all", "M,N,BM,BN")[0] in (1, 3)


def test_what_cannot_be_told_of_all_sizes_is_unknown(kernel: Run) -> None:
    more = "T.clear(C_local)\n            if M > 64:\n                T.clear(C_local)"
    text = GEMM.replace("T.clear(C_local)", more)
    status, said = kernel(text, "--as", "matmul", *ALL)
    assert (status, "whether" in said["reason"]) == (3, True)
    status, said = kernel(GEMM, "--as", "matmul", "--for-all", "M,M2", *sizes(N=16, K=16))
    assert (status, "M2" in said["message"]) == (2, True)


def test_at_one_size_too_a_loop_is_followed_as_for_all(kernel: Run) -> None:
    """Four blocks of a running sum of exponentials, less an element that an argument says."""
    folder = Path(__file__).parents[1] / "data" / "kernels"
    text, spec = ((folder / f"cross_entropy{end}").read_text("utf-8") for end in (".txt", ".spec.txt"))
    given = sizes(N=8, V=32, BM=4, BV=8)
    assert kernel(text, *given, "--reals", other=spec)[0] == 0
    assert kernel(text.replace("prev[i] - m[i]", "m[i] - prev[i]"), *given, "--reals", other=spec)[0] == 1
