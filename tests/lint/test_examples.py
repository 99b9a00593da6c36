"""The nine programs of `examples/placed.py`: right ones are well placed, wrong ones are not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from scalify_dl.prove.verdict import Verdict

FILE = Path(__file__).parents[2] / "examples" / "placed.py"
spec = importlib.util.spec_from_file_location("placed_examples", FILE)
assert spec is not None
assert spec.loader is not None
placed = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = placed
spec.loader.exec_module(placed)


@pytest.mark.parametrize("name", placed.DEMOS)
def test_a_right_example_is_well_placed_and_a_wrong_one_is_not(name: str) -> None:
    assert placed.judged(name, True).verdict is Verdict.PROVED
    wrong = placed.judged(name, False)
    assert wrong.verdict is Verdict.REFUTED
    assert any("placed.py" in f.source[0] for f in wrong.findings if f.level == "error")
