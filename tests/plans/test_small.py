"""A small plan of our own: proved as it is, and no wrong one is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .small import write_small
from .tables import Edited


def verified(directory: Path, *, refute: bool = False) -> Report:
    return report_on(prepare(directory), Options(refute=refute))


@pytest.mark.parametrize("unit", [False, True], ids=["written out", "unit form"])
@pytest.mark.parametrize(("dp", "mbs"), [(2, 2), (1, 1), (4, 1), (1, 4)])
def test_a_right_plan_is_proved(tmp_path: Path, dp: int, mbs: int, unit: bool) -> None:
    report = verified(write_small(tmp_path, dp=dp, mbs=mbs, unit=unit))
    assert report.verdict is Verdict.PROVED
    assert [output.name for output in report.outputs] == ["loss", "w3", "w2", "w1"]
    assert report.findings == []


def one(t: Edited, **wanted: object) -> str:
    (op,) = t.ops(**wanted)
    return op


def stale(t: Edited) -> None:
    """Micro-batch 1 reads the activation of micro-batch 0."""
    for rank in (0, 1, 4, 5):
        op = one(t, rank=rank, mb=1, cid=4)
        t.change("p_in", op, 2, lambda name: name.replace(".m1.", ".m0."), t.of("p_in", op)[0][2])


def added_twice(t: Edited) -> None:
    op = t.ops(rank=0, cid=101)[0]
    first, second = t.of("p_in", op)
    second[2] = first[2]


def not_added(t: Edited) -> None:
    """The reducer reads the first micro-batch's gradient."""
    for op in t.ops(rank=2, kind="reducer"):
        t.change("p_in", op, 2, lambda name: name.rsplit(".v", 1)[0] + ".v1")


def overwritten(t: Edited) -> None:
    op = one(t, rank=0, mb=0, cid=3)
    ((_, _, weight),) = [row for row in t.of("p_in", one(t, rank=0, mb=0, cid=2)) if row[1] == "1"]
    t.change("p_out", op, 2, weight)


def peers(t: Edited) -> None:
    """Only the sender believes that its message goes to rank 3."""
    t.change("p_p2p", one(t, rank=0, mb=0, cid=6), 2, "3")


def bypassed(t: Edited) -> None:
    for op in t.ops(cid=5):
        t.bypass(op)


def crossed_slices(t: Edited) -> None:
    """Rank 0 has the rows of w1 that rank 1 should have."""
    t.tables["p_sub_slice"] = [
        [*row[:4], "8", "16"] if row[1] == "w1@0" and row[3] == "0" else row for row in t.tables["p_sub_slice"]
    ]


def relabelled(t: Edited) -> None:
    """What a reducer makes is declared to be a part of another tensor."""
    ((_, _, result),) = t.of("p_out", t.ops(rank=2, kind="reducer")[0])
    row = next(row for row in t.tables["p_tensor"] if row[0] == result)
    row[4] = "y"


def again(kind: str, *, sources: int = 1) -> Callable[[Edited], None]:
    """Behind every reducer of stage 1, another op makes a gradient: of the reduced one, or of what was reduced."""

    def edit(t: Edited) -> None:
        for op in t.ops(cid=200, kind="reducer"):
            rank = next(row[2] for row in t.tables["p_op"] if row[0] == op)
            ((_, _, source),), ((_, _, result),) = t.of("p_in", op), t.of("p_out", op)
            if "dw3" not in result:
                continue
            row = next(row for row in t.tables["p_tensor"] if row[0] == result)
            t.tables["p_tensor"].append([f"{result}.again", *row[1:5], "99", "0"])
            for table in ("coll", "coll_member", "wred") if kind == "reducer" else ():
                t.tables[f"p_{table}"] += [[f"{op}.again", *row[1:]] for row in t.of(f"p_{table}", op)]
            t.tables["p_op"].append([f"{op}.again", "p", rank, "0", "999", "201", kind, kind, "-"])
            for pos, tensor in enumerate([result, source][:sources]):
                t.tables["p_in"].append([f"{op}.again", str(pos), tensor])
            t.tables["p_out"].append([f"{op}.again", "0", f"{result}.again"])

    return edit


