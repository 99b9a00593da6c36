"""Looking for a counterexample where outputs are not proved, and what it makes of their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scalify_dl.errors import InputError

from .pipeline import Analysis


@dataclass
class Refutation:
    """What numbers say about outputs that the rules do not prove."""

    refuted: set[tuple[str, str]] = field(default_factory=set)
    """(distributed, baseline) outputs with a counterexample that rests on no invented meaning."""
    example: dict[str, Any] | None = None
    """The counterexample to show, as `Counterexample.as_dict` gives it."""
    notes: list[str] = field(default_factory=list)


def refute(analysis: Analysis, outputs: list[tuple[str, str]], progress: Callable[[str], None]) -> Refutation:
    """Run both programs on random inputs and compare these outputs."""
    from scalify_dl.oracle import find_counterexample, load_program, relations

    progress("looking for a counterexample")
    try:
        program = load_program(analysis.facts.tables)
        for tensor, value in sorted(analysis.rows("failing_value")):
            program.special.setdefault(tensor, []).append(value)
        rows = relations(analysis.rows("corr")) if not analysis.stopped else []
        search = find_counterexample(
            program,
            outputs={dist for dist, _ in outputs},
            relations=rows,
            progress=lambda done, total, what: progress(f"looking for a counterexample: {what} {done:,}/{total:,}"),
        )
    except (InputError, MemoryError) as error:
        return Refutation(notes=[f"no counterexample could be looked for: {str(error) or 'out of memory'}"])
    out = Refutation(example=search.best.as_dict() if search.best else None)
    for found in search.counterexamples:
        if found.kind == "refutation":
            out.refuted.add((found.output, found.base))
    if guessed := sorted({analysis.view.name(row[1]) for row in analysis.rows("placed_by_shape")}):
        # the program may be right and the guess wrong: the numbers then only show that they do not fit together
        out.refuted.clear()
        if out.example:
            out.example["kind"] = "witness"
        out.notes.append(
            f"the placement of {', '.join(guessed)} is a guess from shapes, and what differs rests on it: place it in"
            " the relations file"
        )
    if search.status == "agrees":
        out.notes.append(
            f"no counterexample in {search.trials} random runs ({search.sizes} sizes): probably a lemma is missing"
        )
    out.notes += [f"numeric search: {problem}" for problem in dict.fromkeys(search.problems)]
    return out
