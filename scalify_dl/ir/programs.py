"""One program written by hand: a method for every op of the vocabulary (see `builder`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from scalify_dl.errors import InputError

from .callers import BUILDERS
from .graph import Graph, Tensor
from .literals import Literal
from .mesh import Mesh
from .recorder import Attribute, Axes, Recorder, axis_names
from .vocabulary import ELEMENTWISE

BUILDERS.add(os.path.abspath(__file__))

Scalar = int | float | Fraction


class Program(Recorder):
    """One program under construction. `graph` is the graph; ops get the caller's line as their source, or `source`
    where it is set."""

    def __init__(self, name: str, mesh: Mesh, graph: Graph | None = None) -> None:
        super().__init__(name, mesh, graph)
        self._groups: dict[tuple[str, ...], list[list[int]]] = {}

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        kind = name.replace("_", "-")
        if kind not in ELEMENTWISE:
            raise AttributeError(f"no op `{name}`")

        def elementwise(*operands: Tensor | Scalar, direction: str = "") -> Tensor:
            attributes = {"direction": direction} if direction else {}
            return self.op(kind, *self._broadcast(operands), attributes=attributes).result

        return elementwise

    def _broadcast(self, operands: Sequence[Tensor | Scalar]) -> list[Tensor]:
        """Scalars become constants of the type of the first tensor."""
        like = next((x for x in operands if isinstance(x, Tensor)), None)
        if like is None:
            raise InputError("an elementwise op of scalars alone")
        return [x if isinstance(x, Tensor) else self.full(x, like.shape, like.dtype) for x in operands]

    def input(
        self, name: str, shape: Sequence[int], dtype: str = "f32", *, range: tuple[int, int] | None = None
    ) -> Tensor:
        """An input; the same name on both sides pairs."""
        return self.graph.input(name, dtype, shape, path=name, range=range)

    def output(self, *values: Tensor) -> None:
        """Outputs, paired with the other side's by position."""
        for value in values:
            self.graph.output(value)

    # values

    def constant(self, value: Scalar | Literal, dtype: str = "f32", shape: Sequence[int] = ()) -> Tensor:
        """A constant (scalar or splat, or a literal)."""
        key = ("constant", str(value), dtype, tuple(shape))
        found = self._shared.get(key) if self._shared is not None and not isinstance(value, Literal) else None
        if found is None:
            found = self.op("constant", dtype=dtype, shape=shape)
            found.result.literal = value if isinstance(value, Literal) else Literal.scalar(value, dtype)
            if self._shared is not None and not isinstance(value, Literal):
                self._shared[key] = found
        return found.result

    def full(self, value: Scalar, shape: Sequence[int], dtype: str = "f32") -> Tensor:
        """A scalar constant broadcast to a shape."""
        scalar = self.constant(value, dtype)
        return self.broadcast(scalar, shape, ()) if shape else scalar

    def rank_constant(self, values: Mapping[int, int], dtype: str = "s32") -> Tensor:
        """An integer scalar that depends on the rank."""
        return self.op("constant", dtype=dtype, shape=(), rank_numbers={("value", 0): values}).result

    def iota(self, shape: Sequence[int], dimension: int, dtype: str = "s32") -> Tensor:
        """The index along a dim."""
        return self.op("iota", dtype=dtype, shape=shape, dimension=dimension).result

    def partition_id(self) -> Tensor:
        """The rank itself."""
        return self.op("partition-id", dtype="u32", shape=()).result

    # structure

    def broadcast(self, x: Tensor, shape: Sequence[int], dimensions: Sequence[int]) -> Tensor:
        """Operand dim i becomes result dim `dimensions[i]`."""
        return self.op("broadcast", x, shape=shape, dimensions=list(dimensions)).result

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Row-major."""
        return self.op("reshape", x, shape=shape).result

    def transpose(self, x: Tensor, *dimensions: int) -> Tensor:
        """Result dim j is operand dim `dimensions[j]`."""
        return self.op("transpose", x, dimensions=list(dimensions)).result

    def slice(self, x: Tensor, dim: int, start: int | Mapping[int, int], limit: int | Mapping[int, int]) -> Tensor:
        """`start:limit` along one dim; a mapping from rank to number where it depends on the rank."""
        starts: list[int] = [0] * len(x.shape)
        limits: list[int] = list(x.shape)
        by_rank: dict[tuple[str, int], Mapping[int, int]] = {}
        for key, values, value in (("start", starts, start), ("limit", limits, limit)):
            if isinstance(value, Mapping):
                by_rank[key, dim] = value
                values[dim] = value[min(value)]
            else:
                values[dim] = value
        return self.op("slice", x, start=starts, limit=limits, stride=[1] * len(x.shape), rank_numbers=by_rank).result

    def split(self, x: Tensor, dim: int, sizes: Sequence[int]) -> list[Tensor]:
        """Consecutive slices of the given sizes."""
        parts, at = [], 0
        for size in sizes:
            parts.append(self.slice(x, dim, at, at + size))
            at += size
        return parts

    def pad(self, x: Tensor, value: Scalar, low: Sequence[int], high: Sequence[int]) -> Tensor:
        """Padding before and after every dim."""
        fill = self.constant(value, x.dtype)
        return self.op("pad", x, fill, low=list(low), high=list(high), interior=[0] * len(x.shape)).result

    def concatenate(self, values: Sequence[Tensor], dimension: int) -> Tensor:
        """Along one dim."""
        return self.op("concatenate", *values, dimension=dimension).result

    def reverse(self, x: Tensor, *dimensions: int) -> Tensor:
        """Elements in opposite order."""
        return self.op("reverse", x, dimensions=list(dimensions)).result

    def convert(self, x: Tensor, dtype: str) -> Tensor:
        """A cast."""
        return self.op("convert", x, dtype=dtype).result

    # reductions and contractions

    def reduce(self, x: Tensor, dimensions: int | Sequence[int], reducer: str = "sum") -> Tensor:
        """A reduction over dims."""
        gone = [dimensions] if isinstance(dimensions, int) else list(dimensions)
        return self.op("reduce", x, dimensions=gone, reducer=reducer).result

    def cumulative(self, x: Tensor, dimension: int, reducer: str = "sum") -> Tensor:
        """A running reduction."""
        return self.op("cumulative", x, dimension=dimension, reducer=reducer).result

    def dot(
        self, lhs: Tensor, rhs: Tensor, contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> Tensor:  # fmt: skip
        """Contraction over (lhs dims, rhs dims), with batch dims in front of the result."""
        return self.op(
            "dot",
            lhs,
            rhs,
            lhs_contracting_dims=list(contract[0]),
            rhs_contracting_dims=list(contract[1]),
            lhs_batch_dims=list(batch[0]),
            rhs_batch_dims=list(batch[1]),
        ).result

    def matmul(self, x: Tensor, w: Tensor) -> Tensor:
        """Last dim of x with first of w; leading dims of x stay."""
        return self.dot(x, w, ([len(x.shape) - 1], [0]))

    def softmax(self, x: Tensor, dim: int) -> Tensor:
        """exp(x - max) / sum."""
        kept = [d for d in range(len(x.shape)) if d != dim]
        top = self.broadcast(self.reduce(x, dim, "max"), x.shape, kept)
        e = self.exponential(self.subtract(x, top))
        return self.divide(e, self.broadcast(self.reduce(e, dim), x.shape, kept))

    # indexing

    def embedding(self, table: Tensor, ids: Tensor) -> Tensor:
        """Rows of a table."""
        rank = len(ids.shape)
        return self.op(
            "gather",
            table,
            ids,
            offset_dims=[rank],
            collapsed_slice_dims=[0],
            start_index_map=[0],
            operand_batching_dims=[],
            start_indices_batching_dims=[],
            slice_sizes=[1, table.shape[1]],
            index_vector_dim=rank,
        ).result

    def dynamic_slice(self, x: Tensor, starts: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
        """A window whose starts are values."""
        return self.op("dynamic-slice", x, *starts, sizes=list(sizes)).result

    def dynamic_update_slice(self, x: Tensor, update: Tensor, starts: Sequence[Tensor]) -> Tensor:
        """A window overwritten."""
        return self.op("dynamic-update-slice", x, update, *starts).result

    def sort(self, x: Tensor, dimension: int, direction: str = "ASC") -> Tensor:
        """Sorted along a dim."""
        return self.op("sort", x, dimension=dimension, direction=direction).result

    def top_k(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k largest along the last dim, and their indices."""
        values, indices = self.op(
            "top-k", x, k=k, types=[(x.dtype, (*x.shape[:-1], k)), ("s32", (*x.shape[:-1], k))]
        ).results
        return values, indices

    # random, opaque, control

    def dropout_mask(self, x: Tensor, probability: float) -> Tensor:
        """A random boolean per element, true with probability 1 - p."""
        return self.op("dropout-mask", x, probability=Literal.scalar(probability).text).result

    def custom(
        self, name: str, operands: Sequence[Tensor], types: Sequence[tuple[str, Sequence[int]]], **attributes: int | str
    ) -> list[Tensor]:
        """An opaque call with results of the given types."""
        shapes = [(dtype, tuple(shape)) for dtype, shape in types]
        return self.op(f"custom:{name}", *operands, types=shapes, attributes=attributes).results

    def loop(
        self,
        carried: Sequence[Tensor],
        condition: Callable[..., Tensor],
        body: Callable[..., Sequence[Tensor]],
        trip_count: int | None = None,
    ) -> list[Tensor]:
        """`while`: `condition(program, *values)` and `body(program, *values)` build the two sub-graphs."""
        regions = [self.region("cond", carried, condition), self.region("body", carried, body)]
        attributes = {} if trip_count is None else {"trip_count": trip_count}
        types = [(t.dtype, t.shape) for t in carried]
        return self.op("while", *carried, types=types, regions=regions, attributes=attributes).results

    def region(self, name: str, like: Sequence[Tensor], build: Callable[..., Tensor | Sequence[Tensor]]) -> Graph:
        """A sub-graph: `build(program, *values)` makes its results from values like the given ones."""
        inner = Program(name, self.mesh)
        results = build(inner, *(inner.graph.input(f"{name}.{n}", t.dtype, t.shape) for n, t in enumerate(like)))
        for result in [results] if isinstance(results, Tensor) else results:
            inner.graph.output(result)
        return inner.graph

    # collectives

    def over(self, kind: str, x: Tensor, axes: Axes, **attributes: Attribute) -> Tensor:
        """A collective of ranks that differ in the given mesh axes only, in row-major order of these axes as listed."""
        if self.mesh.still:
            return self.op(kind, x, along=axes, attributes=attributes).result
        return self.op(kind, x, groups=self.groups(axes), attributes=attributes).result

    def groups(self, axes: Axes) -> list[list[int]]:
        """Groups of the ranks that are written and differ in the given mesh axes only, in row-major order of these."""
        names = axis_names(axes)
        known = self._groups.get(tuple(names))
        if known is not None:
            return [list(group) for group in known]
        groups = self.mesh.groups(names)
        self._groups[tuple(names)] = [list(group) for group in groups]
        return groups

    def all_reduce(self, x: Tensor, axes: Axes, reducer: str = "sum") -> Tensor:
        """A reduction over mesh axes."""
        return self.over("all-reduce", x, axes, reducer=reducer)

    def all_gather(self, x: Tensor, axes: Axes, dimension: int) -> Tensor:
        """Concatenation over mesh axes."""
        return self.over("all-gather", x, axes, dimension=dimension)

    def reduce_scatter(self, x: Tensor, axes: Axes, dimension: int, reducer: str = "sum") -> Tensor:
        """A reduction of which every rank keeps its part."""
        return self.over("reduce-scatter", x, axes, dimension=dimension, reducer=reducer)

    def all_to_all(self, x: Tensor, axes: Axes, split: int, concat: int) -> Tensor:
        """Splits one dim and concatenates another over mesh axes."""
        return self.over("all-to-all", x, axes, split_dimension=split, concat_dimension=concat)

    def permute(self, x: Tensor, pairs: Iterable[tuple[int, int]]) -> Tensor:
        """From source to target ranks."""
        return self.op("collective-permute", x, pairs=pairs).result
