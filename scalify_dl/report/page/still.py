"""The part of the page that stands without scripts: verdict, outputs, causes, assumptions, every text escaped."""

from __future__ import annotations

from html import escape

from scalify_dl.prove.verdict import Report, RootCause

from ..numbers import counterexample_lines
from .lines import Excerpt, excerpts

_LISTED = 300
"""Outputs and assumptions that stand in the page as text; the scripts have them all."""


def _badge(verdict: str) -> str:
    return f'<span class="{verdict}">{verdict}</span>'


def _fields(rows: list[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd><code>{escape(v)}</code></dd>" for k, v in rows) + "</dl>"


def _lines(number: int, excerpt: Excerpt) -> str:
    """The lines around a place, which scripts and `source` lead to."""
    at = {excerpt.line: ' class="at"'}
    texts = enumerate(excerpt.texts, excerpt.first)
    rows = "".join(f'<li value="{n}"{at.get(n, "")}>{escape(text) or " "}</li>' for n, text in texts)
    place = escape(excerpt.place)
    begin = f'<figure class="lines" id="line-{number}" data-place="{place}"><figcaption>{place}</figcaption>'
    return f"{begin}<ol>{rows}</ol></figure>"


def _cause(number: int, cause: RootCause, around: dict[str, Excerpt], shown: dict[str, int]) -> str:
    rows = [("source" if i == 0 else "", f"{f}  {f.function}".rstrip()) for i, f in enumerate(cause.source)]
    rows += [row for row in (("module", cause.module), ("leads to", cause.feeds)) if row[1]]
    rows += [("operands" if i == 0 else "", text) for i, text in enumerate(cause.operands)]
    if cause.base_name:
        where = f", {cause.base_source[0].said}" if cause.base_source else ""
        rows.append(("baseline", cause.base_name + where))
    fields = (
        ("expected", cause.expected), ("found", cause.found), ("inputs", cause.inputs), ("try", cause.suggestion),
        ("tried", cause.outcome),
    )  # fmt: skip
    for label, lines in fields:
        rows += [(label if i == 0 else "", text) for i, text in enumerate(lines)]
    if cause.lemma_missing:
        rows.append(("no lemma", cause.lemma_missing))
    called = f", {escape(cause.called)}" if cause.called and cause.called != cause.name else ""
    title = f"<h3>{number + 1}. <code>{escape(cause.name)}</code> ({escape(cause.kind)}){called}</h3>"
    figures = ""
    for frame in (*cause.source[:1], *cause.base_source[:1]):
        if str(frame) in around and str(frame) not in shown:
            shown[str(frame)] = len(shown)
            figures += _lines(shown[str(frame)], around[str(frame)])
    return f'<article class="cause" data-cause="{number}" tabindex="0">{title}{_fields(rows)}{figures}</article>'


def _section(title: str, body: str, key: str) -> str:
    return f'<details open id="{key}"><summary><h2>{escape(title)}</h2></summary>{body}</details>'


def _outputs(report: Report) -> str:
    rows = []
    for number, o in enumerate(report.outputs[:_LISTED]):
        what = "<br>".join(f"<code>{escape(t)}</code>" for t in (o.pattern, o.reason) if t)
        rows.append(
            f'<tr data-output="{number}"><td>{_badge(o.verdict.value)}</td><td><code>{escape(o.name)}</code></td>'
            f"<td><code>{escape(o.base)}</code></td><td>{what}</td></tr>"
        )
    head = "<tr><th>verdict</th><th>output</th><th>baseline</th><th>layout, or what is missing</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def sections(report: Report) -> str:
    """The body of the page, but for what scripts add."""
    name = escape(report.title)
    title = f'<span class="title" title="{name}">{name}</span>'
    parts = [f"<header><h1>{_badge(report.verdict.value)} {title}</h1></header>"]
    parts += [f"<p>{escape(text)}</p>" for text in report.scope]
    if report.findings:
        rows = []
        for f in report.findings:
            rows.append((f"{f.name or f.op or f.kind} ({f.kind})", " ".join((f.text, *f.source[:1]))))
            rows += [(label, text) for label, text in (("try", f.suggestion), ("tried", f.outcome)) if text]
        parts.append(_section(f"Findings ({len(report.findings)})", _fields(rows), "findings"))
    if report.frontier:
        ops = "1 more op is" if report.downstream == 1 else f"{report.downstream:,} more ops are"
        more = f"<p>{ops} unproved only because of them.</p>" if report.downstream else ""
        around, shown = excerpts(report), dict[str, int]()
        causes = "".join(_cause(n, cause, around, shown) for n, cause in enumerate(report.frontier))
        parts.append(_section(f"Root causes ({len(report.frontier)})", causes + more, "causes"))
    if report.counterexample:
        title, rows = counterexample_lines(report.counterexample)
        parts.append(_section(title, _fields(rows), "counterexample"))
    parts.append(_section(f"Outputs ({len(report.outputs)})", _outputs(report), "outputs"))
    if report.unrelated_inputs:
        parts.append(_section("Inputs related to nothing", _fields(report.unrelated_inputs), "unrelated"))
    if report.assumptions:
        head = "<tr><th>tensor</th><th>assumption</th><th>why</th></tr>"
        rows_ = "".join(
            f"<tr><td><code>{escape(a.label or a.tensor)}</code></td><td>{escape(a.words or a.text)}</td>"
            f"<td>{escape(a.why)}{' (accepted)' if a.accepted else ''}</td></tr>"
            for a in report.assumptions[:_LISTED]
        )
        body = f'<table id="assumption-rows">{head}{rows_}</table>'
        parts.append(_section(f"Assumptions ({len(report.assumptions)})", body, "assumptions"))
    for number, (title, lines) in enumerate(report.sections):
        body = "<pre>" + escape("\n".join(lines)) + "</pre>"
        parts.append(_section(title, body, f"section-{number}"))
    if report.notes:
        notes = "<ul>" + "".join(f"<li>{escape(n)}</li>" for n in report.notes) + "</ul>"
        parts.append(_section("Notes", notes, "notes"))
    stats = ", ".join(f"{k} {v:,.2f}".rstrip("0").rstrip(".") for k, v in report.stats.items())
    return f"<main>{''.join(parts)}</main><footer>{escape(stats)}</footer>"
