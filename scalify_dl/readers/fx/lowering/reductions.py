"""Reductions: sums, means, extrema, variances, norms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, prod

from scalify_dl.ir.graph import Tensor

from ..dtypes import category
from .casts import dtype_of
from .core import Context, Number, Unsupported, lower
from .dims import axes, axis
from .views import Lazy

Dims = int | Sequence[int] | None


def mean_of(c: Context, x: Tensor, dims: Sequence[int], keepdim: bool = False, correction: Number = 0) -> Tensor:
    """Sum over dims times the exact fraction 1/(n − correction); of no elements NaN."""
    number = prod(x.shape[d] for d in dims)
    count = number - correction if number else 0
    total = c.reduce(x, dims, "sum", keepdim)
    if count <= 0 or not isinstance(count, int):
        return c.divide(total, count if count > 0 else 0)
    return c.multiply(total, Fraction(1, count))


@lower("aten.sum", "aten.prod.default")
def sum_(c: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None) -> Tensor:
    """Integers and booleans are summed in 64 bits."""
    x = c.convert(x, dtype_of(dtype) if dtype else "s64" if category(x.dtype) < 2 else x.dtype)
    return c.reduce(x, axes(dim, len(x.shape)), "prod" if "prod" in c.target else "sum", keepdim)


@lower("aten.prod.dim_int")
def prod_dim(c: Context, x: Tensor, dim: int, keepdim: bool = False, *, dtype: object = None) -> Tensor:
    return sum_(c, x, dim, keepdim, dtype=dtype)


@lower("aten.mean")
def mean(c: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None) -> Tensor:
    x = c.convert(x, dtype_of(dtype)) if dtype else x
    return mean_of(c, x, axes(dim, len(x.shape)), keepdim)


@lower("aten.amax", "aten.amin")
def amax(c: Context, x: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    return c.reduce(x, axes(dim, len(x.shape)), "max" if "amax" in c.target else "min", keepdim)


def _reducer(c: Context) -> str:
    return "max" if "max" in c.target.split(".")[1] else "min"


@lower("aten.max.default", "aten.min.default")
def max_all(c: Context, x: Tensor) -> Tensor:
    return c.reduce(x, range(len(x.shape)), _reducer(c))


@lower("aten.max.other", "aten.min.other")
def max_other(c: Context, x: Tensor, y: Tensor) -> Tensor:
    return c.binary("maximum" if _reducer(c) == "max" else "minimum", x, y)


def _arg(c: Context, x: Tensor, dims: Sequence[int], reducer: str, keepdim: bool) -> Tensor:
    if not x.shape:
        return c.scalar(0, "s64")
    shape = tuple(n for d, n in enumerate(x.shape) if d not in dims)
    result = c.emit("reduce", (x,), "s64", shape, {"dimensions": list(dims)}, {"reducer": [f"arg{reducer}"]})
    return c.keep(result, x.shape, dims) if keepdim else result


@lower("aten.max.dim", "aten.min.dim")
def max_dim(c: Context, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Lazy, Lazy]:
    """(values, indices), each emitted where it is used."""
    d, reducer = axis(dim, len(x.shape)), _reducer(c)
    return lambda: c.reduce(x, [d], reducer, keepdim), lambda: _arg(c, x, [d], reducer, keepdim)


@lower("aten.argmax", "aten.argmin")
def argmax(c: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    reducer = _reducer(c)
    if dim is None:
        flat = _arg(c, c.reshape(x, (prod(x.shape),)), [0], reducer, False)
        return c.reshape(flat, (1,) * len(x.shape)) if keepdim else flat
    return _arg(c, x, [axis(dim, len(x.shape))], reducer, keepdim)


@lower("aten.any", "aten.all")
def any_(c: Context, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Of no dims (`[]`) nothing is reduced; of None all are."""
    reducer = "or" if ".any" in c.target else "and"
    dims = axes(dim, len(x.shape)) if dim is None or isinstance(dim, int) or dim else []
    result = c.reduce(c.convert(x, "pred"), dims, reducer, keepdim)
    return c.convert(result, "u8") if x.dtype == "u8" else result


