"""What is to be said at lines of files: one record for SARIF, for GitHub's log and for a baseline of known findings.

Every annotation has a place in the repository: the innermost frame that lies in it, else the dump. Its fingerprint says
what is wrong and not in which line, so that it stays as code above it grows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from scalify_dl.errors import InputError
from scalify_dl.finding import Finding
from scalify_dl.prove.verdict import Frame, OutputVerdict, Report, RootCause, Verdict

from .leads import leads

FINGERPRINT = "dlverify/v1"
RULES = {
    "frontier": "An operation whose operands all correspond to the baseline and whose result does not",
    "missing-lemma": "An operation of a kind that no rule speaks about",
    "output": "An output that is not proved, for no reason at a single operation",
    "finding": "Something wrong with the structure of the program",
    "assumption": "An assumption that nobody agreed to, which a strict verdict asks for",
    "unrelated-input": "An input of the distributed program that is related to no baseline input",
}


MOST = 20
"""Outputs that are told at the root cause that leads to them."""


@dataclass(frozen=True)
class Annotation:
    """One thing to be said, at a line of a file (relative to the repository)."""

    rule: str
    level: str
    """`error`, `warning` or `note`."""
    title: str
    text: str
    file: str
    line: int
    function: str = ""
    stack: tuple[tuple[str, Frame], ...] = ()
    """Frames from the innermost on, each with its path as above."""
    related: tuple[str, Frame] | None = None
    """The baseline's place, in the same way."""
    related_text: str = ""
    led_to: tuple[tuple[str, str, int], ...] = ()
    """What it leads to, each with its place: outputs that come out wrong because of it."""
    consequence: str = ""
    """A sentence of them, no part of the fingerprint."""
    fingerprint: str = ""


def repository(start: Path | None = None) -> Path:
    """The folder that paths are relative to: that of the repository around us, else where we are."""
    here = (start or Path.cwd()).resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


class Places:
    """Which files lie in the repository; the dump stands for what lies elsewhere."""

    def __init__(self, root: Path, dump: str) -> None:
        self.root = root
        inside = self.inside(dump)
        self.dump = inside or PurePosixPath(dump.replace("\\", "/")).name or "dlverify"
        self._lines = _lines(root / inside) if inside else []

    def line(self, *names: str) -> int:
        """The line of the dump that makes the first of these values that it has, else one that names it, else its
        first."""
        for name in filter(None, names):
            word = rf"(?<![\w.$-]){re.escape(name)}(?![\w.$-])"
            for sought in (rf"\s*(ROOT )?%?{word}\s*(:[^=]*)?=", rf".*{word}"):
                found = re.compile(sought)
                line = next((n for n, text in enumerate(self._lines, 1) if found.match(text)), 0)
                if line:
                    return line
        return 1

    def inside(self, file: str) -> str | None:
        """A path relative to the repository; None for what lies elsewhere, or is not here (another machine's)."""
        path = PurePosixPath(file.replace("\\", "/"))
        if not file or "\0" in file or re.match(r"[A-Za-z]:|<", file):
            return None
        if not path.is_absolute():
            for here in (Path(os.path.realpath(path)), Path(os.path.realpath(self.root / path))):
                if here.exists() and here.is_relative_to(self.root):
                    return here.relative_to(self.root).as_posix()
            return None
        resolved = Path(os.path.realpath(path))
        return resolved.relative_to(self.root).as_posix() if resolved.is_relative_to(self.root) else None

    def stack(self, frames: Iterable[Frame]) -> tuple[tuple[str, Frame], ...]:
        """Those frames that lie in the repository."""
        return tuple((inside, f) for f in frames if (inside := self.inside(f.file)) is not None)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", "replace").split("\n")
    except (OSError, ValueError):  # a directory, or it is gone
        return []


def annotate(
    reports: Report | Sequence[Report], root: Path | None = None, names: Sequence[str] = ()
) -> list[Annotation]:
    """All that is to be said of reports, each thing once, and no two under one fingerprint; `names` are those of
    several pairs."""
    given = [reports] if isinstance(reports, Report) else list(reports)
    top = root or repository()
    found: dict[Annotation, str] = {}
    for number, report in enumerate(given):
        of = f"{names[number]}: " if names else ""
        found |= {replace(a, title=of + a.title): a.title for a in _all(report, Places(top, report.file))}
    seen: Counter[str] = Counter()
    out = []
    for one, title in found.items():  # a pair's name is no part of it: it is known whether one pair is verified or all
        what = "|".join((one.rule, one.file, one.function, re.sub(r"\d+", "#", title + one.text)))
        digest = hashlib.sha256(what.encode()).hexdigest()[:32]
        seen[digest] += 1
        out.append(replace(one, fingerprint=f"{digest}:{seen[digest]}"))
    return out


