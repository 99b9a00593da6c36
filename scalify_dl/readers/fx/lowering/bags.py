"""Bags of embeddings: rows of a table taken by index, and added up bag by bag.

Bag b has the rows at positions offsets[b] ≤ j < offsets[b + 1]. Where the offsets are written out as 0, k, 2k … (what
`nn.EmbeddingBag` makes of ids with two dims) all bags have k rows, and a dim says which bag a row is in. Else every row
meets every bag, and is kept in its own.
"""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor

from .core import Context, Unsupported, lower
from .indexing import scatter_slices, take
from .views import Lazy

SUM, MEAN = 0, 1


def _step(c: Context, x: Tensor) -> int | None:
    """k of a vector that is written out as 0, k, 2k …"""
    step = 1
    while x not in c.iotas:
        made = c.producers.get(x)
        number = c.scalars.get(made.operands[1]) if made is not None and made.kind in ("multiply", "add") else None
        if made is None or not isinstance(number, int) or (made.kind == "add" and number):
            return None
        x, step = made.operands[0], step * number if made.kind == "multiply" else step
    return step if c.iotas[x] == (0, 0) else None


class Bags:
    """Which rows are in which bag."""

    def __init__(self, c: Context, index: Tensor, offsets: Tensor, padding: int) -> None:
        if len(index.shape) != 1:
            raise Unsupported("bags of ids with several dims")
        (self.rows,), (self.bags,) = index.shape, offsets.shape
        self.c, self.index = c, index
        step = _step(c, offsets)
        self.even = step is not None and step * self.bags == self.rows
        self.shape = (self.bags, step if self.even and step is not None else self.rows)
        self.member = None if self.even and padding < 0 else self._members(offsets, padding)

    def _members(self, offsets: Tensor, padding: int) -> Tensor:
        """[bags, rows of a bag, or all]: whether the row counts in the bag."""
        c = self.c
        counted = [] if padding < 0 else [self.by_bag(c.compare("NE", self.index, padding))]
        if not self.even:
            ended = c.concatenate([c.slice(offsets, 0, 1, self.bags), c.splat(self.rows, offsets.dtype, (1,))], 0)
            place = c.iota(offsets.dtype, self.shape, 1)
            counted += [
                c.compare("LE", c.spread(offsets, self.shape, [0]), place),
                c.compare("LT", place, c.spread(ended, self.shape, [0])),
            ]
        result = counted[0]
        for other in counted[1:]:
            result = c.binary("and", result, other)
        return result

    def by_bag(self, x: Tensor) -> Tensor:
        """[rows, …] → [bags, rows of a bag, or all, …]"""
        if self.even:
            return self.c.reshape(x, (*self.shape, *x.shape[1:]))
        return self.c.spread(x, (*self.shape, *x.shape[1:]), range(1, len(x.shape) + 1))

    def kept(self, x: Tensor) -> Tensor:
        """What of [bags, rows, …] is in its bag, else 0."""
        if self.member is None:
            return x
        return self.c.select(self.c.spread(self.member, x.shape, [0, 1]), x, 0, dtype=x.dtype)

    def shared(self, x: Tensor, mode: int) -> Tensor:
        """[bags, …], divided by how many rows the bag has, for means."""
        if mode == SUM:
            return x
        if self.member is None:
            return self.c.divide(x, max(self.shape[1], 1))
        count = self.c.reduce(self.c.convert(self.member, x.dtype), [1], "sum")
        count = self.c.binary("maximum", count, self.c.splat(1, x.dtype, count.shape))
        return self.c.divide(x, self.c.spread(count, x.shape, [0]))


def _not_kept() -> Tensor:
    raise Unsupported("what kernels keep of bags for the backward, which does without it here")


def _bags(c: Context, indices: Tensor, offsets: Tensor, padding: int, mode: int, scaled: bool) -> Bags:
    if mode not in (SUM, MEAN) or scaled:
        raise Unsupported("bags whose greatest is taken, or whose gradient is scaled by frequency")
    return Bags(c, indices, offsets, padding)


@lower("aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(
    c: Context, weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = SUM,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor | Lazy, ...]:  # fmt: skip
    """Sums or means of the rows of each bag. (The layout of the gradient, sparse or not, is no matter here.)"""
    if include_last_offset:
        raise Unsupported("bags with an offset behind the last")
    bags = _bags(c, indices, offsets, padding_idx, mode, False)
    rows = take(c, weight, 0, indices)
    if per_sample_weights is not None:
        rows = c.multiply(rows, c.spread(per_sample_weights, rows.shape, [0]))
    sums = c.reduce(bags.kept(bags.by_bag(rows)), [1], "sum")
    return bags.shared(sums, mode), _not_kept, _not_kept, _not_kept


@lower("aten._embedding_bag_backward")
def embedding_bag_backward(
    c: Context, grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor,
    maximum_indices: Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    """The gradient of each bag, its share for means, added up at the rows of the bag."""
    if sparse or offsets.shape[0] != grad.shape[0]:
        raise Unsupported("a sparse gradient of bags, or bags with an offset behind the last")
    bags = _bags(c, indices, offsets, padding_idx, mode, scale_grad_by_freq)
    (width,), count = grad.shape[1:], indices.shape[0]
    wide = bags.kept(c.spread(bags.shared(grad, mode), (*bags.shape, width), [0, 2]))
    rows = c.reshape(wide, (count, width)) if bags.even else c.reduce(wide, [0], "sum")
    if per_sample_weights is not None:
        rows = c.multiply(rows, c.spread(per_sample_weights, rows.shape, [0]))
    return scatter_slices(c, c.splat(0, grad.dtype, (num_weights, width)), [0], indices, rows, "sum", 1)
