"""Places that elements of arguments say: what they may be is not known, so that they refute nothing."""

from __future__ import annotations

from .running import Run

PAGES = """
@T.prim_func
def main(x: T.Buffer((24, 3), "float32"), table: T.Buffer((2,), "int32"), y: T.Buffer((2, 4, 3), "float32")):
    pages = T.alloc_buffer((2,), "int32", scope="shared")
    for p in range(2):
        pages[p] = table[p]
    for p, t, d in T.grid(2, 4, 3):
        y[p, t, d] = x[pages[p] * 4 + t, d]
"""
EXPERTS = """
import tilelang.language as T

@T.prim_func
def main(w: T.Tensor((3, 8, 4), "float32"), of: T.Tensor((4,), "int32"), y: T.Tensor((4, 8, 4), "float32")):
    with T.Kernel(4, threads=128) as (b):
        tile = T.alloc_shared((8, 4), "float32")
        T.copy(w[of[b], 0:8, 0:4], tile)
        T.copy(tile, y[b, 0:8, 0:4])
"""
SCATTERED = """
@T.prim_func
def main(x: T.Buffer((8,), "float32"), to: T.Buffer((8,), "int32"), y: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        y[to[i]] = x[i]
"""


def test_rows_of_pages_that_a_table_names_are_one_kernel(kernel: Run) -> None:
    direct = PAGES.replace("pages[p] * 4", "table[p] * 4")
    status, said = kernel(PAGES, other=direct)
    assert status == 0, said
    assert kernel(PAGES.replace("* 4 + t", "* 4 + 3 - t"), other=direct)[0] == 1


def test_a_tile_at_a_place_that_an_argument_says_is_not_refuted(kernel: Run) -> None:
    rows = """class GraphModule(torch.nn.Module):
    def forward(self, w: "f32[3, 8, 4]", of: "i32[4]"):
        y: "f32[4, 8, 4]" = torch.ops.aten.index_select.default(w, 0, of)
        return (y,)
"""
    assert kernel(EXPERTS, other=rows)[0] != 1
    assert kernel(EXPERTS.replace("T.copy(tile, y[b, ", "T.copy(tile, y[3 - b, "), other=rows)[0] == 1


def test_places_that_may_be_each_once_refute_nothing(kernel: Run) -> None:
    status, said = kernel(SCATTERED, other=SCATTERED.replace("T.parallel", "range"))
    assert status == 3, said
    wrong = SCATTERED.replace("= x[i]", "= x[i] * T.float32(2)")
    assert kernel(wrong, other=SCATTERED.replace("T.parallel", "range"))[0] == 1


def test_a_minimum_that_starts_at_zero_is_refuted(kernel: Run) -> None:
    text = """
@T.prim_func
def main(x: T.Buffer((3, 8), "float32"), y: T.Buffer((3,), "float32")):
    for i, k in T.grid(3, 8):
        with T.sblock("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = T.min(y[vi], x[vi, vk])
"""
    assert kernel(text, "--as", "min")[0] == 1
    assert kernel(text.replace("T.min", "T.max"), "--as", "max")[0] == 1
    assert kernel(text.replace("T.float32(0)", 'T.float32("inf")'), "--as", "min")[0] == 0


def test_a_place_beside_one_that_an_argument_says_is_refuted(kernel: Run) -> None:
    text = """
@T.prim_func
def main(x: T.Buffer((6, 10), "float32"), at: T.Buffer((6, 4), "int32"), y: T.Buffer((6, 4), "float32")):
    for i, j in T.grid(6, 4):
        y[i, j] = x[i, at[i, j]]
"""
    assert kernel(text, other=text)[0] == 0
    status, said = kernel(text.replace("x[i, at", "x[i + 1, at"), other=text)
    assert status == 1
    assert "bounds" in {flaw["kind"] for flaw in said["flaws"]}
