"""The backward of a change of SPMD types, as `datalog/lift/transitions.dl` says it."""

from __future__ import annotations

from functools import cache

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.ir.transitions import Transition, transition
from scalify_dl.pysouffle import Program as Rules
from scalify_dl.pysouffle import rules_dir


@cache
def table() -> dict[tuple[str, str, str], tuple[str, str, str]]:
    """(verb, type before, type behind) → the same of the backward; blocks of any dim are `S`."""
    path = rules_dir() / "lift" / "transitions.dl"
    program = Rules.from_source(path.read_text("utf-8"), name=path.name, include_dirs=[rules_dir()])
    program.run()
    rows = [tuple(map(str, row)) for row in program.relation("transition")]
    return {(verb, src, dst): (back, before, behind) for verb, src, dst, back, before, behind in rows}


def adjoint_of(p: Program, one: Transition, gradient: Tensor) -> Tensor:
    """The gradient of what a transition was made of."""
    verb = "convert" if one.verb == "reinterpret" and {one.src, one.dst} == {"R", "I"} else one.verb
    found = table().get((verb, one.src[:1], one.dst[:1]))
    if found is None:
        raise InputError(f"`{one.verb}` from {one.src} to {one.dst} has no backward")
    back, before, behind = found
    return transition(p, back, gradient, one.axis, one.dst if before == "S" else before,
                      one.src if behind == "S" else behind)  # fmt: skip
