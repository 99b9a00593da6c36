"""The report for people at a terminal: the verdict first, then where and why, then the rest.

Text is folded at the width of the terminal with a hanging indent; written to a pipe or a file it is neither folded nor
coloured, so that it can be searched.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scalify_dl.prove.verdict import Assumption, Frame, OutputVerdict, Report, RootCause, Verdict

from .numbers import counterexample_lines

if TYPE_CHECKING:  # most reports go into a pipe or a file, and are written without rich
    from rich.console import Console

    from scalify_dl.finding import Finding

STYLE = {Verdict.PROVED: "bold green", Verdict.REFUTED: "bold red", Verdict.UNKNOWN: "bold yellow"}
_SHOWN = 5
_ASSUMED = 12
"""Assumptions of one sort that are shown, those that nobody agreed to first."""
"""Assumptions of one sort, source frames and unrelated inputs listed before `and N more`."""
_OUTPUTS = 10
"""Outputs of one verdict that are listed at a terminal; in a pipe or a file all are."""
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")
"""Names come from dumps: none of their characters may steer the terminal."""

Part = str | tuple[str, str]


class _Page:
    """Writes lines as they are."""

    at_terminal = False

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def line(self, *parts: Part, indent: int = 0, hang: int = 0) -> None:
        words = "".join(p if isinstance(p, str) else p[0] for p in parts)
        self.file.write(f"{' ' * indent}{words.translate(_CONTROL).rstrip()}\n")

    def field(self, label: str, text: str, indent: int = 5) -> None:
        self.line((f"{label:<12}", "dim"), text, indent=indent, hang=12)

    def title(self, text: str) -> None:
        self.line("")
        self.line((text, "bold"))


class _Screen(_Page):
    """Writes lines in colour and with a hanging indent."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.at_terminal = console.is_terminal
        self.width = console.width if console.is_terminal else 10**6

    def line(self, *parts: Part, indent: int = 0, hang: int = 0) -> None:
        from rich.text import Text

        styled = ((p, "") if isinstance(p, str) else p for p in parts)
        text = Text.assemble(*((words.translate(_CONTROL), style) for words, style in styled))
        room = max(20, self.width - indent - hang)
        for i, row in enumerate(text.wrap(self.console, room, overflow="fold", no_wrap=self.width == 10**6)):
            row.rstrip()
            self.console.print(Text(" " * (indent + (hang if i else 0))) + row, soft_wrap=True, highlight=False)


