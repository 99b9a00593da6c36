"""Scheduled HLO: what compilers wrote has no findings; what is in flight too long, or not awaited, is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scalify_dl.audit.schedules.compare import differences
from scalify_dl.audit.schedules.program import taken_apart
from scalify_dl.errors import InputError
from scalify_dl.prove.verdict import Verdict
from scalify_dl.schedule.hlo.ranks import REUSED
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import Result, judge

DUMPS = sorted((Path(__file__).parent / "hlo").glob("*.hlo"))
HEADER = "HloModule m, is_scheduled=true, num_partitions=2\n\n"
TYPE = "f32[64]{0}"
OVER = "replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%sum"
FLYING = f"({TYPE}, {TYPE}, u32[])"


def judged(tmp_path: Path, *texts: str, streams: str = "pair") -> Result:
    files = []
    for n, text in enumerate(texts):
        files.append(tmp_path / f"m{n}.txt")
        files[-1].write_text(text)
    return judge(read_schedule(files, streams=streams), settings("both"))


def module(body: str, header: str = HEADER, before: str = "") -> str:
    lines = "\n".join("  " + line.strip() for line in body.strip().splitlines())
    return f"{header}{before}ENTRY %main (x: f32[64], y: f32[64]) -> f32[64] {{\n{lines}\n}}\n"


START = f"""
    %x = {TYPE} parameter(0)
    %y = {TYPE} parameter(1)
    %s = {FLYING} collective-permute-start(%x), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}
"""
DONE = f"%d = {TYPE} collective-permute-done(%s)"
ROOT = f"ROOT %r = {TYPE} add(%d, %y)"


def kinds(result: Result) -> set[str]:
    return {finding.kind for finding in result.findings}


@pytest.mark.parametrize("dump", DUMPS, ids=[dump.stem for dump in DUMPS])
def test_what_compilers_schedule_has_no_findings(dump: Path) -> None:
    result = judge(read_schedule([dump]), settings("both"))
    assert (result.verdict, result.findings) == (Verdict.PROVED, [])


@pytest.mark.parametrize("name", ["ring_loop", "both_ways", "conditional_ring"])
def test_the_machine_runs_them_alike(name: str) -> None:
    schedule = read_schedule([next(dump for dump in DUMPS if dump.stem.startswith(name))], streams="rank")
    assert differences(taken_apart(schedule), 0)[0] == []


def test_a_permute_that_is_awaited_is_fine(tmp_path: Path) -> None:
    result = judged(tmp_path, module(f"{START}{DONE}\n{ROOT}"))
    assert result.verdict is Verdict.PROVED
    assert result.assumptions == [REUSED]
    assert result.peak[0]["bytes"] == 4 * 256
    assert result.stats["messages"] == 2


def test_an_input_that_is_overwritten_in_flight_races(tmp_path: Path) -> None:
    update = f"""
        %z = s32[] constant(0)
        %u = {TYPE} dynamic-update-slice(%x, %y, %z)
        {DONE}
        ROOT %r = {TYPE} add(%d, %u)
    """
    result = judged(tmp_path, module(START + update))
    assert result.verdict is Verdict.REFUTED
    assert kinds(result) == {"race"}
    (race,) = result.findings
    assert {e.name for e in race.events} == {"s", "u"}
    assert race.explains == "likewise on ranks 1"
    assert {e.source for e in race.events} == {f"{tmp_path / 'm0.txt'}:{line}" for line in (6, 9)}


def test_a_fusion_that_updates_in_place_overwrites_its_operand(tmp_path: Path) -> None:
    fused = f"""%f (p: f32[64], q: f32[64]) -> f32[64] {{
  %p = {TYPE} parameter(0)
  %q = {TYPE} parameter(1)
  %z = s32[] constant(0)
  %b = {TYPE} bitcast(%p)
  ROOT %w = {TYPE} dynamic-update-slice(%b, %q, %z)
}}

