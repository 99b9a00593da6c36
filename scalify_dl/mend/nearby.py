"""Edits of a draft that `datalog/conclude/mending/nearby.dl` proposes: another comparison, step, part, neighbour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, permutations

from scalify_dl.errors import InputError

from .draft import Draft, Edit


def _compare(draft: Draft, edit: Edit) -> None:
    draft.keep("attr_symbol", lambda row: row[:2] != (edit.target, "direction"))
    draft.rows("attr_symbol").append((edit.target, "direction", 0, edit.how))


def _kind(draft: Draft, edit: Edit) -> None:
    """Another kind of op. A difference whose remainder is taken is kept from being negative."""
    rows = draft.rows("op")
    rows[:] = [(op, graph, edit.how if op == edit.target else kind) for op, graph, kind in rows]
    result, *others = [row[2] for row in draft.facts["result"] if row[0] == edit.target]
    if others:
        raise InputError(f"{edit.target} makes several values")
    if edit.how == "subtract":
        kinds = {op: kind for op, _, kind in draft.facts["op"]}
        readers = [op for op, pos, t in draft.facts["operand"] if t == result and not pos]
        divisors = {draft.operands(op)[1] for op in readers if kinds[op] == "remainder"}
        if len(divisors) == 1:
            draft.emit("add", [draft.raw(result), divisors.pop()], result, edit.cause)


def _swap(draft: Draft, edit: Edit) -> None:
    operands = draft.operands(edit.target)
    draft.read(edit.target, edit.num, operands[edit.den])
    draft.read(edit.target, edit.den, operands[edit.num])


def _number(draft: Draft, value: int, like: str, beside: str) -> str:
    """An integer of the type and shape of a tensor."""
    constant = draft.like(like, ())
    draft.emit("constant", (), constant, beside)
    draft.rows("literal").append((constant, str(value)))
    draft.rows("literal_rational").append((constant, value, 1))
    return spread(draft, constant, draft.shape(like), [], beside)


def spread(draft: Draft, tensor: str, shape: Sequence[int], dims: Iterable[int], beside: str) -> str:
    """A tensor repeated along the dims of a shape that are not its own (`dims`, increasing)."""
    if draft.shape(tensor) == list(shape):
        return tensor
    made = draft.like(tensor, shape)
    draft.emit("broadcast", [tensor], made, beside, dimensions=list(dims))
    return made


def _plus(draft: Draft, edit: Edit) -> None:
    made = draft.raw(edit.target)
    draft.emit("add", [made, _number(draft, edit.num, made, edit.cause)], edit.target, edit.cause)


def _plus_rank(draft: Draft, edit: Edit) -> None:
    """`num` times the rank's coordinate on an axis more."""
    made = draft.raw(edit.target)
    ((_, _, own, _),) = [row for row in draft.facts["tensor"] if row[0] == made]
    real = own[0] not in "su"  # numbers of ranks are integers
    first = draft.like(made, (), "s32" if real else "")
    constant = draft.emit("constant", (), first, edit.cause)
    draft.rows("rank_number").extend(
        (constant, "value", 0, rank, coordinate * edit.num)
        for rank, axis, coordinate in draft.facts["rank_coord"]
        if axis == edit.how
    )
    if real:
        whole, first = first, draft.like(made, ())
        draft.emit("convert", [whole], first, edit.cause)
    draft.emit("add", [made, spread(draft, first, draft.shape(made), [], edit.cause)], edit.target, edit.cause)


def _plus_operand(draft: Draft, edit: Edit) -> None:
    operand = draft.operands(edit.target)[edit.num]
    made = draft.like(operand)
    draft.emit("add", [operand, _number(draft, edit.den, operand, edit.cause)], made, edit.cause)
    draft.read(edit.target, edit.num, made)


def _shift(draft: Draft, edit: Edit) -> None:
    rows = draft.rows("attr_number")
    signs = {"start": 1, "limit": 1, "low": 1, "high": -1}
    rows[:] = [
        (op, key, pos, value + edit.den * signs.get(key, 0) * ((op, pos) == (edit.target, edit.num)))
        for op, key, pos, value in rows
    ]


def _ring(draft: Draft, edit: Edit) -> None:
    """Every rank sends to the one `num` steps on along an axis, round it or not beyond its ends."""
    sizes = {axis: size for axis, _, size in draft.facts["mesh_axis"]}
    at: dict[int, dict[str, int]] = {}
    for rank, axis, coordinate in draft.facts["rank_coord"]:
        at.setdefault(rank, {})[axis] = coordinate
    ranks = {tuple(sorted(coordinates.items())): rank for rank, coordinates in at.items()}
    draft.keep("permute_pair", lambda row: row[0] != edit.target)
    for rank, coordinates in at.items():
        to = coordinates[edit.how] + edit.num
        if edit.den or 0 <= to < sizes[edit.how]:
            receiver = ranks[tuple(sorted({**coordinates, edit.how: to % sizes[edit.how]}.items()))]
            draft.rows("permute_pair").append((edit.target, rank, receiver))


