"""Lifting ops by the factors of their dims, as `datalog/ops` states them: calls of libraries, attention, convolutions,
scatters, whatever has no rule of its own here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path

from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.layout import Digit, Entry, Pending, Repl
from scalify_dl.ir.mesh import Mesh
from scalify_dl.prove.pipeline import fact_relations
from scalify_dl.pysouffle import Program, rules_dir

from .held import Held, renumbered, tidy
from .lift import Lifter, Stop, as_it_is
from .structural import regrouped

STRATA = ("facts.dl", "lib.dl", "mesh.dl", "ops.dl")
Dims = dict[int, dict[int, int]]
"""Operand (or result) → its dims → their factors, or sizes."""


@dataclass
class Factors:
    """What the rules say of one op: its factors are parallel below 100, reduced below 200, whole below 300."""

    operand: Dims = field(default_factory=lambda: defaultdict(dict))
    result: Dims = field(default_factory=lambda: defaultdict(dict))
    view: Dims = field(default_factory=lambda: defaultdict(dict))
    result_view: Dims = field(default_factory=lambda: defaultdict(dict))
    reducer: str = ""
    linear: set[int] = field(default_factory=set)
    families: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Operands that pass parts of a sum only together."""
    renaming: bool = False


@cache
def _rules(more: tuple[Path, ...]) -> Program:
    text = '.pragma "no-warn"\n' + "".join(f'#include "{file}"\n' for file in (*STRATA, *map(str, more)))
    return Program.from_source(text, name="ops", include_dirs=[rules_dir()])


def factors_of(graph: Graph, mesh: Mesh, ops: Sequence[Op], more: tuple[Path, ...] = ()) -> dict[Op, Factors]:
    """What the rules (and `more` files of rules) say of some ops of a program."""
    if not ops:
        return {}
    writer = TableWriter(mesh)
    writer.graph(_alone(graph, ops), "dist", "dist", "")
    program = _rules(more).fresh()
    for relation, table in fact_relations(program).items():
        program.insert(relation, writer.facts[table])
    program.run()
    by_id = {writer.op_ids[op]: op for op in ops}
    found = {op: Factors() for op in ops}
    for name, table in (("factor", "operand"), ("result_factor", "result"), ("view_dim", "view"),
                        ("result_view_dim", "result_view")):  # fmt: skip
        for op, at, dim, value in program.relation(name):
            if op in by_id:
                getattr(found[by_id[str(op)]], table)[at][dim] = value
    for op, reducer in program.relation("reduction"):
        if op in by_id:
            found[by_id[str(op)]].reducer = str(reducer)
    for op, at, family, what in program.relation("linear_operand_of"):
        if op in by_id and what in ("sum", "any"):
            found[by_id[str(op)]].linear.add(int(at))
            found[by_id[str(op)]].families[int(family)].add(int(at))
    kinds = {kind for (kind,) in program.relation("renaming")}
    for op in ops:
        found[op].renaming = op.kind in kinds
    return found


def _alone(graph: Graph, ops: Sequence[Op]) -> Graph:
    """Some ops with the constants that they read; what else they read is an input."""
    read = dict.fromkeys(t for op in ops for t in op.operands)
    kept = {*ops, *(op for op in graph.ops if not op.operands and not read.keys().isdisjoint(op.results))}
    mine = [op for op in graph.ops if op in kept]
    made = {t for op in mine for t in op.results}
    return Graph(graph.name, inputs=[Port(t) for t in read if t not in made], ops=mine, names=graph.names)


def by_factors(lifter: Lifter, op: Op, said: Factors) -> Sequence[Held | None]:
    """Digits of parallel factors go into the result, those of reduced ones leave a reduction pending."""
    if said.renaming:
        return [lifter.held(op.operands[0])]
    if not said.operand or op.rank_numbers or op.strides:
        return as_it_is(lifter, op)
    helds = [_viewed(lifter.held(t), said.view.get(n)) for n, t in enumerate(op.operands)]
    digits = _digits(lifter, op, said, helds)
    mesh = [_entry(lifter, op, said, helds, p) for p in range(len(lifter.grid.sizes))]
    shapes, locals_, types = [], [], []
    for n, result in enumerate(op.results):
        local, shape = _result(said, n, result, helds, digits)
        shapes.append(shape)
        locals_.append(local)
        types.append((result.dtype, _folded(shape, result, said.result_view.get(n))))
    bases = [lifter.held(t).base if n in said.view else helds[n].base for n, t in enumerate(op.operands)]
    made = lifter.emit(op, bases, types)
    found: list[Held | None] = []
    for n, tensor in enumerate(made):
        own = {f: d for d, f in said.result[n].items()}
        entries = tuple(Digit(own[e.dim], e.stride, e.size) if isinstance(e, Digit) and e.dim in own
                        else Repl(e.size) if isinstance(e, Digit) else e for e in mesh)  # fmt: skip
        held = Held(Tensor(tensor.dtype, shapes[n]), locals_[n], entries)
        if said.result_view.get(n):
            folded = regrouped(held, op.results[n].shape, tensor.shape)
            if folded is None:
                raise Stop("lemma", "its result is put together in a way that is not understood")
            held = folded
        found.append(replace(held, base=tensor))
    return found


