"""Steps that end in an optimiser: on whole weights, or on shards of them (ZeRO-1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from scalify_dl.audit.folds.compare import outcome
from scalify_dl.audit.folds.draw import _column_row, _gated, _shared, model
from scalify_dl.audit.folds.edited import Edited
from scalify_dl.audit.plan_tables import Shape, write_plan
from scalify_dl.commands.check import check
from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import judge_plan, report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict

MODEL = model([_column_row, _gated, _shared], "tok_embeddings.weight")  # tied: its gradient is reduced whole
SHARDS = Shape(dp=2, tp=2, pp=2, nm=2, unit=False, optimiser="shards")


@pytest.mark.parametrize(
    "shape",
    [
        SHARDS, Shape(dp=2, tp=1, pp=1, nm=1, unit=False, optimiser="shards"),
        Shape(dp=4, tp=2, pp=1, nm=3, unit=False, optimiser="shards"),
        Shape(dp=2, tp=2, pp=2, nm=2, unit=False, optimiser="whole"),
        Shape(dp=8, tp=2, pp=2, nm=4, optimiser="whole"),
        Shape(dp=512, tp=2, pp=2, nm=32, one_micro_batch=True, optimiser="whole"),
    ],
)  # fmt: skip
def test_a_right_step_with_an_optimiser_is_proved(tmp_path: Path, shape: Shape) -> None:
    write_plan(tmp_path, MODEL, shape)
    report = judge_plan(tmp_path, Options(refute=False))
    assert (report.verdict, report.findings) == (Verdict.PROVED, [])
    assert sum(output.name.endswith(" after the step") for output in report.outputs) >= 7
    if shape.dp * shape.nm < 100:
        found = outcome(tmp_path)
        assert (found.runs, found.mismatches) == ("right", [])


def _chunked(t: Edited) -> None:
    """Every copy takes its block of its own sum."""
    for op in t.ops(kind="ReduceScatterPrim"):
        t.kind(op, "ChunkPrim")


def _gathered_crossed(t: Edited) -> None:
    for op in t.ops(kind="AllGatherPrim", mb=-1):
        t.members(op, [int(row[2]) for row in t.of("p_coll_member", op)][::-1])


def _other_rate(t: Edited) -> None:
    t.change("p_const", t.ops(kind="mul", mb=-1, rank=5)[1], 3, "0.25")


def _other_shard(t: Edited) -> None:
    """One rank steps the other's block of the weight."""
    tensors = {row[0]: row for row in t.tables["p_tensor"]}
    spans = {row[1]: (row[2], *row[3:]) for row in t.tables["p_sub_slice"] if row[3] == "0"}
    for op in t.ops(kind="sub", mb=-1, rank=1):
        shard = tensors[t.of("p_in", op)[0][2]]
        full, _, lo, hi = spans[shard[4]]
        other = (full, "0", hi, str(2 * int(hi) - int(lo)))
        shard[4] = next((tid for tid, span in spans.items() if span == other), shard[4])


def _not_gathered(t: Edited) -> None:
    t.drop(t.ops(kind="AllGatherPrim", mb=-1))


def _old_gathered(t: Edited) -> None:
    """What is gathered is not the new block, but the one before."""
    made = {row[2]: row[0] for row in t.tables["p_out"]}
    for op in t.ops(kind="AllGatherPrim", mb=-1):
        row = t.of("p_in", op)[0]
        row[2] = t.of("p_in", made[row[2]])[0][2]


def _one_micro_batch(t: Edited) -> None:
    """The sum is left out: only the last micro-batch counts."""
    made = {row[2]: row[0] for row in t.tables["p_out"]}
    for op in t.ops(kind="ReduceScatterPrim"):
        row = t.of("p_in", op)[0]
        row[2] = t.of("p_in", made[row[2]])[1][2]


def _over_tp(t: Edited) -> None:
    for op in (*t.ops(kind="ReduceScatterPrim"), *t.ops(kind="AllGatherPrim", mb=-1)):
        rank = int(next(row[2] for row in t.tables["p_op"] if row[0] == op))
        t.members(op, [rank // 2 * 2, rank // 2 * 2 + 1])


def _upwards(t: Edited) -> None:
    for op in t.ops(kind="sub", mb=-1):
        t.change("p_op", op, 7, "add")


def _one_weight_kept(t: Edited) -> None:
    t.tables["p_update"].pop()


def _unreduced(t: Edited) -> None:
    """A weight that is not sharded is stepped by the copy's own sum."""
    reduced = {t.of("p_out", op)[0][2]: t.of("p_in", op)[0][2] for op in t.ops(kind="reducer")}
    for row in t.tables["p_in"]:
        row[2] = reduced.get(row[2], row[2])


WRONG: dict[str, Callable[[Edited], None]] = {
    edit.__name__[1:].replace("_", " "): edit
    for edit in (
        _chunked, _gathered_crossed, _other_rate, _other_shard, _not_gathered, _old_gathered, _one_micro_batch,
        _over_tp, _upwards, _one_weight_kept, _unreduced,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_step_with_an_optimiser_is_not_proved(tmp_path: Path, name: str) -> None:
    tables = Edited(write_plan(tmp_path / "right", MODEL, SHARDS))
    WRONG[name](tables)
    wrong = tables.write(tmp_path / "wrong")
    found = outcome(wrong)
    assert (found.runs in ("wrong", "stuck"), found.mismatches) == (True, [])
    assert judge_plan(wrong, Options()).verdict is not Verdict.PROVED


def test_a_gradient_that_is_scaled_behind_its_reducer_is_what_counts(tmp_path: Path) -> None:
    shape = Shape(dp=2, tp=2, pp=1, nm=2, unit=False)
    tables = Edited(write_plan(tmp_path / "right", MODEL, shape))
    for n, op in enumerate(tables.ops(kind="reducer")):
        row = next(row for row in tables.tables["p_op"] if row[0] == op)
        made = tables.of("p_out", op)[0][2]
        tensor = next(row for row in tables.tables["p_tensor"] if row[0] == made)
        tables.tables["p_tensor"].append([f"{made}.half", *tensor[1:5], str(int(tensor[5]) + 1), "0"])
        place = row[2], "-1", str(int(row[4]) + 1000)
        tables.tables["p_op"].append([f"p.half{n}", "p", *place, "77", "mul", "mul", "-"])
        tables.tables["p_in"].append([f"p.half{n}", "0", made])
        tables.tables["p_out"].append([f"p.half{n}", "0", f"{made}.half"])
        tables.tables["p_const"].append([f"p.half{n}", "0", "float", "0.5"])
    found = outcome(tables.write(tmp_path / "wrong"))
    assert (found.verdict == "PROVED", found.runs, found.mismatches) == (False, "wrong", [])


def test_the_certificate_of_a_step_with_shards_replays(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "plan", model([_column_row], None), Shape(2, 1, 1, 2, unit=False, optimiser="shards"))
    report = report_on(prepare(plan), Options(refute=False, certificate=tmp_path / "proof"))
    assert report.verdict is Verdict.PROVED
    assert check(tmp_path / "proof", [plan], (), as_json=True) == 0
