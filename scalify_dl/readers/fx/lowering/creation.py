"""Tensors out of nothing: constants, ranges, uninitialised memory, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from scalify_dl.ir.graph import Tensor

from ..dtypes import is_floating
from .casts import dtype_of
from .core import Context, Number, Unsupported, lower


def _default(value: Number) -> str:
    """The dtype torch gives a Python number."""
    return "pred" if isinstance(value, bool) else "s64" if isinstance(value, int) else "f32"


def _filled(c: Context, value: Number, dtype: str, size: Sequence[int], like: bool = False) -> Tensor:
    """`like` says that it lies in memory as another tensor does."""
    result = c.splat(value, dtype, tuple(size))
    if not like:
        c.dense.add(result)
    return result


@lower("aten.full")
def full(c: Context, size: Sequence[int], value: Number, *, dtype: object = None) -> Tensor:
    return _filled(c, value, dtype_of(dtype) if dtype else _default(value), size)


@lower("aten.full_like")
def full_like(c: Context, x: Tensor, value: Number, *, dtype: object = None) -> Tensor:
    return _filled(c, value, dtype_of(dtype) if dtype else x.dtype, x.shape, like=True)


@lower("aten.new_full")
def new_full(c: Context, x: Tensor, size: Sequence[int], value: Number, *, dtype: object = None) -> Tensor:
    return _filled(c, value, dtype_of(dtype) if dtype else x.dtype, size)


@lower("aten.zeros", "aten.ones")
def zeros(c: Context, size: Sequence[int], *, dtype: object = None) -> Tensor:
    return _filled(c, int("ones" in c.target), dtype_of(dtype) if dtype else "f32", size)


@lower("aten.zeros_like", "aten.ones_like")
def zeros_like(c: Context, x: Tensor, *, dtype: object = None) -> Tensor:
    return _filled(c, int("ones" in c.target), dtype_of(dtype) if dtype else x.dtype, x.shape, like=True)


@lower("aten.new_zeros", "aten.new_ones")
def new_zeros(c: Context, x: Tensor, size: Sequence[int], *, dtype: object = None) -> Tensor:
    return _filled(c, int("ones" in c.target), dtype_of(dtype) if dtype else x.dtype, size)


@lower("aten.zero", "aten.zero_")
def zero(c: Context, x: Tensor) -> Tensor:
    return _filled(c, 0, x.dtype, x.shape, like=True)


@lower("aten.fill", "aten.fill_")
def fill(c: Context, x: Tensor, value: Tensor | Number) -> Tensor:
    return c.operand(value, x.dtype, x.shape)


@lower("aten.scalar_tensor")
def scalar_tensor(c: Context, value: Number, *, dtype: object = None) -> Tensor:
    return c.scalar(value, dtype_of(dtype) if dtype else "f32")


@lower("prims.iota")
def iota(c: Context, length: int, *, start: int, step: int, dtype: object) -> Tensor:
    return _range(c, start, start + step * length, step, dtype) if step else c.splat(start, dtype_of(dtype), (length,))


@lower("aten.arange.default", "aten.arange.out")
def arange(c: Context, end: Number, *, dtype: object = None) -> Tensor:
    return _range(c, 0, end, 1, dtype)


@lower("aten.arange")
def arange_from(c: Context, start: Number, end: Number, step: Number = 1, *, dtype: object = None) -> Tensor:
    return _range(c, start, end, step, dtype)


def _range(c: Context, first: Number, last: Number, jump: Number, dtype: object) -> Tensor:
    whole = all(isinstance(v, int) for v in (first, last, jump))
    name = dtype_of(dtype) if dtype else "s64" if whole else "f32"
    if name == "s64":  # the one type whose bounds are truncated before they are counted
        first, last, jump = int(first), int(last), int(jump)
    size = max(ceil((last - first) / jump), 0)
    if not is_floating(name):
        first, jump = int(first), int(jump)
    result = c.iota(name, (size,), 0)
    if jump != 1:
        result = c.multiply(result, jump)
    if first or c.target.startswith("aten.arange.start"):  # a rank's own place: other ranks add another number
        shifted = c.add(result, first)
        if jump == 1 and isinstance(first, int):
            c.index(shifted, 0, first)
        result = shifted
    return c.convert(result, name)


@lower("aten.eye")
def eye(c: Context, n: int, m: int | None = None, *, dtype: object = None) -> Tensor:
    shape = (n, n if m is None else m)
    diagonal = c.compare("EQ", c.iota("s64", shape, 0), c.iota("s64", shape, 1))
    return c.convert(diagonal, dtype_of(dtype) if dtype else "f32")


@lower("aten.tril", "aten.triu")
def tril(c: Context, x: Tensor, diagonal: int = 0) -> Tensor:
    """Zero above (`tril`) or below (`triu`) a diagonal."""
    rank = len(x.shape)
    row, column = c.iota("s64", x.shape, rank - 2), c.iota("s64", x.shape, rank - 1)
    kept = c.compare("GE" if "triu" in c.target else "LE", column, c.add(row, diagonal) if diagonal else row)
    return c.select(kept, x, 0, dtype=x.dtype)


def _empty(c: Context, dtype: str, size: Sequence[int], stride: object = None) -> Tensor:
    """Uninitialised; `stride` as given, None for row-major."""
    if isinstance(stride, list) and _overlap(size, stride):
        raise Unsupported("elements that stand at one place in memory")
    result = c.emit("empty", (), dtype, tuple(size))
    if stride is None or stride == [prod(size[d + 1 :]) for d in range(len(size))]:
        c.dense.add(result)
    return result


def _overlap(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements may share their place: a dim's step is within what the dims with smaller steps reach."""
    reach = 0
    for step, n in sorted(zip(stride, size, strict=True)):
        if n > 1 and step <= reach:
            return True
        reach += step * (n - 1)
    return False


