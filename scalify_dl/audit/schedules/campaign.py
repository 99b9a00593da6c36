"""`python -m scalify_dl.audit.schedules.campaign --count 5000`: broken schedules, rules against the machine."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from .compare import by_rules, differences
from .mutants import mutate
from .program import put_together, taken_apart
from .sources import sources

CAPACITIES = (0, None, 1, 2)
LARGEST = 120
"""Events of a program, at most: the machine is asked about each pair."""


def campaign(
    count: int, seed: int = 0, seconds: float | None = None, states: int = 3000
) -> tuple[Counter[str], list[str]]:
    """Numbers by what was found, and differences with what made them. Where a program has at most `states` states, all
    of its interleavings are tried."""
    rng, told, numbers = random.Random(seed), [], Counter[str]()
    end = time.process_time() + seconds if seconds else None
    for n, (name, schedule) in enumerate(sources(seed)):
        if numbers["mutants"] >= count or (end and time.process_time() > end):
            break
        program = taken_apart(schedule)
        if len(program.pieces()) > LARGEST:
            continue
        broken = mutate(program, rng) if n % 20 else "unbroken"
        capacity = CAPACITIES[rng.choice((0, 0, 1, 1, 2, 3))]
        put_together(program)
        numbers["mutants"] += 1
        numbers[f"source {name.rsplit(' ', 2)[0]}"] += 1
        for kind, rows in by_rules(program, capacity).items():
            numbers[kind] += bool(rows)
        texts, tried = differences(program, capacity, n, states)
        numbers["tried by all interleavings"] += tried
        told += [f"{name}, {broken}, capacity {capacity}: {text}" for text in texts]
    return numbers, told


def main() -> int:
    """Exit status 1 where rules and machine disagree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--states", type=int, default=1_000_000, help="try all interleavings up to so many states")
    given = parser.parse_args()
    numbers, told = campaign(given.count, given.seed, given.seconds, given.states)
    print("\n".join(told[:50]))
    print(dict(numbers.most_common()), f"{len(told)} differences", sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
