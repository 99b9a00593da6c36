"""Auditing correspondence tables, ours and others'."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit import audit, read_corr
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair, matmul
from scalify_dl.errors import InputError


def linear(inner: int = 16) -> Pair:
    """The row-parallel layer: dot holds a pending sum of base/dot, all-reduce the whole."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, inner), {1: "tp"}), pair.input((inner, 6), {0: "tp"})
    z = pair.dist.emit("all-reduce", [matmul(pair.dist, dx, dw)], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(matmul(pair.base, x, w), z)
    return pair


TRUE = [
    ("x0", "", "base/x0", "", "[0:1x8][1:1x8]|tp=1:8x2"),
    ("x0", "1:0:4", "base/x0", "", "[0:1x8][1:1x4]|tp=1:8x2"),
    ("x0", "0:0:4", "base/x0", "0:0:4", "[0:1x4][1:1x8]|tp=1:8x2"),
    ("dot", "", "base/dot", "", "[0:1x8][1:1x6]|tp=sum2"),
    ("all-reduce", "", "base/dot", "", "[0:1x8][1:1x6]|tp=r2"),
]
FALSE = [
    ("x0", "", "base/x0", "", "[0:2x8][1:1x8]|tp=1:8x2"),
    ("x0", "", "base/x0", "", "[0:1x8][1:2x8]|tp=1:1x2"),
    ("dot", "", "base/dot", "", "[0:1x8][1:1x6]|tp=r2"),
    ("dot", "", "base/dot", "", "[0:1x8][1:1x6]|tp=max2"),
    ("all-reduce", "", "base/dot", "", "[0:1x8][1:1x6]|tp=sum2"),
    ("all-reduce", "", "base/dot", "", "[0:1x8][1:1x6]|tp=r2 *1/2"),
    ("nothing", "", "base/dot", "", "[0:1x8][1:1x6]|tp=r2"),
    ("all-reduce", "", "base/dot", "", "[0:1x8]|tp=r2"),
    ("base/dot", "", "base/dot", "", "[0:1x8][1:1x6]|tp=r2"),
    ("all-reduce", "", "base/dot", "", "[0:1x8][1:1x6|tp=r2"),
]


@pytest.mark.parametrize("row", TRUE)
def test_a_true_correspondence_passes(row: tuple[str, str, str, str, str]) -> None:
    report = audit(linear().tables(), [row])
    assert report.counts == {"true": 1}
    assert report.trials == 3


@pytest.mark.parametrize("row", FALSE)
def test_a_false_or_malformed_one_is_reported(row: tuple[str, str, str, str, str]) -> None:
    (finding,) = audit(linear().tables(), [row]).false
    assert finding.row == row
    assert finding.text


def test_a_false_one_comes_with_a_counterexample() -> None:
    (finding,) = audit(linear().tables(), [FALSE[2]]).false
    assert finding.mismatch is not None
    assert finding.mismatch.expected != finding.mismatch.actual
    assert "rank 0, index" in finding.text


def test_large_graphs_are_audited_at_small_sizes() -> None:
    tables = linear(2**20).tables()
    derived = derive(tables)
    report = audit(tables, derived.corr)
    assert report.sizes == "shrunk"
    assert report.counts == {"true": len(derived.corr)}
    wrong = [(d, p, b, q, layout.replace("sum2", "r2")) for d, p, b, q, layout in derived.corr if d == "dot"]
    assert len(audit(tables, wrong).false) == len(wrong) == 1


def test_what_rests_on_an_invented_meaning_is_undecided() -> None:
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 4), {0: "tp"})
    for g, v in ((pair.base, x), (pair.dist, dx)):
        g.output(g.add("custom:mystery", [v], [("f32", v.shape)], name="mystery").result)
    (finding,) = audit(pair.tables(), [("mystery", "", "base/mystery", "", "[0:1x4][1:1x4]|tp=0:4x2")]).findings
    assert finding.verdict == "undecided"
    assert "custom:mystery" in finding.text


def test_tables_are_read_from_directories_and_files(tmp_path: Path) -> None:
    (tmp_path / "corr.csv").write_text("".join("\t".join(row) + "\n" for row in TRUE))
    assert read_corr(tmp_path) == TRUE
    assert read_corr(tmp_path / "corr.csv") == TRUE


@pytest.mark.parametrize(("text", "message"), [("a\tb\tc\n", "3 columns"), ("a\t\tb\t\tl\textra\n", "6 columns")])
def test_a_malformed_table_names_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "corr.tsv"
    file.write_text("\t".join(TRUE[0]) + "\n" + text)
    with pytest.raises(InputError, match=message) as error:
        read_corr(file)
    assert (error.value.file, error.value.line) == (str(file), 2)


