"""Certificates: written, replayed, and rejected once edited."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.certificate.check import Checked, Checker
from scalify_dl.certificate.files import CertificateError
from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.terms import RuleError
from scalify_dl.certificate.write import write
from scalify_dl.facts.files import load
from scalify_dl.pysouffle import rules_dir
from scalify_dl.verify.conclude import conclude
from scalify_dl.verify.options import Options
from scalify_dl.verify.pipeline import analyse, rule_files
from scalify_dl.verify.verdict import Verdict

FACTS = Path(__file__).parents[2] / "facts" / "row_parallel_linear"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    analysis = analyse(load(FACTS), Options())
    report = conclude(analysis)
    assert report.verdict is Verdict.PROVED
    path = tmp_path_factory.mktemp("certificate") / "proof.jsonl.gz"
    write(analysis, report, path)
    return path


@cache
def checker(facts: Path) -> Checker:
    return Checker(facts, rule_files(), rules_dir())


def replay(path: Path, facts: Path = FACTS) -> Checked:
    return checker(facts).replay(path)


def lines_of(path: Path) -> list[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def rewritten(path: Path, lines: list[Any]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def test_a_certificate_replays(certificate: Path) -> None:
    found = replay(certificate)
    assert len(found.outputs) == 1
    assert found.steps > 100
    assert found.assumptions


def edits(line: Any) -> Iterator[Any]:
    """A line with one value in it changed, in every place."""
    if isinstance(line, dict):
        for key in line:
            yield from ({**line, key: other} for other in edits(line[key]))
    elif isinstance(line, list):
        for i, item in enumerate(line):
            yield from ([*line[:i], other, *line[i + 1 :]] for other in edits(item))
    elif isinstance(line, int):
        yield line + 1
    elif isinstance(line, str):
        yield line + "x"
        if line:
            yield chr(ord(line[0]) ^ 1) + line[1:]
    else:
        yield 0


def test_no_edited_value_of_a_step_is_accepted(certificate: Path, tmp_path: Path) -> None:
    """Every value of a sample of lines is changed, one at a time."""
    lines = lines_of(certificate)
    sample = [i for i, line in enumerate(lines) if i and isinstance(line, list)]
    sample = [*sample[:: max(1, len(sample) // 8)], sample[-1]]
    tried = 0
    for i in sample:
        for line in edits(lines[i]):
            tried += 1
            with pytest.raises(CertificateError):
                replay(rewritten(tmp_path / "edited.gz", [*lines[:i], line, *lines[i + 1 :]]))
    assert tried > 50


def test_no_edited_header_is_accepted(certificate: Path, tmp_path: Path) -> None:
    header, *steps = lines_of(certificate)
    for key in ("facts", "rules", "outputs", "assumptions", "version", "certificate"):
        for value in list(edits(header[key]))[:6]:
            with pytest.raises(CertificateError):
                replay(rewritten(tmp_path / "edited.gz", [{**header, key: value}, *steps]))
    for key in ("outputs", "assumptions"):
        with pytest.raises(CertificateError):
            replay(rewritten(tmp_path / "edited.gz", [{**header, key: []}, *steps]))


def test_an_edited_rule_text_is_rejected(certificate: Path, tmp_path: Path) -> None:
    header, *steps = lines_of(certificate)
    for i in range(0, len(header["clauses"]), 9):
        clauses = [list(c) for c in header["clauses"]]
        clauses[i][2] = clauses[i][2].replace(":-", ":- true ,")
        with pytest.raises(CertificateError):
            replay(rewritten(tmp_path / "edited.gz", [{**header, "clauses": clauses}, *steps]))


def test_a_missing_step_is_noticed(certificate: Path, tmp_path: Path) -> None:
    lines = lines_of(certificate)
    for i in (5, len(lines) // 2, len(lines) - 1):
        with pytest.raises(CertificateError):
            replay(rewritten(tmp_path / "edited.gz", lines[:i] + lines[i + 1 :]))


def test_other_facts_are_noticed(certificate: Path, tmp_path: Path) -> None:
    for file in FACTS.glob("*.facts"):
        (tmp_path / file.name).write_text(file.read_text())
    assert replay(certificate, tmp_path).outputs
    dims = (tmp_path / "dim.facts").read_text()
    (tmp_path / "dim.facts").write_text(dims.replace("16\n", "32\n", 1))
    checker.cache_clear()
    with pytest.raises(CertificateError, match=r"dim\.facts"):
        replay(certificate, tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"not gzip", gzip.compress(b"{"), gzip.compress(b"[1]\n"), gzip.compress(b"{}\n")]
)
def test_what_is_no_certificate_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.gz"
    path.write_bytes(content)
    with pytest.raises(CertificateError):
        replay(path)


def test_a_truncated_certificate_is_rejected(certificate: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.gz"
    path.write_bytes(certificate.read_bytes()[:-200])
    with pytest.raises(CertificateError):
        replay(path)


@pytest.mark.parametrize(
    "text", [".comp C { }", "p(x) :- q(x).", ".decl p(x:number)\np(x) :- p(x), @f(x) = 1.", ".decl p(x:number)\np(1"]
)
def test_the_checker_refuses_rules_that_it_does_not_know(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.dl"
    file.write_text(text)
    with pytest.raises(RuleError):
        read_rules([file])
