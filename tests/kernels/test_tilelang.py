"""TileLang kernels as its documentation writes them: proved; with a planted bug: refuted, at its line."""

from __future__ import annotations

import pytest

from .running import Run

GEMM = """
import tilelang.language as T

def matmul(M, N, K, block_M=16, block_N=16, block_K=8, dtype="float16", accum_dtype="float"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])
    return gemm
"""
SOFTMAX = """
import tilelang.language as T

M, N, BM, BN = 8, 16, 4, 8

@T.prim_func
def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
    with T.Kernel(T.ceildiv(M, BM), threads=128) as i_m:
        x = T.alloc_fragment((BM, BN), "float32")
        lse = T.alloc_fragment([BM], "float32")
        top = T.alloc_fragment([BM], "float32")
        e = T.alloc_fragment([BM, BN], "float32")
        total = T.alloc_fragment([BM], "float32")
        T.fill(lse, -T.infinity("float32"))
        for i_n in T.Pipelined(0, T.ceildiv(N, BN)):
            T.copy(X[i_m * BM, i_n * BN], x)
            T.reduce_max(x, top, dim=1, clear=True)
            for i, j in T.Parallel(BM, BN):
                e[i, j] = T.exp2(x[i, j] * 1.44269504 - top[i] * 1.44269504)
            T.reduce_sum(e, total, dim=1, clear=True)
            for i in T.Parallel(BM):
                lse[i] = top[i] * 1.44269504 + T.log2(T.exp2(lse[i] - top[i] * 1.44269504) + total[i])
        for i_n in T.Pipelined(0, T.ceildiv(N, BN)):
            T.copy(X[i_m * BM, i_n * BN], x)
            for i, j in T.Parallel(BM, BN):
                x[i, j] = T.exp2(x[i, j] * 1.44269504 - lse[i])
            T.copy(x, Y[i_m * BM, i_n * BN])
"""
ATTENTION = """
import tilelang.language as T

def flash(seq=16, dim=8, causal=False, BM=8, BN=8, dtype="float32"):
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    shape = [1, seq, 1, dim]

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype),
             O: T.Tensor(shape, dtype)):
        with T.Kernel(T.ceildiv(seq, BM), 1, 1, threads=128) as (bx, by, bz):
            q = T.alloc_shared([BM, dim], dtype)
            k = T.alloc_shared([BN, dim], dtype)
            s = T.alloc_fragment([BM, BN], "float")
            p = T.alloc_fragment([BM, BN], dtype)
            o = T.alloc_fragment([BM, dim], "float")
            top = T.alloc_fragment([BM], "float")
            before = T.alloc_fragment([BM], "float")
            factor = T.alloc_fragment([BM], "float")
            part = T.alloc_fragment([BM], "float")
            total = T.alloc_fragment([BM], "float")
            T.copy(Q[bz, bx * BM : (bx + 1) * BM, by, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float"))
            steps = T.min(T.ceildiv(seq, BN), T.ceildiv((bx + 1) * BM, BN)) if causal else T.ceildiv(seq, BN)
            for n in T.Pipelined(steps, num_stages=1):
                T.copy(K[bz, n * BN : (n + 1) * BN, by, :], k)
                if causal:
                    for i, j in T.Parallel(BM, BN):
                        s[i, j] = T.if_then_else(bx * BM + i >= n * BN + j, 0, -T.infinity(s.dtype))
                else:
                    T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i in T.Parallel(BM):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.exp2(s[i, j] * scale - top[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(BM):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(s, p)
                for i, j in T.Parallel(BM, dim):
                    o[i, j] *= factor[i]
                T.copy(V[bz, n * BN : (n + 1) * BN, by, :], k)
                T.gemm(p, k, o)
            for i, j in T.Parallel(BM, dim):
                o[i, j] /= total[i]
            T.copy(o, O[bz, bx * BM : (bx + 1) * BM, by, :])
    return main
"""
SPLIT = (
    GEMM.replace(
        "T.ceildiv(M, block_M), threads=128) as (bx, by)", "T.ceildiv(M, block_M), 2, threads=128) as (bx, by, bz)"
    )
    .replace("T.ceildiv(K, block_K), num", "T.ceildiv(K // 2, block_K), num")
    .replace("k * block_K]", "bz * (K // 2) + k * block_K]")
    .replace("B[k * block_K", "B[bz * (K // 2) + k * block_K")
    .replace(
        "T.copy(C_local, C[by * block_M, bx * block_N])",
        "for i, j in T.Parallel(block_M, block_N):\n"
        "                T.atomic_add(C[by * block_M + i, bx * block_N + j], C_local[i, j])",
    )
)


def sizes(**given: object) -> list[str]:
    return [part for name, value in given.items() for part in ("--size", f"{name}={value}")]


