"""An attribute of which no meaning knows is not lost: the op has none then."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.folds.draw import _attention, _column_row, model
from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.plan_tables import Shape, write_plan
from scalify_dl.plans.verdict import judge_plan
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(dp=2, tp=2, pp=2, nm=2, unit=False)
    return write_plan(tmp_path_factory.mktemp("plan"), model([_column_row, _attention], "head"), shape)


@pytest.mark.parametrize(
    ("kind", "attribute", "value", "verdict"),
    [
        ("linear", "activation", "relu", Verdict.UNKNOWN),
        ("embedding", "scale_grad_by_freq", "True", Verdict.UNKNOWN),
        ("embedding", "max_norm", "1.0", Verdict.UNKNOWN),
        ("embedding", "scale_grad_by_freq", "False", Verdict.PROVED),
        ("embedding", "max_norm", "None", Verdict.PROVED),
        ("softmax", "scale", "3", Verdict.UNKNOWN),
        ("contiguous", "memory_format", "torch.channels_last", Verdict.PROVED),
        ("AllReducePrim", "reduce_op", "mean", Verdict.UNKNOWN),
        ("MovePrim", "scale", "2.0", Verdict.UNKNOWN),
        ("local_grad_accumulation", "alpha", "0.5", Verdict.UNKNOWN),
        ("reducer", "reduce_op", "mean", Verdict.UNKNOWN),
    ],
)  # fmt: skip
def test_what_an_op_says_beyond_its_meaning_is_not_lost(
    right: Path, tmp_path: Path, kind: str, attribute: str, value: str, verdict: Verdict
) -> None:
    tables = Edited(right)
    for side in "sp":
        for row in tables.tables[f"{side}_op"]:
            if row[7] == kind:
                tables.tables[f"{side}_attr"].append([row[0], attribute, "str", value])
    assert judge_plan(tables.write(tmp_path), Options(refute=False)).verdict is verdict
