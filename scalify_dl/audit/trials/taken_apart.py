"""Wrong programs by hand about sums that are taken apart, of integers and of what is over lengths."""

from __future__ import annotations

from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor

from .registry import rounded, trial


def crossed(g: Graph, turned: Tensor, other: Tensor) -> Tensor:
    """transpose(turned) + other."""
    return g.emit("add", [g.emit("transpose", [turned], dimensions=[1, 0]), other])


def product(g: Graph, x: Tensor, w: Tensor, dtype: str) -> Tensor:
    return g.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0], dtype=dtype)


@trial
def terms_of_a_sum_that_wraps_round() -> Pair:
    """(transpose(x) + h) @ w of bytes, taken apart in 32 bits, where the sum does not wrap round."""
    pair = Pair({"tp": 2})
    (x, dx), (h, dh), (w, dw) = (pair.input((3, 3), dtype="s8") for _ in range(3))
    b, d = pair.base, pair.dist
    turned = d.emit("transpose", [dx], dimensions=[1, 0])
    terms = [product(d, term, dw, "s32") for term in (turned, dh)]
    pair.outputs(product(b, crossed(b, x, h), w, "s32"), d.emit("add", terms))
    return pair


@rounded
def values_over_the_lengths_of_other_rows() -> Pair:
    """What one element of x is over the length of a row without it may be infinite: no sum times it is taken apart."""
    pair = Pair({"tp": 2})
    pending = pair.layout([4, 4], {}, pending={"tp": "sum"})
    sides, made = (pair.input((4, 4)), pair.input((4, 4), layout=pending)), []
    for side, g in enumerate((pair.base, pair.dist)):
        x, parts = sides[0][side], sides[1][side]
        squares = g.emit("reduce", [g.emit("multiply", [x, x])], dimensions=[1], reducer="sum")
        wide = g.emit("broadcast", [g.emit("sqrt", [squares])], dimensions=[1], shape=(4, 4))
        made.append(g.emit("multiply", [parts, g.emit("divide", [x, wide])]))
    pair.outputs(made[0], pair.dist.emit("all-reduce", [made[1]], reducer="sum", groups=pair.groups("tp")))
    return pair
