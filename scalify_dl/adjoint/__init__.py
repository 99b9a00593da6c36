"""The backward of a program, derived: vector-Jacobian products of the op vocabulary, collectives and SPMD transitions.

    p = Program("f", mesh, graph)
    gradients = backward(p, {loss: p.full(1.0, ())}, [w])      # appended to the graph
"""

from __future__ import annotations

from . import collectives, contractions, control, convolutions, elementwise, indexed, scatters, structural, windows
from .derive import MISSING, RULES, NoAdjoint, backward

__all__ = [
    "MISSING", "RULES", "NoAdjoint", "backward", "collectives", "contractions", "control", "convolutions",
    "elementwise", "indexed", "scatters", "structural", "windows",
]  # fmt: skip
