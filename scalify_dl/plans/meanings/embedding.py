"""Rows of a table that may be a block of a larger one: ids outside of `start:stop` give zero rows."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor

from .call import Call, IllTyped
from .shapes import spread

Chosen = tuple[Tensor, Tensor | None]


def _number(call: Call, key: str, ids: Tensor) -> Tensor | int:
    """An attribute, as a tensor like the ids where it depends on the rank."""
    values = call.by_rank.get(key)
    if values is None:
        return call.integer(key)
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return spread(call.program, call.program.rank_constant(values, ids.dtype), ids.shape)


def chosen(call: Call, ids: Tensor, table: Tensor, whole: bool) -> Chosen:
    """Rows of the own block, and where they are meant (None: everywhere). Without a range, or where the block is the
    `whole` table, the ids are the rows."""
    p = call.program
    if "start" not in call.attributes and "stop" not in call.attributes:
        return ids, None
    start, stop = _number(call, "start", ids), _number(call, "stop", ids)
    if isinstance(start, int) and isinstance(stop, int):
        if stop - start != table.shape[0]:
            raise IllTyped(f"rows {start}:{stop} of a block of {table.shape[0]}")
        if whole and start == 0:
            return ids, None
    inside = p.op("and", p.compare(ids, start, direction="GE"), p.compare(ids, stop, direction="LT")).result
    return p.select(inside, p.subtract(ids, start), p.full(0, ids.shape, ids.dtype)), inside


def cut(call: Call, values: Tensor, inside: Tensor | None) -> Tensor:
    """Zero where nothing is meant; `inside` lacks the last dim of the values."""
    if inside is None:
        return values
    p = call.program
    mask = p.broadcast(inside, values.shape, list(range(len(inside.shape))))
    return p.select(mask, values, p.full(0, values.shape, values.dtype))


def is_whole(call: Call, table: Tensor) -> bool:
    """Whether the range of rows is the whole table, on all ranks."""
    values = call.by_rank.get("whole")
    return values is None or set(values.values()) == {1}


def _indexed(ids: Tensor, table: Tensor) -> None:
    if not ids.dtype.startswith(("s", "u")) or len(table.shape) != 2:
        raise IllTyped(f"rows of {list(table.shape)} by ids of type {ids.dtype}")


def looked_up(call: Call, ids: Tensor, table: Tensor) -> Tensor:
    """The rows of the ids."""
    _indexed(ids, table)
    rows, inside = chosen(call, ids, table, is_whole(call, table))
    return cut(call, call.program.embedding(table, rows), inside)


def added_up(call: Call, gradient: Tensor, ids: Tensor, table: Tensor) -> Tensor:
    """The gradient of the table: every row's gradients added up."""
    call.must(padding_idx="None")
    _indexed(ids, table)
    if tuple(gradient.shape) != (*ids.shape, table.shape[1]):
        raise IllTyped(f"a gradient of shape {list(gradient.shape)} for rows of ids of shape {list(ids.shape)}")
    p = call.program
    rows, inside = chosen(call, ids, table, is_whole(call, table))
    rank = len(ids.shape)
    return p.op(
        "scatter",
        p.full(0, table.shape, table.dtype),
        rows,
        cut(call, gradient, inside),
        update_window_dims=[rank],
        inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0],
        input_batching_dims=[],
        scatter_indices_batching_dims=[],
        index_vector_dim=rank,
        reducer="sum",
        dtype=table.dtype,
        shape=table.shape,
    ).result
