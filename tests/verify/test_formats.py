"""SARIF as code scanning takes it, GitHub's log, JUnit, baselines of known findings."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.errors import InputError
from scalify_dl.finding import Finding
from scalify_dl.prove.verdict import Frame, OutputVerdict, Report, Verdict
from scalify_dl.prove.view import View
from scalify_dl.report import github, junit, sarif
from scalify_dl.report.annotations import FINGERPRINT, Places, annotate, known, repository
from scalify_dl.report.json import as_object as as_json

from .test_reports import REPORT as SAMPLE


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "attention.py").write_text("\n" * 200)
    monkeypatch.chdir(tmp_path / "src")
    return tmp_path


def report(root: Path) -> Report:
    """A report whose cause has frames in the repository and outside."""
    frames = (
        Frame("/usr/lib/other.py", 3),
        Frame(str(root / "src" / "attention.py"), 118, "split"),
        Frame("attention.py", 7),
    )
    cause = replace(SAMPLE.frontier[0], source=frames, base_source=frames)
    findings = [Finding("race", "error", "read before it is there", source=("attention.py:5",))]
    return replace(SAMPLE, file="/elsewhere/d.hlo", frontier=[cause, cause], findings=findings, verdict=Verdict.REFUTED)


def test_every_result_is_located_in_the_repository_once(root: Path) -> None:
    log = sarif.as_object(report(root))
    results = log["runs"][0]["results"]
    assert len(results) == 4  # the race, one cause, the output with a reason, an input
    for result in results:
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert not re.match(r"[a-z]+:|/|\.\.", place["artifactLocation"]["uri"])
        assert place["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
        assert place["region"]["startLine"] >= 1
        assert result["partialFingerprints"][FINGERPRINT]
    assert len({json.dumps(r["partialFingerprints"]) for r in results}) == len(results)
    cause = next(r for r in results if r["ruleId"] == "frontier")
    assert cause["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/attention.py"
    assert cause["locations"][0]["physicalLocation"]["region"]["startLine"] == 118
    assert len(cause["stacks"][0]["frames"]) == 2


def test_what_has_no_source_is_told_of_the_dump(root: Path) -> None:
    found = {a.rule: (a.file, a.line) for a in annotate(report(root))}
    assert found["output"] == found["unrelated-input"] == ("d.hlo", 1)
    assert found["finding"] == ("src/attention.py", 5)


def _required(log: dict[str, Any]) -> None:
    """What SARIF 2.1.0 demands of the properties that are used here."""
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    for run in log["runs"]:
        rules = run["tool"]["driver"]["rules"]
        assert run["tool"]["driver"]["name"]
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            assert rule["shortDescription"]["text"]
            assert rule["help"]["text"]
        for result in run["results"]:
            assert result["message"]["text"]
            region = result["locations"][0]["physicalLocation"]["region"]
            assert region["startLine"] == region["endLine"] >= 1
            assert region["endColumn"] > region["startColumn"] >= 1
            assert result["partialFingerprints"]["primaryLocationLineHash"]
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in {"none", "note", "warning", "error"}
            for related in result.get("relatedLocations", []):
                assert related["message"]["text"]


def test_the_log_has_what_the_format_demands(root: Path) -> None:
    _required(sarif.as_object(report(root)))
    _required(sarif.as_object([report(root), SAMPLE], baseline=frozenset()))


def test_a_region_is_the_text_of_its_line(root: Path) -> None:
    (root / "src" / "attention.py").write_text("\n" * 117 + "    q = split(x)  \n")
    log = sarif.as_object(report(root))
    cause = next(r for r in log["runs"][0]["results"] if r["ruleId"] == "frontier")
    region = cause["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 118, "startColumn": 5, "endLine": 118, "endColumn": 17}


def test_reports_together_have_no_fingerprint_twice(root: Path) -> None:
    first = report(root)
    second = replace(first, frontier=[replace(first.frontier[0], name="dot.77", found=("9",))])
    third = replace(first, frontier=[replace(first.frontier[0], name="dot.78", found=("9",))])
    results = sarif.as_object([first, second, third])["runs"][0]["results"]
    assert len({r["partialFingerprints"]["primaryLocationLineHash"] for r in results}) == len(results) == 6


def with_consequences(root: Path) -> Report:
    """A root cause that leads to two outputs over another op, and an output that it does not lead to."""
    cause = replace(SAMPLE.frontier[0], op="cause", results=("d",))
    facts = {
        "result": [("cause", 0, "d"), ("next", 0, "y"), ("last", 0, "z"), ("other", 0, "v")],
        "operand": [("next", 0, "d"), ("last", 0, "y"), ("other", 0, "x")],
    }
    outputs = [
        OutputVerdict(t, f"base/{t}", t, t, Verdict.REFUTED, "", "", f"{t} holds too much") for t in ("y", "z", "v")
    ]
    view = View(lambda name: facts.get(name, []), lambda name: [])
    return replace(
        SAMPLE, file="/elsewhere/d.hlo", frontier=[cause], outputs=outputs, unrelated_inputs=[], view=view,
        verdict=Verdict.REFUTED,
    )  # fmt: skip


def test_one_bug_is_one_result_that_its_consequences_are_told_at(root: Path) -> None:
    cause, other = sarif.as_object(with_consequences(root))["runs"][0]["results"]
    assert "It leads to 2 outputs that are not proved: y, z." in cause["message"]["text"]
    places = cause["relatedLocations"]
    told = [p["message"]["text"] for p in places]
    assert told[-2:] == ["y is REFUTED: y holds too much", "z is REFUTED: z holds too much"]
    assert [p["id"] for p in places] == list(range(len(places)))
    assert other["message"]["text"] == "v is REFUTED. v holds too much"
    assert [c["outputs"] for c in as_json(with_consequences(root))["frontier"]] == [["y", "z"]]
    assert "y, z" in github.lines(annotate(with_consequences(root)))[0]


def test_how_many_outputs_a_cause_leads_to_is_no_part_of_its_fingerprint(root: Path) -> None:
    found = with_consequences(root)
    fewer = replace(found, outputs=found.outputs[1:])
    assert [a.fingerprint for a in annotate(found)] == [a.fingerprint for a in annotate(fewer)]


def test_a_finding_is_known_by_one_pair_and_by_all(root: Path) -> None:
    one = {a.fingerprint for a in annotate(report(root))}
    assert one == {a.fingerprint for a in annotate([report(root)], names=["attention"])}


def test_fingerprints_stay_as_lines_move(root: Path) -> None:
    before = report(root)
    moved = replace(before.frontier[0], source=(Frame("attention.py", 130, "split"),))
    after = replace(before, frontier=[moved])
    first, second = ([a.fingerprint for a in annotate(r) if a.rule == "frontier"] for r in (before, after))
    assert first == second
    other = replace(before, frontier=[replace(moved, found=("something else",))])
    assert first != [a.fingerprint for a in annotate(other) if a.rule == "frontier"]


def test_a_baseline_decides_what_is_new_and_nothing_else(root: Path) -> None:
    log = root / "old.sarif"
    log.write_text(sarif.render(replace(report(root), unrelated_inputs=[])))
    old = known(log)
    states = [r["baselineState"] for r in sarif.as_object(report(root), baseline=old)["runs"][0]["results"]]
    assert sorted(states) == ["new", "unchanged", "unchanged", "unchanged"]
    lines = github.lines(annotate(report(root)), old)
    assert [line.split(" ")[0] for line in lines] == ["::warning", "::notice"]
    assert sarif.as_object(report(root), baseline=old)["runs"][0]["properties"]["verdict"] == "REFUTED"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": [{"results": [{}]}]}', "[" * 9999])
def test_a_wrong_baseline_is_bad_input(tmp_path: Path, text: str) -> None:
    file = tmp_path / "b.sarif"
    file.write_text(text)
    with pytest.raises(InputError, match="baseline"):
        known(file)


def test_github_lines_are_escaped_and_counted(root: Path) -> None:
    cause = replace(report(root).frontier[0], found=("100 %\nof: a, b",))
    many = [replace(cause, name=f"x:{chr(97 + i)},") for i in range(14)]
    lines = github.lines(annotate(replace(report(root), frontier=many, findings=[], unrelated_inputs=[])))
    assert all("\n" not in line and line.startswith("::") for line in lines)
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == github.MOST
    assert errors[0].startswith("::error file=src/attention.py,line=118,title=dlverify%3A x%3Aa%2C (slice)")
    assert "100 %25%0Aof: a, b" in errors[0]
    assert "more, in the log" in errors[-1]


def test_junit_has_a_case_for_each_output_and_a_failure_for_each_that_is_not_proved() -> None:
    evil = replace(SAMPLE, title="\x00\x1b]]>&")
    root = ET.fromstring(junit.render([("pair <one>", evil), ("two", evil)]))
    assert root.attrib == {"name": "dlverify", "tests": "4", "failures": "2", "errors": "0"}
    suite = root[0]
    assert suite.attrib["name"] == "pair <one>"
    failed = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    assert [case.attrib["name"] for case in failed] == ["dot.3"]
    assert "root cause" in suite.findtext("system-out", "")


def test_junits_message_is_the_first_root_cause() -> None:
    told = replace(SAMPLE, outputs=[replace(o, reason=None) for o in SAMPLE.outputs])
    message = next(ET.fromstring(junit.render([("p", told)])).iter("failure")).attrib["message"]
    cause = SAMPLE.frontier[0]
    assert all(text in message for text in (cause.name, cause.found[0], str(cause.source[0])))


def test_junit_fails_where_all_outputs_are_proved_and_the_verdict_is_not() -> None:
    proved = [replace(o, verdict=Verdict.PROVED) for o in SAMPLE.outputs]
    root = ET.fromstring(junit.render([("p", replace(SAMPLE, outputs=proved, notes=["--strict: 3 assumptions"]))]))
    assert root.attrib["failures"] == "1"
    assert "3 assumptions" in next(root.iter("failure")).attrib["message"]


def test_the_repository_is_the_nearest_with_git(root: Path) -> None:
    assert repository() == root


def test_a_file_of_another_machine_is_no_place_in_the_repository(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("x = 1\n")
    places = Places(tmp_path, str(tmp_path / "dist.hlo"))
    assert places.inside("model.py") == "model.py"
    assert places.inside("elsewhere.py") is None
    assert places.inside("/home/somebody/model.py") is None


def test_junit_fails_by_the_verdict_that_is_expected() -> None:
    failures = lambda right: ET.fromstring(junit.render([("p", SAMPLE)], {"p": right})).attrib["failures"]  # noqa: E731
    assert SAMPLE.verdict is Verdict.UNKNOWN
    assert failures(Verdict.UNKNOWN) == "0"
    assert failures(Verdict.PROVED) != "0"
    assert failures(Verdict.REFUTED) != "0"
