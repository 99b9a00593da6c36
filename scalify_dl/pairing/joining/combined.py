"""What a collective over several cells gives, of what each cell brings on every rank: values that are all there."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Op, Tensor

from .cells import Cells
from .meetings import of_cell
from .values import Unjoinable, Values

__all__ = ["combined"]

REDUCED = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply", "and": "and", "or": "or", "xor": "xor"}
"""What two parts of a reduction make."""


def combined(made: Values, ops: dict[int, Op], brought: dict[int, Tensor]) -> dict[int, Tensor]:
    """By cell, the result of cells' ops and what these bring. Unjoinable where groups are irregular."""
    first = next(iter(ops.values()))
    order, inner, outer_first = _parties(made.cells, ops)
    values = [brought[cell] for cell in order]
    if first.kind == "all-reduce":
        total = _within(made, first, _reduced(made, first, values), inner)
        return dict.fromkeys(order, total)
    if first.kind == "collective-broadcast":
        root = values[0]
        return dict.fromkeys(order, _within(made, first, root, inner))
    if first.kind == "all-gather":
        dim = first.numbers["dimension"][0]
        if outer_first:
            whole = _glued(made, first, [_gathered(made, first, x, inner, dim) for x in values], dim)
        else:
            whole = _gathered(made, first, _glued(made, first, values, dim), inner, dim)
        return dict.fromkeys(order, whole)
    if first.kind == "reduce-scatter":
        return _scattered(made, first, values, order, inner, outer_first)
    if first.kind == "all-to-all" and len(inner[0]) == 1:
        split, glue = first.numbers["split_dimension"][0], first.numbers["concat_dimension"][0]
        n = values[0].shape[split] // len(order)
        return {
            cell: _glued(made, first, [made.cut(x, split, p * n, (p + 1) * n, first) for x in values], glue)
            for p, cell in enumerate(order)
        }
    raise Unjoinable(f"no form of `{first.kind}` over ranks of several programs")


def _parties(cells: Cells, ops: dict[int, Op]) -> tuple[list[int], list[list[int]], bool]:
    """The cells that meet, in order; the groups within a cell, by places; whether the cell is the major position."""
    found: set[tuple[tuple[int, ...], bool]] = set()
    inner: dict[tuple[int, ...], None] = {}
    for cell, op in ops.items():
        for group in of_cell(op, cells, cell):
            places = [cells.place[rank] for rank in group]
            among = tuple(dict.fromkeys(k for k, _ in places))
            columns = tuple(dict.fromkeys(j for _, j in places))
            if places == [(k, j) for k in among for j in columns]:
                found.add((among, True))
            elif places == [(k, j) for j in columns for k in among]:
                found.add((among, False))
            else:
                raise Unjoinable(f"the groups of `{op.name}` cross the programs")
            inner[columns] = None
    if len({order for order, _ in found}) != 1 or sorted(j for group in inner for j in group) != list(
        range(cells.columns)
    ):
        raise Unjoinable("groups of one collective are of several programs")
    ((order, outer_first), *more) = sorted(found, reverse=True)
    if more and max(map(len, inner)) > 1:
        raise Unjoinable("groups of one collective are in several orders")
    if set(order) != set(ops):
        raise Unjoinable("a collective over ranks of other programs than its own")
    return [*order], [list(group) for group in inner], outer_first


def _within(made: Values, op: Op, x: Tensor, inner: Sequence[Sequence[int]]) -> Tensor:
    """The collective within cells."""
    if len(inner[0]) == 1:
        return x
    groups = [group for columns in inner for group in made.cells.everywhere(columns)]
    symbols = {key: list(texts) for key, texts in op.symbols.items()}
    return made.emit(op.kind, [x], op, groups=groups, **symbols)


def _reduced(made: Values, op: Op, values: Sequence[Tensor]) -> Tensor:
    kind = REDUCED.get((op.symbols.get("reducer") or [""])[0])
    if kind is None or op.regions or (kind in ("add", "multiply") and values[0].dtype == "pred"):
        raise Unjoinable(f"`{op.name}` reduces in a way of its own")
    total = values[0]
    for value in values[1:]:
        total = made.emit(kind, [total, value], op)
    return total


def _glued(made: Values, op: Op, values: Sequence[Tensor], dim: int) -> Tensor:
    return values[0] if len(values) == 1 else made.emit("concatenate", values, op, dimension=dim)


def _gathered(made: Values, op: Op, x: Tensor, inner: Sequence[Sequence[int]], dim: int) -> Tensor:
    if len(inner[0]) == 1:
        return x
    groups = [group for columns in inner for group in made.cells.everywhere(columns)]
    shape = (*x.shape[:dim], x.shape[dim] * len(inner[0]), *x.shape[dim + 1 :])
    return made.emit("all-gather", [x], op, groups=groups, dimension=dim, shape=shape, dtype=x.dtype)


def _scattered(
    made: Values, op: Op, values: Sequence[Tensor], order: Sequence[int], inner: Sequence[Sequence[int]], outer: bool
) -> dict[int, Tensor]:
    """Each cell's block of the sum, scattered within it."""
    total = _reduced(made, op, values)
    dim = op.numbers["dimension"][0]

    def within(x: Tensor) -> Tensor:
        if len(inner[0]) == 1:
            return x
        groups = [group for columns in inner for group in made.cells.everywhere(columns)]
        shape = (*x.shape[:dim], x.shape[dim] // len(inner[0]), *x.shape[dim + 1 :])
        reducer = op.symbols["reducer"]
        return made.emit(
            "reduce-scatter", [x], op, groups=groups, dimension=dim, reducer=reducer, shape=shape, dtype=x.dtype
        )

    if not outer:
        total = within(total)
    n = total.shape[dim] // len(order)
    blocks = {cell: made.cut(total, dim, p * n, (p + 1) * n, op) for p, cell in enumerate(order)}
    return {cell: within(x) for cell, x in blocks.items()} if outer else blocks
