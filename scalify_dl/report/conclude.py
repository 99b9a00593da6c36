"""From the output relations of the rules to a report."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.deadline import OutOfTime, until
from scalify_dl.errors import InputError
from scalify_dl.facts.validate import check_written
from scalify_dl.garbage import paused
from scalify_dl.ir.origin import SCHEDULE, SPMD
from scalify_dl.prove.assumptions import Accepted, matching_nothing, not_accepted
from scalify_dl.prove.own_rules import misspelt_kinds, rules_assumed
from scalify_dl.prove.pipeline import INTERRUPTED, LARGE, Analysis, analyse, compare_formulas
from scalify_dl.prove.verdict import Assumption, InTime, OutputVerdict, Report, Verdict, overall
from scalify_dl.prove.view import View
from scalify_dl.refute.provided import left_out

from .localisation import follows_from, misheld_inputs, once, root_causes, with_patterns
from .pattern import due, holds, pattern, piece_words

if TYPE_CHECKING:
    from scalify_dl.mend.fused import Parts
    from scalify_dl.mend.interleaved import Interleaved
    from scalify_dl.mend.mend import Mending
    from scalify_dl.refute.refute import Refutation


def refuse_contradictions(view: View) -> None:
    """Contradictory premises prove anything: they are bad input, not a verdict."""
    texts = sorted({text for (text,) in view.results("inconsistent")})
    if texts:
        raise InputError(
            "the facts contradict each other: " + "; ".join(texts),
            hint="correct the relations file or the dumps; nothing can be concluded from contradictory premises",
        )


def _outputs(view: View, stopped: str) -> list[OutputVerdict]:
    found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for dist, base, verdict, layout in view.results("output_verdict"):
        found[dist, base][verdict].add(layout)
    expected = list(view.facts("expect"))
    if not expected:
        raise InputError(
            "no output is to be checked",
            expected="rows in the table `expect` (distributed output, baseline value, layout)",
            hint="name the outputs to check under `outputs:` of the relations file",
        )
    unproved = {dist for dist, base, _ in expected if stopped or not found[dist, base].get("PROVED")}
    held = view.correspondences(unproved) if unproved else {}
    out = []
    for dist, base, wanted in expected:
        rank = view.ranks.get(base, 0)
        proofs = found[dist, base].get("PROVED")
        verdict, layout, reason = Verdict.UNKNOWN, "", ""
        if stopped:  # what a proof assumes, or what contradicts its premises, may not have been derived
            reason = stopped
        elif proofs:
            verdict, layout = Verdict.PROVED, min(proofs)
        else:
            whole = [(b, layout) for piece, b, base_piece, layout in held.get(dist, ()) if not piece + base_piece]
            rows = sorted(layout for b, layout in whole if b == base)
            if rows:
                layout = rows[0]
                words = f"placed as {pattern(wanted, rank)}" if wanted else due(layout)
                reason = f"it holds {holds(layout, view.label(base), '', rank)}; expected: {words}"
            elif any(b == base for _, b, *_ in held.get(dist, ())):
                reason = f"it holds {view.label(base)} part by part; expected: dims whole or cut in contiguous blocks"
            elif held.get(dist):
                others = sorted({view.label(b) for _, b, _, _ in held[dist]})
                reason = f"it corresponds to {', '.join(others[:3])}, not to {view.label(base)}"
        out.append(
            OutputVerdict(
                tensor=dist,
                base_tensor=base,
                name=view.output_name(dist),
                base=view.output_name(base),
                verdict=verdict,
                layout=layout,
                pattern=pattern(layout, rank) if layout else "",
                reason=reason,
            )
        )
    return out


def _judged(analysis: Analysis) -> list[OutputVerdict]:
    """Verdicts of the rules, less those that assume away what a program provides for."""
    outputs = _outputs(analysis.view, analysis.stopped)
    whys = [why for _, _, why in analysis.rows("assumption")]
    proved = [(o.tensor, o.base_tensor) for o in outputs if o.verdict is Verdict.PROVED]
    without = left_out(analysis.facts, whys, proved, analysis.deadline)
    return [
        replace(o, verdict=Verdict.UNKNOWN, layout="", pattern="", reason=PROVIDED)
        if (o.tensor, o.base_tensor) in without
        else o
        for o in outputs
    ]


PROVIDED = (
    "it would be proved of inputs for which the assumptions hold; the program provides for others (it asks whether "
    "numbers are finite, or guards a division), and there the sides differ"
)


def _unrelated_inputs(view: View) -> list[tuple[str, str]]:
    """Distributed inputs that nothing places, with the front end's note about them."""
    dist_graphs = {graph for graph, role in view.facts("graph") if role == "dist"}
    regions = {graph for _, _, graph in view.facts("region")}
    placed = {row[0] for row in view.facts("shard")}
    used = {row[2] for row in view.facts("operand")} | {row[0] for row in view.facts("expect")}
    notes: dict[str, str] = dict(view.facts("placement_note"))
    return [
        (
            view.name(t),
            (f"{view.input_name(t)}: " if t in view.output_names else "")
            + notes.get(t, "no relation to a baseline input is given or could be inferred"),
        )
        for graph, _, t in view.facts("input")
        if graph in dist_graphs and graph not in regions and t not in placed and t in used
    ]


