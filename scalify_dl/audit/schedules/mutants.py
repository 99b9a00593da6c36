"""Programs broken at random, in the ways in which schedules are got wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

from .program import Chains, Piece

Mutation = Callable[[Chains, random.Random], str | None]


def _some(program: Chains, rng: random.Random) -> tuple[list[Piece], int]:
    pieces = rng.choice([some for _, _, some in program.chains if some])
    return pieces, rng.randrange(len(pieces))


def swap(program: Chains, rng: random.Random) -> str | None:
    """Two neighbours of a chain change places."""
    pieces, n = _some(program, rng)
    if n + 1 == len(pieces):
        return None
    pieces[n], pieces[n + 1] = pieces[n + 1], pieces[n]
    return f"{pieces[n].name} before {pieces[n + 1].name}"


def move(program: Chains, rng: random.Random) -> str | None:
    """An event goes to another place of its chain."""
    pieces, n = _some(program, rng)
    piece = pieces.pop(n)
    pieces.insert(rng.randrange(len(pieces) + 1), piece)
    return f"{piece.name} moved"


def drop(program: Chains, rng: random.Random) -> str | None:
    """An event is missing."""
    pieces, n = _some(program, rng)
    return f"{pieces.pop(n).name} dropped" if not pieces[n].ends_rank else None


def twice(program: Chains, rng: random.Random) -> str | None:
    """An event happens twice."""
    pieces, n = _some(program, rng)
    if pieces[n].ends_rank:
        return None
    pieces.insert(n, pieces[n].copy())
    return f"{pieces[n].name} twice"


def unwait(program: Chains, rng: random.Random) -> str | None:
    """A wait is missing."""
    pieces, n = _some(program, rng)
    if not pieces[n].waits:
        return None
    gone = pieces[n].waits.pop(rng.randrange(len(pieces[n].waits)))
    return f"{pieces[n].name} does not wait for {gone.name}"


def wait(program: Chains, rng: random.Random) -> str | None:
    """A wait too many, for anything."""
    pieces, n = _some(program, rng)
    others, m = _some(program, rng)
    pieces[n].waits.append(others[m])
    return f"{pieces[n].name} waits for {others[m].name}"


def payload(program: Chains, rng: random.Random) -> str | None:
    """Two events carry each other's contents."""
    pieces, n = _some(program, rng)
    m = rng.randrange(len(pieces))
    if not pieces[n].carries or pieces[n].carries == pieces[m].carries:
        return None
    pieces[n].carries, pieces[m].carries = pieces[m].carries, pieces[n].carries
    return f"{pieces[n].name} carries what {pieces[m].name} should"


def buffer(program: Chains, rng: random.Random) -> str | None:
    """An event touches another buffer, or more bytes of it."""
    pieces, n = _some(program, rng)
    others, m = _some(program, rng)
    if not pieces[n].touches or not others[m].touches:
        return None
    how, *_ = pieces[n].touches[0]
    _, *place = rng.choice(others[m].touches)
    pieces[n].touches[0] = (how, place[0], place[1], place[2])
    return f"{pieces[n].name} touches what {others[m].name} does"


def change(program: Chains, rng: random.Random) -> str | None:
    """A read writes, a write reads."""
    pieces, n = _some(program, rng)
    if not pieces[n].touches:
        return None
    k = rng.randrange(len(pieces[n].touches))
    _, *place = pieces[n].touches[k]
    how = rng.choice(("reads", "writes", "adds"))
    pieces[n].touches[k] = (how, place[0], place[1], place[2])
    return f"{pieces[n].name} {how}"


MUTATIONS: list[Mutation] = [swap, move, drop, twice, unwait, wait, payload, buffer, change]


def mutate(program: Chains, rng: random.Random) -> str:
    """Breaks a program once or twice; what was done, in words."""
    done: list[str] = []
    wanted = rng.choice((1, 1, 1, 2))
    while len(done) < wanted:
        if said := rng.choice(MUTATIONS)(program, rng):
            done.append(said)
    return "; ".join(done)