"""
    update = f"%u = {TYPE} fusion(%x, %y), kind=kLoop, calls=%f\n{DONE}\nROOT %r = {TYPE} add(%d, %u)"
    assert kinds(judged(tmp_path, module(START + update, before=fused))) == {"race"}


def test_a_donated_parameter_is_overwritten_by_the_output(tmp_path: Path) -> None:
    donated = HEADER.replace("=true,", "=true, input_output_alias={ {}: (0, {}, may-alias) },")
    early = f"%w = {TYPE} add(%y, %y)\n{DONE}\n%v = {TYPE} add(%d, %y)\nROOT %r = {TYPE} copy(%w)"
    assert judged(tmp_path, module(START + early, donated)).verdict is Verdict.PROVED
    early = f"%w = {TYPE} add(%y, %y)\n{DONE}\nROOT %t = {TYPE} bitcast(%w)"
    assert kinds(judged(tmp_path, module(START + early, donated))) == {"race"}


@pytest.mark.parametrize(("late", "found"), [
    (f"%v = {TYPE} add(%x, %w)", {"overwritten"}), (f"%v = {TYPE} add(%y, %w)", set()), ("", set()),
    (f"%c = {TYPE} bitcast(%x)\n%v = {TYPE} add(%c, %y)", {"overwritten"}),
    (f"%e = {FLYING} collective-permute-start(%x), channel_id=2, source_target_pairs={{{{0,1}},{{1,0}}}}\n"
     f"%v = {TYPE} collective-permute-done(%e)", {"overwritten"}),
])  # fmt: skip
def test_a_donated_parameter_is_read_before_the_output_is_written(tmp_path: Path, late: str, found: set[str]) -> None:
    """%w is output 0 and lies where x lay."""
    donated = HEADER.replace("=true,", "=true, input_output_alias={ {0}: (0, {}, must-alias) },")
    x, y, _ = START.strip().splitlines()
    first, outputs = f"%w = {TYPE} add(%x, %y)", f"ROOT %t = ({TYPE}, {TYPE}) tuple(%w, {'%v' if late else '%y'})"
    text = module("\n".join(filter(None, [x, y, first, late, outputs])), donated).replace(
        "-> f32[64] {", "-> (f32[64], f32[64]) {"
    )
    assert kinds(judged(tmp_path, text)) == found


def test_a_donated_parameter_that_is_an_output_as_well_is_overwritten(tmp_path: Path) -> None:
    donated = HEADER.replace("=true,", "=true, input_output_alias={ {0}: (0, {}, may-alias) },")
    x, y, _ = START.strip().splitlines()
    text = module("\n".join([x, y, f"%w = {TYPE} add(%x, %y)", f"ROOT %t = ({TYPE}, {TYPE}) tuple(%w, %x)"]), donated)
    assert kinds(judged(tmp_path, text.replace("-> f32[64] {", "-> (f32[64], f32[64]) {"))) == {"overwritten"}


def test_a_result_read_before_its_done_races(tmp_path: Path) -> None:
    peek = f"%g = {TYPE} get-tuple-element(%s), index=1\n%a = {TYPE} add(%g, %y)\n{DONE}\nROOT %r = {TYPE} add(%d, %a)"
    assert kinds(judged(tmp_path, module(START + peek))) == {"race"}


def test_an_operation_that_nobody_awaits_is_an_orphan(tmp_path: Path) -> None:
    result = judged(tmp_path, module(f"{START}ROOT %r = {TYPE} add(%y, %y)"))
    assert "orphan" in kinds(result)


def test_waiting_before_the_issue_hangs(tmp_path: Path) -> None:
    x, y, start = START.strip().splitlines()
    result = judged(tmp_path, module("\n".join([x, y, DONE, start, ROOT])))
    assert (result.verdict, kinds(result)) == (Verdict.REFUTED, {"deadlock"})


def test_a_collective_before_its_input_reads_nothing(tmp_path: Path) -> None:
    body = f"""
        %x = {TYPE} parameter(0)
        %y = {TYPE} parameter(1)
        %s = {TYPE} all-reduce-start(%a), channel_id=1, {OVER}
        %a = {TYPE} add(%x, %y)
        ROOT %d = {TYPE} all-reduce-done(%s)
    """
    result = judged(tmp_path, module(body, before=SUM))
    assert result.verdict is Verdict.REFUTED
    assert kinds(result) <= {"unread", "race"}
    assert result.findings


SUM = """%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

"""


def test_two_collectives_one_after_the_other_are_fine(tmp_path: Path) -> None:
    body = f"""
        %x = {TYPE} parameter(0)
        %y = {TYPE} parameter(1)
        %s = {TYPE} all-reduce-start(%x), channel_id=1, {OVER}
        %d = {TYPE} all-reduce-done(%s)
        %t = {TYPE} all-reduce-start(%d), channel_id=2, {OVER}
        %e = {TYPE} all-reduce-done(%t)
        ROOT %r = {TYPE} add(%e, %y)
    """
    assert judged(tmp_path, module(body, before=SUM)).verdict is Verdict.PROVED


LOOP = f"""%body (c: (s32[], f32[64], f32[64])) -> (s32[], f32[64], f32[64]) {{
  %c = (s32[], {TYPE}, {TYPE}) parameter(0)
  %n = s32[] get-tuple-element(%c), index=0
  %a = {TYPE} get-tuple-element(%c), index=1
  %b = {TYPE} get-tuple-element(%c), index=2
  %one = s32[] constant(1)
  %m = s32[] add(%n, %one)
  %s = {FLYING} collective-permute-start(%a), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}
  USE
  %d = {TYPE} collective-permute-done(%s)
  ROOT %t = (s32[], {TYPE}, {TYPE}) tuple(%m, %d, %e)
}}