_LISTED = 8
"""Outputs that are named in a line of the scope."""


def scope(view: View) -> list[str]:
    """What no dump says, outputs that are not checked, values that are no tensors, and pairs that a call would not
    make."""
    lines = []
    if view.meta.get("outside"):
        lines.append(f"outside of the capture: {view.meta['outside']}")
    if view.meta.get("given_by_some"):
        lines.append(f"checked only on the ranks that give them: {view.meta['given_by_some']}")
    if view.meta.get("same_text"):
        lines.append(f"is this the file you meant? {view.meta['same_text']}")
    regions = {graph for _, _, graph in view.facts("region")}
    roles: dict[str, str] = dict(view.facts("graph"))
    expected = list(view.facts("expect"))
    for role, words, column in (("dist", "of the distributed program", 0), ("base", "of the baseline", 1)):
        checked = {row[column] for row in expected}
        left = [
            tensor
            for graph, _, tensor in view.facts("output")
            if roles[graph] == role and graph not in regions and tensor not in checked
        ]
        names = [view.name(tensor) for tensor in dict.fromkeys(left)]
        if names:
            shown = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
            lines.append(f"not checked: {len(names)} output{'s' if len(names) > 1 else ''} {words}: {shown}")
    ignored = view.meta.get("ignored_non_tensors")
    if ignored:
        lines.append(f"ignored: {ignored} inputs and outputs that are no tensors")
    if view.meta.get("pairing"):
        lines.append(view.meta["pairing"])
    return lines


def _example(view: View, found: dict[str, Any] | None) -> dict[str, Any] | None:
    """A counterexample with the names that people know of the output and of the first op that differs."""
    if not found:
        return found
    first = found["first_op"]
    if first is not None:
        ops = view.ops({first["op"], first["base_op"] or ""})
        names = {f"{key}name": ops[op].name for key in ("", "base_") if (op := first[f"{key}op"]) in ops}
        first = {**first, **names}
    return {**found, "called": view.label(found["output"]), "first_op": first}


def _title(view: View) -> str:
    meta = view.meta
    axes = sorted(view.facts("mesh_axis"), key=lambda row: row[1])
    mesh = ", ".join(f"{axis}={size}" for axis, _, size in axes)
    dist = meta.get("dist_files") or meta.get("dist_file")
    if dist and "alone" in meta:
        dist += f", run by all {prod(size for _, _, size in axes)} ranks,"
    named = meta.get("title") or " against ".join(text for text in (dist, meta.get("base_file")) if text)
    return f"{named} on mesh {mesh}" if named else f"mesh {mesh}"


def _file(view: View) -> str:
    """The first file of the distributed program."""
    said = view.meta.get("dist_file", "")
    return said if Path(said).is_file() else said.split(" ")[0]


_PART = r"(?: in ((?:\d+:\d+:\d+,?)+))?"
_PLACED = re.compile(rf"corresponds{_PART} to (.+?){_PART} as (\[.*|\|.*)")


def _for_people(tensor: str, text: str, view: View) -> str:
    """An assumption with the names that people know, and its layout as a pattern."""
    placed = _PLACED.fullmatch(text)
    if not placed:
        return with_patterns(text)
    part, base, base_part, layout = placed.groups()
    try:
        called = view.output_names.get(tensor)
        what = "the baseline's" if called and called == view.output_names.get(base) else view.label(base)
        here, there = (f"{piece_words(part)} " if part else ""), (f" ({piece_words(base_part)})" if base_part else "")
        return f"{here}corresponds to {what}{there} as {pattern(layout, view.ranks.get(base, 0))}"
    except ValueError:  # no layout
        return text


