"""Rotary embedding: neighbouring pairs along the last dim are complex numbers, multiplied by e^(i·angle)."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program

from .call import IllTyped


def rotated(p: Program, x: Tensor, angles: Tensor, *, conjugate: bool) -> Tensor:
    """`x` [batch, position, head, 2n] times `angles` [position, n] (complex), or their conjugates: the gradient."""
    if len(x.shape) != 4 or angles.shape != (x.shape[1], x.shape[3] // 2) or x.shape[3] % 2:
        raise IllTyped(f"a rotation of {list(x.shape)} by {list(angles.shape)}")
    half = (*x.shape[:-1], x.shape[-1] // 2)
    pairs = p.reshape(x, (*half, 2))
    real, imag = (p.reshape(part, half) for part in p.split(pairs, 4, [1, 1]))
    cos, sin = (p.broadcast(part, half, [1, 3]) for part in (p.real(angles), p.imag(angles)))
    if conjugate:
        sin = p.negate(sin)
    turned = (
        p.subtract(p.multiply(real, cos), p.multiply(imag, sin)),
        p.add(p.multiply(real, sin), p.multiply(imag, cos)),
    )
    return p.reshape(p.concatenate([p.reshape(part, (*half, 1)) for part in turned], 4), x.shape)
