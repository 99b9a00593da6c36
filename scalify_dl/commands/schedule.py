"""`dlverify schedule`: whether a schedule can hang, race or read too early, and what it costs."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.garbage import paused
from scalify_dl.schedule.plot import check_place, plot
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import CHECKS, settings
from scalify_dl.schedule.tables import Schedule
from scalify_dl.schedule.terminal import render
from scalify_dl.schedule.verdict import judge


def schedule(
    inputs: Sequence[Path],
    *,
    sends: str,
    check: str,
    streams: str,
    durations: str,
    timeout: float | None,
    as_json: bool,
    picture: Path | None = None,
    certificate: Path | None = None,
) -> int:
    """Read, decide, print; the exit status."""
    capacities = settings(sends)
    times = _durations(durations)
    if check not in CHECKS:
        raise InputError(f'--check "{check}"', expected=" or ".join(CHECKS))
    if check != "all" and (asked := "--plot" if picture else "--certificate" if certificate else ""):
        raise InputError(f"{asked} shows what all checks find", expected=f"no --check {check} beside it")
    if picture is not None:
        check_place(picture)
    if certificate is not None and (not certificate.parent.is_dir() or certificate.is_dir()):
        raise InputError("cannot write here", file=certificate, expected="a file in an existing directory")
    with paused():
        facts = read(inputs, streams, times, check)
        result = judge(facts, capacities, check=check, timeout=timeout)
        if picture is not None:
            plot(facts, result.outcomes[0], picture)
        if certificate is not None:
            from scalify_dl.schedule.certificate import write

            write(certificate, facts, result, {"sends": capacities, "streams": streams, "durations": times})
    usage = resource.getrusage(resource.RUSAGE_SELF)
    result.stats |= {"cpu_s": round(time.process_time(), 2), "peak_mb": usage.ru_maxrss // 1024}
    print(json.dumps(result.as_object(), indent=2, ensure_ascii=False) if as_json else render(result), end="")
    if as_json:
        print()
    return result.verdict.exit_code


def read(inputs: Sequence[Path], streams: str, times: Mapping[str, int], check: str = "all") -> Schedule:
    """The schedule of files, or of a plan."""
    if len(inputs) == 1 and inputs[0].is_dir():
        from scalify_dl.plans.schedule import read_plan

        return read_plan(inputs[0])
    return read_schedule(inputs, streams=streams, durations=times, check=check)


def _durations(text: str) -> dict[str, int]:
    """`F=10,B=20` as numbers."""
    found = {}
    for part in filter(None, text.split(",")):
        kind, _, number = part.strip().partition("=")
        if kind not in ("F", "B", "I", "W") or not (number.isascii() and number.isdigit() and len(number) < 7):
            raise InputError(f'--durations "{part}"', expected="F=10,B=20,I=10,W=10, whole numbers")
        found[kind] = int(number)
    return found
