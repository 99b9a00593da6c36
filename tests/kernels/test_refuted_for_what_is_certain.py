"""A flaw that is certain refutes, also where the run or the proof does not come to its end."""

from __future__ import annotations

from .running import Run

BLOCK = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            B[v] = T.exp(A[v])
"""
ROWS = """
@T.prim_func
def main(X: T.Buffer((6, 4), "float32"), I: T.Buffer((5,), "int32"), Y: T.Buffer((5, 4), "float32")):
    for i, j in T.grid(5, 4):
        Y[i, j] = X[I[i], j]
"""
GREATEST = """
@T.prim_func
def main(X: T.Buffer((5, 8), "float32"), Y: T.Buffer((5, 1), "float32")):
    for i, j in T.grid(5, 8):
        with T.block("b"):
            v, k = T.axis.remap("SR", [i, j])
            with T.init():
                Y[v, 0] = T.float32(-3.4028234663852886e+38)
            Y[v, 0] = T.max(Y[v, 0], X[v, k])
"""
TOP = """
class <lambda>(torch.nn.Module):
    def forward(self, x_1: "f32[5, 8]"):
        topk = torch.ops.aten.topk.default(x_1, 1);  x_1 = None
        getitem: "f32[5, 1]" = topk[0];  topk = None
        return getitem
"""


def test_a_block_that_leaves_the_domain_it_declares_is_refuted(kernel: Run) -> None:
    assert kernel(BLOCK, "--as", "exp")[0] == 0
    status, said = kernel(BLOCK.replace("spatial(8", "spatial(7"), "--as", "exp")
    assert (status, said["flaws"][0]["kind"]) == (1, "domain")


def test_what_is_read_out_of_bounds_refutes_though_it_is_an_index(kernel: Run) -> None:
    assert kernel(ROWS, other=ROWS)[0] == 0
    status, said = kernel(ROWS.replace("I[i]", "I[i + 1]"), other=ROWS)
    assert (status, [flaw["kind"] for flaw in said["flaws"]]) == (1, ["bounds"])


def test_an_op_that_is_run_on_numbers_alone_refutes_and_proves_nothing(kernel: Run) -> None:
    assert kernel(GREATEST, other=TOP)[0] == 3
    assert kernel(GREATEST.replace("T.max(", "T.min("), other=TOP)[0] == 1
