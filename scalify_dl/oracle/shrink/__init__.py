"""The same program at the smallest sizes that keep its factor structure (see `extents`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod

from scalify_dl.ir.layout import Digit, Entry, Layout, Window

from ..addressing import Piece, layout_of
from ..program import Graph, Op, Program, Shard, Tensor
from . import indexed  # noqa: F401  (registers its rules)
from .constraints import RULES, Shapes
from .convolutions import side_by_side, spatial
from .counts import keep_counted
from .extents import Conflict, Sizes
from .mesh import Grid, short
from .rows import expected_rows, fits, relate

__all__ = ["Shrunk", "shrink"]


_SIZED = frozenset({"slice", "pad", "dynamic-slice", "gather", "constant", "convolution"})
"""Kinds with attributes that are sizes or offsets."""


class Shrunk:
    """A program at small sizes, and how texts about the original translate.

    `program` is the small one. `relation(row)` translates a correspondence that was given to `shrink`.
    """

    def __init__(self, program: Program, relations: Iterable[Shard], least: int, *, fewer_ranks: bool = False) -> None:
        empty = next((t.id for t in program.tensors.values() if 0 in t.shape), None)
        if empty is not None:
            raise Conflict(f"{empty} has no elements: its dims have no factors")
        s = Shapes(program, Grid(program) if fewer_ranks else None)
        for graph in program.graphs.values():
            for op in graph.ops:
                found = RULES.get(op.kind)
                if found is None or (op.kind in ("reduce", "sort") and op.regions):
                    s.keep_all(op)
                else:
                    found(s, op)
        keep_counted(s)
        for tensor, (lo, hi) in program.ranges.items():
            count = s.counts(tensor)
            if count is not None:
                s.extents.literal(count, lo)
                s.extents.literal(count, hi)
        self._rows: dict[Shard, tuple[list[int], list[int]]] = {}
        for row in [*program.shards, *expected_rows(program), *relations]:
            if row not in self._rows and fits(program, row):
                related = relate(s, row)
                if related is not None:
                    self._rows[row] = related
        for unread in [tensor for tensor in program.tensors if tensor not in s.known]:
            s.dims(unread)
        self._shapes = s
        self._sizes: Sizes = s.extents.solve(least)
        self._places = short(program.coords, s.axes, self._sizes)
        self.program = self._apply(program)

    def relation(self, row: Shard) -> Shard | None:
        """The correspondence at the small sizes; None for one that does not fit its tensors."""
        if row not in self._rows:
            return None
        dist, base = self._rows[row]
        z = self._sizes

        def digit(entry: Digit) -> Digit:
            stride = z.offset(base[entry.dim], entry.stride)
            return Digit(entry.dim, stride, z.offset(base[entry.dim], entry.stride * entry.size) // stride)

        def along(axis: str, entries: Iterable[Entry]) -> Iterator[Entry]:
            """From the last one on."""
            at = 1
            for e in reversed(tuple(entries)):
                if isinstance(e, Digit):
                    yield digit(e)
                elif axis in self._shapes.axes:
                    extent = self._shapes.axes[axis]
                    yield e._replace(size=z.offset(extent, at * e.size) // z.offset(extent, at))
                else:
                    yield e
                at *= e.size

        def piece(tensor: str, windows: Piece) -> Piece:
            dims = self._shapes.dims(tensor)
            return tuple(Window(w.dim, z.offset(dims[w.dim], w.lo), z.offset(dims[w.dim], w.hi)) for w in windows)

        def local(dim: int, digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
            small, stride = [], 1
            for d in reversed(digits):
                size = z.offset(dim, stride * d.size) // z.offset(dim, stride)
                small.append(digit(d) if d.stride else Digit(d.dim, 0, size))
                stride *= d.size
            return tuple(reversed(small))

        layout = Layout(
            tuple(local(dim, digits) for dim, digits in zip(dist, row.layout.dims, strict=True)),
            tuple((axis, tuple(along(axis, entries))[::-1]) for axis, entries in row.layout.axes),
            row.layout.scale,
        )
        return Shard(row.dist, piece(row.dist, row.dist_piece), row.base, piece(row.base, row.base_piece), layout)

    def _apply(self, program: Program) -> Program:
        shapes: dict[int, tuple[int, ...]] = {}
        tensors = {t: self._tensor(program.tensors[t], shapes) for t in program.tensors}
        graphs = {
            g.id: Graph(g.id, g.role, g.inputs, g.outputs, [self._op(op, tensors) for op in g.ops], self._left(g))
            for g in program.graphs.values()
        }
        expects = []
        for dist, base, text in program.expects:
            row = Shard(dist, (), base, (), layout_of(text)) if text else None
            small = self.relation(row) if row else None
            expects.append((dist, base, str(small.layout) if small else text))
        ranges = {}
        for tensor, (lo, hi) in program.ranges.items():
            count = self._shapes.counts(tensor)
            value = (lo, hi) if count is None else (self._sizes.value(count, lo), self._sizes.value(count, hi))
            ranges[tensor] = value
        shards = [small for row in program.shards if (small := self.relation(row))]
        shards += [row for row in program.shards if row not in self._rows]
        for graph in program.top("base"):
            for tensor in graph.inputs:
                count = self._shapes.counts(tensor)
                if tensor not in ranges and count is not None and self._shapes.extents.size(count) > 1:
                    ranges[tensor] = (0, self._sizes.size(count))
        mesh = {
            axis: self._sizes.size(self._shapes.axes[axis]) if axis in self._shapes.axes else size
            for axis, size in program.mesh.items()
        }
        return replace(
            program,
            mesh=mesh,
            coords=self._places,
            graphs=graphs,
            tensors=tensors,
            shards=shards,
            expects=expects,
            ranges=ranges,
        )

    def _left(self, graph: Graph) -> tuple[int, ...]:
        return tuple(rank for rank in graph.ranks if rank in self._places) if graph.role == "dist" else graph.ranks

    def _tensor(self, tensor: Tensor, shapes: dict[int, tuple[int, ...]]) -> Tensor:
        """`shapes`: those of lists of extents, which tensors share."""
        s, z = self._shapes, self._sizes
        dims = s.dims(tensor.id)
        shape = shapes.get(id(dims))
        if shape is None:
            shape = shapes[id(dims)] = tuple(z.size(d) for d in dims)
        literal, items = tensor.literal, tensor.items
        count = s.counts(tensor.id) if items is not None or literal is not None else None
        if count is not None:
            if items is not None:
                items = tuple(z.value(count, v) for v in items)
            if literal is not None and literal.lstrip("-").isdigit():
                literal = str(z.value(count, int(literal)))
        return Tensor(tensor.id, tensor.dtype, shape, literal, items, tensor.sha256)

    def _op(self, op: Op, tensors: dict[str, Tensor]) -> Op:
        if self._shapes.axes and (op.groups or op.by_rank):
            groups = [[rank for rank in group if rank in self._places] for group in op.groups]
            by_rank = {
                key: {pos: {r: v for r, v in values.items() if r in self._places} for pos, values in positions.items()}
                for key, positions in op.by_rank.items()
            }
            op = replace(op, groups=[group for group in groups if group], by_rank=by_rank)
        if op.kind not in _SIZED:
            return op
        s, z = self._shapes, self._sizes
        numbers, by_rank = {key: list(values) for key, values in op.numbers.items()}, dict(op.by_rank)

        def each(key: str, extents: list[int]) -> None:
            if key in numbers:
                numbers[key] = [z.offset(x, v) if v else 0 for x, v in zip(extents, numbers[key], strict=True)]
            if key in by_rank:
                by_rank[key] = {
                    pos: {rank: z.offset(extents[pos], v) for rank, v in values.items()}
                    for pos, values in by_rank[key].items()
                }

        if op.kind == "slice":
            whole = s.dims(op.operands[0])
            stride = numbers.get("stride", [1] * len(whole))
            before = op.numbers.get("start", [])
            strided = [pos for pos in range(len(whole)) if stride[pos] != 1]
            each("start", whole)
            for pos in strided:  # the digit below the stride keeps its size
                numbers["start"][pos] = before[pos]
            small = tensors[op.results[0]].shape
            numbers["limit"] = [
                a + (n - 1) * st + 1 if n else a for a, n, st in zip(numbers["start"], small, stride, strict=True)
            ]
            by_rank.pop("limit", None)
            if "start" in by_rank:
                by_rank["limit"] = {
                    pos: {r: a + (small[pos] - 1) * stride[pos] + 1 for r, a in values.items()}
                    for pos, values in by_rank["start"].items()
                }
        elif op.kind == "pad":
            each("low", s.dims(op.results[0]))
            each("high", s.dims(op.results[0]))
        elif op.kind == "dynamic-slice":
            numbers["sizes"] = list(tensors[op.results[0]].shape)
        elif op.kind == "gather":
            each("slice_sizes", s.dims(op.operands[0]))
        elif op.kind == "convolution" and "window_stride" in numbers:
            shapes = [s.program.tensors[t].shape for t in (*op.operands, *op.results)]
            window = tensors[op.operands[1]].shape
            for n, ((_, b, _), beside) in enumerate(zip(spatial(op), side_by_side(op, shapes), strict=True)):
                if beside:
                    numbers["window_stride"][n] = window[b]
        elif op.kind == "constant" and "value" in by_rank:
            count = s.counts(op.results[0])
            if count is not None:
                by_rank["value"] = {
                    pos: {rank: z.value(count, v) for rank, v in values.items()}
                    for pos, values in by_rank["value"].items()
                }
        return replace(op, numbers=numbers, by_rank=by_rank)

    @property
    def elements(self) -> tuple[int, int]:
        """Elements of all tensors before and after."""
        before = sum(prod(t.shape) for t in self._shapes.program.tensors.values())
        return before, sum(prod(t.shape) for t in self.program.tensors.values())


def shrink(program: Program, relations: Iterable[Shard] = (), least: int = 2, *, fewer_ranks: bool = False) -> Shrunk:
    """Shrinks a program. `relations` are further correspondences whose layouts must survive (those to audit).
    `fewer_ranks`: axes of the mesh, too, where they may become short.

    Conflict where the structure of the sizes does not allow it, or a tensor is empty.
    """
    return Shrunk(program, relations, least, fewer_ranks=fewer_ranks)
