"""A schedule into the rules, and what they say, for one capacity of channels."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Program, rules_dir

from .tables import ORDER, WIDTHS, Schedule

MAIN = "schedule.dl"
CHECKS = {"all": (MAIN, tuple(WIDTHS)), "deadlock": ("deadlock.dl", ORDER)}
"""What may be asked: the rules that answer it, and the tables that they need."""
ROWS = 20_000_000
"""Rows that deciding pairs across ranks may cost; pairs beyond stay undecided."""
RESULTS = (
    "malformed", "unmatched", "unmatched_member", "wrong_message", "first_wrong", "mismatch", "first_mismatch", "stuck",
    "head", "circle", "root", "blocked", "race", "undecided", "race_bytes", "unread", "overwritten", "too_early",
    "orphan", "makespan", "idle", "peak",
)  # fmt: skip
"""Relations that findings are made of."""


@dataclass
class Outcome:
    """What the rules derive for one capacity (None: channels hold any number of messages)."""

    capacity: int | None
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    tuples: int = 0
    program: Program | None = None
    crossing: bool = False
    """Whether order through other ranks mattered, which depends on the capacity."""

    @property
    def times(self) -> list[tuple[int, int]]:
        """Events that end, and when."""
        return [] if self.program is None else [(e, t) for e, t in self.program.array("ends").tolist()]

    def ints(self, relation: str) -> list[tuple[int, ...]]:
        """Rows of a relation of numbers, sorted."""
        return sorted(self.rows[relation])


@cache
def rules(main: str = MAIN) -> Program:
    """The rules of a file, parsed once."""
    text = (rules_dir() / main).read_text("utf-8")
    return Program.from_source(text, name=main, include_dirs=[rules_dir()])


def decide(schedule: Schedule, capacity: int | None, *, check: str = "all", timeout: float | None = None) -> Outcome:
    """Runs the rules; pairs whose order only other ranks could tell are then asked about, as many as `ROWS` allows."""
    main, tables = CHECKS[check]
    program = rules(main).fresh()
    schedule.insert(program, tables)
    if capacity is not None:
        program.insert("capacity", [(capacity,)])
    program.run(timeout=timeout)
    suspects = sorted(program.relation("suspect")) if check == "all" else []
    if suspects:
        afford = max(8, ROWS // max(1, 3 * len(schedule.named)))
        program.insert("examine", _first_of_each_rank(schedule, suspects)[:afford])
        program.run(timeout=timeout)
    outcome = Outcome(capacity, program=program, crossing=bool(suspects), tuples=program.total_tuples)
    for relation in RESULTS:
        if relation in program.relations:
            outcome.rows[relation] = list(program.relation(relation))
    return outcome


def _first_of_each_rank(schedule: Schedule, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    by_rank: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for e, f in pairs:
        by_rank[schedule.rank(e)].append((e, f))
    longest = max(map(len, by_rank.values()))
    return [some[k] for k in range(longest) for some in by_rank.values() if k < len(some)]


def settings(sends: str) -> list[int | None]:
    """Capacities that `--sends` names: both ends of buffering, or one."""
    named: dict[str, list[int | None]] = {"both": [0, None], "blocking": [0], "buffered": [None]}
    if sends in named:
        return named[sends]
    if sends.isascii() and sends.isdigit() and len(sends) < 9:
        return [int(sends)]
    raise InputError(f'--sends "{sends}"', expected="blocking, buffered, both, or how many messages a channel holds")
