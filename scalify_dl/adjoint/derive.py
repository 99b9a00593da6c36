"""Ops in reverse: what is known of results' gradients becomes that of operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.registry import registering

from .shifts import Shifts
from .transitions import adjoint_of

Gradient = Tensor | None
"""None: zero."""
Rule = Callable[[Program, Op, Sequence[Gradient]], Sequence[Gradient]]
"""From the gradients of an op's results to those of its operands."""

RULES: dict[str, Rule] = {}
vjp = registering(RULES)
"""Enters the rule of some op kinds."""

FLAT = frozenset(
    """ceil clz compare constant empty floor floor-divide iota is-finite not partition-id popcnt replica-id
    round-nearest-afz round-nearest-even sign shift-left shift-right-arithmetic shift-right-logical and or xor trunc
    dropout-mask rng rng-bit-generator rng-uniform rng-normal bitcast-convert""".split()  # noqa: SIM905
)
"""Kinds through which no gradient goes: steps, integers, what is drawn."""


MISSING = {
    "lgamma": "its derivative, digamma, is no op of the vocabulary",
    "gelu-backward": "the second derivative of GELU",
    "gelu-tanh-backward": "the second derivative of GELU",
    "attention-backward": "the second derivative of attention",
    "send": "programs that exchange messages are joined first",
    "recv": "programs that exchange messages are joined first",
}
"""Kinds of which no backward is derived, and why."""


class NoAdjoint(InputError):
    """An op whose backward is not known here: `op`, where it is one of the program."""

    op: Op | None = None


def backward(p: Program, seeds: Mapping[Tensor, Tensor], wrt: Sequence[Tensor], first: int = 0) -> list[Gradient]:
    """Appends to a program the gradients of its values, given those of some of them; the gradients of `wrt`. Ops in
    front of the `first` are left alone.

    Collectives have their adjoints on all ranks together: what every rank has is counted once for each. What
    `transition` made has the backward of the SPMD types that it says. NoAdjoint where an op has none."""
    if any(t.dtype[0] == "c" for t in (*seeds, *wrt)):
        raise NoAdjoint("whether the gradient of a complex value is conjugated is a convention of each framework")
    return _walk(p, seeds, wrt, first)


def through(p: Program, op: Op, g: Tensor, build: Callable[..., Tensor]) -> list[Gradient]:
    """The gradients of an op's operands by way of other ops that compute the same of them."""
    first = len(p.graph.ops)
    made = build(*op.operands)
    return _walk(p, {made: g}, op.operands, first)


def _walk(p: Program, seeds: Mapping[Tensor, Tensor], wrt: Sequence[Tensor], first: int) -> list[Gradient]:
    known: dict[Tensor, Tensor] = {}
    for value, seed in seeds.items():
        _add(p, known, value, seed)
    ops = p.graph.ops[first:]
    said = {op: t for t in p.graph.transitions for op in t.ops}
    needed = _leads_to(ops, wrt)
    shifts = Shifts(ops, seeds)
    for op in reversed(ops):
        source, p.source = p.source, op.source
        try:
            if op in said:
                one = said[op]
                if op is one.ops[-1] and one.x in needed and one.y in known:
                    _add(p, known, one.x, adjoint_of(p, one, known[one.y]))
                continue
            given = [known.get(t) for t in op.results]
            if op.kind in FLAT or not any(given) or needed.isdisjoint(op.operands) or shifts.cancels(op):
                continue
            if op.kind not in RULES:
                why = f": {MISSING[op.kind]}" if op.kind in MISSING else ""
                raise NoAdjoint(f"no backward is known of `{op.kind}` (`{op.name}`){why}")
            for operand, gradient in zip(op.operands, RULES[op.kind](p, op, given), strict=True):
                if gradient is not None and operand in needed and operand.dtype[0] in "fbc":
                    _add(p, known, operand, gradient)
        except NoAdjoint as error:
            error.op = op
            raise
        finally:
            p.source = source
    return [known.get(t) for t in wrt]


def _leads_to(ops: Sequence[Op], wrt: Sequence[Tensor]) -> set[Tensor]:
    """The values that depend on some others."""
    found = set(wrt)
    for op in ops:
        if not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _add(p: Program, known: dict[Tensor, Tensor], value: Tensor, gradient: Tensor) -> None:
    if gradient.dtype != value.dtype:
        gradient = p.convert(gradient, value.dtype)
    if gradient.shape != value.shape:
        raise NoAdjoint(f"a gradient {gradient.type} of `{value.name}`, which is {value.type}")
    known[value] = p.add(known[value], gradient) if value in known else gradient