def _insert(draft: Draft, edit: Edit) -> None:
    """The baseline's op on its constant, before an operand is read; that of another turn, in whose place `den` - 2."""
    operand = draft.operands(edit.target)[edit.num]
    ((_, _, kind),) = [row for row in draft.facts["op"] if row[0] == edit.how]
    read, literals = [], {row[0] for row in draft.facts["literal"]}
    for place, theirs in enumerate(draft.operands(edit.how)):
        constant = _root(draft, theirs)
        if constant not in literals or place == edit.den - 2:
            read.append(operand)
            continue
        scalar = draft.like(operand, ())
        draft.emit("constant", (), scalar, edit.cause)
        for table in ("literal", "literal_rational"):
            draft.rows(table).extend([(scalar, *row[1:]) for row in draft.facts[table] if row[0] == constant])
        read.append(spread(draft, scalar, draft.shape(operand), [], edit.cause))
    made = draft.like(operand)
    draft.emit(kind, read, made, edit.cause)
    draft.read(edit.target, edit.num, made)


def _insert_with(draft: Draft, edit: Edit) -> None:
    """The baseline's op on an operand and a value that is at hand, before the operand is read."""
    base_op, other = edit.how.split(";", 1)
    operand = draft.operands(edit.target)[edit.num]
    ((_, _, kind),) = [row for row in draft.facts["op"] if row[0] == base_op]
    made = draft.like(operand)
    draft.emit(kind, [operand, other] if edit.den == 0 else [other, operand], made, edit.cause)
    draft.read(edit.target, edit.num, made)


def _mask(draft: Draft, edit: Edit) -> None:
    """An operand where a mask of its first dims is true, and zeros elsewhere."""
    operand = draft.operands(edit.target)[edit.num]
    shape, rows = draft.shape(operand), draft.shape(edit.how)
    if shape[: len(rows)] != rows:
        raise InputError(f"{edit.how} does not fit {operand}")
    mask = draft.like(operand)
    draft.emit("convert", [spread(draft, edit.how, shape, range(len(rows)), edit.cause)], mask, edit.cause)
    made = draft.like(operand)
    draft.emit("multiply", [operand, mask], made, edit.cause)
    draft.read(edit.target, edit.num, made)


def _root(draft: Draft, tensor: str) -> str:
    """The constant that a tensor repeats, or the tensor."""
    maker = {result: op for op, _, result in draft.facts["result"]}
    kinds = {op: kind for op, _, kind in draft.facts["op"]}
    while kinds.get(maker.get(tensor, "")) in ("broadcast", "reshape", "convert"):
        (tensor,) = draft.operands(maker[tensor])
    return tensor


def _times(draft: Draft, edit: Edit) -> None:
    """An operand times a value of fewer dims: `den`, less tens, says in which of the ways that fit."""
    operand, factor = draft.operands(edit.target)[edit.num], edit.how
    shape = draft.shape(operand)
    kept = [size for size in draft.shape(factor) if size != 1]
    ways = (
        dims for dims in permutations(range(len(shape)), len(kept))
        if [shape[dim] for dim in dims] == kept
    )  # fmt: skip
    dims = next(islice(ways, edit.den % 10, None), None)
    if dims is None:
        raise InputError(f"{factor} does not fit {operand} in so many ways")
    if kept != draft.shape(factor):
        plain = draft.like(factor, kept)
        draft.emit("reshape", [factor], plain, edit.cause)
        factor = plain
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    if order != list(range(len(dims))):
        turned = draft.like(factor, [kept[i] for i in order])
        draft.emit("transpose", [factor], turned, edit.cause, dimensions=order)
        factor = turned
    made = draft.like(operand)
    draft.emit("multiply", [operand, spread(draft, factor, shape, sorted(dims), edit.cause)], made, edit.cause)
    draft.read(edit.target, edit.num, made)


VERBS: dict[str, Callable[[Draft, Edit], None]] = {
    "compare": _compare,
    "kind": _kind,
    "swap": _swap,
    "plus": _plus,
    "plus operand": _plus_operand,
    "plus rank": _plus_rank,
    "shift": _shift,
    "ring": _ring,
    "insert": _insert,
    "insert with": _insert_with,
    "mask": _mask,
    "times": _times,
}
"""What each verb does."""
