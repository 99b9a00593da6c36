"""Whole programs as users write them, with the results that Soufflé 2.5 gives (`programs/*.txt`).

A file holds cases: `=== name` and the program, `--- file` and its facts or text, `>>> file` and what is written to it
(`-`: standard output), lines in any order.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from scalify_dl.pysouffle import Program


class Case(NamedTuple):
    name: str
    source: str
    given: dict[str, str]
    wanted: dict[str, str]


def _sections(text: str, mark: str) -> list[tuple[str, str]]:
    """(what stands after the mark, the lines up to the next mark)"""
    parts = re.split(rf"^{mark} (.*)\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _cases() -> list[Case]:
    cases = []
    for file in sorted((Path(__file__).parent / "programs").glob("*.txt")):
        for name, body in _sections(file.read_text(), "==="):
            given, wanted = _sections(re.split("^>>> ", body, flags=re.MULTILINE)[0], "---"), _sections(body, ">>>")
            source = re.split("^(?:---|>>>) ", body, flags=re.MULTILINE)[0]
            cases.append(Case(f"{file.stem}: {name}", source, dict(given), dict(wanted)))
    return cases


def _lines(text: str) -> list[str]:
    return sorted(line for line in text.split("\n") if line)


def _prepare(case: Case, folder: Path) -> Path:
    for name, text in case.given.items():
        (folder / name).write_text(text)
    (folder / "program.dl").write_text(case.source)
    (folder / "out").mkdir()
    return folder / "out"


def _check(case: Case, out: Path, printed: str) -> None:
    found = {file.name: file.read_text() for file in out.iterdir()} | ({"-": printed} if printed else {})
    assert {name: _lines(text) for name, text in found.items()} == {n: _lines(t) for n, t in case.wanted.items()}


CASES = pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in _cases()])


@CASES
def test_program(case: Case, tmp_path: Path) -> None:
    out, printed = _prepare(case, tmp_path), io.BytesIO()
    Program.from_file(tmp_path / "program.dl").load(tmp_path).run(timeout=60).write(out, out=printed)
    _check(case, out, printed.getvalue().decode())


@pytest.mark.skipif(shutil.which("souffle") is None, reason="the souffle executable is not on PATH")
@CASES
def test_souffle_agrees(case: Case, tmp_path: Path) -> None:
    out = _prepare(case, tmp_path)
    command = ["souffle", "-w", "-F", ".", "-D", "out", "program.dl"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    _check(case, out, ran.stdout)
