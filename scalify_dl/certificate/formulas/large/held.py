"""What a rank has of a baseline tensor by a layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..forms import Unknown
from ..programs import Layout, Program
from .atoms import Spread
from .blocks import Blocks, broadcast, reshaped, sliced, transposed


class _Digit(NamedTuple):
    """A digit of a dim of the baseline."""

    dim: int
    stride: int
    size: int
    place: tuple[int, int]
    """Dim and digit of the rank's tensor where it is."""
    value: int | None
    """What it is on the rank, if that is said by where the rank is."""


def held(
    atoms: Spread, tensor: Blocks, dtype: str, layout: Layout, rank: int, shape: Sequence[int], program: Program
) -> Blocks:
    """What a rank has of a baseline tensor of that type by a layout; Unknown where all ranks together do not have all
    of it."""
    if [prod(size for _, _, size in dim) for dim in layout.dims] != [*shape]:
        raise Unknown("a layout of another shape")
    digits = _digits(layout, program.coords[rank], program)
    found: list[_Digit] = []
    for dim, count in enumerate(tensor.shape):
        for digit in sorted((d for d in digits if d.dim == dim), key=lambda d: -d.stride):
            if digit.stride * digit.size != count:
                raise Unknown("a layout that leaves out elements")
            count = digit.stride
            found.append(digit)
        if count != 1:
            raise Unknown("a layout that leaves out elements")
    if len(found) != len(digits):
        raise Unknown("a layout of dims that are not there")
    x = reshaped(atoms, tensor, [digit.size for digit in found])
    for n, digit in enumerate(found):
        if digit.value is not None:
            x = sliced(atoms, x, n, digit.value, digit.value + 1)
    x = transposed(atoms, x, sorted(range(len(found)), key=lambda n: found[n].place))
    entries = [entry for dim in layout.dims for entry in dim]
    own = [n for n, (dim, _, _) in enumerate(entries) if dim is not None]
    x = reshaped(atoms, x, [entries[n][2] for n in own])
    if layout.scale != 1:
        cells = np.empty(x.cells.shape, dtype=object)
        for at, element in np.ndenumerate(x.cells):
            cells[at] = layout.of(element, dtype)
        x = Blocks(x.parts, cells)
    return reshaped(atoms, broadcast(atoms, x, [size for _, _, size in entries], own), shape)


def _digits(layout: Layout, at: dict[str, int], program: Program) -> list[_Digit]:
    """The digits of the baseline's dims that are more than one number."""
    found = []
    for d, words in enumerate(layout.dims):
        places = enumerate(words)
        found += [_Digit(dim, stride, size, (d, n), None) for n, (dim, stride, size) in places if dim is not None]
    for axis, words in layout.axes.items():
        value = at[axis]
        if prod(size for _, _, size in words) != program.sizes[axis]:
            raise Unknown("a layout whose digits are others than the extent")
        for dim, stride, size in reversed(words):
            value, digit = divmod(value, size)
            if dim is not None:
                found.append(_Digit(dim, stride, size, (-1, 0), digit))
    return [digit for digit in found if digit.size != 1]
