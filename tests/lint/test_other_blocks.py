"""Slices by which ranks take the blocks of each other: a violation where these meet blocks that lie in the ranks'
order, and nothing behind puts them in order."""

from __future__ import annotations

import pytest

from scalify_dl.ir.graph import Tensor
from scalify_dl.lint.judge import Result, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.verdict import Verdict

OWN, OTHERS, FIRST = {0: 0, 1: 4}, {0: 4, 1: 0}, {0: 0, 1: 0}


def block(p: Alone, x: Tensor, dim: int, starts: dict[int, int], size: int = 4) -> Tensor:
    """So many elements along a dim, from these on."""
    at = [p.rank_constant(starts) if d == dim else p.constant(0, "s32") for d in range(len(x.shape))]
    sizes = [size if d == dim else n for d, n in enumerate(x.shape)]
    return p.dynamic_slice(x, at, sizes)


def judged(p: Alone, y: Tensor) -> Result:
    p.result(y, {0: "tp"} if y.shape[0] == 4 else {})
    return lint_graph(p.graph, p.mesh)


@pytest.mark.parametrize(("starts", "verdict"), [
    (OWN, Verdict.PROVED), (OTHERS, Verdict.UNKNOWN), (FIRST, Verdict.REFUTED),
])  # fmt: skip
def test_blocks_that_meet_the_ranks_own(starts: dict[int, int], verdict: Verdict) -> None:
    p = Alone("tp=2")
    x, y = p.place("x", (8, 6)), p.place("y", (8, 6), {0: "tp"})
    found = judged(p, p.add(p.tanh(block(p, x, 0, starts)), y))
    assert found.verdict is verdict, found.missing
    level = "error" if verdict is Verdict.REFUTED else "note"
    told = [(f.kind, f.name, f.level) for f in found.findings]
    assert told == [("other-blocks", "dynamic-slice", level)] * (verdict is not Verdict.PROVED)


@pytest.mark.parametrize(("places", "verdict"), [((3, 0, 1, 2), Verdict.UNKNOWN), ((1, 0, 2, 3), Verdict.REFUTED)])
def test_blocks_that_go_one_place_on_may_be_rolled(places: tuple[int, ...], verdict: Verdict) -> None:
    """As one device would roll the value; exchanged ones are of no such program."""
    p = Alone("tp=4")
    x, y = p.place("x", (8, 6)), p.place("y", (8, 6), {0: "tp"})
    taken = block(p, x, 0, {rank: 2 * place for rank, place in enumerate(places)}, 2)
    p.result(p.add(p.tanh(taken), y), {0: "tp"})
    assert lint_graph(p.graph, p.mesh).verdict is verdict


@pytest.mark.parametrize(("starts", "verdict"), [(OWN, Verdict.PROVED), (OTHERS, Verdict.UNKNOWN)])
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
