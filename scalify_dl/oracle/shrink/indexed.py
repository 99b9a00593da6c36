"""Constraints of indexed access, order, attention and control flow."""

from __future__ import annotations

from scalify_dl.ir.alike import windows

from ..program import Op
from .constraints import Shapes, rule


def _windows(s: Shapes, op: Op) -> set[int]:
    """Windows are made of the blocks of their dims; the dims of which they are all."""
    s.alike(op)
    full = set()
    for d, whole, part in windows(s.around(op)):
        if s.extents.size(whole) == s.extents.size(part):
            s.extents.same(whole, part)
            full.add(d)
        else:
            s.extents.units(whole, part)
    return full


@rule("gather", "scatter")
def indexed(s: Shapes, op: Op) -> None:
    """Along a dim of which less than all is taken, the indices count."""
    x, indices = (s.dims(t) for t in op.operands[:2])
    full, at = _windows(s, op), op.number("index_vector_dim", 0)[0]
    for dim in indices[at : at + 1]:
        s.extents.keep(dim)
    for d in op.number("start_index_map" if op.kind == "gather" else "scatter_dims_to_operand_dims", 0, []):
        if d not in full and s.extents.size(x[d]) != 1:
            s.same_counts([op.operands[1]], x[d])
    s.same_counts([op.operands[0], *op.operands[2:], op.results[0]])


@rule("dynamic-slice", "dynamic-update-slice")
def dynamic(s: Shapes, op: Op) -> None:
    """A window at starts that count along the dim."""
    values = 1 if op.kind == "dynamic-slice" else 2
    full = _windows(s, op)
    for d, start in enumerate(op.operands[values:]):
        if d not in full:
            s.same_counts([start], s.dims(op.operands[0])[d])
    s.same_counts([*op.operands[:values], op.results[0]])


@rule("sort")
def sort(s: Shapes, op: Op) -> None:
    """One shape."""
    s.alike(op)
    for operand, result in zip(op.operands, op.results, strict=True):
        s.same_counts([operand, result])


@rule("top-k")
def top_k(s: Shapes, op: Op) -> None:
    """The last dim and k stay; indices count along the last dim."""
    x = s.dims(op.operands[0])
    s.alike(op)
    for dims in (x, *map(s.dims, op.results)):
        s.extents.keep(dims[-1])
    s.same_counts(op.results[1:], x[-1])


@rule("attention", "attention-backward")
def attention(s: Shapes, op: Op) -> None:
    """Batch and head dims of all; query rows, key rows, head dim and value dim."""
    backward = op.kind == "attention-backward"
    q, k, v = op.operands[1:4] if backward else op.operands[:3]
    outs = [op.operands[0], op.operands[4]] if backward else op.results[:1]
    sums = op.operands[5:6] if backward else op.results[1:2]
    masks = op.operands[6:] if backward else op.operands[3:]
    if backward:
        for gradient, of in zip(op.results, (q, k, v), strict=False):
            s.same_dims([of, gradient])
    dq, dk, dv = s.dims(q), s.dims(k), s.dims(v)
    pairs = [(dq[i], d[i]) for d in (dk, dv) for i in range(len(dq) - 2)]
    pairs += [(dq[-1], dk[-1]), (dk[-2], dv[-2])]
    for out in outs:
        pairs += [*zip(dq[:-1], s.dims(out)[:-1], strict=True), (dv[-1], s.dims(out)[-1])]
    for total in sums:
        pairs += list(zip(dq[:-1], s.dims(total), strict=False))
    for mask in masks:
        scores = [*dq[:-1], dk[-2]]
        pairs += list(zip(reversed(scores), reversed(s.dims(mask)), strict=False))
    for a, b in pairs:
        if s.extents.size(a) == s.extents.size(b):
            s.extents.same(a, b)


@rule("while")
def while_(s: Shapes, op: Op) -> None:
    """Carried values are the inputs of condition and body, and the results of the body."""
    condition, body = (s.program.graphs[g] for g in op.regions)
    for group in zip(op.operands, op.results, condition.inputs, body.inputs, body.outputs, strict=True):
        s.same_dims(group)
        s.same_counts(group)


@rule("conditional")
def conditional(s: Shapes, op: Op) -> None:
    """Branch operands are the inputs of the branches, results their outputs."""
    rest = op.operands[1:]
    for region in op.regions:
        branch = s.program.graphs[region]
        mine, rest = rest[: len(branch.inputs)], rest[len(branch.inputs) :]
        for outer, inner in [*zip(mine, branch.inputs, strict=True), *zip(op.results, branch.outputs, strict=True)]:
            s.same_dims([outer, inner])
            s.same_counts([outer, inner])


@rule("custom:AwsNeuronTransferWithStaticRing")
def transfer(s: Shapes, op: Op) -> None:
    """The identity."""
    x, result = op.operands[0], op.results[0]
    if len(s.dims(x)) != len(s.dims(result)):
        return s.keep_all(op)
    s.same_dims([x, result])


@rule("custom:AwsNeuronRmsNorm")
def rms_norm(s: Shapes, op: Op) -> None:
    """x's shape; the weight has the normalised dim."""
    dim = op.symbol("config", "0").strip('"')
    x, weight, result = (s.dims(t) for t in (*op.operands[:2], op.results[0]))
    if not dim.isdigit() or int(dim) >= len(x) or len(weight) != 1 or len(result) != len(x):
        return s.keep_all(op)  # no such call: nobody checks what opaque calls are given
    s.same_dims([op.operands[0], op.results[0]])
    s.extents.same(x[int(dim)], weight[0])


@rule("custom:vllm.unified_attention")
def unified_attention(s: Shapes, op: Op) -> None:
    """Tokens; heads are kv heads times group; head dim."""
    q, k, v = (s.dims(t) for t in op.operands[:3])
    if not len(q) == len(k) == len(v) == 3:
        return s.keep_all(op)
    for a, b in [*zip(k, v, strict=True), (q[0], k[0]), (q[2], k[2])]:
        s.extents.same(a, b)
    s.extents.link(q[1], s.extents.size(q[1]) // s.extents.size(k[1]), k[1], 1, s.extents.size(k[1]))
    for tensor in [*op.operands[3:], *op.results]:
        if len(s.dims(tensor)) == 3:
            s.same_dims([op.operands[0], tensor])
