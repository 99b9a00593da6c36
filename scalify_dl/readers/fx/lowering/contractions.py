"""Matrix products in all their spellings, einsum and convolution."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from ..dtypes import category
from .casts import dtype_of
from .core import Context, Number, Unsupported, lower, whole
from .dims import axis, broadcast_shape
from .slices import cat


@lower("aten.mm", "aten.dot", "aten.mv", "aten.vdot")
def mm(c: Context, x: Tensor, y: Tensor) -> Tensor:
    x = c.conjugate(x) if "vdot" in c.target else x
    return c.dot(x, y, ((), ()), ([len(x.shape) - 1], [0]))


@lower("aten.bmm")
def bmm(c: Context, x: Tensor, y: Tensor) -> Tensor:
    if len(x.shape) != 3 or len(y.shape) != 3:
        raise InputError(f"bmm of {x.type} and {y.type}")
    return c.dot(x, y, ([0], [0]), ([2], [1]))


@lower("aten.matmul", "aten.__matmul__")
def matmul(c: Context, x: Tensor, y: Tensor) -> Tensor:
    """Leading dims are batch, broadcast; vectors are promoted as in `torch.matmul`."""
    if (len(x.shape) <= 2 and len(y.shape) <= 2) or len(y.shape) <= 2:
        return c.dot(x, y, ((), ()), ([len(x.shape) - 1], [max(len(y.shape) - 2, 0)]))
    if len(x.shape) == 1:
        return c.reshape(matmul(c, c.reshape(x, (1, *x.shape)), y), (*y.shape[:-2], y.shape[-1]))
    lead = broadcast_shape(Tensor("", x.shape[:-2]), Tensor("", y.shape[:-2]))
    left, right = c.broadcast(x, (*lead, *x.shape[-2:])), c.broadcast(y, (*lead, *y.shape[-2:]))
    batch = range(len(lead))
    return c.dot(left, right, (batch, batch), ([len(lead) + 1], [len(lead)]))


@lower("aten.linear")
def linear(c: Context, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x · weightᵀ + bias"""
    if bias is not None and len(bias.shape) > 1:
        raise Unsupported("a bias of several dims")
    product = c.dot(x, weight, ((), ()), ([len(x.shape) - 1], [len(weight.shape) - 1]))
    return product if bias is None else c.add(product, bias)


