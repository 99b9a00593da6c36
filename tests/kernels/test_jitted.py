"""Functions under `@tilelang.jit` that are kernels themselves, as TileLang's own pages write them."""

from __future__ import annotations

from .running import Run
from .test_tilelang import sizes

GEMM = """
import tilelang
import tilelang.language as T

@tilelang.jit
def matmul(A, B, block_M, block_N, block_K, dtype=T.float16, accum_dtype=T.float32):
    M, N, K = T.const("M, N, K")
    steps = T.ceildiv(K, block_K)

    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), dtype)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
        T.clear(C_local)
        for k in T.Pipelined(steps, num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])

    return C

def main(a, b):
    return matmul(a, b, 16, 16, 8)
"""
SUBSCRIPTS = GEMM.replace("def matmul(A, B,", "def matmul(A: T.Tensor[[M, K], dtype], B,").replace(
    "    A: T.Tensor((M, K), dtype)\n", ""
)
SPLIT = (
    GEMM.replace("def matmul(A, B, ", "def matmul(A, B, C, ")
    .replace("C = T.empty((M, N), dtype)", "C: T.Tensor((M, N), accum_dtype)")
    .replace("block_M), threads", "block_M), 2, threads")
    .replace("(bx, by):", "(bx, by, bz):")
    .replace("T.ceildiv(K, block_K)", "T.ceildiv(K // 2, block_K)")
    .replace("by * block_M, k * block_K]", "by * block_M, bz * (K // 2) + k * block_K]")
    .replace("B[k * block_K", "B[bz * (K // 2) + k * block_K")
    .replace(
        "T.copy(C_local, C[by * block_M, bx * block_N])",
        "for i, j in T.Parallel(block_M, block_N):\n"
        "            T.atomic_add(C[by * block_M + i, bx * block_N + j], C_local[i, j])",
    )
    .replace("    return C\n", "")
    .replace("matmul(a, b, 16", "matmul(a, b, b, 16")
)


def test_it_is_proved_at_the_sizes_that_are_given(kernel: Run) -> None:
    for text in (GEMM, SUBSCRIPTS):
        status, said = kernel(text, "--as", "matmul", *sizes(M=32, N=32, K=24))
        assert status == 0, said
    assert kernel(GEMM, "--as", "matmul", *sizes(M=30, N=18, K=12, block_K=16))[0] == 0


def test_a_planted_bug_is_refuted_at_its_line(kernel: Run) -> None:
    shape = sizes(M=32, N=32, K=24)
    assert kernel(GEMM.replace("        T.clear(C_local)\n", ""), "--as", "matmul", *shape)[0] == 1
    status, said = kernel(GEMM.replace("[k * block_K, bx", "[k * block_K, by"), "--as", "matmul", *shape)
    assert status == 1
    assert said["counterexample"]["line"] == 23


def test_an_argument_that_is_written_is_a_result(kernel: Run) -> None:
    status, said = kernel(SPLIT, "--as", "matmul", *sizes(M=32, N=32, K=32, dtype="float32"))
    assert status == 0, said
    assert any(a["why"] == "atomic" for a in said["assumptions"])


def test_a_size_that_changes_after_a_type_has_said_it_is_bad_input(kernel: Run) -> None:
    text = GEMM.replace("    C = T.empty", "    M = M // 2\n    C = T.empty")
    assert kernel(text, "--as", "matmul", *sizes(M=32, N=32, K=24))[0] == 2


def test_the_size_that_is_open_is_named(kernel: Run) -> None:
    text = GEMM.replace("    A: T.Tensor((M, K), dtype)\n", "    shape = (M, K)\n    A: T.Tensor(shape, dtype)\n")
    status, said = kernel(text, "--as", "matmul", *sizes(N=16, K=16))
    assert status == 2
    assert "--size M=" in said["message"]
    assert kernel(text, "--as", "matmul", *sizes(M=16, N=16, K=16))[0] == 0


def test_of_kernels_of_one_name_the_function_around_says_which(kernel: Run) -> None:
    made = """
def {name}(N):
    @T.prim_func
    def main(X: T.Buffer((N,), "float32"), Y: T.Buffer((N,), "float32")):
        for i in range(N):
            Y[i] = T.exp(X[i]){more}
    return main
"""
    text = made.format(name="forward", more="") + made.format(name="backward", more=" * X[i]")
    status, said = kernel(text, "--as", "exp", *sizes(N=8))
    assert status == 2
    assert "forward.main, backward.main" in said["message"]
    assert kernel(text, "--as", "exp", "--function", "forward", *sizes(N=8))[0] == 0
    assert kernel(text, "--as", "exp", "--function", "backward.main", *sizes(N=8))[0] == 1


def test_a_constant_of_half_precision_is_what_is_written_where_reals_are_asked_for(kernel: Run) -> None:
    text = """
@T.prim_func
def main(X: T.Buffer((8,), "float16"), Y: T.Buffer((8,), "float16")):
    for i in range(8):
        Y[i] = T.exp2(X[i] * T.float16(1.44269504))
"""
    status, said = kernel(text, "--as", "exp", "--reals")
    assert status == 0
    assert "constants of f16 do not round" in {a["text"] for a in said["assumptions"]}
    assert kernel(text, "--as", "exp")[0] != 0
