"""`dlverify explain`: the proof of a tensor's correspondences, in words."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.explain import Explanation, Statement, tensors_named
from scalify_dl.report.explain import explain as why

from .progress import progress
from .run import load


def explain(directory: Path, tensor: str, rules: tuple[Path, ...], *, depth: int, as_json: bool) -> int:
    """Status 0 if something is known of the tensor, else 3."""
    facts = load(directory)
    with progress("explaining"):
        analysis = analyse(facts, Options(rules=rules))
        found = why(analysis, tensors_named(analysis.view, tensor)[0], depth)
    if as_json:
        print(json.dumps(asdict(found), indent=2, ensure_ascii=False))
    else:
        _print(found)
    return 0 if found.statements else 3


def _print(found: Explanation) -> None:
    if not found.statements:
        print(f"{found.name} corresponds to nothing that is known:")
        for line in found.obstacles:
            print(f"  {line}")
    for statement in found.statements:
        _tree(statement, "")


def _tree(statement: Statement, pad: str) -> None:
    print(f"{pad}{statement.text}")
    why = f": {statement.why}" if statement.why else ""
    print(f"{pad}  by {statement.place}{why}")
    if statement.again and not statement.premises:
        print(f"{pad}  because of what is told above, or lies deeper (--depth)")
    for premise in statement.premises:
        _tree(premise, pad + "    ")
