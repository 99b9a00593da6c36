"""The rules of a lint, compiled once."""

from __future__ import annotations

from functools import cache

from scalify_dl.pysouffle import Program, rules_dir

MAIN = "lift.dl"


@cache
def lint_rules() -> Program:
    """`datalog/lift.dl`, compiled once for all processes that find it as it is; take a `fresh()` one."""
    text = (rules_dir() / MAIN).read_text("utf-8")
    return Program.from_source(text, name=MAIN, include_dirs=[rules_dir()],
                               kept=rules_dir() / "__pycache__" / "lift.compiled")  # fmt: skip