def _page(file: IO[str] | None, console: Console | None) -> _Page:
    out = file or sys.stdout
    said = {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys() or "ipykernel" in sys.modules
    if console is None and not said and not out.isatty():
        return _Page(out)
    from scalify_dl.consoles import Console

    return _Screen(console or Console(file=out, highlight=False, emoji=False, markup=False))


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _headline(report: Report) -> str:
    proved = sum(o.verdict is Verdict.PROVED for o in report.outputs)
    return f"{proved} of {_count(len(report.outputs), 'output')} proved"


def _outputs(page: _Page, report: Report) -> None:
    page.title("Outputs")
    for verdict in (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.PROVED):
        rows = [o for o in report.outputs if o.verdict is verdict]
        groups = _said_alike(rows)
        shown = groups[:_OUTPUTS] if page.at_terminal else groups
        for group in shown:
            o = group[0]
            names = ", ".join(o.name if o.name == o.base else f"{o.name} = {o.base}" for o in group)
            counted = f"{_count(len(group), 'output')}: " if len(group) > 1 else ""
            page.line((f"{o.verdict.value:<9}", STYLE[o.verdict]), f"{counted}{names}", indent=2, hang=9)
            if o.pattern:
                page.line(o.pattern, indent=11, hang=2)
            if o.reason:
                page.line(o.reason, indent=11, hang=2)
        if len(shown) < len(groups):
            more = f"and {sum(map(len, groups[len(shown) :])):,} more (in JSON: all)"
            page.line((f"{verdict.value:<9}", STYLE[verdict]), more, indent=2, hang=9)


def _said_alike(rows: list[OutputVerdict]) -> list[list[OutputVerdict]]:
    """Outputs, those together that are not proved for one reason and of which nothing else is said."""
    groups: dict[tuple[str, ...], list[OutputVerdict]] = {}
    for o in rows:
        alike = o.verdict is not Verdict.PROVED and o.reason
        groups.setdefault((o.pattern, o.reason) if alike else (o.tensor, o.name, o.base, ""), []).append(o)
    return list(groups.values())


def _here(frame: Frame) -> str:
    """The place of a frame, from here where it lies below."""
    return frame.said.removeprefix(f"{Path.cwd()}/")


def _cause(page: _Page, number: int, cause: RootCause) -> None:
    called = f", {cause.called}" if cause.called and cause.called != cause.name else ""
    page.line(f"{number}. ", (cause.name, "bold"), f" ({cause.kind}){called}", indent=2, hang=3)
    for i, frame in enumerate(cause.source[:_SHOWN]):
        place = _here(replace(frame, function=""))
        page.field("source" if i == 0 else "", place + (f"  in {frame.function}" if frame.function else ""))
    if len(cause.source) > _SHOWN:
        page.field("", f"and {_count(len(cause.source) - _SHOWN, 'outer frame')}")
    if cause.module:
        page.field("module", cause.module)
    if cause.feeds:
        page.field("leads to", cause.feeds)
    for i, operand in enumerate(cause.operands):
        page.field("operands" if i == 0 else "", operand)
    if cause.base_name:
        where = f", {_here(cause.base_source[0])}" if cause.base_source else ""
        page.field("baseline", f"{cause.base_name}{where}")
    for label, lines in (
        ("expected", cause.expected),
        ("found", cause.found),
        ("inputs", cause.inputs),
        ("try", cause.suggestion),
        ("tried", cause.outcome),
    ):
        for i, text in enumerate(lines):
            page.field(label if i == 0 else "", text)
    if cause.lemma_missing:
        page.field("no lemma", cause.lemma_missing)


def _frontier(page: _Page, report: Report) -> None:
    if not report.frontier:
        return
    more = f"; {_count(report.downstream, 'more op')} unproved only because of them" if report.downstream else ""
    groups = _alike(report.frontier)
    ops = f" at {len(report.frontier):,} ops" if len(groups) < len(report.frontier) else ""
    page.title(f"{_count(len(groups), 'root cause')}{ops}{more}")
    for number, (cause, *others) in enumerate(groups, 1):
        _cause(page, number, cause)
        if others:
            page.field("likewise", _named([one.name for one in others]))


def _alike(causes: Sequence[RootCause]) -> list[list[RootCause]]:
    """Causes, those together of which the same is said at ops of one kind in one function."""
    groups: dict[tuple[object, ...], list[RootCause]] = {}
    for cause in causes:
        place = (cause.source[0].file, cause.source[0].function) if cause.source else (cause.op, "")
        said = (cause.kind, *place, cause.found, cause.inputs, cause.suggestion, cause.tried, cause.lemma_missing)
        groups.setdefault(said, []).append(cause)
    return list(groups.values())


def _named(names: Sequence[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")


def _findings(page: _Page, findings: list[Finding]) -> None:
    if not findings:
        return
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.rank, finding.micro_batch, finding.source[:1], finding.suggestion, finding.explains)
        said = (finding.level, finding.kind, finding.text, *key)
        groups.setdefault(said, []).append(finding)
    page.title(_count(len(findings), "finding"))
    for number, (finding, *others) in enumerate(groups.values(), 1):
        where = [] if finding.rank is None else [f"rank {finding.rank}"]
        where += [] if finding.micro_batch is None else [f"micro-batch {finding.micro_batch}"]
        place = f", {', '.join(where)}" if where else ""
        name = (finding.name or finding.op or "", "bold")
        page.line(f"{number}. {finding.level}: ", name, f" ({finding.kind}{place})", indent=2, hang=3)
        page.line(finding.text, indent=5, hang=2)
        for source in finding.source[:1]:
            page.field("source", source)
        if finding.suggestion:
            page.field("try", finding.suggestion)
            page.field("tried", finding.outcome or "")
        if finding.explains:
            page.field("explains", finding.explains)
        if others:
            page.field("likewise", _named([one.name or one.op or one.kind for one in others]))


def _counterexample(page: _Page, found: dict[str, Any]) -> None:
    title, lines = counterexample_lines(found)
    page.title(title)
    for label, text in lines:
        page.field(label, text, indent=2)


def _assumptions(page: _Page, assumptions: list[Assumption]) -> None:
    if not assumptions:
        return
    page.title(f"{_count(len(assumptions), 'assumption')}")
    sorts: dict[str, list[Assumption]] = defaultdict(list)
    for a in assumptions:
        sorts[a.why].append(a)
    for why, rows in sorts.items():
        page.line((why, "dim"), indent=2)
        for a in sorted(rows, key=lambda a: a.accepted)[:_ASSUMED]:
            page.line(f"{a.said}{' (accepted)' if a.accepted else ''}", indent=4, hang=2)
        if len(rows) > _ASSUMED:
            page.line(f"and {len(rows) - _ASSUMED:,} more (in JSON: all)", indent=4)


def _stats(page: _Page, stats: dict[str, float]) -> None:
    words = [f"{int(stats[k]):,} {k}" for k in ("ops", "tuples") if k in stats]
    if "cpu_s" in stats:
        words.append(f"{stats['cpu_s']:.2f} s CPU")
    if "peak_mb" in stats:
        words.append(f"{stats['peak_mb']:.0f} MB")
    page.line("")
    page.line((", ".join(words), "dim"))


def render(report: Report, file: IO[str] | None = None, console: Console | None = None) -> None:
    """Print the report on `file` (default: standard output), or on a console of your own."""
    page = _page(file, console)
    page.line((report.verdict.value, STYLE[report.verdict]), f"  {_headline(report)}", hang=9)
    if report.title:
        page.line(report.title, indent=9)
    for text in report.scope:
        page.line((text, "yellow"), indent=9)
    for text in report.picture:
        page.line(text, indent=9)
    _findings(page, report.findings)
    _frontier(page, report)
    if report.counterexample:
        _counterexample(page, report.counterexample)
    _outputs(page, report)
    if report.unrelated_inputs:
        page.title(f"{_count(len(report.unrelated_inputs), 'input')} related to nothing")
        for name, text in report.unrelated_inputs[:_SHOWN]:
            page.line(f"{name}: {text}", indent=2, hang=2)
        if len(report.unrelated_inputs) > _SHOWN:
            page.line(f"and {len(report.unrelated_inputs) - _SHOWN:,} more (in JSON: all)", indent=2)
    _assumptions(page, report.assumptions)
    for title, lines in report.sections:
        page.title(title)
        for line in lines:
            page.line(line, indent=2, hang=2)
    if report.notes:
        page.title("Notes")
        for note in report.notes:
            page.line(note, indent=2, hang=2)
    _stats(page, report.stats)


def stopped_at(report: Report) -> str:
    """What `--strict` stops at, in a line; empty where it does not."""
    found = report.not_accepted
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"not accepted: {found[0].said} ({found[0].why}){more}" if found else ""


def render_table(
    rows: Sequence[tuple[str, Report, Verdict]], bad: Sequence[str] = (), file: IO[str] | None = None
) -> None:
    """Print the verdicts of several pairs: name, report and the verdict that is right; `bad` are bad input."""
    from rich.table import Table
    from rich.text import Text

    from scalify_dl.consoles import Console

    console = Console(file=file or sys.stdout, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("set", "verdict", "expected", "outputs", "root causes"):
        table.add_column(heading, overflow="fold")
    for name, report, expected in rows:
        table.add_row(
            name,
            Text(report.verdict.value, STYLE[report.verdict]),
            Text(expected.value, "" if report.verdict is expected else "bold red"),
            f"{sum(o.verdict is Verdict.PROVED for o in report.outputs)}/{len(report.outputs)} proved",
            ", ".join(f"{c.name} ({c.kind})" for c in report.frontier[:3])
            + (f" and {len(report.frontier) - 3} more" if len(report.frontier) > 3 else "")
            + stopped_at(report),
        )
    for name in bad:
        table.add_row(name, Text("BAD INPUT", "bold red"), "", "", "")
    console.print(table)
    right = sum(report.verdict is expected for _, report, expected in rows)
    unread = f", {len(bad)} bad input" if bad else ""
    console.print(f"\n{_count(len(rows) + len(bad), 'pair')}, {right} as expected{unread}")
