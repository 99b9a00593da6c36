"""Elements of a tensor at places that other elements say: gather."""

from __future__ import annotations

import numpy as np

from scalify_dl.ir.graph import Op
from scalify_dl.oracle.meaning import MEANINGS, Call

from .domain import Array, Cells, Domain
from .frame import Value
from .graphs import Runner, rule


@rule("gather")
def _gather(runner: Runner, call: Call, op: Op, values: list[Value]) -> Value:
    """Windows at starts, which are taken to fit where they are not known."""
    domain = runner.domain
    x, starts = runner.cells(op.operands[0]), runner.cells(op.operands[1])
    known = domain.known(starts)
    if known is not None:
        return Cells(np.asarray(MEANINGS["gather"](call, [x, known])[0]))
    shape, itype = op.results[0].shape, op.operands[1].dtype
    zeros = np.zeros(starts.shape, dtype=np.int64)
    coordinates: Array = np.indices(x.shape)
    places = [domain.lift(MEANINGS["gather"](call, [at, zeros])[0], itype) for at in coordinates]
    offsets = call.numbers("offset_dims", [])
    vector = call.number("index_vector_dim")
    rows = starts[..., None] if vector == starts.ndim else np.moveaxis(starts, vector, -1)
    for component, dim in enumerate(call.numbers("start_index_map", [])):
        size = call.numbers("slice_sizes", [])[dim]
        if size == x.shape[dim]:
            continue  # it starts at 0 whatever is said
        start = np.expand_dims(rows[..., component], tuple(offsets))
        if call.symbol("mode", "clamp") == "wrap":
            start = _counted_from_the_end(domain, start, x.shape[dim], itype)
        places[dim] = domain.apply("add", itype, [places[dim], start], itype) if size > 1 else start
    return Cells(domain.gather(x, [np.broadcast_to(at, shape) for at in places], op.operands[0].dtype))


def _counted_from_the_end(domain: Domain, start: Array, size: int, dtype: str) -> Array:
    zero, length = domain.lift(np.array(0), dtype), domain.lift(np.array(size), dtype)
    negative = domain.apply("LT", "pred", [start, zero], dtype)
    return domain.apply("select", dtype, [negative, domain.apply("add", dtype, [start, length], dtype), start], dtype)
