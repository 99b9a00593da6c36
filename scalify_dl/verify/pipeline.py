"""The run: facts into the engine, rules to their fixpoint, arithmetic obligations discharged, conclusion.

    analysis = analyse(facts, Options())
    report = analysis.report()

The rules decide; this file moves tables. One engine run covers all rules. Where rules derive `obligation` tuples, a
solver is asked about them, what it proved or refuted goes back in as facts, and the engine resumes; nothing is ever
retracted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.pysouffle import Program, rules_dir

from .assumptions import Accepted
from .conclude import Circumstances, conclude
from .options import Options
from .verdict import Report
from .view import Row, View

MAIN = "verify.dl"


class Solver(Protocol):
    """Discharges arithmetic: from undecided rows of `obligation` to rows of `proved` and `refuted`."""

    def __call__(self, obligations: list[Row]) -> tuple[list[Row], list[Row]]: ...


def rules_program(rules: Iterable[Path], *, provenance: bool = False, more: str = "") -> Program:
    """The shipped rules with the user's rule files and further rule text; InputError where those do not load."""
    files = [Path(r) for r in rules]
    for file in files:
        if not file.is_file():
            raise InputError("no such rules file", file=file, expected="a Datalog file (.dl)")
    source = "".join(f'#include "{f}"\n' for f in (rules_dir() / MAIN, *(f.resolve() for f in files))) + more
    return Program.from_source(source, name="rules", include_dirs=[rules_dir()], provenance=provenance)


@dataclass
class Analysis:
    """A finished run (or one that a guard stopped): the facts, and the engine with everything derived."""

    facts: Facts
    program: Program
    options: Options
    stopped: str
    started: float
    """Process CPU seconds when the work began."""

    @property
    def view(self) -> View:
        """Facts and results, as reports read them."""
        return View(lambda name: self.facts.tables.get(name, []), self.results)

    def results(self, relation: str) -> Iterable[Row]:
        """Rows of a derived relation; none where the rules do not have it."""
        return self.program.relation(relation) if relation in self.program.relations else []

    def stats(self) -> dict[str, float]:
        """The figures of the report: ops, tuples, CPU seconds of the process so far, peak resident megabytes."""
        return {
            "ops": len(self.facts["op"]),
            "tuples": self.program.stats().tuples,
            "cpu_s": round(time.process_time(), 3),
            "peak_mb": round(peak_mb(), 1),
        }

    def report(self, progress: Callable[[str], None] = lambda text: None) -> Report:
        """What the run says, a counterexample looked for where something is not proved."""
        accepted = Accepted.load(self.options.accept) if self.options.accept else Accepted()
        around = Circumstances(strict=self.options.strict, accepted=accepted, stopped=self.stopped, stats=self.stats())
        return conclude(self.view, around)


def peak_mb() -> float:
    """Peak resident memory of this process in MB."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
