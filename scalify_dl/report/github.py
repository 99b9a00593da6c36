"""Annotations as GitHub's runners read them from a log: `::error file=…,line=…,title=…::text`."""

from __future__ import annotations

from collections.abc import Sequence

from .annotations import Annotation

MOST = 10
"""GitHub shows as many of each level for a step; the last one says how many there are besides."""


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def lines(found: Sequence[Annotation], known: frozenset[str] = frozenset()) -> list[str]:
    """One line each for what is not known yet, then a count of what is."""
    out = []
    for level, command in (("error", "error"), ("warning", "warning"), ("note", "notice")):
        fresh = [a for a in found if a.level == level and a.fingerprint not in known]
        shown = fresh if len(fresh) <= MOST else fresh[: MOST - 1]
        for a in shown:
            where = f"file={_property(a.file)},line={a.line},title={_property('dlverify: ' + a.title)}"
            out.append(f"::{command} {where}::{_data(a.text + a.consequence or a.title)}")
        if len(shown) < len(fresh):
            out.append(f"::{command} title=dlverify::{len(fresh) - len(shown)} more, in the log and in --sarif")
    old = sum(a.fingerprint in known for a in found)
    if old:
        out.append(f"::notice title=dlverify::{old} findings are in the baseline; the verdict counts them all the same")
    return out
