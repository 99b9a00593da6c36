"""What is marked as a loss is an output: each of several, wherever a rank has it, and none stands for another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .small import write_small
from .tables import Edited


def verified(directory: Path) -> Report:
    return report_on(prepare(directory), Options(refute=False))


def test_each_of_two_losses_is_an_output(tmp_path: Path) -> None:
    report = verified(write_small(tmp_path, losses=2))
    assert report.verdict is Verdict.PROVED
    assert [output.name for output in report.outputs] == ["loss", "loss2", "w3", "w2", "w1"]


def second_is_another_value(t: Edited) -> None:
    """The second loss is the sum of something else, on all ranks."""
    for op in t.ops(cid=16):
        ((_, _, z),) = t.of("p_in", t.ops(**place(t, op), cid=8)[0])
        t.change("p_in", op, 2, z)


def place(t: Edited, op: str) -> dict[str, object]:
    row = next(row for row in t.tables["p_op"] if row[0] == op)
    return {"rank": row[2], "mb": row[3]}


def second_is_the_first(t: Edited) -> None:
    """Both losses are one value."""
    for op in t.ops(cid=16):
        at = place(t, op)
        t.change("p_op", op, 7, "identity")
        t.change("p_in", op, 2, t.of("p_out", t.ops(**at, cid=8)[0])[0][2])


def another_tensor_is_marked(t: Edited) -> None:
    """Hidden values are marked as a loss as well, in the plan alone."""
    next(row for row in t.tables["p_full"] if row[1] == "z")[7] = "1"


def marked_on_both_sides(t: Edited) -> None:
    """As many values as the loss has: z of both sides, whose rows are of different ranks."""
    for side in "sp":
        next(row for row in t.tables[f"{side}_full"] if row[1] == "z")[7] = "1"


def another_version(t: Edited) -> None:
    """Stage 1 makes the loss twice, from two values; the second is the right one."""
    for op in t.ops(cid=16):
        at = place(t, op)
        ((_, _, loss),) = t.of("p_out", t.ops(**at, cid=8)[0])
        old = t.of("p_out", op)[0][2]
        new = loss.replace(".v1", ".v3")
        t.change("p_out", op, 2, new)
        t.tables["p_tensor"].append([new, *next(row for row in t.tables["p_tensor"] if row[0] == loss)[1:5], "3", "0"])
        for row in t.tables["p_in"]:
            row[2] = loss if row[2] == old else row[2]


@pytest.mark.parametrize(
    ("losses", "edit"),
    [(2, second_is_another_value), (2, second_is_the_first), (1, another_tensor_is_marked), (2, another_version)],
)
def test_no_plan_is_proved_of_which_one_loss_is_wrong(
    tmp_path: Path, losses: int, edit: Callable[[Edited], None]
) -> None:
    tables = Edited(write_small(tmp_path / "right", losses=losses))
    edit(tables)
    assert verified(tables.write(tmp_path / "wrong")).verdict is not Verdict.PROVED


def test_a_loss_that_ranks_make_twice_is_not_proved(tmp_path: Path) -> None:
    """Beside the op that makes it: a step that adds up what it has would have it twice."""
    tables = Edited(write_small(tmp_path / "right"))
    for op in tables.ops(cid=8):
        ((_, _, source),), ((_, _, loss),) = tables.of("p_in", op), tables.of("p_out", op)
        made, like = f"{loss}.again", next(row for row in tables.tables["p_tensor"] if row[0] == loss)
        tables.tables["p_tensor"].append([made, *like[1:5], f"{int(like[5]) + 10}", "0"])
        for name in ("op", "attr", "const"):
            tables.tables[f"p_{name}"] += [[f"{op}.again", *row[1:]] for row in tables.of(f"p_{name}", op)]
        tables.tables["p_in"].append([f"{op}.again", "0", source])
        tables.tables["p_out"].append([f"{op}.again", "0", made])
    report = verified(tables.write(tmp_path / "twice"))
    assert report.verdict is Verdict.UNKNOWN
    assert any("more than once" in finding.text for finding in report.findings)


def test_what_both_sides_call_a_loss_is_an_output(tmp_path: Path) -> None:
    """A value that lies in blocks is none that is added up: not proved, and named."""
    tables = Edited(write_small(tmp_path / "right"))
    marked_on_both_sides(tables)
    report = verified(tables.write(tmp_path / "both"))
    assert report.verdict is Verdict.UNKNOWN
    assert "z" in [output.name for output in report.outputs]


def test_a_loss_that_the_step_makes_twice_is_bad_input(tmp_path: Path) -> None:
    tables = Edited(write_small(tmp_path / "right", losses=2))
    for row in tables.tables["s_full"]:
        if row[2] == "loss2":
            row[2] = "loss"
    with pytest.raises(InputError, match="a second loss `loss`"):
        prepare(tables.write(tmp_path / "twice"))
