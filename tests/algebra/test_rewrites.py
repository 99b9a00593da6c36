"""Equalities in somebody's own rules (`rewrite` facts): used, listed, and refused where they are false."""

from __future__ import annotations

from pathlib import Path

import pytest

import scalify_dl
from scalify_dl.errors import InputError
from scalify_dl.oracle.rewrites import read_rewrites, where_false
from tests.test_sweep import dlverify

TAN = 'rewrite("tan", "sine(x) / cosine(x)", "tan(x)").\n'
SHIFT = 'rewrite("shift", "floor(abs(x) + 2)", "floor(abs(x)) + 2").\n'
HEAD = "HloModule m\nENTRY main {\n  x = f32[3] parameter(0)\n"
FORMS = {
    "tan": "  ROOT t = f32[3] tan(x)\n}\n",
    "quotient": "  s = f32[3] sine(x)\n  c = f32[3] cosine(x)\n  ROOT t = f32[3] divide(s, c)\n}\n",
    "turned": "  s = f32[3] sine(x)\n  c = f32[3] cosine(x)\n  ROOT t = f32[3] divide(c, s)\n}\n",
    "shifted": (
        "  a = f32[3] abs(x)\n  two = f32[] constant(2)\n  b = f32[3] broadcast(two), dimensions={}\n"
        "  y = f32[3] add(b, a)\n  ROOT t = f32[3] floor(y)\n}\n"
    ),
    "apart": (
        "  a = f32[3] abs(x)\n  f = f32[3] floor(a)\n  one = f32[] constant(1)\n"
        "  b = f32[3] broadcast(one), dimensions={}\n  y = f32[3] add(f, b)\n  ROOT t = f32[3] add(b, y)\n}\n"
    ),
}


def report(folder: Path, base: str, dist: str, rules: str) -> scalify_dl.Report:
    for name, form in (("base", base), ("dist", dist)):
        (folder / f"{name}.hlo").write_text(HEAD + FORMS[form])
    (folder / "own.dl").write_text(rules)
    files = [folder / "own.dl"] if rules else []
    return scalify_dl.verify(folder / "base.hlo", folder / "dist.hlo", mesh="x=1", rules=files)


@pytest.mark.parametrize(
    ("base", "dist", "rules"),
    [("tan", "quotient", TAN), ("quotient", "tan", TAN), ("shifted", "apart", SHIFT), ("apart", "shifted", SHIFT)],
)
def test_what_an_own_equality_says_is_proved_and_listed(tmp_path: Path, base: str, dist: str, rules: str) -> None:
    assert report(tmp_path, base, dist, "").verdict.value == "UNKNOWN"
    found = report(tmp_path, base, dist, rules)
    assert found.verdict.value == "PROVED"
    assert [a.text.split(":")[0] for a in found.assumptions if a.why == "rewrite"] == [rules.split('"')[1]]


def test_another_form_is_not_rewritten(tmp_path: Path) -> None:
    assert report(tmp_path, "tan", "turned", TAN).verdict.value == "REFUTED"


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ("sqrt(x * x)", "x", "x = -"),
        ("exponential(log(x))", "x", "nan"),
        ("maximum(x, y)", "(x + y) / 2", "y = "),
        ("x * logistic(1.702 * x)", "gelu(x)", "x = "),
        ("x / x", "1", "x = 0"),
    ],
)
def test_an_equality_that_is_false_somewhere_is_refused(tmp_path: Path, left: str, right: str, where: str) -> None:
    rules = f'rewrite("r", "{left}", "{right}").\n'
    (rewrite,) = read_rewrites([("r", left, right)])
    assert where in (where_false(rewrite) or "")
    with pytest.raises(InputError, match="the rewrite `r` is false"):
        report(tmp_path, "tan", "quotient", rules)
    checked = dlverify("rules", "check", str(tmp_path / "own.dl"))
    assert checked.returncode == 1
    assert "FALSE" in checked.stdout


@pytest.mark.parametrize(
    ("left", "right", "what"),
    [
        ("frobnicate(x)", "x", "frobnicate"),
        ("tan(x, y)", "x", "1 operands"),
        ("x", "x + 0", "is no op"),
        ("tan(x)", "y", "stands on the right only"),
        ("tan(x", "x", "not understood"),
        ("convert(x)", "x", "convert"),
        ("tan(x)", "x if x else x", "not understood"),
    ],
)
def test_what_is_no_such_equality_is_bad_input(left: str, right: str, what: str) -> None:
    with pytest.raises(InputError, match="the rewrite `r` cannot be used") as caught:
        read_rewrites([("r", left, right)])
    assert what in str(caught.value)


def test_a_file_of_true_equalities_passes_the_check(tmp_path: Path) -> None:
    (tmp_path / "own.dl").write_text(TAN + SHIFT)
    checked = dlverify("rules", "check", str(tmp_path / "own.dl"))
    assert checked.returncode == 0
    assert checked.stdout.count("true for all numbers that were tried") == 2