@lower("aten.count_nonzero")
def count_nonzero(c: Context, x: Tensor, dim: Dims = None) -> Tensor:
    counted = x if x.dtype == "pred" else c.compare("NE", x, 0)
    return c.reduce(c.convert(counted, "s64"), axes(dim, len(x.shape)), "sum")


def variance(c: Context, x: Tensor, dims: Sequence[int], keepdim: bool, correction: Number) -> tuple[Tensor, Tensor]:
    """(variance, mean): the mean of squared distances from the mean."""
    if x.dtype[0] == "c":
        raise Unsupported("the variance of complex numbers")
    center = mean_of(c, x, dims, keepdim=True)
    distance = c.subtract(x, center)
    spread = mean_of(c, c.multiply(distance, distance), dims, keepdim, correction)
    shape = x.shape if keepdim else tuple(n for d, n in enumerate(x.shape) if d not in dims)
    return spread, center if keepdim else c.reshape(center, shape)


def _variance(
    c: Context, x: Tensor, dim: Dims, unbiased: bool, keepdim: bool, correction: Number | None
) -> tuple[Tensor, Tensor]:
    amount = correction if correction is not None else int(unbiased)
    return variance(c, x, axes(dim, len(x.shape)), keepdim, amount)


@lower("aten.var.correction", "aten.std.correction", "aten.var_mean.correction")
def var_correction(
    c: Context, x: Tensor, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    return _pick(c, _variance(c, x, dim, True, keepdim, correction))


@lower("aten.var.dim", "aten.std.dim", "aten.var_mean.dim")
def var_dim(
    c: Context, x: Tensor, dim: Dims, unbiased: bool = True, keepdim: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    return _pick(c, _variance(c, x, dim, unbiased, keepdim, None))


@lower("aten.var.default", "aten.std.default", "aten.var_mean.default")
def var_all(c: Context, x: Tensor, unbiased: bool = True) -> Tensor | tuple[Tensor, Tensor]:
    return _pick(c, _variance(c, x, None, unbiased, False, None))


def _pick(c: Context, both: tuple[Tensor, Tensor]) -> Tensor | tuple[Tensor, Tensor]:
    if "var_mean" in c.target:
        return both
    return c.unary("sqrt", both[0]) if ".std" in c.target else both[0]


@lower("aten.linalg_vector_norm", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def vector_norm(
    c: Context, x: Tensor, ord: Number | None = 2, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
) -> Tensor:
    if x.dtype[0] == "c":
        raise Unsupported("the norm of complex numbers")
    x = c.convert(x, dtype_of(dtype)) if dtype else x
    dims = axes(dim, len(x.shape))
    if ord is None or ord == 2:
        return c.unary("sqrt", c.reduce(c.multiply(x, x), dims, "sum", keepdim))
    size = c.unary("abs", x)
    if ord in (inf, -inf):
        return c.reduce(size, dims, "max" if ord > 0 else "min", keepdim)
    if ord == 1:
        return c.reduce(size, dims, "sum", keepdim)
    raise Unsupported(f"vector norm of order {ord}")


@lower("aten.logsumexp")
def logsumexp(c: Context, x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    if x.dtype[0] == "c":
        raise Unsupported("the logarithm of a sum of complex exponentials")
    x = x if category(x.dtype) > 1 else c.convert(x, "f32")
    dims = axes(dim, len(x.shape))
    top = c.reduce(x, dims, "max", keepdim=True)
    top = c.select(c.emit("is-finite", (top,), "pred", top.shape), top, 0, dtype=top.dtype)
    total = c.reduce(c.unary("exponential", c.subtract(x, top)), dims, "sum", keepdim=True)
    result = c.add(c.unary("log", total), top)
    return result if keepdim else c.reshape(result, tuple(n for d, n in enumerate(x.shape) if d not in dims))
