"""`plan.yaml`: stages and a schedule become what every rank runs; what is wrong with either is seen."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from scalify_dl import cli

from .described import write_described


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr(sys, "argv", ["dlverify", "plan", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def test_stages_as_the_schedule_runs_them_are_the_whole_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(monkeypatch, write_described(tmp_path), "--json")
    report = json.loads(capsys.readouterr().out)
    assert (status, report["verdict"]) == (0, "PROVED")
    assert [output["name"] for output in report["outputs"]] == ["gw0", "gw1", "loss"]


def test_split_backwards_and_an_order_without_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = write_described(tmp_path)
    lines = "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3", "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1F3,1I3,1W1,1W2,1W3"
    (tmp_path / "gpipe.csv").write_text("\n".join(lines) + "\n", "utf-8")
    assert run(monkeypatch, plan) == 0


WRONG = {
    "gradients are not scaled": ("plan.yaml", "micro_batches: mean", "micro_batches: sum"),
    "copies are added, not averaged": ("plan.yaml", "over_copies: mean", "over_copies: sum"),
    "copies are not reduced": ("plan.yaml", "copies: dp, over_copies: mean", ""),
    "a micro-batch has no backward": ("gpipe.csv", ",0B3", ""),
    "a backward is there twice": ("gpipe.csv", ",0B3", ",0B3,0B2"),
    "gradients come in another order": ("gpipe.csv", "1B0,1SEND_B0,1B1,1SEND_B1", "1B1,1SEND_B1,1B0,1SEND_B0"),
    "a stage computes something else": ("first.fx.txt", "aten.tanh.default", "aten.sigmoid.default"),
    "a gradient begins twice as large": ("second.fx.txt", "[2, 4], 0.125", "[2, 4], 0.25"),
    "what is sent back is the activation": ("plan.yaml", "to_previous: gy", "to_previous: gz"),
    "an activation is not sent": ("gpipe.csv", "0SEND_F3,", ""),
    "an activation is not received": ("gpipe.csv", "1RECV_F0,", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_plan_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file, before, after = WRONG[name]
    edits = {file: (before, after)}
    if name == "what is sent back is the activation":
        edits["second.fx.txt"] = ("return (loss, gy, gw1)", "return (loss, gy, gw1, gz)")
    status = run(monkeypatch, write_described(tmp_path, edits), "--json")
    assert (status, json.loads(capsys.readouterr().out)["verdict"]) == (1, "REFUTED")


def test_an_output_of_the_baseline_is_called_as_its_dump_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    turned = (
        '        u: "f32[4, 4]" = torch.ops.aten.t.default(gw1)\n        v: "f32[4, 4]" = torch.ops.aten.t.default(u)\n'
        "        return (loss, gw0, v)"
    )
    edits = {"whole.fx.txt": ("        return (loss, gw0, gw1)", turned), "plan.yaml": ("{gw1: gw1}", "{gw1: v}")}
    status = run(monkeypatch, write_described(tmp_path, edits), "--json")
    report = json.loads(capsys.readouterr().out)
    assert (status, [output["name"] for output in report["outputs"]]) == (0, ["gw0", "loss", "v"])


def test_outputs_in_a_dictionary_are_called_by_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = {
        "first.fx.txt": ("return (y, gw0)", "return {'out': y, 'of w0': gw0}"),
        "second.fx.txt": ("return (loss, gy, gw1)", "return {'loss': loss, 'back': gy, 'of w1': gw1}"),
        "whole.fx.txt": ("return (loss, gw0, gw1)", "return {'loss': loss, 'w0': gw0, 'w1': gw1}"),
    }
    plan = write_described(tmp_path, edits)
    text = plan.read_text("utf-8").replace("to_next: y", "to_next: out").replace("to_previous: gy", "to_previous: back")
    plan.write_text(text.replace("{gw0: gw0}", "{of w0: w0}").replace("{gw1: gw1}", "{of w1: w1}"), "utf-8")
    assert run(monkeypatch, plan, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert sorted(output["name"] for output in report["outputs"]) == ["loss", "w0", "w1"]


TIED = {"first.fx.txt": "w0", "second.fx.txt": "w1"}


@pytest.mark.parametrize("tied", [True, False])
def test_gradients_of_a_tied_weight_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tied: bool) -> None:
    plan = write_described(tmp_path)
    for name, weight in TIED.items():
        (tmp_path / name).write_text((tmp_path / name).read_text("utf-8").replace(weight, "w"), "utf-8")
    whole = (tmp_path / "whole.fx.txt").read_text("utf-8").replace('w1: "f32[4, 4]", ', "")
    whole = re.sub(r"\bw[01]\b", "w", whole)
    add = '        both: "f32[4, 4]" = torch.ops.aten.add.Tensor(gw0, gw1)\n        return (loss, both)'
    (tmp_path / "whole.fx.txt").write_text(whole.replace("        return (loss, gw0, gw1)", add), "utf-8")
    text = plan.read_text("utf-8").replace("{gw0: gw0}", "{gw: both}").replace("{gw1: gw1}", "{gw: both}")
    plan.write_text(text.replace("micro_batches:", "tied: both, micro_batches:") if tied else text, "utf-8")
    assert run(monkeypatch, plan) == (0 if tied else 1)


BAD = {
    "an unknown key": ("plan.yaml", "mesh:", "mash:", "plan.yaml:2:1: plan file: unknown key `mash`"),
    "a file that is not there": ("plan.yaml", "second.fx.txt", "third.fx.txt", "plan.yaml:12:12: no such file"),
    "no baseline": ("plan.yaml", "baseline: whole.fx.txt\n", "", "the plan file has no `baseline`"),
    "no schedule": ("plan.yaml", "schedule: gpipe.csv\n", "", "`stages`, but no `schedule`"),
    "an axis that is not there": ("plan.yaml", "copies: dp", "copies: ep", "the mesh has no axis `ep`"),
    "no reduction of that name": ("plan.yaml", "micro_batches: mean", "micro_batches: max", "reduction: `max`"),
    "an output that is not there": ("plan.yaml", "to_next: y", "to_next: yy", "first.fx.txt has no output `yy`"),
    "as many sent as received": ("plan.yaml", "  from_previous: y\n", "", "`to_next` has 1 values"),
    "a truncated schedule": ("gpipe.csv", "1B2,1SEND_B2,1B3,1SEND_B3\n", "1B2,1SEND_", "gpipe.csv:2:14: unknown"),
    "a line that is missing": ("gpipe.csv", "0B3\n1RECV_F0", "0B3,1RECV_F0", "gpipe.csv:1: 1 lines"),
    "a stage that is not listed": ("gpipe.csv", ",1B3,1SEND_B3\n", ",2F0\n", "has actions of 3 stages"),
    "an output that no stage gives": ("plan.yaml", "  gradients: {gw1: gw1}\n", "", "baseline's output `gw1`"),
    "an output that the baseline has not": ("plan.yaml", "{gw0: gw0}", "{gw0: gw2}", "no output `gw2`"),
    "two answers": ("plan.yaml", "stages:", "ranks: whole.fx.txt\nstages:", "both `ranks` and `stages`"),
    "no mesh": ("plan.yaml", "{pp: 2, dp: 2}", "{pp: 0}", "plan.yaml:2"),
    "no YAML": ("plan.yaml", "{pp: 2, dp: 2}", "{pp: 2", "not YAML"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_plan_file_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file, before, after, message = BAD[name]
    assert run(monkeypatch, write_described(tmp_path, {file: (before, after)})) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("other", "status"), [("0", 0), ("1", 2)])
def test_stages_that_call_a_group_by_other_names_are_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, status: int
) -> None:
    """Nobody says who is in these groups: the calls were taken to meet, and the plan was proved."""
    edits = {"plan.yaml": ("{pp: 2, dp: 2}", "{pp: 2}"), "relations.yaml": ("{0: dp}", "{}")}
    plan = write_described(tmp_path, edits)
    plan.write_text(plan.read_text("utf-8").replace(", copies: dp, over_copies: mean", ""), "utf-8")
    lines = "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3", "1F0,1F1,1F2,1F3,1B0,1B1,1B2,1B3"
    (tmp_path / "gpipe.csv").write_text("\n".join(lines) + "\n", "utf-8")
    whole = (tmp_path / "whole.fx.txt").read_text("utf-8")
    (tmp_path / "whole.fx.txt").write_text(whole.replace("16", "8").replace("0.015625", "0.03125"), "utf-8")
    calls = "torch.ops._c10d_functional.all_reduce.default", "torch.ops._c10d_functional.wait_tensor.default"
    for name, gradient, group in (("first", "gw0", "0"), ("second", "gw1", other)):
        before, after = (tmp_path / f"{name}.fx.txt").read_text("utf-8").split("        return")
        most = f"        most: \"f32[4, 4]\" = {calls[0]}({gradient}, 'max', '{group}')\n"
        wait = f'        there: "f32[4, 4]" = {calls[1]}(most)\n        return'
        (tmp_path / f"{name}.fx.txt").write_text(before + most + wait + after, "utf-8")
    assert run(monkeypatch, plan) == status
