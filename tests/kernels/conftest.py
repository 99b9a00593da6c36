"""The command line on the text of a kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.cli import main

from .running import Run


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit status and JSON of `dlverify kernel` on a text; `other` is a file beside it, for --spec."""

    def run(text: str, *arguments: str, other: str = "") -> tuple[int, dict[str, Any]]:
        file, beside = tmp_path / "kernel.py", tmp_path / "other"
        file.write_text(text)
        beside.write_text(other)
        more = ("--spec", str(beside)) if other else ()
        monkeypatch.setattr(sys, "argv", ["dlverify", "kernel", str(file), *arguments, *more, "--json"])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        assert isinstance(exit.value.code, int)
        assert "Traceback" not in captured.err
        return exit.value.code, json.loads(captured.out) if captured.out else {"message": captured.err}

    return run