def _all(report: Report, places: Places) -> Iterator[Annotation]:
    level = "error" if report.verdict is Verdict.REFUTED else "warning"
    causes = leads(report)
    behind = {o.tensor for _, led in causes for o in led}
    for cause, led in causes:
        yield _finding(cause, places, led) if isinstance(cause, Finding) else _cause(cause, places, level, led)
    for name, text in report.unrelated_inputs:
        title = f"{name} is related to nothing"
        yield Annotation("unrelated-input", "warning", title, text, places.dump, places.line(name))
    for a in report.not_accepted:
        title = f"{a.label or a.tensor or a.why}: an assumption is not accepted"
        yield Annotation("assumption", level, title, f"{a.said} ({a.why})", places.dump, places.line(a.tensor))
    told = {finding.name for finding in report.findings if finding.level == "error"}
    for o in report.outputs:
        if o.tensor in behind or o.name in told:
            continue
        if o.verdict is not Verdict.PROVED and (o.reason or not report.frontier):
            reason = o.reason or "nothing was derived about it"
            line = places.line(o.tensor, o.name)
            yield Annotation("output", level, f"{o.name} is {o.verdict.value}", reason, places.dump, line)


def _cause(cause: RootCause, places: Places, level: str, led: Sequence[OutputVerdict]) -> Annotation:
    named = (("In module", cause.module), ("Its result is", cause.called), ("It leads to", cause.feeds))
    text = [f"{label} {name}." for label, name in named if name]
    for label, lines in (
        ("Expected", cause.expected),
        ("Found", cause.found),
        ("Inputs", cause.inputs),
        ("Try", cause.suggestion),
        ("Tried", cause.outcome),
    ):
        text += [f"{label}: {line}." for line in lines]
    if cause.lemma_missing:
        text.append(f"No lemma: {cause.lemma_missing}.")
    stack = places.stack(cause.source)
    base = places.stack(cause.base_source)
    file, frame = stack[0] if stack else (places.dump, Frame("", places.line(cause.name, cause.op)))
    of = ", in the backward of this line," if frame.backward else ""
    fault = "is not what" if level == "error" else "is not proved to be what"
    return Annotation(
        "missing-lemma" if cause.lemma_missing else "frontier",
        level,
        f"{cause.name} ({cause.kind}){of} {fault} the baseline computes",
        " ".join(text),
        file,
        max(frame.line, 1),
        frame.function,
        stack,
        base[0] if base else None,
        f"the baseline's {cause.base_name}",
        *_led_to(led, places),
    )


def _led_to(led: Sequence[OutputVerdict], places: Places) -> tuple[tuple[tuple[str, str, int], ...], str]:
    """Outputs that a cause leads to: each with its place, and all in a sentence."""
    told = [(f"{o.name} is {o.verdict.value}{f': {o.reason}' * bool(o.reason)}", o) for o in led[:MOST]]
    names = ", ".join([o.name for o in led[:3]] + ["…"] * (len(led) > 3))
    return (
        tuple((text, places.dump, places.line(o.tensor, o.name)) for text, o in told),
        f" It leads to {len(led)} outputs that are not proved: {names}." if len(led) > 1 else "",
    )


def _finding(finding: Finding, places: Places, led: Sequence[OutputVerdict] = ()) -> Annotation:
    level = finding.level if finding.level in ("error", "note") else "warning"
    file, line = places.dump, 1
    for source in finding.source[:1]:
        name, _, rest = source.partition(":")
        number = rest.partition(":")[0].removesuffix(" (its backward)")
        file, line = places.inside(name) or file, int(number) if number.isdigit() and places.inside(name) else 1
    name = finding.name or finding.op or finding.kind
    advice = f" Try: {finding.suggestion}. Tried: {finding.outcome}." if finding.suggestion else ""
    led_to, consequence = _led_to(led, places)
    title, text = f"{name} ({finding.kind})", finding.text + advice
    return Annotation("finding", level, title, text, file, max(line, 1), led_to=led_to, consequence=consequence)


def known(file: Path) -> frozenset[str]:
    """The fingerprints in a SARIF file of an earlier run."""
    try:
        log = json.loads(file.read_text("utf-8"))
        results = [result for run in log["runs"] for result in run["results"]]
        return frozenset(result["partialFingerprints"][FINGERPRINT] for result in results)
    except OSError as error:
        raise InputError(f"cannot read the baseline: {error.strerror}", file=file) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            "no baseline of known findings", file=file, expected="what --sarif wrote in an earlier run"
        ) from None
