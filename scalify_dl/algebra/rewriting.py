"""Programs in which ops of the form that a user's equality has on its left are replaced by those on its right.

Both sides of a pair are rewritten, so it does not matter which of them is written in which form. An op is replaced
once, by the first equality that fits, and what it was made of stays for whoever else reads it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

from scalify_dl.ir.literals import rational
from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.dtypes import is_float
from scalify_dl.oracle.program import Graph, Op, Program, Tensor
from scalify_dl.oracle.rewrites import Rewrite, Tree

from .formulas import MOVES

COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})
Bound = dict[str, str]


class Rewritten:
    """A program, rewritten. `used` says which equality each op that replaced another one rests on."""

    def __init__(self, program: Program, rewrites: list[Rewrite]) -> None:
        self.rewrites = rewrites
        self.makers = program.producer()
        self.tensors = dict(program.tensors)
        self.used: dict[str, Rewrite] = {}
        self.origin: dict[str, str] = {}
        """For each op that was made, the op that it is a part of."""
        self.values: dict[str, int] = {}
        self.numbers: dict[Hashable, int] = {}
        graphs = {name: self._graph(graph) for name, graph in program.graphs.items()} if rewrites else program.graphs
        self.program = replace(program, graphs=graphs, tensors=self.tensors)

    def _graph(self, graph: Graph) -> Graph:
        ops: list[Op] = []
        for op in graph.ops:
            ops += self._instead(op) if self._is_real(op) else [op]
        return replace(graph, ops=ops)

    def _is_real(self, op: Op) -> bool:
        return len(op.results) == 1 and is_float(self.tensors[op.results[0]].dtype)

    def _instead(self, op: Op) -> list[Op]:
        """The ops in place of this one."""
        for rewrite in self.rewrites:
            bound: Bound = {}
            if self._fits(rewrite.left, op.results[0], self.tensors[op.results[0]], bound):
                self.used[op.id] = rewrite
                made: list[Op] = []
                result = self._made(rewrite.right, op, bound, made)
                if not made or made[-1].results != [result]:  # the right side is a variable
                    return [Op(op.id, "reshape", [result], list(op.results))]
                made[-1] = replace(made[-1], id=op.id, results=list(op.results))
                return made
        return [op]

    def _fits(self, tree: Tree, tensor: str, like: Tensor, bound: Bound) -> bool:
        """Whether a tensor has a form; what variables are then."""
        if tree[0] == "number":
            return self._number(tensor) == Fraction(tree[1])
        declared = self.tensors[tensor]
        if (declared.shape, declared.dtype) != (like.shape, like.dtype):
            return False
        if tree[0] == "any":
            return self._value(bound.setdefault(tree[1], tensor)) == self._value(tensor)
        op = self.makers.get(tensor)
        if op is None or op.kind != tree[0] or op.symbols or op.numbers or op.by_rank:
            return False
        before = dict(bound)
        for turned in (False, True) if op.kind in COMMUTATIVE else (False,):
            operands = op.operands[::-1] if turned else op.operands
            if all(self._fits(part, t, like, bound) for part, t in zip(tree[1:], operands, strict=True)):
                return True
            bound.clear()
            bound.update(before)
        return False

    def _value(self, tensor: str) -> int:
        """The number of a value: ops that compute the same of the same are one, whatever their names."""
        stack = [tensor]
        while stack:
            at = stack[-1]
            op = self.makers.get(at)
            waiting = [t for t in op.operands if t not in self.values] if op is not None else []
            if at in self.values or not waiting:
                stack.pop()
                self.values.setdefault(at, self.numbers.setdefault(self._key(at, op), len(self.numbers)))
            stack += waiting
        return self.values[tensor]

    def _key(self, tensor: str, op: Op | None) -> Hashable:
        if op is None or op.kind not in ELEMENTWISE | MOVES | {"dot", "reduce", "convert"} or op.regions or op.by_rank:
            return tensor
        declared = self.tensors[tensor]
        attributes = tuple(sorted((k, tuple(map(str, v))) for d in (op.numbers, op.symbols) for k, v in d.items()))
        operands = tuple(self.values[t] for t in op.operands)
        return (op.kind, op.results.index(tensor), declared.shape, declared.dtype, attributes, operands)

    def _number(self, tensor: str) -> Fraction | None:
        """The number that a tensor has everywhere."""
        op = self.makers.get(tensor)
        while op is not None and op.kind in ("broadcast", "reshape", "transpose") and len(op.operands) == 1:
            tensor = op.operands[0]
            op = self.makers.get(tensor)
        literal = self.tensors[tensor].literal
        known = op is not None and op.kind == "constant" and literal and not literal.startswith("{")
        value = rational(literal) if known and literal else None
        return None if value is None else Fraction(value)

    def _made(self, tree: Tree, op: Op, bound: Bound, made: list[Op]) -> str:
        """The tensor that a form is, and the ops that make it."""
        if tree[0] == "any":
            return bound[tree[1]]
        like = self.tensors[op.results[0]]
        operands = [] if tree[0] == "number" else [self._made(part, op, bound, made) for part in tree[1:]]
        name = f"{op.results[0]}¦rewritten¦{len(made)}"
        literal = tree[2] if tree[0] == "number" else None
        self.tensors[name] = Tensor(name, like.dtype, like.shape, literal)
        self.origin[name] = op.id
        made.append(Op(name, "constant" if literal else tree[0], operands, [name]))
        return name
