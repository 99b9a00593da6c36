"""Process groups that a dump only names: members from the relations file, or the only axis of the mesh."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.frontends.export import export
from scalify_dl.verify.conclude import conclude
from scalify_dl.verify.options import Options
from scalify_dl.verify.pipeline import analyse

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
    assert [row[2] for row in facts["assume"]] == ([] if relations else ["group"])
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
