"""Process groups and reductions that a dump only names: who says them; without, nothing is proved or refuted."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude

TEXT = """\
class f(torch.nn.Module):
    def forward(self, x: "f32[4, 2]"):
        y: "f32[4, 2]" = torch.ops.aten.mul.Tensor(x, 2)
{call}
        return (y,)
"""
AVERAGE = """\
        r: "f32[4, 2]" = torch.ops._c10d_functional.all_reduce.default(y, 'avg', '7')
        w: "f32[4, 2]" = torch.ops._c10d_functional.wait_tensor.default(r)"""
ALL_REDUCE = AVERAGE.replace("avg", "sum")
BROADCAST = """\
        r: "f32[4, 2]" = torch.ops._c10d_functional.broadcast.default(y, 1, '7')
        w: "f32[4, 2]" = torch.ops._c10d_functional.wait_tensor.default(r)"""


def facts_of(folder: Path, call: str, mesh: str, relations: str = "") -> Facts:
    (folder / "base.fx.txt").write_text(TEXT.format(call=""))
    (folder / "dist.fx.txt").write_text(TEXT.format(call=call).replace("(y,)", "(w,)"))
    (folder / "r.yaml").write_text(relations)
    return export(folder / "base.fx.txt", folder / "dist.fx.txt", mesh, folder / "r.yaml")


GIVEN = 'groups: {"7": [[0, 2], [1, 3]]}'


@pytest.mark.parametrize("call", [AVERAGE, BROADCAST])
@pytest.mark.parametrize(("mesh", "relations"), [("dp=2,tp=2", GIVEN), ("tp=4", "")])
def test_averages_and_sources_need_the_members_of_a_named_group(
    tmp_path: Path, call: str, mesh: str, relations: str
) -> None:
    facts = facts_of(tmp_path, call, mesh, relations)
    assert not [kind for _, _, kind in facts["op"] if kind.startswith("unknown:")]
    assert [row[2] for row in facts["assume"] if row[2] not in ("schedule", "spmd")] == ([] if relations else ["group"])
    if call is AVERAGE:
        assert conclude(analyse(facts, Options())).verdict == "PROVED"


def test_the_source_comes_first_in_every_group(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, BROADCAST, "dp=2,tp=2", GIVEN)
    assert [row[1:] for row in facts["group"]] == [(0, 0, 2), (0, 1, 0), (1, 0, 3), (1, 1, 1)]
    with pytest.raises(InputError, match="broadcast from member 1"):
        facts_of(tmp_path, BROADCAST, "dp=2,tp=2", 'groups: {"7": [[0], [1], [2], [3]]}')


def test_without_members_they_are_unknown(tmp_path: Path) -> None:
    for call in (AVERAGE, BROADCAST):
        facts = facts_of(tmp_path, call, "dp=2,tp=2")
        assert [kind for _, _, kind in facts["op"] if kind.startswith("unknown:")]


def test_a_group_that_the_dump_has_is_not_another(tmp_path: Path) -> None:
    (tmp_path / "dist.json").write_text('{"groups": {"7": [0, 1]}}')
    with pytest.raises(InputError, match=r"groups: 7: the dump says \[\[0, 1\]\]"):
        facts_of(tmp_path, AVERAGE, "dp=2,tp=2", GIVEN)


@pytest.mark.parametrize("call", [ALL_REDUCE, BROADCAST])
def test_over_a_group_that_nobody_knows_nothing_is_refuted(tmp_path: Path, call: str) -> None:
    """On a mesh of several axes it is no more all ranks than each rank alone."""
    assert conclude(analyse(facts_of(tmp_path, call, "dp=2,tp=2"), Options())).verdict == "UNKNOWN"


IN_PLACE = """\
        _torchbind_obj0 = self._torchbind_obj0
        _torchbind_obj1 = self._torchbind_obj1
        r = torch.ops.c10d.{name}
        w: "f32[4, 2]" = torch.ops.aten.mul.Tensor(y, {factor})"""
WRITERS = [
    "allreduce_.default([y], _torchbind_obj0, _torchbind_obj1, None, False)",
    "allreduce_coalesced_.default([y], _torchbind_obj0, _torchbind_obj1)",
]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("said", "factor", "verdict"),
    [
        ("", "1", "UNKNOWN"), ("", "0.5", "UNKNOWN"), ("sum", "1", "REFUTED"), ("sum", "0.5", "PROVED"),
        ("avg", "1", "PROVED"), ("max", "1", "PROVED"), ("max", "0.5", "REFUTED"),
    ],
)  # fmt: skip
def test_a_reduction_that_is_not_printed_is_asked_for(
    tmp_path: Path, name: str, said: str, factor: str, verdict: str
) -> None:
    relations = "groups: {_torchbind_obj0: [0, 1]}\ninputs: {x: {dims: {}}}\n"
    relations += f'reductions: {{"_torchbind_obj*": {said}}}' if said else ""
    facts = facts_of(tmp_path, IN_PLACE.format(name=name, factor=factor), "tp=2", relations)
    found = conclude(analyse(facts, Options()))
    assert found.verdict == verdict
    if not said:
        assert any("reductions" in str(cause.lemma_missing) for cause in found.frontier)


def test_the_capture_may_say_a_reduction(tmp_path: Path) -> None:
    (tmp_path / "dist.json").write_text('{"reductions": {"_torchbind_obj1": "product"}}')
    facts = facts_of(tmp_path, IN_PLACE.format(name=WRITERS[0], factor=1), "tp=2")
    assert [row[3] for row in facts["attr_symbol"] if row[1] == "reducer"] == ["prod"]


def test_reductions_that_no_collective_has_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no reduction that a dump does not print matches `op`"):
        facts_of(tmp_path, IN_PLACE.format(name=WRITERS[0], factor=1), "tp=2", "reductions: {op: sum}")
    with pytest.raises(InputError, match="reductions: `mean`"):
        facts_of(tmp_path, IN_PLACE.format(name=WRITERS[0], factor=1), "tp=2", "reductions: {op: mean}")


def test_ranks_that_use_a_named_group_in_another_order_are_refused(tmp_path: Path) -> None:
    """Which is known only when the members are."""
    call = "        {r}: \"f32[4, 2]\" = torch.ops._c10d_functional.all_reduce.default({x}, '{how}', '7')"
    first, second = call.format(r="a", x="x", how="sum"), call.format(r="b", x="y", how="max")
    (tmp_path / "base.fx.txt").write_text(TEXT.format(call=""))
    files = [tmp_path / f"rank{n}.fx.txt" for n in range(2)]
    for file, calls in zip(files, [[first, second], [second, first]], strict=True):
        file.write_text(TEXT.format(call="\n".join(calls)))
    with pytest.raises(InputError, match="collective 0 over ranks"):
        export(tmp_path / "base.fx.txt", files, "tp=2", None)
