"""What a value of several programs is in the joined one, and the ops that bring it from one form into another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Tensor

from .cells import Cells

__all__ = ["Alike", "Awaited", "Message", "NeverComes", "Own", "Ragged", "Unjoinable", "Value", "Values", "in_blocks"]


class Unjoinable(Exception):
    """The programs do not become one program; they stay several."""


class NeverComes(Unjoinable):
    """Nor can they be run: somebody waits for what never comes. `error` says who."""

    def __init__(self, error: InputError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(eq=False, slots=True)
class Alike:
    """On each rank what that rank's program computes. `uniform`: counterparts in all cells hold the same."""

    tensor: Tensor
    uniform: bool


@dataclass(eq=False, slots=True)
class Own:
    """What one cell computes, on every rank: that of its counterpart there."""

    tensor: Tensor


@dataclass(eq=False, slots=True)
class Message:
    """Where a received value comes from: the n-th message from one rank to another over a channel."""

    source: int
    target: int
    channel: str
    number: int


@dataclass(eq=False, slots=True)
class Awaited:
    """A value that is received, by the place in the cell."""

    messages: list[Message]
    op: Op


@dataclass(eq=False)
class Ragged:
    """Unequal parts of one value along a dim: all blocks are full, the last one may have less, and none come after it.

    It is had as a whole, on every rank, or in blocks of which each rank has its own, with something behind the end."""

    dim: int
    sizes: tuple[int, ...]
    dtype: str
    rest: tuple[int, ...]  # the shape of a block
    make_whole: Callable[[], Tensor] | None = None
    make_block: Callable[[], Tensor] | None = None
    root: Ragged | None = None  # it is this one with its dims regrouped
    whole: Tensor | None = None
    block: Tensor | None = None
    parts: dict[int, Tensor] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The extent of the whole."""
        return sum(self.sizes)

    def extent(self, n: int) -> tuple[int, ...]:
        """The shape with n elements along the dim."""
        return (*self.rest[: self.dim], n, *self.rest[self.dim + 1 :])


Value = Alike | Own | Ragged | Awaited


def in_blocks(sizes: Sequence[int]) -> bool:
    """Whether parts are full blocks, then one that may have less, then none."""
    total = sum(sizes)
    return all(n == max(0, min(sizes[0], total - k * sizes[0])) for k, n in enumerate(sizes))


class Values:
    """The joined graph as it grows, and forms of its values; what is brought into a form is kept."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.graph = Graph("joined", ranks=None)
        self.made: dict[Tensor, Op] = {}
        self.part_of: dict[Tensor, tuple[Ragged, int]] = {}
        self._gathered: dict[Tensor, Tensor] = {}
        self._taken: dict[tuple[Tensor, int], Tensor] = {}
        self._chosen: dict[tuple[Value, ...], Tensor] = {}
        self._splats: dict[tuple[Tensor, tuple[int, ...]], Tensor] = {}

    def emit(self, kind: str, operands: Sequence[Tensor], like: Op | None, **attributes: object) -> Tensor:
        """An op with one result, named and placed as the op of a program that it stands for."""
        name = f"{like.name}.{kind}" if like is not None else kind
        result = self.graph.emit(
            kind, operands, name=name, source=like.source if like is not None else (), **attributes  # type: ignore[arg-type]
        )  # fmt: skip
        self.made[result] = self.graph.ops[-1]
        return result

    def cut(self, x: Tensor, dim: int, start: int, limit: int, like: Op | None) -> Tensor:
        """Elements along a dim."""
        if (start, limit) == (0, x.shape[dim]):
            return x
        lo, hi = [0] * len(x.shape), list(x.shape)
        lo[dim], hi[dim] = start, limit
        return self.emit("slice", [x], like, start=lo, limit=hi, stride=[1] * len(lo))

    def reshaped(self, x: Tensor, shape: Sequence[int], like: Op | None) -> Tensor:
        """The same elements in another shape."""
        return x if x.shape == tuple(shape) else self.emit("reshape", [x], like, shape=tuple(shape))

    def scalar(self, x: Tensor) -> Tensor | None:
        """The number that a value is everywhere; None where it is not known to be one."""
        op = self.made.get(x)
        return op.operands[0] if op is not None and op.kind == "broadcast" and not op.operands[0].shape else None

    def splat(self, scalar: Tensor, shape: Sequence[int], like: Op | None) -> Tensor:
        """One number everywhere."""
        key = scalar, tuple(shape)
        if key not in self._splats:
            self._splats[key] = self.emit("broadcast", [scalar], like, shape=key[1], dimensions=[])
        return self._splats[key]

    def at(self, cell: int, value: Value, like: Op | None = None) -> Tensor:
        """A value as one cell has it, on every rank."""
        if isinstance(value, Own):
            return value.tensor
        if isinstance(value, Alike):
            return value.tensor if value.uniform or self.cells.count == 1 else self.taken(value.tensor, cell, like)
        if isinstance(value, Ragged):
            return self.part(value, cell, like)
        raise Unjoinable("a message that has not come")

    def taken(self, x: Tensor, cell: int, like: Op | None) -> Tensor:
        """What the ranks of one cell have, on all ranks: gathered from counterparts, and cut out."""
        if (x, cell) not in self._taken:
            gathered = self.gathered(x, like)
            n = x.shape[0] if x.shape else 1
            self._taken[x, cell] = self.reshaped(self.cut(gathered, 0, cell * n, (cell + 1) * n, like), x.shape, like)
        return self._taken[x, cell]

    def gathered(self, x: Tensor, like: Op | None) -> Tensor:
        """What counterparts have, one after the other along dim 0."""
        if x not in self._gathered:
            row = x if x.shape else self.reshaped(x, (1,), like)
            shape = (row.shape[0] * self.cells.count, *row.shape[1:])
            self._gathered[x] = self.emit(
                "all-gather", [row], like, shape=shape, dtype=x.dtype, dimension=0, groups=self.cells.lines
            )
        return self._gathered[x]

    # --- parts of unequal sizes --------------------------------------------------------------------------------------

    def whole(self, value: Ragged, like: Op | None = None) -> Tensor:
        """All parts, one after the other, on every rank."""
        if value.whole is None:
            if value.make_whole is not None:
                value.whole = value.make_whole()
            else:
                block = self.block(value, like)
                shape = value.extent(value.rest[value.dim] * self.cells.count)
                every = self.emit(
                    "all-gather", [block], like, shape=shape, dtype=value.dtype, dimension=value.dim,
                    groups=self.cells.lines,
                )  # fmt: skip
                value.whole = self.cut(every, value.dim, 0, value.total, like)
        return value.whole

    def block(self, value: Ragged, like: Op | None = None) -> Tensor:
        """Each rank's own part, filled up to a full block."""
        if value.block is None:
            if value.make_block is not None:
                value.block = value.make_block()
            elif value.root is not None:
                value.block = self.reshaped(self.block(value.root, like), value.rest, like)
            else:
                value.block = self.own_block(self.filled(value, like), value.dim, value.rest[value.dim], like)
        return value.block

    def filled(self, value: Ragged, like: Op | None) -> Tensor:
        """All parts and zeros behind them, as many as fill the blocks."""
        dims = len(value.rest)
        high = [0] * dims
        high[value.dim] = value.rest[value.dim] * self.cells.count - value.total
        zero = self.graph.constant(0, value.dtype)
        return self.emit("pad", [self.whole(value, like), zero], like, low=[0] * dims, high=high, interior=[0] * dims)

    def own_block(self, x: Tensor, dim: int, n: int, like: Op | None) -> Tensor:
        """The cell's block of what all ranks have."""
        limit = list(x.shape)
        limit[dim] = n
        result = self.emit("slice", [x], like, start=[0] * len(limit), limit=limit, stride=[1] * len(limit))
        numbers = self.made[result].rank_numbers
        for rank, (cell, _) in self.cells.place.items():
            numbers.setdefault(("start", dim), {})[rank] = cell * n
            numbers.setdefault(("limit", dim), {})[rank] = (cell + 1) * n
        return result

    def part(self, value: Ragged, cell: int, like: Op | None) -> Tensor:
        """The part of one cell, on every rank."""
        if cell not in value.parts:
            start = sum(value.sizes[:cell])
            part = self.cut(self.whole(value, like), value.dim, start, start + value.sizes[cell], like)
            value.parts[cell] = part
            self.part_of[part] = (value, cell)
        return value.parts[cell]

    # --- each rank its own cell's ------------------------------------------------------------------------------------

    def chosen(self, values: Sequence[Value], like: Op | None) -> Tensor:
        """On each rank what its cell has: `values` are those of the cells, of one type."""
        if tuple(values) not in self._chosen:
            self._chosen[tuple(values)] = self._choose(values, like)
        return self._chosen[tuple(values)]

    def _choose(self, values: Sequence[Value], like: Op | None) -> Tensor:
        filled = self.filled_up(values)
        if filled is not None:
            return self.block(filled, like)
        tensors = [self.at(k, value, like) for k, value in enumerate(values)]
        if len(set(tensors)) == 1:
            return tensors[0]
        numbers = self._numbers([self.scalar(x) or x for x in tensors])
        if numbers is not None:
            number = self.by_rank(tensors[0].dtype, numbers, like)
            return self.splat(number, tensors[0].shape, like) if tensors[0].shape else number
        mine = self.by_rank("s32", {rank: cell for rank, (cell, _) in self.cells.place.items()}, None)
        result = tensors[0]
        for k, tensor in enumerate(tensors[1:], 1):
            number = self.graph.constant(k, "s32")
            here = self.emit("compare", [mine, number], None, direction="EQ")
            if tensor.shape:
                here = self.emit("broadcast", [here], None, shape=tensor.shape, dimensions=[])
            result = self.emit("select", [here, tensor, result], like)
        return result

    def by_rank(self, dtype: str, numbers: Mapping[int, int], like: Op | None) -> Tensor:
        """A scalar that each rank has its own of."""
        result = self.emit("constant", [], like, dtype=dtype, shape=())
        self.made[result].rank_numbers["value", 0] = dict(numbers)
        return result

    def counts(self, values: Sequence[Value]) -> bool:
        """Whether what each cell has is one integer everywhere."""
        tensors = [value.tensor for value in values if isinstance(value, Alike | Own)]
        return len(tensors) == len(values) and self._numbers([self.scalar(x) or x for x in tensors]) is not None

    def _numbers(self, tensors: Sequence[Tensor]) -> dict[int, int] | None:
        """By rank, the integer that its cell's constant is."""
        found: dict[int, int] = {}
        for tensor, ranks in zip(tensors, self.cells.ranks, strict=True):
            op = self.made.get(tensor)
            if op is None or op.kind != "constant" or tensor.shape or tensor.dtype[0] not in "su":
                return None
            literal = op.result.literal
            by_rank = op.rank_numbers.get(("value", 0), {})
            if literal is not None and (literal.rational is None or abs(literal.rational) >= 2**31):
                return None
            for rank in ranks:
                found[rank] = (
                    int(literal.rational) if literal is not None and literal.rational is not None else by_rank[rank]
                )
        return found

    def filled_up(self, values: Sequence[Value]) -> Ragged | None:
        """The unequal parts that these are, each filled up with zeros to a full block."""
        found: Ragged | None = None
        for k, value in enumerate(values):
            ragged = value if isinstance(value, Ragged) else None
            tensor = value.tensor if isinstance(value, Own | Alike) else None
            op = self.made.get(tensor) if tensor is not None else None
            if op is not None and op.kind == "concatenate" and len(op.operands) == 2:
                of, cell = self.part_of.get(op.operands[0], (None, -1))
                if of is not None and cell == k and op.numbers["dimension"] == [of.dim] and self.zero(op.operands[1]):
                    ragged = of
            if ragged is None or (found is not None and ragged is not found):
                return None
            shape = ragged.extent(ragged.sizes[k]) if ragged is value else op.result.shape if op is not None else ()
            if shape != ragged.rest:
                return None
            found = ragged
        return found

    def zero(self, tensor: Tensor) -> bool:
        """Whether it is zero everywhere, by what made it."""
        op = self.made.get(tensor)
        while op is not None and op.kind in ("broadcast", "reshape"):
            op = self.made.get(op.operands[0])
        literal = op.result.literal if op is not None and op.kind == "constant" else None
        return literal is not None and not literal.is_elided and not literal.text.strip("{},0")
