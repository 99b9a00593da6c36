"""Programs of several ranks meet at the channels that their dumps name, not at the place where a collective stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.report.conclude import conclude

TEXT = """\
HloModule m{header}
%add {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}}
ENTRY %main {{
  %x = f32[{rows},4] parameter(0)
  %z = f32[] constant(0)
  %q = f32[{rows},4] multiply(%x, %x)
  %s0 = f32[4] reduce(%x, %z), dimensions={{0}}, to_apply=%add
  %s1 = f32[4] reduce(%q, %z), dimensions={{0}}, to_apply=%add
{collectives}  ROOT %t = (f32[4], f32[4]) tuple({results})
}}
"""
SUM = "  %r{n} = f32[4] all-reduce(%s{n}), channel_id={c}, replica_groups={{{{0,1}}}}, use_global_device_ids=true, "
SUM += "to_apply=%add\n"
SAME = [(0, 1), (1, 2)]


def verdict_of(folder: Path, *ranks: list[tuple[int, int]]) -> str:
    """Verdict of a pair whose ranks add up their sums in the given order: (which sum, over which channel)."""
    (folder / "base.hlo").write_text(TEXT.format(header="", rows=8, collectives="", results="%s0, %s1"))
    files = [folder / f"rank{n}.hlo" for n in range(len(ranks))]
    for file, order in zip(files, ranks, strict=True):
        calls = "".join(SUM.format(n=n, c=c) for n, c in order)
        file.write_text(TEXT.format(header=", num_partitions=2", rows=4, collectives=calls, results="%r0, %r1"))
    (folder / "r.yaml").write_text("inputs: {x: {dims: {0: [tp]}}}")
    return conclude(analyse(export(folder / "base.hlo", files, "tp=2", folder / "r.yaml"), Options())).verdict


def test_the_same_channels_in_the_same_order_are_one_program(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, SAME, SAME) == "PROVED"


def test_sums_that_meet_crosswise_are_refuted(tmp_path: Path) -> None:
    assert verdict_of(tmp_path, SAME, [(1, 1), (0, 2)]) == "REFUTED"


@pytest.mark.parametrize(
    "other",
    [
        [(0, 2), (1, 1)],  # stands alike, but one rank's sum of values meets the other's sum of squares
        [(1, 2), (0, 1)],  # stands otherwise, and meets alike: right, but not known to be
        [(0, 3), (1, 4)],  # never meets
    ],
)
def test_ranks_that_meet_at_other_channels_are_refused(tmp_path: Path, other: list[tuple[int, int]]) -> None:
    with pytest.raises(InputError, match="channel"):
        verdict_of(tmp_path, SAME, other)
