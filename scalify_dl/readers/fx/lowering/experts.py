"""Mixture of experts: matrix products of groups of rows, and counting rows per group.

A grouped product multiplies rows `offs[e-1] ≤ t < offs[e]` by the matrix of group e. As primitives: every row by every
matrix, the product of its own group kept, summed over the groups. What computes it is another matter.
"""

from __future__ import annotations

from math import prod
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .core import Context, Number, Unsupported, lower


def _membership(c: Context, offs: Tensor, rows: int, dtype: str) -> Tensor:
    """[rows, groups]: 1 where the row belongs to the group."""
    shape = (rows, offs.shape[0])
    ended = c.compare("LE", c.spread(offs, shape, [1]), c.iota(offs.dtype, shape, 0))
    group = c.reduce(c.convert(ended, offs.dtype), [1], "sum")
    return c.convert(c.compare("EQ", c.spread(group, shape, [0]), c.iota(offs.dtype, shape, 1)), dtype)


def _rows_by_matrices(c: Context, x: Tensor, w: Tensor, member: Tensor, contract: int) -> Tensor:
    """Row t of x times the matrix of its group; `contract` is the dim of w that meets x's columns."""
    products = c.dot(x, w, ((), ()), ([1], [contract]))
    own = c.multiply(products, c.spread(member, products.shape, [0, 1]))
    return c.reduce(own, [1], "sum")


def _rows_by_rows(c: Context, x: Tensor, y: Tensor, member: Tensor) -> Tensor:
    """[groups, columns of x, columns of y]: Σ over the rows of each group of x[t]ᵀ y[t]."""
    shape = (x.shape[0], member.shape[1], x.shape[1])
    own = c.multiply(c.spread(x, shape, [0, 2]), c.spread(member, shape, [0, 1]))
    return c.dot(own, y, ((), ()), ([0], [0]))


@lower("aten._grouped_mm")
def grouped_mm(
    c: Context, x: Tensor, w: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: object = None
) -> Tensor:
    """Rows by matrices (2-d, 3-d), or groups of columns by groups of rows (2-d, 2-d)."""
    if bias is not None or out_dtype is not None or offs is None:
        raise Unsupported("grouped product with a bias, another dtype or no offsets")
    if (len(x.shape), len(w.shape)) == (2, 3):
        result = _rows_by_matrices(c, x, w, _membership(c, offs, x.shape[0], x.dtype), 1)
        c.graph.assume(result, "rows past the last offset are not used", "grouped product")
        return result
    if (len(x.shape), len(w.shape)) == (2, 2):
        return _rows_by_rows(c, c.transpose(x, [1, 0]), w, _membership(c, offs, w.shape[0], x.dtype))
    raise Unsupported("grouped product of operands of these ranks")


@lower("transformers.grouped_mm_fallback")
def grouped_mm_fallback(c: Context, x: Tensor, w: Tensor, offs: Tensor) -> Tensor:
    """As `_grouped_mm`; rows past the last offset are zero."""
    return _rows_by_matrices(c, x, w, _membership(c, offs, x.shape[0], x.dtype), 1)


@lower("transformers.grouped_mm_fallback_backward")
def grouped_mm_fallback_backward(c: Context, x: Tensor, w: Tensor, offs: Tensor, grad: Tensor) -> tuple[Any, ...]:
    """(gradient of the rows, gradient of the matrices)"""
    member = _membership(c, offs, x.shape[0], x.dtype)
    return lambda: _rows_by_matrices(c, grad, w, member, 2), lambda: _rows_by_rows(c, x, grad, member)


@lower("aten.histc")
def histc(c: Context, x: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """How many elements lie in each of `bins` equal intervals; the last one is closed."""
    if min == max:
        raise Unsupported("histc over the range of the data")
    if bins < 1 or max < min:
        raise InputError(f"histc of {bins} bins from {min} to {max}")
    flat = c.reshape(x, (prod(x.shape),))
    scaled = c.divide(c.multiply(c.subtract(flat, min), bins), max - min)
    index = c.binary("minimum", c.unary("floor", scaled), bins - 1)
    inside = c.binary("and", c.compare("GE", flat, min), c.compare("LE", flat, max))
    shape = (flat.shape[0], bins)
    hit = c.compare("EQ", c.spread(index, shape, [0]), c.iota(x.dtype, shape, 1))
    counted = c.binary("and", hit, c.spread(inside, shape, [0]))
    return c.reduce(c.convert(counted, x.dtype), [0], "sum")
