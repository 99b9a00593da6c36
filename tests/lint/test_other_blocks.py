"""Slices by which ranks take the blocks of each other: a violation where these meet blocks that lie in the ranks'
order, and nothing behind puts them in order."""

from __future__ import annotations

import pytest

from scalify_dl.ir.graph import Tensor
from scalify_dl.lint.judge import Result, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.verdict import Verdict

OWN, OTHERS, FIRST = {0: 0, 1: 4}, {0: 4, 1: 0}, {0: 0, 1: 0}


def block(p: Alone, x: Tensor, dim: int, starts: dict[int, int]) -> Tensor:
    """Four elements along a dim, from these on."""
    at = [p.rank_constant(starts) if d == dim else p.constant(0, "s32") for d in range(len(x.shape))]
    sizes = [4 if d == dim else n for d, n in enumerate(x.shape)]
    return p.dynamic_slice(x, at, sizes)


def judged(p: Alone, y: Tensor) -> Result:
    p.result(y, {0: "tp"} if y.shape[0] == 4 else {})
    return lint_graph(p.graph, p.mesh)


@pytest.mark.parametrize(("starts", "verdict"), [
    (OWN, Verdict.PROVED), (OTHERS, Verdict.REFUTED), (FIRST, Verdict.REFUTED),
])  # fmt: skip
def test_blocks_that_meet_the_ranks_own(starts: dict[int, int], verdict: Verdict) -> None:
    p = Alone("tp=2")
    x, y = p.place("x", (8, 6)), p.place("y", (8, 6), {0: "tp"})
    found = judged(p, p.add(p.tanh(block(p, x, 0, starts)), y))
    assert found.verdict is verdict, found.missing
    errors = [f for f in found.findings if f.level == "error"]
    assert [(f.kind, f.name) for f in errors] == [("other-blocks", "dynamic-slice")] * (verdict is Verdict.REFUTED)


@pytest.mark.parametrize(("starts", "verdict"), [(OWN, Verdict.PROVED), (OTHERS, Verdict.REFUTED)])
def test_blocks_that_are_summed_up_with_the_ranks_own(starts: dict[int, int], verdict: Verdict) -> None:
    p = Alone("tp=2")
    x, w = p.place("x", (6, 8)), p.place("w", (8, 6), {0: "tp"})
    found = judged(p, p.all_reduce(p.matmul(block(p, x, 1, starts), w), "tp"))
    assert found.verdict is verdict, found.missing


def handed_on(p: Alone, x: Tensor, y: Tensor) -> Tensor:
    return p.add(p.permute(block(p, x, 0, OTHERS), [(0, 1), (1, 0)]), y)


def one_after_the_other(p: Alone, x: Tensor, y: Tensor) -> Tensor:
    return p.add(p.add(block(p, x, 0, OWN), block(p, x, 0, OTHERS)), y)


def from_the_end(p: Alone, x: Tensor, y: Tensor) -> Tensor:
    return p.add(p.reverse(block(p, x, 0, OTHERS), 0), y)


def with_blocks_like_them(p: Alone, x: Tensor, y: Tensor) -> Tensor:
    z = p.place("z", (8, 6))
    return p.all_gather(p.add(block(p, x, 0, OTHERS), block(p, z, 0, OTHERS)), "tp", 0)


@pytest.mark.parametrize("program", [handed_on, one_after_the_other, from_the_end, with_blocks_like_them])
def test_blocks_that_may_be_meant_are_not_refuted(program: object) -> None:
    p = Alone("tp=2")
    x, y = p.place("x", (8, 6)), p.place("y", (8, 6), {0: "tp"})
    assert callable(program)
    assert judged(p, program(p, x, y)).verdict is not Verdict.REFUTED
