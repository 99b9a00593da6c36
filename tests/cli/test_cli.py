"""The command line: exit statuses, formats, bad input."""

import html
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from scalify_dl import cli

ROOT = Path(__file__).parents[2]
PROVED = ROOT / "facts" / "row_parallel_linear"
BUG = ROOT / "facts" / "row_parallel_linear_bias_per_rank"


class Result(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def dlverify(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""

    def run(*arguments: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["dlverify", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capfd.readouterr()
        return Result(int(exit_.value.code or 0), out, err)

    return run


def test_a_proof_exits_with_0_verdict_first(dlverify: Run) -> None:
    status, out, err = dlverify("run", PROVED)
    assert (status, err) == (0, "")
    assert out.startswith("PROVED  1 of 1 output proved\n")


def test_json_is_one_object_with_the_keys_of_the_contract(dlverify: Run) -> None:
    status, out, _ = dlverify("run", PROVED, "--json")
    got = json.loads(out)
    assert status == 0
    assert got["verdict"] == "PROVED"
    assert set(got["outputs"][0]) >= {"name", "base", "verdict", "layout"}
    assert got["frontier"] == []
    assert got["counterexample"] is None
    assert set(got["stats"]) >= {"ops", "tuples", "cpu_s", "peak_mb"}


def test_a_refuted_pair_exits_with_1_and_its_counterexample(dlverify: Run) -> None:
    status, out, _ = dlverify("run", BUG, "--json")
    got = json.loads(out)
    assert (status, got["verdict"]) == (1, "REFUTED")
    assert got["counterexample"]["kind"] == "refutation"
    assert got["frontier"]


def test_without_the_search_it_is_unknown_with_status_3(dlverify: Run) -> None:
    status, out, _ = dlverify("run", BUG, "--no-refute", "--json")
    assert (status, json.loads(out)["verdict"]) == (3, "UNKNOWN")


def test_a_directory_of_fact_sets_runs_them_all(dlverify: Run) -> None:
    _, out, err = dlverify("run", ROOT / "facts")
    sets = sorted(p.name for p in (ROOT / "facts").iterdir() if p.is_dir())
    assert [line.split()[0] for line in out.splitlines()[1 : 1 + len(sets)]] == sets
    assert out.rstrip().splitlines()[-1].startswith(f"{len(sets)} pairs, ")
    assert [line.split(":")[0] for line in err.splitlines()] == sets


def test_strict_takes_no_assumption_that_is_not_accepted(dlverify: Run, tmp_path: Path) -> None:
    _, out, _ = dlverify("run", PROVED, "--json")
    assert json.loads(out)["assumptions"]
    assert dlverify("run", PROVED, "--strict")[0] == 3
    agreed = tmp_path / "agreed.json"
    agreed.write_text(out)
    assert dlverify("run", PROVED, "--strict", "--accept", agreed)[0] == 0


def test_a_new_assumption_is_named_everywhere_with_the_entry_to_paste(dlverify: Run, tmp_path: Path) -> None:
    new, *old = json.loads(dlverify("run", PROVED, "--json").out)["assumptions"]
    agreed, xml, page, log = (tmp_path / name for name in ("agreed.yaml", "r.xml", "r.html", "r.sarif"))
    printed = [{"text": f"{a['label']}: {a['words']}"} for a in old]  # as a report prints them
    agreed.write_text(json.dumps([*printed, {"why": "gven"}]))
    strict = ("run", PROVED, "--strict", "--accept", agreed)
    status, out, _ = dlverify(*strict, "--junit", xml, "--html", page, "--sarif", log)
    said = f"not accepted: {new['label']}: {new['words']} ({new['why']})"
    assert status == 3
    assert said in out
    assert f"1 entry of {agreed} matches no assumption: {{why: gven}}" in out
    assert said in html.unescape(xml.read_text())
    assert said in html.unescape(page.read_text())
    assert json.loads(log.read_text())["runs"][0]["results"][0]["ruleId"] == "assumption"
    assert said in dlverify(*strict, "-q").out
    (line,) = [line for line in out.splitlines() if "to accept it" in line]
    agreed.write_text(json.dumps(printed) + "\n")
    entry = json.loads(line.partition(": - ")[2])
    agreed.write_text(json.dumps([*printed, entry]))
    assert dlverify(*strict)[0] == 0
    assert "--strict" in dlverify("run", PROVED, "--accept", agreed).out
    (tmp_path / "a").symlink_to(PROVED)
    (tmp_path / "b").symlink_to(PROVED)
    assert said in dlverify("run", tmp_path, "--strict", "-q").out
    agreed.write_text("- {why: gven}\n")
    several = ("run", tmp_path, "--accept", agreed, "-q")
    assert "matches no assumption: {why: gven}" in dlverify(*several).err


@pytest.mark.parametrize("text", ["[", "just text", "- {tensr: x}", "- x", "- {accepted: true}"])
def test_a_wrong_file_of_accepted_assumptions_is_bad_input(dlverify: Run, tmp_path: Path, text: str) -> None:
    agreed = tmp_path / "agreed.yaml"
    agreed.write_text(text)
    status, out, err = dlverify("run", PROVED, "--accept", agreed)
    assert (status, out) == (2, "")
    assert str(agreed) in err


def test_reports_are_written_where_asked(dlverify: Run, tmp_path: Path) -> None:
    dlverify("run", BUG, "--sarif", tmp_path / "r.sarif", "--html", tmp_path / "r.html")
    assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_results_are_kept_and_can_be_queried(dlverify: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert dlverify("run", PROVED, "--out", out)[0] == 0
    corr = [line.split("\t") for line in (out / "corr.csv").read_text().splitlines()]
    assert corr
    assert all(len(row) == 5 for row in corr)
    query = "corr(D, _, B, _, L), expect(D, B, _)"
    kept, derived = (json.loads(dlverify("query", d, query, "--json").out) for d in (out, PROVED))
    assert kept == derived
    assert set(kept[0]) == {"D", "B", "L"}
    assert dlverify("query", out, 'op(_, _, "all-reduce")').out == "yes\n"
    assert dlverify("query", out, 'op(O, G, "dot")', "--tsv").out.count("\t") == 2 * 1


def test_a_program_can_go_on_from_what_is_kept(dlverify: Run, tmp_path: Path) -> None:
    dlverify("run", PROVED, "--out", tmp_path / "out")
    program = tmp_path / "p.dl"
    rule = 'p(d) :- corr(d, "", _, "", l), contains("sum", l), !frontier(d).'
    program.write_text(f'#include "out/relations.dl"\n.decl p(d:symbol) .output p\n{rule}\n')
    status, out, _ = dlverify("datalog", program, "-F", tmp_path / "out", "-D", "-")
    assert status == 0
    assert len(out.splitlines()) > 3


def test_a_directory_with_other_files_is_not_written_to(dlverify: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("1\n")
    assert dlverify("run", PROVED, "--out", tmp_path)[0] == 2
    assert [p.name for p in tmp_path.iterdir()] == ["mine.csv"]


def test_a_wrong_query_is_bad_input(dlverify: Run) -> None:
    for query in ("nope(x)", "op(x, _", "op(x", "op(x, _, _), y < 3", ""):
        status, out, err = dlverify("query", PROVED, query)
        assert (status, out) == (2, ""), query
        assert err.startswith("dlverify: ")


def test_explain_tells_why_and_why_not(dlverify: Run) -> None:
    (name,) = {
        row["N"] for row in json.loads(dlverify("query", PROVED, "expect(D, _, _), tensor_name(D, N)", "--json").out)
    }
    status, out, _ = dlverify("explain", PROVED, name)
    assert status == 0
    assert " holds " in out
    assert ".dl:" in out
    op = json.loads(dlverify("run", BUG, "--json").out)["frontier"][0]["op"]
    status, out, _ = dlverify("explain", BUG, op)
    assert status == 3
    assert "corresponds to nothing" in out
    assert dlverify("explain", PROVED, "nothing of this name")[0] == 2


def test_audit_confirms_what_the_rules_derive(dlverify: Run, tmp_path: Path) -> None:
    status, out, _ = dlverify("audit", PROVED)
    assert status == 0
    assert "true" in out
    dlverify("run", PROVED, "--out", tmp_path / "out")
    rows = (tmp_path / "out" / "corr.csv").read_text().splitlines()
    wrong = next(row for row in rows if "|tp=0:" in row or "|tp=1:" in row)
    (tmp_path / "corr.tsv").write_text(wrong.replace(":1x", ":1x", 1).rsplit("\t", 1)[0] + "\t[0:1x1]|tp=r2\n")
    status, out, _ = dlverify("audit", PROVED, "--relations", tmp_path)
    assert status == 1
    assert f"{tmp_path}/corr.tsv:1: " in out


def test_a_certificate_is_written_for_a_proof_and_checked_against_the_facts(dlverify: Run, tmp_path: Path) -> None:
    proof = tmp_path / "proof.jsonl.gz"
    assert dlverify("run", PROVED, "--certificate", proof)[0] == 0
    status, out, _ = dlverify("check", proof, PROVED)
    assert status == 0
    assert out.startswith("accepted: ")
    assert "of 0 steps" not in out
    status, out, err = dlverify("check", proof, BUG, "--json")
    assert (status, json.loads(out)["accepted"]) == (3, False)
    assert "other facts" in err
    own = tmp_path / "own.dl"
    own.write_text('opaque("custom:nothing", "nothing that is called").\n')
    assert dlverify("run", PROVED, "--certificate", proof, "--rules", own)[0] == 0
    assert "named with --rules" in dlverify("check", proof, PROVED).err
    assert dlverify("check", proof, PROVED, "--rules", own)[0] == 0
    none = tmp_path / "none.gz"
    assert "no certificate" in dlverify("run", BUG, "--certificate", none).err
    assert not none.exists()


def test_rules_check_fuzzes_the_rules_and_fails_on_lemmas_never_exercised(dlverify: Run, tmp_path: Path) -> None:
    status, out, _ = dlverify("rules", "check", "--seconds", "0.3", "--out", tmp_path / "report.json", "--json")
    got = json.loads(out)
    assert (status, got["unsound"]) == (3, [])
    assert got["pairs"] > 0
    assert "block-scatter" in "".join(got["never_exercised"])
    assert json.loads((tmp_path / "report.json").read_text()) == got


def test_export_relate_and_facts_show_what_is_read(dlverify: Run, tmp_path: Path) -> None:
    module = "HloModule m\n\nENTRY %main (x: f32[{n}]) -> f32[{n}] {{\n  %x = f32[{n}]{{0}} parameter(0)\n"
    module += "  ROOT %y = f32[{n}]{{0}} negate(%x)\n}}\n"
    base, dist, facts = tmp_path / "base.hlo", tmp_path / "dist.hlo", tmp_path / "facts"
    base.write_text(module.format(n=8))
    dist.write_text(module.format(n=4))
    assert dlverify("export", base, dist, "--mesh", "tp=2", "-o", facts)[0] == 0
    assert "tp=2" in dlverify("facts", facts).out
    template = dlverify("relate", base, dist, "--mesh", "tp=2").out
    (tmp_path / "relations.yaml").write_text(template)
    relate = ("--relate", tmp_path / "relations.yaml")
    for found in (
        dlverify("run", facts, "--json"),
        dlverify("verify", base, dist, "--mesh", "tp=2", *relate, "--json"),
    ):
        assert found.status == 0
        assert json.loads(found.out)["outputs"][0]["pattern"] == "(tp a) -> a"


def test_rules_may_be_given_as_several_files(dlverify: Run, tmp_path: Path) -> None:
    files = [tmp_path / "a.dl", tmp_path / "b.dl"]
    for file in files:
        file.write_text(f".decl of_{file.stem}(o:symbol)\nof_{file.stem}(o) :- op(o, _, _).\n")
    assert dlverify("query", PROVED, "of_a(x), of_b(x)", "--rules", *files)[0] == 0
    status, _, err = dlverify("run", PROVED, "--rules", tmp_path / "missing.dl")
    assert status == 2
    assert "missing.dl" in err


def test_a_wrong_rules_file_is_bad_input_with_its_line(dlverify: Run, tmp_path: Path) -> None:
    file = tmp_path / "wrong.dl"
    file.write_text("\nnope(x) :- op(x, _, _).\n")
    status, out, err = dlverify("run", PROVED, "--rules", file)
    assert (status, out) == (2, "")
    assert f"{file}:2" in err


def test_a_stopped_run_is_unknown(dlverify: Run) -> None:
    step = ROOT / "examples" / "steps" / "tensor_parallel_mlp"
    pair = [str(step / "base.fx.txt"), *map(str, sorted(step.glob("right.r*.fx.txt")))]
    status, out, _ = dlverify("verify", *pair, "--mesh", "tp=2", "--max-memory", "1", "--no-refute")
    assert status == 3
    assert "the rules were stopped (max_memory" in out
    status, out, _ = dlverify("run", PROVED, "--timeout", "0.000001", "--no-refute")
    assert status == 3
    assert "the rules were stopped (timeout" in out
    assert "took more than 1e-06 s" in out
    last = ROOT / "facts" / "gqa_fused_qkv"  # stopped behind the proof of its output
    assert dlverify("run", last, "--max-memory", "1", "--no-refute")[0] == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "no/such/place"),
        ("run", ROOT / "pyproject.toml"),
        ("facts", "no/such/place"),
        ("check", "no/such/certificate", PROVED),
        ("run", PROVED, "--certificate", "no/such/place/c.gz"),
        ("run", PROVED, "--nonsense"),
        ("verify", "a.hlo"),
        ("verify", "a.hlo", "b.hlo", "--mesh", "tp=2"),
        ("export", "a.hlo", "b.hlo", "--mesh", "tp=2", "-o", "x"),
        ("relate", "a.hlo", "b.hlo", "--mesh", "tp=0"),
        ("nonsense",),
        ("run", PROVED, "--timeout", "0"),
        ("run", PROVED, "--timeout", "-1"),
        ("run", PROVED, "--max-memory", "0"),
    ],
)
def test_bad_input_exits_with_2_and_says_why(dlverify: Run, arguments: tuple[str | Path, ...]) -> None:
    status, out, err = dlverify(*arguments)
    assert (status, out) == (2, "")
    assert err


def test_damaged_facts_are_named_by_file_and_line(dlverify: Run, tmp_path: Path) -> None:
    for file in PROVED.glob("*.facts"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "op.facts").write_text((PROVED / "op.facts").read_text() + "lonely\n")
    status, out, err = dlverify("run", tmp_path, "--json", "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert "op.facts:" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told_in_a_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scalify_dl", "run", str(PROVED)], stdout=full, stderr=subprocess.PIPE, text=True,
            cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["dlverify: the output cannot be written: No space left on device"]


def test_the_version_is_printed(dlverify: Run) -> None:
    status, out, _ = dlverify("--version")
    assert (status, out.split()[0]) == (0, "dlverify")


def test_help_starts_fast() -> None:
    code = "import resource, sys; from scalify_dl.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    code += "u = resource.getrusage(resource.RUSAGE_SELF); print(u.ru_utime + u.ru_stime, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "verify" in done.stdout
    assert float(done.stderr) < 1.0


def test_a_fault_of_ours_never_looks_like_a_verdict(dlverify: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from scalify_dl.commands import inputs

    def fail(_: Path) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(inputs, "summary", fail)
    status, _, err = dlverify("facts", PROVED)
    assert status == 70
    assert "a fault" in err


def test_quiet_is_one_line_and_the_status(dlverify: Run) -> None:
    for flag in ("--quiet", "-q", "--output-format=quiet"):
        assert dlverify("run", BUG, flag)[:2] == (1, dlverify("run", BUG, "--output-format", "quiet").out)
    assert len(dlverify("run", BUG, "-q").out.splitlines()) == 1
    wrong = dlverify("run", BUG, "-q", "--output-format", "github")
    assert (wrong.status, wrong.out) == (2, "")
    assert "one of them" in wrong.err


def test_no_color_prints_no_escapes_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from scalify_dl.consoles import Console

    for asked, plain in (("1", True), ("", False)):
        monkeypatch.setenv("NO_COLOR", asked)
        console = Console(force_terminal=True)
        with console.capture() as printed:
            console.print("PROVED", style="bold")
        assert ("\x1b" not in printed.get()) is plain


@pytest.mark.parametrize("words", [("--no-color", "schema"), ("schema", "--no-color")])
def test_no_color_is_an_option_of_all_commands(
    dlverify: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert dlverify(*words)[:2] == dlverify("schema")[:2]
    assert os.environ["NO_COLOR"] == "1"


def test_what_is_left_to_do_is_counted_and_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    from scalify_dl.commands import progress

    monkeypatch.setattr(progress.time, "monotonic", lambda: 30.0)
    assert progress.counted(3, 10, since=15.0) == "3 of 10, about 35 s left"
    assert progress.counted(1, 100, since=15.0) == "1 of 100, about 25 min left"
    assert (progress.counted(0, 10, since=30.0), progress.counted(10, 10, since=0.0)) == ("0 of 10", "10 of 10")