WRONG: dict[str, tuple[Callable[[Edited], None], str]] = {
    "a gradient reduced a second time": (again("reducer"), "not folded"),
    "a sum behind a reducer": (again("local_grad_accumulation", sources=2), "not folded"),
    "an activation of another micro-batch": (stale, "state"),
    "a gradient added twice": (added_twice, "accumulation"),
    "a gradient of one micro-batch": (not_added, "accumulation"),
    "a weight written": (overwritten, "state"),
    "a message to a rank that does not expect it": (peers, "message"),
    "no all-reduce": (bypassed, "declared"),
    "another slice of a weight": (crossed_slices, "operand"),
    "a reducer's result that is no gradient": (relabelled, "contradiction"),
    "an op that one rank lacks": (lambda t: t.drop([one(t, rank=5, mb=1, cid=13)]), "segment"),
    "an op on the other device": (lambda t: t.change("p_op", one(t, rank=0, mb=0, cid=3), 7, "identity"), "kind"),
    "a reducer over itself": (lambda t: [t.members(op, [2]) for op in t.ops(rank=2, kind="reducer")] and None, "peers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_plan_is_not_proved_and_says_why(tmp_path: Path, name: str) -> None:
    edit, kind = WRONG[name]
    tables = Edited(write_small(tmp_path / "right"))
    edit(tables)
    report = verified(tables.write(tmp_path / "wrong"))
    assert report.verdict is not Verdict.PROVED
    assert kind in [finding.kind for finding in report.findings]
    assert report.findings[0].source[0].rpartition(":")[0].endswith("p_op.tsv")


def test_values_that_differ_refute_with_numbers(tmp_path: Path) -> None:
    tables = Edited(write_small(tmp_path / "right"))
    bypassed(tables)
    report = verified(tables.write(tmp_path / "wrong"), refute=True)
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None


def test_a_plan_that_cannot_run_is_refuted_by_its_structure(tmp_path: Path) -> None:
    tables = Edited(write_small(tmp_path / "right"))
    tables.drop([one(tables, rank=2, mb=0, cid=6)])
    report = verified(tables.write(tmp_path / "wrong"))
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is None
    assert {output.reason for output in report.outputs} == {"structure"}
    assert report.findings[0].level == "error"


def test_a_copied_value_that_changes_nothing_is_a_difference_and_proved(tmp_path: Path) -> None:
    """One rank computes silu in another way that is the same: told, and the values decide."""
    tables = Edited(write_small(tmp_path / "right"))
    for op in tables.ops(rank=3, cid=7):
        tables.change("p_op", op, 6, "renamed")
    assert verified(tables.write(tmp_path / "same")).verdict is Verdict.PROVED


def test_ranks_that_compute_otherwise_are_folded_as_they_are(tmp_path: Path) -> None:
    """An extra op that changes nothing, on one rank alone."""
    tables = Edited(write_small(tmp_path / "right"))
    op = one(tables, rank=1, mb=0, cid=3)
    ((_, _, read),) = tables.of("p_in", op)
    row = next(row for row in tables.tables["p_tensor"] if row[0] == read)
    copy = read.replace(".v1", ".v9")
    tables.tables["p_tensor"].append([copy, *row[1:5], "9", "0"])
    line = next(n for n, other in enumerate(tables.tables["p_op"]) if other[0] == op)
    seq = int(tables.tables["p_op"][line][4])
    for other in tables.tables["p_op"]:
        if other[2] == "1" and int(other[4]) >= seq:
            other[4] = str(int(other[4]) + 1)
    tables.tables["p_op"].insert(line, ["extra", "p", "1", "0", str(seq), "99", "identity", "identity", "fw"])
    tables.tables["p_in"].append(["extra", "0", read])
    tables.tables["p_out"].append(["extra", "0", copy])
    tables.change("p_in", op, 2, copy)
    report = verified(tables.write(tmp_path / "other"))
    assert "extra" in [finding.kind for finding in report.findings]
    assert all(finding.level == "difference" for finding in report.findings)
    assert report.verdict is not Verdict.REFUTED


@pytest.mark.parametrize("listed", [True, False], ids=["members in their table", "members in the attribute"])
def test_a_broadcast_loss_is_a_message_to_every_member(tmp_path: Path, listed: bool) -> None:
    tables = Edited(write_small(tmp_path / "right"))
    for op in tables.ops(cid=15):
        ((_, source, target),) = tables.of("p_p2p", op)
        tables.tables["p_p2p"] = [row for row in tables.tables["p_p2p"] if row[0] != op]
        tables.change("p_op", op, 7, "BroadcastPrim")
        tables.tables["p_attr"] += [[op, "src", "int", source], [op, "ranks", "list", f"[{source}, {target}]"]]
        rank = next(row[2] for row in tables.tables["p_op"] if row[0] == op)
        if rank == source:  # makes nothing of its own
            tables.tables["p_out"] = [row for row in tables.tables["p_out"] if row[0] != op]
        else:
            tables.tables["p_in"] = [row for row in tables.tables["p_in"] if row[0] != op]
        if listed:
            tables.tables["p_coll"].append([op, f"loss {rank}", "BroadcastPrim", "-1"])
            tables.tables["p_coll_member"] += [[op, "0", source], [op, "1", target]]
    report = verified(tables.write(tmp_path / "broadcast"))
    assert (report.verdict, report.findings) == (Verdict.PROVED, [])


def test_in_which_order_a_rank_lists_the_members_of_a_sum_does_not_matter(tmp_path: Path) -> None:
    tables = Edited(write_small(tmp_path / "right"))
    for op in tables.ops(rank=0, kind="reducer") + tables.ops(rank=1, cid=5):
        tables.members(op, [int(row[2]) for row in tables.of("p_coll_member", op)][::-1])
    assert verified(tables.write(tmp_path / "turned")).verdict is Verdict.PROVED
