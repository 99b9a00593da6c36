"""What the machine finds in a program, by trying; what the rules find; and where they differ."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

from scalify_dl.schedule.run import decide

from .interleavings import all_runs
from .program import Chains, Piece, put_together
from .simulator import Machine

Found = dict[str, set[tuple[int, ...]]]


def by_rules(program: Chains, capacity: int | None) -> Found:
    """Findings by number of event."""
    schedule, _ = put_together(program)
    outcome = decide(schedule, capacity)
    rows = outcome.rows
    assert not rows["malformed"], rows["malformed"]
    return {
        "stuck": {tuple(row) for row in rows["stuck"]},
        "wrong": {(s, r) for s, r, *_ in rows["wrong_message"]},
        "unmatched": {(e,) for e, *_ in rows["unmatched"]},
        "race": {tuple(sorted(row)) for row in rows["race"]},
        "undecided": {tuple(sorted(row)) for row in rows["undecided"]},
        "unread": {(e,) for e, _ in rows["unread"]},
        "too early": {(e, f) for e, f, _ in rows["too_early"]},
        "orphan": {tuple(row) for row in rows["orphan"]},
    }


def by_machine(program: Chains, capacity: int | None, seed: int = 0) -> Found:
    """The same by running the program, again and again with some events kept from ending."""
    machine = Machine(program, capacity, seed)
    pieces = program.pieces()
    number = {id(piece): e for e, piece in enumerate(pieces)}
    chain = {id(piece): c for c, (_, _, some) in enumerate(program.chains) for piece in some}
    started, ended = machine.run()
    found: Found = {name: set() for name in ("race", "unread", "too early", "orphan", "undecided")}
    found["stuck"] = {(number[id(p)],) for p in pieces if id(p) not in ended}
    found["unmatched"] = {(number[id(p)],) for p in machine.alone}
    found["wrong"] = {
        (number[id(s)], number[id(r)])
        for s, r in machine.pairs
        if any(r.carries.get(aspect, what) != what for aspect, what in s.carries.items())
    }
    for e, f in combinations(pieces, 2):
        if {id(e), id(f)} <= started and (how := _conflict(e, f)):
            both = [*_still_reading(machine, e), *_still_reading(machine, f)]
            flying, _ = machine.run(both)
            if chain[id(e)] != chain[id(f)] and {*_writing(machine, e), *_writing(machine, f)} <= flying:
                found["race"].add((number[id(e)], number[id(f)]))
            elif "takes" in how:
                for taker, adder in ((e, f), (f, e)):
                    if _has(taker, "takes") and _has(adder, "adds") and id(taker) in machine.run([adder])[0]:
                        found["too early"].add((number[id(taker)], number[id(adder)]))
    bounds: defaultdict[int, set[int]] = defaultdict(set)  # bytes between two of these fare alike
    for b, lo, hi in [*(t[1:] for p in pieces for t in p.touches), *program.initial]:
        bounds[b] |= {lo, hi}
    racing = {e for pair in found["race"] for e in pair}
    for piece in pieces:
        n = number[id(piece)]
        if id(piece) in started and not (n in racing and _races_with_fill(found, pieces, n)):
            for kind, b, lo, hi in piece.touches:
                if kind == "reads" and any(_never_filled(machine, piece, b, x) for x in bounds[b] if lo <= x < hi):
                    found["unread"].add((n,))
    for c, (rank, _, some) in enumerate(program.chains):
        last = [p for _, _, others in program.chains for p in others if p.ends_rank and chain[id(p)] != c]
        ends = [p for p in last if program.chains[chain[id(p)]][0] == rank]
        for piece in some:
            talks = piece.sends is not None or piece.receives is not None or piece.joins is not None
            asked = bool(ends) and talks and {id(piece), id(ends[0])} <= started
            if asked and id(ends[0]) in machine.run([piece], apart=rank)[0]:
                found["orphan"].add((number[id(piece)],))
    return found


def _has(piece: Piece, how: str) -> bool:
    return any(h == how for h, *_ in piece.touches)


def _conflict(e: Piece, f: Piece) -> set[str]:
    """How two events touch the same bytes, where one of them changes these."""
    hows: set[str] = set()
    for m, b, lo, hi in e.touches:
        for n, d, low, high in f.touches:
            if b == d and lo < high and low < hi and (m != "reads" or n != "reads"):
                hows |= {m, n}
    return hows


def _still_reading(machine: Machine, piece: Piece) -> list[Piece]:
    """What has to be kept from ending so that an event goes on touching: of a send also its receive."""
    partner = machine.partner.get(id(piece))
    reads = all(how == "reads" for how, *_ in piece.touches)
    return [piece, partner] if piece.sends is not None and partner is not None and reads else [piece]


def _writing(machine: Machine, piece: Piece) -> list[int]:
    """What has to have started for an event to touch its bytes: for a receive also its send."""
    partner = machine.partner.get(id(piece))
    writes = all(how == "writes" for how, *_ in piece.touches)
    late = piece.receives is not None and partner is not None and writes
    return [id(piece), id(partner)] if late else [id(piece)]


def _never_filled(machine: Machine, reader: Piece, b: int, x: int) -> bool:
    """Whether the reader may start before anything has left contents at a byte."""
    if any(d == b and lo <= x < hi for d, lo, hi in machine.program.initial):
        return False
    fills = [
        p for p in machine.program.pieces()
        if p is not reader and any(how != "reads" and d == b and lo <= x < hi for how, d, lo, hi in p.touches)
    ]  # fmt: skip
    return id(reader) in machine.run(fills)[0]


def _races_with_fill(found: Found, pieces: list[Piece], e: int) -> bool:
    """A race with what fills the buffer is told in place of a read of nothing."""
    read = {b for how, b, *_ in pieces[e].touches if how == "reads"}
    others = [f for pair in found["race"] if e in pair for f in pair if f != e]
    return any(how != "reads" and b in read for f in others for how, b, *_ in pieces[f].touches)


def by_trying(program: Chains, capacity: int | None, most: int) -> Found | None:
    """What is stuck and what races, over all interleavings; None where these are more than `most` states."""
    tried = all_runs(program, capacity, most)
    if tried is None:
        return None
    pieces = program.pieces()
    everything = frozenset(range(len(pieces)))
    return {
        "stuck": {(e,) for ended in tried.ends for e in everything - ended},
        "race": {pair for pair in tried.together if _conflict(pieces[pair[0]], pieces[pair[1]])},
    }


def differences(program: Chains, capacity: int | None, seed: int = 0, states: int = 0) -> tuple[list[str], bool]:
    """Where rules and machine disagree, in words; and whether all interleavings were tried, too."""
    rules = by_rules(program, capacity)
    others = {"the machine": by_machine(program, capacity, seed)}
    if (tried := by_trying(program, capacity, states) if states else None) is not None:
        others["all interleavings"] = tried
    names = [p.name for p in program.pieces()]
    told = [
        f"{kind}: only {who} {[names[e] for e in row]}"
        for other, found in others.items()
        for kind in found
        for who, row in [
            *(("the rules", row) for row in sorted(rules[kind] - found[kind])),
            *((other, row) for row in sorted(found[kind] - rules[kind])),
        ]
    ]
    return told, tried is not None
