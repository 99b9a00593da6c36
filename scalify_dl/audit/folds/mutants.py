"""Wrong plans: one row changed, or the same change on all ranks and micro-batches of an op."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from .edited import Edited, Row

Mutation = Callable[[Edited, random.Random], str]

COLUMNS = {
    "p_in": (2,), "p_out": (2,), "p_op": (2, 3, 4, 7), "p_coll_member": (2,), "p_p2p": (1, 2), "p_sub_slice": (4, 5),
    "p_attr": (3,), "p_const": (3,), "p_wred": (2,), "p_mesh": (2, 4), "p_tensor": (3, 4, 5), "p_coll": (3,),
    "p_grad_of": (1, 2), "p_full": (4, 6, 7), "p_sub_val": (2, 3),
}  # fmt: skip
"""What a change of one cell may be: table → columns."""


def cell(t: Edited, rng: random.Random) -> str:
    """One row: dropped, a column exchanged with another row's, or taken from it."""
    table = rng.choice([name for name in sorted(COLUMNS) if t.tables[name]])
    rows = t.tables[table]
    row = rng.choice(rows)
    before, column, how = list(row), rng.choice(COLUMNS[table]), rng.randrange(4)
    if how == 0:
        rows.remove(row)
    elif how == 1:
        other = rng.choice(rows)
        row[column], other[column] = other[column], row[column]
    else:
        row[column] = rng.choice(rows)[column]
    return f"{table}: {before} -> {row} ({how})"


def operand(t: Edited, rng: random.Random) -> str:
    """An op reads another tensor of the same shape: here alone, or on all places where that is there."""
    shapes = _shapes(t)
    row = rng.choice(t.tables["p_in"])
    tensor = {r[0]: r for r in t.tables["p_tensor"]}
    here = tensor.get(row[2])
    if here is None:  # an earlier mutation took its row
        return cell(t, rng)
    fitting = [x for x, r in tensor.items() if shapes.get(r[4]) == shapes.get(here[4]) and r[2] == here[2]]
    new = tensor[rng.choice(fitting)]
    places = [row]
    if rng.random() < 0.6:
        places = [r for op in _same(t, row[0]) for r in t.of("p_in", op) if r[1] == row[1]]
    by_key = {(r[2], r[3], r[4], r[5]): x for x, r in tensor.items()}
    shift = int(new[3]) - int(here[3])
    for one in places:
        old = tensor.get(one[2], here)
        one[2] = by_key.get((old[2], str(int(old[3]) + shift), new[4], new[5]), one[2])
    return f"operand {row[1]} of {row[0]}: {new[0]} ({len(places)})"


def dropped(t: Edited, rng: random.Random) -> str:
    """An op is not there; what read its result reads its operand, or the result of another rank's op stays away."""
    op = rng.choice(t.tables["p_op"])[0]
    ops = _same(t, op) if rng.random() < 0.6 else [op]
    for one in ops:
        if len(t.of("p_in", one)) and len(t.of("p_out", one)) == 1 and rng.random() < 0.9:
            source, result = t.of("p_in", one)[0][2], t.of("p_out", one)[0][2]
            for row in t.tables["p_in"]:
                row[2] = source if row[2] == result else row[2]
        t.drop([one])
    return f"without {op} ({len(ops)})"


def kind(t: Edited, rng: random.Random) -> str:
    """An adapter of another kind, an op of another kind of as many operands."""
    row = rng.choice(t.tables["p_op"])
    other = rng.choice([r for r in t.tables["p_op"] if len(t.of("p_in", r[0])) == len(t.of("p_in", row[0]))])[7]
    ops = _same(t, row[0]) if rng.random() < 0.6 else [row[0]]
    for op in ops:
        t.change("p_op", op, 7, other)
        for coll in t.of("p_coll", op):
            coll[2] = other
        if other == "IdentityPrim":
            t.change("p_op", op, 6, other)
    return f"{row[0]} is {other} ({len(ops)})"


def members(t: Edited, rng: random.Random) -> str:
    """Members turned round, or one lost, or all of another op."""
    grouped = sorted({row[0] for row in t.tables["p_coll_member"]})
    if not grouped:
        return cell(t, rng)
    op, how = rng.choice(grouped), rng.randrange(3)
    ops = _same(t, op) if rng.random() < 0.6 else [op]
    for one in ops:
        old = [int(row[2]) for row in t.of("p_coll_member", one)]
        if not old:
            continue
        new = old[::-1] if how == 0 else old[:-1] or old
        if how == 2:
            new = [int(row[2]) for row in t.of("p_coll_member", rng.choice(grouped))]
        t.members(one, new)
    return f"members of {op}: {how} ({len(ops)})"


def order(t: Edited, rng: random.Random) -> str:
    """Two ops of a rank change places: next to each other, or any two."""
    row = rng.choice(t.tables["p_op"])
    mine = sorted((r for r in t.tables["p_op"] if r[2] == row[2]), key=lambda r: int(r[4]))
    a = mine.index(row)
    b = min(a + rng.choice((1, 1, 2, 3)), len(mine) - 1) if rng.random() < 0.7 else rng.randrange(len(mine))
    mine[a][4], mine[b][4] = mine[b][4], mine[a][4]
    return f"{mine[a][0]} and {mine[b][0]} changed places"


