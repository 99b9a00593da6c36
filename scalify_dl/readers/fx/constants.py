"""Values of tensor constants, which FX text only names, from the annotation beside it."""

from __future__ import annotations

from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Literal, Tensor
from scalify_dl.ir.literals import scalar_text

from .dtypes import category

__all__ = ["literal_of"]


def literal_of(value: Any, tensor: Tensor) -> Literal:
    """The literal of a number or of nested lists of numbers that fill the tensor; elided where there is no value.

    Raises InputError where the value is of another shape.
    """
    if value is None:
        return Literal.elided()
    flat: list[int | float | bool] = []
    text = _text(value, tensor.shape, flat, tensor)
    if not tensor.shape:
        return Literal.scalar(flat[0], tensor.dtype)
    whole = category(tensor.dtype) < 2 and all(isinstance(number, int) for number in flat)
    return Literal(text, items=tuple(int(number) for number in flat) if whole else None)


def _text(value: Any, shape: tuple[int, ...], flat: list[int | float | bool], tensor: Tensor) -> str:
    if not shape:
        if not isinstance(value, int | float):
            raise InputError(f"the value of `{tensor.name}` ({tensor.type}) in the annotation is not of that shape")
        flat.append(value)
        return scalar_text(str(int(value)) if isinstance(value, bool) else repr(value))
    if not isinstance(value, list) or len(value) != shape[0]:
        raise InputError(f"the value of `{tensor.name}` ({tensor.type}) in the annotation is not of that shape")
    return "{" + ",".join(_text(item, shape[1:], flat, tensor) for item in value) + "}"
