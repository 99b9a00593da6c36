"""The steps of a certificate, as people read them: those about values in words, or all as rules have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scalify_dl.certificate.terms import Cell
from scalify_dl.facts import Facts
from scalify_dl.lemmas import lemma_at, rule_name
from scalify_dl.prove.view import View
from scalify_dl.pysouffle import rules_dir
from scalify_dl.report.explain import axes_of, layout_text, legend
from scalify_dl.report.pattern import holds

__all__ = ["Step", "every", "in_words"]

_TOLD = frozenset({"holds", "output_verdict"})


class Step(NamedTuple):
    """What holds, by which rule (None: a fact), from which steps."""

    relation: str
    row: Sequence[Any]
    by: tuple[str, int] | None
    premises: Sequence[int]


def every(steps: Sequence[Step]) -> Iterator[str]:
    """A line for each: what holds, by which lemma or rule, from which steps."""
    for n, step in enumerate(steps, 1):
        origin = f" from {', '.join(str(n + 1) for n in step.premises)}" if step.premises else ""
        rule = "a fact" if step.by is None else f"by {_rule(*step.by)}"
        yield f"{n:>6}  {step.relation}({', '.join(map(_text, step.row))})  {rule}{origin}"


def in_words(steps: Sequence[Step], facts: Facts) -> Iterator[str]:
    """What holds of values and what is concluded, each from the nearest such steps before it; then what the lemmas say.
    Steps that compute on layouts are passed over."""
    view = View(facts.__getitem__, lambda _: ())
    axes = axes_of(facts.__getitem__)
    said: dict[str, str] = {}
    shown = 0
    for n, step in enumerate(steps):
        if step.relation not in _TOLD:
            continue
        shown += 1
        lemma = ""
        if step.by is not None:
            lemma = _rule(*step.by)
            found = lemma_at(rules_dir() / step.by[0], step.by[1]) if (rules_dir() / step.by[0]).is_file() else None
            if found:
                said[lemma] = found.statement
        origin = f" from {', '.join(str(p + 1) for p in before)}" if (before := _before(steps, n)) else ""
        yield f"{n + 1:>6}  {_words(step, view, axes)}  [{lemma.partition(' (')[0]}{origin}]"
    yield from legend(said)
    yield ""
    yield f"{shown:,} of {len(steps):,} steps; the others compute on layouts, shapes and integers (--all-steps)"


def _words(step: Step, view: View, axes: Sequence[tuple[str, int]]) -> str:
    dist, base = (view.label(str(name)) for name in step.row[:2])
    if step.relation != "holds":
        return f"output {dist} is {step.row[2]}"
    return f"{dist} holds {holds(layout_text(_plain(step.row[2]), axes), base, '', view.ranks.get(step.row[1], 0))}"


def _before(steps: Sequence[Step], n: int) -> list[int]:
    """The nearest steps about values that one follows from; that a layout is somewhere is no step of a value."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(steps[n].premises)
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        if steps[at].relation in _TOLD:
            found.add(at)
        elif not steps[at].relation.startswith("want_") and any(isinstance(value, str) for value in steps[at].row):
            stack += steps[at].premises
    return sorted(found)


def _rule(file: str, line: int) -> str:
    """The lemma that a rule belongs to and its place; of a rule of somebody's own, the place alone."""
    place, there = f"{file}:{line}", rules_dir() / file
    name = rule_name(str(there), line) if there.is_file() else place
    return place if name.endswith(place) or name == f"{there.name}:{line}" else f"{name} ({place})"


def _plain(value: Any) -> Any:
    """Records as tuples; a list of many entries is a chain of records."""
    return tuple(map(_plain, value.items)) if isinstance(value, Cell) else value


def _text(value: Any) -> str:
    """A value as rules write it."""
    if isinstance(value, Cell):
        return f"[{', '.join(map(_text, value.items))}]"
    return "nil" if value is None else json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
