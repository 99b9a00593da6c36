"""Large meshes: counterexamples are looked for on a short one first, and hold on all ranks."""

from __future__ import annotations

import pytest

from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import find_counterexample, load_program, shrink
from scalify_dl.oracle.program import Program
from scalify_dl.pairing.builder import Pair

DP, TP, ROWS = 32, 2, 4


def mean_of_squares(
    *, over: tuple[str, ...] = ("dp", "tp"), scale: float = 1 / (DP * ROWS * 8), off_from: int = DP, ring: bool = False
) -> Program:
    """The mean of the squares of x w, rows of x on copies of the data, columns of w cut over tp. From the copy
    `off_from` on, ranks add one to what they have."""
    pair = Pair(Mesh((("dp", DP), ("tp", TP))))
    b, d = pair.base, pair.dist
    whole = b.matmul(b.input("x", (DP * ROWS, 8)), b.input("w", (8, 8)))
    b.output(b.multiply(b.reduce(b.multiply(whole, whole), [0, 1]), 1 / (DP * ROWS * 8)))
    part = d.matmul(d.shard("x", {0: "dp"}), d.shard("w", {1: "tp"}))
    off = d.convert(d.rank_constant({rank: int(rank // TP >= off_from) for rank in range(DP * TP)}), "f32")
    part = d.add(part, d.broadcast(off, part.shape, ()))
    if ring:
        part = d.permute(part, [(rank, (rank + TP) % (DP * TP)) for rank in range(DP * TP)])
    d.output(d.multiply(d.all_reduce(d.reduce(d.multiply(part, part), [0, 1]), over), scale))
    pair.expect(0, {})
    return load_program(pair.facts().tables)


def test_what_agrees_on_few_ranks_is_tried_on_all() -> None:
    search = find_counterexample(mean_of_squares())
    assert search.status == "agrees"
    assert search.program is not None
    assert len(search.program.ranks) == DP * TP


@pytest.mark.parametrize("bug", [{"over": ("tp",)}, {"over": ("dp",)}, {"scale": 1 / (ROWS * 8)}, {"off_from": 0}])
def test_what_differs_on_few_ranks_is_shown_there(bug: dict[str, object]) -> None:
    search = find_counterexample(mean_of_squares(**bug))  # type: ignore[arg-type]
    assert search.status == "refuted"
    assert search.program is not None
    assert search.program.mesh == {"dp": 2, "tp": 2}


def test_what_is_wrong_on_other_ranks_alone_is_found() -> None:
    search = find_counterexample(mean_of_squares(off_from=DP - 1))
    assert search.status == "refuted"
    assert search.program is not None
    assert len(search.program.ranks) == DP * TP


def test_the_ranks_that_are_left_keep_their_numbers() -> None:
    small = shrink(mean_of_squares(), fewer_ranks=True).program
    assert small.ranks == (0, 1, 2, 3)
    assert small.tensors["x"].shape == (2, 2)


def test_a_ring_keeps_its_ranks() -> None:
    program = mean_of_squares(ring=True)
    assert shrink(program, fewer_ranks=True).program.ranks == program.ranks
    assert find_counterexample(program).status == "agrees"