def _viewed(held: Held, view: dict[int, int] | None) -> Held:
    """The operand with its dims cut into factors."""
    if not held.aligned or held.along is not None:
        raise Stop("lemma", "an operand lies in another order than its dims")
    if not view:
        return held
    local = [view[d] for d in sorted(view)]
    shape, left = [], list(held.base.shape)
    for size, dims in zip(held.base.shape, _runs([prod(d.size for d in s) for s in held.local], local), strict=True):
        part = prod(local[d] for d in dims)
        shape += [local[d] * (size // part if d == dims[0] else 1) for d in dims]
    found = regrouped(held, local, shape) if left else None
    if found is None:
        raise Stop("lemma", "an operand is taken apart in a way that is not understood")
    return found


def _runs(before: Sequence[int], after: Sequence[int]) -> list[list[int]]:
    """For every dim, those that it is cut into."""
    found, at = [], 0
    for size in before:
        run: list[int] = []
        while at < len(after) and (prod(after[d] for d in run) != size or not run):
            run.append(at)
            at += 1
        found.append(run)
    return found


def _digits(lifter: Lifter, op: Op, said: Factors, helds: list[Held]) -> dict[int, tuple[tuple[Digit, ...], int]]:
    """Digits and size of every factor, on which all operands agree."""
    found: dict[int, tuple[tuple[Digit, ...], int]] = {}
    for n, held in sorted(enumerate(helds), key=lambda pair: len(pair[1].free)):
        for d, factor in said.operand[n].items():
            mine = renumbered(held.local[d], 0), held.base.shape[d]
            if factor >= 200 and held.cut(d):
                axes = ", ".join(lifter.grid.axes_of(held.cut(d)))
                text = f"dim {d} of `{op.operands[n].name}` has to be whole, ranks of {axes} hold blocks"
                raise Stop("whole-dim", text)
            if factor in found and found[factor] != mine:
                fitted = _fitted(lifter, op, said, helds, n) if d in held.free else None
                if fitted is None:
                    text = f"dim {d} of `{op.operands[n].name}` does not lie as those that it meets"
                    raise Stop("placed-differently", text)
                helds[n] = held = fitted
                mine = renumbered(held.local[d], 0), held.base.shape[d]
            found.setdefault(factor, mine)
    return found


def _fitted(lifter: Lifter, op: Op, said: Factors, helds: Sequence[Held], n: int) -> Held | None:
    """An operand that fits any placement, placed as the others are."""
    held = helds[n]
    if said.view.get(n):
        return None
    local, shape, mesh = list(held.local), list(held.base.shape), list(held.mesh)
    for d, factor in said.operand[n].items():
        for m, other in enumerate(helds):
            theirs = [e for e, f in said.operand[m].items() if f == factor]
            if m != n and theirs and d in held.free and theirs[0] not in other.free:
                local[d], shape[d] = renumbered(other.local[theirs[0]], d), other.base.shape[theirs[0]]
                for p in other.cut(theirs[0]):
                    entry = other.mesh[p]
                    mesh[p] = Digit(d, getattr(entry, "stride", 1), entry.size)
    want = replace(held, base=Tensor(held.base.dtype, tuple(shape)), local=tuple(local), mesh=tuple(mesh))
    return lifter.refit(op.operands[n], want)


def _entry(lifter: Lifter, op: Op, said: Factors, helds: Sequence[Held], p: int) -> Entry:
    """What stands at a position of the mesh: a digit of a factor (by its number), or what is pending."""
    size, axis = lifter.grid.sizes[p], lifter.grid.positions[p][0]
    factors: set[tuple[int, int]] = set()
    without = []
    waiting = [n for n, h in enumerate(helds) if isinstance(h.mesh[p], Pending)]
    for n, held in enumerate(helds):
        entry = held.mesh[p]
        if isinstance(entry, Digit):
            factors.add((said.operand[n][entry.dim], entry.stride))
        elif any(f < 200 for f in said.operand[n].values()):
            without.append(n)
    if waiting:
        if any(n not in said.linear for n in waiting) or factors:
            raise Stop("non-linear", f"`{op.operands[waiting[0]].name}` is still to be reduced over {axis}")
        return Pending("sum", size)
    if not factors:
        return Repl(size)
    if len(factors) > 1:
        raise Stop("placed-differently", f"its operands are split over {axis} along different dims")
    ((factor, stride),) = factors
    for n in without:
        if factor in said.operand[n].values():
            raise Stop("placed-differently", f"`{op.operands[n].name}` is whole over {axis}, what it meets is split")
    if 100 <= factor < 200:
        return Pending(said.reducer or "sum", size)
    return Digit(factor, stride, size)


def _result(
    said: Factors, n: int, result: Tensor, helds: Sequence[Held], digits: dict[int, tuple[tuple[Digit, ...], int]]
) -> tuple[tuple[tuple[Digit, ...], ...], tuple[int, ...]]:
    view = said.result_view.get(n)
    sizes = [view[d] for d in sorted(view)] if view else list(result.shape)
    local, shape = [], []
    for d, size in enumerate(sizes):
        factor = said.result[n].get(d, 300)
        if factor in digits:
            mine, whole = digits[factor]
            local.append(renumbered(mine, d))
            shape.append(whole)
        else:
            local.append(tidy([Digit(d, 1, size)]))
            shape.append(size)
    return tuple(local), tuple(shape)


def _folded(shape: Sequence[int], result: Tensor, view: dict[int, int] | None) -> tuple[int, ...]:
    """The result's shape, its view put together."""
    if not view:
        return tuple(shape)
    local = [view[d] for d in sorted(view)]
    return tuple(prod(shape[d] for d in run) for run in _runs(result.shape, local))
