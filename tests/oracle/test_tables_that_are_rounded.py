"""A table of f32 that one side has and the other computes: what is apart by rounding alone refutes nothing."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import scalify_dl  # noqa: E402

RATES = 10000 ** (-torch.arange(2) / 2)


def angles(places: Any) -> Any:
    return torch.outer(places, RATES)


@pytest.mark.parametrize(("apart", "refuted"), [(0.0, False), (1e-4, True)])
def test_only_a_table_of_other_numbers_refutes(apart: float, refuted: bool) -> None:
    table = angles(torch.arange(16).float()).cos() + apart

    def build(mesh: Any = None) -> Any:
        def made(_: Any, at: Any) -> dict[str, Any]:
            return {"cosines": angles(at.float()).cos()}

        def kept(_: Any, at: Any) -> dict[str, Any]:
            return {"cosines": table.index_select(0, at)}

        return torch.nn.Identity(), (torch.tensor([0, 7, 3]),), made if mesh is None else kept

    report = scalify_dl.verify(build, mesh={"tp": 2})
    assert (report.verdict == "REFUTED") == refuted
