"""The programs do what they say: run on real ranks, the right one equals its baseline, the wrong ones differ."""

from __future__ import annotations

import re

import pytest

from . import truth

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", truth.PROGRAMS)
def test_right_equals_and_wrong_differs(name: str) -> None:
    """In float64: every output of the right program within rounding, some output of each wrong one far outside."""
    pytest.importorskip("torch" if truth.uses_torch(name) else "jax")
    if "import optax" in truth.source(name):
        pytest.importorskip("optax")
    errors = truth.measure(name)
    assert errors["right"]
    assert {what: e for what, e in errors["right"].items() if e > truth.EQUAL} == {}
    for wrong in ("wrong1", "wrong2"):
        assert max(errors[wrong].values()) > truth.DIFFERENT, wrong


@pytest.mark.parametrize("name", truth.PROGRAMS)
def test_bugs_are_marked(name: str) -> None:
    """Each wrong variant has its line and its sentence."""
    marks = set(re.findall(r"# BUG (\w+)$", truth.source(name), re.MULTILINE))
    assert marks == {"wrong1", "wrong2"}
    assert re.search(r'^BUGS = \{\n    "wrong1": ".+",\n    "wrong2": ".+",\n\}', truth.source(name), re.MULTILINE)
