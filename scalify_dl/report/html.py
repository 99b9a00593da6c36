"""The report as a single HTML file: the same words as everywhere, and both graphs to look into; no link to anything."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files

from scalify_dl.prove.verdict import Report

from .page.data import page_data
from .page.still import sections

_SCRIPTS = ("layout.js", "graph.js", "page.js")


def _file(name: str) -> str:
    return files("scalify_dl.report.page").joinpath(name).read_text("utf-8")


def render(report: Report) -> str:
    """The report as one HTML document."""
    data = json.dumps(page_data(report), ensure_ascii=False, separators=(",", ":"))
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    scripts = "".join(f"<script>{_file(name)}</script>" for name in _SCRIPTS)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{report.verdict.value}: {escape(_short(report.title))}</title>"
        f"<style>{_file('page.css')}</style></head><body>"
        f"{sections(report)}"
        f'<script type="application/json" id="data">{data}</script>{scripts}</body></html>\n'
    )


def _short(title: str) -> str:
    return title if len(title) <= 80 else title[:79] + "…"
