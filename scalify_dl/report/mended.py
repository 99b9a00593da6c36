"""Root causes by comparison with an execution: edits that mend the outputs first, then places where values part.

What the rules could not prove and an execution found right is no cause of a wrong output; it is a note.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from scalify_dl.mend.mend import Mending
from scalify_dl.mend.propose import PROMISED, TOGETHER, Proposal
from scalify_dl.prove.verdict import Frame, RootCause
from scalify_dl.prove.view import View, user_frames

from .callers import frames_to_blame
from .localisation import BY_SHAPE, attributes_apart, named, root_causes_of

_FACTORS = ("again", "by one", "scaled", "rescaled", "scaled beside", "as often", "common line", "factor", "enters")
"""Kinds of faults that make a multiple."""
_HANDED = dict.fromkeys((*_FACTORS, "number", "constant", "constants", "line"), 1) | {"operand": 99, "numbers": 99}
"""Kinds of faults of what an op gets: so many functions around it, which the baseline calls, too, may have been handed
something else. (Numbers that modules keep are often theirs.)"""
_NAMED = 6
"""Ops of one line that are named."""


def stops_elsewhere(causes: list[RootCause], mending: Mending) -> list[str]:
    """A note on ops at which the proof stops although they give what the baseline gives."""
    right = [c.name for c in causes if _is_right(c, mending)]
    if not right:
        return []
    some = ", ".join(right[:_NAMED]) + (", …" if len(right) > _NAMED else "")
    return [f"the proof also stops at {some}, where all values are the baseline's: probably a lemma is missing"]


def _is_right(cause: RootCause, mending: Mending) -> bool:
    return bool(cause.results) and mending.right.issuperset(cause.results)


def mended_causes(view: View, mending: Mending, causes: list[RootCause]) -> list[RootCause]:
    """Causes of what came out wrong, the most telling first; `causes` are the ops at which the proof stops."""
    stops = {cause.op: cause for cause in causes}
    before = [len(mending.wrong), *(tried.left for tried in mending.tried)]
    leads = [t.proposal for t, left in zip(mending.tried, before, strict=False) if mending.complete or t.left < left]
    if mending.complete and all(proposal.why in _FACTORS for proposal in leads):  # a factor is passed on
        place = {row[0]: n for n, row in enumerate(view.facts("op"))}
        leads.sort(key=lambda proposal: (_shared(view, proposal), place.get(proposal.causes[0], 0)))
    ops = [proposal.causes[0] for proposal in leads]
    if not mending.complete:  # … and where values part without an edit that mends them
        covered = {op for proposal in leads for op in proposal.causes}
        nameless = {c.op: c.results for c in causes if c.lemma_missing}  # what they read is judged by invented meanings
        judged = view.above([t for results in nameless.values() for t in results]) if nameless else set()
        doubted = {op for op, _, tensor in view.facts("result") if tensor in judged} - stops.keys()
        ops += [op for op in mending.first.parting if op not in covered | doubted]
        ops += [c.op for c in causes if c.op not in {*ops, *covered} and not _is_right(c, mending)]
        ops.sort(key=lambda op: op not in nameless)
    ops = list(dict.fromkeys(ops))
    out: list[RootCause] = []
    words = {c.op: c for c in root_causes_of(view, [op for op in ops if op not in stops], mending.first.counterparts)}
    for op in ops:
        cause = stops.get(op) or words.get(op)
        if cause is None:  # an op of an edit
            continue
        proposal = next((p for p in leads if p.causes[0] == op), None)
        kinds = {proposal.why} if proposal else set()
        texts = mending.faults.get(op, [])
        if not out:
            handed = min((_HANDED.get(why, 0) for why in kinds or {why for why, _ in texts}), default=0)
            cause = replace(cause, source=frames_to_blame(view, cause, mending.right, handed=handed))
        telling = [text for why, text in texts if why in kinds] or [text for why, text in texts if why not in PROMISED]
        if proposal and proposal.fault:
            telling = [proposal.fault]
        if cause.lemma_missing and not proposal:  # its meaning was invented: what came of it says nothing
            telling = []
        apart = _attributes_apart(view, op, mending) if any(why == "attributes" for why, _ in texts) else []
        apart = [] if cause.lemma_missing or kinds - {"attributes"} else apart
        if apart:
            rest = () if kinds else [text for why, text in texts if why != "attributes"]
            telling = [*(f"{key} is {mine}, the baseline's is {theirs}" for key, mine, theirs in apart), *rest]
        if op in mending.sent:
            telling = [*telling, mending.sent[op]]
        if telling:
            own = cause.found if cause.kind in BY_SHAPE and not proposal else ()
            cause = replace(
                cause,
                found=(*own, *_folded(named(telling, view))),
                expected=() if proposal and proposal.why not in ("piece", "function") else cause.expected,
            )
        if proposal:
            others = proposal.causes[1:]
            advice = tuple(f"{key} {theirs} instead of {mine}" for key, mine, theirs in apart)
            cause = replace(
                cause, suggestion=advice or _advice(proposal, view), lemma_missing=None,
                tried=(_outcome(mending, proposal),),
            )  # fmt: skip
            if others:
                cause = replace(cause, found=(*cause.found, f"likewise {_listed(others, view)}"))
        out.append(cause)
    return out


def _shared(view: View, proposal: Proposal) -> bool:
    """Whether the first of its ops is on a line of the user's that the baseline comes to, too: the backward of a layer,
    into which a framework puts its own collectives."""
    op, base = proposal.causes[0], {g for g, role in view.facts("graph") if role == "base"}
    of_base = {o for o, graph, _ in view.facts("op") if graph in base}
    rows: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
    for o, pos, file, line, _ in view.facts("source"):
        if o == op or o in of_base:
            rows[o].append((pos, Frame(file, line, "")))
    frames = {o: user_frames(f for _, f in sorted(stack, key=lambda p: p[0])) for o, stack in rows.items()}
    own = frames.pop(op, ())[:1]
    return any(set(own) & set(others) for others in frames.values())


_FACTOR = re.compile(r"a factor \S+ enters here|it multiplies by ")


def _folded(texts: Iterable[str]) -> list[str]:
    """Of all the values that a factor reaches, the first is enough."""
    texts = list(dict.fromkeys(texts))
    factors = [text for text in texts if _FACTOR.match(text)]
    return [text for text in texts if text not in factors[1:]]


def _attributes_apart(view: View, op: str, mending: Mending) -> list[tuple[str, str, str]]:
    """What an op would have otherwise with the attributes of its counterpart."""
    base = mending.first.counterparts.get(op, "")
    ops = view.ops({op, base})
    return attributes_apart(ops[op], ops[base]) if len(ops) == 2 else []


def _listed(ops: list[str], view: View) -> str:
    found = view.ops(set(ops[:_NAMED]))
    names = Counter(found[op].name if op in found else op for op in ops[:_NAMED])
    words = [name if n == 1 else f"{name} ({n} ops)" for name, n in names.items()]
    return ", ".join(words) + (f" and {len(ops) - _NAMED} more" if len(ops) > _NAMED else "")


def _advice(proposal: Proposal, view: View) -> tuple[str, ...]:
    texts = list(dict.fromkeys(named(proposal.advice, view)))
    if len(texts) < 2 or proposal.why in TOGETHER:
        return tuple(texts)
    more = "1 more place" if len(texts) == 2 else f"{len(texts) - 1} more places"
    return texts[0], f"and likewise at {more} of this line"


def _outcome(mending: Mending, proposal: Proposal) -> str:
    """What became of the program with this edit, and with all of them."""
    if not mending.complete:
        left = next(t.left for t in mending.tried if t.proposal is proposal)
        return f"with this edit {left} of {len(mending.wrong)} wrong outputs are left in random runs"
    what = "this edit" if len(mending.tried) == 1 else f"these {len(mending.tried)} edits"
    if mending.proved == mending.outputs:
        return f"with {what} {'all outputs are' if mending.outputs > 1 else 'the output is'} PROVED"
    return f"with {what} no output differs in random runs; {mending.proved} of {mending.outputs} outputs are PROVED"
