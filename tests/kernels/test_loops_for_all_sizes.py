"""Loops of which the first or last iteration is another, whose length depends on the block, or that write running sums:
followed for all sizes; what is nearly the same is not proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.kernels.any_size.decide import Answer, for_all_sizes
from scalify_dl.kernels.any_size.stated import of_name
from scalify_dl.readers.tir import read_kernel

from .test_wrong_for_all_sizes import PART, ROWS, SUM

CAUSAL = (Path(__file__).parents[1] / "data" / "kernels" / "causal_flash.txt").read_text("utf-8")
CUMSUM = """import tilelang.language as T

def cumsum(M, N, bm, bn):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, bm)) as b:
            x = T.alloc_shared((bm, bn), "float32")
            y = T.alloc_shared((bm, bn), "float32")
            s = T.alloc_fragment((bm,), "float32")
            t = T.alloc_fragment((bm,), "float32")
            T.clear(s)
            for k in T.serial(T.ceildiv(N, bn)):
                T.copy(X[b * bm, k * bn], x)
                T.cumsum(x, y, dim=1)
                T.reduce_sum(x, t, dim=1)
                for i, j in T.Parallel(bm, bn):
                    Y[b * bm + i, k * bn + j] = y[i, j] + s[i]
                for i in T.Parallel(bm):
                    s[i] += t[i]
    return main
"""
CLEARED = "T.clear(s)"
SOMETHING = "T.fill(s, 7)"
LAST = "T.ceildiv(N, bn) - 1"
MOST = "T.reduce_max(x, m, dim=1)\n"
MEAN = "    for i in T.Parallel(bm):\n        s[i] = s[i] / N"
GREATER = "for i in T.Parallel(bm):\n    s[i] = T.max(s[i], m[i])"
RANGE = "T.min(T.ceildiv(seq, block_N), T.ceildiv((bx + 1) * block_M, block_N))"
MASK = "bx * block_M + i >= k * block_N + j"
MASKED = f"T.if_then_else({MASK}, 0, -T.infinity(acc_s.dtype))"


def followed(folder: Path, text: str, named: str, names: str) -> Answer:
    """What is said for all sizes, without a run at any."""
    file = folder / "kernel.py"
    file.write_text(text)
    return for_all_sizes(
        names.split(","), lambda sizes: (read_kernel(file, sizes), of_name(named)), 60.0, reals=True
    )


def rows(loop: str, start: str, last: str = "s[i]") -> str:
    """A loop over tiles of rows."""
    body = "\n".join(" " * 16 + line for line in loop.splitlines())
    text = ROWS.replace("            T.clear(s)\n", f"            {start}\n")
    return text.replace("LOOP", body).replace("LAST", last)


def changed(text: str, *changes: tuple[str, str]) -> str:
    """A text with other parts."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("loop", "named", "start"),
    [
        (f"if k == 0:\n    T.clear(s)\n{SUM}", "sum", SOMETHING),
        (f"if k == 0:\n    T.clear(s)\n{SUM}", "sum", "pass"),
        (f"if k > 0:\n    pass\nelse:\n    T.clear(s)\n{SUM}", "sum", SOMETHING),
        (f"{PART}s[i] = T.if_then_else(k == 0, m[i], s[i] + m[i])", "sum", SOMETHING),
        ("T.reduce_sum(x, m, dim=1)\nif k == 0:\n    T.copy(m, s)\nelse:\n    for i in T.Parallel(bm):\n"
         "        s[i] += m[i]", "sum", "pass"),
        (f"{MOST}if k == 0:\n    T.copy(m, s)\nelse:\n    for i in T.Parallel(bm):\n        s[i] = T.max(s[i], m[i])",
         "max", "pass"),
        (f"if k == 0:\n    T.fill(s, -T.infinity('float32'))\n{MOST}{GREATER}", "max", SOMETHING),
        (f"{SUM}\nif k == {LAST}:\n{MEAN}", "mean", CLEARED),
        (f"if k == 0:\n    T.clear(s)\n{SUM}\nif k == {LAST}:\n{MEAN}", "mean", SOMETHING),
    ],
)  # fmt: skip
def test_a_first_or_last_iteration_may_be_another(tmp_path: Path, loop: str, named: str, start: str) -> None:
    answer = followed(tmp_path, rows(loop, start), named, "M,N,bm,bn")
    assert answer.proved, answer.reason


