"""Lines of the user's files around what is to blame, as far as these lie in the repository around us."""

from __future__ import annotations

from dataclasses import dataclass

from scalify_dl.prove.verdict import Frame, Report

from ..annotations import Places, repository

_AROUND = 3
_MOST = 200
"""Excerpts in one page."""
_LONGEST = 200


@dataclass(frozen=True)
class Excerpt:
    """A few lines of a file; `line` is the one that is meant."""

    place: str
    line: int
    first: int
    texts: tuple[str, ...]


def excerpts(report: Report) -> dict[str, Excerpt]:
    """Place (`file:line`) → lines around it, for the innermost frame of each cause and of what it is compared with."""
    places = Places(repository(), report.file)
    files: dict[str, list[str]] = {}
    found: dict[str, Excerpt] = {}
    for cause in report.frontier:
        for frame in (*cause.source[:1], *cause.base_source[:1]):
            if len(found) < _MOST and str(frame) not in found and (excerpt := _excerpt(frame, places, files)):
                found[str(frame)] = excerpt
    return found


def _excerpt(frame: Frame, places: Places, files: dict[str, list[str]]) -> Excerpt | None:
    inside = places.inside(frame.file)
    if inside is None:
        return None
    if inside not in files:
        try:
            files[inside] = (places.root / inside).read_text("utf-8").split("\n")
        except (OSError, ValueError):
            files[inside] = []
    if not 0 < frame.line <= len(files[inside]):
        return None
    first = max(frame.line - _AROUND, 1)
    texts = tuple(text[:_LONGEST] for text in files[inside][first - 1 : frame.line + _AROUND])
    return Excerpt(str(frame), frame.line, first, texts)
