"""Looking for a counterexample where outputs are not proved, and what it makes of their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from scalify_dl.deadline import OutOfTime, until
from scalify_dl.errors import InputError
from scalify_dl.ir.vocabulary import RANDOM
from scalify_dl.prove.pipeline import LARGE, Analysis

from .guesses import Bearing, Guesses, alike, regrouped

if TYPE_CHECKING:
    from scalify_dl.oracle.found import Counterexample, Search
    from scalify_dl.oracle.program import Program


Output = tuple[str, str]
"""Distributed and baseline tensor."""


@dataclass
class Refutation:
    """What numbers say about outputs that the rules do not prove."""

    refuted: set[tuple[str, str]] = field(default_factory=set)
    """(distributed, baseline) outputs with a counterexample that rests on no invented meaning and on no guess."""
    example: dict[str, Any] | None = None
    """The counterexample to show, as `Counterexample.as_dict` gives it."""
    notes: list[str] = field(default_factory=list)
    search: Search | None = None
    """The search behind it, with the values of the run that is shown."""


def refute(
    analysis: Analysis, outputs: list[tuple[str, str]], progress: Callable[[str], None], *, localise: bool = True,
) -> Refutation:  # fmt: skip
    """Run both programs (the whole of them, where a shorter pair was looked at) on random inputs and compare these
    outputs; `localise`: say where a difference begins.

    Of a large program no more is run than it takes to refute one output.
    """
    from scalify_dl.oracle import find_counterexample, load_program, relations

    progress("looking for a counterexample")
    out = Refutation()
    try:
        whole = analysis.facts.whole
        program = whole.program({dist for dist, _ in outputs}) if whole else load_program(analysis.facts.tables)
        for tensor, value in sorted(analysis.rows("failing_value")):
            program.special.setdefault(tensor, []).append(value)
        rows = list(analysis.rows("corr")) if not analysis.stopped else []
        if not localise:  # the places of random masks are all that a run needs
            drawn = {t for graph in program.top("dist") for op in graph.ops if op.kind in RANDOM for t in op.results}
            rows = [row for row in rows if row[0] in drawn]
        guesses = Guesses.of(analysis.view)
        large = sum(len(graph.ops) for graph in program.graphs.values()) > LARGE
        passes = [(True, False), (False, False)] if large else [(False, False)]
        if len(passes) > 1 and not localise and (guesses.splits or guesses.unprinted):
            passes.insert(0, (True, True))  # what differs there rests on no guess, and need not be run again
        with until(analysis.deadline):
            for enough, at_once in passes:
                search = find_counterexample(
                    alike(program, guesses) if at_once else program,
                    outputs={dist for dist, _ in outputs},
                    relations=relations(rows),
                    localise=localise,
                    once=at_once,
                    enough=enough,
                    progress=lambda done, total, what: progress(
                        f"looking for a counterexample: {what} {done:,}/{total:,}"
                    ),
                )
                out.notes = _weigh(search, program, guesses, on_alike=at_once)
                if not (search.cut or at_once) or any(c.kind == "refutation" for c in search.counterexamples):
                    break
    except OutOfTime:
        return Refutation(notes=["the search for a counterexample was stopped (--timeout)"])
    except (InputError, MemoryError) as error:
        return Refutation(notes=[f"no counterexample could be looked for: {str(error) or 'out of memory'}"])
    out.search = search
    out.example = search.best.as_dict() if search.best else None
    out.refuted = {(found.output, found.base) for found in search.counterexamples if found.kind == "refutation"}
    if search.status == "agrees":
        out.notes.append(
            f"no counterexample in {search.trials} random runs ({search.sizes} sizes): probably a lemma is missing"
        )
    out.notes += [f"numeric search: {problem}" for problem in dict.fromkeys(search.problems)]
    return out


def _weigh(search: Search, program: Program, guesses: Guesses, *, on_alike: bool = False) -> list[str]:
    """Makes witnesses of what rests on a guess; returns what to write in a relations file. `on_alike`: inputs were
    drawn alike.

    Where only the splitting of inputs or unprinted constants were guessed, a difference on inputs that are alike
    (`guesses.alike`) takes its place: it is there under every placement.
    """
    guessed = Bearing(program, guesses)
    resting: dict[Output, Guesses] = {}
    for found in search.counterexamples:
        output = (found.output, found.base)
        if found.kind == "refutation" and (bearing := guessed.on(output)):
            resting[output] = bearing
    sure = {o: b for o, b in resting.items() if guessed.steady(o) or not (b.splits or b.unprinted)}
    if on_alike:
        drawn = {(c.output, c.base): c for c in search.counterexamples if c.kind == "refutation"}
        certain = {o: drawn[o] for o, bearing in sure.items() if not (bearing.assumed or bearing.groups)}
    else:
        certain = _despite(program, search, sure)
    notes: dict[str, None] = {}
    weighed = []
    for found in search.counterexamples:
        output = (found.output, found.base)
        if output in certain:
            found = replace(certain[output], place=found.place, sizes=found.sizes)
        elif output in resting and found.kind == "refutation":
            notes |= dict.fromkeys(resting[output].advice())
            found = replace(found, kind="witness", reason=resting[output].reason())
        weighed.append(found)
    search.counterexamples = weighed
    return list(notes)


def _despite(program: Program, search: Search, resting: dict[Output, Guesses]) -> dict[Output, Counterexample]:
    """Counterexamples whatever is true of what was guessed, for outputs of which there are some. Outputs over the same
    named groups are run together, at the sizes at which they came out wrong."""
    from scalify_dl.oracle.dtypes import is_integer

    together: dict[frozenset[str], dict[Output, Guesses]] = {}
    for output, guesses in resting.items():
        if not guesses.assumed:
            together.setdefault(frozenset(guesses.groups), {})[output] = guesses
    certain: dict[Output, Counterexample] = {}
    for outputs in together.values():
        guesses = reduce(Guesses.union, outputs.values())
        counted = any(is_integer(program.tensors[t].dtype) for t in guesses.unprinted)  # another size, another number
        small = None if counted else search.program
        ways = regrouped(alike(small or program, guesses), guesses.groups)
        certain |= _under_all(ways, set(outputs), as_it_is=small is not None)
    return certain


def _under_all(programs: list[Program], outputs: set[Output], *, as_it_is: bool) -> dict[Output, Counterexample]:
    """Outputs that differ in every one of some programs, with how they differ in the first."""
    from scalify_dl.oracle import find_counterexample

    certain: dict[Output, Counterexample] = {}
    for number, program in enumerate(programs):
        wanted = {dist for dist, _ in outputs}
        again = find_counterexample(
            program, outputs=wanted, trials=2, rounding=False, localise=False, as_it_is=as_it_is
        )
        refuting = {(c.output, c.base): c for c in again.counterexamples if c.kind == "refutation"}
        outputs = outputs & refuting.keys()
        certain = {output: certain[output] if number else refuting[output] for output in outputs}
        if not outputs:
            break
    return certain