%condition (c: (s32[], f32[64], f32[64])) -> pred[] {{
  %c = (s32[], {TYPE}, {TYPE}) parameter(0)
  %n = s32[] get-tuple-element(%c), index=0
  %k = s32[] constant(5)
  ROOT %l = pred[] compare(%n, %k), direction=LT
}}

"""
AROUND = f"""
    %x = {TYPE} parameter(0)
    %y = {TYPE} parameter(1)
    %z = s32[] constant(0)
    %i = s32[] copy(%z)
    %t = (s32[], {TYPE}, {TYPE}) tuple(%i, %x, %y)
    %w = (s32[], {TYPE}, {TYPE}) while(%t), condition=%condition, body=%body
    ROOT %r = {TYPE} get-tuple-element(%w), index=2
"""


def test_what_a_loop_carries_stays_in_one_buffer(tmp_path: Path) -> None:
    """The permute's result is written where its operand lies, the other slot is updated meanwhile."""
    wrong = judged(tmp_path, module(AROUND, before=LOOP.replace("USE", f"%e = {TYPE} add(%a, %b)")))
    assert kinds(wrong) == {"race"}
    before = LOOP.replace("collective-permute-start(%a)", "collective-permute-start(%k)").replace(
        "%one = s32[] constant(1)", f"%one = s32[] constant(1)\n  %e = {TYPE} add(%a, %b)\n  %k = {TYPE} copy(%a)"
    )
    fine = judged(tmp_path, module(AROUND, before=before.replace("  USE\n", "")))
    assert (fine.verdict, fine.assumptions) == (Verdict.PROVED, [REUSED])


def test_rounds_that_data_count_are_assumed_to_be_as_many_on_all_ranks(tmp_path: Path) -> None:
    body = LOOP.replace("collective-permute-start(%a)", "collective-permute-start(%k)").replace(
        "%one = s32[] constant(1)", f"%one = s32[] constant(1)\n  %e = {TYPE} add(%a, %b)\n  %k = {TYPE} copy(%a)"
    )
    body = body.replace("  USE\n", "")
    counted = AROUND.replace("%i = s32[] copy(%z)", "%i = s32[] convert(%x)")
    result = judged(tmp_path, module(counted, before=body))
    assert any("all ranks choose alike at `w`" in text for text in result.assumptions)
    by_rank = AROUND.replace("%i = s32[] copy(%z)", "%p = u32[] partition-id()\n%i = s32[] convert(%p)")
    with pytest.raises(InputError, match="the rank's number decides"):
        judged(tmp_path, module(by_rank, before=body))


BRANCHES = f"""%left (p: f32[64]) -> f32[64] {{
  %p = {TYPE} parameter(0)
  %s = {FLYING} collective-permute-start(%p), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}
  ROOT %d = {TYPE} collective-permute-done(%s)
}}

%right (p: f32[64]) -> f32[64] {{
  %p = {TYPE} parameter(0)
  ROOT %n = {TYPE} negate(%p)
}}

"""


def test_branches_are_looked_at_both(tmp_path: Path) -> None:
    body = f"""
        %x = {TYPE} parameter(0)
        %y = {TYPE} parameter(1)
        %i = s32[] convert(%y)
        ROOT %c = {TYPE} conditional(%i, %x, %x), branch_computations={{%left, %right}}
    """
    result = judged(tmp_path, module(body, before=BRANCHES))
    assert result.verdict is Verdict.PROVED
    assert any("`c`" in text for text in result.assumptions)
    left = BRANCHES.replace(f"ROOT %d = {TYPE} collective-permute-done(%s)", f"ROOT %d = {TYPE} copy(%p)")
    with pytest.raises(InputError, match="leaves an operation in flight"):
        judged(tmp_path, module(body, before=left))


def test_several_modules_meet_in_the_order_of_their_text(tmp_path: Path) -> None:
    def ranks(first: str, second: str) -> str:
        lines = [
            f"%{n} = {TYPE} all-reduce({of}), channel_id={n[1]}, {OVER}" for n, of in ((first, "%x"), (second, "%y"))
        ]
        parameters = f"%x = {TYPE} parameter(0)\n%y = {TYPE} parameter(1)\n"
        return module(parameters + "\n".join(lines) + f"\nROOT %r = {TYPE} add(%{first}, %{second})", before=SUM)

    alike = judged(tmp_path, ranks("c1", "c2"), ranks("c1", "c2").replace("%r", "%r1"))
    assert alike.verdict is Verdict.PROVED
    crossed = judged(tmp_path, ranks("c1", "c2"), ranks("c2", "c1"))
    assert kinds(crossed) == {"mismatch"}
    fewer = module(f"%x = {TYPE} parameter(0)\n%y = {TYPE} parameter(1)\nROOT %r = {TYPE} add(%x, %y)")
    assert {"unmatched", "deadlock"} <= kinds(judged(tmp_path, ranks("c1", "c2"), fewer))


