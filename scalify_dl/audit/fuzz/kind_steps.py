"""Random steps that make calls of the kinds that a rules file speaks about."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl
from scalify_dl.oracle.meaning import MEANINGS

from .kinds import Kinds, Shape, Signature, meant_shapes
from .world import Retry, Step, Twin, World

Extents = dict[int, int]


def kind_steps(kinds: Kinds) -> dict[str, tuple[Step, float]]:
    """A kind of random step for each op kind of which calls can be drawn."""

    def of(kind: str) -> Step:
        return lambda w: call(w, w.rng.choice(kinds.signatures[kind]))

    return {f"call of {kind}": (of(kind), 1.0) for kind in kinds.signatures}


def call(w: World, s: Signature) -> None:
    """A call of that signature: on inputs whose dims with a common factor are placed alike, or on what is there."""
    if s.structure is None or s.structure.views:
        operands = alike_by_dim(w, s)
    else:
        operands = alike_by_factor(w, s)
    base, dist = [o.base for o in operands], [o.dist for o in operands]
    own: Extents = {}
    types, local = (result_shapes(s, [x.shape for x in xs], own, w.rng.choice([0, 0, 2, 3])) for xs in (base, dist))
    if w.slip():
        fitting = [(i, j) for i in range(len(dist)) for j in range(i) if dist[i].shape == dist[j].shape]
        if fitting:
            i, j = w.rng.choice(fitting)
            dist[i], dist[j] = dist[j], dist[i]
    for one, other in zip(made(w.base, s, base, types), made(w.dist, s, dist, local), strict=True):
        w.add(one, other)


def made(g: Graph, s: Signature, operands: Sequence[Tensor], shapes: Sequence[Shape]) -> list[Tensor]:
    """The results of the call."""
    return g.add(
        s.kind, operands, [("f32", shape) for shape in shapes], numbers=s.attributes.numbers_of(),
        symbols=s.attributes.symbols_of(),
    ).results  # fmt: skip


def alike_by_factor(w: World, s: Signature) -> list[Twin]:
    """Operands whose extents agree wherever they share a factor, on both sides."""
    assert s.structure is not None
    base: Extents = {}
    local: Extents = {}
    operands: list[Twin] = []
    axes = {axis: w.rng.choice(_splittable(w, s)) for axis, _ in w.pair.mesh.axes}
    for i, factors in enumerate(s.structure.operands):

        def fits(t: Twin, factors: tuple[int, ...] = factors) -> bool:
            return len(t.base.shape) == len(t.dist.shape) == len(factors) and all(
                known.get(f, n) == n for known, x in ((base, t.base), (local, t.dist))
                for f, n in zip(factors, x.shape, strict=True)
            )  # fmt: skip

        found = [t for t in w.twins if t.base.dtype == "f32" and fits(t)] if w.chance(0.4) else []
        shape = tuple(base.get(f) or w.rng.choice([2, 4, 6, 8]) for f in factors)
        for _ in range(12):
            layout = w.layout(shape, pending=True) if w.slip() or w.chance(0.2) else placed(w, s, i, shape, axes)
            t = w.rng.choice(found[-4:]) if found else w.input("f32", shape=shape, layout=layout)
            if fits(t):
                break
        else:
            raise Retry
        base.update(zip(factors, t.base.shape, strict=True))
        local.update(zip(factors, t.dist.shape, strict=True))
        operands.append(t)
    return operands


def _splittable(w: World, s: Signature) -> list[int]:
    """Factors to cut, now and then whole ones."""
    assert s.structure is not None
    wrong = w.slip()
    found = sorted({f for factors in s.structure.operands for f in factors if f < 200 or wrong})
    return [*found, -1]


def placed(w: World, s: Signature, i: int, shape: Shape, axes: dict[str, int]) -> Layout:
    """Dims in blocks over the axes that cut their factors; perhaps pending over those that cut none, if it passes."""
    assert s.structure is not None
    factors, rest = s.structure.operands[i], list(shape)
    entries: list[tuple[str, list[Any]]] = []
    for axis, size in w.pair.mesh.axes:
        dim = factors.index(axes[axis]) if axes[axis] in factors else -1
        if dim >= 0 and rest[dim] % size == 0:
            rest[dim] //= size
            entries.append((axis, [Digit(dim, rest[dim], size)]))
        elif axes[axis] < 0 and i in s.structure.passing and w.chance(0.5):
            entries.append((axis, [Pending(s.structure.passed, size)]))
        else:
            entries.append((axis, [Repl(size)]))
    return Layout.of([[Digit(d, 1, n)] for d, n in enumerate(rest)], entries)


def alike_by_dim(w: World, s: Signature) -> list[Twin]:
    """Operands of the example's shapes, cut along the same dims."""
    dims = {axis: w.rng.randrange(-1, max(1, max(len(x) for x in s.operands))) for axis, _ in w.pair.mesh.axes}
    twins = []
    for shape in s.operands:
        split: dict[int, list[str]] = {}
        for axis, dim in dims.items():
            size = dict(w.pair.mesh.axes)[axis]
            if 0 <= dim < len(shape) and shape[dim] % (size * 2) == 0 and not w.slip():
                split.setdefault(dim, []).append(axis)
        if any(shape[d] % prod([dict(w.pair.mesh.axes)[a] for a in axes]) for d, axes in split.items()):
            raise Retry
        free = [a for a, d in dims.items() if d < 0]
        pending = {w.rng.choice(free): "sum"} if free and w.chance(0.2) else {}
        found = [t for t in w.twins if t.base.dtype == "f32" and len(t.base.shape) == len(t.dist.shape) == len(shape)]
        if found and w.chance(0.4):  # calls in a row: what was called before may be there
            twins.append(w.rng.choice(found[-4:]))
            continue
        twins.append(w.input("f32", shape=shape, layout=w.pair.layout(shape, split, pending=pending)))
    return twins


def result_shapes(s: Signature, operands: Sequence[Shape], own: Extents, extent: int = 0) -> list[Shape]:
    """Shapes of the results for operands of these shapes: as a registered meaning makes them, or as the factors say.
    `own` are the extents of dims of the call's own, which are added: `extent`, or (0) like the operand's beside it.

    Raises Retry where the call does not fit."""
    shapes = _by_structure(s, operands, {} if s.kind in MEANINGS else own, extent)
    return meant_shapes(s.kind, s.attributes, operands, shapes) if s.kind in MEANINGS else shapes


def _by_structure(s: Signature, operands: Sequence[Shape], own: Extents, extent: int) -> list[Shape]:
    structure = s.structure
    if structure is None:
        return [operands[0]]
    if structure.views:
        same = [i for i, view in structure.views.items() if view == structure.result_views.get(0)]
        if not same or len(structure.results) != 1:
            raise Retry
        return [operands[same[0]]]
    extents = structure.extents(operands)
    if extents is None:
        raise Retry
    for factors in structure.results:
        for d, f in enumerate(factors):
            if f not in extents:
                own.setdefault(f, extent or (operands[0][d] if d < len(operands[0]) else 4))
    return [tuple(extents[f] if f in extents else own[f] for f in factors) for factors in structure.results]
