"""The steps of `examples/steps`: verdicts and causes are what the text beside the dumps says."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.steps.make import KINDS, excerpt
from scalify_dl.cli import main

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["right", "wrong"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_a_step(
    kind: str, variant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, said = (ROOT / "examples" / "steps" / kind / f"{variant}.txt").read_text("utf-8").partition("\n")
    assert said.startswith("PROVED" if variant == "right" else "REFUTED")
    if ".mlir" in command:
        pytest.importorskip("jaxlib", reason="StableHLO is parsed by jaxlib")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", command.removeprefix("$ ").split())
    with pytest.raises(SystemExit) as status:
        main()
    assert status.value.code == (0 if variant == "right" else 1)
    assert excerpt(capsys.readouterr().out) == said
