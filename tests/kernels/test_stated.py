"""What programs state: convolutions, elements at places that other elements say, truths as numbers."""

from __future__ import annotations

from .running import Run

CONVOLUTION = """
@T.prim_func
def main(x: T.Buffer((1, 4, 5, 6), "float32"), w: T.Buffer((6, 2, 3, 2), "float32"), y: T.Buffer((1, 6, 3, 3), "float32")):
    P = T.sblock_alloc_buffer((1, 4, 7, 7))
    for n, c, i, j in T.grid(1, 4, 7, 7):
        P[n, c, i, j] = T.if_then_else(1 <= i and i < 6 and j < 6, x[n, c, i - 1, j], T.float32(0.0))
    for n, o, i, j, c, a, b in T.grid(1, 6, 3, 3, 2, 3, 2):
        with T.sblock("y"):
            vn, vo, vi, vj, vc, va, vb = T.axis.remap("SSSSRRR", [n, o, i, j, c, a, b])
            with T.init():
                y[vn, vo, vi, vj] = T.float32(0.0)
            y[vn, vo, vi, vj] = y[vn, vo, vi, vj] + P[vn, vo // 3 * 2 + vc, vi * 2 + va, vj * 2 + vb] * w[vo, vc, va, vb]
"""  # noqa: E501
CONVOLVED = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[1, 4, 5, 6]", w: "f32[6, 2, 3, 2]"):
        pad: "f32[1, 4, 7, 7]" = torch.ops.aten.constant_pad_nd.default(x, [0, 1, 1, 1], 0.0)
        y: "f32[1, 6, 3, 3]" = torch.ops.aten.convolution.default(pad, w, None, [2, 2], [0, 0], [1, 1], False, [0, 0], 2)
        return (y,)
"""  # noqa: E501
COLUMNS = """
@T.prim_func
def main(x: T.Buffer((6, 10), "float32"), at: T.Buffer((5,), "int32"), y: T.Buffer((6, 5), "float32")):
    for i, j in T.grid(6, 5):
        y[i, j] = x[i, at[j]]
"""
SELECTED = """class GraphModule(torch.nn.Module):
    def forward(self, x: "f32[6, 10]", at: "i32[5]"):
        y: "f32[6, 5]" = torch.ops.aten.index_select.default(x, 1, at)
        return (y,)
"""
TRUTHS = """
@T.prim_func
def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    t = T.sblock_alloc_buffer((8,), "bool")
    for i in range(8):
        t[i] = b[i] < a[i]
    for i in range(8):
        y[i] = T.Select(T.int64(0) < T.Cast("int64", t[i]), a[i], b[i] * T.float32(2))
"""
CHOSEN = """class GraphModule(torch.nn.Module):
    def forward(self, a: "f32[8]", b: "f32[8]"):
        gt: "b8[8]" = torch.ops.aten.gt.Tensor(a, b)
        mul: "f32[8]" = torch.ops.aten.mul.Tensor(b, 2)
        y: "f32[8]" = torch.ops.aten.where.self(gt, a, mul)
        return (y,)
"""


def test_a_convolution_in_groups_with_strides_is_proved(kernel: Run) -> None:
    status, said = kernel(CONVOLUTION, other=CONVOLVED)
    assert status == 0, said
    assert kernel(CONVOLUTION.replace("vj * 2 + vb]", "vj * 2 + 1 - vb]"), other=CONVOLVED)[0] == 1
    assert kernel(CONVOLUTION.replace("vo // 3 * 2", "vo // 2 * 2 % 4"), other=CONVOLVED)[0] == 1


def test_columns_at_places_that_an_argument_says_are_proved(kernel: Run) -> None:
    status, said = kernel(COLUMNS, other=SELECTED)
    assert status == 0, said
    assert any("within what they index" in a["text"] for a in said["assumptions"])
    assert kernel(COLUMNS.replace("at[j]]", "at[4 - j]]"), other=SELECTED)[0] == 1


def test_a_truth_that_is_compared_as_a_number_is_that_truth(kernel: Run) -> None:
    assert kernel(TRUTHS, other=CHOSEN)[0] == 0
    assert kernel(TRUTHS.replace("T.int64(0) <", "T.int64(1) <"), other=CHOSEN)[0] == 1
    assert kernel(TRUTHS.replace("T.int64(0) <", "T.int64(-1) <"), other=CHOSEN)[0] == 1
    assert kernel(TRUTHS.replace("T.int64(0) <", "T.int64(0) =="), other=CHOSEN)[0] == 1


def test_an_element_beside_a_large_constant_is_compared_by_its_own_size(kernel: Run) -> None:
    text = """
@T.prim_func
def main(x: T.Buffer((8, 8), "float32"), y: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        y[i, j] = T.if_then_else(j <= i, x[i, j], T.float32(-1000000000.0))
"""
    assert kernel(text, other=text)[0] == 0
    assert kernel(text.replace("x[i, j]", "x[j, i]"), other=text)[0] == 1
