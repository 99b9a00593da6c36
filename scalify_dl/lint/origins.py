"""Where what is wrong with a value came from: the op that left it to be reduced, or that counted it several times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scalify_dl.ir.graph import Graph, Op, Tensor

from .lift import Lifted

CONTRACTIONS = frozenset(("dot", "convolution", "gather"))


class Origins:
    """The ops at which parts of a sum, or multiples, first appear above a value."""

    def __init__(self, graph: Graph, lifted: Lifted) -> None:
        self.lifted = lifted
        self.maker = {t: op for op in graph.ops for t in op.results}
        self.given = {port.tensor for port in graph.inputs}

    def of(self, tensors: Iterable[Tensor]) -> Iterator[Op]:
        """Of each value that is not calm, the first ops above it whose result is not, either."""
        seen: set[Tensor] = set()
        stack = list(tensors)
        while stack:
            tensor = stack.pop()
            held, op = self.lifted.held.get(tensor), self.maker.get(tensor)
            if tensor in seen or held is None or held.calm or op is None:
                continue
            seen.add(tensor)
            above = [t for t in op.operands if t in self.lifted.held and self._same(t, tensor)]
            stack += above
            if not above:
                yield op

    def inputs(self, tensors: Iterable[Tensor]) -> Iterator[tuple[Tensor, Op]]:
        """The inputs nearest above values, and what reads them there: those of the first contraction or look-up on each
        way, and what comes in before it."""
        seen: set[Tensor] = set()
        stack = list(tensors)
        while stack:
            op = self.maker.get(stack.pop())
            if op is None or not seen.isdisjoint(op.results):
                continue
            seen.update(op.results)
            for t in op.operands:
                if t in self.given:
                    yield t, op
                elif op.kind not in CONTRACTIONS or self._of_one_input(t):
                    stack.append(t)

    def _of_one_input(self, tensor: Tensor) -> bool:
        op = self.maker.get(tensor)
        while op is not None and len(op.operands) == 1:
            tensor = op.operands[0]
            op = self.maker.get(tensor)
        return tensor in self.given

    def _same(self, operand: Tensor, result: Tensor) -> bool:
        """Whether an operand has the multiple, or something that is still to be reduced, in common with a result."""
        mine, other = self.lifted.held[operand], self.lifted.held[result]
        return bool(set(mine.pending) & set(other.pending)) or (mine.scale != 1 and other.scale != 1)