@pytest.mark.parametrize(
    ("loop", "named", "start"),
    [
        (f"if k == 1:\n    T.clear(s)\n{SUM}", "sum", CLEARED),
        (f"if k == 0:\n    T.fill(s, 1)\n{SUM}", "sum", SOMETHING),
        (f"if k > 0:\n    T.clear(s)\n{SUM}", "sum", CLEARED),
        (f"if k >= 0:\n    T.clear(s)\n{SUM}", "sum", CLEARED),
        (f"if k < {LAST}:\n    T.clear(s)\n{SUM}", "sum", CLEARED),
        (f"if k == {LAST}:\n    T.clear(s)\n{SUM}", "sum", CLEARED),
        (f"{SUM}\nif k == 0:\n    T.clear(s)", "sum", CLEARED),
        (f"{SUM}\nif k == {LAST}:\n    T.clear(s)", "sum", CLEARED),
        (f"{SUM}\nif k == {LAST} - 1:\n    T.clear(s)", "sum", CLEARED),
        (f"{SUM}\nif k != 0:\n    T.clear(s)", "sum", CLEARED),
        (f"{PART}s[i] = T.if_then_else(k == 0, s[i] + m[i], m[i])", "sum", CLEARED),
        (f"{PART}s[i] = T.if_then_else(k == 1, m[i], s[i] + m[i])", "sum", CLEARED),
        (f"{PART}s[i] = T.if_then_else(k == 0, m[i] * 2, s[i] + m[i])", "sum", CLEARED),
        (f"{PART}s[i] = T.if_then_else(k == 0, 0, s[i] + m[i])", "sum", CLEARED),
        (f"{MOST}if k == 0:\n    T.fill(s, 0)\nelse:\n    for i in T.Parallel(bm):\n        s[i] = T.max(s[i], m[i])",
         "max", "pass"),
        (f"{MOST}if k == 0:\n    T.copy(m, s)\nfor i in T.Parallel(bm):\n    s[i] = s[i] + m[i]", "sum", "pass"),
        (f"if k == 0:\n    T.fill(s, 0)\n{MOST}{GREATER}", "max", SOMETHING),
        (f"{SUM}\nif k == {LAST} - 1:\n{MEAN}", "mean", CLEARED),
        (f"{SUM}\nif k == 0:\n{MEAN}", "mean", CLEARED),
        (f"{SUM}\nif k == {LAST}:\n{MEAN}".replace("s[i] / N", "m[i] / N"), "mean", CLEARED),
        (f"if k == {LAST}:\n{MEAN}\n{SUM}", "mean", CLEARED),
        (f"for z in T.serial(k):\n    {SUM}", "sum", CLEARED),
        (f"for z in T.serial(k, k + 1):\n    {SUM}\n    {SUM}", "sum", CLEARED),
    ],
)  # fmt: skip
def test_a_branch_on_another_iteration_is_none_on_the_first(tmp_path: Path, loop: str, named: str, start: str) -> None:
    assert not followed(tmp_path, rows(loop, start), named, "M,N,bm,bn").proved


