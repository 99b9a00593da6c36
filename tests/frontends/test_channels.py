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
    base = TEXT.format(header="", rows=8, collectives="", results="%s0, %s1")
    calls = ["".join(SUM.format(n=n, c=c) for n, c in order) for order in ranks]
    texts = [TEXT.format(header=PARTS, rows=4, collectives=each, results="%r0, %r1") for each in calls]
    return verdict(folder, base, texts)


PARTS = ", num_partitions=2"


def verdict(folder: Path, base: str, ranks: list[str], relations: str = "inputs: {x: {dims: {0: [tp]}}}") -> str:
    (folder / "base.hlo").write_text(base)
    files = [folder / f"rank{n}.hlo" for n in range(len(ranks))]
    for file, text in zip(files, ranks, strict=True):
        file.write_text(text)
    (folder / "r.yaml").write_text(relations)
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


EXCHANGED = """\
HloModule m{header}
ENTRY %main {{
  %x = f32[4] parameter(0)
  %y = f32[4] parameter(1)
{calls}  ROOT %t = (f32[4], f32[4]) tuple({results})
}}
"""
SENT = "  %{result} = f32[4] collective-permute(%{x}), channel_id={c}, source_target_pairs={{{{0,1}},{{1,0}}}}\n"


def exchanged(folder: Path, ranks: list[list[tuple[str, int]]], results: str) -> str:
    """Verdict of a pair whose ranks exchange inputs, which all have: (which, over which channel), into p and q."""
    texts = [
        EXCHANGED.format(
            header=PARTS,
            calls="".join(SENT.format(result="pq"["xy".index(x)], x=x, c=c) for x, c in order),
            results=results,
        )
        for order in ranks
    ]
    base = EXCHANGED.format(header="", calls="", results="%x, %y")
    return verdict(folder, base, texts, "inputs: {x: {}, y: {}}")


IN_ORDER = [("x", 1), ("y", 2)]


def test_permutes_meet_in_order_and_at_their_channels(tmp_path: Path) -> None:
    assert exchanged(tmp_path, [IN_ORDER, IN_ORDER], "%p, %q") == "PROVED"


@pytest.mark.parametrize("results", ["%p, %q", "%x, %y"])
@pytest.mark.parametrize(
    "other", [[("x", 2), ("y", 1)], [("y", 2), ("x", 1)], [("x", 3), ("y", 4)], [("x", 1)]], ids=str
)
def test_permutes_that_do_not_meet_are_refused(tmp_path: Path, results: str, other: list[tuple[str, int]]) -> None:
    """Also where nobody looks at what they bring: such a job hangs."""
    if len(other) == 1 and "q" in results:
        results = "%p, %y"
    with pytest.raises(InputError, match=r"collective . over the pairs \[\(0, 1\), \(1, 0\)\]"):
        exchanged(tmp_path, [IN_ORDER, other], results)


def test_a_permute_that_its_target_never_issues_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rank 1 never issues the collective-permute over the pairs"):
        exchanged(tmp_path, [IN_ORDER, []], "%x, %y")


LOOP = """\
HloModule m{header}
%add {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}}
%more {{
  %c = (s32[], f32[4], f32[{rows},4]) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %n = s32[] constant({steps})
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}}
%step {{
  %c = (s32[], f32[4], f32[{rows},4]) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %acc = f32[4] get-tuple-element(%c), index=1
  %x = f32[{rows},4] get-tuple-element(%c), index=2
  %z = f32[] constant(0)
  %s0 = f32[4] reduce(%x, %z), dimensions={{0}}, to_apply=%add
{sum}  %new = f32[4] add(%acc, %{added})
  ROOT %t = (s32[], f32[4], f32[{rows},4]) tuple(%j, %new, %x)
}}
ENTRY %main {{
  %x = f32[{rows},4] parameter(0)
  %y = f32[4] parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[4], f32[{rows},4]) tuple(%zero, %y, %x)
  %w = (s32[], f32[4], f32[{rows},4]) while(%init), condition=%more, body=%step
  ROOT %p = f32[4] get-tuple-element(%w), index=1
}}
"""


def looped(folder: Path, *ranks: tuple[int, int]) -> str:
    """Verdict of a pair whose ranks add up in a loop: (over which channel, how often)."""
    base = LOOP.format(header="", rows=8, steps=3, sum="", added="s0")
    each = [LOOP.format(header=PARTS, rows=4, steps=steps, sum=SUM.format(n=0, c=c), added="r0") for c, steps in ranks]
    return verdict(folder, base, each)


def test_ranks_with_the_same_loop_are_one_program(tmp_path: Path) -> None:
    assert looped(tmp_path, (1, 3), (1, 3)) == "PROVED"


@pytest.mark.parametrize(
    ("other", "message"), [((2, 3), "collective 0 over .*channel 1.*channel 2"), ((1, 4), "3 times.*4 times")]
)
def test_sums_in_loops_that_do_not_meet_are_refused(tmp_path: Path, other: tuple[int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        looped(tmp_path, (1, 3), other)
