"""What formulas may cost: counted in steps, so that a busy machine decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import scalify_dl
from scalify_dl.algebra import effort, form
from scalify_dl.algebra.form import Field, Undecided


def sums(basis: Field) -> int:
    """How many products of sums are made before the deadline."""
    x = sum((basis.of(basis.element("input", ("x", n))) for n in range(40)), basis.zero)
    for count in range(1000):
        try:
            _ = x * x
        except Undecided:
            return count
    return 1000


def machine(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[], float]) -> None:
    monkeypatch.setattr(effort.time, "process_time", seconds)
    effort.EFFORT.cpu = 0.0


@pytest.mark.parametrize("slower", [0.5, 1.0, 1.9])
def test_a_busy_machine_takes_as_many_steps(monkeypatch: pytest.MonkeyPatch, slower: float) -> None:
    passed = 0.0

    def seconds() -> float:
        nonlocal passed
        passed += 0.005 * slower  # a look at the clock for each 5 ms of a machine that does nothing else
        return passed

    machine(monkeypatch, seconds)
    basis = Field(deadline=effort.now() + 0.5)
    assert 160 <= sums(basis) <= 240


def test_what_is_not_counted_ends_by_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    machine(monkeypatch, lambda: passed)
    begun = effort.now()
    passed = 3.0
    assert effort.now() - begun == pytest.approx(1.5)


def test_executions_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    machine(monkeypatch, lambda: passed)
    begun = effort.now()
    passed = 1.0
    with effort.EFFORT.aside():
        passed = 50.0
    passed += 1.0
    assert effort.now() - begun == pytest.approx(1.0)


def program(square: str) -> str:
    """The squares of the sums of eight vectors."""
    body = "".join(f"  x{n} = f32[8] parameter({n})\n{square.replace('@', str(n))}" for n in range(8))
    outputs = ", ".join(["f32[]"] * 8), ", ".join(f"y{n}" for n in range(8))
    return (
        "HloModule m\n\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
        f"ENTRY main {{\n  z = f32[] constant(0)\n{body}  ROOT out = ({outputs[0]}) tuple({outputs[1]})\n}}\n"
    )


OF_SUMS = "  s@ = f32[] reduce(x@, z), dimensions={0}, to_apply=add\n  y@ = f32[] multiply(s@, s@)\n"
OF_PRODUCTS = (
    "  p@ = f32[8,8] dot(x@, x@), lhs_contracting_dims={}, rhs_contracting_dims={}\n"
    "  y@ = f32[] reduce(p@, z), dimensions={0,1}, to_apply=add\n"
)


def test_outputs_for_which_others_left_no_time_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(form, "STEP", 0.08)  # time for a few outputs at first
    for name, square in (("base.hlo", OF_SUMS), ("dist.hlo", OF_PRODUCTS)):
        (tmp_path / name).write_text(program(square))
    report = scalify_dl.verify(str(tmp_path / "base.hlo"), str(tmp_path / "dist.hlo"), mesh="x=1")
    assert report.verdict == "PROVED"
