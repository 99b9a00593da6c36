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


def turned(p: Alone, x: Tensor, axes: str | tuple[str, str], groups: list[list[int]], dim: int = 0) -> Tensor:
    """A gather over ranks in another order."""
    y = p.all_gather(x, axes, dim)
    p.graph.ops[-1].groups = groups
    return y


Ranks = tuple[str, str | tuple[str, str], tuple[int, ...]]
ORDERS: list[Ranks] = [("tp=4", "tp", (3, 2, 1, 0)), ("dp=2,tp=2", ("dp", "tp"), (0, 2, 1, 3))]
"""A mesh, axes, and an order of the ranks that is its own inverse."""


def rows(p: Alone, ranks: Ranks, name: str = "x", shape: tuple[int, ...] = (8, 4), dim: int = 0) -> Tensor:
    return turned(p, p.place(name, shape, {dim: ranks[1]}), ranks[1], [list(ranks[2])], dim)


def in_order(p: Alone, y: Tensor, order: tuple[int, ...]) -> Tensor:
    return p.concatenate([p.slice(y, 0, 2 * n, 2 * n + 2) for n in order], 0)


def attention(p: Alone, ranks: Ranks, *, values: bool) -> Tensor:
    weights = p.softmax(p.matmul(p.place("q", (3, 4)), p.transpose(rows(p, ranks, "k"), 1, 0)), 1)
    v = rows(p, ranks, "v", (8, 5)) if values else p.all_gather(p.place("v", (8, 5), {0: ranks[1]}), ranks[1], 0)
    return p.matmul(weights, v)


RIGHT: dict[str, Callable[[Alone, Ranks], Tensor]] = {
    "put in order": lambda p, ranks: in_order(p, rows(p, ranks), ranks[2]),
    "put in order later": lambda p, ranks: in_order(p, p.exponential(rows(p, ranks)), ranks[2]),
    "all added up": lambda p, ranks: p.reduce(p.exponential(rows(p, ranks)), 0),
    "the largest": lambda p, ranks: p.reduce(rows(p, ranks), 0, "max"),
    "both operands": lambda p, ranks: p.matmul(p.transpose(rows(p, ranks), 1, 0), rows(p, ranks, "y", (8, 5))),
    "keys and values": lambda p, ranks: attention(p, ranks, values=True),
}
WRONG: dict[str, Callable[[Alone, Ranks], Tensor]] = {
    "as they come": lambda p, ranks: rows(p, ranks),
    "times a weight": lambda p, ranks: p.matmul(rows(p, ranks, "x", (4, 8), 1), p.place("w", (8, 5))),
    "keys alone": lambda p, ranks: attention(p, ranks, values=False),
}


@pytest.mark.parametrize("ranks", ORDERS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_gathered_in_another_order_may_be_right_behind(name: str, ranks: Ranks) -> None:
    p = Alone(ranks[0])
    y = RIGHT[name](p, ranks)
    assert linted(p, y).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("ranks", ORDERS)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_gathered_in_another_order_and_never_put_right_is_a_violation(name: str, ranks: Ranks) -> None:
    p = Alone(ranks[0])
    result = linted(p, WRONG[name](p, ranks))
    assert result.verdict is Verdict.REFUTED
    assert [f.kind for f in result.findings] == ["gather-order"]


def test_a_sum_over_ranks_is_the_same_in_any_order() -> None:
    p = Alone("tp=4")
    y = p.all_reduce(p.reduce(p.place("x", (4, 8), {1: "tp"}), 1), "tp")
    p.graph.ops[-1].groups = [[3, 1, 2, 0]]
    assert linted(p, y).verdict is Verdict.PROVED
