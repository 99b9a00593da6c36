"""The runner of Soufflé's own tests, on a checkout with two tests of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REACH = """\
.decl edge(x:number, y:number)
.input edge
.decl path(x:number, y:number)
.output path
path(x, y) :- edge(x, y).
"""
LISTED = "positive_test(right)\npositive_test(wrong)\nnegative_test(bad)\n"


def test_what_passes_and_what_does_not(tmp_path: Path) -> None:
    top = tmp_path / "tests"
    for category in ("evaluation", "example", "semantic", "syntactic"):
        (top / category).mkdir(parents=True)
        (top / category / "CMakeLists.txt").write_text("")
    (top / "evaluation" / "CMakeLists.txt").write_text(LISTED)
    for name, program in (("right", REACH), ("wrong", REACH), ("bad", "path(x) :- edge(x).\n")):
        folder = top / "evaluation" / name
        (folder / "facts").mkdir(parents=True)
        (folder / f"{name}.dl").write_text(program)
        (folder / "facts" / "edge.facts").write_text("1\t2\n")
    (top / "evaluation" / "right" / "path.csv").write_text("1\t2\n")
    (top / "evaluation" / "wrong" / "path.csv").write_text("2\t1\n")
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "souffle_tests.py", tmp_path], cwd=ROOT, capture_output=True, text=True,
        timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0] == "evaluation/wrong: path.csv differs"
    assert done.stdout.splitlines()[1].startswith("2 of 3 pass")
