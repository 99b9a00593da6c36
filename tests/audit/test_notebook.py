"""Queries from Python with pyDatalog."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyDatalog", reason="pyDatalog is not installed")

import scalify_dl
from scalify_dl.audit.derive import derive
from scalify_dl.audit.notebook import Notebook
from scalify_dl.audit.pair import Pair, matmul

ROOT = Path(__file__).parents[2]


@pytest.fixture
def book() -> Notebook:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((8, 16), {1: "tp"}), pair.input((16, 6), {0: "tp"})
    z = pair.dist.emit("all-reduce", [matmul(pair.dist, dx, dw)], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(matmul(pair.base, x, w), z)
    tables = pair.tables()
    book = Notebook(tables)
    book.add("corr", derive(tables).corr)
    return book


def test_facts_and_results_join(book: Notebook) -> None:
    book.define("made(K, L) <= corr(D, P, B, Q, L) & result(O, 0, D) & op(O, 'dist', K)")
    assert book.ask("made(K, L)") == [
        ("all-reduce", "[0:1x8][1:1x6]|tp=r2"),
        ("dot", "[0:1x8][1:1x6]|tp=sum2"),
    ]
    assert book.ask("made('transpose', L)") == []


def test_of_a_report_facts_and_results_are_predicates() -> None:
    report = scalify_dl.verify(ROOT / "facts" / "gqa_fused_qkv_key_slice")
    book = Notebook.of(report)
    book.define("cause(O, K, F) <= frontier(O) & op(O, 'dist', K) & diag_found(O, F)")
    (op, kind, _) = book.ask("cause(O, K, F)")[0]
    assert (op, kind) == ("slice.3", "slice")
    assert book.ask("frontier(O)") == [(cause.op,) for cause in report.frontier]
    assert book.ask("unsupported(O, K)") == []
    assert book.ask("permute_pair(O, A, B)") == []


def test_a_relation_of_ones_own_is_audited(book: Notebook) -> None:
    assert book.check().false == []
    book.define("claim(D, P, B, Q, L) <= corr(D, P, B, Q, M) & (L == '[0:1x8][1:1x6]|tp=r2') & (D == 'dot')")
    (finding,) = book.check("claim").false
    assert finding.row[0] == "dot"
