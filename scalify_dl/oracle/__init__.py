"""The numeric oracle: executes fact graphs rank by rank, and looks for inputs on which the two sides differ.

    program = load_program(load("facts/row_parallel_linear").tables)
    report = find_counterexample(program)

It shares no arithmetic with the rules: layouts are read as index arithmetic, ops run as numpy functions.
"""

from __future__ import annotations

from .program import Program, load_program
from .shrink import Shrunk, shrink
from .trial import Trial, run_trial

__all__ = ["Program", "Shrunk", "Trial", "load_program", "run_trial", "shrink"]