def _plus(c: Context, x: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta · x + alpha · product; with beta 0, x is not even read (it may be uninitialised)."""
    beta, alpha = whole(beta, product.dtype), whole(alpha, product.dtype)
    if alpha != 1:
        product = c.multiply(product, alpha)
    if beta == 0:
        return product
    return c.add(x if beta == 1 else c.multiply(x, beta), product)


@lower("aten.addmm", "aten.addmv")
def addmm(c: Context, x: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    if "addmv" in c.target and not prod(a.shape) and x.shape != a.shape[:1]:
        raise Unsupported("a product of nothing, whose kernel keeps the shape of what it is added to")
    return _plus(c, x, mm(c, a, b), beta, alpha)


@lower("aten.baddbmm")
def baddbmm(c: Context, x: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return _plus(c, x, bmm(c, a, b), beta, alpha)


@lower("aten.addbmm")
def addbmm(c: Context, x: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return _plus(c, x, c.reduce(bmm(c, a, b), [0], "sum"), beta, alpha)


@lower("aten.outer", "aten.ger")
def outer(c: Context, x: Tensor, y: Tensor) -> Tensor:
    return c.dot(x, y, ((), ()), ((), ()))


@lower("aten.addr")
def addr(c: Context, x: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return _plus(c, x, outer(c, a, b), beta, alpha)


@lower("aten.tensordot")
def tensordot(c: Context, x: Tensor, y: Tensor, of_x: Sequence[int], of_y: Sequence[int]) -> Tensor:
    left, right = ([axis(d, len(z.shape)) for d in dims] for z, dims in ((x, of_x), (y, of_y)))
    if [x.shape[d] for d in left] != [y.shape[d] for d in right]:
        raise Unsupported("a product over dims of unlike sizes")
    return c.dot(x, y, ((), ()), (left, right))


@lower("aten.einsum")
def einsum(c: Context, equation: str, operands: Sequence[Tensor], path: object = None) -> Tensor:
    """Letters that occur once and not in the result are summed; each pair of operands is one contraction."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "." in equation or len(terms) != len(operands) or any(len(set(t)) != len(t) for t in terms):
        raise Unsupported("einsum with an ellipsis or a repeated index")
    if any(len(t) != len(x.shape) for t, x in zip(terms, operands, strict=True)):
        raise InputError(f"einsum `{equation}` does not fit its operands")
    if not arrow:
        output = "".join(sorted(ch for ch in set(inputs) - {","} if inputs.count(ch) == 1))
    tensors = list(operands)
    letters, result = terms[0], tensors[0]
    for i, (term, x) in enumerate(zip(terms[1:], tensors[1:], strict=True), start=1):
        later = output + "".join(terms[i + 1 :])
        letters, result = _alone(c, letters, result, term + later)
        term, x = _alone(c, term, x, letters + later)
        shared = [ch for ch in letters if ch in term]
        batch, contract = [ch for ch in shared if ch in later], [ch for ch in shared if ch not in later]
        result = c.dot(
            result,
            x,
            ([letters.index(ch) for ch in batch], [term.index(ch) for ch in batch]),
            ([letters.index(ch) for ch in contract], [term.index(ch) for ch in contract]),
        )
        rest = [ch for ch in letters if ch not in shared] + [ch for ch in term if ch not in shared]
        letters = "".join(batch + rest)
    letters, result = _alone(c, letters, result, output)
    return c.transpose(result, [letters.index(ch) for ch in output])


def _alone(c: Context, letters: str, x: Tensor, elsewhere: str) -> tuple[str, Tensor]:
    """Sums the dims whose letter occurs nowhere else."""
    gone = [d for d, ch in enumerate(letters) if ch not in elsewhere]
    return "".join(ch for ch in letters if ch in elsewhere), c.reduce(x, gone, "sum")


Amounts = int | Sequence[int]


@lower("aten.conv1d", "aten.conv2d", "aten.conv3d")
def conv(
    c: Context, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Amounts = 1,
    padding: Amounts | str = 0, dilation: Amounts = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolution of a batch."""
    if isinstance(padding, str):
        if padding != "valid":
            raise Unsupported("padding by name")
        padding = 0
    if len(weight.shape) != len(input.shape):
        raise Unsupported("convolution without a batch")
    return convolution(c, input, weight, bias, stride, padding, dilation, False, 0, groups)


@lower("aten.convolution")
def convolution(
    c: Context, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Amounts, padding: Amounts, dilation: Amounts,
    transposed: bool, output_padding: Amounts, groups: int,
) -> Tensor:  # fmt: skip
    """Batch, feature, spatial dims."""
    spatial = len(x.shape) - 2
    if len(weight.shape) != len(x.shape):
        raise Unsupported("convolution without a batch")

    def per_dim(value: object) -> list[int]:
        values = [value] if isinstance(value, int) else list(value)  # type: ignore[call-overload]
        return values * spatial if len(values) == 1 else values

    strides, pads, dilations = per_dim(stride), per_dim(padding), per_dim(dilation)
    window = list(weight.shape[2:])
    if transposed:
        more = zip(x.shape[2:], strides, pads, dilations, window, per_dim(output_padding), strict=True)
        sizes = [(n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, s, p, d, k, extra in more]
        result = mirrored(c, x, weight, strides, pads, dilations, groups, sizes)
        return result if bias is None else c.add(result, c.spread(bias, result.shape, [1]))
    out = [
        (n + 2 * p - (k - 1) * d - 1) // s + 1
        for n, p, k, d, s in zip(x.shape[2:], pads, window, dilations, strides, strict=True)
    ]
    dims = list(range(2, 2 + spatial))
    numbers = {
        "window_size": window, "window_stride": strides, "window_pad_low": pads, "window_pad_high": list(pads),
        "window_dilation": dilations, "base_dilation": [1] * spatial,
        "input_batch": [0], "input_feature": [1], "input_spatial": dims,
        "kernel_output_feature": [0], "kernel_input_feature": [1], "kernel_spatial": list(dims),
        "output_batch": [0], "output_feature": [1], "output_spatial": list(dims),
        "feature_group_count": [int(groups)], "batch_group_count": [1],
    }  # fmt: skip
    result = c.emit("convolution", (x, weight), x.dtype, (x.shape[0], weight.shape[0], *out), numbers)
    if bias is None:
        return result
    return c.add(result, c.spread(bias, result.shape, [1]))


@lower("aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d")
def conv_transpose(
    c: Context, x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Amounts = 1, padding: Amounts = 0,
    output_padding: Amounts = 0, groups: int = 1, dilation: Amounts = 1,
) -> Tensor:  # fmt: skip
    return convolution(c, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


def mirrored(
    c: Context, grad: Tensor, weight: Tensor, strides: list[int], pads: list[int], gaps: list[int], groups: int,
    sizes: Sequence[int],
) -> Tensor:  # fmt: skip
    """The gradient of a convolution's input, of these sizes: the weight is turned round, the gradient spread out."""
    spatial = len(strides)
    dims = list(range(2, 2 + spatial))
    given, window, (outer, inner) = weight, list(weight.shape[2:]), weight.shape[:2]
    if groups > 1:  # [groups · outer, inner, …] to [groups · inner, outer, …]
        weight = c.reshape(weight, (groups, outer // groups, inner, *window))
        weight = c.transpose(weight, [0, 2, 1, *range(3, 3 + spatial)])
        weight = c.reshape(weight, (groups * inner, outer // groups, *window))
    if window != [1] * spatial:
        weight = c.emit("reverse", (weight,), weight.dtype, weight.shape, {"dimensions": dims})
    low = [d * (k - 1) - p for d, k, p in zip(gaps, window, pads, strict=True)]
    high = [
        n - lo + d * (k - 1) - ((o - 1) * s + 1)
        for n, lo, d, k, o, s in zip(sizes, low, gaps, window, grad.shape[2:], strides, strict=True)
    ]
    if max(low + high) > 0 or max(strides) > 1:
        c.graph.assume(given, "its values are finite", "finite")  # torch multiplies no zeros put in between
    features = ([0], [1]) if groups > 1 else ([1], [0])
    numbers = {
        "window_size": window, "window_stride": [1] * spatial, "window_pad_low": low, "window_pad_high": high,
        "window_dilation": gaps, "base_dilation": strides,
        "input_batch": [0], "input_feature": [1], "input_spatial": dims,
        "kernel_output_feature": features[0], "kernel_input_feature": features[1], "kernel_spatial": list(dims),
        "output_batch": [0], "output_feature": [1], "output_spatial": list(dims),
        "feature_group_count": [int(groups)], "batch_group_count": [1],
    }  # fmt: skip
    return c.emit("convolution", (grad, weight), grad.dtype, (grad.shape[0], groups * inner, *sizes), numbers)


@lower("aten.diff")
def diff(
    c: Context, x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    along = axis(dim, len(x.shape))
    if n == 0:
        return x
    x = cat(c, [part for part in (prepend, x, append) if part is not None], along)
    for _ in range(n):
        size = x.shape[along]
        after, before = c.slice(x, along, min(1, size), size), c.slice(x, along, 0, max(size - 1, 0))
        x = c.compare("NE", after, before) if x.dtype == "pred" else c.subtract(after, before)
    return x


@lower("aten.cumsum", "aten.cumprod")
def cumsum(c: Context, x: Tensor, dim: int, *, dtype: object = None) -> Tensor:
    wanted = dtype_of(dtype) if dtype else "s64" if category(x.dtype) < 2 else x.dtype
    x = c.convert(x, wanted)
    if not x.shape:
        return x
    symbols = {"reducer": ["prod" if "prod" in c.target else "sum"]}
    return c.emit("cumulative", (x,), x.dtype, x.shape, {"dimension": [axis(dim, len(x.shape))]}, symbols)


@lower("aten.logcumsumexp")
def logcumsumexp(c: Context, x: Tensor, dim: int) -> Tensor:
    if x.dtype[0] == "c" or category(x.dtype) < 2:
        raise Unsupported(f"running logarithms of sums of exponentials of {x.dtype}")
    if not x.shape:
        return x
    symbols = {"reducer": ["logsumexp"]}
    return c.emit("cumulative", (x,), x.dtype, x.shape, {"dimension": [axis(dim, len(x.shape))]}, symbols)
