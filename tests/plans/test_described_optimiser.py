"""Stages that step their weights when gradients are reduced: on whole weights, or each copy its shard (ZeRO-1)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scalify_dl import cli

from .described import FILES, HEAD

SGD = """        half: "f32[4, 4]" = torch.ops.aten.mul.Tensor(g, 0.5)
        new: "f32[4, 4]" = torch.ops.aten.sub.Tensor({w}, half)
        return (new,)
"""
SHARDS = """        part: "f32[2, 4]" = torch.ops._c10d_functional.reduce_scatter_tensor.default(g, 'avg', 2, 'dp')
        mine: "f32[2, 4]" = torch.ops._c10d_functional.wait_tensor.default(part)
        half: "f32[2, 4]" = torch.ops.aten.mul.Tensor(mine, 0.5)
        new: "f32[2, 4]" = torch.ops.aten.sub.Tensor({w}_shard, half)
        all: "f32[4, 4]" = torch.ops._c10d_functional.all_gather_into_tensor.default(new, 2, 'dp')
        whole: "f32[4, 4]" = torch.ops._c10d_functional.wait_tensor.default(all)
        return (whole,)
"""
STEPPED = "".join(
    f'        half{n}: "f32[4, 4]" = torch.ops.aten.mul.Tensor(gw{n}, 0.5)\n'
    f'        new{n}: "f32[4, 4]" = torch.ops.aten.sub.Tensor(w{n}, half{n})\n'
    for n in (0, 1)
)


def files(*, shards: bool) -> dict[str, str]:
    """A baseline that gives its loss and new weights, and stages that make them."""
    plan, found = FILES["plan.yaml"], dict(FILES)
    found["whole.fx.txt"] = FILES["whole.fx.txt"].replace(
        "        return (loss, gw0, gw1)", f"{STEPPED}        return (loss, new0, new1)"
    )
    for n in (0, 1):
        held = f'w{n}_shard: "f32[2, 4]"' if shards else f'w{n}: "f32[4, 4]"'
        body = (SHARDS if shards else SGD).format(w=f"w{n}")
        found[f"step{n}.fx.txt"] = HEAD.format(f'{held}, g: "f32[4, 4]"') + body
        made = "whole" if shards else "new"
        said = f"program: step{n}.fx.txt, gradients: {{g: gw{n}}}, updates: {{{made}: new{n}}}"
        said += ", reduces: true" if shards else ""
        plan = plan.replace(
            f"  gradients: {{gw{n}: gw{n}}}\n", f"  gradients: {{gw{n}: gw{n}}}\n  optimiser: {{{said}}}\n"
        )
        if shards:
            found["relations.yaml"] += f"  w{n}: {{base: w{n}}}\n  w{n}_shard: {{base: w{n}, dims: {{0: dp}}}}\n"
    found["plan.yaml"] = plan
    return found


def judged(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *, shards: bool, edits: dict[str, tuple[str, str]] | None = None
) -> int:
    for name, text in files(shards=shards).items():
        before, after = (edits or {}).get(name, ("", ""))
        assert before in text
        (directory / name).write_text(text.replace(before, after, 1) if before else text, "utf-8")
    monkeypatch.setattr(sys, "argv", ["dlverify", "plan", str(directory / "plan.yaml"), "--json"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


@pytest.mark.parametrize("shards", [False, True], ids=["whole weights", "shards"])
def test_new_weights_are_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shards: bool
) -> None:
    assert judged(tmp_path, monkeypatch, shards=shards) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "PROVED"
    assert {output["name"] for output in report["outputs"]} == {"loss", "new0", "new1"}


WRONG = {
    "another rate": (False, {"step1.fx.txt": ("g, 0.5", "g, 0.25")}),
    "a sum for a mean": (False, {"plan.yaml": ("over_copies: mean", "over_copies: sum")}),
    "micro-batches added up": (False, {"plan.yaml": ("micro_batches: mean", "micro_batches: sum")}),
    "shards of a sum": (True, {"step0.fx.txt": ("'avg'", "'sum'")}),
    "shards of another weight": (True, {"relations.yaml": ("base: w0, dims", "base: w1, dims")}),
    "gradients reduced twice": (True, {"plan.yaml": (", reduces: true", ""), "step0.fx.txt": ("'avg'", "'sum'")}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_step_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shards, edits = WRONG[name]
    code = judged(tmp_path, monkeypatch, shards=shards, edits=edits)
    found = json.loads(capsys.readouterr().out)
    assert (code, found["verdict"]) == (1, "REFUTED")


REFUSED = {
    "no such gradient": ("gradients: {g: gw0}", "gradients: {g: gw1}", "stage 0 gives no gradient `gw1`"),
    "no such input": ("gradients: {g: gw0}", "gradients: {h: gw0}", "step0.fx.txt has no input `h`"),
    "no such output": ("updates: {new: new0}", "updates: {old: new0}", "step0.fx.txt has no output `old`"),
    "nothing is updated": (", updates: {new: new0}", "", "the optimiser has no `updates`"),
    "no new weight": ("updates: {new: new0}", "updates: {new: old0}", "the baseline has no output `old0`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_optimiser_that_is_not_what_its_graph_is_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before, after, text = REFUSED[name]
    assert judged(tmp_path, monkeypatch, shards=False, edits={"plan.yaml": (before, after)}) == 2
    assert text in capsys.readouterr().err
