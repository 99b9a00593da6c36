"""Fuzzes the rules: random pairs, everything derived audited, unsound lemmas shown with a minimal graph, coverage
counted."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, zip_longest
from pathlib import Path
from zlib import crc32

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Program

from ..check import Finding, audit
from ..derive import Derived, derive_with, load_rules
from ..pair import Pair
from ..stilled import stilled
from .coverage import Coverage, KindUse, count_kinds, fired
from .generate import random_pair
from .kind_steps import kind_steps
from .kinds import read_kinds
from .smallest import Seen, Tables, Unsound, smallest
from .world import Step

WRITTEN, SECONDS = 4, 0.5
"""Of every how many-th random pair formulas are compared, too, and for how many CPU seconds."""
Case = tuple[str, Callable[[], Pair]]
"""A pair by name, and what makes it."""


@dataclass(slots=True)
class Report:
    """What a fuzzing run found, complete at any time: `interrupted` runs have done less, that is all."""

    pairs: int = 0
    tuples: int = 0
    seconds: float = 0.0
    unsound: list[Unsound] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    kinds: dict[str, KindUse] = field(default_factory=dict)
    """Op kinds that the rules files speak about."""
    rewrites: dict[str, str | None] = field(default_factory=dict)
    """Equalities that the rules state, in words, and where each is false, if anywhere."""
    problems: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False


def check_rules(
    rules: Iterable[Path] = (),
    *,
    main: Path | None = None,
    seconds: float = 60.0,
    pairs: int | None = None,
    seed: int = 0,
    stop: int = 5,
    prefer: Iterable[str] = (),
    trials: Mapping[str, Callable[[], Pair]] | None = None,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Fuzzes for `seconds` of CPU time or a number of random `pairs`; stops early after `stop` unsound findings.

    `rules` are files beside the shipped ones, `main` replaces `verify.dl`; `prefer` names kinds of random steps to
    draw more often (see `random_pair`). Calls of the kinds that the files speak about are drawn half of the time.
    `trials` are wrong programs that come first, by name; where the files speak about kinds, in turns with the random
    ones. KeyboardInterrupt ends the run with what there is.
    """
    report, files = Report(), list(rules)
    start = time.process_time()
    try:
        kinds = read_kinds(files, main, seed)
        report.kinds = {kind: KindUse(kind in kinds.signatures, kinds.cut(kind)) for kind in kinds.named}
        calls = kind_steps(kinds)
        draw = Draw(load_rules(files, main), (*prefer, *calls), calls)
        numbers = count(seed) if pairs is None else range(seed, seed + pairs)
        cases: Iterator[Case] = ((f"seed {n}", partial(draw.pair, n)) for n in numbers)
        known = dict(trials or {})
        for name, build in _in_turns(known.items(), cases) if calls else chain(known.items(), cases):
            if report.seconds >= seconds or len(report.unsound) >= stop:
                break
            tables = build().tables()
            if name not in known and crc32(name.encode()) % 3 == 0:
                tables = with_still_axes(tables, random.Random(name))
            check_one(name, tables, draw.rules, report, wrong=name in known)
            report.pairs += 1
            report.seconds = time.process_time() - start
            if progress:
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


@dataclass(frozen=True, slots=True)
class Draw:
    """What pairs are drawn from, and by which rules they are judged."""

    rules: Program
    """Without facts."""
    prefer: tuple[str, ...]
    calls: dict[str, tuple[Step, float]]

    def pair(self, seed: int) -> Pair:
        """A random pair."""
        return random_pair(random.Random(seed), prefer=self.prefer, also=self.calls)


def _in_turns(some: Iterable[Case], others: Iterable[Case]) -> Iterator[Case]:
    """One of each, until both end."""
    for pair in zip_longest(some, others):
        yield from (case for case in pair if case is not None)


def with_still_axes(tables: Tables, rng: random.Random) -> Tables:
    """The facts with some axes along which no rank is told apart, where that is possible."""
    axes = [axis for axis, *_ in tables["mesh_axis"]]
    for some in range(len(axes) - 1, 0, -1):
        found = stilled(tables, rng.sample(axes, some))
        if found is not None:
            return {name: [tuple(row) for row in rows] for name, rows in found.items()}
    return tables


def two_sizes(derived: Derived) -> str | None:
    """A value that rules made, of which one dim has two extents: all shapes would be wrong."""
    found: dict[tuple[str, int], int] = {}
    for value, dim, extent in derived.program.relation("size"):
        if found.setdefault((value, dim), extent) != extent:
            return str(value)
    return None


def check_one(name: str, tables: Tables, rules: Program, report: Report, *, wrong: bool) -> None:
    """Audits what the rules (without facts) derive of one pair; not all outputs of a `wrong` one may be proved."""
    seed = crc32(name.encode())
    formulas = SECONDS if seed % WRITTEN == 0 and not wrong else 0
    try:
        derived = derive_with(rules.fresh(), tables, timeout=20, formulas=formulas)
        findings = audit(
            tables, derived.claims, trials=2, seed=seed, declared=derived.declared(), finite=derived.finite,
            assumed=derived.assumed,
        )  # fmt: skip
    except InputError as error:
        report.problems[str(error)[:160]] += 1
        return
    if findings.interrupted:
        raise KeyboardInterrupt
    report.tuples += len(findings.findings)
    for problem in findings.problems:
        report.problems[problem[:160]] += 1
    if not findings.problems:
        report.coverage.count(derived)
        count_kinds(report.kinds, tables, findings.findings)
    if two := two_sizes(derived):
        finding = Finding((two, "", two, "", ""), "false", f"{two} has two extents along one dim")
        report.unsound.append(Unsound(finding, name, tables, fired(derived)))
    if findings.false:

        def attempt(small: Tables) -> Seen:
            again = derive_with(rules.fresh(), small, formulas=formulas)
            checked = audit(
                small, again.claims, trials=2, seed=seed, declared=again.declared(), finite=again.finite,
                assumed=again.assumed,
            )  # fmt: skip
            if checked.interrupted:
                raise KeyboardInterrupt
            return checked.findings, partial(fired, again)

        report.unsound.append(Unsound(findings.false[0], name, tables, fired(derived)))  # if it is interrupted here
        report.unsound[-1] = smallest(name, tables, (findings.findings, partial(fired, derived)), attempt)
    elif wrong and not derived.unproved:
        (dist, base), layout = next(iter(derived.proved.items()))
        proved = Finding((dist, "", base, "", layout), "false", "all outputs of a wrong program are proved")
        report.unsound.append(Unsound(proved, name, tables, fired(derived)))
