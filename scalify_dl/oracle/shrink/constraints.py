"""What each op kind asks of sizes: one small function per kind, over the extents of its operands and results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from scalify_dl.ir.alike import Around, alike
from scalify_dl.ir.vocabulary import ONE_SHAPE
from scalify_dl.registry import registering

from ..meaning.elementwise import PLAIN
from ..program import Op, Program
from .extents import Extents
from .mesh import Grid

S = TypeVar("S")
Rule = Callable[["Shapes", Op], None]
RULES: dict[str, Rule] = {}
Place = tuple[int, int]
"""A dim of one of the tensors around an op: operands first, then results."""


class Shapes:
    """Extents of every dim of every tensor, and of what every integer tensor counts."""

    def __init__(self, program: Program, grid: Grid | None = None) -> None:
        self.program = program
        self.extents = Extents()
        self.grid = grid
        free = grid.free(program) if grid else ()
        self.axes = {axis: self.extents.new(program.mesh[axis]) for axis in sorted(free)}
        """Extents of the axes of the mesh that may become short."""
        self._dims: dict[str, list[int]] = {}
        self._counts: dict[str, int] = {}
        self._alike: dict[object, list[tuple[Place, Place]]] = {}
        self._numbers: dict[int, tuple[object, ...]] = {}
        self.producer = program.producer()

    def dims(self, tensor: str) -> list[int]:
        """One extent per dim."""
        if tensor not in self._dims:
            self._dims[tensor] = [self.extents.new(n) for n in self.program.tensors[tensor].shape]
        return self._dims[tensor]

    @property
    def known(self) -> Collection[str]:
        """Tensors whose extents were asked for."""
        return self._dims.keys()

    def counts(self, tensor: str) -> int | None:
        """The extent of what an integer tensor counts; None for other types."""
        if self.program.tensors[tensor].dtype[0] not in "su":
            return None
        if tensor not in self._counts:
            self._counts[tensor] = self.extents.new()
        return self._counts[tensor]

    def around(self, op: Op) -> Around[int]:
        """The extents around an op."""
        return _around(op, *([self.dims(t) for t in side] for side in (op.operands, op.results)))

    def alike(self, op: Op) -> None:
        """What `ir.alike` knows of its dims."""
        if op.kind in ONE_SHAPE:
            tensors = [*op.operands, *op.results]
            first, *others = [self.program.tensors[t].shape for t in tensors]
            if all(shape == first for shape in others):
                self.same_dims(tensors)
                return
        pairs = self._pairs(op)
        dims = [self.dims(t) for t in op.operands]
        if len(op.results) == 1 and op.results[0] not in self._dims:  # its extents are those of operands, where alike
            last = len(dims)
            of_result = {d: (t, e) for (t, e), (u, d) in reversed(pairs) if u == last and t != last}
            made = []
            for d, size in enumerate(self.program.tensors[op.results[0]].shape):
                t, e = of_result.get(d, (-1, -1))
                known = t >= 0 and self.extents.size(dims[t][e]) == size
                made.append(dims[t][e] if known else self.extents.new(size))
            self._dims[op.results[0]] = made
        dims += [self.dims(t) for t in op.results]
        for (t, d), (u, e) in pairs:
            if dims[t][d] != dims[u][e]:
                self.extents.same(dims[t][d], dims[u][e])

    def _pairs(self, op: Op) -> list[tuple[Place, Place]]:
        """Places around the op of which `ir.alike` says that they are of one size, those of the result last; ops of a
        model's layers ask for the same."""
        ranks = tuple(len(self.program.tensors[t].shape) for t in (*op.operands, *op.results))
        numbers = self._numbers.get(id(op.numbers))
        if numbers is None:
            numbers = self._numbers[id(op.numbers)] = tuple((key, tuple(some)) for key, some in op.numbers.items())
        key = (op.kind, len(op.operands), ranks, numbers)
        if op.by_rank or key not in self._alike:
            places = [[(t, d) for d in range(n)] for t, n in enumerate(ranks)]
            found = alike(_around(op, places[: len(op.operands)], places[len(op.operands) :]))
            self._alike[key] = [(min(pair), max(pair)) for pair in found]
        return self._alike[key]

    def same_dims(self, tensors: Sequence[str]) -> None:
        """All of one shape."""
        first = self.dims(tensors[0])
        for other in tensors[1:]:
            if self._dims.setdefault(other, first) is not first:  # a new tensor has these extents, no more are made
                for a, b in zip(first, self._dims[other], strict=True):
                    self.extents.same(a, b)

    def same_counts(self, tensors: Sequence[str], dim: int | None = None) -> None:
        """All count the same, the elements along `dim` (an extent) where given."""
        found = [c for t in tensors if (c := self.counts(t)) is not None]
        if dim is not None:
            found.append(dim)
        for other in found[1:]:
            self.extents.same(found[0], other)

    def lies_on(self, dim: int, stride: int, axis: str, at: int, size: int) -> None:
        """Digits of the dim from `stride` on are those of the axis from `at` on."""
        if axis in self.axes:
            self.extents.link(dim, stride, self.axes[axis], at, size)
        else:
            self.extents.keep(dim, stride, stride * size)

    def keep_counts(self, tensors: Sequence[str]) -> None:
        """Values stay as they are, so what they count keeps its size."""
        for tensor in tensors:
            count = self.counts(tensor)
            if count is not None:
                self.extents.freeze(count)

    def keep_all(self, op: Op) -> None:
        """No dim of the op changes."""
        for tensor in [*op.operands, *op.results]:
            for dim in self.dims(tensor):
                self.extents.keep(dim)
        self.keep_counts([*op.operands, *op.results])

    def scalar_constant(self, tensor: str) -> bool:
        """Whether the value is a broadcast integer constant (its literal is then registered with what it counts)."""
        op = self.producer.get(tensor)
        while op is not None and op.kind in ("broadcast", "reshape", "convert"):
            op = self.producer.get(op.operands[0])
        return op is not None and op.kind == "constant"


