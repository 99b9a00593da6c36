"""Edits of a draft by name: what `datalog/conclude/mending/edits.dl` proposes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.ir.vocabulary import GROUPED

from . import blocks, nearby
from .draft import Draft, Edit
from .functions import function
from .inside import turn_inside


def apply(facts: Facts, edits: Iterable[Edit]) -> Facts:
    """A copy of the facts with these edits. InputError where one cannot be made."""
    draft, edits = Draft(facts), list(edits)
    _skip(draft, {edit.target: edit.num for edit in edits if edit.verb == "skip"})
    _exchange(draft, {edit.target: edit.how.split(";")[1] for edit in edits if edit.verb == "exchange"})
    for edit in edits:
        if edit.verb not in ("skip", "exchange"):
            _VERBS[edit.verb](draft, edit)
    return _whole(draft.facts)


def changes(facts: Facts, edit: Edit) -> bool:
    """Whether an edit makes another program of the facts; one that cannot be made alone does."""
    try:
        edited = apply(facts, [edit])
    except InputError:
        return True
    own = [(rows, facts[table]) for table, rows in edited.tables.items() if rows is not facts.tables[table]]
    return any(len(rows) != len(before) or {*rows} != {*before} for rows, before in own)


def _whole(facts: Facts) -> Facts:
    """The facts, where all that is read or given back is an input or made by one op, and in the loop where it is read.
    InputError where it is not."""
    made = [row[2] for table in ("result", "input") for row in facts[table]]
    read = {row[2] for table in ("operand", "output") for row in facts[table]}
    if len({*made}) < len(made) or not read.issubset(made):
        raise InputError("with these edits something is made twice, or read and never made")
    if facts["region"]:
        ops, tensors = ({row[0]: row[1] for row in facts[table]} for table in ("op", "tensor"))
        if any(ops[op] != tensors[tensor] for op, _, tensor in facts["operand"]):
            raise InputError("with these edits something is read in another loop than it is made in")
    return facts


def _scale(draft: Draft, edit: Edit) -> None:
    made = draft.raw(edit.target)
    draft.multiply(made, Fraction(edit.num, edit.den), edit.cause, edit.target)


def _scale_operand(draft: Draft, edit: Edit) -> None:
    operand = draft.operands(edit.target)[edit.num]
    draft.read(edit.target, edit.num, draft.multiply(operand, Fraction(1, edit.den), edit.cause))


def _skip(draft: Draft, kept: Mapping[str, int]) -> None:
    """Ops by id that give the operand at this position as it is: often many, one for each layer or parameter."""
    if not kept:
        return
    read = [row for row in draft.facts["operand"] if kept.get(row[0]) == row[1]]
    for table in ("operand", "attr_number", "attr_symbol", "rank_number", "group", "permute_pair"):
        draft.keep(table, lambda row: row[0] not in kept)
    draft.rows("operand").extend((op, 0, tensor) for op, _, tensor in read)
    rows = draft.rows("op")
    rows[:] = [(op, graph, "reshape" if op in kept else kind) for op, graph, kind in rows]


def _exchange(draft: Draft, given: Mapping[str, str]) -> None:
    """Makers of some tensors make others of them, all at once."""
    if given:
        rows = draft.rows("result")
        rows[:] = [(op, pos, given.get(tensor, tensor)) for op, pos, tensor in rows]


def _give(draft: Draft, edit: Edit) -> None:
    """Another tensor is the output."""
    given, base = edit.how.split(";", 1)
    ((_, graph, _, _),) = [row for row in draft.facts["tensor"] if row[0] == given]
    last = max(pos for owner, pos, _ in draft.facts["output"] if owner == graph)
    draft.rows("output").append((graph, last + 1, given))
    rows = draft.rows("expect")
    rows[:] = [(given, *row[1:]) if row[:2] == (edit.target, base) else row for row in rows]


def _gather_along(draft: Draft, edit: Edit) -> None:
    """Parts along another dim: gathered ones, that a reshape reads; scattered ones of what a reshape makes."""
    (operand,) = draft.operands(edit.target)
    (result,) = [t for op, _, t in draft.facts["result"] if op == edit.target]
    kinds = {op: kind for op, _, kind in draft.facts["op"]}
    gathers = kinds[edit.target] == "all-gather"
    whole, part = (result, operand) if gathers else (operand, result)
    around = [op for op, _, t in draft.facts["operand"] if t == whole] if gathers else [draft.maker(whole)[0]]
    if any(kinds[op] != "reshape" for op in around):
        raise InputError(f"{whole} is read or made as it is")
    before, after = draft.shape(part), draft.shape(whole)
    (dim,) = [row[3] for row in draft.keep("attr_number", lambda row: row[:2] != (edit.target, "dimension"))]
    draft.rows("attr_number").append((edit.target, "dimension", 0, edit.num))
    draft.keep("dim", lambda row: row[0] != whole)
    ranks = after[dim] // before[dim]
    draft.rows("dim").extend((whole, n, size * (ranks if n == edit.num else 1)) for n, size in enumerate(before))


def _reduce(draft: Draft, edit: Edit, reducer: str = "sum") -> None:
    """For all readers but collectives, which may sum it already."""
    collectives = {op for op, _, kind in draft.facts["op"] if kind in GROUPED}
    summed = [(op, pos) for op, pos, t in draft.facts["operand"] if t == edit.target and op in collectives]
    made = draft.raw(edit.target)
    for op, pos in summed:
        draft.read(op, pos, made)
    factor = Fraction(edit.num, edit.den) if reducer == "sum" else Fraction(1)
    draft.sum_over(made, edit.how, edit.cause, factor, edit.target, reducer)


def _combine(draft: Draft, edit: Edit) -> None:
    """As the op that took it of a part: a maximum by maxima, all else by sums."""
    own = {row[3] for row in draft.facts["attr_symbol"] if row[:2] == (edit.cause, "reducer")}
    _reduce(draft, edit, next(iter(own & {"max", "min"}), "sum"))


def _reduce_by(draft: Draft, edit: Edit) -> None:
    axes, reducer = edit.how.split(";")
    _reduce(draft, edit._replace(how=axes), reducer)


def _gather(draft: Draft, edit: Edit) -> None:
    """What repeats a part puts the parts of all ranks side by side."""
    draft.keep("operand", lambda row: row[0] != edit.target or row[1] == 0)
    rows = draft.rows("op")
    rows[:] = [(op, graph, "all-gather" if op == edit.target else kind) for op, graph, kind in rows]
    draft.groups(edit.target, edit.how.split(","))


def _reduce_for(draft: Draft, edit: Edit) -> None:
    axes, asker = edit.how.split(";", 1)
    places = [pos for pos, t in enumerate(draft.operands(asker)) if t == edit.target]
    if not places:
        raise InputError(f"{asker} does not read {edit.target}")
    made = draft.sum_over(edit.target, axes, edit.cause, Fraction(edit.num, edit.den))
    for pos in places:
        draft.read(asker, pos, made)


def _behind(draft: Draft, edit: Edit) -> None:
    reducing, adding = edit.target, edit.how
    operands = draft.operands(adding)
    ((_, _, kind),) = [row for row in draft.facts["op"] if row[0] == adding]
    ((_, _, result),) = [row for row in draft.facts["result"] if row[0] == reducing]
    (made,) = (tensor for op, _, tensor in draft.facts["result"] if op == adding)
    direct = draft.operands(reducing)[:1] == [made]
    operands[1 - edit.num], part = draft.raw(result), operands[1 - edit.num]
    if direct:
        draft.read(reducing, 0, part)
    else:  # it is one of several that are added up before
        _skip(draft, {adding: 1 - edit.num})
    draft.emit(kind, operands, result, adding)


def _term(draft: Draft, edit: Edit) -> None:
    """A term added to what all readers get; two values may each be the other's term."""
    readers = [(op, pos) for op, pos, tensor in draft.facts["operand"] if tensor == edit.target]
    made = draft.like(edit.target)
    for op, pos in readers:
        if edit.how not in draft.operands(op):
            draft.read(op, pos, made)
    draft.emit("add", [edit.target, edit.how], made, edit.cause)


