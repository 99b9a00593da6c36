"""Functions of a model that a file declares have their meaning from there; what it cannot mean is bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .small import write_small
from .tables import Edited

SWISH = """
my_swish:
  operands: [x]
  forward: [x * logistic(x)]
  backward:
    x: g0 * logistic(x) * (1 + x * (1 - logistic(x)))
"""


def renamed(tables: Edited, *sides: str) -> Edited:
    """`silu` is called `my_swish`."""
    for side in sides:
        for row in tables.tables[f"{side}_op"]:
            row[7] = "my_swish" if row[7] == "silu" else row[7]
    return tables


def verified(tmp_path: Path, functions: str, *sides: str) -> Report:
    tables = renamed(Edited(write_small(tmp_path / "right")), *sides)
    directory = tables.write(tmp_path / "declared")
    (directory / "functions.yaml").write_text(functions, "utf-8")
    return report_on(prepare(directory), Options(refute=False))


def test_a_declared_function_is_seen_through_and_listed(tmp_path: Path) -> None:
    report = verified(tmp_path, SWISH, "s", "p")
    assert report.verdict is Verdict.PROVED
    assert any("`my_swish` computes what functions.yaml says" in str(a) for a in report.assumptions)


def test_without_the_file_what_is_cut_is_not_proved(tmp_path: Path) -> None:
    assert verified(tmp_path, "{}", "s", "p").verdict is Verdict.UNKNOWN


def test_a_function_that_computes_something_else_is_not_proved(tmp_path: Path) -> None:
    wrong = SWISH.replace("forward: [x * logistic(x)]", "forward: [x * logistic(2 * x)]")
    assert verified(tmp_path, wrong, "p").verdict is not Verdict.PROVED


def test_a_gradient_that_is_not_declared_is_none(tmp_path: Path) -> None:
    assert verified(tmp_path, SWISH[: SWISH.index("  backward")], "s", "p").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ("silu: {operands: [x], forward: [x]}", "functions.yaml:1: `silu`: this kind has a meaning already"),
        ("f: {operands: [x], forward: [x @ x]}", "`x @ x` is not known here"),
        ("f: {operands: [x], forward: ['__import__(\"os\")']}", "is not known here"),
        ("f: {operands: [x], forward: [x.real]}", "is not known here"),
        ("f: {operands: [x], forward: [maximum(x)]}", "is not known here"),
        ("f: {operands: [x], forward: ['x +']}", "`x +` is no expression"),
        ("f: {operands: [x], forward: [x], backward: {y: g0}}", "a gradient of y"),
        ("f: {operands: x, forward: [x]}", "`operands` is no list of names"),
        ("f: [x]", "it says something else"),
        ("[f]", "no functions"),
        ("f: {operands: [x", "not YAML"),
    ],
)
def test_what_is_no_declaration_is_bad_input(tmp_path: Path, functions: str, message: str) -> None:
    directory = write_small(tmp_path)
    (directory / "functions.yaml").write_text(functions, "utf-8")
    with pytest.raises(InputError) as error:
        prepare(directory)
    assert message in str(error.value)
