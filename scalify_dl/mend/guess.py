"""Edits that are only guessed: each is executed, and what makes all outputs right, or most, is taken.

Where no reading of the values tells what is wrong, a wrong comparison, step or neighbour is found by trying others.
"""

from __future__ import annotations

import time
from dataclasses import replace

from scalify_dl.errors import InputError
from scalify_dl.facts.validate import check_meaning
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.options import Options

from .propose import Proposal, propose
from .state import Progress, State, Tried, by_formulas, proved, refuted_at_once
from .verbs import apply

SECONDS = 6.0
"""CPU time for guesses; runs of the rules on what agrees come on top."""
ROUNDS = 3
MOST_OPS = 3_000
"""Of longer programs no edits are guessed."""
COMPLETE = 4
"""So many guesses that make everything right are put to the rules."""


def guess(start: State, mended: State, options: Options, progress: Progress) -> State:
    """The program with guessed edits, from its start or from what other edits mended; as it was mended, where none
    makes fewer outputs wrong."""
    if len(start.facts["op"]) > MOST_OPS:
        return mended
    begun, best = time.process_time(), mended
    nearer = len(mended.wrong) < len(start.wrong)
    ways = [start, mended] if mended.tried else [start]
    for way, state in enumerate(reversed(ways) if nearer else ways, 1):
        deadline = begun + SECONDS * (1 if not nearer else way / len(ways))
        for number in range(ROUNDS):
            found = _round(state, options, deadline, progress, f"guessing edits, round {number + 1}")
            if found is None:
                break
            state = found
            if not state.wrong:
                return state
            if len(state.wrong) < len(best.wrong):
                best = state
    return best


def _round(state: State, options: Options, deadline: float, progress: Progress, what: str) -> State | None:
    """One edit more: of those that make everything right, the one of which the rules prove most."""
    if state.search.readings is None:
        return None
    complete: list[State] = []
    best: State | None = None
    for number, proposal in enumerate(propose(state.facts, state.search.readings, state.wrong, guess=True).guesses):
        if len(complete) >= COMPLETE or time.process_time() > deadline:
            break
        progress(f"{what}: {number + 1}, {proposal.advice[0]}")
        after = _tried(state, proposal, len((best or state).wrong))
        if after is None:
            continue
        best = after
        if not after.wrong:
            best = None
            after.proved = proved(after.facts, options, formulas=False)
            complete.append(after)
            if after.proved < len(after.facts["expect"]) and len(complete) == 1:  # the likeliest
                after = by_formulas(complete, options, progress)
            if after.proved == len(after.facts["expect"]):
                return after
    if complete:
        first, best = complete[0], max(complete, key=lambda way: way.proved)
        return first if best is first else by_formulas(complete, options, progress)
    return best and replace(best, search=find_counterexample(load_program(best.facts.tables), rounding=False))


def _tried(state: State, proposal: Proposal, fewer_than: int) -> State | None:
    """The program with an edit, if fewer outputs are wrong than so many; None, too, where none can be made.

    One run shows most that are no better; more are made of what may be."""
    try:
        facts = apply(state.facts, proposal.edits)
        check_meaning(facts)
        program = load_program(facts.tables)
        if refuted_at_once(program) >= fewer_than:
            return None
        for trials, seed, once in ((1, 0, True), (1, 0, False), (4, 1, False)):
            search = state.run(program, trials=trials, seed=seed, once=once)
            after = State(facts, search, [])
            if search.problems or search.status == "interrupted" or len(after.wrong) >= fewer_than:
                return None
            if search.counterexamples and not once:
                break
    except (InputError, MemoryError):
        return None
    after.tried = [*state.tried, Tried(proposal, len(after.wrong))]
    return after
