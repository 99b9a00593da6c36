"""`dlverify.toml`, `dlverify init`, and the verdicts of named pairs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scalify_dl import project
from scalify_dl.prove.assumptions import Accepted
from scalify_dl.prove.verdict import Assumption
from scalify_dl.readers.relations import Relations, load_relations

from .test_cli import ROOT, Run, dlverify

__all__ = ["dlverify"]
HLO = ROOT / "examples" / "hlo"
LLAMA = ROOT / "examples" / "hf_llama" / "dump"

TOML = """\
strict = false

[pairs.mlp]
base = "base.hlo"
dist = "dist.hlo"
mesh = "tp=2"
relate = "relations.yaml"

[pairs.wrong]
base = "base.hlo"
dist = ["dist_gate_for_up.hlo"]
mesh = {tp = 2}
relate = "relations.yaml"
expect = "REFUTED"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in HLO.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "dlverify.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_named_pair_gives_its_report(dlverify: Run, here: Path) -> None:
    status, out, err = dlverify("verify", "mlp")
    assert (status, err) == (0, "")
    assert out.startswith("PROVED")


def test_what_is_expected_to_be_wrong_is_as_expected(dlverify: Run, here: Path) -> None:
    status, out, _ = dlverify("verify", "wrong", "--json")
    assert (status, json.loads(out)["verdict"]) == (0, "REFUTED")
    status, out, _ = dlverify("verify")
    assert status == 0
    assert out.rstrip().endswith("2 pairs, 2 as expected")


def test_another_verdict_than_the_expected_one_is_told(dlverify: Run, here: Path) -> None:
    (here / "dlverify.toml").write_text(TOML.replace('expect = "REFUTED"', ""))
    assert dlverify("verify", "wrong").status == 1
    assert dlverify("verify", "--output-format", "json", "--sarif", "s.sarif").status == 1
    (result,) = json.loads((here / "s.sarif").read_text())["runs"][0]["results"]
    assert result["message"]["text"].startswith("wrong: ")
    (here / "dlverify.toml").write_text(
        TOML.replace('"relations.yaml"\n\n', '"relations.yaml"\nexpect = "UNKNOWN"\n\n')
    )
    status, _, err = dlverify("verify", "mlp")
    assert status == 3
    assert "mlp is PROVED, expected UNKNOWN" in err


def test_the_file_is_found_from_below_and_paths_are_its_own(
    dlverify: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = here / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert dlverify("verify", "mlp", "--output-format", "quiet").status == 0


def test_a_table_of_pyproject_serves_as_well(dlverify: Run, here: Path) -> None:
    text = TOML.replace("[pairs.", "[tool.dlverify.pairs.").replace("strict", "[tool.dlverify]\nstrict")
    (here / "dlverify.toml").unlink()
    (here / "pyproject.toml").write_text(text)
    assert dlverify("verify", "mlp", "--output-format", "quiet").status == 0


def test_options_of_a_pair_hold(dlverify: Run, here: Path) -> None:
    (here / "dlverify.toml").write_text(TOML.replace("strict = false", "strict = true"))
    assert dlverify("verify", "mlp", "--output-format", "quiet").status == 3
    _, out, _ = dlverify("verify", "mlp", "--json")
    (here / "agreed.json").write_text(out)
    agreed = TOML.replace("strict = false", 'strict = true\naccept = "agreed.json"')
    (here / "dlverify.toml").write_text(agreed)
    assert dlverify("verify", "mlp", "--output-format", "quiet").status == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("relate =", "relat ="), "did you mean `relate`?"),
        (("[pairs.mlp]", "[pair.mlp]"), "did you mean `pairs`?"),
        (('mesh = "tp=2"', "mesh = 2"), "text or a table"),
        (('mesh = "tp=2"\n', ""), "no `mesh`"),
        (('"REFUTED"', '"refuted"'), "PROVED or REFUTED or UNKNOWN"),
        (("strict = false", "strict = 1"), "true or false"),
        (("strict = false", "timeout = -1"), "a number above 0"),
        (("strict = false", "max_memory = 0"), "a number above 0"),
        (('mesh = "tp=2"', 'mesh = "tp=2"\nfacts = "facts"'), "a directory of facts, or two programs"),
        (('"dist.hlo"', '"none*.hlo"'), "matches no file"),
        (("[pairs.mlp]", "[pairs.mlp"), "not TOML"),
    ],
)
def test_a_wrong_file_is_bad_input_with_its_name(dlverify: Run, here: Path, change: tuple[str, str], said: str) -> None:
    assert change[0] in TOML
    (here / "dlverify.toml").write_text(TOML.replace(*change))
    status, out, err = dlverify("verify", "mlp")
    assert (status, out) == (2, "")
    assert "dlverify.toml" in err
    assert said in err


