"""`scalify_dl.verify` and `assert_equivalent` on dumps and facts; the report that they give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import scalify_dl
from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Program

ROOT = Path(__file__).parents[2]
HLO = ROOT / "examples" / "hlo"
RELATIONS = HLO / "relations.yaml"


def right() -> scalify_dl.Report:
    return scalify_dl.verify(HLO / "base.hlo", HLO / "dist.hlo", mesh="tp=2", relate=RELATIONS)


def wrong() -> scalify_dl.Report:
    dist = str(HLO / "dist_gate_for_up.hlo")
    return scalify_dl.verify(str(HLO / "base.hlo"), [dist], mesh={"tp": 2}, relate=RELATIONS)


def test_two_dumps_are_proved_or_refuted() -> None:
    report = right()
    assert report.verdict == "PROVED"
    assert [o.verdict for o in report.outputs] == ["PROVED"]
    assert report.frontier == []
    assert report.counterexample is None
    bad = wrong()
    assert bad.verdict == "REFUTED"
    assert bad.frontier
    assert bad.counterexample is not None


def test_a_directory_of_facts_is_a_pair() -> None:
    assert scalify_dl.verify(ROOT / "facts" / "row_parallel_linear").verdict == "PROVED"


def test_assert_equivalent_says_all_in_its_message() -> None:
    pair = (HLO / "base.hlo", HLO / "dist_gate_for_up.hlo")
    with pytest.raises(AssertionError, match="REFUTED") as failed:
        scalify_dl.assert_equivalent(*pair, mesh="tp=2", relate=RELATIONS)
    assert isinstance(failed.value, scalify_dl.NotEquivalent)
    assert failed.value.report.verdict == "REFUTED"
    assert "root cause" in str(failed.value)
    with pytest.raises(AssertionError, match="REFUTED"):
        scalify_dl.assert_equivalent(*pair, mesh="tp=2", relate=RELATIONS, allow_unknown=True)


def test_unknown_fails_unless_it_is_allowed() -> None:
    pair = (HLO / "base.hlo", HLO / "dist_gate_for_up.hlo")
    with pytest.raises(AssertionError, match="UNKNOWN"):
        scalify_dl.assert_equivalent(*pair, mesh="tp=2", relate=RELATIONS, refute=False)
    report = scalify_dl.assert_equivalent(*pair, mesh="tp=2", relate=RELATIONS, refute=False, allow_unknown=True)
    assert report.verdict == "UNKNOWN"


def test_the_report_as_text_data_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = wrong()
    report.print()
    assert capsys.readouterr().out == str(report) == report.text()
    assert repr(report) == "<Report REFUTED: 0 of 1 outputs proved>"
    assert report.to_dict()["verdict"] == "REFUTED"
    assert report._repr_html_().startswith("<iframe")
    for suffix in (".html", ".json", ".sarif", ".xml", ".txt"):
        assert report.save(tmp_path / f"report{suffix}").read_text("utf-8")
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "REFUTED"
    with pytest.raises(InputError, match="no format"):
        report.save(tmp_path / "report.pdf")


def test_tables_of_a_report() -> None:
    report = right()
    assert all(len(row) == 5 for row in report.rows("corr"))
    assert report.rows("mesh_axis") == [("tp", 0, 2)]
    with pytest.raises(InputError, match=r"did you mean .*corr"):
        report.rows("cor")
    assert " holds " in report.explain(report.outputs[0].tensor)


def test_tables_as_data_frames() -> None:
    pytest.importorskip("pandas", reason="needs pandas")
    report = right()
    frame = report.frame("corr")
    assert list(frame.columns) == ["dist", "dist_piece", "base", "base_piece", "layout"]
    assert len(frame) == len(report.rows("corr"))
    program = Program.from_source('.decl a(x:symbol, n:number)\na("one", 1).\n').run()
    assert program.frame("a").to_dict("list") == {"x": ["one"], "n": [1]}


def test_without_pandas_a_data_frame_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        right().frame("corr")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"base": HLO / "base.hlo", "mesh": "tp=2"}, "no distributed program"),
        ({"base": HLO / "base.hlo", "dist": HLO / "dist.hlo"}, "no mesh"),
        ({"base": HLO / "base.hlo", "dist": HLO / "dist.hlo", "mesh": 2}, "`mesh` is an int"),
        ({"base": 7, "dist": 8, "mesh": "tp=2"}, "`base` is an int"),
        ({"base": len}, "no mesh"),
        ({"base": len, "mesh": 3}, "`mesh` is an int"),
    ],
)
def test_what_is_no_pair_is_refused_in_words(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        scalify_dl.verify(**given)  # type: ignore[arg-type]


def test_the_earlier_package_of_this_name_is_the_function_too() -> None:
    code = (
        "import scalify_dl, scalify_dl.verify.options as options, scalify_dl.verify\n"
        "assert scalify_dl.verify.options is options\n"
        "print(scalify_dl.verify('facts/row_parallel_linear').verdict)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True
    )
    assert done.stdout == "PROVED\n"


def test_types_are_published() -> None:
    assert (Path(scalify_dl.__file__).parent / "py.typed").is_file()