def _around(op: Op, operands: Sequence[Sequence[S]], results: Sequence[Sequence[S]]) -> Around[S]:
    return Around(op.kind, operands, results, lambda key: op.number(key, 0, []))


rule = registering(RULES)
"""Registers the constraints of some kinds."""


def _every(op: Op, key: str, pos: int) -> list[int]:
    """An attribute entry on every rank."""
    by_rank = op.by_rank.get(key, {}).get(pos)
    return sorted(set(by_rank.values())) if by_rank else [op.numbers[key][pos]] if key in op.numbers else []


@rule(*PLAIN, "compare", "convert", "reduce-precision", "dropout-mask")
def elementwise(s: Shapes, op: Op) -> None:
    """One shape. Sums, extremes and comparisons of counts count the same; products and quotients with a constant
    scale."""
    s.alike(op)
    tensors = [*op.operands, *op.results]
    if not any(s.program.tensors[t].dtype[0] in "su" for t in tensors):
        return
    if op.kind == "convert" and s.program.tensors[op.operands[0]].dtype[0] not in "sup":
        s.keep_counts(op.results)  # numbers that were counted or computed as reals: slots of tokens
    elif op.kind in (
        "add",
        "subtract",
        "maximum",
        "minimum",
        "clamp",
        "compare",
        "convert",
        "remainder",
        "abs",
        "negate",
        "sign",
    ):
        s.same_counts(tensors)
    elif op.kind == "select":
        s.same_counts(tensors[1:])
    elif op.kind == "multiply" and s.counts(op.results[0]) is not None:
        constants = [t for t in op.operands if s.scalar_constant(t)]
        if len(constants) == 1:
            s.same_counts([constants[0], op.results[0]])
            s.keep_counts([t for t in op.operands if t not in constants])
        else:
            s.keep_counts(tensors)
    elif op.kind in ("divide", "floor-divide") and s.counts(op.results[0]) is not None:
        if s.scalar_constant(op.operands[1]):
            s.same_counts(op.operands)
            s.keep_counts(op.results)
        else:
            s.keep_counts(tensors)
    else:
        s.keep_counts(tensors)


