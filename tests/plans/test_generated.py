"""Plans of Llama- and DeepSeek-shaped steps as nnScaler emits them: proved as they are, and no edited one is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.audit.plan_tables import DeepSeek, Llama, Shape, deepseek, llama, write_plan
from scalify_dl.audit.plan_tables.plan import Model
from scalify_dl.errors import InputError
from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .tables import Edited

LLAMA = Llama(layers=2, hidden=32, heads=4, kv_heads=2, inner=64, vocabulary=48, sequence=8)
TIED = Llama(layers=2, hidden=32, heads=4, kv_heads=2, inner=64, vocabulary=48, sequence=8, tied=True)
EXPERTS = DeepSeek(
    layers=2, hidden=32, heads=4, latent_q=12, latent_kv=16, plain=8, rotary=4, value=8, inner=64, experts=8, chosen=2,
    expert_inner=16, vocabulary=48, sequence=8,
)  # fmt: skip
TWO = Shape(dp=2, tp=2, pp=2, nm=2, batch=2)


def shape(**more: object) -> Shape:
    """Two of everything, but for what is said."""
    return Shape(**({"dp": 2, "tp": 2, "pp": 2, "nm": 2, "batch": 2} | more))  # type: ignore[arg-type]


def verified(directory: Path) -> Report:
    return report_on(prepare(directory), Options(refute=False))


PLANS: dict[str, tuple[Model, Shape]] = {
    "grouped attention, written out": (llama(LLAMA), shape(unit=False)),
    "unit form": (llama(LLAMA), shape(dp=512)),
    "unit form, one micro-batch": (llama(LLAMA), shape(dp=4096, nm=32, one_micro_batch=True)),
    "tied embeddings on two stages": (llama(TIED), shape()),
    "tied embeddings on one stage": (llama(TIED), shape(pp=1)),
    "three stages of one, one and no layer": (llama(LLAMA), shape(pp=3, nm=4, unit=False)),
    "experts over tp": (deepseek(EXPERTS), shape(tp=4)),
    "experts over copies, written out": (deepseek(EXPERTS), shape(dp=4, ep=2, unit=False)),
    "experts over copies, unit form": (deepseek(EXPERTS), shape(dp=64, ep=4, one_micro_batch=True)),
    "experts over copies, no tp": (deepseek(EXPERTS), shape(dp=4, ep=4, tp=1, pp=1)),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_right_plan_is_proved_without_findings(tmp_path: Path, name: str) -> None:
    report = verified(write_plan(tmp_path, *PLANS[name]))
    assert (report.verdict, report.findings) == (Verdict.PROVED, [])


@pytest.mark.parametrize("pp", [1, 2])
def test_a_tied_gradient_may_be_added_in_the_other_order(tmp_path: Path, pp: int) -> None:
    tables = Edited(write_plan(tmp_path / "right", llama(TIED), shape(pp=pp)))
    last = [row[0] for row in tables.tables["s_op"] if row[7:] == ["multiref", "bw"]][-1]
    first, second = tables.of("s_in", last)
    first[2], second[2] = second[2], first[2]
    assert verified(tables.write(tmp_path / "crossed")).verdict is Verdict.PROVED


def test_what_is_not_written_is_assumed_and_listed(tmp_path: Path) -> None:
    report = verified(write_plan(tmp_path, *PLANS["unit form, one micro-batch"]))
    texts = " ".join(str(assumption) for assumption in report.assumptions)
    assert "dp copies 1 to 4095 are not written" in texts
    assert "micro-batches 1 to 31 are not written" in texts


def reducers(t: Edited, name: str) -> list[str]:
    """Reducers of a weight, by a part of its name."""
    full = {row[1] for row in t.tables["p_full"] if name in row[2]}
    weights = {row[1] for row in t.tables["p_sub_slice"] if row[2] in full}
    return [row[0] for row in t.tables["p_wred"] if row[2] in weights]


def members(t: Edited, op: str) -> list[int]:
    return [int(row[2]) for row in t.of("p_coll_member", op)]


def one_copy_lost(t: Edited) -> None:
    for op in reducers(t, "layers.0.attention.wo"):
        t.members(op, members(t, op)[:-1])


def experts_added_up(t: Edited) -> None:
    """Gradients of different experts are added."""
    ranks = sorted({rank for op in reducers(t, "experts.w2") for rank in members(t, op)})
    for op in reducers(t, "experts.w2"):
        rank = int(next(row[2] for row in t.tables["p_op"] if row[0] == op))
        t.members(op, [other for other in ranks if (other - rank) % 2 == 0])


def not_shared(t: Edited) -> None:
    """The first and the last stage each reduce the gradient of the table that both have."""
    for op in reducers(t, "tok_embeddings"):
        rank = int(next(row[2] for row in t.tables["p_op"] if row[0] == op))
        t.members(op, [other for other in members(t, op) if (other // 2) % 2 == (rank // 2) % 2])


def exchanged_otherwise(t: Edited) -> None:
    """Tokens' gates split along tokens and joined along experts."""
    for op in t.ops(kind="AllToAllPrim"):
        for row in t.of("p_attr", op):
            if row[1] in ("idim", "odim"):
                row[3] = "2" if row[3] == "0" else "0"


