"""Certificates: written, replayed, and rejected once edited."""

import gzip
import hashlib
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.certificate.check import Checked, Checker
from scalify_dl.certificate.files import FORMAT, VERSION, CertificateError, text_hash
from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.terms import RuleError
from scalify_dl.errors import InputError
from scalify_dl.facts import Facts, files
from scalify_dl.facts.files import load
from scalify_dl.prove.certificate import write
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, rule_files
from scalify_dl.prove.verdict import Verdict
from scalify_dl.pysouffle import rules_dir
from scalify_dl.report.conclude import conclude

from ..adversarial.programs import RIGHT

FACTS = Path(__file__).parents[2] / "facts" / "row_parallel_linear"


def certified(facts: Facts, path: Path, options: Options = Options(refute=False)) -> Path:  # noqa: B008
    """The certificate of facts that are proved."""
    analysis = analyse(facts, options)
    report = conclude(analysis)
    assert report.verdict is Verdict.PROVED
    write(analysis, report, path)
    return path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(load(FACTS), tmp_path_factory.mktemp("certificate") / "proof.jsonl.gz")


@cache
def checker() -> Checker:
    return Checker(rule_files(), rules_dir())


@cache
def loaded(facts: Path) -> Facts:
    return load(facts, validate=False)


def replay(path: Path, facts: Path = FACTS) -> Checked:
    return checker().replay(path, loaded(facts))