ASSIGNMENT = """BufferAssignment:
allocation 0: size 256, parameter 0:
 value: <1 x @0> (size=256,offset=0): f32[64]{0}
allocation 1: size 256, parameter 1:
 value: <2 y @0> (size=256,offset=0): f32[64]{0}
allocation 2: size 1024, preallocated-temp:
 value: <3 s{0} @0> (size=256,offset=0): f32[64]{0}
 value: <4 s{1} @0> (size=256,offset=256): f32[64]{0}
 value: <5 s{2} @0> (size=4,offset=900): u32[]
 value: <6 r @0> (size=256,offset=0): f32[64]{0}
 value: <7 a @0> (size=256,offset=OFFSET): f32[64]{0}

Total bytes used: 1536
"""


def test_a_rank_that_nobody_sends_to_gets_zeros(tmp_path: Path) -> None:
    """As of a permute: what a pipeline's first stage receives is read, and not used."""
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    lines = f"""
        %x = {TYPE} parameter(0)
        %y = {TYPE} parameter(1)
        %k = token[] after-all()
        %s = ({TYPE}, u32[], token[]) send(%x, %k), channel_id=1, {pairs}
        %g = ({TYPE}, u32[], token[]) recv(%k), channel_id=1, {pairs}
        %e = token[] send-done(%s), channel_id=1
        %d = ({TYPE}, token[]) recv-done(%g), channel_id=1
        %v = {TYPE} get-tuple-element(%d), index=0
        ROOT %r = {TYPE} add(%v, %y)
    """
    assert judged(tmp_path, module(lines)).verdict is Verdict.PROVED
    use = f"%u = {TYPE} get-tuple-element(%g), index=0\n%n = {TYPE} negate(%u)\n"
    assert kinds(judged(tmp_path, module(lines.replace("%e = token", use + "%e = token")))) == {"race"}


def test_bytes_that_a_buffer_assignment_reuses_in_flight_race(tmp_path: Path) -> None:
    body = f"{START}%a = {TYPE} add(%y, %y)\n{DONE}\nROOT %r = {TYPE} add(%d, %a)"
    fine = judged(tmp_path, module(body), ASSIGNMENT.replace("OFFSET", "512"))
    assert (fine.verdict, fine.assumptions) == (Verdict.PROVED, [])
    assert fine.peak[1]["bytes"] == 1536
    for reused in ("256", "300"):
        result = judged(tmp_path, module(body), ASSIGNMENT.replace("OFFSET", reused))
        assert kinds(result) == {"race"}
    with pytest.raises(InputError, match="no place of `a`"):
        judged(tmp_path, module(body), ASSIGNMENT.replace("<7 a", "<7 other").replace("OFFSET", "0"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (module(f"{START}{DONE}\n{ROOT}").replace(", is_scheduled=true", ""), "not scheduled"),
        (module(f"{START}{DONE}\n{ROOT}")[:-40], "truncated"),
        (module(f"{START}%d = {TYPE} collective-permute-done(%y)\n{ROOT}"), "no asynchronous start"),
        (module(f"{START}{DONE}\n{ROOT}").replace("{{0,1},{1,0}}", "{{0,1},{0,0}}"), "do not fit"),
        (module(f"{START}{DONE}\n{ROOT.replace('%y', '%nothing')}"), "`nothing` is not defined"),
    ],
)
def test_what_is_no_schedule_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        judged(tmp_path, text)
    assert message in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.file is not None


def test_an_assignment_of_another_version_is_told(tmp_path: Path) -> None:
    text = ASSIGNMENT.replace("OFFSET", "0").replace(" value: <7 a @0>", " value: a at 7")
    with pytest.raises(InputError, match="cannot read"):
        judged(tmp_path, module(f"{START}{DONE}\n{ROOT}"), text)


@pytest.mark.slow
@pytest.mark.parametrize("topology", [None, "v5e:2x4"])
def test_programs_compiled_here_have_no_findings(tmp_path: Path, topology: str | None) -> None:
    pytest.importorskip("jax")
    if topology:
        pytest.importorskip("libtpu")
    command = [sys.executable, "-m", "scalify_dl.audit.schedules.compiled", str(tmp_path / "out")]
    subprocess.run([*command, *(["--tpu", topology] if topology else [])], check=True, timeout=600)
    for dump in sorted((tmp_path / "out").glob("*.hlo")):
        plan = dump.with_suffix(".assignment.txt")
        result = judge(read_schedule([dump, *([plan] if plan.exists() else [])]), settings("both"))
        assert result.findings == [], dump.name
