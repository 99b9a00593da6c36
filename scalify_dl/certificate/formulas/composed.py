"""Ops that are followed as others that are simpler: fused attention, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .forms import Unknown

if TYPE_CHECKING:
    from .programs import Op, Program


def compose(program: Program) -> None:
    """Put simpler ops in the place of those that are made of them."""
    for op in [*program.ops.values()]:
        if op.kind == "attention":
            _attention(_Parts(program, op))
        elif op.kind == "attention-backward":
            _attention_backward(_Parts(program, op))


class _Parts:
    """New ops in the graph of an op, which make its results."""

    def __init__(self, program: Program, op: Op) -> None:
        self.program, self.op, self.count = program, op, 0
        self.xs = [op.operands[i] for i in range(len(op.operands))]

    def made(self, kind: str, xs: Sequence[str], shape: Sequence[int], dtype: str = "", **attributes: Any) -> str:
        """The result of a new op; attributes are texts, or lists of numbers."""
        program, self.count = self.program, self.count + 1
        result = f"¦{self.op.name}¦{self.count}"
        op = type(self.op)(result, self.op.graph, kind)
        op.operands, op.results = dict(enumerate(xs)), {0: result}
        for key, value in attributes.items():
            op.attributes[key] = {0: value} if isinstance(value, str) else dict(enumerate(value))
        program.ops[result] = program.makers[result] = op
        program.shapes[result] = tuple(shape)
        program.types[result] = dtype or program.types[self.xs[0]]
        program.graph_of[result] = program.graph_of.get(self.op.results[0], "")
        return result

    def end(self, found: Sequence[str]) -> None:
        """Say which new values the results are."""
        for pos, result in self.op.results.items():
            made = self.program.ops[found[pos]]
            if self.program.shapes[result] != self.program.shapes[found[pos]]:
                raise Unknown(f"{self.op.kind} of another shape")
            made.results = {0: result}
            self.program.makers[result] = made
        del self.program.ops[self.op.name]

    def number(self, text: str, shape: Sequence[int]) -> str:
        """A number everywhere."""
        result = self.made("constant", [], shape)
        self.program.literals[result] = text
        return result

    def spread(self, x: str, shape: Sequence[int]) -> str:
        """A tensor along the last dims of a shape, of which some may be 1 in it."""
        have = self.program.shapes[x]
        first = len(shape) - len(have)
        kept = [d for d, size in enumerate(have) if size == shape[first + d]]
        if first < 0 or any(size != 1 for d, size in enumerate(have) if d not in kept):
            raise Unknown("a mask of another shape")
        dtype = self.program.types[x]
        x = self.made("reshape", [x], [have[d] for d in kept], dtype)
        return self.made("broadcast", [x], shape, dtype, dimensions=[first + d for d in kept])

    def along(self, x: str, shape: Sequence[int]) -> str:
        """A value for each row, everywhere in the row."""
        return self.made("broadcast", [x], shape, dimensions=[*range(len(shape) - 1)])

    def product(self, x: str, y: str, left: int, right: int) -> str:
        """Of matrices the sum over these dims, counted from the end."""
        a, b = self.program.shapes[x], self.program.shapes[y]
        n = len(a) - 2
        if len(b) != n + 2 or a[:n] != b[:n]:
            raise Unknown(f"{self.op.kind} of other heads")
        batch = [*range(n)]
        return self.made(
            "dot", [x, y], [*a[:n], a[n + 1 - left], b[n + 1 - right]], lhs_batch_dims=batch, rhs_batch_dims=batch,
            lhs_contracting_dims=[n + left], rhs_contracting_dims=[n + right],
        )  # fmt: skip

    def total(self, x: str) -> str:
        """The sums of rows."""
        shape = self.program.shapes[x]
        return self.made("reduce", [x], shape[:-1], dimensions=[len(shape) - 1], reducer="sum")

    def scale(self, shape: Sequence[int], width: int) -> str:
        """What products of queries and keys are multiplied by."""
        text = self.op.text("scale")
        return self.number(text, shape) if text else self.made("rsqrt", [self.number(str(width), shape)], shape)

    def scores(self, q: str, k: str, mask: Sequence[str]) -> str:
        """Scaled products, masked."""
        found = self.product(q, k, 1, 1)
        shape = self.program.shapes[found]
        found = self.made("multiply", [found, self.scale(shape, self.program.shapes[q][-1])], shape)
        low = self.number("-inf", shape)
        for m in mask:
            shown = self.spread(m, shape)
            if self.program.types[m] == "pred":
                found = self.made("select", [shown, found, low], shape)
            else:
                found = self.made("add", [found, shown], shape)
        if self.op.number("causal", 0, 0):
            row, column = (self.made("iota", [], shape, "s64", dimension=[len(shape) - d]) for d in (2, 1))
            shown = self.made("compare", [column, row], shape, "pred", direction="LE")
            found = self.made("select", [shown, found, low], shape)
        return found


def _attention(parts: _Parts) -> None:
    """exp(s)·v / Σ exp(s), and log Σ exp(s)."""
    q, k, v, *mask = parts.xs
    scores = parts.scores(q, k, mask)
    shape = parts.program.shapes[scores]
    weights = parts.made("exponential", [scores], shape)
    total = parts.total(weights)
    out = parts.product(weights, v, 1, 0)
    rows = parts.program.shapes[out]
    parts.end([
        parts.made("divide", [out, parts.along(total, rows)], rows),
        parts.made("log", [total], shape[:-1]),
    ])  # fmt: skip


def _attention_backward(parts: _Parts) -> None:
    """Of w = exp(s − log Σ exp(s)), g and o: d = w·(g·vᵀ − Σ g·o); scale·d·k, scale·dᵀ·q and wᵀ·g."""
    grad, q, k, v, out, total, *mask = parts.xs
    scores = parts.scores(q, k, mask)
    shape, rows = parts.program.shapes[scores], parts.program.shapes[out]
    weights = parts.made("exponential", [parts.made("subtract", [scores, parts.along(total, shape)], shape)], shape)
    share = parts.along(parts.total(parts.made("multiply", [grad, out], rows)), shape)
    inner = parts.made("subtract", [parts.product(grad, v, 1, 1), share], shape)
    inner = parts.made("multiply", [weights, inner], shape)
    inner = parts.made("multiply", [inner, parts.scale(shape, parts.program.shapes[q][-1])], shape)
    parts.end([
        parts.product(inner, k, 1, 0), parts.product(inner, q, 0, 0), parts.product(weights, grad, 0, 0),
    ])  # fmt: skip
