"""What newcomers ran into: each said in words now, or right."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .test_cli import PROVED, ROOT, Run, dlverify

__all__ = ["dlverify"]
HLO = ROOT / "examples" / "hlo"


def test_a_query_whose_parts_share_no_variable_is_pointed_out(dlverify: Run) -> None:
    status, _, err = dlverify("query", PROVED, 'corr(D,_,T,_,L), op(O,_,"dot")', "--tsv")
    assert status == 0
    assert "`corr` and `op` share no variable" in err


@pytest.mark.parametrize(
    "query",
    ["corr(D,_,B,_,_), result(O,_,D), op(O,_,K)", 'op(O,_,"dot"), O != "x"', "op(O,_,_), N = count : {op(_,_,_)}"],
)
def test_a_query_that_joins_is_not(dlverify: Run, query: str) -> None:
    assert dlverify("query", PROVED, query, "--tsv").err == ""


def test_the_query_of_the_manual_gives_what_dots_hold(dlverify: Run) -> None:
    manual = (ROOT / "docs" / "cli.md").read_text("utf-8")
    text = next(line for line in manual.splitlines() if line.startswith("dlverify query   FACTS")).split("'")[1]
    rows = json.loads(dlverify("query", PROVED, text, "--json").out)
    assert {row["D"] for row in rows} == {"dot"}


def test_a_program_that_goes_on_from_results_is_quiet(dlverify: Run, tmp_path: Path) -> None:
    dlverify("run", PROVED, "--out", tmp_path / "out")
    program = tmp_path / "p.dl"
    program.write_text('#include "out/relations.dl"\n.decl p(d:symbol) .output p\np(d) :- corr(d, "", _, "", _).\n')
    status, out, err = dlverify("datalog", program, "-F", tmp_path / "out", "-D", "-")
    assert (status, err) == (0, "")
    assert "all-reduce" in out


def test_explain_of_a_baseline_tensor_tells_who_holds_it(dlverify: Run) -> None:
    status, out, _ = dlverify("explain", PROVED, "base/add")
    assert status == 0
    assert "add holds add" in out


def test_an_empty_directory_says_what_should_be_in_it(dlverify: Run, tmp_path: Path) -> None:
    status, _, err = dlverify("run", tmp_path)
    assert status == 2
    assert "holds no fact tables" in err
    assert "dlverify export" in err


def test_an_atom_with_a_typo_is_corrected(dlverify: Run, tmp_path: Path) -> None:
    program = tmp_path / "p.dl"
    program.write_text(".decl path(x:number, y:number)\npath(1, 2).\n.output path\n")
    for option in ("--explain", "--why-not"):
        status, _, err = dlverify("datalog", program, "-D", "-", option, "pth(1, 2)")
        assert status == 2
        assert "did you mean path?" in err


def test_one_file_given_as_both_programs_is_pointed_out(dlverify: Run, tmp_path: Path) -> None:
    shutil.copy(HLO / "base.hlo", tmp_path / "copy.hlo")
    _, out, _ = dlverify("verify", HLO / "base.hlo", tmp_path / "copy.hlo", "--mesh", "tp=2")
    assert "is this the file you meant?" in out
    _, out, _ = dlverify("verify", HLO / "base.hlo", HLO / "dist.hlo", "--mesh", "tp=2")
    assert "is this the file you meant?" not in out


def test_one_input_under_two_keys_is_refused(dlverify: Run, tmp_path: Path) -> None:
    relations = tmp_path / "r.yaml"
    relations.write_text("inputs:\n  '#1': {dims: {1: [tp]}}\n  gate_up: {dims: {1: [tp]}}\n")
    status, _, err = dlverify("verify", *_pair(), "--relate", relations)
    assert status == 2
    assert f"{relations}:3" in err


def _pair() -> tuple[str | Path, ...]:
    return HLO / "base.hlo", HLO / "dist.hlo", "--mesh", "tp=2"


def test_a_typo_in_relations_is_corrected(dlverify: Run, tmp_path: Path) -> None:
    relations = tmp_path / "r.yaml"
    relations.write_text("inputs:\n  gate_upp: {dims: {1: [tp]}}\n")
    status, _, err = dlverify("verify", *_pair(), "--relate", relations)
    assert status == 2
    assert "did you mean `gate_up`?" in err


def test_a_constant_that_no_dump_prints_comes_with_the_line_to_write(dlverify: Run, tmp_path: Path) -> None:
    base = tmp_path / "base.fx.txt"
    dist = tmp_path / "dist.fx.txt"
    head = 'class GraphModule(torch.nn.Module):\n    def forward(self, arg0_1: "f32[4, 4]"):\n        '
    base.write_text(
        head + 'mul: "f32[4, 4]" = torch.ops.aten.mul.Tensor(arg0_1, 2);  arg0_1 = None\n        return (mul,)\n'
    )
    dist.write_text(
        head + '_tensor_constant0: "f32[]" = self._tensor_constant0\n        '
        'mul: "f32[4, 4]" = torch.ops.aten.mul.Tensor(arg0_1, _tensor_constant0)\n        return (mul,)\n'
    )
    status, out, _ = dlverify("verify", base, dist, "--mesh", "tp=2")
    assert status != 0
    assert "constants: {_tensor_constant0: VALUE}" in out
    relations = tmp_path / "r.yaml"
    relations.write_text("constants: {_tensor_constant0: 2}\n")
    assert dlverify("verify", base, dist, "--mesh", "tp=2", "--relate", relations).status == 0


def test_rules_check_blames_the_line_of_the_user(dlverify: Run, tmp_path: Path) -> None:
    rules = tmp_path / "mine.dl"
    rules.write_text(".decl mine(x:symbol)\nmine(x) :- op(x, _).\n")
    status, out, err = dlverify("rules", "check", rules, "--seconds", "1")
    assert (status, out) == (2, "")
    assert f"{rules}:2:12" in err or f"{rules}:2:" in err


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from scalify_dl.commands import progress

    with progress.progress("reading"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "FIRST", 0.01)
    for quiet in (False, True):
        with progress.progress("reading", quiet=quiet) as say:
            say("proving")
            time.sleep(0.2)
        assert capsys.readouterr().err == ("" if quiet else "dlverify: proving (0 s)\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", [["run", str(PROVED)], ["rules", "list"], ["facts", str(PROVED)]])
def test_a_full_disk_is_told_in_a_line(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scalify_dl", *command], stdout=full, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, timeout=60, cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_during_imports_is_no_traceback() -> None:
    code = (
        "import builtins, runpy, sys\n"
        "own = builtins.__import__\n"
        "def imported(name, *more, **others):\n"
        "    if name == 'scalify_dl.cli': raise KeyboardInterrupt\n"
        "    return own(name, *more, **others)\n"
        "builtins.__import__ = imported\n"
        "sys.argv = ['dlverify']\n"
        "runpy.run_module('scalify_dl', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "dlverify: interrupted\n")


LEMMA = """
// Lemma pack-unpack
// Statement: what was packed and is unpacked holds what it held before.
opaque("custom:Unpack", "is the inverse of Pack").
holds(d, t, l) :-
    op(u, "dist", "custom:Unpack"), arg(u, 0, p), out(o, 0, p), op(o, "dist", "custom:Pack"), arg(o, 0, x),
    out(u, 0, d), holds(x, t, l).