ALL = "batch,heads,seq,block_M,block_N"


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(RANGE, "T.ceildiv(seq, block_N)")],
        [(RANGE, "T.ceildiv((bx + 1) * block_M, block_N)")],
        [(RANGE, "T.min(T.ceildiv(seq, block_N), T.ceildiv((bx + 2) * block_M, block_N))")],
        [(MASK, "k * block_N + j < bx * block_M + i + 1")],
        [(MASKED, "T.if_then_else(k * block_N + j > bx * block_M + i, -T.infinity(acc_s.dtype), 0)")],
    ],
)
def test_blocks_that_are_masked_may_be_left_out(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    answer = followed(tmp_path, changed(CAUSAL, *changes), "causal_attention_bshd", ALL)
    assert answer.proved, answer.reason


def test_blocks_of_one_size_end_at_the_diagonal(tmp_path: Path) -> None:
    text = changed(CAUSAL, ("block_N=8, ", ""), ("block_N", "block_M"), ("Pipelined(loop_range", "Pipelined(bx + 1"))
    asked = "causal_attention_bshd", "batch,heads,seq,block_M"
    answer = followed(tmp_path, text, *asked)
    assert answer.proved, answer.reason
    for old, new in (("(bx + 1,", "(bx,"), ("(bx + 1,", "(bx + 1 + bx // 2,"), (">=", ">"), (">=", "<=")):
        assert not followed(tmp_path, changed(text, (old, new)), *asked).proved


@pytest.mark.parametrize(
    "changes",
    [
        [(RANGE, "T.min(T.ceildiv(seq, block_N), T.ceildiv(bx * block_M, block_N))")],
        [(RANGE, "T.min(T.ceildiv(seq, block_N), (bx + 1) * block_M // block_N)")],
        [(RANGE, "T.min(T.ceildiv(seq, block_N), (bx * block_M + block_M - 1) // block_N)")],
        [(RANGE, "T.min(T.ceildiv(seq, block_N), bx + 1)")],
        [(RANGE, "T.min(T.ceildiv(seq, block_N) - 1, T.ceildiv((bx + 1) * block_M, block_N))")],
        [(RANGE, "T.ceildiv((bx + 1) * block_M, block_M)")],
        [(RANGE, "T.max(1, bx)")],
        [("T.Pipelined(loop_range", "T.Pipelined(1, loop_range")],
        [("T.Pipelined(loop_range", "T.Pipelined(bx, loop_range")],
        [(MASK, "bx * block_M + i > k * block_N + j")],
        [(MASK, "bx * block_M + i <= k * block_N + j")],
        [(MASK, "bx * block_N + i >= k * block_N + j")],
        [(MASK, "bx * block_M + j >= k * block_N + i")],
        [(MASK, "bx * block_M >= k * block_N")],
        [(MASK, "bx * block_M + i >= k * block_N + j + 1")],
        [(MASK, "bx * block_M + i + 1 >= k * block_N + j")],
        [(MASKED, "0")],
        [(MASKED, f"T.if_then_else({MASK}, -T.infinity(acc_s.dtype), 0)")],
        [(MASKED, f"T.if_then_else({MASK}, 0, -1)")],
        [("T.max(scores_max[i], scores_max_prev[i])", "scores_max[i]")],
        [("acc_o[i, j] *= scores_scale[i]", "acc_o[i, j] *= 1")],
        [("logsum[i] * scores_scale[i] + scores_sum[i]", "logsum[i] + scores_sum[i]")],
    ],
)
def test_another_mask_or_length_is_not_causal(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    assert not followed(tmp_path, changed(CAUSAL, *changes), "causal_attention_bshd", ALL).proved


LATER = "                for i in T.Parallel(bm):\n                    s[i] += t[i]\n"


@pytest.mark.parametrize(
    "changes", [[], [("                T.reduce_sum(x, t, dim=1)\n", ""), ("s[i] += t[i]", "s[i] += y[i, bn - 1]")]]
)
def test_a_running_sum_goes_on_from_block_to_block(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    answer = followed(tmp_path, changed(CUMSUM, *changes), "cumsum", "M,N,bm,bn")
    assert answer.proved, answer.reason


@pytest.mark.parametrize(
    "changes",
    [
        [("y[i, j] + s[i]", "y[i, j]")],
        [("y[i, j] + s[i]", "x[i, j] + s[i]")],
        [("y[i, j] + s[i]", "y[i, j] + s[i] * k")],
        [("            T.clear(s)\n", "            T.fill(s, 1)\n")],
        [("s[i] += t[i]", "s[i] = t[i]")],
        [("s[i] += t[i]", "s[i] += t[i] + t[i]")],
        [("s[i] += t[i]", "s[i] += x[i, bn - 1]")],
        [("T.cumsum(x, y, dim=1)", "T.cumsum(x, y, dim=0)")],
        [("T.cumsum(x, y, dim=1)", "T.cumsum(x, y, dim=1, reverse=True)")],
        [(LATER, ""), ("                for i, j in", f"{LATER}                for i, j in")],
        [("T.serial(T.ceildiv(N, bn))", "T.serial(T.ceildiv(N, bn) - 1)")],
        [("T.serial(T.ceildiv(N, bn))", "T.serial(b + 1)")],
        [("T.serial(T.ceildiv(N, bn))", "T.serial(T.min(b + 1, T.ceildiv(N, bn)))")],
    ],
)
def test_another_running_sum_is_none(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    assert not followed(tmp_path, changed(CUMSUM, *changes), "cumsum", "M,N,bm,bn").proved
