"""`dlverify readers check`: what random programs say of a reader."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.whole import write_whole

from .progress import progress

if TYPE_CHECKING:
    from scalify_dl.audit.torch_reader.report import Report

REASONS = {
    ("", "generator"): "random numbers are not compared",
    ("topk", "sorted"): "then there is no order",
    ("_scaled_dot_product_flash_attention_for_cpu", "dropout_p"): "the kernel has none",
    ("_grouped_mm", "bias"): "no kernel takes one",
    ("empty", "memory_format"): "torch refuses it beside `out`",
    ("_softmax", "half_to_float"): "for half input on a GPU",
    ("_log_softmax", "half_to_float"): "for half input on a GPU",
}
"""Why an argument (of an op; of any) is never off its default in what is compared."""
SHOWN = 12
"""Failures that are printed."""
EVERY = 500
"""Programs after which a report that is asked for is written anew: a run of hours may be ended."""


def readers_check(
    framework: str, *, seconds: float, seed: int, count: int | None, as_json: bool, out: Path | None = None
) -> int:
    """Status 1 if the reader and the framework differ on a program, else 0. InputError where it is not installed.

    The report is written to `out` as JSON, now and then while programs run and whole at the end.
    """
    if framework not in ("torch", "jax"):
        raise InputError(f"no random programs for `{framework}`", expected="torch or jax")
    try:
        of_one = _torch if framework == "torch" else _jax
        return of_one(seconds, seed, count, as_json, out)
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed", hint=f"pip install 'scalify-dl[{framework}]'") from None


def _written(content: dict[str, Any], out: Path | None) -> str:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    if out is not None:
        write_whole(out, text + "\n")
    return text


def _torch(seconds: float, seed: int, count: int | None, as_json: bool, out: Path | None) -> int:
    from scalify_dl.audit.torch_reader.campaign import run

    with progress("reading random programs") as say:

        def tell(report: Report) -> None:
            say(f"reading random programs: {report.programs:,}, {len(report.failures)} read wrongly")
            if out is not None and report.programs % EVERY == 0:
                _written(_content(report), out)

        report = run(seconds, seed, count, progress=tell)
    text = _written(_content(report), out)
    print(text if as_json else _table(report))
    return 1 if report.failures else 0


def _jax(seconds: float, seed: int, count: int | None, as_json: bool, out: Path | None) -> int:
    """The same of the readers of StableHLO and HLO."""
    from scalify_dl.audit.jax_reader.campaign import run

    with progress("reading random programs") as say:

        def tell(report: Any) -> None:
            say(f"reading random programs: {report.programs:,}, {len(report.mismatches)} results differ")
            if out is not None and report.programs % EVERY == 0:
                _written(report.content(), out)

        report = run(seconds=seconds, count=count, seed=seed, progress=tell)
    text = _written(report.content(), out)
    print(text if as_json else _table_of_jax(report))
    return 1 if report.mismatches else 0


def _table_of_jax(report: Any) -> str:
    lines = [f"READ WRONGLY (seed {number}): {what}" for number, what in report.mismatches[:SHOWN]]
    lines += [f"not compared, {number:,} times: {what}" for what, number in report.unknown.most_common(SHOWN)]
    reasons: dict[str, list[str]] = {}
    for name, why in sorted(report.never_drawn.items()):
        reasons.setdefault(why, []).append(name)
    for why, names in sorted(reasons.items()):
        lines.append(f"never drawn{f' ({why})' if why else ''}: {', '.join(names)}")
    lines.append(
        f"{report.programs:,} programs in {report.seconds:.0f} s of CPU, {len(report.mismatches)} results read wrongly"
    )
    return "\n".join(lines)


def _content(report: Report) -> dict[str, Any]:
    return {
        "programs": report.programs,
        "seconds": round(report.seconds, 2),
        "captured": dict(report.captures),
        "not_captured": dict(report.uncaptured),
        "values_compared": report.checked,
        "failures": [
            {"seed": f.seed, "capture": f.capture, "message": f.message, "program": f.program, "text": f.text}
            for f in report.failures
        ],
        "ended_by_torch": {str(seed): how for seed, how in report.ended.items()},
        "overloads": {name: report.drawn[name] for name in report.overloads},
        "arguments_off_default": dict(report.off),
        "never_drawn": {name: _never(report, name, missing) for name, missing in report.missing.items()},
        "unknown_when_given": sorted(report.refused),
        "unknown": {name: dict(whys) for name, whys in report.unknown.items()},
        "left_out": report.left_out,
        "avoided": report.avoided,
    }


def _never(report: Report, name: str, missing: set[str]) -> dict[str, str | None]:
    """Arguments that were never off their default in a call that was lowered ("": no call was), and why not."""
    always = report.unknown[name].most_common(1)[0][0] if "" in missing and name in report.unknown else None
    found: dict[str, str | None] = {"": always} if "" in missing else {}
    for argument in sorted(missing - {""}):
        why = REASONS.get((name.split(".")[1], argument)) or REASONS.get(("", argument))
        found[argument] = "then unknown" if f"{name} {argument}" in report.refused else why or always
    return found


def _table(report: Report) -> str:
    lines: list[str] = []
    for failure in report.failures[:SHOWN]:
        lines += [f"READ WRONGLY ({failure.capture}): {failure.message}"]
        lines += [f"  {line}" for line in failure.program.splitlines()]
    if len(report.failures) > SHOWN:
        lines.append(f"{len(report.failures) - SHOWN:,} more are read wrongly: --json shows all")
    lines += [f"torch ended the process (seed {seed}): {how}" for seed, how in report.ended.items()]
    lines.append(f"{'overload':52} {'lowered':>8} {'unknown':>8}  never off their default")
    for name in sorted(report.overloads):
        missing = report.missing.get(name, set())
        unknown = report.unknown.get(name, Counter())
        drawn = report.drawn[name]
        if drawn or unknown:
            never = {argument: why for argument, why in _never(report, name, missing).items() if argument}
            words = ", ".join(f"{argument} ({why})" if why else argument for argument, why in never.items())
            words = words if drawn else unknown.most_common(1)[0][0]
            lines.append(f"{name:52} {drawn:8,} {sum(unknown.values()):8,}  {words}".rstrip())
    untouched = [name for name, missing in report.missing.items() if "" in missing]
    undrawn = sorted(name for name in untouched if name not in report.unknown)
    if undrawn:
        lines.append(f"never drawn: {', '.join(undrawn)}")
    for why, number in Counter(report.left_out.values()).most_common():
        lines.append(f"left out, {number} times: {why}")
    lines += [f"not drawn: {what}: {why}" for what, why in report.avoided.items()]
    captured = ", ".join(f"{number:,} {name}" for name, number in report.captures.most_common())
    lines.append(f"captured: {captured}; not captured by torch: {sum(report.uncaptured.values()):,}")
    lines.append(
        f"{report.programs:,} programs, {report.checked:,} values compared in {report.seconds:.0f} s of CPU,"
        f" {len(report.failures)} read wrongly"
    )
    return "\n".join(lines)
