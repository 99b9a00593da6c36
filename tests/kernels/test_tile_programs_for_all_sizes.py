"""Kernels as TileLang's pages write them: proved for all sizes; with planted bugs refuted at a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from .running import Run

FOLDER = Path(__file__).parents[1] / "data" / "kernels"
GEMM = "M,N,K,block_M,block_N,block_K"
NAMES = {
    "matmul": ("matmul", GEMM),
    "matmul_nt": ("matmul_nt", GEMM),
    "batched_gemm": ("matmul", f"batch,{GEMM}"),
    "split_k": ("matmul", f"{GEMM},split"),
    "grouped_gemm": ("", f"{GEMM},E"),
    "moe_gather": ("", f"{GEMM},E,tokens"),
    "rms_norm": ("rms_norm", "M,N,block_M,block_N"),
    "layer_norm": ("layer_norm", "M,N,block_M"),
    "softmax": ("softmax", "M,N,block_M,block_N"),
    "flash_fwd": ("attention", "batch,heads,seq_q,seq_kv,block_M,block_N"),
    "causal_flash": ("causal_attention_bshd", "batch,heads,seq,block_M,block_N"),
    "causal_flash_bwd": ("", "batch,heads,seq,block_M,block_N"),
    "causal_linear_attention": ("", "B,S,H,DK,DV,chunk"),
    "chunk_scan": ("", "batch,nchunks,chunk_size,heads,headdim,dstate,block_M,block_N,block_K"),
    "convolution": ("", "N,C,F,BF,BC"),
    "cross_entropy": ("", "N,V,BM,BV"),
    "split_kv_decode": ("", "batch,groups,per,seqlen_kv,num_split,block_N"),
    "flash_bwd": ("", "batch,heads,seq_q,seq_kv,block_M,block_N"),
    "linear_attention": ("", "B,S,H,DK,DV,chunk,BV"),
    "dequant_gemm": ("", GEMM),
    "elementwise": ("", "M,N,block_M,block_N"),
    "swiglu_mlp": ("", GEMM),
}
"""Of each what it is, where that has a name, and the sizes that it is proved for."""
OTHERS = {"convolution": ("--size", "H=6", "--size", "W=5")}
"""Sizes of one value."""
BUGS = [
    ("matmul", "            T.clear(C_l)\n", ""),
    ("matmul", "A[by * block_M, k * block_K]", "A[by * block_M, k * block_K + 1]"),
    ("matmul", "B[k * block_K, bx", "B[k * block_K, by"),
    ("batched_gemm", "B[bz, k", "B[0, k"),
    ("split_k", "T.atomic_add(C[by * block_M, bx * block_N], C_l)", "T.copy(C_l, C[by * block_M, bx * block_N])"),
    ("split_k", "B[bz * per + k", "B[k"),
    ("grouped_gemm", "expert[by]", "expert[0]"),
    ("moe_gather", "ids[by * block_M + i]", "ids[i]"),
    ("rms_norm", "total[i] / N", "total[i] / block_N"),
    ("layer_norm", " - mean[i] * mean[i]", ""),
    ("softmax", 'T.fill(lse, -T.infinity("float"))', "T.fill(lse, 0)"),
    ("flash_fwd", "acc_o[i, j] *= scores_scale[i]", "acc_o[i, j] *= 1"),
    ("flash_fwd", "logsum[i] * scores_scale[i] +", "logsum[i] +"),
    ("flash_fwd", "acc_o[i, j] /= logsum[i]", "acc_o[i, j] /= scores_sum[i]"),
    ("causal_flash", "T.ceildiv((bx + 1) * block_M, block_N)", "bx + 1"),
    ("causal_flash", "bx * block_M + i >=", "bx * block_M + i + 1 >="),
    ("causal_flash_bwd", "T.floordiv(by * block_M, block_N)", "T.ceildiv(by * block_M, block_N)"),
    ("causal_flash_bwd", "by * block_M + i <= k", "by * block_M + i < k"),
    ("causal_linear_attention", "row >= col", "row > col"),
    ("convolution", "by + kh, i + kw", "by + kw, i + kh"),
    ("cross_entropy", "target[b * BM + i]", "target[i]"),
    ("split_kv_decode", "lse_local_split[0] - lse_logsum_local[0]", "lse_local_split[0] - lse_max_local[0]"),
    ("flash_bwd", "(dsT[i, j] - delta[j])", "dsT[i, j]"),
    (
        "flash_bwd",
        "T.atomic_add(dQ[bz, bx, k * block_N + i, j], dq[i, j])",
        "dQ[bz, bx, k * block_N + i, j] = dq[i, j]",
    ),
    ("linear_attention", "            T.clear(h)\n", ""),
    ("dequant_gemm", "(j % 2) * 4", "(1 - j % 2) * 4"),
    ("swiglu_mlp", "N + bx * block_N", "bx * block_N"),
    ("elementwise", "b[bx * block_N + j]", "b[j]"),
]


def asked(name: str) -> list[str]:
    """What the command line is asked of a kernel, but for sizes."""
    as_, spec = NAMES[name][0], FOLDER / f"{name}.spec.txt"
    return ["--as", as_] if as_ else ["--spec", str(spec)]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_proved_for_all_sizes(kernel: Run, name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    status, said = kernel(text, *asked(name), "--for-all", NAMES[name][1], "--reals", *OTHERS.get(name, ()))
    assert (status, said.get("verdict")) == (0, "PROVED"), said
    assert set(said["for_all"]) == set(NAMES[name][1].split(","))
    assert said["for_all"].get("M", "block_M") == "block_M"


@pytest.mark.parametrize(("name", "old", "new"), BUGS)
def test_a_planted_bug_is_refuted_at_a_line_of_the_text(kernel: Run, name: str, old: str, new: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    assert old in text
    wrong = text.replace(old, new)
    more = OTHERS.get(name) or (("--size", "dim=4") if "dim=" in text else ())
    status, said = kernel(wrong, *asked(name), "--for-all", NAMES[name][1], "--reals", *more)
    assert (status, said.get("verdict")) == (1, "REFUTED"), said
    lines = [flaw["line"] for flaw in said["flaws"]] + [(said["counterexample"] or {}).get("line", 0)]
    assert any(0 < line <= wrong.count("\n") for line in lines)


@pytest.mark.parametrize("turns", ["T.ceildiv(K, block_K) - 1", "0"])
def test_a_loop_that_may_have_no_iteration_clears_nothing(kernel: Run, turns: str) -> None:
    """With one block along K the sum starts from what is there."""
    cleared = "            T.clear(C_l)\n"
    text = (FOLDER / "matmul.txt").read_text("utf-8")
    assert cleared in text
    looped = text.replace(cleared, f"            for z in T.serial({turns}):\n    {cleared}")
    _, said = kernel(looped, "--as", "matmul", "--for-all", GEMM, "--reals")
    assert said.get("verdict") in ("REFUTED", "UNKNOWN"), said
