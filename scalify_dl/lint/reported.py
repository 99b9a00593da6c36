"""What a lint says as a report, so that all formats of all commands have it."""

from __future__ import annotations

from pathlib import Path

from scalify_dl.prove.verdict import Assumption, OutputVerdict, Report, Verdict

from .expected import Boundary
from .findings import NOTHING_KNOWN
from .judge import Result
from .spmd import types, with_gradient
from .text import baseline, placements
from .words import holds_words

WORDS = {Verdict.PROVED: "well placed", Verdict.REFUTED: "not well placed", Verdict.UNKNOWN: "not decided"}
MISSING = 12
"""So many reasons are told; JSON has all."""


def undecided(text: str, file: Path) -> Report:
    """A program that is not lifted at all."""
    return Report(Verdict.UNKNOWN, text, [], file=str(file), notes=[text], more={"missing": [text]})


def reported(
    result: Result, file: Path, *, show_baseline: bool = False, show_types: bool = False, show_costs: bool = False
) -> Report:
    """The report of a program in a file."""
    sections = []
    if open_ := _open(result):
        known = result.verdict is Verdict.UNKNOWN
        title = "What keeps it from being decided" if known else "Not looked at further"
        left = len(open_) - MISSING
        sections.append((title, [*open_[:MISSING], *([f"and {left} more"] if left > 0 else [])]))
    if show_types:
        sections.append(("SPMD types", list(placements(result))))
    if show_costs:
        sections.append(("Bytes that a rank sends", list(result.costs.lines())))
    if result.gradients_of:
        sections.append(("Gradients against the derived backward", _gradients(result)))
    program = list(baseline(result.baseline, [end.held.base for end in result.boundaries if end.held is not None]))
    if show_baseline:
        sections.append(("The program on one device", program))
    counted = f"{result.proved} of {result.ops} computing ops lifted and proved"
    return Report(
        result.verdict,
        f"{WORDS[result.verdict]}: {counted}",
        [_output(end, result) for end in result.boundaries],
        file=str(file),
        findings=result.findings,
        assumptions=[Assumption(tensor, text, why) for tensor, text, why in result.assumptions],
        stats={"compute_ops": result.ops, "lifted": result.proved, **result.stats},
        view=result.view,
        sections=sections,
        more={
            "missing": result.missing,
            "backward": {name: verdict.value for name, verdict in result.gradients_of.items()},
            "types": {_name(end): types(end.held, result.grid) for end in result.boundaries if end.held},
            "spmd": {
                t.name: dict(zip(("value", "gradient"), with_gradient(result.lifted.held[t], result.grid, mine),
                                 strict=True))
                for t in result.shown if t in result.lifted.held for mine in (result.gradients.get(t, {}),)
            },
            "holds": {_name(end): holds_words(end.held, result.grid) for end in result.boundaries if end.held},
            "baseline": program,
            "bytes": {
                "axes": result.costs.by_axes,
                "ops": [{"name": n, "kind": k, "axes": a, "bytes": b} for n, k, a, b in result.costs.by_op],
            },
        },
    )


def _open(result: Result) -> list[str]:
    """What is missing besides outputs of which nothing is known: these are told as outputs."""
    return [text for text in result.missing if not text.startswith("output `") or NOTHING_KNOWN not in text]


def _gradients(result: Result) -> list[str]:
    found = result.gradients_of
    said = {Verdict.PROVED: "proved the derived one", Verdict.REFUTED: "another one", Verdict.UNKNOWN: "not proved"}
    return [f"{name}: {said[verdict]}" for name, verdict in found.items()]


def _name(end: Boundary) -> str:
    return end.port.path or end.port.tensor.name


def _output(end: Boundary, result: Result) -> OutputVerdict:
    held = end.held
    verdict = result.ends.get(end.port.tensor, Verdict.PROVED)
    told = any(f.name == _name(end) for f in result.findings if f.level == "error")
    reason = "" if verdict is Verdict.PROVED or told else "its placement rests on what is not proved"
    return OutputVerdict(
        end.port.tensor.name,
        held.base.name if held else "",
        _name(end),
        _name(end),
        verdict,
        str(held.layout(result.grid)) if held and held.along is None else "",
        holds_words(held, result.grid) if held else "not known",
        reason,
    )