def test_a_directory_without_the_table_says_what_it_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"corr\.csv"):
        read_corr(tmp_path)


def test_rounding_where_zero_is_expected_is_no_difference() -> None:
    """x - x is exactly 0; the same sum in another order less that sum is not."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 3), {0: "tp"})
    b, d = pair.base, pair.dist
    total = b.emit("reduce", [b.emit("sine", [x])], dimensions=[0], reducer="sum")
    y = d.emit("sine", [dx])
    halves = [d.emit("slice", [y], start=[i, 0], limit=[4, 3], stride=[2, 1]) for i in range(2)]
    sums = [d.emit("reduce", [v], dimensions=[0], reducer="sum") for v in (*halves, y)]
    zero = d.emit("subtract", [d.emit("add", sums[:2]), sums[2]])
    pair.outputs(b.emit("subtract", [total, total]), zero)
    row = ("subtract", "", "base/subtract", "", "[0:1x3]|tp=sum2")
    assert audit(pair.tables(), [row], trials=6).counts == {"true": 1}


def _compared(other: str) -> tuple[Pair, tuple[str, str, str, str, str]]:
    """A sum over rows compared with what ranks make of their parts, a choice by it, and what would be said of it."""
    pair = Pair({"tp": 2})
    (x, dx), (y, dy) = pair.input((64, 3)), pair.input((3,))
    b, d = pair.base, pair.dist
    total = b.emit("reduce", [x], dimensions=[0], reducer="sum")
    halves = [d.emit("slice", [dx], start=[i, 0], limit=[i + 32, 3], stride=[1, 1]) for i in (0, 32)]
    sums = [d.emit("reduce", [v], dimensions=[0], reducer=other) for v in halves]
    whole = d.emit("reduce", [dx], dimensions=[0], reducer="sum")
    made = d.emit("compare", [whole, d.emit("add", sums)], direction="EQ")
    flag = b.emit("compare", [total, total], direction="EQ")
    chosen = b.emit("select", [flag, y, b.emit("negate", [y])])
    pair.outputs(chosen, d.emit("select", [made, dy, d.emit("negate", [dy])]))
    return pair, ("select", "", "base/select", "", "[0:1x3]|tp=r2")


def test_what_rounding_decides_is_no_difference() -> None:
    pair, row = _compared("sum")
    assert audit(pair.tables(), [row], trials=6).counts == {"true": 1}


def test_what_other_numbers_decide_is_one() -> None:
    pair, row = _compared("max")
    assert audit(pair.tables(), [row], trials=6).counts == {"false": 1}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("dot", "", "base/dot", "", "[0:1x8][1:1x6]"), "speaks of a mesh without axes"),
        (("dot", "", "base/dot", "", "[0:1x8][1:1x6]|xx=sum2"), "speaks of a mesh xx=2"),
        (("dot", "", "base/dot", "", "[0:1x8][1:1x6]|tp=sum3"), "speaks of a mesh tp=3"),
        (("dot", "", "base/dot", "", "[0:1x8]|tp=sum2"), "makes [8] on every rank"),
        (("dot", "", "base/dot", "", "[0:2x8][1:1x6]|tp=sum2"), "does not fit the baseline's [8, 6]"),
        (("dot", "9:0:2", "base/dot", "9:0:2", "[0:1x8][1:1x6]|tp=sum2"), "piece 9:0:2 does not fit"),
        (("dot", "first half", "base/dot", "", "[0:1x8][1:1x6]|tp=sum2"), "is no piece"),
        (("base/dot", "", "base/dot", "", "[0:1x8][1:1x6]|tp=sum2"), "is on the `base` side"),
        (("dot", "", "base/dot", "", "Shard(0)"), "is no layout"),
    ],
)
def test_what_is_malformed_about_a_row_is_said(row: tuple[str, str, str, str, str], said: str) -> None:
    (finding,) = audit(linear().tables(), [row]).findings
    assert finding.verdict == "malformed"
    assert said in finding.text


def test_a_line_of_names_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    table = tmp_path / "corr.tsv"
    table.write_text("dist\tdist_piece\tbase\tbase_piece\tlayout\n" + "\t".join(TRUE[0]) + "\n\n")
    assert read_corr(table) == [TRUE[0]]


@pytest.mark.parametrize(("content", "said"), [(b"", "no rows"), (b"\xff\n", "no UTF-8"), (b"a\tb\n", "2 columns")])
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    table = tmp_path / "corr.tsv"
    table.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_corr(table)