def _assumptions(view: View, accepted: Accepted, rules: Iterable[Path], in_time: InTime | None) -> list[Assumption]:
    """What is assumed; what is not accepted comes first."""
    found = {
        Assumption(view.name(tensor), text, why, label=view.label(tensor), words=_for_people(tensor, text, view))
        for tensor, text, why in view.results("assumption")
    }
    found = {replace(a, tensor="", label="") if a.why == SPMD else a for a in found}
    if in_time is not None:
        found = {a for a in found if a.why != SCHEDULE}
        found |= {Assumption("", text, SCHEDULE) for text in in_time.assumptions}
    found |= {Assumption(*row) for row in rules_assumed(rules)}
    marked = [accepted.mark(a) for a in sorted(found, key=lambda a: (a.why, a.tensor, a.text))]
    return sorted(marked, key=lambda a: a.accepted)


def _executed(
    analysis: Analysis, outputs: list[tuple[str, str]], progress: Callable[[str], None]
) -> tuple[Refutation, Mending | None]:
    """What executions say of outputs that are not proved; of a long program with the edits that are found around the
    ops at which its proof stops, if they mend all of it."""
    from scalify_dl.refute.refute import Refutation, refute  # proofs start without

    short = analysis.facts.whole is not None
    if not short and (not analysis.options.mend or len(analysis.facts["op"]) <= LARGE):
        return refute(analysis, outputs, progress), None
    found = _mended_around(analysis, outputs, progress) if short else None
    if short and found is None:
        return Refutation(), None  # the whole is looked at
    numbers = refute(analysis, outputs, progress, localise=False)
    best = numbers.search and numbers.search.best
    if not best:
        return numbers, None
    found = found or _mended_around(analysis, outputs, progress)
    if found is None:
        again = refute(analysis, outputs, progress)
        return (again if again.search else numbers), None  # there may be no time for it
    mending, place = found
    numbers.example = replace(best, place=place and replace(place, mismatch=None)).as_dict()
    return numbers, mending


def _mended_around(
    analysis: Analysis, outputs: list[tuple[str, str]], progress: Callable[[str], None]
) -> tuple[Mending, Any] | None:
    """`mend_around`, as long as there is time."""
    from scalify_dl.mend.mend import mend_around

    try:
        with until(analysis.deadline):
            return mend_around(analysis, outputs, progress)
    except OutOfTime:
        return None


@paused()
def conclude(
    analysis: Analysis, progress: Callable[[str], None] = lambda text: None, in_time: InTime | None = None
) -> Report:
    """The report on a run; `in_time` takes the place of the assumption that nothing races or hangs. InputError where
    the premises contradict each other or nothing was checked."""
    report, mending = _concluded(analysis, progress, in_time)
    whole = analysis.facts.whole
    if whole is not None and not (report.verdict is Verdict.REFUTED and _all_proved(mending)):
        progress("running the rules on all of both programs")
        facts, timeout = whole.facts(), analysis.options.timeout
        check_written(facts)
        begun = None if analysis.deadline is None or timeout is None else analysis.deadline - timeout
        numbers_first = len(facts["op"]) > LARGE
        analysis = analyse(facts, analysis.options, interruptible=True, numbers_first=numbers_first, begun=begun)
        report, mending = _concluded(analysis, progress, in_time)
    if analysis.other is not None and report.verdict is Verdict.REFUTED and not _all_proved(mending):
        progress("looking at the other form of the pair")
        second, edits = _concluded(analysis.other, progress, in_time)
        if second.verdict is Verdict.REFUTED and _all_proved(edits):
            return second
    return report


def _downstream(analysis: Analysis) -> int:
    """How many ops are not proved only because of what they read."""
    found = [op for (op,) in analysis.rows("downstream")]
    whole = analysis.facts.whole
    return len(found) if whole is None else whole.behind((op for (op,) in analysis.rows("frontier")), found)


def _all_proved(mending: Mending | None) -> bool:
    """Whether edits were found with which all outputs are proved."""
    return mending is not None and mending.proved == mending.outputs


