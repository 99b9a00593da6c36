"""Convolutions over index variables (see `indexing.py`): a sum over features and places in the window."""

from __future__ import annotations

from scalify_dl.oracle.shrink.convolutions import side_by_side, spatial

from .cells import Array, mapped, reals
from .contracting import reduced
from .indexing import Site, demand, rule
from .spread import merged, of_dim, size, small
from .variables import Variable

WHAT = "a convolution"


@rule("convolution")
def convolution(site: Site) -> list[Array]:
    """Features that are contracted are variables of both sides; so are places in windows that lie side by side. Other
    spatial dims, and features that are grouped, are followed element by element."""
    (dx, dw), (dz,), call, basis = site.ins, site.outs, site.call, site.machine.basis
    demand(call.number("batch_group_count", 1) == 1, WHAT)
    batch, feature = call.number("input_batch"), call.number("input_feature")
    out_batch, out_feature = call.number("output_batch"), call.number("output_feature")
    into, out = call.number("kernel_input_feature"), call.number("kernel_output_feature")
    demand(dx[batch] == dz[out_batch], WHAT)
    names_x = dict(zip(of_dim(dx, batch), of_dim(dz, out_batch), strict=True))
    names_w: dict[Variable, Variable] = {}
    over: list[Variable] = []
    if call.number("feature_group_count", 1) != 1:
        demand(not any((*of_dim(dx, feature), *of_dim(dw, into), *of_dim(dw, out), *of_dim(dz, out_feature))), WHAT)
    else:
        demand(dx[feature] == dw[into] and dw[out] == dz[out_feature], WHAT)
        over = [Variable(("inner", n), v.size) for n, v in enumerate(of_dim(dx, feature))]
        names_x |= dict(zip(of_dim(dx, feature), over, strict=True))
        names_w |= dict(zip(of_dim(dw, into), over, strict=True))
        names_w |= dict(zip(of_dim(dw, out), of_dim(dz, out_feature), strict=True))
    dims, shapes = spatial(call.op), [[size(dim) for dim in dims] for dims in (dx, dw, dz)]
    stride = [*call.numbers("window_stride", [1] * len(dims))]
    for n, ((a, b, c), beside) in enumerate(zip(dims, side_by_side(call.op, shapes), strict=True)):
        if not (of_dim(dx, a) or of_dim(dw, b) or of_dim(dz, c)):
            stride[n] = small(dw[b]) if beside else stride[n]
            continue
        demand(beside and merged([*dz[c], *dw[b]]) == dx[a], WHAT)
        inside = [Variable(("window", n, k), v.size) for k, v in enumerate(of_dim(dw, b))]
        names_x |= dict(zip(of_dim(dx, a), [*of_dim(dz, c), *inside], strict=True))
        names_w |= dict(zip(of_dim(dw, b), inside, strict=True))
        over += inside
        stride[n] = small(dw[b])
    xs = [site.machine.renamed(x, names) for x, names in zip(site.xs, (names_x, names_w), strict=True)]
    found = site.at_small_sizes([reals(basis, x) for x in xs], window_stride=stride)
    return [mapped(lambda cell: reduced("sum", cell, over), x) for x in found] if over else found
