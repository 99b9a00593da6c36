"""Lifting collectives: they change the placement of a value, not the value. What else they do is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from scalify_dl.ir.graph import Op
from scalify_dl.ir.layout import Digit, Entry, Pending, Repl

from .blocks import scattered
from .grid import Grid
from .held import Held, tidy
from .lift import Lifter, Noted, Stop, lifting
from .means import counted, mean_in_front
from .one_each import REDUCERS, elements, reduced
from .refit import splat_of


def _positions(lifter: Lifter, op: Op, *, ordered: bool = True) -> tuple[int, ...]:
    """Positions of the mesh along which it runs; `ordered`: what it makes depends on the order of its ranks."""
    grid = lifter.grid
    if op.along:
        names = [axis for axis, _ in op.along]
        return tuple(p for name in names for p, (axis, _) in enumerate(grid.positions) if axis == name)
    ranks = list(range(grid.mesh.size))
    groups = op.groups if op.groups is not None else [ranks] if op.replica_groups_all else None
    if groups is None:
        raise Stop("lemma", f"the members of its process group `{op.group_name}` are not known")
    found = grid.along(groups)
    turned = grid.along([sorted(group) for group in groups]) if found is None else None
    if turned is not None and not ordered:
        return turned
    if turned is not None:  # which may be put right behind, or make no difference there
        axes = ", ".join(grid.axes_of(turned))
        kind = "gather-order" if op.kind == "all-gather" else "lemma"
        raise Stop(kind, f"the ranks of its groups come in another order than along {axes}")
    if found is None:
        shown = ", ".join(str(list(group)) for group in groups[:4]) + (", …" if len(groups) > 4 else "")
        raise Stop("group", f"its groups {shown} run along no axis of the mesh {grid.mesh}")
    return found


def _words(lifter: Lifter, positions: Sequence[int]) -> str:
    return ", ".join(lifter.grid.axes_of(positions))


@lifting("all-reduce")
def all_reduce(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """What is pending along its axes is reduced."""
    positions = _positions(lifter, op, ordered=False)
    return [_reduced(lifter, op, n, positions) for n in range(len(op.operands))]


def _reduced(lifter: Lifter, op: Op, n: int, positions: Sequence[int]) -> Held:
    x, name, reducer = lifter.held(op.operands[n]), op.operands[n].name, op.symbols.get("reducer", [""])[0]
    alone = elements(x, positions) if reducer == "sum" or (reducer in REDUCERS and x.calm) else []
    if alone:
        positions = [p for p in positions if not isinstance(e := x.mesh[p], Digit) or e.dim not in alone]
        x = reduced(lifter, op, x, alone, reducer)
    mesh, scale = list(x.mesh), x.scale
    if reducer == "sum":
        lifter.out.sums[op] = tuple(positions)
    number = splat_of(lifter, op.operands[n])
    again = []
    for p in positions:
        entry, axis = mesh[p], lifter.grid.positions[p][0]
        if isinstance(entry, Digit):
            raise Stop("reduces-blocks", f"`{name}` is split over {axis}: blocks of dim {entry.dim} are reduced")
        if isinstance(entry, Pending) and entry.reducer != reducer:
            raise Stop("reducer", f"`{name}` is a part of a {entry.reducer} over {axis}, it takes the {reducer}")
        if isinstance(entry, Repl):
            again.append(p)
        mesh[p] = Repl(entry.size)
    if again:
        times = prod(lifter.grid.sizes[p] for p in again)
        if reducer not in ("max", "min", "and", "or"):
            if reducer != "sum":
                raise Stop("lemma", f"`{name}` is the same on all ranks of {_words(lifter, again)}: its powers")
            if number is not None and number.rational is not None and not x.pending:
                shape = op.results[n].shape
                made = lifter.splat(type(number).scalar(number.rational * times, op.results[n].dtype),
                                    op.results[n].dtype, shape, op)  # fmt: skip
                return Held.whole(made, lifter.grid, range(len(shape)))
            if mean_in_front(lifter, op, op.operands[n], x, again):
                x = counted(lifter, x, again, op)
            else:
                scale *= times
        text = f"`{name}` is the same on all ranks of {_words(lifter, again)}: its {reducer} is " + (
            f"{times} times it" if reducer == "sum" else "itself"
        )
        lifter.out.notes.append(Noted(op, "reduces-replicated", text))
    return replace(x, mesh=tuple(mesh), scale=scale)


@lifting("all-gather")
def all_gather(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Blocks of ranks one after the other along a dim."""
    dim = op.numbers["dimension"][0]
    positions = _positions(lifter, op)
    found: list[Held | None] = []
    for tensor in op.operands:
        x = lifter.held(tensor)
        mesh = list(x.mesh)
        digits: list[Digit] = []
        for p in positions:
            entry, axis = mesh[p], lifter.grid.positions[p][0]
            if isinstance(entry, Pending):
                raise Stop("gathers-unreduced", f"`{tensor.name}` is still a part of a {entry.reducer} over {axis}: it"
                           " puts parts side by side")  # fmt: skip
            if isinstance(entry, Repl):
                kind = "unclear" if dim in x.free else "gathers-replicated"  # of rows alike any number are a block
                raise Stop(kind, f"`{tensor.name}` is the same on all ranks of {axis}: it repeats it")
            digits.append(entry)
            mesh[p] = Repl(entry.size)
        if x.along == dim:
            raise Stop("across-parts", f"`{tensor.name}` holds several values side by side along dim {dim}")
        local = tuple(tidy([*digits, *s]) if d == dim else s for d, s in enumerate(x.local))
        held = replace(x, mesh=tuple(mesh), local=local, free=frozenset())
        strides = [g.stride for g in [*digits, *x.local[dim]] if g.size > 1]
        if held.aligned and strides != sorted(strides, reverse=True):
            raise Stop("gather-order", f"the blocks of `{tensor.name}` come in another order than they were cut in")
        found.append(held)
    return found


