"""`python -m scalify_dl.audit.schedules.sites --count 300`: is what was broken among the first three findings?

An action that was moved, doubled or exchanged has to be one of their events; of one that was dropped, its place is
named: the action itself, or its partner as one whose other side never comes.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter

from scalify_dl.errors import InputError
from scalify_dl.finding import Finding
from scalify_dl.schedule.actions import parse
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import judge

from .orders import dual_pipe, g_pipe, one_f_one_b, zb_h1
from .sources import KINDS, Rows, pipeline, tables, with_messages

FIRST = 3
STREAMS = ("pair", "direction", "rank", "host")


def right(rng: random.Random) -> Rows:
    """A schedule of any kind, a cell an action."""
    make = rng.choice((one_f_one_b, g_pipe, zb_h1, dual_pipe, None))
    if make is None:
        return pipeline(rng.randint(2, 4), rng.randint(3, 6), *rng.choice(KINDS))
    rows = with_messages(make(rng.choice((2, 4)), rng.choice((8, 10))))
    return [[action.name for cell in row for action in parse(cell)] for row in rows]


def broken(rows: Rows, rng: random.Random) -> tuple[str, int, set[str]]:
    """How it was broken, the rank, and the actions."""
    while True:
        r = rng.randrange(len(rows))
        row = rows[r]
        i, j = rng.randrange(len(row)), rng.randrange(len(row))
        one, other = row[i], row[j]
        message = "SEND" in one or "RECV" in one
        way = rng.choice(("neighbours", "exchanged", "dropped", "twice", "micro-batches", "early"))
        if way == "neighbours" and i + 1 < len(row):
            row[i], row[i + 1] = row[i + 1], row[i]
            return way, r, {one, row[i]}
        if i != j and (way == "exchanged" or (way == "micro-batches" and message and _kind(one) == _kind(other))):
            row[i], row[j] = other, one
            return way, r, {one, other}
        if way == "dropped" and "REDUCE" not in one:
            row.pop(i)
            return way, r, {one}
        if way == "twice" and message:
            row.insert(i, one)
            return way, r, {one}
        if way == "early" and "REDUCE" in one:
            row.insert(rng.randrange(len(row) // 2, len(row)), row.pop(i))
            return way, r, {one}


def _kind(name: str) -> str:
    return re.sub(r"\d+$", "", name)


def named(findings: list[Finding], how: str, rank: int, sites: set[str]) -> bool:
    """Whether the first findings hold what was broken."""
    first = findings[:FIRST]
    events = {(e.rank, e.name) for finding in first for e in finding.events}
    if any((rank, site) in events for site in sites):
        return True
    words = " ".join(f"{finding.text} {finding.suggestion}" for finding in first)
    if how != "dropped":
        return False
    (site,) = sites
    if re.search(rf"\b{site}\b", words):
        return True
    return any(
        e.name == _partner(site) and ("never" in finding.text or "waits for" in finding.text)
        for finding in first
        for e in finding.events
    )


def _partner(site: str) -> str:
    found = re.fullmatch(r"(\d+)(SEND|RECV)_([FB])(\d+)", site)
    if not found:
        return ""
    stage, way, kind, batch = found.groups()
    other = int(stage) + (1 if (way == "SEND") == (kind == "F") else -1)
    return f"{other}{'RECV' if way == 'SEND' else 'SEND'}_{kind}{batch}"


def campaign(count: int, seed: int = 0) -> tuple[Counter[str], Counter[str], list[str]]:
    """Mutants with findings by how they were broken, those whose site was among the first, and the others in words."""
    rng, broke, found, told = random.Random(seed), Counter[str](), Counter[str](), list[str]()
    while broke.total() < count:
        rows, streams = right(rng), rng.choice(STREAMS)
        if judge(tables(rows, streams), settings("both")).findings:
            continue  # depends on buffering as it is
        how, rank, sites = broken(rows, rng)
        try:
            findings = judge(tables(rows, streams), settings("both")).findings
        except InputError:
            continue
        if findings:
            broke[how] += 1
            hit = named(findings, how, rank, sites)
            found[how] += hit
            if not hit:
                told.append(f"{how}, rank {rank}: {sorted(sites)}, {streams}: {[f.text for f in findings[:FIRST]]}")
    return broke, found, told


def main() -> int:
    """Exit status 1 where fewer than nine tenths are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    broke, found, told = campaign(given.count, given.seed)
    print("\n".join(told[:20]))
    print({how: f"{found[how]} of {n}" for how, n in broke.items()}, f"{found.total()} of {broke.total()}", sep="\n")
    return 0 if 10 * found.total() >= 9 * broke.total() else 1


if __name__ == "__main__":
    sys.exit(main())
