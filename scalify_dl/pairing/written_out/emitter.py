"""The ops of a program that is written out: each emitted as it is, or left out where what it makes is there already.

What is left out: choices whose condition is known, sums with zeros, products of zeros with numbers, slices of what was
written or put together, scatters and gathers of one window that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.vocabulary import COLLECTIVES

from .numbers import Numbers, clamped, computed
from .signs import Sign, Signs
from .stacks import Parts, Stacks, side_by_side
from .values import Cells, Own, Value
from .windows import Window, is_one_window, window_of

__all__ = ["Emitter"]

KEEP_ZERO = COLLECTIVES | {"broadcast", "reshape", "transpose", "slice", "negate", "reverse", "copy"}
"""Kinds that make zeros of zeros: all ranks have the same program, and what a permute does not bring is zero, too."""

MOVES = frozenset({"broadcast", "reshape", "reverse", "slice", "transpose"})
"""Kinds that move elements: what a cell has of their result they make of what it has of their operand."""


class Emitter:
    """The graph as it grows, and what is known of its values."""

    def __init__(self, program: Graph, cells: Cells) -> None:
        self.cells = cells
        self.graph = Graph(program.name, program.file, program.inputs, [], [], program.ranks)
        self.graph.ignored_inputs, self.graph.ignored_outputs = program.ignored_inputs, program.ignored_outputs
        self.graph.lookups_fail, self.graph.aliases = program.lookups_fail, program.aliases
        self.graph.reductions, self.graph.outside = program.reductions, program.outside
        self.known: dict[Tensor, Numbers] = {}
        self.made: dict[Tensor, Op] = {}
        self.signs = Signs(self.made)
        self._zeros: set[Tensor] = set()
        self._zero: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self.parts: dict[Tensor, tuple[int, Parts]] = {}
        """What values are put together of, and along which dim."""
        self.stacks = Stacks(self)
        self._cut_from: dict[Tensor, tuple[Tensor, list[int]]] = {}
        self._cuts: dict[tuple[Tensor, tuple[int, ...], tuple[int, ...]], Tensor] = {}
        self._taken: dict[tuple[Tensor, int], Tensor] = {}
        self._numbers: list[Tensor] = []

    # --- values ------------------------------------------------------------------------------------------------------

    def at(self, cell: int, value: Value) -> Tensor:
        """A value as one cell has it, on every rank."""
        if isinstance(value, Own):
            return value.tensors[cell]
        if value.uniform:
            return value.tensor
        return self.taken(value.tensor, cell)

    def taken(self, x: Tensor, cell: int) -> Tensor:
        """What one cell has of a value that ranks share, on every rank: of what it is taken from, gathered from
        counterparts, and cut out."""
        if self.is_zero(x):
            return x
        if (x, cell) not in self._taken:
            known = self.known.get(x)
            if (
                known is not None
                and (of_cell := self._of_cell(known, cell)).size
                and (of_cell == of_cell.flat[0]).all()
            ):
                self._taken[x, cell] = self._number(int(of_cell.flat[0]), x)
                return self._taken[x, cell]
            made = self.made.get(x)
            if made is not None and made.kind in MOVES and not made.rank_numbers:
                self._taken[x, cell] = self.emit(made, [self.taken(made.operands[0], cell)])[0]
                return self._taken[x, cell]
            row = x if x.shape else self.emit_new("reshape", [x], None, shape=(1,))
            n = row.shape[0]
            whole = (n * self.cells.count, *row.shape[1:])
            gathered = self.emit_new(
                "all-gather", [row], None, shape=whole, dtype=x.dtype, dimension=0, groups=self.cells.lines
            )
            for k in range(self.cells.count):
                part = self.cut(gathered, [k * n, *(0 for _ in row.shape[1:])], [(k + 1) * n, *row.shape[1:]], None)
                self._taken[x, k] = part if x.shape else self.emit_new("reshape", [part], None, shape=())
                if known is not None:
                    self.known[self._taken[x, k]] = self._of_cell(known, k)
        return self._taken[x, cell]

    def _number(self, number: int, like: Tensor) -> Tensor:
        """One number everywhere."""
        x = self.graph.constant(bool(number) if like.dtype == "pred" else number, like.dtype)
        self._note(self.graph.ops[-1])
        return self.emit_new("broadcast", [x], None, shape=like.shape, dimensions=[]) if like.shape else x

    def known_at(self, cell: int, value: Value) -> Numbers | None:
        """What is known of a value as one cell has it."""
        if isinstance(value, Own):
            return self.known.get(value.tensors[cell])
        known = self.known.get(value.tensor)
        return None if known is None else self._of_cell(known, cell)

    def _of_cell(self, known: Numbers, cell: int) -> Numbers:
        if known.shape[0] == 1 or not self.cells.axes:
            return known
        return known[[self.cells.counterpart(rank, cell) for rank in range(self.cells.mesh.size)]]

    def each_its_own(self, value: Own, dim: int = 0) -> Tensor:
        """On each rank what its cell has: its block of all of them side by side."""
        first = value.tensors[0]
        rows = [x if x.shape else self.emit_new("reshape", [x], None, shape=(1,)) for x in value.tensors]
        n = rows[0].shape[dim]
        whole = self.stacks.joined(rows, dim, None)
        limit = list(whole.shape)
        limit[dim] = n
        block = self.emit_new("slice", [whole], None, start=[0] * len(limit), limit=limit, stride=[1] * len(limit))
        numbers = self.made[block].rank_numbers
        numbers["start", dim] = {rank: cell * n for rank, cell in enumerate(self.cells.of_rank)}
        numbers["limit", dim] = {rank: (cell + 1) * n for rank, cell in enumerate(self.cells.of_rank)}
        return block if first.shape else self.emit_new("reshape", [block], None, shape=())

    def zeros(self, like: Tensor) -> Tensor:
        """Zeros of the type and shape of a value."""
        key = like.dtype, like.shape
        if key not in self._zero:
            scalar = self.graph.constant(0, like.dtype)
            self._note(self.graph.ops[-1])
            zero = scalar
            if like.shape:
                zero = self.emit_new("broadcast", [scalar], None, shape=like.shape, dimensions=[])
            self._zero[key] = zero
            self._zeros.add(zero)
        return self._zero[key]

    def is_zero(self, x: Tensor) -> bool:
        """Whether a value is zero everywhere."""
        return x in self._zeros

    def finite(self) -> Iterator[Tensor]:
        """The inputs that were taken for numbers: those of what was multiplied by zero."""
        seen: set[Tensor] = set()
        stack = list(self._numbers)
        while stack:
            x = stack.pop()
            if x not in seen:
                seen.add(x)
                stack.extend(self.made[x].operands if x in self.made else ())
        yield from (
            port.tensor for port in self.graph.inputs if port.tensor in seen and port.tensor.dtype[0] not in "sup"
        )

    # --- ops ---------------------------------------------------------------------------------------------------------

    def emit_new(self, kind: str, operands: Sequence[Tensor], like: Op | None, **attributes: object) -> Tensor:
        """An op that the program does not have, named as the one that it stands for."""
        name, source = (like.name, like.source) if like is not None else (kind, ())
        x = self.graph.emit(kind, operands, name=name, source=source, **attributes)  # type: ignore[arg-type]
        self._note(self.graph.ops[-1])
        return x

    def joined(self, kind: str, x: Tensor, y: Tensor, like: Op) -> Tensor:
        """The sum (maximum, …) of two values."""
        if kind == "add" and (self.is_zero(x) or self.is_zero(y)):
            return y if self.is_zero(x) else x
        return self.emit_new(kind, [x, y], like)

    def emit(self, op: Op, operands: Sequence[Tensor], cell: int | None = None) -> list[Tensor]:
        """The results of an op of the program, as a cell has it."""
        short = self._short(op, operands, cell)
        if short is not None:
            return [short]
        made = Op(
            op.kind, list(operands), [Tensor(t.dtype, t.shape, t.name, t.literal) for t in op.results], op.name,
            {key: list(values) for key, values in op.numbers.items()},
            {key: list(values) for key, values in op.symbols.items()}, dict(op.rank_numbers), op.groups, op.group_name,
            op.replica_groups_all, op.pairs, op.regions, op.source, op.layer, op.at, op.channel,
        )  # fmt: skip
        if cell is not None and made.rank_numbers:
            made.rank_numbers = {
                place: {r: by_rank[self.cells.counterpart(r, cell)] for r in range(self.cells.mesh.size)}
                for place, by_rank in op.rank_numbers.items()
            }
        self.graph.ops.append(made)
        self._note(made)
        return made.results

    def _note(self, op: Op) -> None:
        self.made.update(dict.fromkeys(op.results, op))
        if len(op.results) != 1:
            return
        x = op.result
        if op.kind in ("partition-id", "replica-id"):
            self.known[x] = np.arange(self.cells.mesh.size, dtype=np.int64)
        elif op.kind == "constant" and op.rank_numbers:
            by_rank = op.rank_numbers.get(("value", 0), {})
            if len(by_rank) == self.cells.mesh.size and not x.shape:
                self.known[x] = np.array([by_rank[r] for r in range(self.cells.mesh.size)], dtype=np.int64)
        elif all(y in self.known for y in op.operands):
            found = computed(op, [self.known[y] for y in op.operands])
            if found is not None:
                self.known[x] = found
        if op.kind == "concatenate":
            self.parts[x] = side_by_side(op.operands, op.numbers["dimension"][0])
        elif op.kind == "pad" and x.dtype[0] not in "sup":
            self.stacks.note_padded(op)
        if x.dtype[0] not in "sup" and self._makes_zero(op):
            self._zeros.add(x)

    def _makes_zero(self, op: Op) -> bool:
        if op.kind == "constant":
            literal = op.result.literal
            return literal is not None and literal.rational == 0
        return op.kind in KEEP_ZERO and not op.regions and all(map(self.is_zero, op.operands))

    # --- what is there already ---------------------------------------------------------------------------------------

    def _short(self, op: Op, xs: Sequence[Tensor], cell: int | None) -> Tensor | None:
        """What an op makes, where it need not be done."""
        if len(op.results) != 1:
            return None
        result, kind = op.result, op.kind
        if kind == "select":
            mask = self.known.get(xs[0])
            if mask is not None and (mask == mask.flat[0]).all():
                return xs[1] if mask.flat[0] else xs[2]
        if kind == "slice" and (not op.rank_numbers or cell is not None):
            bounds = self._bounds(op, cell)
            return None if bounds is None else self.cut(xs[0], *bounds, op)
        if kind == "dynamic-slice":
            starts = self._starts(xs[1:], xs[0].shape, result.shape)
            if starts is not None:
                return self.cut(xs[0], starts, [a + n for a, n in zip(starts, result.shape, strict=True)], op)
        if kind == "dynamic-update-slice":
            starts = self._starts(xs[2:], result.shape, xs[1].shape)
            if starts is not None:
                return self._written(xs[0], xs[1], starts, op)
        if is_one_window(op) and xs[1] in self.known and (window := window_of(op, self.known[xs[1]])) is not None:
            return self._at_window(op, xs, window)
        if self._keeps_order(op) and (back := self._turned_back(xs[0], result.shape)) is not None:
            return back
        if result.dtype[0] in "sup":
            return None
        return self._zero_short(op, xs) or self.stacks.part_by_part(op, xs)

    def _keeps_order(self, op: Op) -> bool:
        """Whether a result has the elements of the operand, in their order."""
        if op.kind == "reshape":
            return True
        dims = op.numbers.get("dimensions", [])
        return op.kind == "broadcast" and prod(op.result.shape) == prod(op.operands[0].shape) and dims == sorted(dims)

    def _turned_back(self, x: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        """What x was made of without another order of elements, if it has that shape."""
        while x.shape != shape:
            op = self.made.get(x)
            if op is None or not self._keeps_order(op):
                return None
            x = op.operands[0]
        return x

    def _starts(self, starts: Sequence[Tensor], shape: Sequence[int], window: Sequence[int]) -> list[int] | None:
        known = [self.known[x] for x in starts if x in self.known]
        return clamped(known, shape, window) if len(known) == len(starts) else None

    def _at_window(self, op: Op, xs: Sequence[Tensor], window: Window) -> Tensor | None:
        """What a scatter or gather of one window makes."""
        if not window.there:
            return xs[0]
        end = [a + n for a, n in zip(window.starts, window.shape, strict=True)]
        if op.kind == "gather":
            return self._shaped(self.cut(xs[0], window.starts, end, op), op.result.shape, op)
        part, reducer = self._shaped(xs[2], window.shape, op), op.symbols["reducer"][0]
        if reducer == "sum":
            part = self.joined("add", self.cut(xs[0], window.starts, end, op), part, op)
        return self._written(xs[0], part, window.starts, op) if reducer in ("sum", "replace") else None

    def _shaped(self, x: Tensor, shape: tuple[int, ...], like: Op) -> Tensor:
        """A value in another shape, its elements in their order."""
        back = self._turned_back(x, shape)
        return self.emit_new("reshape", [x], like, shape=shape) if back is None else back

    def _bounds(self, op: Op, cell: int | None) -> tuple[list[int], list[int]] | None:
        """Where a slice without steps begins and ends; None where it has steps, or ranks of a cell differ."""
        if any(step != 1 for step in op.numbers["stride"]):
            return None
        numbers = {"start": list(op.numbers["start"]), "limit": list(op.numbers["limit"])}
        for (key, pos), by_rank in op.rank_numbers.items():
            values = {by_rank[rank] for rank in self.cells.counterparts[cell or 0]}
            if len(values) > 1 or cell is None:
                return None
            numbers[key][pos] = values.pop()
        return numbers["start"], numbers["limit"]

    def same_in_cells(self, op: Op) -> bool:
        """Whether a slice is the same on all ranks of each cell."""
        return all(self._bounds(op, cell) is not None for cell in range(self.cells.count))

    def _zero_short(self, op: Op, xs: Sequence[Tensor]) -> Tensor | None:
        zero = [self.is_zero(x) for x in xs]
        if op.kind == "add" and any(zero):
            return xs[1] if zero[0] else xs[0]
        if op.kind == "subtract" and zero[1]:
            return xs[0]
        if not any(zero):
            return None
        if op.kind in ("multiply", "dot") or (op.kind == "divide" and zero[0]):
            other = xs[1] if zero[0] else xs[0]
            least = Sign.POSITIVE if op.kind == "divide" else Sign.NUMBER
            if self.signs.of(other) < least:
                return None
            if not self.is_zero(other):
                self._numbers.append(other)
            return self.zeros(op.result)
        if op.kind in KEEP_ZERO | {"convert", "concatenate", "pad"} and all(zero) and not op.regions:
            return self.zeros(op.result)
        if op.kind == "select" and zero[1] and zero[2]:
            return self.zeros(op.result)
        if op.kind == "reduce" and zero[0] and op.symbols.get("reducer") == ["sum"] and not op.regions:
            return self.zeros(op.result)
        return None

    # --- parts -------------------------------------------------------------------------------------------------------

    def cut(self, x: Tensor, start: Sequence[int], limit: Sequence[int], like: Op | None) -> Tensor:
        """A slice without steps: of what x was cut from or put together of, where it is."""
        if list(start) == [0] * len(start) and list(limit) == list(x.shape):
            return x
        shape = tuple(b - a for a, b in zip(start, limit, strict=True))
        if self.is_zero(x):
            return self.zeros(Tensor(x.dtype, shape))
        if x in self._cut_from:
            whole, at = self._cut_from[x]
            return self.cut(
                whole, [a + b for a, b in zip(start, at, strict=True)], [a + b for a, b in zip(limit, at, strict=True)],
                like,
            )  # fmt: skip
        dim, parts = self.parts.get(x, (0, []))
        for lo, hi, part in parts:
            if lo <= start[dim] and limit[dim] <= hi and start[dim] < limit[dim]:
                first, last = list(start), list(limit)
                first[dim], last[dim] = first[dim] - lo, last[dim] - lo
                return self.cut(part, first, last, like)
        if parts and (parts[0][1] <= start[dim] or limit[dim] <= parts[-1][0]):
            return self._cut_of_parts(dim, parts, start, limit, like)
        key = x, tuple(start), tuple(limit)
        made = self.made.get(x)
        if key not in self._cuts and made is not None and made.kind == "broadcast" and not made.operands[0].shape:
            self._cuts[key] = self.emit_new("broadcast", made.operands, made, shape=shape, dimensions=[])
        if key not in self._cuts:
            found = self.emit_new("slice", [x], like, start=list(start), limit=list(limit), stride=[1] * len(shape))
            self._cuts[key] = found
            self._cut_from[found] = x, list(start)
            known = self.known.get(x)
            if known is not None and found not in self.known:
                self.known[found] = known[(slice(None), *(slice(a, b) for a, b in zip(start, limit, strict=True)))]
        return self._cuts[key]

    def _cut_of_parts(
        self, dim: int, parts: Parts, start: Sequence[int], limit: Sequence[int], like: Op | None
    ) -> Tensor:
        """A slice of what is put together, put together of slices of those parts that it has elements of."""
        found = []
        for lo, hi, part in parts:
            first, last = list(start), list(limit)
            first[dim], last[dim] = max(lo, start[dim]) - lo, min(hi, limit[dim]) - lo
            if first[dim] < last[dim]:
                found.append(self.cut(part, first, last, like))
        return self.emit_new("concatenate", found, like, dimension=dim)

    def _written(self, x: Tensor, part: Tensor, starts: Sequence[int], op: Op) -> Tensor | None:
        """A value with a part of it written over, along one dim; None where it is along several."""
        if self.is_zero(x) and self.is_zero(part):
            return x
        dims = [d for d, n in enumerate(part.shape) if n != x.shape[d]]
        if not dims:
            return part
        if len(dims) > 1 or not part.shape[dims[0]]:
            return None
        dim, lo = dims[0], starts[dims[0]]
        hi = lo + part.shape[dim]
        along, parts = self.parts.get(x, (dim, [(0, x.shape[dim], x)]))
        if along != dim:
            parts = [(0, x.shape[dim], x)]
        found: Parts = []
        for a, b, value in parts:
            for first, last in ((a, min(b, lo)), (max(a, hi), b)):
                if first < last:
                    start, limit = [0] * len(x.shape), list(x.shape)
                    start[dim], limit[dim] = first - a, last - a
                    found.append((first, last, self.cut(value, start, limit, op)))
        found = sorted([*found, (lo, hi, part)], key=lambda one: one[0])
        result = self.emit_new("concatenate", [value for _, _, value in found], op, dimension=dim)
        self.parts[result] = dim, found
        self.stacks.add(result)
        if x in self.known and part in self.known and result not in self.known:
            ranks = max(len(self.known[x]), len(self.known[part]))
            written = np.broadcast_to(self.known[x], (ranks, *x.shape)).copy()
            written[(slice(None), *(slice(a, a + n) for a, n in zip(starts, part.shape, strict=True)))] = self.known[
                part
            ]
            self.known[result] = written
        return result

    # --- the end -----------------------------------------------------------------------------------------------------

    def present(self, tensor: Tensor) -> bool:
        """Whether a tensor is one of the graph."""
        return tensor in self.made or any(port.tensor is tensor for port in self.graph.inputs)

    def drop_unused(self) -> None:
        """Drops ops that no output needs, and what was assumed of them is assumed of an output."""
        needed = {port.tensor for port in self.graph.outputs}
        kept: list[Op] = []
        for op in reversed(self.graph.ops):
            if any(x in needed for x in op.results):
                needed.update(op.operands)
                kept.append(op)
        kept.reverse()
        self.graph.ops = kept
        there = needed | {port.tensor for port in self.graph.inputs}
        if self.graph.outputs:
            first = self.graph.outputs[0].tensor
            self.graph.assumptions = [
                a if a.tensor in there else a._replace(tensor=first) for a in self.graph.assumptions
            ]
