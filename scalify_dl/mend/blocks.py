"""Edits of a draft about which part of a whole a rank takes, or puts back: the block of its own index, pieces of it."""

from __future__ import annotations

from collections.abc import Callable

from scalify_dl.errors import InputError

from .draft import Draft, Edit
from .nearby import spread


def _own_block(draft: Draft, edit: Edit) -> None:
    """`start` and `limit` of a slice along one dim, by the rank's coordinate on an axis; or where a pad puts it."""
    kinds = [row[2] for row in draft.facts["op"] if row[0] == edit.target]
    if kinds in (["pad"], ["dynamic-update-slice"]):
        _put_at_own_place(draft, edit)
        return
    (result,) = [t for op, _, t in draft.facts["result"] if op == edit.target]
    if kinds == ["dynamic-slice"]:
        _as_slice(draft, edit, result)
    (local,) = [size for t, dim, size in draft.facts["dim"] if (t, dim) == (result, edit.num)]
    for key, more in (("start", 0), ("limit", local)):
        for table in ("attr_number", "rank_number"):
            draft.keep(table, lambda row, key=key: row[:3] != (edit.target, key, edit.num))  # type: ignore[misc]
        draft.rows("rank_number").extend(
            (edit.target, key, edit.num, rank, coordinate * local + more)
            for rank, axis, coordinate in draft.facts["rank_coord"]
            if axis == edit.how
        )


def _as_slice(draft: Draft, edit: Edit, result: str) -> None:
    """A dynamic slice along one dim as a slice; where it starts there is still to be said."""
    (source, *_), shape = draft.operands(edit.target), draft.shape(result)
    if any(size != extent for dim, (size, extent) in enumerate(zip(shape, draft.shape(source), strict=True))
           if dim != edit.num):  # fmt: skip
        raise InputError(f"{edit.target} cuts several dims")
    for table in ("attr_number", "attr_symbol"):
        draft.keep(table, lambda row: row[0] != edit.target)
    draft.keep("operand", lambda row: row[0] != edit.target or row[1] == 0)
    for dim, size in enumerate(shape):
        numbers = {"start": 0, "limit": size, "stride": 1}
        draft.rows("attr_number").extend((edit.target, key, dim, number) for key, number in numbers.items())
    rows = draft.rows("op")
    rows[:] = [(op, graph, "slice" if op == edit.target else kind) for op, graph, kind in rows]


def _put_at_own_place(draft: Draft, edit: Edit) -> None:
    """What a pad surrounds, or an update writes, along one dim in the block of the rank's coordinate on an axis."""
    operands = draft.operands(edit.target)
    pads = ("pad",) in [row[2:] for row in draft.facts["op"] if row[0] == edit.target]
    value, fill = operands if pads else (operands[1], operands[0])
    ((_, _, result),) = [row for row in draft.facts["result"] if row[0] == edit.target]
    local = draft.shape(value)[edit.num]
    lows = {pos: low for op, key, pos, low in draft.facts["attr_number"] if (op, key) == (edit.target, "low")}
    starts = []
    for dim in range(len(draft.shape(value))):
        if not pads and dim != edit.num:
            starts.append(operands[2 + dim])
            continue
        start = draft.fresh(value)
        ((_, graph, _),) = [row for row in draft.facts["op"] if row[0] == edit.target]
        draft.rows("tensor").append((start, graph, "s32", 0))
        constant = draft.emit("constant", (), start, edit.cause)
        if dim == edit.num:
            draft.rows("rank_number").extend(
                (constant, "value", 0, rank, coordinate * local)
                for rank, axis, coordinate in draft.facts["rank_coord"]
                if axis == edit.how
            )
        else:
            low = lows[dim]
            draft.rows("literal").append((start, str(low)))
            draft.rows("literal_rational").append((start, low, 1))
        starts.append(start)
    around = spread(draft, fill, draft.shape(result), [], edit.cause)
    for table in ("operand", "attr_number"):
        draft.keep(table, lambda row: row[0] != edit.target)
    draft.rows("operand").extend((edit.target, pos, t) for pos, t in enumerate([around, value, *starts]))
    rows = draft.rows("op")
    rows[:] = [(op, graph, "dynamic-update-slice" if op == edit.target else kind) for op, graph, kind in rows]


