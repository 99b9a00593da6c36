"""Lifting reads by index: rows of a table that is whole, or that ranks hold in blocks; windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scalify_dl.ir.graph import Op
from scalify_dl.ir.layout import Digit, Entry, Pending, Repl

from .blocks import own_block
from .held import Held, renumbered, tidy
from .lift import Lifter, Stop, lifting


@lifting("gather")
def gather(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """Dims of the indices and dims of the table that are read whole go into the result; a table of which ranks hold
    blocks of rows leaves a sum of what each finds."""
    table = lifter.held(op.operands[0])
    start, batching = op.numbers["start_index_map"], op.numbers.get("operand_batching_dims", [])
    split = [d for d in start if table.cut(d)]
    if split or lifter.is_odd(op.operands[1]):
        from .masked import masked_read

        masked_read(lifter, op, table, split)
        return [None]
    return [read_rows(lifter, op, table, lifter.held(op.operands[1]), list(batching))]


def read_rows(lifter: Lifter, op: Op, table: Held, ids: Held, batching: list[int]) -> Held:
    """A gather of which the table's indexed dims are whole (or will be, in the baseline)."""
    if not table.aligned or not ids.aligned or table.along is not None or ids.along is not None:
        raise Stop("lemma", "an operand lies in another order than its dims")
    if ids.pending or ids.scale != 1:
        raise Stop("non-linear", f"the indices `{op.operands[1].name}` are still to be reduced")
    if any(isinstance(e, Pending) and e.reducer != "sum" for e in table.mesh):
        raise Stop("lemma", "the table is still to be reduced")
    vector = op.numbers["index_vector_dim"][0]
    if vector < len(ids.local) and ids.cut(vector):
        raise Stop("whole-dim", "ranks split the dim of index components")
    dropped = {*op.numbers["collapsed_slice_dims"], *batching}
    sizes = list(op.numbers["slice_sizes"])
    offsets = op.numbers["offset_dims"]
    windows = [d for d in range(len(table.local)) if d not in dropped]
    batch = [d for d in range(len(ids.local)) if d != vector]
    rank = len(windows) + len(batch)
    of_table = dict(zip(windows, offsets, strict=True))
    of_ids = dict(zip(batch, [d for d in range(rank) if d not in offsets], strict=True))
    theirs = dict(zip(batching, op.numbers.get("start_indices_batching_dims", []), strict=False))
    for d in windows:
        if sizes[d] == op.operands[0].shape[d]:
            sizes[d] = table.base.shape[d]
        elif not table.is_whole(d):
            raise Stop("whole-dim", f"it reads windows along dim {d} of the table, which ranks hold in blocks")
    mesh: list[Entry] = []
    for p, (t, i) in enumerate(zip(table.mesh, ids.mesh, strict=True)):
        axis = lifter.grid.positions[p][0]
        if isinstance(t, Digit) and t.dim in theirs:
            if not (isinstance(i, Digit) and i.dim == theirs[t.dim] and i.stride == t.stride):
                raise Stop("placed-differently", f"table and indices are not split alike over {axis}")
            mesh.append(Digit(of_ids[i.dim], i.stride, i.size))
        elif isinstance(t, Digit) and isinstance(i, Digit):
            raise Stop("placed-differently", f"table and indices are both split over {axis}")
        elif isinstance(t, Digit):
            mesh.append(Digit(of_table[t.dim], t.stride, t.size))
        elif isinstance(i, Digit):
            if isinstance(t, Pending):
                raise Stop("placed-differently", f"the table is pending over {axis}, over which indices are split")
            mesh.append(Digit(of_ids[i.dim], i.stride, i.size))
        else:
            mesh.append(t)
    (made,) = lifter.emit(op, [table.base, ids.base], slice_sizes=sizes)
    local = [()] * rank  # type: list[tuple[Digit, ...]]
    for d, to in of_table.items():
        full = sizes[d] == table.base.shape[d]
        local[to] = renumbered(table.local[d], to) if full else tidy([Digit(to, 1, sizes[d])])
    for d, to in of_ids.items():
        local[to] = renumbered(ids.local[d], to)
    return Held(made, tuple(local), tuple(mesh), table.scale)


@lifting("dynamic-slice")
def dynamic_slice(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """A block that the rank's coordinates choose is a placement; a window at a place that all ranks agree on is one."""
    operand, starts = op.operands[0], op.operands[1:]
    x = lifter.held(operand)
    sizes = list(op.numbers["sizes"])
    cut = [d for d, size in enumerate(sizes) if size != operand.shape[d]]
    own = []
    for d in cut:
        known = lifter.numbers(starts[d]) or {}
        at = [int(known[rank]) for rank in sorted(known)]
        if len(set(at)) > 1 or (at and starts[d] in lifter.out.ranked):
            own.append(d)
            x = own_block(lifter, op, x, d, at, sizes[d])
    rest = [d for d in cut if d not in own]
    if not rest:
        return [x]
    for d in rest:
        if not x.is_whole(d):
            raise Stop("whole-dim", f"it takes a window along dim {d} of `{operand.name}`, which ranks hold in blocks")
    at_base = [lifter.held(t) for t in starts]
    if any(not isinstance(e, Repl) for h in at_base for e in h.mesh):
        raise Stop("non-linear", "where the window begins is still to be reduced")
    wide = [sizes[d] if d in rest else x.base.shape[d] for d in range(len(sizes))]
    (made,) = lifter.emit(op, [x.base, *(h.base for h in at_base)], sizes=wide)
    local = tuple(tidy([Digit(d, 1, sizes[d])]) if d in rest else s for d, s in enumerate(x.local))
    return [replace(x, base=made, local=local, free=frozenset())]


@lifting("dynamic-update-slice")
def dynamic_update_slice(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """A window overwritten, along dims that no rank splits."""
    x, update = lifter.held(op.operands[0]), lifter.held(op.operands[1])
    cut = [d for d, n in enumerate(op.operands[0].shape) if n != op.operands[1].shape[d]]
    for d in cut:
        if not x.is_whole(d) or not update.is_whole(d):
            raise Stop("whole-dim", f"it writes a window along dim {d}, which ranks hold in blocks")
    if x.free and x.mesh != update.mesh:
        shape = tuple(x.base.shape[d] if d in cut else update.base.shape[d] for d in range(len(x.local)))
        local = tuple(x.local[d] if d in cut else update.local[d] for d in range(len(x.local)))
        want = replace(update, base=type(x.base)(x.base.dtype, shape), local=local)
        x = lifter.refit(op.operands[0], want) or x
    if x.mesh != update.mesh or not x.calm or not update.calm:
        raise Stop("placed-differently", "what is written does not lie as what it is written into")
    starts = [lifter.held(t) for t in op.operands[2:]]
    (made,) = lifter.emit(op, [x.base, update.base, *(h.base for h in starts)])
    return [replace(x, base=made, free=frozenset())]
