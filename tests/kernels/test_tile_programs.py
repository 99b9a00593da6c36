"""Kinds of tile programs, each against a plain text of what it computes, or an op by name; and each broken."""

from __future__ import annotations

import pytest

from .running import Run

HEAD = "import tilelang.language as T\n\n"
RMS = """
@T.prim_func
def main(A: T.Tensor((8, 16), "float32"), W: T.Tensor((16,), "float32"), B: T.Tensor((8, 16), "float32")):
    with T.Kernel(T.ceildiv(8, 4), threads=128) as bx:
        a = T.alloc_shared((4, 16), "float32")
        square = T.alloc_fragment((4, 16), "float32")
        total = T.alloc_fragment((4,), "float32")
        T.copy(A[bx * 4 : (bx + 1) * 4, :], a)
        for i, j in T.Parallel(4, 16):
            square[i, j] = a[i, j] * a[i, j]
        T.reduce_sum(square, total, dim=1)
        for i in T.Parallel(4):
            total[i] = T.rsqrt(total[i] / 16 + 1e-5)
        for i, j in T.Parallel(4, 16):
            B[bx * 4 + i, j] = a[i, j] * total[i] * W[j]
"""
DEQUANT = """
@T.prim_func
def main(A: T.Tensor((8, 16), "float16"), Q: T.Tensor((8, 8), "uint8"), C: T.Tensor((8, 8), "float32")):
    with T.Kernel(2, threads=128) as bx:
        a = T.alloc_shared((8, 8), "float16")
        q = T.alloc_shared((4, 4), "uint8")
        w = T.alloc_shared((4, 8), "float16")
        c = T.alloc_fragment((8, 4), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 8], a)
            T.copy(Q[bx * 4, k * 4], q)
            for i, j in T.Parallel(4, 8):
                w[i, j] = T.Cast("float16", (q[i, j // 2] >> T.Cast("uint8", 4 * (j % 2))) & T.uint8(15))
            T.gemm(a, w, c, transpose_B=True)
        T.copy(c, C[0, bx * 4])
"""
DEQUANT_PLAIN = """
@T.prim_func
def plain(A: T.Buffer((8, 16), "float16"), Q: T.Buffer((8, 8), "uint8"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast(
                "float32", T.bitwise_and(T.shift_right(Q[vj, vk // 2], T.Cast("uint8", vk % 2 * 4)), T.uint8(15))
            )
"""
LINEAR = """
@T.prim_func
def main(Q: T.Tensor((16, 4), "float32"), K: T.Tensor((16, 4), "float32"), V: T.Tensor((16, 4), "float32"),
         O: T.Tensor((16, 4), "float32")):
    with T.Kernel(1, threads=128) as bx:
        q = T.alloc_shared((4, 4), "float32")
        k = T.alloc_shared((4, 4), "float32")
        v = T.alloc_shared((4, 4), "float32")
        s = T.alloc_fragment((4, 4), "float32")
        h = T.alloc_fragment((4, 4), "float32")
        o = T.alloc_fragment((4, 4), "float32")
        T.clear(h)
        for n in T.serial(4):
            T.copy(Q[n * 4, 0], q)
            T.copy(K[n * 4, 0], k)
            T.copy(V[n * 4, 0], v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(4, 4):
                s[i, j] = T.if_then_else(i >= j, s[i, j], 0)
            T.gemm(q, h, o, clear_accum=True)
            T.gemm(s, v, o)
            T.gemm(k, v, h, transpose_A=True)
            T.copy(o, O[n * 4, 0])
"""
LINEAR_PLAIN = """
@T.prim_func
def plain(Q: T.Buffer((16, 4)), K: T.Buffer((16, 4)), V: T.Buffer((16, 4)), O: T.Buffer((16, 4))):
    S = T.alloc_buffer((16, 16))
    for i, j, d in T.grid(16, 16, 4):
        with T.block("S"):
            vi, vj, vd = T.axis.remap("SSR", [i, j, d])
            with T.init():
                S[vi, vj] = T.float32(0)
            S[vi, vj] = S[vi, vj] + Q[vi, vd] * K[vj, vd]
    for i, e, j in T.grid(16, 4, 16):
        with T.block("O"):
            vi, ve, vj = T.axis.remap("SSR", [i, e, j])
            with T.init():
                O[vi, ve] = T.float32(0)
            O[vi, ve] = O[vi, ve] + T.if_then_else(vj <= vi, S[vi, vj] * V[vj, ve], T.float32(0))
"""
GROUPED = """
@T.prim_func
def main(X: T.Tensor((12, 8), "float32"), W: T.Tensor((3, 8, 6), "float32"), E: T.Tensor((3,), "int32"),
         Y: T.Tensor((12, 6), "float32")):
    with T.Kernel(3, threads=128) as bx:
        x = T.alloc_shared((4, 8), "float32")
        w = T.alloc_shared((8, 6), "float32")
        y = T.alloc_fragment((4, 6), "float32")
        T.copy(X[bx * 4, 0], x)
        for k, j in T.Parallel(8, 6):
            w[k, j] = W[E[bx], k, j]
        T.gemm(x, w, y, clear_accum=True)
        T.copy(y, Y[bx * 4, 0])
"""
GROUPED_PLAIN = """
@T.prim_func
def plain(X: T.Buffer((12, 8)), W: T.Buffer((3, 8, 6)), E: T.Buffer((3,), "int32"), Y: T.Buffer((12, 6))):
    for i, j, k in T.grid(12, 6, 8):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[E[vi // 4], vk, vj]
"""
BATCHED = """
@T.prim_func
def main(A: T.Tensor((2, 8, 8), "float32"), B: T.Tensor((2, 6, 8), "float32"), C: T.Tensor((2, 8, 6), "float32")):
    with T.Kernel(2, 2, threads=64) as (by, bz):
        a = T.alloc_shared((4, 8), "float32")
        b = T.alloc_shared((6, 8), "float32")
        c = T.alloc_fragment((4, 6), "float32")
        T.clear(c)
        T.copy(A[bz, by * 4, 0], a)
        T.copy(B[bz, 0, 0], b)
        T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[bz, by * 4, 0])
"""
FUSED = """
@T.prim_func
def main(A: T.Tensor((10, 12), "float32"), B: T.Tensor((10, 12), "float32"), C: T.Tensor((10, 12), "float32")):
    with T.Kernel(T.ceildiv(12, 8), T.ceildiv(10, 4), threads=64) as (bx, by):
        for i, j in T.Parallel(4, 8):
            if by * 4 + i < 10 and bx * 8 + j < 12:
                C[by * 4 + i, bx * 8 + j] = (
                    A[by * 4 + i, bx * 8 + j] * B[by * 4 + i, bx * 8 + j] / (1 + T.exp(-A[by * 4 + i, bx * 8 + j]))
                )
"""
CASES = [
    (RMS, "rms_norm", "", "total[i] / 16", "total[i] / 15"),
    (RMS, "rms_norm", "", "dim=1", "dim=1, clear=False"),
    (DEQUANT, "", DEQUANT_PLAIN, "4 * (j % 2)", "4 * (1 - j % 2)"),
    (DEQUANT, "", DEQUANT_PLAIN, "uint8(15)", "uint8(7)"),
    (LINEAR, "", LINEAR_PLAIN, "i >= j", "i > j"),
    (LINEAR, "", LINEAR_PLAIN, "        T.clear(h)\n", ""),
    (GROUPED, "", GROUPED_PLAIN, "W[E[bx]", "W[bx"),
    (BATCHED, "matmul_nt", "", "A[bz, by * 4, 0]", "A[0, by * 4, 0]"),
    (FUSED, "swiglu", "", "if by * 4 + i < 10 and bx", "if bx"),
    (FUSED, "swiglu", "", "-A[", "A["),
]


@pytest.mark.parametrize(("text", "name", "plain", "old", "new"), CASES)
def test_it_is_proved_and_broken_it_is_refuted(
    kernel: Run, text: str, name: str, plain: str, old: str, new: str
) -> None:
    more = ["--as", name] if name else []
    status, said = kernel(HEAD + text, *more, other=HEAD + plain if plain else "")
    assert status == 0, said
    assert old in text
    status, said = kernel(HEAD + text.replace(old, new), *more, other=HEAD + plain if plain else "")
    assert status == 1, said


def test_a_cast_that_is_not_stated_is_not_proved_unless_casts_are_taken_for_exact(kernel: Run) -> None:
    text = BATCHED.replace("T.copy(A[bz, by * 4, 0], a)", "T.copy(A[bz, by * 4, 0], a)", 1)
    text = text.replace('a = T.alloc_shared((4, 8), "float32")', 'a = T.alloc_shared((4, 8), "float16")')
    status, said = kernel(HEAD + text, "--as", "matmul_nt")
    assert status == 3
    assert "--reals" in said["reason"]
    status, said = kernel(HEAD + text, "--as", "matmul_nt", "--reals")
    assert status == 0
    assert "casts from f32 to f16 do not round" in [a["text"] for a in said["assumptions"]]
