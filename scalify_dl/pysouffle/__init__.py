"""Soufflé-dialect Datalog in Python: one `Program` API over the embedded engine and the real Soufflé.

    from scalify_dl.pysouffle import Program

    program = Program.from_source('''
        .decl edge(x: symbol, y: symbol)
        .decl path(x: symbol, y: symbol)
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
    ''')
    program.insert("edge", [("a", "b"), ("b", "c")])
    program.run()
    program.relation("path")      # [("a", "b"), ("b", "c"), ("a", "c")]

Relations stay in C++; `relation` copies rows out as tuples, `array` and `columns` give numpy views without a copy.
"""

from typing import TYPE_CHECKING, Any

try:
    from scalify_dl.pysouffle import _engine as _engine
except ImportError as error:
    if error.name not in ("scalify_dl.pysouffle", "scalify_dl.pysouffle._engine"):
        raise
    from scalify_dl.unbuilt import HOW

    raise ImportError(HOW.format(package=__path__[0]), name="scalify_dl.pysouffle._engine") from None

from scalify_dl.pysouffle.errors import Diagnostic, EvaluationError, SourceError
from scalify_dl.pysouffle.program import Program
from scalify_dl.pysouffle.rules import rules_dir
from scalify_dl.pysouffle.values import Branch, Row, Value

if TYPE_CHECKING:
    from scalify_dl.pysouffle.proofs import Derivation, Obstacle, Proof, WhyNot
    from scalify_dl.pysouffle.symbolic import Condition, Symbol

__all__ = [
    "Branch",
    "Condition",
    "Derivation",
    "Diagnostic",
    "EvaluationError",
    "Obstacle",
    "Program",
    "Proof",
    "Row",
    "SourceError",
    "Symbol",
    "Value",
    "WhyNot",
    "rules_dir",
]


def __getattr__(name: str) -> Any:
    """What explains, and what symbols are: imported when it is asked for."""
    if name in ("Derivation", "Obstacle", "Proof", "WhyNot"):
        from scalify_dl.pysouffle import proofs

        return getattr(proofs, name)
    if name in ("Condition", "Symbol"):
        from scalify_dl.pysouffle import symbolic

        return getattr(symbolic, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