"""


def test_a_lemma_of_ones_own_is_shown(dlverify: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.dl"
    own.write_text(LEMMA)
    shown = dlverify("rules", "show", "pack-unpack", own)
    assert shown.status == 0
    assert "what was packed and is unpacked holds what it held before." in shown.out
    assert not any(line.endswith(" ") for line in shown.out.splitlines()), "what goes into a pipe is not padded"
    missing = dlverify("rules", "show", "pack-unpack", tmp_path / "nowhere.dl")
    assert missing.status == 2
    assert "no such rules file" in missing.err


def test_the_steps_of_a_certificate_are_told_in_words(dlverify: Run, tmp_path: Path) -> None:
    proof = tmp_path / "proof.gz"
    assert dlverify("run", PROVED, "--certificate", proof)[0] == 0
    status, out, _ = dlverify("check", proof, PROVED, "--steps")
    assert status == 0
    told = re.findall(r"^ +(\d+)  (.*)  \[([\w/-]+)(?: from ([\d, ]+))?\]$", out, re.M)
    number = {text: n for n, text, _, _ in told}
    x, w = number["x holds x: dim 1 cut over tp into 2 blocks"], number["w holds w: dim 0 cut over tp into 2 blocks"]
    dot, summed = number["dot holds dot: sum pending over tp"], number["all-reduce holds dot: whole over tp"]
    steps = {n: (lemma, before) for n, _, lemma, before in told}
    assert steps[dot] == ("sharding-rule", ", ".join(sorted((x, w), key=int)))
    assert steps[summed] == ("all-reduce", dot)
    assert re.search(r"output add is PROVED  \[conclude/verdict\.dl:\d+ from \d+\]\n", out)
    assert "pending on the groups' sub-axes becomes replicated" in out.split("\nLemmas\n")[1]
    _, every, _ = dlverify("check", proof, PROVED, "--all-steps")
    assert f"{dot}  holds(" in every
    assert f"of {every.count(chr(10)) - 2} steps" in out.splitlines()[-1]
    assert dlverify("check", proof, PROVED, "--steps", "--json")[0] == 2


def test_a_certificate_given_dumps_says_how_to_write_their_facts(dlverify: Run, tmp_path: Path) -> None:
    proof = tmp_path / "proof.jsonl.gz"
    assert dlverify("run", PROVED, "--certificate", proof).status == 0
    status, _, err = dlverify("check", proof, HLO / "base.hlo", HLO / "dist.hlo")
    assert status == 2
    assert "dlverify export" in err


def test_a_strict_verdict_says_first_why_it_is_unknown(dlverify: Run) -> None:
    status, out, _ = dlverify("run", PROVED, "--strict")
    assert status == 3
    assert any("not accepted: " in line for line in out.splitlines()[:4])


def test_a_configured_pair_is_titled_as_it_lies_here(
    dlverify: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("base.hlo", "dist.hlo"):
        shutil.copy(HLO / name, tmp_path / name)
    (tmp_path / "dlverify.toml").write_text('[pairs.one]\nbase = "base.hlo"\ndist = "dist.hlo"\nmesh = "dp=2,tp=2"\n')
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) not in dlverify("verify", "one").out


@pytest.mark.parametrize("seconds", ["0", "-1"])
def test_trying_rules_for_no_time_is_refused(dlverify: Run, seconds: str) -> None:
    status, _, err = dlverify("rules", "check", "--seconds", seconds)
    assert status == 2
    assert "--seconds" in err


def test_a_family_without_captures_is_refused(dlverify: Run, tmp_path: Path) -> None:
    (tmp_path / "family.yaml").write_text("symbols: {tp: }\ncaptures: []\n")
    status, _, err = dlverify("family", tmp_path / "family.yaml")
    assert status == 2
    assert "captures is no list, or has nothing in it" in err


def test_a_report_may_go_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "scalify_dl", "run", str(PROVED), "--html", str(pipe), "--output-format", "quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=ROOT) as running:
        assert pipe.read_text("utf-8").startswith("<!doctype html>")
        assert running.wait(60) == 0
    assert pipe.is_fifo()


def test_a_value_is_explained_by_what_it_reads_alone(dlverify: Run, tmp_path: Path) -> None:
    relate = ("--relate", HLO / "relations.yaml")
    dlverify("export", HLO / "base.hlo", HLO / "dist.hlo", "--mesh", "tp=2", *relate, "-o", tmp_path / "f")
    told = dlverify("explain", tmp_path / "f", "sigmoid").out
    assert "both (dim 1 from 0 to 32)" in told
    assert "both (dim 1 from 32 to 64)" not in told


def test_an_output_is_explained_by_its_place(dlverify: Run) -> None:
    status, out, _ = dlverify("explain", PROVED, "output 0")
    assert status == 0
    assert out.startswith("add holds add: whole over tp  [elementwise]")
    assert out.count("[given-shard]") == 3
    assert out.count("The distributed tensor (or piece) of a row of `shard` holds") == 1, "it stands once"
    status, _, err = dlverify("explain", PROVED, "output 1")
    assert status == 2
    assert "no tensor `output 1`" in err


def test_a_report_that_nobody_reads_is_no_refutation() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "scalify_dl", "run", str(PROVED)]
    done = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=ROOT, timeout=60, text=True
    )
    os.close(write)
    assert done.returncode == 141, "as where SIGPIPE ends a program: no verdict, and no bad input"
    assert done.stderr == ""


@pytest.mark.parametrize("given", [("--relate", "x", "--relate", "y"), ("--timeout=3", "--timeout", "4")])
def test_a_value_given_twice_is_not_the_last_one(dlverify: Run, given: tuple[str, ...]) -> None:
    status, _, err = dlverify("verify", *_pair(), *given)
    assert status == 2
    assert "more than once" in err


def test_rules_may_be_named_several_times(dlverify: Run, tmp_path: Path) -> None:
    files = [tmp_path / "a.dl", tmp_path / "b.dl"]
    for file in files:
        file.write_text(f".decl {file.stem}_own(x:number)\n")
    assert dlverify("run", PROVED, "--rules", files[0], "--rules", files[1])[0] == 0


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ((HLO / "base.hlo", HLO / "dist.hlo", "--mesh", "tp=2"), "dlverify verify BASE DIST"),
        ((PROVED,), "dlverify run FACTS"),
        (("run", HLO / "base.hlo"), "dlverify verify BASE DIST"),
        (("verify", PROVED, PROVED, "--mesh", "tp=2"), "`dlverify run` takes a directory of facts"),
        (("watch", ".", ".", "--mesh", "tp=2", "--times", "1"), "Is a directory"),
        (("explain", PROVED, "output 9"), "did you mean output 0?"),
    ],
)
def test_what_belongs_to_another_command_is_told_which(dlverify: Run, argv: tuple[str, ...], told: str) -> None:
    status, _, err = dlverify(*argv)
    assert (status, told in err) == (2, True), err


def test_marks_of_byte_order_are_named_or_passed_over(dlverify: Run, tmp_path: Path) -> None:
    dump, schedule = tmp_path / "base.hlo", tmp_path / "s.csv"
    dump.write_bytes(b"\xef\xbb\xbf" + (HLO / "base.hlo").read_bytes())
    schedule.write_bytes(b"\xef\xbb\xbf0F0,0B0\n")
    status, _, err = dlverify("verify", dump, HLO / "dist.hlo", "--mesh", "tp=2")
    assert (status, "byte order mark" in err) == (2, True)
    assert dlverify("schedule", schedule)[0] == 0


def test_a_folder_with_a_described_plan_is_told_its_file(dlverify: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("stages: 2\n")
    status, _, err = dlverify("plan", tmp_path)
    assert (status, "plan.yaml" in err) == (2, True)


def test_what_is_false_of_a_call_is_looked_for_in_the_file_that_declares_it(dlverify: Run, tmp_path: Path) -> None:
    rules, meaning = tmp_path / "own.dl", tmp_path / "own.py"
    kind = "custom:rowscale"
    factors = "\n".join(
        f"{head} :- op(o, _, {json.dumps(kind)})."
        for head in ("factor(o, 0, 0, 0)", "factor(o, 0, 1, 1)", "factor(o, 1, 0, 5)",
                     "result_factor(o, 0, 0, 0)", "result_factor(o, 0, 1, 1)")
    )  # fmt: skip
    rules.write_text(f'opaque("{kind}", "scales rows").\n{factors}\n')
    meaning.write_text(
        "from scalify_dl.oracle.meaning import meaning\n\n"
        f"meaning({kind!r})(lambda call, operands: [operands[0] * operands[1][:, None]])\n"
    )
    status, out, _ = dlverify("rules", "check", rules, "--meaning", meaning, "--seconds", "4")
    assert status == 1
    assert f"these lemmas rest on what {rules} says of {kind}: look there" in out
