"""`dlverify explain`: the proof of a tensor's correspondences, in words."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.explain import as_text, tensors_named
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
        print(as_text(found), end="")
    return 0 if found.statements else 3
