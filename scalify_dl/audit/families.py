"""Random pairs read as families: what is proved for all sizes is executed at sizes of its domain, boundaries first.

    python benchmarks/families.py [--count N] [--start SEED] [--sizes N] [--seconds S]

A family is a random pair of programs of which one capture, or two at different sizes, are given. Counts verdicts;
prints every family that is proved and differs, where what the proof lists is so, or does not exist at a size, and
internal errors. Status 1 where there are any.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.families import cases
from scalify_dl.families.extents import Extents
from scalify_dl.families.family import Family
from scalify_dl.families.lift import lift
from scalify_dl.families.members import executed, family_domain, ranks, some_sizes
from scalify_dl.families.single import Reading
from scalify_dl.families.symbols import resolve
from scalify_dl.families.verify import verify_family
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Assumption, Verdict

from .assumed import differs_where_assumed
from .fuzz.generate import random_pair

RANKS = 12
CASES, POINTS = 40, 6
"""What needs more cases, or single points, counts as UNKNOWN."""


def some_pair(rng: random.Random) -> Facts:
    """A random pair with those of its outputs that are proved."""
    facts = Facts(random_pair(rng, length=rng.choice([2, 3, 4, 6]), wrong=0.06).tables())
    proved = {row[:2] for row in analyse(facts, Options()).rows("output_verdict") if row[2] == "PROVED"}
    facts.tables["expect"] = [row for row in facts["expect"] if row[:2] in proved]
    return facts


def some_symbols(facts: Facts, rng: random.Random) -> dict[str, str | None]:
    """An axis, or all of them, and perhaps dims of inputs."""
    axes = [axis for axis, *_ in facts["mesh_axis"]]
    symbols: dict[str, str | None] = dict.fromkeys(axes if rng.random() < 0.3 else [rng.choice(axes)])
    place = {tensor: position for side, position, tensor in facts["input"] if side == "base"}
    dims = [(tensor, dim) for tensor, dim, size in facts["dim"] if tensor in place and size > 1]
    for name, (tensor, dim) in zip("nm", rng.sample(dims, min(len(dims), rng.choice([0, 1, 1, 2]))), strict=False):
        symbols[name] = f"{place[tensor]}:{dim}"
    return symbols


def captures(facts: Facts, symbols: dict[str, str | None], rng: random.Random) -> list[Facts]:
    """The pair alone, or its member at other sizes beside it, as one capture reads it."""
    if rng.random() < 0.5:
        return [facts]
    found, (point,) = resolve([facts], symbols)
    family = Reading(facts, point, found, symbols).family()
    extents = Extents(family, point)
    family.sizes |= extents.sizes
    family.integers |= extents.integers
    others = some_sizes(family_domain(family), 12, rng, lambda p: ranks(family, p) <= RANKS)
    for other in sorted(others, key=lambda p: -sum(p.values())):
        try:
            member = family.instantiate(other)
            lift([facts, member], [point, other], found, symbols)
        except (InputError, ValueError):  # these sizes do not tell
            continue
        return [facts, member]
    return [facts]


def check(seed: int, sizes: int) -> tuple[str, list[str]]:
    """What became of one family, and what is wrong with it."""
    rng = random.Random(seed)
    facts = some_pair(rng)
    if not facts["expect"]:
        return "nothing proved at the capture", []
    symbols = some_symbols(facts, rng)
    families: list[Family] = []
    try:
        given = captures(facts, symbols, rng)
        report = verify_family(given, symbols, keep=families.append)
    except InputError as error:
        return "bad input", [str(error)] if "internal" in str(error) else []
    kind = f"{report.verdict.value} of {len(given)}"
    if report.verdict is not Verdict.PROVED:
        return kind, []
    family = families[-1]
    domain = family_domain(family)
    wrong = []
    for point in some_sizes(domain, sizes, rng, lambda p: ranks(family, p) <= RANKS):
        try:
            status = executed(family, point)
            if status == "refuted" and not _counts(family, point, report.assumptions):
                status = "inconclusive: what the proof lists is not so there"
        except (InputError, ValueError) as error:
            status = f"no program: {error}"
        if status != "agrees" and not status.startswith("inconclusive"):
            wrong.append(f"{point}: {status}")
    return kind, wrong


def _counts(family: Family, point: Mapping[str, int], assumptions: Sequence[Assumption]) -> bool:
    """Whether a member is refuted on inputs at which all that the proof lists is so."""
    program = load_program(family.instantiate(point).tables)
    return differs_where_assumed(program, find_counterexample(program), assumptions) is True


def main() -> int:
    """Runs and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--sizes", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so much CPU time")
    args = parser.parse_args()
    cases.LIMIT, cases.POINTS = CASES, POINTS
    counts: Counter[str] = Counter()
    failures = 0
    seed = args.start
    for seed in range(args.start, args.start + args.count):
        if time.process_time() > args.seconds:
            break
        try:
            kind, wrong = check(seed, args.sizes)
        except Exception:  # an internal error is a finding
            kind, wrong = "internal error", [traceback.format_exc()]
        counts[kind] += 1
        failures += bool(wrong)
        for line in wrong[:3]:
            print(f"seed {seed} ({kind}): {line}", flush=True)
        if not (seed + 1 - args.start) % 100:
            print(f"{seed + 1 - args.start} families, {failures} of them wrong", file=sys.stderr, flush=True)
    done = sum(counts.values())
    print(f"{done} families, seeds {args.start} to {seed}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    print(f"{failures} of them wrong; {round(time.process_time())} s CPU")
    return 1 if failures else 0
