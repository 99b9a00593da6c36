"""What the rules found, as findings for people: what follows from another one is counted there, what is the same on
several ranks or for several micro-batches is told once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from scalify_dl.finding import Finding, Happening
from scalify_dl.prove.verdict import RootCause

from .check import Checked
from .model import Op, Side
from .slots import Slots

ERROR, DIFFERENCE = "error", "difference"

Key = tuple[str, str]
"""(op, kind of finding)."""


def place(plan: Side, op: Op) -> str:
    """The row of the op."""
    return f"{plan.tables.file('op')}:{op.line}"


def called(op: Op) -> str:
    """An op as reports name it."""
    return f"{op.name} (cid {op.cid})"


def about(plan: Side, ops: Iterable[Op], kind: str, level: str, text: str) -> Finding:
    """A finding about some ops of the plan, the most telling first."""
    events = tuple(Happening(op.rank, op.id, place(plan, op)) for op in ops)
    first = plan.ops[events[0].name]
    return Finding(kind, level, text, events, None, None, first.id, called(first), (place(plan, first),))


def findings(plan: Side, slots: Slots, checked: Checked) -> list[Finding]:
    """Errors first, then differences; of each those first that come first on their ranks."""
    explained: dict[Key, set[str]] = defaultdict(set)
    worst: dict[Key, str] = defaultdict(lambda: DIFFERENCE)
    rows = []
    told = {(op, kind) for op, kind, *_ in checked.findings} - checked.because.keys()
    told |= {(f"segment {rank} {mb}", "segment") for _, rank, mb in checked.absent}
    for op, kind, level, text, suggestion in checked.findings:
        causes = checked.because.get((op, kind), set()) & told
        if not causes:
            rows.append((op, kind, level, text, suggestion))
        for cause, cause_kind in causes:
            explained[cause, cause_kind].add(op)
            if level == ERROR:
                worst[cause, cause_kind] = ERROR
    found = [*_segments(plan, slots, checked, explained, worst)]
    same: dict[tuple[str, str, str, str, str], list[Op]] = defaultdict(list)
    for op, kind, level, text, suggestion in rows:
        level = ERROR if worst.get((op, kind)) == ERROR else level
        same[slots.of[op].name, kind, level, _general(text, plan.ops[op]), suggestion].append(plan.ops[op])
    for (_, kind, level, text, suggestion), ops in same.items():
        ops.sort(key=lambda op: (op.rank, op.seq))
        mbs = {slots.mb[op.id] for op in ops}
        others = {other for op in ops for other in explained[op.id, kind]} - {op.id for op in ops}
        finding = replace(
            about(plan, ops, kind, level, text),
            rank=ops[0].rank if len({op.rank for op in ops}) == 1 else None,
            micro_batch=min(mbs) if len(mbs) == 1 and min(mbs) >= 0 else None,
            suggestion=suggestion or None,
            explains=_more(others),
        )
        found.append((ops[0], finding))
    found.sort(key=lambda one: (one[1].level != ERROR, one[1].kind != "segment", one[0].seq, one[0].rank))
    return [finding for _, finding in found]


def _general(text: str, op: Op) -> str:
    """A text without what names the place of the op."""
    return text.replace(f".r{op.rank}.", ".r*.").replace(f".m{op.mb}.", ".m*.")


def _more(ops: Iterable[str]) -> str | None:
    count = len(list(ops))
    return f"{count} op{'s' * (count > 1)} for which something is wrong only because of it" if count else None


def _segments(
    plan: Side, slots: Slots, checked: Checked, explained: dict[Key, set[str]], worst: dict[Key, str]
) -> Iterable[tuple[Op, Finding]]:
    """Ops that a rank lacks for a micro-batch: one finding."""
    lacking: dict[tuple[int, int], list[Op]] = defaultdict(list)
    for slot, rank, mb in checked.absent:
        lacking[rank, mb].append(slots.slots[slot].some)
    for (rank, mb), ops in lacking.items():
        ops.sort(key=lambda op: op.seq)
        first, name = ops[0], f"segment {rank} {mb}"
        where = f"micro-batch {mb}" if mb >= 0 else "the step"
        many = f"{len(ops)} ops of {where} are missing on rank {rank}, {called(first)} to {called(ops[-1])}"
        text = many if len(ops) > 1 else f"{called(first)} of {where} is missing on rank {rank}"
        found = about(plan, ops, "segment", worst[name, "segment"], f"{text}; the others of its stage run it")
        yield (
            first,
            replace(
                found,
                rank=rank,
                micro_batch=mb if mb >= 0 else None,
                suggestion="run it as the others do",
                explains=_more(explained[name, "segment"]),
            ),
        )


def value_findings(
    causes: Iterable[RootCause], origins: dict[str, Op], plan: Side, told: Iterable[Finding], downstream: int
) -> list[Finding]:
    """Where values part from the baseline's: the root causes of the proof, as findings about ops of the plan."""
    known = {event.name for finding in told for event in finding.events}
    out: list[Finding] = []
    for cause in causes:
        op = origins.get(cause.op)
        if op is None or op.id in known:
            continue
        known.add(op.id)
        words = [*cause.found, *(f"expected: {text}" for text in cause.expected)]
        text = cause.lemma_missing or "; ".join(words) or "it is not what the baseline computes"
        finding = about(plan, [op], "value", DIFFERENCE, text)
        more = f"{downstream} ops that are unproved only because of it" if downstream and not out else None
        out.append(replace(finding, suggestion="; ".join(cause.suggestion) or None, explains=more))
    return out
