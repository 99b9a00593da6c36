"""Looking for edits after which the wrong outputs are right: each is applied to a copy of the facts, which is executed;
what then agrees is put to the rules.

A program may be wrong in several places, and a later one shows only when an earlier one is mended: edits are taken one
after the other as long as fewer outputs, or fewer values, are wrong. Nothing here changes a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.facts.ranks import written_out
from scalify_dl.facts.validate import check_meaning
from scalify_dl.oracle import Search, find_counterexample, load_program
from scalify_dl.oracle.counterexample import readings
from scalify_dl.oracle.localise import Place
from scalify_dl.oracle.readings import Readings
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis

from .below import proved_below
from .draft import Edit
from .guess import guess
from .propose import BY_PROOF, STOPS, Proposal, Proposals, Said, cone, propose
from .state import Output, Progress, State, Tried, by_formulas, is_right, proved, refuted_at_once
from .verbs import apply, changes
from .window import windows

SECONDS = 20.0
"""CPU time for trying edits; runs of the rules on what agrees come on top."""
ROUNDS = 6
TRIED = 24
"""Proposals that are executed in one round."""
COMPLETE = 3
"""So many ways to mend everything are put to the rules."""
ENTIRE = ("averaged",)
"""Kinds of edits that are taken only where they mend everything: a mean in place of a sum makes a factor elsewhere."""


@dataclass
class Mending:
    """What was found about outputs that came out wrong: places where values part, and edits that mend them."""

    wrong: list[Output]
    first: Proposals
    """What the rules said of the program as it is."""
    tried: list[Tried] = field(default_factory=list)
    """Edits that were taken, in this order."""
    proved: int = 0
    """How many of all outputs the rules prove of the program with these edits."""
    outputs: int = 0
    by_rules: bool = False
    """Whether they prove all of them without comparing formulas."""
    faults: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Sentences by op and kind of fault, of every round."""
    right: set[str] = field(default_factory=set)
    """Values that are the baseline's on every rank."""
    sent: dict[str, str] = field(default_factory=dict)
    """What ranks get by permutes that edits change, and what they should get."""

    @property
    def complete(self) -> bool:
        """Whether no output is wrong with all edits taken."""
        return bool(self.tried) and not self.tried[-1].left


def mend(
    facts: Facts, search: Search, options: Options, progress: Progress, said: Said | None = None
) -> Mending | None:
    """Edits for the wrong outputs that a search found; None where it kept no values to compare. `said`: what a proof
    says of the ops at which it stops (`STOPS`)."""
    tables = written_out(facts.tables)  # edits are of single ranks
    if tables is not facts.tables:
        facts = Facts({name: [tuple(row) for row in rows] for name, rows in tables.items()}, facts.directory)
    start = State(facts, search, [])
    if search.readings is None or not start.wrong:
        return None
    deadline = time.process_time() + SECONDS
    first = propose(facts, search.readings, start.wrong, said)
    found = Mending(start.wrong, first, faults=dict(first.faults), outputs=len(facts["expect"]))
    found.right = {
        t for t in cone(facts, [d for d, _ in start.wrong])
        if any(map(is_right, search.readings.of(t)))
    }  # fmt: skip

    seen: set[tuple[Edit, ...]] = set()

    def rounds(first: Proposals, *, by_proof: bool = False, deeper: bool = False) -> State:
        """Edits one after the other; `by_proof`: only those that the proof speaks for; `deeper`: values are read that
        the baseline does not make itself, and edits are no longer tried that mended nothing before."""
        state, proposals = start, first
        for number in range(ROUNDS):
            what = f"trying edits, round {number + 1}"
            some = [p for p in proposals.proposals if p.why == BY_PROOF] if by_proof else proposals.proposals
            some = [p for p in some if not deeper or number or p.edits not in seen]
            best = _round(state, some, deadline, options, progress, what)
            if not number:
                seen.update(p.edits for p in some[:TRIED])
            if best is None:
                break
            state = best
            seen.discard(state.tried[0].proposal.edits)
            if not state.wrong or state.search.readings is None or time.process_time() > deadline:
                break
            proposals = propose(state.facts, _read(state, deeper=deeper), state.wrong, said)
            for op, texts in proposals.faults.items():
                found.faults.setdefault(op, texts)
        return state

    state = rounds(first)
    if state.wrong or (len(state.tried) > 1 and state.proved < found.outputs):
        state = min(state, rounds(first, by_proof=True), key=lambda way: (len(way.wrong), -way.proved))
    if state.wrong and time.process_time() < deadline:
        further = propose(facts, _read(start, deeper=True), start.wrong, said)
        way = rounds(further, deeper=True)
        if not way.wrong:
            state, found.first, found.faults = way, further, {**found.faults, **further.faults}
    if state.wrong:
        state = guess(start, state, options, progress)
    found.tried, found.proved = _that_change(facts, state.tried), state.proved
    if found.complete:
        found.sent = _sent(facts, state.facts, search.readings)
    return found


def _that_change(facts: Facts, tried: Iterable[Tried]) -> list[Tried]:
    """Without edits that leave everything as it is: of a loop's turns some may be right."""
    found = []
    for each in tried:
        edits = each.proposal.edits
        telling = tuple(edit for edit in edits if len(edits) == 1 or changes(facts, edit))
        facts = apply(facts, edits)
        found.append(replace(each, proposal=replace(each.proposal, edits=telling or edits)))
    return found


def _read(state: State, *, deeper: bool) -> Readings:
    readings = state.search.readings
    assert readings is not None
    return readings.deeper({dist for dist, _ in state.wrong}) if deeper else readings