def fewer_experts(t: Edited) -> None:
    for op in t.ops(rank=2, kind="moe_gate", dir="fw"):
        t.change("p_attr", op, 3, "1", "k")


def no_scatter(t: Edited) -> None:
    """One copy's experts alone: its own block of what it has instead of the sum."""
    for op in t.ops(kind="ReduceScatterPrim"):
        t.kind(op, "ChunkPrim")


def gathered_crossed(t: Edited) -> None:
    for op in t.ops(kind="AllGatherPrim"):
        if len({rank // 4 for rank in members(t, op)}) > 1:
            t.members(op, members(t, op)[::-1])


WRONG: dict[str, tuple[Model, Shape, Callable[[Edited], None], str]] = {
    "a reducer without one copy": (llama(LLAMA), shape(dp=4), one_copy_lost, "reducer"),
    "a reducer over all experts": (deepseek(EXPERTS), shape(dp=4, ep=2, unit=False), experts_added_up, "reducer"),
    "a table on two stages, each alone": (llama(TIED), shape(), not_shared, "reducer"),
    "gates exchanged along other dims": (deepseek(EXPERTS), shape(dp=4, ep=2), exchanged_otherwise, "ill-typed"),
    "a gate of other experts on one rank": (deepseek(EXPERTS), shape(), fewer_experts, "attribute"),
    "no sum over experts": (deepseek(EXPERTS), shape(dp=4, ep=2), no_scatter, "declared"),
    "tokens gathered in another order": (deepseek(EXPERTS), shape(dp=4, ep=2), gathered_crossed, "value"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_plan_is_not_proved_and_says_why(tmp_path: Path, name: str) -> None:
    model, size, edit, kind = WRONG[name]
    tables = Edited(write_plan(tmp_path / "right", model, size))
    edit(tables)
    report = verified(tables.write(tmp_path / "wrong"))
    assert report.verdict is not Verdict.PROVED
    assert kind in [finding.kind for finding in report.findings], report.findings


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [("p_world", ["p", "written_mb", "3"], "`written_mb` is 3"), ("p_mesh", ["p", "8", "2", "0", "0"], "absent")],
)
def test_a_unit_form_that_is_none_is_bad_input(tmp_path: Path, table: str, row: list[str], message: str) -> None:
    tables = Edited(write_plan(tmp_path / "right", llama(LLAMA), shape(dp=8, nm=8)))
    tables.tables[table].append(row)
    with pytest.raises(InputError, match=message):
        prepare(tables.write(tmp_path / "wrong"))
