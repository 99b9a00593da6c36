"""Reductions, contractions and attention over index variables (see `indexing.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from scalify_dl.oracle.dtypes import is_float, is_integer
from scalify_dl.sizes import Size

from . import extended, laws
from .cells import Array, as_cell, mapped, reals, total
from .extended import Cell
from .flagged import absorbs
from .form import Field, Form
from .formulas import wrapped
from .indexing import Dims, Site, alike, compared_integers, demand, rule
from .numbers import literal
from .reductions import contracted
from .sized import worth
from .spread import of_dim, size
from .sums import greatest_cell, summed
from .variables import Variable


@rule("reduce")
def reduce(site: Site) -> list[Array]:
    """Sums and maxima over the variables of dims that go, and then over what is left of them."""
    demand(len(site.xs) == 1, "a reduction of several operands")
    (ins,), (outs,), basis = site.ins, site.outs, site.machine.basis
    gone, name = site.numbers("dimensions"), site.call.symbol("reducer", "region")
    kept = [d for d in range(len(ins)) if d not in gone]
    demand(tuple(ins[d] for d in kept) == outs, "a reduction")
    over = [v for d in gone for v in of_dim(ins, d)]
    x = site.xs[0]
    if over:
        dtype = site.call.results[0].dtype
        demand(dtype != "pred" and name in ("sum", "max", "min"), f"a reduction by `{name}`")
        if is_float(dtype):
            x = mapped(lambda cell: reduced(name, cell, over), reals(basis, x))
        else:
            demand(is_integer(dtype) and name == "sum", f"a reduction of integers by `{name}`")
            x = mapped(lambda cell: wrapped(summed(basis, _whole(basis, cell), over), dtype), x)
    names = {a: b for there, d in enumerate(kept) for a, b in zip(of_dim(ins, d), of_dim(outs, there), strict=True)}
    return site.at_small_sizes([site.machine.renamed(x, names)])


def _whole(basis: Field, cell: Any) -> Form:
    return extended.finite(as_cell(basis, cell), "a sum of integers")


def reduced(name: str, cell: Cell, over: Sequence[Variable]) -> Cell:
    if name == "sum":
        form = extended.finite(cell, "a sum over a large dim")
        if form.field.huge and absorbs(form, form):
            form.field.need("absorbed", form)
        return summed(form.field, form, over)
    if name == "max":
        return greatest_cell(cell, over)
    return extended.negate(greatest_cell(extended.negate(cell), over))


@rule("dot")
def dot(site: Site) -> list[Array]:
    """Contracted dims have the same variables on both sides, over which the products are summed."""
    names, over = _contraction(site)
    demand(not over or is_float(site.call.results[0].dtype), "a product of integers")
    xs = [site.machine.renamed(x, each) for x, each in zip(site.xs, names, strict=True)]
    found = site.at_small_sizes(xs)
    return [mapped(lambda cell: reduced("sum", cell, over), x) for x in found] if over else found


def _contraction(site: Site) -> tuple[list[dict[Variable, Variable]], list[Variable]]:
    """The names of the variables of both sides in the result, and those over which products are summed."""
    (left, right), (outs,) = site.ins, site.outs
    batch = [site.numbers(f"{side}_batch_dims") for side in ("lhs", "rhs")]
    inner = [site.numbers(f"{side}_contracting_dims") for side in ("lhs", "rhs")]
    names: list[dict[Variable, Variable]] = [{}, {}]
    over: list[Variable] = []
    for n, (a, b) in enumerate(zip(*inner, strict=True)):
        demand(left[a] == right[b], "a product")
        for k, (u, v) in enumerate(zip(of_dim(left, a), of_dim(right, b), strict=True)):
            names[0][u] = names[1][v] = Variable(("inner", n, k), u.size)
            over.append(names[0][u])
    place = 0
    for a, b in zip(*batch, strict=True):
        demand(left[a] == right[b], "a product")
        for dims, d, mine in ((left, a, names[0]), (right, b, names[1])):
            _becomes(dims, d, outs, place, mine)
        place += 1
    for dims, mine, b, c in ((left, names[0], batch[0], inner[0]), (right, names[1], batch[1], inner[1])):
        for d in range(len(dims)):
            if d not in b and d not in c:
                _becomes(dims, d, outs, place, mine)
                place += 1
    return names, over


def _one_over_root(basis: Field, size: int) -> Form:
    if isinstance(size, Size):
        return laws.power(worth(basis, size), Fraction(-1, 2))
    return laws.constant_power(basis, size, Fraction(-1, 2))


def _becomes(dims: Dims, d: int, outs: Dims, there: int, names: dict[Variable, Variable]) -> None:
    demand(dims[d] == outs[there], "a product")
    names.update(zip(of_dim(dims, d), of_dim(outs, there), strict=True))


@rule("attention")
def attention(site: Site) -> list[Array]:
    """softmax(scale · q kᵀ + mask) v, and the log of the sum of exponentials."""
    machine, basis, call = site.machine, site.machine.basis, site.call
    (dq, dk, dv), n = site.ins[:3], len(site.ins[0])
    alike("attention", dq[:-2], dk[:-2])
    alike("attention", dk[:-1], dv[:-1])
    demand(dq[-1] == dk[-1] and (*dq[:-1], dv[-1]) == site.outs[0], "attention")
    demand(len(site.outs) < 2 or site.outs[1] == dq[:-1], "attention")
    keys = {v: Variable(("key", k), v.size) for k, v in enumerate(of_dim(dk, n - 2))}
    inner = {v: Variable(("inner", k), v.size) for k, v in enumerate(of_dim(dq, n - 1))}
    renamed = [machine.renamed(x, names) for x, names in zip(site.xs, (inner, {**keys, **inner}, keys), strict=False)]
    q, k, v = (reals(basis, x) for x in renamed)
    over = list(keys.values())
    text = call.symbol("scale", "")
    scale = literal(basis, text, "f32") if text else _one_over_root(basis, size(dq[-1]))
    scores = mapped(
        lambda s: extended.multiply(reduced("sum", s, list(inner.values())), scale),
        contracted(basis, q, np.swapaxes(k, -1, -2)),
    )
    if len(site.xs) > 3:
        mask, there = site.xs[3], site.ins[3]
        target = (*dq[:-1], dk[-2])
        along: dict[Variable, Variable] = {}
        for d in range(len(there)):
            at = n - len(there) + d
            demand(not there[d] or there[d] == target[at], "attention")
            own = [keys[v] for v in of_dim(dk, n - 2)] if at == n - 1 else of_dim(dq, at)
            along.update(zip(of_dim(there, d), own, strict=False))
        mask = machine.renamed(mask, along)
        if machine.program.tensors[call.op.operands[3]].dtype == "pred":
            mask = mapped(machine.hidden, mask)
        scores = mapped(extended.add, scores, reals(basis, mask))
    if call.number("causal", 0):
        demand(dq[-2] == dk[-2] and all(p.whole for p in dq[-2]), "attention")
        demand(len(dq[-2]) < 2, "attention")
        for row, column in zip(of_dim(dq, n - 2), over, strict=True):
            later, now = (basis.of(basis.element("position", (v,), nonnegative=True)) for v in (column, row))
            shown = compared_integers("LE", later, now)
            low = extended.infinite(basis, -1)
            scores = mapped(lambda s, shown=shown, low=low: extended.choose(shown, s, low), scores)
    weights = mapped(extended.exponential, scores)
    last = weights.ndim - 1

    def rowwise(x: Array) -> Array:
        return mapped(lambda cell: reduced("sum", cell, over), x)

    sums = np.empty(weights.shape[:last], dtype=object)
    for at_row in np.ndindex(*sums.shape):
        sums[at_row] = total(basis, list(weights[at_row]))
    sums = rowwise(sums)
    products = rowwise(contracted(basis, weights, v))
    out = mapped(lambda x, s: extended.multiply(x, laws.power(s, -1)), products, sums[..., None])
    return [out, mapped(extended.logarithm, sums)][: len(call.results)]
