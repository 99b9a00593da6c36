"""Both programs as one graph of numbers: what an op is, and what it reads, for finding blocks that repeat.

What is computed of constants alone, and integers of integer inputs (masks, positions), is *copied*: every block that
reads it has it whole. Everything else is a node, as is every input of the baseline together with the inputs that hold
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalify_dl.ir.graph import Graph, Op, Tensor

INTEGERS = ("pred", "s", "u")
Key = tuple[Any, ...]


def is_integer(dtype: str) -> bool:
    """Whether values of that type are no floats."""
    return dtype[0] in "su" or dtype == "pred"


class Unusual(Exception):
    """Something that is not followed block by block: the ordinary run looks at the program as a whole."""


@dataclass
class Joint:
    """Nodes are numbers: first inputs (of the baseline, with those that hold them), then ops.

    `ops[node]` is the op, None for inputs; `kinds[node]` says what it is, exactly (equal numbers: the same op, with the
    same copied operands, or inputs of one type that are held alike); `reads[node]` are (node, which result) of its
    operands, -1 for copied ones. `sides[node]`: 0 of the baseline, 1 of the distributed program, 2 an input.
    """

    ops: list[Op | None] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    reads: list[list[tuple[int, int]]] = field(default_factory=list)
    sides: list[int] = field(default_factory=list)
    at: dict[Tensor, tuple[int, int]] = field(default_factory=dict)
    """Tensor → its node and which result it is."""
    copied: dict[Tensor, tuple[Op | None, int]] = field(default_factory=dict)
    """What is copied: the op that makes it (None: an integer input), and what it is, exactly."""

    known: dict[Key, int] = field(default_factory=dict)
    """Numbers for all that was ever said: equal numbers, equal words."""

    def fresh(self, words: Key) -> int:
        """The number of what is said."""
        return self.known.setdefault(words, len(self.known))

    def op(self, node: int) -> Op:
        """The op of a node that is no input."""
        op = self.ops[node]
        assert op is not None
        return op

    def maker(self, tensor: Tensor) -> Op | None:
        """The op that makes what is copied; None for an input, and what is not copied."""
        return self.copied[tensor][0] if tensor in self.copied else None

    def node(self, op: Op | None, kind: int, reads: list[tuple[int, int]], side: int) -> int:
        """Enters a node; its number."""
        self.ops.append(op)
        self.kinds.append(kind)
        self.reads.append(reads)
        self.sides.append(side)
        return len(self.ops) - 1


RANDOM = frozenset({"rng", "rng-bit-generator", "rng-uniform", "rng-normal", "dropout-mask", "empty"})
"""Draws, which programs have one by one."""

FUNCTION = "custom:"
"""How kinds begin of which rules may tell what functions they are (`opaque`); readers know no effect of these."""


def says(op: Op, said: dict[int, Key]) -> Key:
    """All that an op is, besides what it reads. `said` keeps words of attributes, which ops share."""
    if op.regions or op.rounding or op.kind in RANDOM or (":" in op.kind and not op.kind.startswith(FUNCTION)):
        raise Unusual(op.kind)
    more: Key = ()
    if op.groups is not None or op.replica_groups_all or op.pairs or op.along or op.group_name:
        groups = said.get(id(op.groups))
        if groups is None and op.groups is not None:
            groups = said[id(op.groups)] = tuple(map(tuple, op.groups))
        pairs = None if op.pairs is None else tuple(op.pairs)
        more = (groups, op.replica_groups_all, pairs, op.along, op.group_name)
    if op.rank_numbers or op.strides:
        ranked = tuple((key, tuple(sorted(by.items()))) for key, by in sorted(op.rank_numbers.items()))
        more += (ranked, tuple((key, tuple(sorted(by.items()))) for key, by in sorted(op.strides.items())))
    if op.kind == "constant" and (literal := op.results[0].literal) is not None:
        more += (literal.text, literal.sha256)
    numbers, symbols = said.get(id(op.numbers)), said.get(id(op.symbols))
    if numbers is None:
        numbers = said[id(op.numbers)] = tuple((key, tuple(values)) for key, values in sorted(op.numbers.items()))
    if symbols is None:
        symbols = said[id(op.symbols)] = tuple((key, tuple(values)) for key, values in sorted(op.symbols.items()))
    return op.kind, numbers, symbols, tuple([(t.dtype, t.shape) for t in op.results]), more


def is_unprinted(op: Op) -> bool:
    """Whether neither the value nor a hash of a constant is known."""
    literal = op.result.literal
    return literal is not None and literal.is_elided and literal.sha256 is None


def joined(base: Graph, dist: Graph, given: Mapping[Tensor, Key], pairs: Sequence[tuple[Tensor, Tensor]]) -> Joint:
    """The nodes of both programs. `given` says all that is known of an input, or of a constant that is not printed;
    `pairs` are inputs that hold each other: distributed, baseline."""
    joint = Joint()
    known = joint.known
    held: dict[Tensor, list[Tensor]] = {}
    for d, b in pairs:
        held.setdefault(b, []).append(d)
    for port in base.inputs:
        tensor = port.tensor
        with_it = [tensor, *held.get(tensor, ())]
        words = ("input", *(given[t] for t in with_it))
        kind = known.setdefault(words, len(known))
        node = joint.node(None, kind, [], 2)
        for n, t in enumerate(with_it):
            joint.at.setdefault(t, (node, n))
            if is_integer(t.dtype):
                joint.copied[t] = None, known.setdefault(("copied", node, n), len(known))
    for port in dist.inputs:
        if port.tensor not in joint.at:
            raise Unusual("an input that holds none")
    fixed: set[Tensor] = set()  # made of constants alone
    said: dict[int, Key] = {}
    for side, graph in enumerate((base, dist)):
        copied, at = joint.copied, joint.at
        for op in graph.ops:
            words, operands = says(op, said), op.operands
            if op.kind == "constant" and is_unprinted(op):
                if op.result not in given:
                    raise Unusual("a constant of unknown value")
                words += given[op.result]
            if copied.keys().isdisjoint(operands) and operands:
                kind = known.setdefault((side, words, -1 - len(operands)), len(known))
                node = joint.node(op, kind, [at[t] for t in operands], side)
                for n, t in enumerate(op.results):
                    at[t] = node, n
                continue
            alike = [copied.get(t, _NONE)[1] for t in operands]
            if -1 not in alike and (all(t in fixed for t in operands) or all(is_integer(t.dtype) for t in op.results)):
                kind = known.setdefault(("copied", side, words, *alike), len(known))
                for n, t in enumerate(op.results):
                    copied[t] = op, known.setdefault(("result", kind, n), len(known))
                if all(t in fixed for t in operands):
                    fixed.update(op.results)
                continue
            kind = known.setdefault((side, words, *alike), len(known))
            reads = [at[t] if n < 0 else _COPIED for t, n in zip(operands, alike, strict=True)]
            node = joint.node(op, kind, reads, side)
            for n, t in enumerate(op.results):
                at[t] = node, n
    return joint


_NONE = (None, -1)
_COPIED = (-1, 0)
