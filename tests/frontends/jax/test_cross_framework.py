"""The same block in PyTorch (a shipped dump) and in JAX."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "cross_framework" / "jax_block.py"))


def test_the_jax_block_computes_what_the_torch_block_does(capsys):
    assert EXAMPLE["main"]([]) == 0
    assert capsys.readouterr().out.startswith("PROVED")


@pytest.mark.parametrize("bug", [bug for bug in EXAMPLE["BUGS"] if bug != "none"])
def test_bugs_are_refuted(bug, capsys):
    assert EXAMPLE["main"](["--bug", bug]) == 1
    assert "jax_block.py" in capsys.readouterr().out
