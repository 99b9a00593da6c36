"""Data movement: reshapes, transposes, broadcasts, slices, concatenations, padding, with chains made one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .dims import Shape, kept_dim
from .emitter import Emitter, Number


class Structure(Emitter):
    """Emits structural ops."""

    def splat(self, value: Number | complex, dtype: str, shape: Shape) -> Tensor:
        """A constant of a shape with one value."""
        return self.broadcast(self.scalar(value, dtype), shape)

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """Row-major reshape; a reshape of a reshape is one reshape, and to the same shape none."""
        if x.shape == shape:
            return x
        if prod(x.shape) != prod(shape):
            raise InputError(f"{x.type} cannot be viewed as {list(shape)}")
        source = x
        while (view := self.views.get(source)) and view[0] == "reshape":
            source = view[1]
        if source.shape == shape:
            return source
        result = self.emit("reshape", (source,), x.dtype, shape)
        self.views[result] = ("reshape", source, ())
        if x in self.scalars:
            self.scalars[result] = self.scalars[x]
        if x in self.dense:
            self.dense.add(result)
        if x in self.iotas and (dim := kept_dim(x.shape, shape, self.iotas[x][0])) is not None:
            self.iotas[result] = (dim, self.iotas[x][1])
        return result

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Result dim j is dim `order[j]` of x; a transpose of a transpose is one transpose, or none."""
        order = tuple(order)
        if order == tuple(range(len(order))):
            return x
        source = x
        composed = order
        if (view := self.views.get(source)) and view[0] == "transpose":
            source, inner = view[1], view[2]
            composed = tuple(inner[d] for d in order)
            if composed == tuple(range(len(order))):
                return source
        shape = tuple(source.shape[d] for d in composed)
        result = self.emit("transpose", (source,), x.dtype, shape, {"dimensions": list(composed)})
        self.views[result] = ("transpose", source, composed)
        if x in self.iotas:
            self.iotas[result] = (order.index(self.iotas[x][0]), self.iotas[x][1])
        return result

    def broadcast(self, x: Tensor, shape: Shape) -> Tensor:
        """x broadcast to a shape as torch does: dims aligned at the right, dims of size 1 repeated."""
        if x.shape == shape:
            return x
        lead = len(shape) - len(x.shape)
        kept: list[int] = []
        for d, n in enumerate(x.shape):
            if n == shape[lead + d] if lead >= 0 else False:
                kept.append(d)
            elif n != 1 or lead < 0:
                raise InputError(f"{x.type} does not broadcast to {list(shape)}")
        narrow = self.reshape(x, tuple(x.shape[d] for d in kept))
        if narrow.shape == shape:
            return narrow
        dimensions = [lead + d for d in kept]
        result = self.emit("broadcast", (narrow,), x.dtype, shape, {"dimensions": dimensions})
        if x in self.scalars:
            self.scalars[result] = self.scalars[x]
        if narrow in self.iotas:
            dim, offset = self.iotas[narrow]
            self.iotas[result] = (dimensions[dim], offset)
        return result

    def conjugate(self, x: Tensor) -> Tensor:
        """The complex conjugate; of real numbers nothing changes."""
        if x.dtype[0] != "c":
            return x
        part = "f64" if x.dtype == "c128" else "f32"
        real, imag = (self.emit(kind, (x,), part, x.shape) for kind in ("real", "imag"))
        return self.emit("complex", (real, self.emit("negate", (imag,), part, x.shape)), x.dtype, x.shape)

    def spread(self, x: Tensor, shape: Shape, dims: Sequence[int]) -> Tensor:
        """x with its dim i at `dims[i]` of a shape, repeated along the others (`keepdim` without the reshape)."""
        if len(dims) == len(shape):
            return x
        return self.emit("broadcast", (x,), x.dtype, shape, {"dimensions": list(dims)})

    def slice(self, x: Tensor, dim: int, start: int, stop: int, step: int = 1) -> Tensor:
        """`x[start:stop:step]` along a dim, bounds within it."""
        if (start, stop, step) == (0, x.shape[dim], 1):
            return x
        rank = len(x.shape)
        size = -(-(stop - start) // step)
        result = self.emit(
            "slice",
            (x,),
            x.dtype,
            (*x.shape[:dim], size, *x.shape[dim + 1 :]),
            {
                "start": [start if d == dim else 0 for d in range(rank)],
                "limit": [stop if d == dim else x.shape[d] for d in range(rank)],
                "stride": [step if d == dim else 1 for d in range(rank)],
            },
        )
        if step == 1:
            self.slices[result] = (x, dim, start, stop)
            if x in self.iotas:
                along, offset = self.iotas[x]
                self.iotas[result] = (along, offset + (start if dim == along else 0))
        return result

    def block(self, x: Tensor, dim: int, index: int, count: int) -> Tensor:
        """One of `count` equal blocks of a dim, by way of a dim of blocks: what is inside of a block may be sharded."""
        size = x.shape[dim] // count
        split = self.reshape(x, (*x.shape[:dim], count, size, *x.shape[dim + 1 :]))
        result = self.reshape(self.slice(split, dim, index, index + 1), (*x.shape[:dim], size, *x.shape[dim + 1 :]))
        self.slices[result] = (x, dim, index * size, (index + 1) * size)
        return result

    def concatenate(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        """Concatenation; slices that partition one tensor equally are put together by reshapes alone, and a part among
        zeros is padded (which ranks that differ in the place of their part have in common)."""
        parts = [part for part in parts if part.shape[dim]] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        whole = self._partition(parts)
        if whole is not None:
            source, along = whole
            if along == dim:
                return source
            count, rank = len(parts), len(source.shape)
            split = (*source.shape[:along], count, source.shape[along] // count, *source.shape[along + 1 :])
            rest = [d + (d >= along) for d in range(rank)]  # dims of `split` but the count
            rest[along] = along + 1
            order = [*rest[:dim], along, *rest[dim:]]
            moved = self.transpose(self.reshape(source, split), order)
            shape = list(parts[0].shape)
            shape[dim] *= count
            return self.reshape(moved, tuple(shape))
        filled = [i for i, part in enumerate(parts) if self.scalars.get(part) != 0]
        if len(filled) == 1:
            x = parts[filled[0]]
            low, high = [0] * len(x.shape), [0] * len(x.shape)
            low[dim] = sum(part.shape[dim] for part in parts[: filled[0]])
            high[dim] = sum(part.shape[dim] for part in parts[filled[0] + 1 :])
            return self.pad(x, low, high, 0)
        if len({part.shape for part in parts}) == 1:  # equal blocks: along a dim of blocks
            one = (*parts[0].shape[:dim], 1, *parts[0].shape[dim:])
            blocks = [self.reshape(part, one) for part in parts]
            many = (*one[:dim], len(parts), *one[dim + 1 :])
            stacked = self.emit("concatenate", blocks, parts[0].dtype, many, {"dimension": [dim]})
            return self.reshape(stacked, (*one[:dim], len(parts) * one[dim + 1], *one[dim + 2 :]))
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        return self.emit("concatenate", parts, parts[0].dtype, tuple(shape), {"dimension": [dim]})

    def _partition(self, parts: Sequence[Tensor]) -> tuple[Tensor, int] | None:
        """The tensor and dim that parts are consecutive equal slices of, covering all of it."""
        source, along, at = None, 0, 0
        for part in parts:
            cut = self.slices.get(part)
            if cut is None or (source is not None and (cut[0] is not source or cut[1] != along)) or cut[2] != at:
                return None
            source, along, at = cut[0], cut[1], cut[3]
            if part.shape[along] != parts[0].shape[along]:
                return None
        return (source, along) if source is not None and at == source.shape[along] else None

    def pad(
        self, x: Tensor, low: Sequence[int], high: Sequence[int], value: Number, interior: Sequence[int] = ()
    ) -> Tensor:
        """XLA's pad (negative amounts crop); where nothing is added, slices, and the value is not looked at."""
        gaps = list(interior) or [0] * len(x.shape)
        if max((*low, *high, *gaps), default=0) <= 0:
            for d, (lo, hi) in enumerate(zip(low, high, strict=True)):
                x = self.slice(x, d, -lo, x.shape[d] + hi)
            return x
        shape = tuple(
            lo + n + max(n - 1, 0) * gap + hi for lo, n, gap, hi in zip(low, x.shape, gaps, high, strict=True)
        )
        numbers = {"low": list(low), "high": list(high), "interior": gaps}
        return self.emit("pad", (x, self.scalar(value, x.dtype)), x.dtype, shape, numbers)
