"""An input of which ranks hold interleaved parts, where blocks are meant: one cause, and the edit is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.facts import Facts
from scalify_dl.facts.files import load
from scalify_dl.mend.interleaved import in_blocks
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.report.conclude import conclude

FACTS = Path(__file__).parents[2] / "facts"
OTHERWISE = {"x": "[0:1x8][1:2x8]|tp=1:1x2", "w": "[0:2x8][1:1x32]|tp=0:1x2"}


def concluded(name: str, *inputs: str) -> Report:
    """The report where ranks hold interleaved parts of these inputs."""
    facts = load(FACTS / name)
    tables = dict(facts.tables)
    tables["shard"] = [
        (dist, piece, base, part, OTHERWISE[dist] if dist in inputs else layout, why)
        for dist, piece, base, part, layout, why in facts["shard"]
    ]
    return conclude(analyse(Facts(tables), Options()))


@pytest.mark.parametrize("name", ["x", "w"])
def test_one_input_in_interleaved_parts_is_the_cause(name: str) -> None:
    report = concluded("row_parallel_linear", name)
    assert report.verdict is Verdict.REFUTED
    (cause,) = report.frontier
    assert (cause.name, cause.kind) == (name, "input")
    assert "2 interleaved parts" in cause.found[0]
    assert "into blocks" in cause.suggestion[0]
    assert cause.outcome == ("with this, all outputs are PROVED",)


def test_inputs_that_are_interleaved_alike_are_none() -> None:
    report = concluded("row_parallel_linear", "x", "w")
    assert report.verdict is Verdict.PROVED


def test_nor_are_they_where_blocks_do_not_mend_all() -> None:
    report = concluded("row_parallel_linear_bias_per_rank", "w")
    assert report.verdict is Verdict.REFUTED
    assert not any("interleaved" in " ".join(cause.suggestion) for cause in report.frontier)


@pytest.mark.parametrize(
    ("text", "cut", "blocks"),
    [
        ("[0:1x4][1:2x4]|tp=1:1x2", {1: 2}, "[0:1x4][1:1x4]|tp=1:4x2"),
        ("[0:1x4][1:1x4]|tp=1:4x2", {}, "[0:1x4][1:1x4]|tp=1:4x2"),
        ("[0:2x2]|dp=0:4x2|tp=0:1x2", {0: 4}, "[0:1x2]|dp=0:4x2|tp=0:2x2"),
        ("[0:4x2]|dp=0:1x2|tp=0:2x2", {0: 4}, "[0:1x2]|dp=0:4x2|tp=0:2x2"),
        ("[0:1x4]|tp=r2", {}, "[0:1x4]|tp=r2"),
    ],
)
def test_blocks_take_the_order_of_the_mesh(text: str, cut: dict[int, int], blocks: str) -> None:
    assert in_blocks(text) == (cut, blocks)