@rule("constant")
def constant(s: Shapes, op: Op) -> None:
    """Printed arrays stay; integer values are indices or bounds."""
    (result,) = op.results
    tensor, count = s.program.tensors[result], s.counts(result)
    values: set[int] = set()
    if tensor.items is not None:
        values = set(tensor.items)
        if len(tensor.items) > 1:
            for dim in s.dims(result):
                s.extents.keep(dim)
    elif tensor.literal is not None and tensor.literal.startswith("{") and tensor.literal != "{...}":
        for dim in s.dims(result):
            s.extents.keep(dim)
    elif count is not None and tensor.literal is not None and tensor.literal.lstrip("-").isdigit():
        values = {int(tensor.literal)}
    for by_rank in op.by_rank.get("value", {}).values():
        values |= set(by_rank.values())
    if count is not None:
        for value in values:
            s.extents.literal(count, value)


@rule("iota")
def iota(s: Shapes, op: Op) -> None:
    """Counts along its dim."""
    s.same_counts(op.results, s.dims(op.results[0])[op.number("dimension", 0, [0])[0]])


@rule("partition-id", "replica-id", "empty", "rng", "rng-uniform", "rng-normal", "rng-bit-generator")
def free(s: Shapes, op: Op) -> None:
    """Nothing to keep."""


@rule("broadcast", "transpose", "reverse", "collective-permute", "collective-broadcast")
def moved(s: Shapes, op: Op) -> None:
    """The same values at other places."""
    s.alike(op)
    s.same_counts([op.operands[0], op.results[0]])


@rule("reshape")
def reshape(s: Shapes, op: Op) -> None:
    """Within each smallest group of dims with equal product, both sides are digits of one linear index."""
    s.same_counts([op.operands[0], op.results[0]])
    left = [d for d in s.dims(op.operands[0]) if s.extents.size(d) != 1]
    right = [d for d in s.dims(op.results[0]) if s.extents.size(d) != 1]
    if any(s.extents.size(d) == 0 for d in left + right):
        return
    while left and right:
        a, b = [left.pop()], [right.pop()]
        size = [s.extents.size(a[0]), s.extents.size(b[0])]
        while size[0] != size[1]:
            side, rest, group = (0, left, a) if size[0] < size[1] else (1, right, b)
            group.append(rest.pop())
            size[side] *= s.extents.size(group[-1])
        if len(a) == len(b) == 1:
            s.extents.same(a[0], b[0])
            continue
        whole = s.extents.new(size[0])
        for group in (a, b):
            stride = 1
            for dim in group:
                s.extents.link(whole, stride, dim, 1, s.extents.size(dim))
                stride *= s.extents.size(dim)


def _part(s: Shapes, whole: int, part: int, *offsets: int) -> None:
    """`part` is a run of `whole` that starts at `offsets`."""
    if s.extents.size(whole) == s.extents.size(part) and not any(offsets):
        s.extents.same(whole, part)
    else:
        s.extents.units(whole, part, *offsets)


@rule("slice")
def slice_(s: Shapes, op: Op) -> None:
    """A run of the dim; with a stride, a digit of it."""
    s.same_counts([op.operands[0], op.results[0]])
    stride = op.number("stride", s.program.ranks[0], [1] * len(s.dims(op.results[0])))
    for pos, (whole, part) in enumerate(zip(s.dims(op.operands[0]), s.dims(op.results[0]), strict=True)):
        starts, n, count = _every(op, "start", pos), s.extents.size(whole), s.extents.size(part)
        if stride[pos] == 1:
            _part(s, whole, part, *starts)
        elif n == count * stride[pos] and max(starts) < stride[pos]:
            s.extents.link(whole, stride[pos], part, 1, count)
            s.extents.keep(whole, 1, stride[pos])
        else:
            s.extents.keep(whole)
            s.extents.keep(part)


@rule("pad")
def pad(s: Shapes, op: Op) -> None:
    """The operand is a run of the result (or the other way round where it crops)."""
    s.same_counts([op.operands[0], op.results[0]])
    for pos, (part, whole) in enumerate(zip(s.dims(op.operands[0]), s.dims(op.results[0]), strict=True)):
        if any(_every(op, "interior", pos)):
            s.extents.keep(part)
            s.extents.keep(whole)
        else:
            _part(s, whole, part, *_every(op, "low", pos), *_every(op, "high", pos))


@rule("concatenate")
def concatenate(s: Shapes, op: Op) -> None:
    """Operands are runs of the result along `dimension`."""
    along, offset = op.number("dimension", 0)[0], 0
    s.alike(op)
    for operand in op.operands:
        part = s.dims(operand)[along]
        _part(s, s.dims(op.results[0])[along], part, offset)
        offset += s.extents.size(part)
    s.same_counts([*op.operands, *op.results])


