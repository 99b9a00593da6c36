"""The numeric oracle: executes fact graphs rank by rank, and looks for inputs on which the two sides differ.

    program = load_program(load("facts/row_parallel_linear").tables)
    report = find_counterexample(program)

It shares no arithmetic with the rules: layouts are read as index arithmetic, ops run as numpy functions.
"""

from __future__ import annotations

from .counterexample import find_counterexample
from .found import Counterexample, Search
from .program import Program, load_program, relations
from .shrink import Shrunk, shrink
from .trial import Trial, run_trial

__all__ = [
    "Counterexample", "Program", "Search", "Shrunk", "Trial", "find_counterexample", "load_program", "relations",
    "run_trial", "shrink",
]  # fmt: skip
