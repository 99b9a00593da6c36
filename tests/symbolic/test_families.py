"""Families of programs: lifted, proved for all sizes, refuted at some."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.facts.files import write
from scalify_dl.facts.validate import validate
from scalify_dl.families.captures import load_family, parse_sample
from scalify_dl.families.lift import lift
from scalify_dl.families.symbols import parse_symbols, resolve
from scalify_dl.families.verify import verify_family
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict

from .programs import FAMILIES

SHOWN = {"meta", "source", "tensor_name", "output_name", "placement_note", "assume"}


def lifted(name: str, bug: str = ""):
    family = FAMILIES[name]
    captures = family.captures(bug)
    symbols, points = resolve(captures, family.symbols)
    return lift(captures, points, symbols), captures, points


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_its_captures_as_members(name: str) -> None:
    family, captures, points = lifted(name)
    for capture, point in zip(captures[:1], points, strict=False):
        member = family.instantiate(point)
        validate(member)
        for table, rows in capture.tables.items():
            if table not in SHOWN:
                assert sorted(map(repr, member[table])) == sorted(map(repr, rows)), table


@pytest.mark.parametrize("name", ["mlp", "causal"])
def test_right_programs_are_proved_for_all_sizes(name: str) -> None:
    report = verify_family(FAMILIES[name].captures(), FAMILIES[name].symbols)
    assert report.verdict is Verdict.PROVED, report.notes
    assert any(text.startswith("tp divides") for text in report.domain)
    assert any(a.why == "fitted" for a in report.assumptions)


@pytest.mark.parametrize(
    ("name", "bug"),
    [(name, bug) for name, family in FAMILIES.items() for bug in family.bugs if bug != "ids below 1000"],
)
def test_wrong_programs_are_refuted_at_a_size_that_shows_it(name: str, bug: str) -> None:
    report = verify_family(FAMILIES[name].captures(bug), FAMILIES[name].symbols)
    assert report.verdict is Verdict.REFUTED
    assert report.sizes is not None
    assert report.report is not None


PROVED = [lifted("mlp")[0], lifted("attention")[0], lifted("embedding")[0], lifted("mean")[0]]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_members_of_proved_families_are_proved_one_by_one(data: st.DataObject) -> None:
    """At sizes of 1, and where sizes coincide, as well."""
    family = data.draw(st.sampled_from(PROVED))
    tp = data.draw(st.sampled_from([1, 2, 3, 4, 5, 8]))
    point = {"tp": tp}
    for symbol in family.symbols:
        if not symbol.axis:
            coupled = any(
                symbol.name in formula.symbols and "tp" in formula.symbols for formula in family.sizes | family.integers
            )
            point[symbol.name] = data.draw(st.integers(1, 4)) * (tp if coupled else 1)
    if family is PROVED[0]:
        point["tp"] = data.draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    analysis = analyse(family.instantiate(point), Options())
    assert [row[2] for row in analysis.rows("output_verdict")] == ["PROVED"], point


def test_sizes_that_grow_alike_are_not_told_apart() -> None:
    build = FAMILIES["mlp"].build
    captures = [build({"tp": n, "batch": n, "seq": 5 * n * n}, "").facts() for n in (2, 4)]
    symbols, points = resolve(captures, FAMILIES["mlp"].symbols)
    with pytest.raises(InputError, match="do not tell"):
        lift(captures, points, symbols)


def test_captures_of_other_programs_are_bad_input() -> None:
    captures = [FAMILIES["mlp"].captures()[0], FAMILIES["mean"].captures()[1]]
    symbols, points = resolve(captures, {"tp": None, "batch": "x:0", "seq": "x:1"})
    with pytest.raises(InputError, match="same program"):
        lift(captures, points, symbols)


def test_a_bare_name_that_may_be_several_dims_lists_them() -> None:
    with pytest.raises(InputError, match=r"0:0.*0:1"):
        resolve(FAMILIES["mlp"].captures(), {"tp": None, "batch": None})


def test_symbols_and_samples_of_the_command_line_are_read(tmp_path: Path) -> None:
    assert parse_symbols("tp,batch=tokens:0") == {"tp": None, "batch": "tokens:0"}
    sample = parse_sample("b.mlir d.mlir tp=4 r.yaml", None)
    assert (sample.base, sample.mesh, sample.relate) == (Path("b.mlir"), "tp=4", Path("r.yaml"))
    for wrong in ("b.mlir tp=4", "b d"):
        with pytest.raises(InputError):
            parse_sample(wrong, None)
    with pytest.raises(InputError):
        parse_symbols("tp,8=x")


def test_a_family_file_of_facts_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from scalify_dl.commands.family import family

    for number, facts in enumerate(FAMILIES["mlp"].captures("half of the bias")):
        write(facts, tmp_path / f"facts{number}")
    file = tmp_path / "family.yaml"
    file.write_text("symbols: {tp: , batch: 'x:0', seq: 'x:1'}\ncaptures: [{facts: facts0}, {facts: facts1}]\n")
    assert load_family(file).symbols == {"tp": None, "batch": "x:0", "seq": "x:1"}
    out = tmp_path / "out"
    assert family(file, Options(out=out)) == 1
    assert capsys.readouterr().out.startswith("REFUTED  at tp=4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("captures: []", "no `symbols:`"),
        ("symbols: {tp: }\ncaptures: [{base: a}]", "a capture with base"),
        ("symbols: {tp: }\ncaptures: [{bose: a}]", "is no key"),
        ("symbols: [", "not YAML"),
        ("symbols: {tp: nonsense}\ncaptures: []", "names no size"),
    ],
)
def test_mistakes_in_family_files_are_told_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "family.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_family(file)
    assert str(file) in str(error.value)
