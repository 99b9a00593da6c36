"""Copies in a dtype, and bits of one dtype read as another."""

from __future__ import annotations

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from ..dtypes import TORCH, is_integer
from .core import Context, Number, Unsupported, lower


@lower("aten._to_copy", "aten.to.dtype_layout")
def to_copy(c: Context, x: Tensor, *, dtype: object = None, copy: bool = False) -> Tensor:
    """A copy in another dtype; device, layout and memory format do not matter."""
    return x if dtype is None else c.convert(x, dtype_of(dtype))


@lower("aten.to.dtype", "aten.to.other", "aten.type_as", "prims.convert_element_type")
def to(
    c: Context, x: Tensor, dtype: object, _wait: bool = False, _copy: bool = False, _format: object = None, *,
    copy: bool = False,
) -> Tensor:  # fmt: skip
    """x in a dtype, or in that of another tensor."""
    return c.convert(x, dtype.dtype if isinstance(dtype, Tensor) else dtype_of(dtype))


@lower("aten.to.device")
def to_device(
    c: Context, x: Tensor, _device: object, dtype: object = None, _wait: bool = False, _copy: bool = False,
    _format: object = None, *, copy: bool = False,
) -> Tensor:  # fmt: skip
    """x in a dtype; on which device does not matter."""
    return to_copy(c, x, dtype=dtype)


def dtype_of(value: object) -> str:
    """`torch.float32` → `f32`."""
    path = getattr(value, "path", value)
    if path not in TORCH:
        raise InputError(f"`{path}` is no dtype that is known")
    return TORCH[str(path)]


@lower("aten.copy", "aten.copy_", "prims.copy_to")
def copy(c: Context, x: Tensor, src: Tensor | Number, non_blocking: bool = False) -> Tensor:
    """`src` as it looks once written over x."""
    if not isinstance(src, Tensor):
        return c.splat(src, x.dtype, x.shape)
    return c.broadcast(c.convert(src, x.dtype), x.shape)


@lower("aten.view.dtype", "aten.view_copy.dtype", "aten.bitcast")
def view_dtype(c: Context, x: Tensor, dtype: object) -> Tensor:
    """The bits of integers as another type of integers; those of reals hang on how each op rounds."""
    wanted = dtype_of(dtype)
    if wanted == x.dtype:
        return x
    if not (is_integer(wanted) and is_integer(x.dtype)) or wanted[1:] != x.dtype[1:]:
        raise Unsupported("reinterpretation of bits as another dtype")
    return c.emit("bitcast-convert", (x,), wanted, x.shape, None, {"from": [x.dtype]})
