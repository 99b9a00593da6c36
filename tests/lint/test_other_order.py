"""Values whose dims lie in another order on the ranks, as a gather or an all-to-all leaves them, and are put right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.ir.graph import Tensor
from scalify_dl.lint.judge import Result, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.verdict import Verdict


def linted(p: Alone, y: Tensor) -> Result:
    p.result(p.softmax(y, len(y.shape) - 1))
    return lint_graph(p.graph, p.mesh)


def gathered(put: Callable[[Alone, Tensor], Tensor]) -> Result:
    """Blocks of the last dim, gathered on a new one in front (`lax.all_gather`, or a list of tensors)."""
    p = Alone("tp=2")
    x = p.place("x", (4, 8), {1: "tp"})
    return linted(p, put(p, p.all_gather(p.reshape(x, (1, 4, 4)), "tp", 0)))


def test_blocks_gathered_on_a_new_dim_and_moved_where_they_were_cut_are_the_value() -> None:
    result = gathered(lambda p, y: p.reshape(p.transpose(y, 1, 0, 2), (4, 8)))
    assert result.verdict is Verdict.PROVED, result.missing


@pytest.mark.parametrize("dims", [(1, 2, 0), (0, 1, 2)])
def test_moved_elsewhere_they_are_not(dims: tuple[int, int, int]) -> None:
    """Elements of blocks in turn; rows of one block and then of the next."""
    assert gathered(lambda p, y: p.reshape(p.transpose(y, *dims), (4, 8))).verdict is not Verdict.PROVED


def exchanged(dim: int) -> Result:
    """Chunks of heads for blocks of the sequence, by an all-to-all of chunks on a dim of their own; `dim` has to be
    whole behind it."""
    p = Alone("sp=2")
    q = p.place("q", (8, 4, 2), {0: "sp"})
    chunks = p.transpose(p.reshape(q, (4, 2, 2, 2)), 1, 0, 2, 3)
    y = p.reshape(p.all_to_all(chunks, "sp", 0, 0), (8, 2, 2))
    p.result(p.softmax(y, dim), {1: "sp"})
    return lint_graph(p.graph, p.mesh)


def test_chunks_exchanged_on_a_dim_of_their_own_are_a_placement() -> None:
    assert exchanged(0).verdict is Verdict.PROVED


def test_heads_of_which_a_rank_has_some_are_not_all_of_them() -> None:
    """The chunks are no dim of one device's: each rank has half of the heads."""
    result = exchanged(1)
    assert result.verdict is Verdict.REFUTED
    assert {f.kind for f in result.findings} <= {"whole-dim", "partial-maximum"}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 2, 1, 0)])
def test_chunks_of_a_gather_in_another_order_are_noted(order: tuple[int, ...]) -> None:
    p = Alone("tp=4")
    x = p.all_gather(p.place("x", (4, 8), {1: "tp"}), "tp", 0)
    result = linted(p, p.concatenate([p.slice(x, 0, 4 * n, 4 * n + 4) for n in order], 1))
    assert result.verdict is Verdict.PROVED  # one device may do so, too
    assert [f.kind for f in result.findings] == ["reordered"] * (order != (0, 1, 2, 3))