def test_times_of_several_pairs_are_their_own(dlverify: Run, here: Path) -> None:
    spent = time.process_time()
    dlverify("verify", "--junit", "j.xml")
    spent = time.process_time() - spent
    times = [float(suite.get("time", "")) for suite in ET.parse(here / "j.xml").getroot()]
    assert len(times) == 2
    assert 0 < sum(times) <= spent


def test_a_pair_without_dumps_is_bad_input_among_others(dlverify: Run, here: Path) -> None:
    (here / "dlverify.toml").write_text(TOML.replace('"dist.hlo"', '"none*.hlo"'))
    status, out, err = dlverify("verify", "--sarif", "s.sarif", "--junit", "j.xml")
    assert status == 2
    assert "bad input" in err
    assert "matches no file" in err
    assert "1 as expected" in out
    assert ET.parse(here / "j.xml").getroot().get("errors") == "1"
    (told,) = json.loads((here / "s.sarif").read_text())["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert "none*.hlo" in told["message"]["text"]
    assert dlverify("verify", "wrong").status == 0


def test_an_unknown_pair_and_no_file_at_all(dlverify: Run, here: Path) -> None:
    status, _, err = dlverify("verify", "mpl")
    assert status == 2
    assert "one of mlp" in err
    (here / "dlverify.toml").unlink()
    status, _, err = dlverify("verify", "mlp")
    assert status == 2
    assert "dlverify init" in err


def test_dumps_without_a_mesh_are_told_from_names_of_pairs(dlverify: Run, here: Path) -> None:
    status, _, err = dlverify("verify", "base.hlo", "dist.hlo")
    assert status == 2
    assert "dlverify verify base.hlo dist.hlo --mesh" in err


def test_init_reads_the_mesh_that_a_module_names(
    dlverify: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jaxlib", reason="StableHLO is parsed by jaxlib")
    for side in ("base", "dist"):
        name = f"{'right.' * (side == 'dist')}{side}.mlir"
        shutil.copy(ROOT / "examples" / "steps" / "shard_map_mlp" / name, tmp_path / f"mlp.{side}.mlir")
    monkeypatch.chdir(tmp_path)
    assert dlverify("init")[:2] == (0, "dlverify.toml: mlp\n")
    assert project.load(tmp_path / "dlverify.toml").pair("mlp").mesh


def test_ranks_of_a_glob_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for n in (0, 1, 2, 10):
        (tmp_path / f"m.r{n}.fx.txt").write_text("")
    (tmp_path / "dlverify.toml").write_text('[pairs.m]\nbase = "b"\ndist = "m.r*.fx.txt"\nmesh = "tp=4"\n')
    pair = project.load(tmp_path / "dlverify.toml").pair("m")
    assert [f.name for f in pair.dist] == ["m.r0.fx.txt", "m.r1.fx.txt", "m.r2.fx.txt", "m.r10.fx.txt"]


def test_init_drafts_from_what_lies_here(dlverify: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(LLAMA, tmp_path / "dump")
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        note = tmp_path / "dump" / f"llama.r{rank}.json"
        note.write_text(json.dumps(json.loads(note.read_text()) | {"rank": rank, "mesh": {"tp": 2}}))
    for side in ("base", "dist"):  # of this pair no dump says the mesh
        shutil.copy(HLO / f"{side}.hlo", tmp_path / f"mlp.{side}.hlo")
    status, out, err = dlverify("init")
    assert (status, out) == (0, "dlverify.toml: llama\n")
    assert "left out: no dump says the mesh of mlp" in err
    assert dlverify("verify", "llama", "--output-format", "quiet").status == 0


def test_init_writes_no_guess_as_given(dlverify: Run, here: Path) -> None:
    (here / "dlverify.toml").unlink()
    assert dlverify("init", "base.hlo", "dist_gate_for_up.hlo", "--mesh", "tp=2", "--name", "mlp").status == 0
    drafted = here / "mlp.relations.yaml"
    assert "guessed" in drafted.read_text()
    assert load_relations(drafted) == Relations()
    status, out, _ = dlverify("verify", "mlp", "--json")
    assert {a["why"] for a in json.loads(out)["assumptions"]} <= {"shape", "name"}
    assert json.loads(out)["verdict"] == "UNKNOWN"  # nothing is refuted on a guess
    assert status == 3


def test_init_adds_pairs_and_overwrites_nothing(dlverify: Run, here: Path) -> None:
    status, _, err = dlverify("init", "base.hlo", "dist.hlo", "--mesh", "tp=2", "--name", "mlp")
    assert status == 2
    assert "not overwritten" in err
    assert (here / "dlverify.toml").read_text() == TOML
    (here / "more.relations.yaml").write_text((here / "relations.yaml").read_text())
    assert dlverify("init", "base.hlo", "dist.hlo", "--mesh", "tp=2", "--name", "more").status == 0
    assert (here / "dlverify.toml").read_text().startswith(TOML)
    assert dlverify("verify", "--output-format", "quiet").out.splitlines() == [
        "PROVED  mlp", "REFUTED  wrong", "PROVED  more",
    ]  # fmt: skip


def test_a_pair_that_is_bad_input_ends_no_other(dlverify: Run, here: Path) -> None:
    (here / "dlverify.toml").write_text('[pairs.odd]\nbase = "base.hlo"\ndist = "dist.hlo"\nmesh = "tp=3"\n\n' + TOML)
    status, out, err = dlverify("verify", "--junit", "all.xml", "--sarif", "all.sarif")
    (run,) = json.loads((here / "all.sarif").read_text())["runs"]
    assert run["results"] == []  # what is REFUTED as it should be is no alert
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"].startswith("odd: dist.hlo")
    assert status == 2
    assert "odd: bad input\n" in err
    assert [line.split()[:2] for line in out.splitlines()[1:4]] == [
        ["mlp", "PROVED"], ["wrong", "REFUTED"], ["odd", "BAD"],
    ]  # fmt: skip
    assert out.endswith("3 pairs, 2 as expected, 1 bad input\n")
    (error,) = ET.parse(here / "all.xml").iter("error")
    assert "dist.hlo" in error.attrib["message"]
    found = json.loads(dlverify("verify", "--json").out)
    assert (found["verdict"], found["as_expected"], len(found["sets"])) == (None, False, 3)
    assert dlverify("verify", "odd").status == 2


def test_init_asks_nothing_without_a_terminal(here: Path) -> None:
    (here / "dlverify.toml").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "scalify_dl", "init", "base.hlo", "dist.hlo"],
        stdin=subprocess.PIPE, capture_output=True, text=True, timeout=60, cwd=here, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2
    assert "no dump says the mesh of base" in done.stderr
    assert "dlverify init base.hlo dist.hlo --mesh AXIS=N" in done.stderr
    assert not (here / "dlverify.toml").exists()


def test_init_says_what_it_looks_for(dlverify: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = dlverify("init")
    assert status == 2
    assert "NAME.base.fx.txt" in err


def test_the_schema_of_relations_knows_what_the_reader_knows(dlverify: Run) -> None:
    schema = json.loads(dlverify("schema", "relations").out)
    assert set(schema["properties"]) == set(Relations.__dataclass_fields__)
    assert dlverify("schema", "nosuch").status == 2


def test_relations_files_of_the_examples_fit_the_schema(dlverify: Run) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    import yaml

    schema = json.loads(dlverify("schema", "relations").out)
    files = [*ROOT.glob("examples/**/relations*.yaml")]
    assert files
    for file in files:
        content = json.loads(json.dumps(yaml.safe_load(file.read_text("utf-8"))))  # keys as texts
        jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"inptus": {}}, schema)


def test_the_report_of_all_pairs_may_be_a_list_of_accepted_assumptions(tmp_path: Path) -> None:
    saved = tmp_path / "agreed.json"
    one = {"tensor": "x", "text": "its values are finite", "why": "finite", "accepted": False}
    saved.write_text(json.dumps({"verdict": "PROVED", "sets": [{"set": "a", "assumptions": [one]}, {"set": "b"}]}))
    accepted = Accepted.load(saved)
    assert accepted.mark(Assumption("x", "its values are finite", "finite")).accepted
    assert not accepted.mark(Assumption("y", "its values are finite", "finite")).accepted


def test_a_wrong_mesh_is_one_of_the_file_that_says_it(dlverify: Run, here: Path) -> None:
    (here / "dlverify.toml").write_text('[pairs.mlp]\nbase = "base.hlo"\ndist = "dist.hlo"\nmesh = "tp=-5"\n')
    status, _, err = dlverify("verify", "mlp")
    assert status == 2
    assert "dlverify.toml: [pairs.mlp]: mesh: `tp=-5` is not an axis" in err
    captures = "symbols: {tp: }\ncaptures:\n- {base: base.hlo, dist: dist.hlo, mesh: tp=0}\n"
    (here / "family.yaml").write_text(captures)
    status, _, err = dlverify("family", "family.yaml")
    assert status == 2
    assert "family.yaml:3:42: mesh: `tp=0` is not an axis" in err
    (here / "family.yaml").write_text(captures.replace("tp=0", "tp=2").replace("{tp: }", '{tp: , s: "x:9"}'))
    status, _, err = dlverify("family", "family.yaml")
    assert status == 2
    assert err.startswith("dlverify: family.yaml: s=x:9")
