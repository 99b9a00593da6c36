"""`dlverify check`: replay a certificate."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalify_dl.certificate import premises, schedules
from scalify_dl.certificate.check import Checked, Checker
from scalify_dl.certificate.files import CertificateError
from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.garbage import paused
from scalify_dl.prove.pipeline import rule_files
from scalify_dl.prove.verdict import Verdict
from scalify_dl.pysouffle import rules_dir
from scalify_dl.refute.provided import hidden, left_out

from .progress import progress
from .run import load
from .steps import Step, every, in_words


def check(
    certificate: Path, inputs: Sequence[Path], rules: tuple[Path, ...], *, as_json: bool, steps: str = ""
) -> int:
    """Status 0 for an accepted certificate, 3 for one that is rejected; bad input where there is none. `steps` prints
    those about values, in words, behind that (`values`), or all of them as rules have them (`all`)."""
    if steps and as_json:
        raise InputError("steps and --json together", expected="one of them")
    taken: list[Step] = []

    def told(relation: str, row: Sequence[Any], by: tuple[str, int] | None, premises: Sequence[int]) -> None:
        taken.append(Step(relation, row, by, premises))

    if not certificate.is_file():
        raise InputError(
            "no such certificate", file=certificate, hint="`dlverify run FACTS --certificate F` writes one"
        )
    try:
        said, plan = schedules.settings(certificate), premises.stated(certificate)
        if steps and (said is not None or plan is not None):
            expected = "a certificate of a pair"
            raise InputError("steps are shown of proofs about values", file=certificate, expected=expected)
        if said is not None:
            return _schedule(certificate, inputs, said, as_json)
        if len(inputs) != 1 or not inputs[0].is_dir():
            raise InputError(
                "a certificate of values is checked against one directory of facts",
                file=inputs[0],
                expected="dlverify check CERTIFICATE FACTS",
                hint="`dlverify export BASE DIST … --mesh … -o FACTS` writes them, as does --out FACTS of the run",
            )
        (directory,) = inputs
        if plan is not None:
            return _plan(certificate, directory, plan, rules, as_json)
        facts = load(directory)  # facts that contradict each other are bad input, whatever is proved from them
        with paused(), progress("replaying the proof"):
            found = Checker(rule_files(rules), rules_dir()).replay(certificate, facts, told if steps else None)
        _provided(facts, found)
    except CertificateError as error:
        if as_json:
            print(json.dumps({"accepted": False, "reason": str(error)}, indent=2))
        print(f"dlverify: the certificate is rejected: {error}", file=sys.stderr)
        return 3
    status = _accepted(found, as_json)
    if steps:
        lines = every(taken) if steps == "all" else in_words(taken, facts)
        print("".join(f"{line}\n" for line in lines), end="")
    return status


def _provided(facts: Facts, found: Checked) -> None:
    """Refuses a proof by an assumption that leaves out what the programs provide for, as `verify` does, or that hides
    one."""
    outputs = [(dist, base) for dist, base, _ in found.outputs]
    without = left_out(facts, [why for _, _, why in found.assumptions], outputs, claimed=True)
    if without:
        named = ", ".join(sorted(dist for dist, _ in without)[:3])
        raise CertificateError(
            f"{named}: proved of inputs for which the assumptions hold; the program provides for others, and there the"
            " sides differ"
        )
    unsaid = hidden(facts, found.claims, found.assumptions)
    if unsaid:
        raise CertificateError(f"it does not list what its formulas hide: {unsaid}")


def _accepted(found: Checked, as_json: bool, tested: Mapping[str, Any] | None = None) -> int:
    """Says what was accepted; `tested`: premises of a plan."""
    if as_json:
        outputs = [{"tensor": d, "base_tensor": b, "layout": layout} for d, b, layout in found.outputs]
        assumptions = [{"tensor": t, "text": text, "why": why} for t, text, why in found.assumptions]
        print(
            json.dumps(
                {"accepted": True, "outputs": outputs, "assumptions": assumptions, "steps": found.steps}
                | ({"premises": tested} if tested is not None else {}),
                indent=2,
            )
        )
    else:
        print(
            f"accepted: {found.steps:,} steps, {_counted(len(found.outputs), 'output')}, "
            + _counted(len(found.assumptions), "assumption")
        )
        for dist, base, layout in found.outputs:
            print(f"  {dist} = {base}  {layout}")
        for name, premise in (tested or {}).items():
            exceptions = f", but for {premise['told']} findings" if premise["told"] else ""
            print(f"  {name}: {premise['states']}{exceptions}")
    return 0


def _plan(certificate: Path, directory: Path, said: dict[str, Any], rules: tuple[Path, ...], as_json: bool) -> int:
    """A certificate of a training plan: its premises are tested on the tables, which are folded anew."""
    from scalify_dl.plans.certificate import judged, outputs, texts
    from scalify_dl.plans.check import MAIN
    from scalify_dl.plans.prepare import prepare

    with progress("testing the premises of the plan") as say:
        prepared = prepare(directory)
        with paused():
            tested = premises.test(said, rules_dir() / MAIN, rules_dir(), texts(directory), judged(directory))
            if prepared.facts is None or prepared.missing or set(prepared.expected) != set(prepared.names.values()):
                raise CertificateError("the plan does not give all outputs of the single-device step")
            if prepared.in_time is None or prepared.in_time.verdict is not Verdict.PROVED:
                raise CertificateError("ranks of the plan may race or hang")
            if said.get("outputs") != outputs(prepared):
                raise CertificateError("its outputs are not those of the plan")
            say("replaying the proof")
            found = Checker(rule_files(rules), rules_dir()).replay(certificate, prepared.facts)
            _provided(prepared.facts, found)
    return _accepted(found, as_json, tested)


def _schedule(certificate: Path, inputs: Sequence[Path], said: dict[str, Any], as_json: bool) -> int:
    """A certificate of a schedule: its files are read again, as it says."""
    from scalify_dl.schedule.certificate import tables_of
    from scalify_dl.schedule.run import MAIN
    from scalify_dl.schedule.verdict import name

    from .schedule import read

    streams, times, sends = said.get("streams"), said.get("durations"), said.get("sends")
    if not isinstance(streams, str) or not isinstance(times, dict) or not isinstance(sends, list):
        raise CertificateError("it does not say how its files are read")
    if any(room is not None and (type(room) is not int or room < 0) for room in sends):
        raise CertificateError("it does not say how many messages a channel holds")
    with paused(), progress("replaying the schedule"):
        facts = read(inputs, streams, times)
        found = schedules.replay(certificate, rules_dir() / MAIN, rules_dir(), tables_of(facts), facts.assumptions)
    rooms = [name(capacity) for capacity in sends]
    if as_json:
        stated = [{"tensor": "", "text": text, "why": "schedule"} for text in found.assumptions]
        told = {"accepted": True, "verdict": found.verdict, "sends": rooms, "assumptions": stated, "rows": found.rows}
        print(json.dumps(told, indent=2))
    else:
        print(f"accepted: {found.verdict}, {found.rows:,} rows, {len(found.assumptions)} assumptions")
        print(f"  {' and '.join(rooms)}")
    return 0


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
