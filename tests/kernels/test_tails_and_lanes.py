"""Tails of what is added up, and vectors within threads."""

from __future__ import annotations

import pytest

from .running import Run

TAIL = """
@T.prim_func
def main(A: T.Buffer((3, 12), "float32"), B: T.Buffer((5, 12), "float32"), C: T.Buffer((3, 5), "float32")):
    for i, j, k_0, k_1 in T.grid(3, 5, 2, 8):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(12, k_0 * 8 + k_1)
            T.where(k_0 * 8 + k_1 < 12)
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
VECTORS = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    S = T.sblock_alloc_buffer((4, 8), scope="SCOPE")
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for v in T.vectorized(8):
            S[t, v] = A[t, v]
        for u in range(8):
            C[t, u] = S[t, 7 - u] * S[t, 0]
"""
WITHIN = VECTORS.replace("        for u in range(8):\n", "").replace("C[t, u] = S[t, 7 - u]", "C[t, v] = S[t, 7 - v]")


def test_a_sum_whose_last_tile_reaches_beyond_the_end_is_proved(kernel: Run) -> None:
    assert kernel(TAIL, "--as", "matmul_nt")[0] == 0
    assert kernel(TAIL.replace("k_1 < 12)", "k_1 < 11)"), "--as", "matmul_nt")[0] == 1
    status, said = kernel(TAIL.replace("            T.where(k_0 * 8 + k_1 < 12)\n", ""), "--as", "matmul_nt")
    assert status == 1
    assert "bounds" in {flaw["kind"] for flaw in said["flaws"]}


@pytest.mark.parametrize("scope", ["shared", "local", "global"])
def test_a_vector_within_a_thread_is_done_when_its_loop_ends(kernel: Run, scope: str) -> None:
    assert kernel(VECTORS.replace("SCOPE", scope), other=VECTORS.replace("SCOPE", "global"))[0] == 0
    status, said = kernel(WITHIN.replace("SCOPE", scope), other=VECTORS.replace("SCOPE", "global"))
    assert status != 0, said
    assert "race" in {flaw["kind"] for flaw in said["flaws"]}


def test_what_another_thread_wrote_to_global_memory_is_a_race(kernel: Run) -> None:
    other = VECTORS.replace("SCOPE", "global")
    assert kernel(other.replace("S[t, 7 - u]", "S[3 - t, 7 - u]"), other=other)[0] != 0
