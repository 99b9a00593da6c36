"""What libraries compute of each signal or matrix: Fourier transforms, Cholesky factors, triangular systems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .base import Array, Call, meaning

FOURIER: dict[str, Callable[..., Array]] = {
    "FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn
}  # fmt: skip


@meaning("custom:hlo.fft")
def fourier(call: Call, xs: list[Array]) -> list[Array]:
    """Over the last dims, of these lengths."""
    length = call.numbers("fft_length")
    return [FOURIER[call.symbol("fft_type")](xs[0], s=length, axes=range(-len(length), 0))]


@meaning("custom:hlo.cholesky")
def cholesky(call: Call, xs: list[Array]) -> list[Array]:
    """L of L·Lᴴ, or U of Uᴴ·U, by the triangle that is read; no number where a matrix has none."""
    lower = bool(call.number("lower"))
    half = np.tril(xs[0] if lower else np.swapaxes(xs[0], -1, -2).conj())
    whole = half + np.swapaxes(np.tril(half, -1), -1, -2).conj()
    found = np.full(whole.shape, np.nan, dtype=whole.dtype)
    for at in np.ndindex(*whole.shape[:-2]):
        try:
            found[at] = np.linalg.cholesky(whole[at])
        except np.linalg.LinAlgError:
            continue
    return [found if lower else np.swapaxes(found, -1, -2).conj()]


@meaning("custom:hlo.triangular-solve")
def triangular_solve(call: Call, xs: list[Array]) -> list[Array]:
    """X of op(A)·X = B, or of X·op(A) = B; infinite where a triangle has a 0 on its diagonal."""
    a = np.tril(xs[0]) if call.number("lower") else np.triu(xs[0])
    if call.number("unit_diagonal"):
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    turned = call.symbol("transpose_a")
    a = a if turned == "NO_TRANSPOSE" else np.swapaxes(a, -1, -2)
    a, b = a.conj() if turned == "ADJOINT" else a, xs[1]
    left = bool(call.number("left_side"))
    if not left:
        a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
    try:
        found = np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        found = np.full(b.shape, np.nan, dtype=b.dtype)
    return [found if left else np.swapaxes(found, -1, -2)]
