"""Lifting reads under a mask: of a table that ranks hold in blocks of rows each keeps what is in its block, and the sum
over the ranks is the read of the whole table.

Where indices meet the rank's bounds, values are nothing of one device's by themselves; the read is supposed to be that
of the whole table with the indices that they came from, and its masked result a part of the sum. The rules prove it
(`dlverify rules show masked-read`), or do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.layout import Entry, Pending, Repl

from .held import Held, whole_dims
from .lift import MOVING, Lifter, Stop
from .masked_writes import kept, ranked
from .means import one_rank_only
from .refit import splat_of


def masked(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """An elementwise op on values of the rank: a masked read keeps what it holds, others are nothing by themselves."""
    single = one_rank_only(lifter, op)
    if single is not None:
        lifter.out.single[op.result] = op.result
        return [single]
    parts = [t for t in op.operands if t in lifter.out.reads]
    pending = [t for t in op.operands if (h := lifter.out.held.get(t)) is not None and h.pending]
    if not parts and not pending:
        kept(lifter, op)
        return [None]
    (part, *more) = parts or pending
    held = lifter.out.reads.get(part) or lifter.out.held[part]
    zero = any((s := splat_of(lifter, t)) is not None and s.rational == 0 for t in op.operands)
    if not more and (op.kind == "multiply" or (op.kind == "select" and zero and op.operands[0] != part)):
        lifter.out.single[op.result] = lifter.out.single.get(part, op.result)
        if parts:
            lifter.out.masks[op] = part
        return [held]
    filled = splat_of(lifter, op.operands[2]) if op.kind == "select" and parts == [op.operands[1]] else None
    if filled is not None and filled.text == "nan":  # for places beyond the table: a read as before, still not masked
        lifter.out.reads[op.result] = held
        return [None]
    raise Stop("lemma", f"`{part.name}` is read under a mask of the rank: nothing is known of this `{op.kind}`")


def unmasked(lifter: Lifter, op: Op) -> None:
    """Stop where a read of a block of a table is used before it is masked."""
    for tensor in op.operands:
        if tensor in lifter.out.reads and op.kind not in MOVING:
            held = lifter.out.reads[tensor]
            probe = next(made for made in lifter.base.ops if held.base in made.results)
            axes = ", ".join(lifter.grid.axes_of(held.pending))
            text = f"`{tensor.name}` is read of the ranks' blocks of a table over {axes}, and not masked"
            raise Stop("unmasked", text, probe)


def masked_read(lifter: Lifter, op: Op, table: Held, split: Sequence[int]) -> None:
    """The read of the whole table, as a sum of what the ranks find in their blocks."""
    from .indexed import read_rows

    ids = lifter.out.mixed.get(op.operands[1])
    if ids is None and op.operands[1] in lifter.out.held and split:
        names = ", ".join(lifter.grid.axes_of(p for d in split for p in table.cut(d)))
        text = f"the table `{op.operands[0].name}` is split over {names} along the dim that is looked up, the indices"
        raise Stop("looks-up-blocks", f"{text} are those of the whole table")
    positions = [p for d in split for p in table.cut(d)]
    if ids is not None and not split and _summed(lifter, op.result):  # the table was to lie in blocks, it seems
        numbers = [x for t in ranked(lifter, op.operands[1]) if (x := lifter.numbers(t)) is not None]
        positions = [p for p in range(len(table.mesh)) if any(p in lifter.grid.varying(x) for x in numbers)]
    if ids is None or not positions:
        raise Stop("lemma", "indices that depend on the rank, into a table that does not")
    sizes: list[Entry] = list(table.mesh)
    for p in positions:
        if not split and not isinstance(sizes[p], Repl):
            raise Stop("placed-differently", "the table is split over ranks whose own indices look it up")
        sizes[p] = Repl(lifter.grid.sizes[p])
    full = whole_dims(table.base.shape)
    local = tuple(full[d] if d in split else s for d, s in enumerate(table.local))
    found = read_rows(lifter, op, replace(table, mesh=tuple(sizes), local=local), ids,
                      list(op.numbers.get("operand_batching_dims", [])))  # fmt: skip
    mesh = list(found.mesh)
    for p in positions:
        if not isinstance(mesh[p], Repl):
            raise Stop("placed-differently", "indices are split over the axis over which the table is")
        mesh[p] = Pending("sum", lifter.grid.sizes[p])
    lifter.out.reads[op.result] = replace(found, mesh=tuple(mesh))


def _summed(lifter: Lifter, tensor: Tensor) -> bool:
    """Whether a read is masked and then, with nothing but moves in between, summed over ranks, and not read
    otherwise."""
    masked = False
    while len(readers := lifter.readers.get(tensor, [])) == 1:
        (op,) = readers
        if op.kind in ("all-reduce", "reduce-scatter"):
            return masked and op.symbols.get("reducer") == ["sum"]
        if op.kind in ("select", "multiply") and not masked:
            masked = True
        elif op.kind not in MOVING or len(op.operands) != 1:
            return False
        tensor = op.result
    return False