def _concluded(
    analysis: Analysis, progress: Callable[[str], None], in_time: InTime | None
) -> tuple[Report, Mending | None]:
    view, options = analysis.view, analysis.options
    refuse_contradictions(view)
    outputs = _judged(analysis)
    accepted = Accepted.load(options.accept) if options.accept else Accepted()
    assumptions = _assumptions(view, accepted, options.rules, in_time)
    open_outputs = [(o.tensor, o.base_tensor) for o in outputs if o.verdict is not Verdict.PROVED]
    search = open_outputs and options.refute and analysis.stopped != INTERRUPTED
    numbers = mending = None
    if search:
        numbers, mending = _executed(analysis, open_outputs, progress)
    left = [output for output in open_outputs if numbers is None or output not in numbers.refuted]
    # where something is refuted, and the rules prove every output with an edit, what is open is open for that place
    explained = mending is not None and mending.by_rules and numbers is not None and bool(numbers.refuted)
    if analysis.waiting and left and not explained:
        progress("comparing what is written differently by its formulas")
        compare_formulas(analysis, left)
        outputs = _judged(analysis)
        assumptions = _assumptions(view, accepted, options.rules, in_time)
        open_outputs = [(o.tensor, o.base_tensor) for o in outputs if o.verdict is not Verdict.PROVED]
        numbers = numbers if open_outputs else None
    notes = [*([analysis.stopped] if analysis.stopped else []), *analysis.notes]
    if numbers is not None:
        outputs = [
            replace(o, verdict=Verdict.REFUTED) if (o.tensor, o.base_tensor) in numbers.refuted else o for o in outputs
        ]
        notes += numbers.notes

    causes = root_causes(view) if open_outputs else []
    parts: list[Parts] = []
    pairs: dict[str, str] = {}
    apart: list[Interleaved] = []
    if open_outputs and options.mend and not analysis.stopped and analysis.facts.whole is None:
        from scalify_dl.mend.exchanged import exchanged  # proofs start without
        from scalify_dl.mend.fused import fused
        from scalify_dl.mend.interleaved import interleaved

        with suppress(OutOfTime), until(analysis.deadline):
            parts = fused(analysis)
            pairs = {} if parts else exchanged(analysis)
            apart = [] if parts or pairs else interleaved(analysis)
    if parts or pairs or apart:
        from .fused import exchanged_cause, fused_cause, interleaved_cause

        if apart:
            causes = [interleaved_cause(view, apart)]
        else:
            causes = [fused_cause(view, parts, causes) if parts else exchanged_cause(view, pairs)]
    elif numbers is not None and numbers.search is not None and options.mend:
        from scalify_dl.mend.mend import mend, stops  # with numpy: proofs start without

        from .mended import mended_causes, stops_elsewhere

        try:
            with until(analysis.deadline):
                mending = mending or mend(analysis.facts, numbers.search, options, progress, stops(analysis))
        except OutOfTime:
            notes.append("no time was left (--timeout) to try edits")
        if mending is not None:
            notes += stops_elsewhere(causes, mending)
            causes = mended_causes(view, mending, causes)
    if open_outputs:
        inputs = misheld_inputs(view, [dist for dist, _ in open_outputs])
        causes = once([*inputs, *(cause for cause in causes if not follows_from(cause, inputs, view))])

    verdict = overall([*(o.verdict for o in outputs), *([in_time.verdict] if in_time else [])])
    fresh = [a for a in assumptions if not a.accepted] if options.strict and verdict is Verdict.PROVED else []
    if fresh:
        verdict = Verdict.UNKNOWN
    if options.rules:
        notes += misspelt_kinds(options.rules, (kind for _, _, kind in view.facts("op")))
    if options.accept and not options.strict:
        notes.append("--accept only marks what is agreed: with --strict, other assumptions make the verdict UNKNOWN")
    if options.accept and (idle := accepted.idle(assumptions)):
        notes.append(matching_nothing(idle, options.accept))
    report = Report(
        verdict=verdict,
        title=_title(view),
        file=_file(view),
        outputs=outputs,
        frontier=causes,
        downstream=_downstream(analysis),
        unrelated_inputs=_unrelated_inputs(view) if open_outputs and not analysis.stopped else [],
        scope=[*(not_accepted(fresh, options.accept) if fresh else ()), *scope(view)],
        findings=list(in_time.findings) if in_time else [],
        notes=notes,
        assumptions=assumptions,
        not_accepted=fresh,
        counterexample=None if numbers is None else _example(view, numbers.example),
        stats=analysis.stats(),
        view=view,
    )
    return report, mending
