"""The report as a single HTML file: no script, no link to anything else, every text escaped."""

from __future__ import annotations

from html import escape

from scalify_dl.prove.verdict import Report, RootCause

from .numbers import counterexample_lines

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1a1a1a }
h1 span, td span { border-radius: .25rem; color: #fff; padding: 0 .5rem }
.PROVED { background: #1a7f37 } .REFUTED { background: #c62828 } .UNKNOWN { background: #9a6700 }
table { border-collapse: collapse; width: 100% } td, th { border-bottom: 1px solid #ddd; padding: .3rem .6rem .3rem 0;
text-align: left; vertical-align: top } code, pre { font-family: ui-monospace, monospace; font-size: .9em;
overflow-wrap: anywhere } article { border-left: 4px solid #9a6700; margin: 1rem 0; padding: 0 1rem }
dt { color: #666; float: left; clear: left; width: 7rem } dd { margin: 0 0 .2rem 7.5rem } footer { color: #666 }
"""


def _badge(verdict: str) -> str:
    return f'<span class="{verdict}">{verdict}</span>'


def _fields(rows: list[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd><code>{escape(v)}</code></dd>" for k, v in rows) + "</dl>"


def _cause(cause: RootCause) -> str:
    rows = [("source" if i == 0 else "", f"{f}  {f.function}".rstrip()) for i, f in enumerate(cause.source)]
    rows += [("operands" if i == 0 else "", text) for i, text in enumerate(cause.operands)]
    if cause.base_name:
        where = f", {cause.base_source[0]}" if cause.base_source else ""
        rows.append(("baseline", cause.base_name + where))
    fields = (("expected", cause.expected), ("found", cause.found), ("try", cause.suggestion), ("tried", cause.tried))
    for label, lines in fields:
        rows += [(label if i == 0 else "", text) for i, text in enumerate(lines)]
    if cause.lemma_missing:
        rows.append(("no lemma", cause.lemma_missing))
    title = f"<h3><code>{escape(cause.name)}</code> ({escape(cause.kind)})</h3>"
    return f"<article>{title}{_fields(rows)}</article>"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _outputs(report: Report) -> str:
    rows = []
    for o in report.outputs:
        what = "<br>".join(f"<code>{escape(t)}</code>" for t in (o.pattern, o.reason) if t)
        rows.append(
            f"<tr><td>{_badge(o.verdict.value)}</td><td><code>{escape(o.name)}</code></td>"
            f"<td><code>{escape(o.base)}</code></td><td>{what}</td></tr>"
        )
    head = "<tr><th>verdict</th><th>output</th><th>baseline</th><th>layout, or what is missing</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def render(report: Report) -> str:
    """The report as one HTML document."""
    parts = [f"<h1>{_badge(report.verdict.value)} {escape(report.title)}</h1>"]
    parts += [f"<p>{escape(text)}</p>" for text in report.scope]
    parts.append(_section("Outputs", _outputs(report)))
    if report.counterexample:
        title, rows = counterexample_lines(report.counterexample)
        parts.append(_section(title, _fields(rows)))
    if report.frontier:
        more = f"<p>{report.downstream:,} more ops are unproved only because of them.</p>" if report.downstream else ""
        parts.append(_section("Root causes", "".join(map(_cause, report.frontier)) + more))
    if report.unrelated_inputs:
        parts.append(_section("Inputs related to nothing", _fields(report.unrelated_inputs)))
    if report.assumptions:
        head = "<tr><th>tensor</th><th>assumption</th><th>why</th></tr>"
        rows_ = "".join(
            f"<tr><td><code>{escape(a.tensor)}</code></td><td>{escape(a.text)}</td><td>{escape(a.why)}"
            f"{' (accepted)' if a.accepted else ''}</td></tr>"
            for a in report.assumptions
        )
        parts.append(_section(f"Assumptions ({len(report.assumptions)})", f"<table>{head}{rows_}</table>"))
    if report.notes:
        parts.append(_section("Notes", "<ul>" + "".join(f"<li>{escape(n)}</li>" for n in report.notes) + "</ul>"))
    stats = ", ".join(f"{k} {v:,.2f}".rstrip("0").rstrip(".") for k, v in report.stats.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{report.verdict.value}: {escape(report.title)}</title><style>{_STYLE}</style></head><body>"
        f"{''.join(parts)}<footer>{escape(stats)}</footer></body></html>\n"
    )