@lifting("reduce-scatter")
def reduce_scatter(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """What is pending is reduced, and every rank keeps its block."""
    dim = op.numbers["dimension"][0]
    positions = _positions(lifter, op)
    found: list[Held | None] = []
    for n, tensor in enumerate(op.operands):
        held = _reduced(lifter, op, n, positions)
        found.append(scattered(lifter, held, dim, positions, tensor.name))
    return found


@lifting("all-to-all")
def all_to_all(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """One dim is split, what another was split by is put together."""
    split, concat = op.numbers["split_dimension"][0], op.numbers["concat_dimension"][0]
    positions = _positions(lifter, op)
    found: list[Held | None] = []
    for tensor in op.operands:
        x = lifter.held(tensor)
        digits: list[Digit] = []
        for p in positions:
            entry, axis = x.mesh[p], lifter.grid.positions[p][0]
            if isinstance(entry, Pending):
                raise Stop("gathers-unreduced", f"`{tensor.name}` is still a part of a {entry.reducer} over {axis}")
            if isinstance(entry, Repl):
                kind = "unclear" if concat in x.free else "gathers-replicated"
                raise Stop(kind, f"`{tensor.name}` is the same on all ranks of {axis}")
            digits.append(entry)
        held = scattered(lifter, x, split, positions, tensor.name)
        local = tuple(tidy([*digits, *s]) if d == concat else s for d, s in enumerate(held.local))
        found.append(replace(held, local=local, free=frozenset()))
    return found


@lifting("collective-permute")
def collective_permute(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """What all ranks have alike stays so; blocks change their places where axes are exchanged."""
    x, name = lifter.held(op.operands[0]), op.operands[0].name
    source = {target: rank for rank, target in op.pairs or ()}
    grid = lifter.grid
    if sorted(source) != list(range(grid.mesh.size)):
        raise Stop("lemma", "some ranks are sent nothing, and go on with zeros")
    moves = {p for rank, other in source.items() for p, (a, b) in
             enumerate(zip(grid.coordinates[rank], grid.coordinates[other], strict=True)) if a != b}  # fmt: skip
    if all(isinstance(x.mesh[p], Repl) for p in moves):
        text = f"`{name}` is the same on all ranks of {_words(lifter, sorted(moves))}: nothing changes"
        lifter.out.notes.append(Noted(op, "permutes-replicated", text))
        return [x]
    if all(isinstance(x.mesh[p], Pending | Repl) for p in moves):
        raise Stop("lemma", f"parts of `{name}` go round: what is made of them and others may be the whole sum")
    order = exchanged(grid, source)
    if order is None:
        raise Stop("lemma", f"blocks of `{name}` go round: each rank holds that of another one")
    mesh: list[Entry] = list(x.mesh)
    for p, q in enumerate(order):
        mesh[q] = x.mesh[p]
    return [replace(x, mesh=tuple(mesh))]


def exchanged(grid: Grid, source: Mapping[int, int]) -> list[int] | None:
    """The positions of the source's coordinates that are the rank's own ones, where ranks exchange what they hold as if
    axes changed places; None where values go round."""
    order: list[int] = []
    for p, size in enumerate(grid.sizes):
        same = [q for q, other_size in enumerate(grid.sizes) if other_size == size and q not in order and all(
            grid.coordinates[other][p] == grid.coordinates[rank][q] for rank, other in source.items())]  # fmt: skip
        if not same:
            return None
        order.append(same[0])
    return order