def _of_pieces(draft: Draft, edit: Edit) -> None:
    """Its block of each of `den` pieces of a dim, in place of as much of the whole dim; or where a pad, or what puts
    blocks side by side, has these. A block may be of rows, one of several along a dim of its own."""
    dim, pieces, op = edit.num, edit.den, edit.target
    (result,) = [t for o, _, t in draft.facts["result"] if o == op]
    (kind,) = [row[2] for row in draft.facts["op"] if row[0] == op]
    operands = draft.operands(op) if kind == "concatenate" else draft.operands(op)[:1]
    local = draft.shape(result if kind == "slice" else operands[0])[dim]
    rows = kind == "slice" and local == 1

    def split(shape: list[int]) -> list[int]:
        """Pieces, blocks of one piece, elements of a block."""
        if rows:
            return [*shape[:dim], pieces, shape[dim], shape[dim + 1] // pieces, *shape[dim + 2 :]]
        if shape[dim] % local:
            raise InputError(f"{op} has no blocks of {local}")
        return [*shape[:dim], pieces, shape[dim] // local, local // pieces, *shape[dim + 1 :]]

    for place, source in enumerate(operands):
        read = draft.like(source, split(draft.shape(source)))
        draft.emit("reshape", [source], read, edit.cause)
        draft.read(op, place, read)
    made = draft.like(result, split(draft.shape(result)))
    results = draft.rows("result")
    results[:] = [(o, pos, made if o == op else t) for o, pos, t in results]
    draft.emit("reshape", [made], result, edit.cause)
    if kind == "concatenate":
        _added_up(draft, edit, made, dim + 1)
        return
    along = {"start": 0, "limit": pieces, "stride": 1, "low": 0, "high": 0, "interior": 0}
    whole = {"start": 0, "limit": local // pieces, "stride": 1, "low": 0, "high": 0, "interior": 0}

    def moved(key: str, pos: int, number: int) -> int:
        """Numbers of a block that was the n-th; the dim along which blocks are put together."""
        if key == "dimension":
            return number + (number >= dim) + (number > dim)
        if pos == dim + rows and key == "limit" and rows:
            return number // pieces
        if pos != dim or rows or key not in ("start", "limit", "low", "high"):
            return number
        if number % local:
            raise InputError(f"{op} takes no block")
        return number // local

    for table, last in (("attr_number", 3), ("rank_number", 4)):
        numbers = draft.rows(table)
        kept = [row for row in numbers if row[0] != op]
        for row in (row for row in numbers if row[0] == op):
            later = (row[2] >= dim) + (row[2] > dim and not rows) if row[1] in along else 0
            kept.append((op, row[1], row[2] + later, *row[3:last], moved(row[1], row[2], row[last])))
        numbers[:] = kept
    keys = {row[1] for table in ("attr_number", "rank_number") for row in draft.facts[table] if row[0] == op}
    for key in keys & along.keys():
        draft.rows("attr_number").append((op, key, dim, along[key]))
        if not rows:
            draft.rows("attr_number").append((op, key, dim + 2, whole[key]))


def _added_up(draft: Draft, edit: Edit, made: str, dim: int) -> None:
    """What an op puts side by side along a dim, each part among zeros, as a sum: as gradients of slices are written."""
    parts, shape = draft.operands(edit.target), draft.shape(made)
    zero = draft.like(made, ())
    draft.emit("constant", (), zero, edit.cause)
    draft.rows("literal").append((zero, "0.0"))
    draft.rows("literal_rational").append((zero, 0, 1))
    start, total = 0, ""
    for number, part in enumerate(parts, 1):
        size = draft.shape(part)[dim]
        around = draft.like(made, shape)
        low, high = [0] * len(shape), [0] * len(shape)
        low[dim], high[dim] = start, shape[dim] - start - size
        draft.emit("pad", [part, zero], around, edit.cause, low=low, high=high, interior=[0] * len(shape))
        start += size
        if total:
            summed = made if number == len(parts) else draft.like(made, shape)
            draft.emit("add", [total, around], summed, edit.cause)
            total = summed
        else:
            total = around
    for table in ("op", "operand", "result", "attr_number", "source"):
        draft.keep(table, lambda row: row[0] != edit.target)


VERBS: dict[str, Callable[[Draft, Edit], None]] = {"own block": _own_block, "pieces": _of_pieces}
"""What each verb does."""