def _regroup(draft: Draft, edit: Edit) -> None:
    draft.groups(edit.target, edit.how.split(","))


def _reducer(draft: Draft, edit: Edit) -> None:
    draft.keep("attr_symbol", lambda row: row[:2] != (edit.target, "reducer"))
    draft.rows("attr_symbol").append((edit.target, "reducer", 0, edit.how))


def _reverse(draft: Draft, edit: Edit) -> None:
    pairs = draft.keep("permute_pair", lambda row: row[0] != edit.target)
    draft.rows("permute_pair").extend((op, target, source) for op, source, target in pairs)


def _send(draft: Draft, edit: Edit) -> None:
    """Every rank's part to another one, before anybody reads it."""
    op = draft.emit("collective-permute", [draft.raw(edit.target)], edit.target, edit.cause)
    pairs = [pair.split(">") for pair in edit.how.split(",")]
    draft.rows("permute_pair").extend((op, int(source), int(to)) for source, to in pairs)


def _send_on(draft: Draft, edit: Edit) -> None:
    """One turn, and permutes, read a value as another permute sends it."""
    permute, reader = edit.how.split(";")
    readers = {op for op, _, kind in draft.facts["op"] if kind == "collective-permute"} | {reader}
    readers = {op for op, _, t in draft.facts["operand"] if t == edit.target} & readers
    made = draft.like(edit.target)
    op = draft.emit("collective-permute", [edit.target], made, edit.cause)
    draft.rows("permute_pair").extend((op, *row[1:]) for row in draft.facts["permute_pair"] if row[0] == permute)
    rows = draft.rows("operand")
    rows[:] = [(o, pos, made if o in readers and t == edit.target else t) for o, pos, t in rows]


