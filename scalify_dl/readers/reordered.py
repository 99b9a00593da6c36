"""The ops of a program in the order of another one that does the same in another order.

Ranks of one program may write independent ops in different orders (an autograd engine that goes through a set).
Collectives, messages and random draws keep theirs: where those stand otherwise, nothing is reordered.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.vocabulary import COLLECTIVES, RANDOM, RANKED

__all__ = ["reordered"]

IN_ORDER = frozenset(COLLECTIVES) | frozenset(RANDOM) | {"send", "recv"}


def reordered(model: Graph, graph: Graph) -> list[Op] | None:
    """The ops of `graph`, as `model` has its own; None where they do not correspond."""
    if len(model.inputs) != len(graph.inputs) or Counter(_kinds(model)) != Counter(_kinds(graph)):
        return None
    known = {b.tensor: a.tensor for a, b in zip(model.inputs, graph.inputs, strict=True)}
    users: dict[Tensor, list[Op]] = {}
    ready: dict[Hashable, deque[Op]] = {}
    lacking: dict[Op, int] = {}
    for op in graph.ops:
        operands = set(op.operands)
        lacking[op] = len(operands - known.keys())
        for x in operands:
            users.setdefault(x, []).append(op)
        if not lacking[op]:
            ready.setdefault(_key(op, [known[x] for x in op.operands]), deque()).append(op)
    out: list[Op] = []
    for ours in model.ops:
        fitting = ready.get(_key(ours, ours.operands))
        if not fitting:
            return None
        theirs = fitting.popleft()
        out.append(theirs)
        for a, b in zip(ours.results, theirs.results, strict=True):
            known[b] = a
            for user in users.get(b, ()):
                lacking[user] -= 1
                if not lacking[user]:
                    ready.setdefault(_key(user, [known[x] for x in user.operands]), deque()).append(user)
    return out if list(filter(_in_order, out)) == list(filter(_in_order, graph.ops)) else None


def _in_order(op: Op) -> bool:
    return op.kind in IN_ORDER or bool(op.regions)


def _kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def _key(op: Op, operands: list[Tensor]) -> Hashable:
    """What corresponding ops have in common; numbers that ranks may have of their own are left out."""
    own = RANKED.get(op.kind, ())
    numbers = tuple((key, tuple(values)) for key, values in sorted(op.numbers.items()) if key not in own)
    symbols = tuple((key, tuple(values)) for key, values in sorted(op.symbols.items()))
    types = tuple((x.dtype, x.shape) for x in op.results)
    return op.kind, numbers, symbols, types, tuple(map(id, operands))
