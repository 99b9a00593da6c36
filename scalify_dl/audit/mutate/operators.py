"""Ways to break a distributed graph, on its fact tables.

Each operator yields mutants: (description, tables). Only rows of the distributed top-level graphs are touched,
shapes stay as they are, and operands always come before their users.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction

from scalify_dl.ir.vocabulary import COLLECTIVES

from .view import Tables, View

Mutant = tuple[str, Tables]
Operator = Callable[[View, random.Random], Iterator[Mutant]]
OPERATORS: dict[str, Operator] = {}


def operator(function: Operator) -> Operator:
    """Registers an operator under its name."""
    OPERATORS[function.__name__.replace("_", "-")] = function
    return function


@operator
def drop_collective(v: View, rng: random.Random) -> Iterator[Mutant]:
    """Users of a collective's result take its operand."""
    for op in v.ops(*COLLECTIVES):
        edges = v.bypass(op, v.operands[op][0])
        if edges:
            yield f"{op} dropped", v.edit(operand=v.rewired(edges))


@operator
def duplicate_collective(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A shape-preserving collective is done twice."""
    for op in v.ops("all-reduce", "collective-permute"):
        yield f"{op} doubled", _insert_after(v, op, v.kind[op], copy_of=op)


def _insert_after(v: View, op: str, kind: str, copy_of: str | None = None) -> Tables:
    """A new one-operand op behind `op` takes over its users."""
    result, new = v.results[op][0], f"{op}+again"
    graph = next(g for o, g, _ in v.tables["op"] if o == op)
    dtype, shape = v.type[result]
    at = v.order[op] + 1 + next(i for i, (o, _, _) in enumerate(v.tables["op"]) if o in v.kind)
    ops = [*v.tables["op"][:at], (new, graph, kind), *v.tables["op"][at:]]
    tables = v.edit(
        op=ops,
        operand=[*v.rewired(dict.fromkeys(v.users[result], new)), (new, 0, result)],
        result=[*v.tables["result"], (new, 0, new)],
        tensor=[*v.tables["tensor"], (new, graph, dtype, len(shape))],
        dim=[*v.tables["dim"], *((new, i, n) for i, n in enumerate(shape))],
        output=[(g, p, new if t == result else t) for g, p, t in v.tables["output"]],
        expect=[(new if d == result else d, b, x) for d, b, x in v.tables["expect"]],
    )
    if copy_of:
        for table in ("attr_number", "attr_symbol", "group", "permute_pair", "rank_number"):
            tables[table] = [*v.tables[table], *((new, *r[1:]) for r in v.tables[table] if r[0] == copy_of)]
    return tables


@operator
def wrong_reducer(v: View, rng: random.Random) -> Iterator[Mutant]:
    """Another reduction in a collective or a reduce."""
    for op in v.ops("all-reduce", "reduce-scatter", "reduce", "cumulative"):
        old = v.symbols.get((op, "reducer"))
        for new in ("sum", "max", "min", "prod"):
            if old in ("sum", "max", "min", "prod") and new != old:
                yield f"{op}: {old} → {new}", v.edit(attr_symbol=v.with_symbol(op, "reducer", new))


@operator
def wrong_group(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A collective over other ranks."""
    for op in v.ops("all-reduce"):
        groups = list(v.groups[op].values()) or [v.ranks]
        size = len(groups[0])
        candidates = [[[r] for r in v.ranks], [v.ranks]]
        if 2 <= size < len(v.ranks):
            count = len(v.ranks) // size
            candidates.append([v.ranks[i::count] for i in range(count)])
            candidates.append([v.ranks[i * size : (i + 1) * size] for i in range(count)])
        if size >= 4:
            candidates.append([half for g in groups for half in (g[: size // 2], g[size // 2 :])])
        for new in candidates:
            if sorted(map(sorted, new)) != sorted(map(sorted, groups)):
                yield f"{op}: groups {new}", v.edit(group=v.with_groups(op, new))


@operator
def wrong_group_order(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A gather, scatter or all-to-all in another order of ranks."""
    for op in v.ops("all-gather", "reduce-scatter", "all-to-all", "collective-broadcast"):
        groups = list(v.groups[op].values())
        reordered = {"reversed": [g[::-1] for g in groups], "rotated": [g[1:] + g[:1] for g in groups]}
        for name, new in reordered.items():
            if new != groups:
                yield f"{op}: groups {name}", v.edit(group=v.with_groups(op, new))
    for op in v.ops("collective-permute"):
        pairs = [(s, t) for o, s, t in v.tables["permute_pair"] if o == op]
        rest = [r for r in v.tables["permute_pair"] if r[0] != op]
        yield f"{op}: pairs turned round", v.edit(permute_pair=[*rest, *((op, t, s) for s, t in pairs)])
        yield f"{op}: one pair missing", v.edit(permute_pair=[*rest, *((op, s, t) for s, t in pairs[1:])])


@operator
def shift_slice(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A slice at another offset, of the same size."""
    for op in v.ops("slice"):
        _, shape = v.type.get(v.operands[op][0], ("", ()))
        start, limit = v.numbers[op, "start"], v.numbers[op, "limit"]
        if len(start) != len(shape):
            continue
        for dim, n in enumerate(shape):
            width = limit[dim] - start[dim]
            for shift in {1, -1, width, -width, -start[dim]}:
                if shift and start[dim] + shift >= 0 and limit[dim] + shift <= n:
                    a, b = list(start), list(limit)
                    a[dim], b[dim] = a[dim] + shift, b[dim] + shift
                    numbers = View(v.edit(attr_number=v.with_numbers(op, "start", a))).with_numbers(op, "limit", b)
                    yield f"{op}: dim {dim} shifted by {shift}", v.edit(attr_number=numbers)


@operator
def shift_offset_on_a_rank(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A rank-dependent number, changed on one rank or on all."""
    focus = set(v.focus)
    rows = [r for r in v.tables["rank_number"] if r[0] in focus]
    for op, key, pos, rank, value in rng.sample(rows, min(40, len(rows))):
        for delta in (1, -1):
            new = [(*r[:4], value + delta) if r[:4] == (op, key, pos, rank) else r for r in v.tables["rank_number"]]
            yield f"{op}: {key} on rank {rank} {delta:+}", v.edit(rank_number=new)
    for op, key, pos in dict.fromkeys(r[:3] for r in rows):
        mine = [r for r in rows if r[:3] == (op, key, pos)]
        turned = {r[3]: s[4] for r, s in zip(mine, mine[1:] + mine[:1], strict=True)}
        new = [(*r[:4], turned[r[3]]) if r[:3] == (op, key, pos) else r for r in v.tables["rank_number"]]
        yield f"{op}: {key} rotated over the ranks", v.edit(rank_number=new)


@operator
def permute_dims(v: View, rng: random.Random) -> Iterator[Mutant]:
    """Another order of dims (of equal size), another broadcast or iota dim, another reduced or contracted dim."""
    for op in v.ops("transpose", "broadcast", "reduce", "reverse"):
        dims = v.numbers[op, "dimensions"]
        if v.kind[op] == "broadcast":
            source, target = v.type[v.operands[op][0]][1], v.type[v.results[op][0]][1]
            for i, d in enumerate(dims):
                for e, n in enumerate(target):
                    new = [*dims[:i], e, *dims[i + 1 :]]
                    if e != d and n == source[i] and new == sorted(set(new)):
                        yield f"{op}: dims {new}", v.edit(attr_number=v.with_numbers(op, "dimensions", new))
            continue
        shape = v.type[v.operands[op][0]][1]
        for i in range(len(dims)):
            for e in range(len(shape)):
                new = [*dims[:i], e, *dims[i + 1 :]]
                if v.kind[op] == "transpose":
                    j = dims.index(e)
                    new = list(dims)
                    new[i], new[j] = new[j], new[i]
                    if j <= i:
                        continue
                if e != dims[i] and len(set(new)) == len(new) and shape[e] == shape[dims[i]]:
                    yield f"{op}: dims {new}", v.edit(attr_number=v.with_numbers(op, "dimensions", new))
    for op in v.ops("iota", "cumulative", "concatenate", "all-gather", "reduce-scatter"):
        (old,) = v.numbers[op, "dimension"] or [0]
        for e, n in enumerate(v.type[v.results[op][0]][1]):
            if e != old and n == v.type[v.results[op][0]][1][old] and v.kind[op] in ("iota", "cumulative"):
                yield f"{op}: dim {e}", v.edit(attr_number=v.with_numbers(op, "dimension", [e]))
    for op in v.ops("dot"):
        for side, which in ((0, "lhs_contracting_dims"), (1, "rhs_contracting_dims")):
            shape, dims = v.type[v.operands[op][side]][1], v.numbers[op, which]
            batch = v.numbers[op, which.replace("contracting", "batch")]
            for i, d in enumerate(dims):
                for e, n in enumerate(shape):
                    if e not in dims and e not in batch and n == shape[d]:
                        new = [*dims[:i], e, *dims[i + 1 :]]
                        yield f"{op}: {which} {new}", v.edit(attr_number=v.with_numbers(op, which, new))


@operator
def swap_operands(v: View, rng: random.Random) -> Iterator[Mutant]:
    """Two operands of one type change places."""
    for op in v.ops():
        xs = v.operands[op]
        for i in range(len(xs)):
            for j in range(i + 1, len(xs)):
                if xs[i] != xs[j] and v.type.get(xs[i]) == v.type.get(xs[j]):
                    yield (
                        f"{op}: operands {i}, {j} swapped",
                        v.edit(operand=v.rewired({(op, i): xs[j], (op, j): xs[i]})),
                    )


@operator
def other_parameter(v: View, rng: random.Random) -> Iterator[Mutant]:
    """An op uses another input of the same type."""
    focus = set(v.focus)
    for x in v.inputs:
        for y in v.inputs:
            if x != y and v.type[x] == v.type[y]:
                for use in (u for u in v.users[x] if u[0] in focus):
                    yield f"{use[0]}: input {y} instead of {x}", v.edit(operand=v.rewired({use: y}))


@operator
def other_constant(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A changed scalar constant."""
    for op in v.ops("constant"):
        tensor = v.results[op][0]
        text = next((x for t, x in v.tables["literal"] if t == tensor), None)
        dtype = v.type[tensor][0]
        try:
            value = Fraction(text) if text else None
        except ValueError:
            value = None
        if value is None:
            continue
        integer = dtype[0] in "sup"
        changed = {value + 1, value - 1, -value} if integer else {value * 2, value + 1, -value, value / 10}
        for new in sorted(changed - {value}):
            if (dtype == "pred" and new not in (0, 1)) or (dtype[0] == "u" and new < 0):
                continue
            yield f"{op}: {text} → {float(new)}", _with_constant(v, tensor, new)


def _with_constant(v: View, tensor: str, value: Fraction) -> Tables:
    text = str(value.numerator) if value.denominator == 1 else repr(float(value))
    exact = Fraction(text)
    rational = [r for r in v.tables["literal_rational"] if r[0] != tensor]
    if abs(exact.numerator) < 2**31 and exact.denominator < 2**31:
        rational.append((tensor, exact.numerator, exact.denominator))
    return v.edit(
        literal=[(t, text if t == tensor else x) for t, x in v.tables["literal"]],
        literal_rational=rational,
        literal_item=[(t, i, int(value) if t == tensor else n) for t, i, n in v.tables["literal_item"]],
    )


@operator
def other_direction(v: View, rng: random.Random) -> Iterator[Mutant]:
    """Another comparison."""
    for op in v.ops("compare"):
        for new in ("EQ", "NE", "LT", "LE", "GT", "GE"):
            if new != v.symbols[op, "direction"]:
                yield f"{op}: {new}", v.edit(attr_symbol=v.with_symbol(op, "direction", new))


SIMILAR = [
    ("add", "subtract", "multiply", "maximum", "minimum", "divide"), ("sine", "cosine", "tanh", "logistic",
    "exponential", "negate"),
    ("and", "or", "xor"), ("rsqrt", "sqrt"), ("gelu", "gelu-tanh", "relu", "softplus"),
]  # fmt: skip


@operator
def other_kind(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A similar op in its place."""
    for op in v.focus:
        kind = v.kind[op]
        dtype = v.type[v.results[op][0]][0] if v.results[op] else ""
        for family in SIMILAR:
            if (kind in family and dtype != "pred") or (family[0] == "and" and kind in family):
                for new in family:
                    if new != kind and not (dtype[0] in "su" and new in ("divide", "sine", "cosine")):
                        yield f"{op}: {kind} → {new}", v.edit(op=v.with_kind(op, new))


@operator
def round_in_between(v: View, rng: random.Random) -> Iterator[Mutant]:
    """A value goes through a narrower type."""
    narrower = {"f64": "f32", "f32": "bf16", "f16": "f8e4m3fn", "bf16": "f8e4m3fn"}
    for op in v.focus:
        kind = v.kind[op]
        if kind == "convert" or not v.results[op] or v.type[v.results[op][0]][0] not in narrower:
            continue
        first = View(_insert_after(v, op, "convert"))
        middle = f"{op}+again"
        narrow = narrower[v.type[v.results[op][0]][0]]
        tables = _insert_after(first, middle, "convert")
        tables["tensor"] = [(t, g, narrow if t == middle else d, r) for t, g, d, r in tables["tensor"]]
        yield f"{op}: through {narrow}", tables


@operator
def rewire(v: View, rng: random.Random) -> Iterator[Mutant]:
    """An edge to another tensor of the same type."""
    by_type: dict[object, list[str]] = defaultdict(list)
    for tensor, kind in v.type.items():
        by_type[kind].append(tensor)
    for op in v.ops():
        for pos, x in enumerate(v.operands[op]):
            others = [t for t in by_type[v.type[x]] if t != x and v.order.get(v.maker.get(t, ""), -1) < v.order[op]]
            for other in rng.sample(others, min(3, len(others))):
                yield f"{op}: operand {pos} is {other}", v.edit(operand=v.rewired({(op, pos): other}))


@operator
def drop_op(v: View, rng: random.Random) -> Iterator[Mutant]:
    """Users of an op take one of its operands: a lost residual, activation, scale, mask."""
    for op in v.focus:
        kind = v.kind[op]
        if kind in COLLECTIVES or not v.results[op]:
            continue
        for operand in dict.fromkeys(v.operands[op]):
            edges = v.bypass(op, operand)
            if edges:
                yield f"{op} ({kind}) replaced by its operand {operand}", v.edit(operand=v.rewired(edges))


@operator
def across_collective(v: View, rng: random.Random) -> Iterator[Mutant]:
    """An op behind a shape-preserving collective moves before it."""
    for op in v.ops("all-reduce"):
        x, y = v.operands[op][0], v.results[op][0]
        if y in v.outputs or len(v.users[y]) != 1:
            continue
        user, pos = v.users[y][0]
        if len(v.results[user]) != 1 or v.type[v.results[user][0]] != v.type[y] or v.kind[user] in COLLECTIVES:
            continue
        z = v.results[user][0]
        edges = {(user, pos): x, (op, 0): z, **dict.fromkeys(v.users[z], y)}
        rows = [r for r in v.tables["op"] if r[0] != op]
        at = next(i for i, r in enumerate(rows) if r[0] == user) + 1
        me = next(r for r in v.tables["op"] if r[0] == op)
        tables = v.edit(operand=v.rewired(edges), op=[*rows[:at], me, *rows[at:]])
        tables["output"] = [(g, p, y if t == z else t) for g, p, t in v.tables["output"]]
        tables["expect"] = [(y if d == z else d, b, e) for d, b, e in v.tables["expect"]]
        yield f"{user} moved before {op}", tables


@operator
def other_placement(v: View, rng: random.Random) -> Iterator[Mutant]:
    """The ranks hold their parts of an input in another order: what the program was not written for."""
    axes = [(axis, size) for axis, _, size in v.tables["mesh_axis"] if size > 1]
    for i, (dist, piece, base, base_piece, layout, why) in enumerate(v.tables["shard"]):
        for axis, size in axes:
            marker = f"|{axis}="
            head, _, tail = layout.partition(marker)
            entry, bar, rest = tail.partition("|")
            if ":" not in entry or "," in entry:
                continue
            dim, _, size_text = entry.partition(":")
            stride = int(size_text.split("x")[0])
            old = f"{dim}:1x{stride}"
            if f"[{old}]" in head and stride > 1:
                new = head.replace(f"[{old}]", f"[{dim}:{size}x{stride}]") + f"{marker}{dim}:1x{size}{bar}{rest}"
                rows = list(v.tables["shard"])
                rows[i] = (dist, piece, base, base_piece, new, why)
                yield f"input {dist} interleaved over {axis}", v.edit(shard=rows)
