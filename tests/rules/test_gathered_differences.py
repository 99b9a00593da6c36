"""What is read of log-softmax, against the logit at the label, the greatest one, and the logarithm of the sum."""

from __future__ import annotations

import pytest

from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

ROWS, CLASSES = 4, 4


def pick(g: Graph, x: Tensor, ids: Tensor, ones: int) -> Tensor:
    """One element of each row; behind the rows are dims of one element."""
    tall = g.emit("reshape", [ids], shape=(x.shape[0], *[1] * ones, 1))
    op = g.add("gather", [x, tall], [("f32", (x.shape[0], *[1] * ones))])
    op.numbers.update(
        offset_dims=[], collapsed_slice_dims=[1], start_index_map=[1], index_vector_dim=[1 + ones],
        slice_sizes=[1, 1], operand_batching_dims=[0], start_indices_batching_dims=[0],
    )  # fmt: skip
    return g.emit("reshape", [op.result], shape=(x.shape[0],))


def wide(g: Graph, row: Tensor, like: Tensor, along: int) -> Tensor:
    return g.emit("broadcast", [row], shape=like.shape, dimensions=[along])


def loss(*, ones: int = 0, along: int = 0, sign: str = "add") -> Pair:
    pair = Pair({"dp": 2})
    x, dx = pair.input((ROWS, CLASSES), {} if along else {0: "dp"})
    ids, dids = pair.input((ROWS,), {} if along else {0: "dp"}, dtype="s32", range=(0, CLASSES))
    pair.dist.inputs[-1].range = (0, CLASSES)
    terms = []
    for g, logits in ((pair.base, x), (pair.dist, dx)):
        most = g.emit("reduce", [logits], dimensions=[1], reducer="max")
        less = g.emit("subtract", [logits, wide(g, most, logits, along)])
        total = g.emit("reduce", [g.emit("exponential", [less])], dimensions=[1], reducer="sum")
        terms.append((most, less, g.emit("log", [total])))
    g = pair.base
    made = pick(g, g.emit("subtract", [terms[0][1], wide(g, terms[0][2], x, along)]), ids, ones)
    g, (most, _, log) = pair.dist, terms[1]
    found = g.emit("subtract", [g.emit(sign, [log, most]), pick(g, dx, dids, ones)])
    pair.outputs(pair.base.emit("negate", [made]), found)
    return pair


@pytest.mark.parametrize("ones", [0, 1])
def test_terms_of_log_softmax_are_read_apart(ones: int) -> None:
    assert not derive(loss(ones=ones).tables()).unproved


def test_rows_of_another_dim_and_other_signs_are_not() -> None:
    assert derive(loss(along=1).tables()).unproved
    assert derive(loss(sign="subtract").tables()).unproved
