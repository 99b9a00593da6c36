"""`dlverify datalog`: Soufflé's command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATHS = """.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.output path
.printsize path
"""


def dlverify(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scalify_dl.cli", "datalog", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "paths.dl").write_text(PATHS)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("a\tb\nb\tc\n")
    (tmp_path / "out").mkdir()
    return tmp_path


def test_results_are_files_in_the_output_folder(folder: Path) -> None:
    done = dlverify("paths.dl", "-F", "facts", "-D", "out", "-w", "-j", "4", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "path\t3\n", "")
    assert (folder / "out" / "path.csv").read_text() == "a\tb\na\tc\nb\tc\n"
    assert os.listdir(folder / "out") == ["path.csv"]


def test_a_dash_prints_the_results(folder: Path) -> None:
    done = dlverify("paths.dl", "-F", "facts", "-D-", cwd=folder)
    assert done.stdout == f"{'-' * 15}\npath\nx\ty\n{'=' * 15}\na\tb\na\tc\nb\tc\n{'=' * 15}\npath\t3\n"


def test_explanations_and_profile(folder: Path) -> None:
    done = dlverify(
        "paths.dl",
        "-Ffacts",
        "-D-",
        "--profile",
        "--explain",
        'path("a", "c")',
        "--why-not",
        'path("c", "a")',
        cwd=folder,
    )
    assert done.returncode == 0
    assert 'edge("b", "c")  fact' in done.stdout
    assert 'path("c", "a") does not hold' in done.stdout
    assert "path(x, z) :- path(x, y), edge(y, z)." in done.stderr


@pytest.mark.parametrize(
    ("program", "facts", "arguments", "message"),
    [
        (PATHS + "path(x) :- edge(x, _).", "a\tb\n", (), "paths.dl:8:1"),
        (PATHS, "a\tb\na\n", (), "edge.facts:2:2"),
        (PATHS, "a\tb\n", ("--engine", "other"), 'unknown engine "other"'),
        (PATHS, "a\tb\n", ("--word-size", "16"), "expected 32 or 64"),
        (PATHS, "a\tb\n", ("-D", "nowhere"), "does not exist"),
        (PATHS, "a\tb\n", ("--explain", "path(a"), "expected a value"),
        (".decl a(x: number)\na(0). a(x + 1) :- a(x).", "", ("--timeout", "0.2"), "timeout"),
        (".decl a(x: number)\na(0). a(x + 1) :- a(x).", "", ("--max-tuples", "5000"), "max_tuples"),
    ],
)
def test_bad_input_ends_with_status_2_and_a_message(
    folder: Path, program: str, facts: str, arguments: tuple[str, ...], message: str
) -> None:
    (folder / "paths.dl").write_text(program)
    (folder / "facts" / "edge.facts").write_text(facts)
    out = () if "-D" in arguments else ("-D", "out")
    done = dlverify("paths.dl", "-F", "facts", *out, *arguments, cwd=folder)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert message in done.stderr


def test_missing_files(folder: Path) -> None:
    assert dlverify("no.dl", cwd=folder).returncode == 2
    (folder / "facts" / "edge.facts").unlink()
    done = dlverify("paths.dl", "-F", "facts", "-D", "out", cwd=folder)
    assert done.returncode == 2
    assert "cannot read the facts of relation edge" in done.stderr
    assert os.listdir(folder / "out") == []
    assert dlverify("paths.dl", "-F", "facts", "-D", "out", "-w", cwd=folder).stdout == "path\t0\n"


def test_macros(folder: Path) -> None:
    (folder / "m.dl").write_text(".decl a(x: number)\na(N).\n.output a\n")
    assert dlverify("m.dl", "-D-", "-M", "N=7", cwd=folder).stdout.splitlines()[4] == "7"
    assert dlverify("m.dl", "-D-", "-M", "7=N", cwd=folder).returncode == 2