def _sent(before: Facts, after: Facts, readings: Readings) -> dict[str, str]:
    """In a sentence, for every permute that has other pairs now: the first rank that gets something else."""
    read = {op: tensor for op, pos, tensor in before["operand"] if not pos}
    pairs: list[dict[str, dict[int, int]]] = [{}, {}]
    for side, facts in zip(pairs, (before, after), strict=True):
        for op, source, target in facts["permute_pair"]:
            side.setdefault(op, {})[target] = source
    said = {}
    for op, then in pairs[1].items():
        now = pairs[0].get(op, then)
        if now == then or op not in read:
            continue
        rank = min(r for r in now.keys() | then.keys() if now.get(r) != then.get(r))
        what = next((f" of {found.base}" for found in readings.of(read[op])), "")
        held, due = (f"rank {side[rank]}'s part" if rank in side else "nothing" for side in (now, then))
        said[op] = f"rank {rank} now holds {held}{what}, expected {due}"
    return said


def stops(analysis: Analysis) -> Said:
    """What a proof says of the ops at which it stops."""
    return {relation: list(analysis.rows(relation)) for relation in STOPS}


def mend_around(analysis: Analysis, wrong: list[Output], progress: Progress) -> tuple[Mending, Place | None] | None:
    """As `mend`, sought on the part of the program around the ops at which the proof stops, with the place where values
    part there; None where no edits are found on it with which the rules prove all outputs of the whole."""
    for part in windows(analysis):
        progress("looking around the ops at which the proof stops")
        try:
            check_meaning(part)
            search = find_counterexample(load_program(part.tables), rounding=False)
            found = mend(part, search, analysis.options, progress, stops(analysis))
            if found is None or not found.complete:
                continue
            progress("proving the program with these edits")
            edits = [edit for tried in found.tried for edit in tried.proposal.edits]
            found.outputs = len(analysis.facts["expect"])
            if analysis.facts.whole is not None:
                found.proved = analysis.facts.whole.proves(edits)
                found.by_rules = found.proved == found.outputs
            else:
                edited = apply(analysis.facts, edits)
                seen = proved_below(analysis, edited)
                found.proved = proved(edited, analysis.options, formulas=False) if seen is None else seen
                found.by_rules = found.proved == found.outputs
                if not found.by_rules:
                    found.proved = proved(edited, analysis.options)
        except (InputError, MemoryError):
            continue
        if found.proved == found.outputs:
            found.wrong = wrong
            return found, search.best.place if search.best else None
    return None


def _round(
    state: State, proposals: Iterable[Proposal], deadline: float, options: Options, progress: Progress, what: str
) -> State | None:
    """The best way to make more right than now: of those that mend all, the one of which the rules prove most."""
    complete: list[State] = []
    partial: list[tuple[Proposal, Facts]] = []
    wrong = {base for _, base in state.wrong}
    for number, proposal in enumerate(proposals):
        if number >= TRIED or len(complete) >= COMPLETE or time.process_time() > deadline:
            break
        if complete and proposal.why == BY_PROOF:
            break
        progress(f"{what}: {number + 1}, {proposal.advice[0] if proposal.advice else proposal.why}")
        try:
            facts = apply(state.facts, proposal.edits)
            check_meaning(facts)
            program, outputs = load_program(facts.tables), _outputs(facts, wrong)
            if refuted_at_once(program, outputs):
                partial.append((proposal, facts))
                continue
            search = state.run(program, outputs)
            if search.counterexamples and not search.problems:
                partial.append((proposal, facts))
            if search.counterexamples or search.problems:
                continue
            progress(f"{what}: proving the program with edit {number + 1}")
            by_rules = proved(facts, options, formulas=False)
            if by_rules == len(facts["expect"]):  # no run says more than that
                return State(facts, search, [*state.tried, Tried(proposal, 0)], by_rules)
            search = state.run(program, trials=2, once=False)  # none is made wrong
        except (InputError, MemoryError):
            continue
        if search.problems or search.status == "interrupted":
            continue
        after = State(facts, search, [*state.tried, Tried(proposal, 0)], by_rules)
        if after.wrong:
            partial.append((proposal, facts))
        else:
            complete.append(after)
    if complete:
        return by_formulas(complete, options, progress)
    return _nearer(state, [way for way in partial if way[0].why not in ENTIRE], deadline)


def _outputs(facts: Facts, wrong: set[str]) -> set[str]:
    """The outputs that came out wrong, of an edited program."""
    return {dist for dist, base, *_ in facts["expect"] if base in wrong}


def _nearer(state: State, partial: Iterable[tuple[Proposal, Facts]], deadline: float) -> State | None:
    """Of ways that do not mend everything, the one that makes most right, other outputs counted that it makes wrong;
    None where none makes more right than now.
    The proof's own word is taken where no other way does."""
    best, least = None, state.score()
    for proposal, facts in partial:
        if time.process_time() > deadline:
            break
        if proposal.why == BY_PROOF and best is not None and best.tried[-1].proposal.why != BY_PROOF:
            break
        try:
            program = load_program(facts.tables)
            search = state.run(program)
            if len(State(facts, search, []).wrong) > least[0]:
                continue
            if search.sizes == "own":
                search.readings = readings(program, search)
                if search.readings is not None and state.search.readings is not None:
                    search.readings.share(state.search.readings)
            elif search.counterexamples:
                search = find_counterexample(program, trials=2, rounding=False)
        except (InputError, MemoryError):
            continue
        if search.problems or search.status == "interrupted":
            continue
        after = State(facts, search, [])
        after.tried = [*state.tried, Tried(proposal, len(after.wrong))]
        if after.wrong and after.score() < least:
            best, least = after, after.score()
    return best