def lines_of(path: Path) -> list[Any]:
    """The lines after the first: what is proved, and the derivation."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file][1:]


def rewritten(path: Path, lines: list[Any]) -> Path:
    """A certificate of these lines, with the hash that they have."""
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    first = {"certificate": FORMAT, "version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n" + body, 1))
    return path


def is_step(line: Any) -> bool:
    return isinstance(line, list) and len(line) == 3


def test_a_certificate_replays(certificate: Path) -> None:
    found = replay(certificate)
    assert len(found.outputs) == 1
    assert found.steps > 100
    assert found.assumptions


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_every_proof_of_the_adversarial_set_is_accepted(name: str, tmp_path: Path) -> None:
    facts = Facts(RIGHT[name]().tables())
    files.write(facts, tmp_path / "facts")
    path = certified(facts, tmp_path / "proof.jsonl.gz")
    found = checker().replay(path, load(tmp_path / "facts"))
    assert {row[:2] for row in found.outputs} == {row[:2] for row in facts["expect"]}


# ---- edits of single bytes, by chance and by malice


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_byte_is_rejected(certificate: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Of the text as it is, with the hash of the original."""
    text = gzip.decompress(certificate.read_bytes())
    at = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != text[at] and not (chr(b) + chr(text[at])).isspace()))
    path = tmp_path / "edited.gz"
    path.write_bytes(gzip.compress(text[:at] + bytes([byte]) + text[at + 1 :], 1))
    with pytest.raises(CertificateError) as error:
        replay(path)
    assert str(error.value)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_byte_of_the_file_is_rejected(certificate: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Of the compressed file (its first ten bytes say how it was compressed, and when)."""
    content = certificate.read_bytes()
    at = data.draw(st.integers(10, len(content) - 1))
    path = tmp_path / "edited.gz"
    path.write_bytes(content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :])
    try:
        text = gzip.decompress(path.read_bytes())
    except Exception:
        text = b""
    if text != gzip.decompress(content):  # a padding bit of the compression says nothing
        with pytest.raises(CertificateError):
            replay(path)


def edits(line: Any) -> Iterator[Any]:
    """A line with one value in it changed, in every place."""
    if isinstance(line, dict):
        for key in line:
            yield from ({**line, key: other} for other in edits(line[key]))
    elif isinstance(line, list):
        for i, item in enumerate(line):
            yield from ([*line[:i], other, *line[i + 1 :]] for other in edits(item))
            yield [*line[:i], *line[i + 1 :]]
        yield [*line, 0]
    elif isinstance(line, int):
        yield from (line + 1, line - 1, -line - 1, 10**6, str(line))
    elif isinstance(line, str):
        yield line + "x"
        if line:
            yield chr(ord(line[0]) ^ 1) + line[1:]
    else:
        yield 0


def test_no_edited_step_is_accepted_by_itself(certificate: Path, tmp_path: Path) -> None:
    """Every number of a sample of steps is changed, and the hash made to fit."""
    lines = lines_of(certificate)
    sample = [i for i, line in enumerate(lines) if is_step(line)]
    sample = [*sample[:: max(1, len(sample) // 4)], sample[-1]]
    tried = 0
    for i in sample:
        for line in [*edits(lines[i])][::5]:
            tried += 1
            with pytest.raises(CertificateError, match=r"line|output|assumption"):
                replay(rewritten(tmp_path / "edited.gz", [*lines[:i], line, *lines[i + 1 :]]))
    assert tried > 25


def test_no_edited_value_is_accepted(certificate: Path, tmp_path: Path) -> None:
    lines = lines_of(certificate)
    for i, line in enumerate(lines):
        values = line["values"] if isinstance(line, dict) and "values" in line else []
        for j in range(0, len(values), 1 + len(values) // 5):
            for other in [*edits(values[j])][::2]:
                edited = {"values": [*values[:j], other, *values[j + 1 :]]}
                with pytest.raises(CertificateError):
                    replay(rewritten(tmp_path / "edited.gz", [*lines[:i], edited, *lines[i + 1 :]]))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False), st.sampled_from(["delete", "repeat", "swap", "bindings", "premises"]))
def test_lines_out_of_place_are_rejected(certificate: Path, tmp_path: Path, chance: random.Random, how: str) -> None:
    """Deleted or repeated steps move the numbers of those that follow; a step stands after its premises."""
    header, *lines = lines_of(certificate)
    steps = [i for i, line in enumerate(lines) if is_step(line)]
    if how == "bindings":
        i = chance.choice([i for i in steps if len(set(lines[i][2])) > 1])
        bindings = list(lines[i][2])
        while bindings == lines[i][2]:
            chance.shuffle(bindings)
        lines[i] = [lines[i][0], lines[i][1], bindings]
    elif how == "premises":
        i = chance.choice([i for i in steps if len(set(lines[i][1])) > 1])
        lines[i] = [lines[i][0], [lines[i][1][-1], *lines[i][1][:-1]], lines[i][2]]
    elif how == "swap":
        rows = [i for i, line in enumerate(lines) if isinstance(line, list)]
        i, j = next((i, j) for i, j in pairwise(rows) if is_step(lines[j]) and rows.index(i) in lines[j][1])
        lines[i], lines[j] = lines[j], lines[i]
    else:
        i = chance.choice(steps[:-5])
        lines[i : i + 1] = [lines[i], lines[i]] if how == "repeat" else []
    with pytest.raises(CertificateError):
        replay(rewritten(tmp_path / "edited.gz", [header, *lines]))


def test_no_edited_header_is_accepted(certificate: Path, tmp_path: Path) -> None:
    header, *steps = lines_of(certificate)
    for key in ("facts", "rules", "outputs", "assumptions"):
        for value in [*list(edits(header[key]))[:6], [], {}, None, 1]:
            with pytest.raises(CertificateError):
                replay(rewritten(tmp_path / "edited.gz", [{**header, key: value}, *steps]))
        with pytest.raises(CertificateError):
            replay(rewritten(tmp_path / "edited.gz", [{k: v for k, v in header.items() if k != key}, *steps]))
    for value in ([], {}, None, 1, [[]], [1], {"x": "y"}):
        for key in ("clauses", "order", "choices"):
            with pytest.raises(CertificateError):
                replay(rewritten(tmp_path / "edited.gz", [{**header, key: value}, *steps]))


def test_an_edited_rule_text_is_rejected(certificate: Path, tmp_path: Path) -> None:
    header, *steps = lines_of(certificate)
    for i in range(0, len(header["clauses"]), 40):
        clauses = [list(c) for c in header["clauses"]]
        clauses[i][3] = clauses[i][3].replace(":-", ":- true ,")
        with pytest.raises(CertificateError):
            replay(rewritten(tmp_path / "edited.gz", [{**header, "clauses": clauses}, *steps]))


@pytest.mark.parametrize(
    "line",
    [
        [], {}, 1, None, "x", [[]], [1, 2, 3, 4], {"values": 1}, {"values": [[-1]]}, {"values": [[10**9]]},
        {"values": [1.5]}, {"values": [True]}, {"other": []}, {"decide": []}, {"decide": [0, 0, 0]}, ["dim", []],
        ["no_such_relation", [0]],
        [0, [0], [0]], [10**9, [], []], [-1, [], []], [None, None, None], ["holds", [0, 0, 0]],
    ],
)  # fmt: skip
def test_a_malformed_line_is_rejected_with_its_number(certificate: Path, tmp_path: Path, line: Any) -> None:
    lines = lines_of(certificate)
    with pytest.raises(CertificateError, match="line 7") as told:
        replay(rewritten(tmp_path / "edited.gz", [*lines[:5], line, *lines[5:]]))
    assert "Error(" not in str(told.value)


def test_a_step_of_the_recursion_after_conclusions_is_rejected(certificate: Path, tmp_path: Path) -> None:
    """Else a conclusion could rest on the absence of what is shown later."""
    header, *lines = lines_of(certificate)
    step = next(line for line in lines if is_step(line) and header["clauses"][line[0]][0] == "holds")
    with pytest.raises(CertificateError, match="after conclusions"):
        replay(rewritten(tmp_path / "edited.gz", [header, *lines, step]))


# ---- other facts, other rules


def copied(tmp_path: Path) -> Path:
    for file in FACTS.glob("*.facts"):
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path


def test_other_facts_are_noticed(certificate: Path, tmp_path: Path) -> None:
    facts = copied(tmp_path)
    assert checker().replay(certificate, load(facts)).outputs
    dims = (facts / "dim.facts").read_text()
    (facts / "dim.facts").write_text(dims.replace("16\n", "32\n", 1))
    with pytest.raises(CertificateError, match=r"dim\.facts"):
        checker().replay(certificate, load(facts, validate=False))


def test_what_the_dumps_are_called_decides_nothing(certificate: Path, tmp_path: Path) -> None:
    facts = copied(tmp_path)
    rows = (facts / "meta.facts").read_text()
    (facts / "meta.facts").write_text(re.sub("(?m)^(base_file|dist_file)\t.*$", "\\1\t/else/where.hlo", rows))
    assert (facts / "meta.facts").read_text() != rows
    assert checker().replay(certificate, load(facts)).outputs


def test_a_table_that_a_rule_of_the_users_own_reads_decides(certificate: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.dl"
    more.write_text('.decl named(file: symbol)\nnamed(f) :- meta("base_file", f).\n')
    own = Checker(rule_files([more]), rules_dir())
    assert own.structure.deciding.keys() - checker().structure.deciding.keys() == {"meta"}


def test_every_step_is_told_with_its_rule_and_what_it_follows_from(certificate: Path) -> None:
    told: list[tuple[str, Any, tuple[str, int] | None, Any]] = []
    steps = checker().replay(certificate, loaded(FACTS), lambda *step: told.append(step)).steps
    assert len(told) == steps
    assert all(n < number for number, (*_, premises) in enumerate(told) for n in premises)
    relation, row, by, _ = told[-1]
    assert (relation, row[2]) == ("output_verdict", "PROVED")
    assert by is not None
    assert (rules_dir() / by[0]).is_file()


def test_other_facts_are_rejected_even_if_their_hash_is_stated(certificate: Path, tmp_path: Path) -> None:
    """An input that every rank holds whole, where the proof has a block of it."""
    facts = copied(tmp_path)
    shards = (facts / "shard.facts").read_text()
    assert "tp=1:8x2" in shards
    (facts / "shard.facts").write_text(shards.replace("tp=1:8x2", "tp=r2"))
    header, *lines = lines_of(certificate)
    edited = (facts / "shard.facts").read_text()
    stated = header["facts"] | {"shard.facts": text_hash(edited)}
    with pytest.raises(CertificateError, match="line"):
        replay(rewritten(tmp_path / "c.gz", [{**header, "facts": stated}, *lines]), facts)


def test_proved_claims_among_the_facts_are_not_believed(certificate: Path, tmp_path: Path) -> None:
    facts = copied(tmp_path)
    (facts / "proved.facts").write_text("x\t0\t1\n")
    with pytest.raises(InputError, match=r"proved"):
        load(facts)
    other = load(FACTS)
    other.tables["proved"] = [("x", 0, 1)]
    with pytest.raises(CertificateError, match=r"proved\.facts"):
        checker().replay(certificate, other)


def test_other_rules_are_noticed(certificate: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.dl"
    more.write_text("holds(d, t, l) :- tensor(d, _, _, _), holds(_, t, l).\n")
    with pytest.raises(CertificateError, match=r"other rules: more\.dl"):
        Checker(rule_files([more]), rules_dir()).replay(certificate, load(FACTS))


# ---- files that are none


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", *(gzip.compress(text, mtime=0) for text in
     (b"", b"{", b"[1]\n", b"{}\n", b"\xff\xfe", b"[" * 100_000))],
)  # fmt: skip
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
    lines = lines_of(certificate)
    for end in (0, 1, 2, len(lines) // 2, len(lines) - 1):
        with pytest.raises(CertificateError):
            replay(rewritten(path, lines[:end]))


@pytest.mark.parametrize(
    "text", [".comp C { }", "p(x) :- q(x).", ".decl p(x:number)\np(x) :- p(x), @f(x) = 1.", ".decl p(x:number)\np(1"]
)
def test_the_checker_refuses_rules_that_it_does_not_know(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.dl"
    file.write_text(text)
    with pytest.raises(RuleError):
        read_rules([file])
