"""Complex numbers from their parts, and the parts of them."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor

from .core import Context, lower


@lower("aten.view_as_real")
def view_as_real(c: Context, x: Tensor) -> Tensor:
    dtype = "f64" if x.dtype == "c128" else "f32"
    parts = [c.emit(kind, (x,), dtype, x.shape) for kind in ("real", "imag")]
    return c.concatenate([c.reshape(part, (*x.shape, 1)) for part in parts], len(x.shape))


@lower("aten.view_as_complex")
def view_as_complex(c: Context, x: Tensor) -> Tensor:
    shape = x.shape[:-1]
    real, imag = (c.reshape(c.slice(x, len(shape), i, i + 1), shape) for i in (0, 1))
    return c.emit("complex", (real, imag), "c128" if x.dtype == "f64" else "c64", shape)


@lower("aten.complex")
def complex_(c: Context, real: Tensor, imag: Tensor) -> Tensor:
    return c.emit("complex", (real, imag), "c128" if real.dtype == "f64" else "c64", real.shape)


@lower("aten.real", "aten.imag")
def real_part(c: Context, x: Tensor) -> Tensor:
    if x.dtype[0] != "c":
        return x
    return c.emit("imag" if "imag" in c.target else "real", (x,), "f64" if x.dtype == "c128" else "f32", x.shape)


@lower("aten.polar")
def polar(c: Context, magnitude: Tensor, angle: Tensor) -> Tensor:
    return complex_(c, c.multiply(magnitude, c.unary("cosine", angle)), c.multiply(magnitude, c.unary("sine", angle)))


@lower("aten._conj", "aten.conj", "aten._conj_physical", "aten.conj_physical")
def conjugate(c: Context, x: Tensor) -> Tensor:
    return c.conjugate(x)
