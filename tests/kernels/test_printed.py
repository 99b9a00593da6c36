"""Scripts as TVM and TileLang print them after transformations, and what cannot be read."""

from __future__ import annotations

import pytest

from .running import Run

SCHEDULED = """
# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((10, 12), "float32"), B: T.Buffer((12, 8), "float32"), C: T.Buffer((10, 8), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_shared = T.sblock_alloc_buffer((10, 12), scope="shared")
        C_local = T.sblock_alloc_buffer((10, 8), scope="local")
        for i_0 in T.thread_binding(3, thread="blockIdx.x"):
            for j_0 in T.thread_binding(2, thread="threadIdx.x"):
                for i_1_init, j_1_init in T.grid(4, 4):
                    with T.sblock("C_init"):
                        v_i = T.axis.spatial(10, i_0 * 4 + i_1_init)
                        v_j = T.axis.spatial(8, j_0 * 4 + j_1_init)
                        T.where(i_0 * 4 + i_1_init < 10)
                        T.reads()
                        T.writes(C_local[v_i, v_j])
                        C_local[v_i, v_j] = T.float32(0.0)
                for k_0 in range(3):
                    for ax0, ax1 in T.grid(4, 4):
                        with T.sblock("A_shared"):
                            v0 = T.axis.spatial(10, i_0 * 4 + ax0)
                            v1 = T.axis.spatial(12, k_0 * 4 + ax1)
                            T.where(i_0 * 4 + ax0 < 10)
                            A_shared[v0, v1] = A[v0, v1]
                    for k_1, i_1, j_1 in T.grid(4, 4, 4):
                        with T.sblock("C_update"):
                            v_i = T.axis.spatial(10, i_0 * 4 + i_1)
                            v_j = T.axis.spatial(8, j_0 * 4 + j_1)
                            v_k = T.axis.reduce(12, k_0 * 4 + k_1)
                            T.where(i_0 * 4 + i_1 < 10)
                            C_local[v_i, v_j] = C_local[v_i, v_j] + A_shared[v_i, v_k] * B[v_k, v_j]
                for ax0, ax1 in T.grid(4, 4):
                    with T.sblock("C_local"):
                        v0 = T.axis.spatial(10, i_0 * 4 + ax0)
                        v1 = T.axis.spatial(8, j_0 * 4 + ax1)
                        T.where(i_0 * 4 + ax0 < 10)
                        C[v0, v1] = C_local[v0, v1]
"""
RFACTOR = """
@T.prim_func
def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
    B_rf = T.sblock_alloc_buffer((3, 4))
    for i, k_0, k_1 in T.grid(4, 4, 3):
        with T.sblock("B_rf"):
            vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
            with T.init():
                B_rf[vk_1, vi] = T.float32(-340282346638528859811704183484516925440.0)
            B_rf[vk_1, vi] = T.max(B_rf[vk_1, vi], A[vi, vk_0 * 3 + vk_1])
    for i, k_1 in T.grid(4, 3):
        with T.sblock("B"):
            vk_1, vi = T.axis.remap("RS", [k_1, i])
            with T.init():
                B[vi] = T.float32(-340282346638528859811704183484516925440.0)
            B[vi] = T.max(B[vi], B_rf[vk_1, vi])
"""
LOWERED = """
@T.prim_func
def gemm(A_handle: T.handle, B_handle: T.handle, C_handle: T.handle):
    A = T.match_buffer(A_handle, (16, 16), "float16", strides=(16, 1))
    B = T.match_buffer(B_handle, (16, 16), "float16", strides=(16, 1))
    C = T.match_buffer(C_handle, (16, 16), "float16", strides=(16, 1))
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for by in T.thread_binding(2, thread="blockIdx.y"):
            tx: T.int32 = T.launch_thread_idx(0)
            with T.sblock("tilelang_root"):
                T.sblock_attr({"tl.launch_threads": [128, 1, 1]})
                A_shared = T.sblock_alloc_buffer((8, 8), "float16", scope="shared.dyn")
                B_shared = T.sblock_alloc_buffer((8, 8), "float16", scope="shared.dyn")
                C_local = T.sblock_alloc_buffer((8, 8), scope="local.fragment")
                T.fill(T.region(C_local[0, 0], 2, 8, 8), 0)
                for k in T.serial(2, annotations={"num_stages": 3}):
                    T.copy(T.region(A[by * 8, k * 8], 1, 8, 8), T.region(A_shared[0, 0], 2, 8, 8))
                    T.copy(T.region(B[k * 8, bx * 8], 1, 8, 8), T.region(B_shared[0, 0], 2, 8, 8))
                    T.gemm(T.region(A_shared[0, 0], 1, 8, 8), T.region(B_shared[0, 0], 1, 8, 8),
                           T.region(C_local[0, 0], 3, 8, 8), T.bool(False), T.bool(False), 8, 8, 8, 0, T.bool(False), 0)
                T.copy(T.region(C_local[0, 0], 1, 8, 8), T.region(C[by * 8, bx * 8], 2, 8, 8))
"""