def constant(t: Edited, rng: random.Random) -> str:
    """Another constant."""
    if not t.tables["p_const"]:
        return cell(t, rng)
    op = rng.choice(t.tables["p_const"])[0]
    ops = _same(t, op) if rng.random() < 0.6 else [op]
    for one in ops:
        for row in t.of("p_const", one):
            row[3] = "3"
    return f"constant of {op} ({len(ops)})"


def weights(t: Edited, rng: random.Random) -> str:
    """Two weights of one shape are each other, in forward or backward ops, or both."""
    fulls = [r for r in t.tables["p_full"] if r[6] == "1"]
    one = rng.choice(fulls)
    other = rng.choice([r for r in fulls if r[4] == one[4]])
    names = {one[1]: other[1], other[1]: one[1]}
    spans: dict[tuple[str, tuple[str, ...]], str] = {}
    for tid in {r[1]: None for r in t.tables["p_sub_slice"]}:
        rows = [r for r in t.tables["p_sub_slice"] if r[1] == tid]
        spans[rows[0][2], tuple(x for r in rows for x in r[3:6])] = tid
    swap = {tid: spans.get((names[full], cut), tid) for (full, cut), tid in spans.items() if full in names}
    tensor = {r[0]: r for r in t.tables["p_tensor"]}
    by_key = {(r[2], r[4]): x for x, r in tensor.items() if r[6] == "1"}
    direction = {r[0]: r[8] for r in t.tables["p_op"]}
    which = rng.choice((("fw",), ("bw",), ("fw", "bw")))
    for row in t.tables["p_in"]:
        old = tensor.get(row[2])
        if old and old[6] == "1" and old[4] in swap and direction[row[0]] in which:
            row[2] = by_key.get((old[2], swap[old[4]]), row[2])
    return f"{one[2]} and {other[2]} are each other in {' and '.join(which)}"


def again(t: Edited, rng: random.Random) -> str:
    """An op runs a second time: on what it made, which its readers or nobody gets, or beside itself for nobody."""
    tensors = {row[0]: row for row in t.tables["p_tensor"]}
    read_by, made_by = (Counter(row[0] for row in t.tables[name]) for name in ("p_in", "p_out"))
    known = {row[0] for row in t.tables["p_out"] if row[2] in tensors}
    known -= {name.removesuffix(".again") for name in known if name.endswith(".again")}  # those ran a second time
    fitting = [row[0] for row in t.tables["p_op"] if read_by[row[0]] == made_by[row[0]] == 1 and row[0] in known]
    if rng.random() < 0.5:
        fitting = [op for op in {row[0]: None for row in t.tables["p_wred"]} if op in fitting] or fitting
    if not fitting:
        return cell(t, rng)
    op, behind, read = rng.choice(fitting), rng.random() < 0.7, rng.random() < 0.7
    ops = [one for one in _same(t, op) if one in fitting] if rng.random() < 0.6 else [op]
    for row in t.tables["p_op"]:
        row[4] = str(2 * int(row[4]))
    for one in ops:
        ((_, _, source),), ((_, _, result),) = t.of("p_in", one), t.of("p_out", one)
        more, made = f"{one}.again", f"{result}.again"
        for row in t.tables["p_in"]:
            row[2] = made if row[2] == result and behind and read else row[2]
        t.tables["p_tensor"].append([made, *tensors[result][1:5], f"{int(tensors[result][5]) + 1000}", "0"])
        for table in ("op", "attr", "const", "coll", "coll_member", "p2p", "adapter", "wred"):
            t.tables[f"p_{table}"] += [[more, *row[1:]] for row in t.of(f"p_{table}", one)]
        t.change("p_op", more, 4, lambda seq: str(int(seq) + 1))
        t.tables["p_in"].append([more, "0", result if behind else source])
        t.tables["p_out"].append([more, "0", made])
    return f"{op} again, {'behind' if behind else 'beside'} ({len(ops)})"


MUTATIONS: tuple[tuple[Mutation, int], ...] = (
    (cell, 6), (operand, 5), (dropped, 3), (kind, 2), (members, 3), (order, 3), (constant, 1), (weights, 1), (again, 3),
)  # fmt: skip


def mutate(t: Edited, rng: random.Random) -> str:
    """One mutation; what it is."""
    (how,) = rng.choices([m for m, _ in MUTATIONS], [w for _, w in MUTATIONS])
    return how(t, rng)


def _shapes(t: Edited) -> dict[str, tuple[str, ...]]:
    out: dict[str, tuple[str, ...]] = {}
    for row in t.tables["p_sub_slice"]:
        out[row[1]] = (*out.get(row[1], ()), str(int(row[5]) - int(row[4])))
    return out


def _same(t: Edited, op: str) -> list[str]:
    """The op on all its ranks and micro-batches."""
    row: Row = next(r for r in t.tables["p_op"] if r[0] == op)
    return [r[0] for r in t.tables["p_op"] if r[5:9] == row[5:9]]