@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 16), (30, 20, 12), (16, 48, 8)])
def test_a_product_is_proved_also_where_tiles_reach_beyond_the_end(kernel: Run, m: int, n: int, k: int) -> None:
    status, said = kernel(GEMM, "--as", "matmul", *sizes(M=m, N=n, K=k))
    assert (status, said["verdict"]) == (0, "PROVED")
    assert "a cast from f32 to f16 rounds" in [p["text"] for p in said["precision"]]


def test_a_large_product_is_proved(kernel: Run) -> None:
    arguments = sizes(M=256, N=256, K=128, block_M=64, block_N=64, block_K=32)
    assert kernel(GEMM, "--as", "matmul", *arguments)[0] == 0
    status, said = kernel(GEMM.replace("B[k * block_K, bx", "B[k * block_K, by"), "--as", "matmul", *arguments)
    assert status == 1
    assert said["counterexample"]["line"] == 16


def test_atomics_add_to_zeros_which_is_assumed(kernel: Run) -> None:
    arguments = sizes(M=16, N=16, K=32, dtype="float32")
    status, said = kernel(SPLIT, "--as", "matmul", *arguments)
    assert status == 0
    assert any(a["why"] == "atomic" for a in said["assumptions"])
    racing = SPLIT.replace("T.atomic_add(C[by * block_M + i, bx * block_N + j], C_local[i, j])",
                           "C[by * block_M + i, bx * block_N + j] += C_local[i, j]")  # fmt: skip
    status, said = kernel(racing, "--as", "matmul", *arguments)
    assert status == 1
    assert "race" in {flaw["kind"] for flaw in said["flaws"]}


def test_online_softmax_is_proved(kernel: Run) -> None:
    status, said = kernel(SOFTMAX, "--as", "softmax")
    assert status == 0, said
    assert "constant" in {a["why"] for a in said["assumptions"]}


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_is_proved(kernel: Run, *, causal: bool) -> None:
    name = "causal_attention_bshd" if causal else "attention_bshd"
    status, said = kernel(ATTENTION, "--as", name, *sizes(causal=causal))
    assert status == 0, said


@pytest.mark.parametrize(
    ("text", "old", "new", "line"),
    [
        (GEMM, "            T.clear(C_local)\n", "", 0),
        (GEMM, "A[by * block_M, k * block_K]", "A[by * block_M, k * block_K + 1]", 0),
        (GEMM, "T.ceildiv(K, block_K), num", "K // block_K - 1, num", 0),
        (GEMM, "C[by * block_M, bx * block_N]", "C[by * block_M, 0]", 16),
        (GEMM, "T.ceildiv(N, block_N), T", "N // block_N - 1, T", 0),
        (SOFTMAX, "exp2(lse[i] - top[i] * 1.44269504)", "exp2(lse[i])", 0),
        (SOFTMAX, "clear=True", "clear=False", 0),
        (SOFTMAX, 'T.fill(lse, -T.infinity("float32"))', "T.fill(lse, 0)", 0),
        (SOFTMAX, "x[i, j] = T.exp2", "x[i, 0] = T.exp2", 0),
        (ATTENTION, "o[i, j] *= factor[i]", "o[i, j] *= 1", 0),
        (ATTENTION, "total[i] * factor[i] + part[i]", "total[i] + part[i]", 0),
        (ATTENTION, ", transpose_B=True", "", 0),
    ],
)
def test_a_planted_bug_is_refuted(kernel: Run, text: str, old: str, new: str, line: int) -> None:
    assert old in text
    more = sizes(M=32, N=32, K=16) if text is GEMM else []
    name = {GEMM: "matmul", SOFTMAX: "softmax", ATTENTION: "attention_bshd"}[text]
    status, said = kernel(text.replace(old, new), "--as", name, *more)
    assert status == 1, said
    assert not line or line in {flaw["line"] for flaw in said["flaws"]} | {(said["counterexample"] or {}).get("line")}


def test_an_index_without_a_guard_is_refuted_where_a_copy_is_not(kernel: Run) -> None:
    old = "T.copy(B[k * block_K, bx * block_N], B_shared)"
    new = "for i, j in T.Parallel(block_K, block_N):\n" + " " * 20
    new += "B_shared[i, j] = B[k * block_K + i, bx * block_N + j]"
    status, said = kernel(GEMM.replace(old, new), "--as", "matmul", *sizes(M=32, N=30, K=16))
    assert status == 1
    assert [(flaw["kind"], flaw["line"]) for flaw in said["flaws"]] == [("bounds", 15)]


def test_a_size_that_is_open_is_bad_input(kernel: Run) -> None:
    status, said = kernel(GEMM, "--as", "matmul", "--size", "M=16")
    assert status == 2
    assert "--size" in said["message"]
