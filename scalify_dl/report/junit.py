"""JUnit XML: a suite for each report, a case for each output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from xml.sax.saxutils import escape, quoteattr

from scalify_dl.prove.verdict import Report, Verdict

from .terminal import render as words

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def render(
    reports: Sequence[tuple[str, Report]],
    expected: Mapping[str, Verdict] | None = None,
    bad: Mapping[str, str] | None = None,
) -> str:
    """Reports by name as one XML document. Of a pair of which another verdict than PROVED is right, by name, nothing
    fails that comes out so; and if it does not, this fails. `bad` are errors of pairs without a report."""
    suites, total, failed = [], 0, 0
    for name, report in reports:
        out = StringIO()
        words(report, out)
        cases = []
        right = (expected or {}).get(name, Verdict.PROVED)
        due = right is report.verdict is not Verdict.PROVED
        wrong = [] if due else [o for o in report.outputs if o.verdict is not Verdict.PROVED]
        first = _first(report)
        whole = report.verdict is not right and not wrong  # a race, or an assumption that is not accepted
        for o in report.outputs:
            inner = ""
            if o in wrong:
                what = quoteattr(_text(o.reason or f"{o.verdict.value}: {first}"))
                inner = f"<failure type={quoteattr(o.verdict.value)} message={what}/>"
            cases.append(_case(name, o.name, inner))
        if whole:
            said = [*(f.text for f in report.findings), *report.scope, *report.notes]
            if right is not Verdict.PROVED:
                said.insert(0, f"{report.verdict.value}, expected {right.value}")
            what = quoteattr(_text("; ".join(said)))
            inner = f"<failure type={quoteattr(report.verdict.value)} message={what}/>"
            cases.append(_case(name, "verdict", inner))
        failures = len(wrong) + whole
        total, failed = total + len(cases), failed + failures
        head = f"<testsuite name={quoteattr(_text(name))} tests={quoteattr(str(len(cases)))}"
        head += f' failures="{failures}" errors="0" time="{report.stats.get("cpu_s", 0):.3f}">'
        body = "".join(f"    {case}\n" for case in cases)
        suites.append(f"  {head}\n{body}    <system-out>{escape(_text(out.getvalue()))}</system-out>\n  </testsuite>\n")
    for name, error in (bad or {}).items():
        case = _case(name, "input", f"<error type=\"bad input\" message={quoteattr(_text(error))}/>")
        head = f'<testsuite name={quoteattr(_text(name))} tests="1" failures="0" errors="1" time="0">'
        suites.append(f"  {head}\n    {case}\n  </testsuite>\n")
    unread = len(bad or {})
    head = f'<testsuites name="dlverify" tests="{total + unread}" failures="{failed}" errors="{unread}">'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{"".join(suites)}</testsuites>\n'


def listed(suite: str, rows: Sequence[tuple[str, str, float]]) -> str:
    """Runs of which a line is known as one suite: name, what is wrong (empty: nothing), CPU seconds."""
    counts = f'tests="{len(rows)}" failures="{sum(bool(wrong) for _, wrong, _ in rows)}" errors="0"'
    body = ""
    for name, wrong, _ in rows:
        inner = f"<failure type={quoteattr(wrong.split(',')[0])} message={quoteattr(_text(wrong))}/>" if wrong else ""
        body += f"    {_case(suite, name, inner)}\n"
    seconds = sum(cpu for *_, cpu in rows)
    one = f'  <testsuite name={quoteattr(_text(suite))} {counts} time="{seconds:.3f}">\n{body}  </testsuite>\n'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="dlverify" {counts}>\n{one}</testsuites>\n'


def _first(report: Report) -> str:
    """The first root cause in a line, which is what lists of failures show."""
    for cause in report.frontier:
        where = f" at {cause.source[0].said}" if cause.source else ""
        said = "; ".join([*cause.found[:1], *(f"try: {text}" for text in cause.suggestion[:1])])
        return f"{cause.name} ({cause.kind}){where}: {said}"
    return "see the report"


def _case(suite: str, name: str, inner: str) -> str:
    return f"<testcase classname={quoteattr(_text(suite))} name={quoteattr(_text(name))}>{inner}</testcase>"