@pytest.mark.parametrize(
    ("text", "name", "old", "new"),
    [
        (SCHEDULED, "matmul", "ax0 < 10)\n" + " " * 24 + "C[", "ax0 < 9)\n" + " " * 24 + "C["),
        (SCHEDULED, "matmul", "range(3)", "range(2)"),
        (SCHEDULED, "matmul", "A[v0, v1]", "A[v0, k_0]"),
        (RFACTOR, "max", "T.grid(4, 4, 3)", "T.grid(4, 3, 3)"),
        (RFACTOR, "max", "T.max(B[vi]", "T.min(B[vi]"),
        (LOWERED, "matmul", "C[by * 8, bx * 8]", "C[bx * 8, by * 8]"),
        (LOWERED, "matmul", "T.bool(False), T.bool(False), 8", "T.bool(False), T.bool(True), 8"),
    ],
)  # fmt: skip
def test_a_script_is_proved_and_broken_it_is_refuted(kernel: Run, text: str, name: str, old: str, new: str) -> None:
    status, said = kernel(text, "--as", name)
    assert status == 0, said
    assert old in text
    assert kernel(text.replace(old, new), "--as", name)[0] == 1


def test_a_program_of_torch_states_what_a_kernel_is(kernel: Run) -> None:
    dump = """class GraphModule(torch.nn.Module):
    def forward(self, a: "f32[10, 12]", b: "f32[12, 8]"):
        mm: "f32[10, 8]" = torch.ops.aten.mm.default(a, b);  a = b = None
        return (mm,)
"""
    assert kernel(SCHEDULED, other=dump)[0] == 0
    assert kernel(SCHEDULED, other=dump.replace("mm.default(a, b)", "mm.default(a, b + b)"))[0] != 0
    wider = dump.replace("[12, 8]", "[12, 9]").replace("[10, 8]", "[10, 9]")
    assert kernel(SCHEDULED, other=wider)[0] == 2


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("range(3)", "zip(3)", 23),
        ("T.float32(0.0)", "T.tvm_access_ptr(0)", 22),
        ("T.axis.reduce(12,", "T.axis.opaque(12,", 34),
        ("C[v0, v1] =", "D[v0, v1] =", 42),
        ("v0, v1] = A[v0, v1]", "v0, v1] = A[v0]", 29),
        ("class Module:", "class Module", 6),
        ("v0 = T.axis.spatial(10,", "v0, v2 = T.axis.remap('S', [i_0, i_0]) #", 26),
    ],
)
def test_what_is_not_understood_is_named_with_its_line(kernel: Run, old: str, new: str, line: int) -> None:
    status, said = kernel(SCHEDULED.replace(old, new), "--as", "matmul")
    assert status == 2
    assert f"kernel.py:{line}" in said["message"], said