@rule("all-reduce", "cumulative")
def accumulated(s: Shapes, op: Op) -> None:
    """One shape; running counts count along the dim."""
    s.alike(op)
    if op.symbol("reducer", "sum") in ("max", "min") or op.kind == "all-reduce":
        s.same_counts([op.operands[0], op.results[0]])
    else:
        s.same_counts(op.results, s.dims(op.results[0])[op.number("dimension", 0)[0]])


@rule("reduce")
def reduce(s: Shapes, op: Op) -> None:
    """Dims that stay are the same; an index reduction counts along its dim."""
    gone = op.number("dimensions", 0, [])
    name = op.symbol("reducer", "region")
    s.alike(op)
    for operand, result in zip(op.operands, op.results, strict=False):
        if name in ("argmax", "argmin"):
            s.same_counts([result], s.dims(operand)[gone[0]])
        elif name in ("max", "min"):
            s.same_counts([operand, result])
        else:
            s.keep_counts([operand, result])


@rule("reduce-window", "select-and-scatter")
def windows(s: Shapes, op: Op) -> None:
    """Dims with a trivial window are the same, all others stay."""
    rank = len(s.dims(op.operands[0]))
    trivial = {
        pos
        for pos in range(rank)
        if all(
            op.number(key, 0, [default] * rank)[pos] == default
            for key, default in (
                ("window_size", 1), ("window_stride", 1), ("window_pad_low", 0), ("window_pad_high", 0),
                ("base_dilation", 1),
            )
        )
    }  # fmt: skip
    for tensor in [*op.operands[1:2], *op.results]:
        for pos, (a, b) in enumerate(zip(s.dims(op.operands[0]), s.dims(tensor), strict=False)):
            if pos in trivial:
                s.extents.same(a, b)
            else:
                s.extents.keep(a)
                s.extents.keep(b)


@rule("dot")
def dot(s: Shapes, op: Op) -> None:
    """Batch and contracting dims agree; free dims go to the result."""
    s.alike(op)
    s.keep_counts([*op.operands, *op.results])


def _blocks(s: Shapes, whole: int, part: int, op: Op) -> None:
    """`whole` is several `part`s, one per rank of the collective's groups."""
    n = s.extents.size(part)
    s.extents.link(whole, 1, part, 1, n)
    along = s.grid.along(op) if s.grid and s.axes else None
    if along is None:
        s.extents.keep(whole, n)
    for axis in reversed(along or ()):
        s.lies_on(whole, n, axis, 1, s.program.mesh[axis])
        n *= s.program.mesh[axis]


@rule("all-gather", "reduce-scatter")
def gathered(s: Shapes, op: Op) -> None:
    """Along `dimension`, the larger side is one block per rank."""
    sides = [s.dims(op.operands[0]), s.dims(op.results[0])]
    if op.kind == "reduce-scatter":
        sides.reverse()
    for pos, (part, whole) in enumerate(zip(*sides, strict=True)):
        if pos == op.number("dimension", 0)[0] and s.extents.size(part) != s.extents.size(whole):
            _blocks(s, whole, part, op)
        else:
            s.extents.same(part, whole)
    s.same_counts([op.operands[0], op.results[0]])


@rule("all-to-all")
def all_to_all(s: Shapes, op: Op) -> None:
    """Blocks of the split dim go out, blocks of the other come in."""
    split, concat = op.number("split_dimension", 0)[0], op.number("concat_dimension", 0)[0]
    for pos, (a, b) in enumerate(zip(s.dims(op.operands[0]), s.dims(op.results[0]), strict=True)):
        if split == concat and pos == split:
            count = max(len(group) for group in op.groups) if op.groups else len(s.program.ranks)
            s.extents.same(a, b)
            _blocks(s, a, s.extents.new(s.extents.size(a) // count), op)
        elif pos == split and s.extents.size(a) != s.extents.size(b):
            _blocks(s, a, b, op)
        elif pos == concat and s.extents.size(a) != s.extents.size(b):
            _blocks(s, b, a, op)
        else:
            s.extents.same(a, b)
    s.same_counts([op.operands[0], op.results[0]])
