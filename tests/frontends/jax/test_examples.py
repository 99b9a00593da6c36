"""The examples, with and without their bugs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from jax.sharding import AbstractMesh

from scalify_dl.capture.jax import verify
from scalify_dl.prove.verdict import Verdict

EXAMPLES = Path(__file__).parents[3] / "examples" / "jax"
MODULES = {name: runpy.run_path(str(EXAMPLES / f"{name}.py")) for name in ("mlp", "gqa", "partitioned")}
MESH = AbstractMesh((2, 4), ("dp", "tp"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_end_with_their_verdict(name, capsys):
    assert MODULES[name]["main"]([]) == 0
    assert capsys.readouterr().out.startswith("PROVED")


def test_the_attention_gradient_is_proved(capsys):
    assert MODULES["gqa"]["main"](["--gradient"]) == 0
    assert "6 of 6 outputs proved" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "bug"), [(n, b) for n in ("mlp", "gqa") for b in MODULES[n]["BUGS"] if b != "none"])
def test_bugs_are_refuted_and_found_in_the_body(name, bug):
    report = verify(*MODULES[name]["pair"](MESH, bug), MESH)
    assert report.verdict is Verdict.REFUTED
    cause = report.frontier[0]
    # JAX gives constants the line of the call that traced them
    assert cause.source[0].file == str(EXAMPLES / f"{name}.py") or cause.kind == "constant"


@pytest.mark.parametrize("bug", [b for b in MODULES["partitioned"]["BUGS"] if b != "none"])
def test_a_step_that_trains_something_else_is_refuted(bug, capsys):
    assert MODULES["partitioned"]["main"](["--bug", bug]) == 1
    assert "partitioned.py" in capsys.readouterr().out


def test_dumps_are_written_for_later(tmp_path, capsys):
    assert MODULES["partitioned"]["main"](["--write", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("dlverify verify")
    assert (tmp_path / "step.dist.hlo").read_text().startswith("HloModule")


def test_every_bug_is_told_in_the_readme():
    text = (EXAMPLES / "README.md").read_text()
    for module in MODULES.values():
        assert all(f"`{bug}`" in text for bug in module["BUGS"] if bug != "none")