@lower("aten.empty")
def empty(c: Context, size: Sequence[int], *, dtype: object = None) -> Tensor:
    return _empty(c, dtype_of(dtype) if dtype else "f32", size)


@lower("aten.new_empty")
def new_empty(c: Context, x: Tensor, size: Sequence[int], *, dtype: object = None) -> Tensor:
    return _empty(c, dtype_of(dtype) if dtype else x.dtype, size)


@lower("aten.empty_permuted", "aten.empty_like")
def empty_permuted(c: Context, of: Sequence[int] | Tensor, _order: object = None, *, dtype: object = None) -> Tensor:
    """Uninitialised, in any order of memory."""
    like = of if isinstance(of, Tensor) else Tensor("f32", tuple(of))
    return c.emit("empty", (), dtype_of(dtype) if dtype else like.dtype, like.shape)


@lower("aten.empty_strided")
def empty_strided(c: Context, size: Sequence[int], stride: Sequence[int], *, dtype: object = None) -> Tensor:
    return _empty(c, dtype_of(dtype) if dtype else "f32", size, list(stride))


@lower("aten.new_empty_strided")
def new_empty_strided(
    c: Context, x: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: object = None
) -> Tensor:
    return _empty(c, dtype_of(dtype) if dtype else x.dtype, size, list(stride))


# --- random ----------------------------------------------------------------------------------------------------------


@lower("aten.native_dropout")
def native_dropout(c: Context, x: Tensor, p: float, train: bool | None = True) -> tuple[Tensor, Tensor]:
    """(x · mask / (1 − p), mask); the identity outside of training."""
    if not prod(x.shape):
        raise Unsupported("dropout of nothing, whose mask is of another type")
    if train is False or p == 0:
        return x, c.splat(True, "pred", x.shape)
    mask = c.emit("dropout-mask", (x,), "pred", x.shape, None, {"probability": [repr(float(p))]})
    kept = c.multiply(x, c.convert(mask, x.dtype))
    return c.multiply(kept, c.keep_scale(p)), mask


@lower("aten.dropout", "aten.feature_dropout", "aten.dropout_", "aten.feature_dropout_")
def dropout(c: Context, x: Tensor, p: float, train: bool) -> Tensor:
    if "feature" in c.target and train:
        raise Unsupported("dropout of whole features")
    return native_dropout(c, x, p, train)[0]


@lower("aten.native_dropout_backward")
def native_dropout_backward(c: Context, grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    return c.multiply(c.multiply(grad, c.convert(mask, grad.dtype)), scale)


def _random(c: Context, kind: str, dtype: str, shape: Sequence[int], **symbols: Number) -> Tensor:
    return c.emit(kind, (), dtype, tuple(shape), None, {key: [repr(value)] for key, value in symbols.items()})


@lower("aten.rand", "aten.randn")
def rand(c: Context, size: Sequence[int], *, dtype: object = None) -> Tensor:
    return _random(c, "rng-normal" if "randn" in c.target else "rng-uniform", dtype_of(dtype) if dtype else "f32", size)


@lower("aten.rand_like", "aten.randn_like")
def rand_like(c: Context, x: Tensor, *, dtype: object = None) -> Tensor:
    kind = "rng-normal" if "randn" in c.target else "rng-uniform"
    return _random(c, kind, dtype_of(dtype) if dtype else x.dtype, x.shape)


@lower("aten.bernoulli")
def bernoulli(c: Context, x: Tensor, p: object = None) -> Tensor:
    """1 with probability x (or p): a uniform number compared with it."""
    if isinstance(p, float | Tensor):
        x = c.operand(p, x.dtype, x.shape)
    return c.convert(c.compare("LT", _random(c, "rng-uniform", x.dtype, x.shape), x), x.dtype)


def _real(x: Tensor) -> None:
    if not is_floating(x.dtype):
        raise Unsupported("random numbers that are not real")


@lower("aten.uniform", "aten.uniform_")
def uniform(c: Context, x: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    _real(x)
    unit = _random(c, "rng-uniform", x.dtype, x.shape)
    return unit if (low, high) == (0, 1) else c.add(c.multiply(unit, high - low), low)


@lower("aten.normal_", "aten.normal_functional")
def normal(c: Context, x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    _real(x)
    unit = _random(c, "rng-normal", x.dtype, x.shape)
    return unit if (mean, std) == (0, 1) else c.add(c.multiply(unit, std), mean)


@lower("aten.randint")
def randint(c: Context, high: int, size: Sequence[int], *, dtype: object = "torch.int64") -> Tensor:
    return randint_from(c, 0, high, size, dtype=dtype)


@lower("aten.randint.low", "aten.randint.low_generator", "aten.randint.low_out", "aten.randint.low_generator_out")
def randint_from(c: Context, low: int, high: int, size: Sequence[int], *, dtype: object = "torch.int64") -> Tensor:
    return _random(c, "rng-uniform", dtype_of(dtype) if dtype else "f32", size, low=low, high=high)


@lower("aten.one_hot")
def one_hot(c: Context, index: Tensor, classes: int = -1) -> Tensor:
    if classes < 0:
        raise Unsupported("one_hot with a data-dependent number of classes")
    shape = (*index.shape, classes)
    wide = c.spread(index, shape, range(len(index.shape)))
    return c.convert(c.compare("EQ", wide, c.iota(index.dtype, shape, len(shape) - 1)), "s64")