def _in_order(draft: Draft, edit: Edit) -> None:
    members: dict[int, list[int]] = {}
    for _, group, _, rank in draft.keep("group", lambda row: row[0] != edit.target):
        members.setdefault(group, []).append(rank)
    for group, ranks in members.items():
        draft.rows("group").extend((edit.target, group, pos, rank) for pos, rank in enumerate(sorted(ranks)))


def _order(dims: int, edit: Edit) -> list[int]:
    """Dims of what is transposed, in the order of the result: one of them moved."""
    order = list(range(dims))
    order.insert(edit.den, order.pop(edit.num))
    return order


def _turn(draft: Draft, edit: Edit) -> None:
    (operand,) = draft.operands(edit.target)
    shape = draft.shape(operand)
    order = _order(len(shape), edit)
    turned = draft.like(operand, [shape[dim] for dim in order])
    draft.emit("transpose", [operand], turned, edit.cause, dimensions=order)
    draft.read(edit.target, 0, turned)


def _turn_behind(draft: Draft, edit: Edit) -> None:
    (result,) = [t for op, _, t in draft.facts["result"] if op == edit.target]
    shape = draft.shape(result)
    order = _order(len(shape), edit)
    before = draft.like(result, [shape[order.index(dim)] for dim in range(len(shape))])
    rows = draft.rows("result")
    rows[:] = [(op, pos, before if op == edit.target else t) for op, pos, t in rows]
    draft.emit("transpose", [before], result, edit.cause, dimensions=order)


def _read(draft: Draft, edit: Edit) -> None:
    draft.read(edit.target, edit.num, edit.how)


def _read_for(draft: Draft, edit: Edit) -> None:
    """All that read one tensor read another one."""
    rows = draft.rows("operand")
    rows[:] = [(op, pos, edit.how if t == edit.target else t) for op, pos, t in rows]


def _literal(draft: Draft, edit: Edit) -> None:
    for table in ("literal", "literal_rational", "literal_hash", "literal_item"):
        draft.keep(table, lambda row: row[0] != edit.target)
        draft.rows(table).extend([(edit.target, *row[1:]) for row in draft.facts[table] if row[0] == edit.how])


def _as(draft: Draft, edit: Edit) -> None:
    for table in ("attr_number", "attr_symbol", "rank_number"):
        draft.keep(table, lambda row: row[0] != edit.target)
        draft.rows(table).extend([(edit.target, *row[1:]) for row in draft.facts[table] if row[0] == edit.how])


def _slice(draft: Draft, edit: Edit) -> None:
    """As many elements along one dim as before, from another one on."""
    ((_, _, result),) = [row for row in draft.facts["result"] if row[0] == edit.target]
    for key, bound in (("start", edit.den), ("limit", edit.den + draft.shape(result)[edit.num])):
        for table in ("attr_number", "rank_number"):
            draft.keep(table, lambda row, key=key: row[:3] != (edit.target, key, edit.num))  # type: ignore[misc]
        draft.rows("attr_number").append((edit.target, key, edit.num, bound))


_VERBS: dict[str, Callable[[Draft, Edit], None]] = {
    "scale": _scale,
    "scale operand": _scale_operand,
    "reduce": _reduce,
    "combine": _combine,
    "reduce by": _reduce_by,
    "gather": _gather,
    "reduce for": _reduce_for,
    "behind": _behind,
    "term": _term,
    "regroup": _regroup,
    "reducer": _reducer,
    "reverse": _reverse,
    "in order": _in_order,
    "send": _send,
    "send on": _send_on,
    "turn": _turn,
    "turn behind": _turn_behind,
    "turn inside": turn_inside,
    "read": _read,
    "read for": _read_for,
    "literal": _literal,
    "as": _as,
    "slice": _slice,
    "give": _give,
    "gather along": _gather_along,
    "function": function,
    **nearby.VERBS,
    **blocks.VERBS,
}
