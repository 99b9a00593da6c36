"""Truth values by which frameworks' own functions ask, for a derivative or against overflow: no program that looks for
infinities.

    select(x == max(x, -inf), 1, 0)                    which of its operands a maximum is (the gradient of a softmax)
    x - select(is-finite(m), m, 0), m a row's maximum  what a logsumexp takes off its row, and adds again
    select(s >= 0, g, 0), select(s >= 0, 0, g)         the derivative of |s|

They are told by all that is done with them: where the same truth value is read by anything else, it is a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .program import Graph, Op, Program

MOVING = frozenset({"broadcast", "reshape", "transpose", "convert", "negate", "slice"})
"""Kinds whose results have the infinities of their operands."""


def customary(program: Program, graph: Graph) -> set[str]:
    """Truth values of a graph that are asked for in one of these ways, and for nothing else."""
    uses = _Uses(program, graph)
    found = {op.results[0] for op in graph.ops if op.results and _is_customary(op, uses)}
    return found - {*graph.outputs}


class _Uses:
    """Who makes and who reads the values of a graph."""

    def __init__(self, program: Program, graph: Graph) -> None:
        self.maker: Mapping[str, Op] = {t: op for op in graph.ops for t in op.results}
        self.readers: dict[str, list[Op]] = {}
        for op in graph.ops:
            for t in {*op.operands}:
                self.readers.setdefault(t, []).append(op)
        self._program = program
        self._outputs = {*graph.outputs}

    def number(self, tensor: str) -> str | None:
        """The text of a constant, which may be repeated."""
        op = self.maker.get(tensor)
        if op is not None and op.kind == "broadcast":
            return self.number(op.operands[0])
        return self._program.tensors[op.results[0]].literal if op is not None and op.kind == "constant" else None

    def is_zero(self, tensor: str) -> bool:
        """Whether a tensor is a constant 0."""
        text = self.number(tensor)
        try:
            return text is not None and float(text) == 0
        except ValueError:
            return False

    def is_maximum(self, tensor: str) -> bool:
        """Whether a tensor is the maximum of rows, moved about, perhaps no less than a constant."""
        op = self.maker.get(tensor)
        if op is None or op.kind == "reduce":
            return op is not None and op.symbol("reducer", "") == "max"
        if op.kind == "maximum":
            return any(self.number(t) is not None for t in op.operands) and any(map(self.is_maximum, op.operands))
        return op.kind in MOVING and self.is_maximum(op.operands[0])

    def ends(self, tensor: str) -> Iterator[tuple[str, int]]:
        """The kinds of ops that read a tensor, moved about, and at which place; an output is one, too."""
        if tensor in self._outputs:
            yield "output", 0
        for op in self.readers.get(tensor, ()):
            if op.kind in MOVING:
                yield from self.ends(op.results[0])
            else:
                yield from ((op.kind, place) for place, t in enumerate(op.operands) if t == tensor)


def _is_customary(op: Op, uses: _Uses) -> bool:
    mask = op.results[0]
    chosen = uses.readers.get(mask, [])
    if any(use.kind != "select" or mask in use.operands[1:] for use in chosen):
        return False
    if op.kind == "is-finite":
        return bool(chosen) and all(_is_shift(use, op.operands[0], uses) for use in chosen)
    if op.kind != "compare":
        return False
    direction, (one, other) = op.symbol("direction"), op.operands
    return (direction == "EQ" and _is_tie(one, other, chosen, uses)) or (
        direction == "GE" and uses.is_zero(other) and _is_derivative(chosen, uses)
    )


def _is_tie(one: str, other: str, chosen: list[Op], uses: _Uses) -> bool:
    """Which operand of a maximum is the greater one, for a choice between constants."""
    alike = {uses.number(one) or one}, {uses.number(other) or other}
    makers = uses.maker.get(other), uses.maker.get(one)
    return any(
        it is not None and it.kind in ("maximum", "minimum") and {uses.number(t) or t for t in it.operands} & names
        for it, names in zip(makers, alike, strict=True)
    ) and all(uses.number(t) is not None for use in chosen for t in use.operands[1:])


def _is_shift(use: Op, tested: str, uses: _Uses) -> bool:
    """A maximum, or 0 where that is not finite, which is taken off and added again, and nothing else."""
    _, kept, other = use.operands
    ends = set(uses.ends(use.results[0]))
    return (
        kept == tested and uses.is_zero(other) and uses.is_maximum(tested) and ("subtract", 1) in ends
        and ends - {("subtract", 1)} in ({("add", 0)}, {("add", 1)}, {("add", 0), ("add", 1)})
    )  # fmt: skip


def _is_derivative(chosen: list[Op], uses: _Uses) -> bool:
    """The same value on one side, and on the other one."""
    arms = {tuple("" if uses.is_zero(t) else t for t in use.operands[1:]) for use in chosen}
    return len(arms) == 2 and any({(t, ""), ("", t)} == arms for pair in arms for t in pair if t)
