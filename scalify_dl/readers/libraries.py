"""Ops of XLA that a library computes, of each signal or matrix by itself: Fourier transforms, Cholesky factors,
triangular systems. They are opaque functions of operands and attributes; the leading dims are a batch
(`datalog/ops/custom/libraries.dl`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.ir.graph import Tensor

PREFIX = "hlo."
"""Begins what such kinds are called behind `custom:`; a custom call whose target begins so is none of them."""
FLAGS = {"cholesky": ("lower",), "triangular-solve": ("left_side", "lower", "unit_diagonal")}
SYMBOLS = {"fft": "fft_type", "triangular-solve": "transpose_a"}
WORDS = {
    "fft_type": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "transpose_a": ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
}
REAL_OF = {"c64": "f32", "c128": "f64"}
COMPLEX_OF = {real: both for both, real in REAL_OF.items()}

Type = tuple[str, tuple[int, ...]]


def result_type(opcode: str, operands: Sequence[Tensor], numbers: Mapping[str, list[int]], word: str) -> Type:
    """The type of the result; ValueError, with what was expected, for operands that the op does not take."""
    x = operands[0]
    if opcode == "fft":
        return _transformed(x, numbers["fft_length"], word)
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError("square matrices")
    if opcode == "cholesky":
        return x.dtype, x.shape
    b = operands[1]
    side = -2 if numbers["left_side"][0] else -1
    alike = len(b.shape) == len(x.shape) and b.dtype == x.dtype and b.shape[:-2] == x.shape[:-2]
    if not alike or b.shape[side] != x.shape[-1]:
        raise ValueError("as many right sides, of the size of the matrices")
    return b.dtype, b.shape


def _transformed(x: Tensor, length: list[int], word: str) -> Type:
    count = len(length)
    if not 1 <= count <= 3 or count > len(x.shape):
        raise ValueError("one to three lengths, of the last dims")
    batch, last = x.shape[: len(x.shape) - count], x.shape[len(x.shape) - count :]
    half = (*length[:-1], length[-1] // 2 + 1)
    if last != (half if word == "IRFFT" else tuple(length)):
        raise ValueError("lengths of the last dims")
    dtype = {"RFFT": COMPLEX_OF, "IRFFT": REAL_OF}.get(word, {both: both for both in REAL_OF}).get(x.dtype)
    if dtype is None:
        raise ValueError("real numbers for RFFT, complex ones for others")
    return dtype, (*batch, *(half if word == "RFFT" else length))
