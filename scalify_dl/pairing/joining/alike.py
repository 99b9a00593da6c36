"""Ops that are done once for all programs, and ops of one cell, done on every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.vocabulary import COLLECTIVES, ELEMENTWISE, RANDOM, RANKED

from .meetings import of_cell
from .values import Alike, Ragged, Unjoinable, Value, Values, in_blocks

__all__ = ["Alikes"]


class Alikes:
    """Makes ops of the joined program of the cells' ops."""

    def __init__(self, made: Values) -> None:
        self.made = made
        self.cells = made.cells
        self._scalars: dict[tuple[int, ...], Tensor] = {}

    def done(self, ops: Sequence[Op], operands: Sequence[Sequence[Value]]) -> list[Value] | None:
        """What an op gives that is that of every cell, with each cell's operands; None where each is better done for
        itself."""
        first = ops[0]
        types = {tuple((t.dtype, t.shape) for t in op.results) for op in ops}
        if first.kind == "reduce" and isinstance(operands[0][0], Ragged):
            alike = all(list(row) == list(operands[0]) for row in operands)
            return self.summed(first, operands[0][0]) if alike else None
        if len(types) > 1:
            return self.of_parts(ops, operands[0]) if all(list(row) == list(operands[0]) for row in operands) else None
        columns = list(zip(*operands, strict=True))
        if all(isinstance(column[0], Alike) and len(set(map(id, column))) == 1 for column in columns):
            tensors = [value.tensor for value in operands[0] if isinstance(value, Alike)]
            uniform = all(value.uniform for value in operands[0] if isinstance(value, Alike))
        elif first.kind in COLLECTIVES or not any(
            (isinstance(column[0], Alike) and not column[0].uniform and len(set(map(id, column))) == 1)
            or self.made.filled_up(column) is not None
            or self.made.counts(column)
            for column in columns
        ):
            return None
        else:
            tensors = [
                column[0].tensor
                if isinstance(column[0], Alike) and len(set(map(id, column))) == 1
                else self.made.chosen(column, first)
                for column in columns
            ]
            uniform = False
        before = self.made.made.get(tensors[0]) if first.kind == "reshape" else None
        if before is not None and before.kind == "reshape" and before.operands[0].shape == first.result.shape:
            return [Alike(before.operands[0], uniform)]
        made = self.once(ops, tensors)
        if made is None:
            return None
        own = first.kind in RANDOM or first.kind in ("partition-id", "replica-id") or bool(made.rank_numbers)
        return [Alike(x, uniform and not own) for x in made.results]

    def once(self, ops: Sequence[Op], operands: Sequence[Tensor]) -> Op | None:
        """One op for all cells; None where groups do not fit together."""
        first = ops[0]
        groups = None
        if first.kind in COLLECTIVES:
            if first.kind == "collective-permute":
                return None
            groups = self.all_groups(dict(enumerate(ops)))
            if groups is None:
                return None
        op = _like(first, operands)
        op.groups = groups
        op.rank_numbers = {}
        for key, pos in self._ranked(ops):
            values = {
                rank: _number(each, key, pos, rank)
                for each, ranks in zip(ops, self.cells.ranks, strict=True)
                for rank in ranks
            }
            if len(set(values.values())) > 1:
                op.rank_numbers[key, pos] = values
        return self.put(op)

    def _ranked(self, ops: Sequence[Op]) -> list[tuple[str, int]]:
        keys = RANKED.get(ops[0].kind, frozenset())
        found = [(key, pos) for key in sorted(keys) for pos in range(len(ops[0].numbers.get(key, ())))]
        return list(dict.fromkeys([*found, *(place for op in ops for place in op.rank_numbers)]))

    def all_groups(self, ops: Mapping[int, Op]) -> list[list[int]] | None:
        """The groups of all cells' collectives together, if each rank is in one."""
        groups: dict[tuple[int, ...], None] = {}
        for cell, op in ops.items():
            groups.update(dict.fromkeys(map(tuple, of_cell(op, self.cells, cell))))
        if sorted(rank for group in groups for rank in group) != sorted(self.cells.place):
            return None
        return [list(group) for group in groups]

    def collective(self, ops: Mapping[int, Op], brought: Mapping[int, Value]) -> Alike | None:
        """A collective of what all cells bring alike; None where it is of other values."""
        value = brought[0]
        if not isinstance(value, Alike) or any(other is not value for other in brought.values()):
            return None
        groups = self.all_groups(ops)
        if groups is None or ops[0].kind == "collective-permute":
            return None
        op = _like(ops[0], [value.tensor])
        op.groups = groups
        if op.kind != "all-gather" or not self.gathered_apart(op):
            self.put(op)
        lines = [set(line) for line in self.cells.lines]
        wide = all(any(line <= set(group) for group in groups) for line in lines)
        same = op.kind in ("all-reduce", "all-gather", "collective-broadcast") and wide
        return Alike(op.result, same or (value.uniform and op.kind not in ("reduce-scatter", "all-to-all")))

    def gathered_apart(self, op: Op) -> bool:
        """A buffer of several parts is gathered part by part, and put together again in the order of the buffer."""
        buffer = self.made.made.get(op.operands[0])
        if buffer is None or buffer.kind != "concatenate" or op.numbers["dimension"] != [0] or op.groups is None:
            return False
        if buffer.numbers["dimension"] != [0]:
            return False
        n, rows, groups = len(op.groups[0]), [], op.groups
        for part in buffer.operands:
            shape, dtype = (n * part.shape[0], *part.shape[1:]), part.dtype
            whole = self.made.emit("all-gather", [part], op, groups=groups, dimension=0, shape=shape, dtype=dtype)
            rows.append(self.made.emit("reshape", [whole], op, shape=(n, *part.shape)))
        every = self.made.emit("concatenate", rows, op, dimension=1)
        self.put(Op("reshape", [every], op.results, op.name, source=op.source, layer=op.layer, at=op.at))
        return True

    def put(self, op: Op) -> Op:
        """Puts an op into the joined graph."""
        self.made.graph.ops.append(op)
        self.made.made.update(dict.fromkeys(op.results, op))
        return op

    # --- unequal parts -----------------------------------------------------------------------------------------------

    def of_parts(self, ops: Sequence[Op], operands: Sequence[Value]) -> list[Value] | None:
        """An op whose results are unequal parts of one value; None where they are not known to be."""
        first = ops[0]
        if len(first.results) != 1:
            return None
        shapes = [op.result.shape for op in ops]
        if len({len(shape) for shape in shapes}) > 1:
            return None
        differing = [d for d in range(len(shapes[0])) if len({shape[d] for shape in shapes}) > 1]
        if len(differing) != 1 or not in_blocks([shape[differing[0]] for shape in shapes]):
            return None
        dim = differing[0]
        result = Ragged(dim, tuple(shape[dim] for shape in shapes), first.result.dtype, shapes[0])
        if first.kind == "slice":
            return self._cut(ops, operands, result)
        parts = [value for value in operands if isinstance(value, Ragged)]
        if first.kind == "reshape" and len(parts) == 1:
            return self._regrouped(first, parts[0], result)
        numbers = [self.made.scalar(x.tensor) if isinstance(x, Alike) and x.uniform else None for x in operands]
        each = list(zip(operands, numbers, strict=True))
        if first.kind in ELEMENTWISE and all(isinstance(x, Ragged) or number is not None for x, number in each):
            if any((p.dim, p.sizes, p.rest) != (dim, result.sizes, result.rest) for p in parts):
                return None

            def given(of: Callable[[Ragged], Tensor], shape: Sequence[int]) -> list[Tensor]:
                found = []
                for x, number in each:
                    if isinstance(x, Ragged):
                        found.append(of(x))
                    elif number is not None:
                        found.append(self.made.splat(number, shape, first))
                return found

            if parts and all(p.whole is None and p.make_whole is None for p in parts):
                block = partial(given, lambda p: self.made.block(p, first), result.rest)
                result.make_block = self._later(first, block, result.rest)
            else:
                shape = result.extent(result.total)
                whole = partial(given, lambda p: self.made.whole(p, first), shape)
                result.make_whole = self._later(first, whole, shape)
            return [result]
        if first.kind == "broadcast" and isinstance(value := operands[0], Alike) and value.uniform:
            if dim in first.numbers["dimensions"]:
                return None
            result.make_whole = self._later(first, lambda: [value.tensor], result.extent(result.total))
            return [result]
        return None

    def summed(self, op: Op, part: Ragged) -> list[Value] | None:
        """On each rank the sum of its own part, which is that of a block with zeros behind the end."""
        if op.symbols.get("reducer") != ["sum"] or len(op.operands) != 1 or part.dim not in op.numbers["dimensions"]:
            return None
        block = self.made.own_block(self.made.filled(part, op), part.dim, part.rest[part.dim], op)
        return [Alike(self.put(_like(op, [block])).result, uniform=False)]

    def scalar(self, op: Op, operands: Sequence[Tensor]) -> Tensor:
        """What an op makes of numbers, that gives one number everywhere."""
        if op.kind not in ELEMENTWISE:
            return operands[0]
        key = (id(op), *map(id, operands))
        if key not in self._scalars:
            made = _like(op, operands)
            made.results = [Tensor(op.result.dtype, (), op.result.name)]
            self._scalars[key] = self.put(made).result
        return self._scalars[key]

    def _later(self, op: Op, operands: Callable[[], list[Tensor]], shape: Sequence[int]) -> Callable[[], Tensor]:
        """An op like one of a program, of another shape, when it is asked for."""

        def make() -> Tensor:
            made = _like(op, operands())
            made.results = [Tensor(op.result.dtype, tuple(shape), op.result.name)]
            return self.put(made).result

        return make

    def _cut(self, ops: Sequence[Op], operands: Sequence[Value], result: Ragged) -> list[Value] | None:
        """Slices of which some end earlier."""
        (value,) = operands
        if not isinstance(value, Alike) or value.uniform or any(op.rank_numbers for op in ops):
            return None
        if any(
            (op.numbers["start"], op.numbers["stride"]) != (ops[0].numbers["start"], ops[0].numbers["stride"])
            for op in ops
        ):
            return None
        if ops[0].numbers["stride"][result.dim] != 1:
            return None
        result.block = self.put(_like(ops[0], [value.tensor])).result
        return [result]

    def _regrouped(self, op: Op, part: Ragged, result: Ragged) -> list[Value] | None:
        """Parts along the first dim in another shape: rows of other lengths."""
        before, after = part.rest[: part.dim], result.rest[: result.dim]
        if before != after or any(
            n * prod(part.rest[part.dim + 1 :]) != m * prod(result.rest[result.dim + 1 :])
            for n, m in zip(part.sizes, result.sizes, strict=True)
        ):
            return None
        result.root = part
        if part.whole is not None or part.make_whole is not None:
            result.make_whole = self._later(op, lambda: [self.made.whole(part, op)], result.extent(result.total))
        return [result]

    # --- one cell's ---------------------------------------------------------------------------------------------------

    def alone(self, cell: int, op: Op, operands: Sequence[Tensor]) -> list[Tensor]:
        """The results of a cell's op on every rank."""
        made = self.copied(cell, op, dict(zip(op.operands, operands, strict=True)))
        if self.cells.count > 1:
            name = f"r{min(self.cells.ranks[cell])}/"
            made.name = name + made.name
            for result in made.results:
                result.name = name + result.name if result.name else ""
        return self.put(made).results

    def copied(self, cell: int, op: Op, known: dict[Tensor, Tensor]) -> Op:
        """An op as one cell has it, its groups and numbers of ranks as those of counterparts."""
        made = _like(op, [known[x] for x in op.operands])
        known.update(zip(op.results, made.results, strict=True))
        if op.kind in COLLECTIVES:
            self._spread(cell, op, made)
        made.rank_numbers = {
            place: {rank: by_rank[self.cells.ranks[cell][j]] for rank, (_, j) in self.cells.place.items()}
            for place, by_rank in op.rank_numbers.items()
        }
        if op.kind in ("partition-id", "replica-id") and self.cells.count > 1:
            made.kind = "constant"
            made.rank_numbers["value", 0] = {
                rank: self.cells.ranks[cell][j] for rank, (_, j) in self.cells.place.items()
            }
        made.regions = [self.region(cell, region) for region in op.regions]
        return made

    def _spread(self, cell: int, op: Op, made: Op) -> None:
        """Groups within a cell are groups within every cell."""
        place = self.cells.place
        if op.kind == "collective-permute":
            pairs = [(place[a][1], place[b][1]) for a, b in op.pairs or () if place[a][0] == cell]
            made.pairs = [(ranks[a], ranks[b]) for ranks in self.cells.ranks for a, b in pairs]
            return
        if op.groups is None:
            return
        groups = of_cell(op, self.cells, cell)
        if any(place[rank][0] != cell for group in groups for rank in group):
            raise Unjoinable(f"`{op.name}` is over ranks of several programs")
        columns = [[place[rank][1] for rank in group] for group in groups]
        made.groups = [group for some in columns for group in self.cells.everywhere(some)]

    def region(self, cell: int, region: Graph) -> Graph:
        """A body, a condition or a branch as one cell has it."""
        known: dict[Tensor, Tensor] = {}
        made = Graph(region.name, region.file)
        for port in region.inputs:
            known[port.tensor] = Tensor(port.tensor.dtype, port.tensor.shape, port.tensor.name)
            made.inputs.append(type(port)(known[port.tensor], port.path))
        made.ops = [self.copied(cell, op, known) for op in region.ops]
        made.outputs = [type(port)(known[port.tensor], port.path) for port in region.outputs]
        return made


def _like(op: Op, operands: Sequence[Tensor]) -> Op:
    """An op with the attributes of another, and results of its own; those that hang on ranks are for the caller."""
    results = [Tensor(t.dtype, t.shape, t.name, t.literal) for t in op.results]
    numbers = {key: list(values) for key, values in op.numbers.items()}
    symbols = {key: list(values) for key, values in op.symbols.items()}
    return replace(
        op, operands=list(operands), results=results, numbers=numbers, symbols=symbols, rank_numbers={}, groups=None,
        group_name=None, replica_groups_all=False, pairs=None, regions=[], channel=0, along=(), strides={},
    )  # fmt: skip


def _number(op: Op, key: str, pos: int, rank: int) -> int:
    by_rank = op.rank_numbers.get((key, pos))
    return op.numbers[key][pos] if by_rank is None else by_rank[rank]
