"""Differential fuzzing of the readers of StableHLO and HLO: random JAX programs, run, written as text, read back.

    report = run(seconds=60, seed=0)

Every program is compiled and run by JAX; its StableHLO, its HLO and its optimised HLO (fusions, layouts, bitcasts) are
read and run by the oracle, and all results compared.
"""

from .campaign import Report, run

__all__ = ["Report", "run"]
