"""What formulas may cost: counted in steps, so that a busy machine decides nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.algebra import effort
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
