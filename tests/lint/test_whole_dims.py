"""Ops along a dim that ranks hold in blocks, of kinds of which only the factors of dims are known: what a run bears out
and nothing behind puts right is a violation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.judge import Result, lint, lint_graph
from scalify_dl.lint.program import Alone
from scalify_dl.prove.verdict import Verdict

PATCHES = """HloModule patches, num_partitions=2

ENTRY %main (x: f32[4,4,3], w: f32[2,3,5]) -> f32[4,{n},5] {{
  %x = f32[4,4,3] parameter(0), sharding={{devices=[1,2,1]<=[2]}}
  %w = f32[2,3,5] parameter(1), sharding={{replicated}}
  ROOT %h = f32[4,{n},5] convolution(%x, %w), window={{size=2 stride={stride}}}, dim_labels=b0f_0io->b0f
}}
"""


@pytest.mark.parametrize(("stride", "n", "verdict"), [(2, 2, Verdict.UNKNOWN), (1, 3, Verdict.REFUTED)])
def test_windows_that_end_where_blocks_do_are_no_violation(
    stride: int, n: int, verdict: Verdict, tmp_path: Path
) -> None:
    file = tmp_path / "patches.hlo"
    file.write_text(PATCHES.format(stride=stride, n=n))
    assert lint([file], Mesh.parse("tp=2")).verdict is verdict


def normed(x_dims: dict[int, str], weight_dims: dict[int, str], put_right: bool = False) -> Result:
    """A library's norm along dim 0, in front of a product with a weight in blocks."""
    p = Alone("tp=2")
    x = p.place("x", (16, 4), x_dims)
    weight = p.place("weight", (x.shape[0] * (2 if weight_dims else 1),), weight_dims)
    y = p.op("custom:AwsNeuronRmsNorm", x, weight, p.constant(0.0, "f32"), shape=x.shape, config="0").result
    if put_right:
        mine = p.reduce(p.multiply(x, x), 0)
        share = p.sqrt(p.divide(mine, p.divide(p.all_reduce(mine, "tp"), 2.0)))
        y = p.multiply(y, p.broadcast(share, x.shape, [1]))
    p.result(p.all_reduce(p.matmul(p.place("w", (4, y.shape[0]), {}), y), "tp"))
    return lint_graph(p.graph, p.mesh)


@pytest.mark.parametrize(("x_dims", "weight_dims"), [({0: "tp"}, {0: "tp"}), ({}, {0: "tp"})])
def test_a_library_s_norm_of_blocks_is_refuted_whatever_is_summed_behind(
    x_dims: dict[int, str], weight_dims: dict[int, str]
) -> None:
    found = normed(x_dims, weight_dims)
    assert (found.verdict, [f.kind for f in found.findings if f.level == "error"]) == (Verdict.REFUTED, ["whole-dim"])


def test_a_norm_of_blocks_that_the_squares_of_all_put_right_is_not_refuted() -> None:
    assert normed({0: "tp"}, {0: "tp"}, put_right=True).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("spread", "verdict"), [(True, Verdict.UNKNOWN), (False, Verdict.REFUTED)])
def test_a_gather_of_rows_that_are_all_alike_is_no_violation(spread: bool, verdict: Verdict) -> None:
    """A vector that is spread over a rank's rows is the rank's block of one spread over all rows."""
    p = Alone("tp=2")
    rows = p.broadcast(p.place("v", (8,)), (4, 8), [1]) if spread else p.place("x", (4, 8))
    p.result(p.tanh(p.all_gather(rows, "tp", 0)))
    assert lint_graph(p.graph, p.mesh).verdict is verdict


WAYS: dict[str, Callable[[Alone, Tensor], Tensor]] = {
    "dot": lambda p, x: p.matmul(x, p.place("w", (8, 8))),
    "reverse": lambda p, x: p.reverse(x, 1),
    "sort": lambda p, x: p.sort(x, 1),
}


@pytest.mark.parametrize(("spread", "verdict"), [(True, Verdict.UNKNOWN), (False, Verdict.REFUTED)])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["output", "sum", "gather"])
def test_what_is_made_of_rows_that_are_all_alike_lies_anywhere(
    end: str, way: str, spread: bool, verdict: Verdict
) -> None:
    p = Alone("tp=2")
    y = WAYS[way](p, p.broadcast(p.place("v", (8,)), (4, 8), [1]) if spread else p.place("u", (4, 8)))
    if end == "gather":
        p.result(p.tanh(p.all_gather(y, "tp", 0)))
    else:
        p.result(p.add(y, p.place("x", (8, 8), {0: "tp"})) if end == "sum" else y, {0: "tp"})
    assert lint_graph(p.graph, p.mesh).verdict is verdict


@pytest.mark.parametrize(
    ("of", "verdict"), [("alike", Verdict.UNKNOWN), ("ones", Verdict.UNKNOWN), ("others", Verdict.REFUTED)]
)
@pytest.mark.parametrize("read", [True, False])
def test_a_sum_of_rows_that_are_all_alike_counts_those_of_all_ranks(read: bool, of: str, verdict: Verdict) -> None:
    """Of ones: how many rows there are."""
    p = Alone("tp=2")
    rows = {
        "alike": lambda: p.reverse(p.broadcast(p.place("v", (8,)), (4, 8), [1]), 1),
        "ones": lambda: p.full(1.0, (4, 8)),
        "others": lambda: p.place("u", (4, 8)),
    }[of]()
    total = p.divide(p.place("x", (8,)), p.all_reduce(p.reduce(rows, 0), "tp"))
    p.result(p.tanh(total) if read else total)
    assert lint_graph(p.graph, p.mesh).verdict is verdict


@pytest.mark.parametrize(("also", "verdict"), [(False, Verdict.UNKNOWN), (True, Verdict.REFUTED)])
def test_a_root_of_parts_that_is_squared_before_they_are_summed_is_no_violation(also: bool, verdict: Verdict) -> None:
    """Unless something else reads the root."""
    p = Alone("tp=2")
    x = p.place("x", (8, 16), {1: "tp"})
    norm = p.sqrt(p.reduce(p.multiply(x, x), [0, 1]))
    p.result(p.sqrt(p.all_reduce(p.multiply(norm, norm), "tp")))
    if also:
        p.result(p.tanh(p.all_reduce(norm, "tp")))
    assert lint_graph(p.graph, p.mesh).verdict is verdict
