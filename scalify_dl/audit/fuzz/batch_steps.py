"""Random steps in which the baseline works on blocks of a batch, one after the other, and the distributed side on other
blocks of it, or on all that a rank has."""

from __future__ import annotations

from math import prod

from scalify_dl.ir.graph import Graph, Tensor

from ..pair import spread
from .partitioner_steps import part
from .world import Retry, World, step

FORMS = ["rows", "rows", "product", "by ids"]
MIDDLES = ["none", "bias", "bias", "columns", "scale", "rows", "positions", "cumulative", "softmax", "row bias", "twos"]
MIDDLES += ["attention 0", "attention 1", "gradients 0", "gradients 1", "gradients 2", "halves", "halves"]
ENDS = ["none", "none", "half", "number", "over", "negate", "turned", "plus", "abs", "shared", "twice", "own"]


@step("batches-on-both-sides", 0.4)
def batches_on_both_sides(w: World) -> None:
    """Both sides add up what blocks of a batch give; each has blocks of its own."""
    blocks = w.rng.choice([2, 2, 3, 4])
    width = w.rng.choice([1, 2])
    count = blocks * width * 2
    shape = [count, 2]
    placed = w.layout(shape, pending=False)
    x = w.input("f32", shape=shape, layout=placed)
    weight = w.input("f32", shape=[2, 2], layout=w.pair.layout([2, 2], {}))
    bias = w.input("f32", shape=[2], layout=w.pair.layout([2], {}))
    rows = w.input("f32", shape=[count // blocks], layout=w.pair.layout([count // blocks], {}))
    number = w.input("f32", shape=[], layout=w.pair.layout([], {}))
    if len(x.dist.shape) != 2 or x.dist.shape[1] != 2:
        raise Retry
    form, middle, end = w.rng.choice(FORMS), w.rng.choice(MIDDLES), w.rng.choice(ENDS)
    reducer = w.rng.choice(["sum", "sum", "sum", "sum", "max"])
    stacked = w.chance(0.3)
    axis = w.rng.choice([0, 0, 0, 1])  # of the rows in blocks of [blocks, rows] or [rows, blocks]
    made = []
    sides = [(w.base, x.base, weight.base, bias.base, rows.base, number.base)]
    sides.append((w.dist, x.dist, weight.dist, bias.dist, rows.dist, number.dist))
    odd = w.rng.choice(["left out", "again", "late", "other", "turned round"]) if w.slip() else None
    anew = w.chance(0.2)
    for g, y, v, b, r, n in sides:
        k = blocks if g is w.base else w.rng.choice([1, blocks, 2])
        size = y.shape[0] // k
        if size * k != y.shape[0] or not size:
            raise Retry
        turns = []
        for turn in range(k):
            lo = turn * size
            if g is w.base and odd == "late" and turn == 0 and size > 1:
                lo += 1
            if g is w.base and odd == "again" and turn == 1:
                lo = 0
            if axis and g is w.base and size > 1:
                apart = w.emit(g, "reshape", [y], shape=[k, size, 2])
                mine = w.emit(g, "reshape", [part(g, apart, 0, turn, turn + 1)], shape=[size, 2])
            else:
                mine = part(g, y, 0, lo, min(lo + size, y.shape[0])) if k > 1 else y
            end_here = "abs" if odd == "other" and turn == 1 and g is w.base else end
            v_here = _written_anew(w, g, v, odd == "turned round" and turn == 1) if anew and g is w.dist else v
            turns.append(_turn(w, g, mine, (v_here, b, r, n), (form, middle, end_here, reducer), float(turn)))
        if odd == "left out" and g is w.base and k > 1:
            turns = turns[1:]
        if stacked:
            rows_of = [w.emit(g, "reshape", [turn], shape=[prod(turn.shape)]) for turn in turns]
            row = w.emit(g, "concatenate", rows_of, dimension=0) if len(turns) > 1 else rows_of[0]
            made.append(w.emit(g, "reduce", [row], dimensions=[0], reducer=reducer))
            continue
        w.rng.shuffle(turns)
        total = turns[0]
        for other in turns[1:]:
            total = w.emit(g, "add" if reducer == "sum" else "maximum", [total, other])
        made.append(total)
    w.add(made[0], made[1])
    axes = [a for a in w.axes() if w.chance(0.9)]
    if axes:
        w.add(made[0], w.emit(w.dist, "all-reduce", [made[1]], reducer=reducer, groups=w.pair.groups(*axes)))


def _written_anew(w: World, g: Graph, x: Tensor, odd: bool) -> Tensor:
    """What is written, one half after the other, into memory of its own; an odd one has them the other way round."""
    flat = w.emit(g, "reshape", [x], shape=[prod(x.shape)])
    half = prod(x.shape) // 2
    halves = [part(g, flat, 0, 0, half), part(g, flat, 0, half, 2 * half)]
    row = g.emit("empty", [], dtype="f32", shape=flat.shape)
    for lo, value in zip((0, half), halves[::-1] if odd else halves, strict=True):
        rest = part(g, row, 0, half - lo, 2 * half - lo)
        row = w.emit(g, "concatenate", [value, rest] if lo == 0 else [rest, value], dimension=0)
    return w.emit(g, "reshape", [row], shape=x.shape)


def _turn(
    w: World, g: Graph, x: Tensor, others: tuple[Tensor, ...], ways: tuple[str, str, str, str], turn: float
) -> Tensor:
    """What one block gives."""
    weight, bias, rows, number = others
    form, middle, end, reducer = ways
    h = w.emit(g, "dot", [x, weight], lhs_contracting_dims=[1], rhs_contracting_dims=[0])
    if middle in ("bias", "rows", "row bias"):
        other = bias if middle == "bias" else rows
        if other is rows and rows.shape != h.shape[:1]:
            raise Retry
        wide = spread(g, other, h.shape, [int(middle == "bias")])
        h = w.emit(g, "add" if middle != "rows" else "multiply", [wide, h])
    if middle in ("columns", "positions"):
        at = g.emit("iota", [], dtype="f32", shape=h.shape, dimension=int(middle == "columns"))
        h = w.emit(g, "multiply", [h, at])
    if middle == "twos":  # a number that is computed of the block
        many = w.emit(g, "reduce", [g.splat(1.0, "f32", h.shape)], dimensions=[1], reducer="sum")
        two = spread(g, g.constant(w.rng.choice([2.0, 2.0, 1.0]), "f32"), h.shape, [])
        at = g.emit("iota", [], dtype="s32", shape=h.shape, dimension=1)
        ids = w.emit(g, "multiply", [w.emit(g, "convert", [many], dtype="s32"), g.splat(0, "s32", many.shape)])
        hot = w.emit(g, "compare", [spread(g, ids, h.shape, [0]), at], direction="EQ")
        twos = w.emit(g, "reduce", [w.emit(g, "select", [hot, two, g.splat(0.0, "f32", h.shape)])], dimensions=[1],
                      reducer="sum")  # fmt: skip
        h = w.emit(g, "multiply", [h, spread(g, twos, h.shape, [0])])
    if middle == "scale":
        h = w.emit(g, "multiply", [spread(g, w.emit(g, "tanh", [number]), h.shape, []), h])
    if middle == "cumulative":
        h = w.emit(g, "cumulative", [h], dimension=0, reducer="sum", reverse=0)
    if middle == "softmax":
        most = w.emit(g, "reduce", [h], dimensions=[w.rng.choice([0, 1, 1])], reducer="max")
        h = w.emit(g, "subtract", [h, spread(g, most, h.shape, [0 if most.shape == h.shape[:1] else 1])])
    if middle.startswith(("attention", "gradients")):
        h = _attention(w, g, h, middle.startswith("gradients"), int(middle[-1]))
    if middle == "halves":  # as many as there are blocks, now and then
        gate, up = (part(g, h, 1, n, n + 1) for n in range(2))
        h = w.emit(g, "concatenate", [up, w.emit(g, "multiply", [gate, up])], dimension=1)
    h = w.emit(g, "sine", [h])
    if form == "rows":
        out = w.emit(g, "reduce", [h], dimensions=[0], reducer=reducer)
    elif form == "product":
        out = w.emit(g, "dot", [h, x], lhs_contracting_dims=[0], rhs_contracting_dims=[0])
    else:
        above = w.emit(g, "compare", [x, g.splat(0.0, "f32", x.shape)], direction="GT")
        ids = w.emit(g, "reduce", [w.emit(g, "convert", [above], dtype="s32")], dimensions=[1], reducer="sum")
        into = g.splat(0.0, "f32", (4, 2)) if w.chance(0.7) else spread(g, bias, [4, 2], [1])
        out = w.emit(g, "scatter", [into, ids, h], update_window_dims=[1], inserted_window_dims=[0],
                     scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer="sum")  # fmt: skip
    if end == "half":
        out = w.emit(g, "multiply", [out, g.splat(0.5, "f32", out.shape)])
    if end in ("number", "over"):
        kind = "multiply" if end == "number" else "divide"
        out = w.emit(g, kind, [out, spread(g, number, out.shape, [])])
    if end in ("negate", "abs"):
        out = w.emit(g, end, [out])
    if end == "turned" and len(out.shape) == 2:
        out = w.emit(g, "transpose", [out], dimensions=[1, 0])
    if end == "plus":
        out = w.emit(g, "add", [out, g.splat(1.0, "f32", out.shape)])
    if end == "shared":
        out = w.emit(g, "add", [out, spread(g, number, out.shape, [])])
    if end == "twice":
        out = w.emit(g, "subtract", [out, w.emit(g, "negate", [out])])
    if end == "own":
        out = w.emit(g, "multiply", [out, g.splat(1.0 + turn, "f32", out.shape)])
    return out


def _attention(w: World, g: Graph, h: Tensor, gradients: bool, which: int) -> Tensor:
    """Attention among the columns of every row, by an op of several results, or its gradients: that result."""
    x = w.emit(g, "reshape", [h], shape=[h.shape[0], 1, 2, 1])
    symbols, numbers = {"scale": ["0.5"]}, {"causal": [int(not gradients)]}
    kind, operands, types = "attention", [x, x, x], [("f32", x.shape), ("f32", x.shape[:3])]
    made = g.add(kind, operands, types, symbols=symbols, numbers=numbers).results
    if gradients:
        kind, operands, types = "attention-backward", [x, x, x, x, *made], [("f32", x.shape)] * 3
        made = g.add(kind, operands, types, symbols=symbols, numbers=numbers).results
    return w.emit(g, "reshape", [made[which]], shape=h.shape)
