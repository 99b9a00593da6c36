"""Constraints of indexed access, order, attention and control flow."""

from __future__ import annotations

from collections.abc import Sequence

from ..program import Op
from .constraints import Shapes, rule


def _windows(s: Shapes, whole: int, part: int, index: str | None) -> None:
    """`part` is a window of `whole` at a start that `index` counts."""
    if s.extents.size(whole) == s.extents.size(part):
        s.extents.same(whole, part)
        return
    s.extents.units(whole, part)
    if index is not None:
        s.same_counts([index], whole)


@rule("gather")
def gather(s: Shapes, op: Op) -> None:
    """Full windows are offset dims of the result, single elements are what the indices count; other windows stay."""
    operand, indices = op.operands
    x, result = s.dims(operand), s.dims(op.results[0])
    sizes, offsets = op.number("slice_sizes", 0), op.number("offset_dims", 0, [])
    batching = op.number("operand_batching_dims", 0, [])
    gone = {*op.number("collapsed_slice_dims", 0, []), *batching}
    for dim, target in zip([d for d in range(len(x)) if d not in gone], offsets, strict=True):
        _windows(s, x[dim], result[target], indices if dim in op.number("start_index_map", 0, []) else None)
    _indexed(s, op, indices, x, [d for d in range(len(result)) if d not in offsets], result, sizes)
    s.same_counts([operand, op.results[0]])


def _indexed(
    s: Shapes,
    op: Op,
    indices: str,
    x: Sequence[int],
    batch_dims: Sequence[int],
    batched: Sequence[int],
    sizes: Sequence[int],
) -> None:
    """Batch dims of the indices are those of `batched`; batching dims are those of x; what the indices count."""
    scatter = op.kind == "scatter"
    at = op.number("index_vector_dim", 0)[0]
    index = s.dims(indices)
    mapped = op.number("scatter_dims_to_operand_dims" if scatter else "start_index_map", 0, [])
    rest = [d for d in range(len(index)) if d != at]
    for source, target in zip(rest, batch_dims, strict=True):
        s.extents.same(index[source], batched[target])
    if at < len(index):
        s.extents.keep(index[at])
    own = op.number("input_batching_dims" if scatter else "operand_batching_dims", 0, [])
    theirs = op.number("scatter_indices_batching_dims" if scatter else "start_indices_batching_dims", 0, [])
    for dim, source in zip(own, theirs, strict=True):
        s.extents.same(x[dim], index[source])
    for dim in mapped:
        if sizes[dim] != s.extents.size(x[dim]):
            s.same_counts([indices], x[dim])


@rule("scatter")
def scatter(s: Shapes, op: Op) -> None:
    """As gather, with the updates in place of the result."""
    operand, indices, updates = op.operands
    x, u = s.dims(operand), s.dims(updates)
    window = op.number("update_window_dims", 0, [])
    gone = {*op.number("inserted_window_dims", 0, []), *op.number("input_batching_dims", 0, [])}
    mapped = op.number("scatter_dims_to_operand_dims", 0, [])
    sizes = [1] * len(x)
    for dim, source in zip([d for d in range(len(x)) if d not in gone], window, strict=True):
        sizes[dim] = s.extents.size(u[source])
        _windows(s, x[dim], u[source], indices if dim in mapped else None)
    _indexed(s, op, indices, x, [d for d in range(len(u)) if d not in window], u, sizes)
    s.same_dims([operand, op.results[0]])
    s.same_counts([operand, updates, op.results[0]])


@rule("dynamic-slice")
def dynamic_slice(s: Shapes, op: Op) -> None:
    """A window at starts that count along the dim."""
    x, *starts = op.operands
    for whole, part, start in zip(s.dims(x), s.dims(op.results[0]), starts, strict=True):
        _windows(s, whole, part, start)
    s.same_counts([x, op.results[0]])


@rule("dynamic-update-slice")
def dynamic_update_slice(s: Shapes, op: Op) -> None:
    """The update is a window at starts that count along the dim."""
    x, update, *starts = op.operands
    for whole, part, start in zip(s.dims(x), s.dims(update), starts, strict=True):
        _windows(s, whole, part, start)
    s.same_dims([x, op.results[0]])
    s.same_counts([x, update, op.results[0]])


@rule("sort")
def sort(s: Shapes, op: Op) -> None:
    """One shape."""
    s.same_dims([*op.operands, *op.results])
    for operand, result in zip(op.operands, op.results, strict=True):
        s.same_counts([operand, result])


@rule("top-k")
def top_k(s: Shapes, op: Op) -> None:
    """The last dim and k stay; indices count along the last dim."""
    x = s.dims(op.operands[0])
    s.extents.keep(x[-1])
    for result in op.results:
        for a, b in zip(x[:-1], s.dims(result)[:-1], strict=True):
            s.extents.same(a, b)
        s.extents.keep(s.dims(result)[-1])
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
    s.same_dims([op.operands[0], op.results[0]])


@rule("custom:AwsNeuronRmsNorm")
def rms_norm(s: Shapes, op: Op) -> None:
    """x's shape; the weight has the normalised dim."""
    s.same_dims([op.operands[0], op.results[0]])
    dim = op.symbol("config", "0").strip('"')
    x = s.dims(op.operands[0])
    if dim.isdigit() and int(dim) < len(x):
        s.extents.same(x[int(dim)], s.dims(op.operands[1])[0])


@rule("custom:vllm.unified_attention")
def unified_attention(s: Shapes, op: Op) -> None:
    """Tokens; heads are kv heads times group; head dim."""
    q, k, v = (s.dims(t) for t in op.operands[:3])
    for a, b in [*zip(k, v, strict=True), (q[0], k[0]), (q[2], k[2])]:
        s.extents.same(a, b)
    s.extents.link(q[1], s.extents.size(q[1]) // s.extents.size(k[1]), k[1], 1, s.extents.size(k[1]))
    for tensor in [*op.operands[3:], *op.results]:
        if len(s.dims(tensor)) == 3:
            s.same_dims([op.operands[0], tensor])
