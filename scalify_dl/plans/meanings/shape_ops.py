"""Ops that cut, join and repeat, forwards and backwards."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.ir.graph import Tensor

from .call import Call, IllTyped, NoMeaning, backward, forward
from .shapes import common, gathered, recut, spread

Tensors = Sequence[Tensor]


@forward("unsqueeze", "squeeze")
def one_more(call: Call) -> Tensors:
    (x,), (shape,) = call.operands, call.shapes
    longer, shorter = (shape, x.shape) if call.kind == "unsqueeze" else (x.shape, shape)
    (dim,) = call.dims("dim", len(longer))
    if tuple(longer) != (*shorter[:dim], 1, *shorter[dim:]):
        raise IllTyped(f"dim {dim} of {list(longer)} is what {list(shorter)} lacks")
    return [recut(call.program, x, shape)]


@backward("unsqueeze", "squeeze")
def one_less(call: Call) -> Tensors:
    return [recut(call.program, call.operands[0], call.operands[1].shape)]


@forward("expand")
def expand(call: Call) -> Tensors:
    (x,), (shape,) = call.operands, call.shapes
    asked = call.integers("size")
    kept = (1,) * (len(shape) - len(x.shape)) + tuple(x.shape)
    if [n if a == -1 else a for a, n in zip(asked, kept, strict=False)] != list(shape) or len(asked) != len(shape):
        raise IllTyped(f"size={call.attributes['size']} is declared to make {list(shape)}")
    if common(x.shape, shape) != tuple(shape):
        raise IllTyped(f"{list(x.shape)} is not expanded to {list(shape)}")
    return [spread(call.program, x, shape)]


@backward("expand")
def added_again(call: Call) -> Tensors:
    gradient, x = call.operands
    return [gathered(call.program, gradient, x.shape)]


def _sizes(call: Call, extent: int) -> list[int]:
    """Sizes of the parts of a split."""
    asked = call.integers("split_size_or_sections")
    if len(asked) == 1:
        asked = [asked[0]] * (extent // max(asked[0], 1)) + ([extent % asked[0]] if extent % max(asked[0], 1) else [])
    if sum(asked) != extent or min(asked) < 1:
        raise IllTyped(f"parts {call.attributes['split_size_or_sections']} of {extent} elements")
    return asked


@forward("split")
def split(call: Call) -> Tensors:
    (x,) = call.operands
    (dim,) = call.dims("dim", len(x.shape)) if "dim" in call.attributes else (0,)
    return call.program.split(x, dim, _sizes(call, x.shape[dim]))


@backward("split")
def joined_again(call: Call) -> Tensors:
    *gradients, x = call.operands
    (dim,) = call.dims("dim", len(x.shape)) if "dim" in call.attributes else (0,)
    if [g.shape[dim] for g in gradients] != _sizes(call, x.shape[dim]):
        raise NoMeaning("gradients of some of the parts alone")
    return [call.program.concatenate(gradients, dim)]


@forward("cat")
def cat(call: Call) -> Tensors:
    (dim,) = call.dims("dim", len(call.operands[0].shape))
    rest = {(*x.shape[:dim], *x.shape[dim + 1 :]) for x in call.operands}
    if len(rest) > 1:
        raise IllTyped(f"{' and '.join(str(list(x.shape)) for x in call.operands)} are not joined along dim {dim}")
    return [call.program.concatenate(call.operands, dim)]


@backward("cat")
def parted(call: Call) -> Tensors:
    gradient, *parts = call.operands
    (dim,) = call.dims("dim", len(gradient.shape))
    if len(call.types) != len(parts):
        raise NoMeaning("gradients of some of the parts alone")
    return call.program.split(gradient, dim, [x.shape[dim] for x in parts])
