"""Writes a program out: runs through its ops, loops turn by turn, and emits what each makes of its operands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import COLLECTIVES, RANDOM

from .collectives import Collectives
from .emitter import Emitter
from .values import Cells, NotWrittenOut, Own, Shared, Value
from .wanted import TURNS, Loop, loop_of
from .windows import is_one_window

__all__ = ["Writer"]

OPS = 40_000
SAME_OPS = 10_000
"""Programs that would get more ops stay as they are: the second number where all ranks do the same."""


class Writer:
    """One program as it is written out. `axes` are those along which ranks do different things, `whole` the inputs that
    all ranks hold alike. Only such `loops` are written out, all where that is None. `numbers`: only what is made
    of these, and of what all ranks hold alike, is written for each cell; where it meets more a rank has its own."""

    def __init__(
        self, program: Graph, mesh: Mesh, axes: Sequence[str], whole: Collection[Tensor],
        loops: Collection[Loop] | None, numbers: Collection[Tensor] = (),
    ) -> None:  # fmt: skip
        self.program, self.loops, self.numbers = program, loops, numbers
        self._met: dict[Own, Shared] = {}
        self.cells = Cells(mesh, tuple(axes))
        self.emitter = Emitter(program, self.cells)
        self.collectives = Collectives(self.emitter)
        self.values: dict[Tensor, Value] = {
            port.tensor: Shared(port.tensor, port.tensor in whole or not axes) for port in program.inputs
        }

    def run(self) -> Graph:
        """The program, written out. NotWrittenOut where something in it is not followed."""
        self._run(self.program.ops)
        graph = self.emitter.graph
        graph.aliases = {
            name: value.tensor for name, x in self.program.aliases.items()
            if isinstance(value := self.values.get(x), Shared) and self.emitter.present(value.tensor)
        }  # fmt: skip
        for port in self.program.outputs:
            graph.outputs.append(replace_tensor(port, self._output(port)))
        for x in self.emitter.finite():
            graph.assume(x, "its values are finite", "finite")
        first = graph.outputs[0].tensor if graph.outputs else None
        for assumed in self.program.assumptions:
            value = self.values.get(assumed.tensor)
            tensor = value.tensor if isinstance(value, Shared) else first
            if tensor is not None:
                graph.assume(tensor if self.emitter.present(tensor) else first or tensor, assumed.text, assumed.why)
        self.emitter.drop_unused()
        return graph

    def _output(self, port: Port) -> Tensor:
        value = self.values[port.tensor]
        if isinstance(value, Shared):
            return value.tensor
        return self.emitter.each_its_own(value)

    def _run(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if len(self.emitter.graph.ops) > (OPS if self.loops is None else SAME_OPS):
                raise NotWrittenOut("too many ops")
            if op.kind == "while" and self._is_written(loop_of(op)):
                self._turns(op)
            elif op.kind == "conditional" and self._branch(op):
                continue
            else:
                self.values.update(zip(op.results, self.done(op), strict=True))

    def _is_written(self, loop: Loop) -> bool:
        return 0 <= loop[0] <= TURNS and (self.loops is None or loop in self.loops)

    def _turns(self, loop: Op) -> None:
        """A loop, turn by turn."""
        body = loop.regions[1]
        carried = [self.values[x] for x in loop.operands]
        for _ in range(loop.numbers["trip_count"][0]):
            self.values.update(zip((port.tensor for port in body.inputs), carried, strict=True))
            self._run(body.ops)
            carried = [self.values[port.tensor] for port in body.outputs]
        self.values.update(zip(loop.results, carried, strict=True))

    def _branch(self, op: Op) -> bool:
        """The branch that is taken, where it is known in each cell."""
        number = self.values[op.operands[0]]
        if not self._decided(number):
            return False
        taken = [self._taken(op, number, cell) for cell in range(self.cells.count)]
        if len(set(taken)) > 1 and any(x.kind in COLLECTIVES | RANDOM for n in set(taken) for x in op.regions[n].ops):
            raise NotWrittenOut("a collective in a branch that some ranks take")
        counts = op.numbers.get("branch_operand_count") or [len(region.inputs) for region in op.regions]
        found: dict[int, list[Value]] = {}
        for n in sorted(set(taken)):
            region, first = op.regions[n], 1 + sum(counts[:n])
            given = [self.values[x] for x in op.operands[first : first + counts[n]]]
            self.values.update(zip((port.tensor for port in region.inputs), given, strict=True))
            self._run(region.ops)
            found[n] = [self.values[port.tensor] for port in region.outputs]
        for place, result in enumerate(op.results):
            if len(found) == 1:
                (self.values[result],) = (values[place] for values in found.values())
            else:
                self.values[result] = self._value(
                    [self.emitter.at(cell, found[n][place]) for cell, n in enumerate(taken)]
                )
        return True

    def _taken(self, op: Op, number: Value, cell: int) -> int:
        """The number of the branch that a cell takes."""
        known = self.emitter.known_at(cell, number)
        n = 0 if known is None else int(known.flat[0])
        if op.operands[0].dtype == "pred":
            return 1 - n
        return n if 0 <= n < len(op.regions) else len(op.regions) - 1

    # --- one op ------------------------------------------------------------------------------------------------------

    def done(self, op: Op) -> list[Value]:
        """What an op gives."""
        given = [self.values[x] for x in op.operands]
        if self.numbers:
            given = self._of_numbers(op, given)
        elif op.kind in COLLECTIVES and self.cells.axes and len(given) == 1:
            return [self.collectives.done(op, given[0])]
        if not self._apart(op, given):
            uniform = all(isinstance(value, Shared) and value.uniform for value in given)
            results = self.emitter.emit(op, [value.tensor for value in given if isinstance(value, Shared)])
            alike = uniform and self._alike(op)
            return [
                self._begun(Shared(x, alike)) if result in self.numbers else Shared(x, alike)
                for result, x in zip(op.results, results, strict=True)
            ]
        if op.kind in COLLECTIVES | RANDOM or op.kind == "while" or op.kind.startswith(("custom:", "unknown:")):
            raise NotWrittenOut(f"{op.kind} of what ranks have for themselves")
        columns = [
            self.emitter.emit(op, [self.emitter.at(cell, value) for value in given], cell)
            for cell in range(self.cells.count)
        ]
        return [self._value(column) for column in zip(*columns, strict=True)]

    def _begun(self, number: Shared) -> Value:
        """A number of the rank, as each cell has it."""
        if not self._decided(number):
            raise NotWrittenOut("a number that is not one in each cell")
        return Own(tuple(self.emitter.taken(number.tensor, cell) for cell in range(self.cells.count)))

    def _of_numbers(self, op: Op, given: list[Value]) -> list[Value]:
        """What an op is given: each cell's own values, if all others are alike in all cells, else each rank's."""
        own = [value for value in given if isinstance(value, Own)]
        joined = op.kind in COLLECTIVES | RANDOM | {"conditional"} or op.kind.startswith(("custom:", "unknown:"))
        if joined or not all(v.uniform or self._decided(v) for v in given if isinstance(v, Shared)):
            for value in own:
                if value not in self._met:
                    self._met[value] = Shared(self.emitter.each_its_own(value), False)
            return [self._met[value] if isinstance(value, Own) else value for value in given]
        return given

    def _value(self, tensors: Sequence[Tensor]) -> Value:
        return Shared(tensors[0], True) if len(set(tensors)) == 1 else Own(tuple(tensors))

    def _alike(self, op: Op) -> bool:
        """Whether counterparts make the same of the same."""
        if op.kind in ("partition-id", "replica-id") or op.rank_numbers or op.kind in RANDOM:
            return False
        return op.kind not in COLLECTIVES and not op.kind.startswith(("custom:", "unknown:")) and not op.regions

    def _apart(self, op: Op, given: Sequence[Value]) -> bool:
        """Whether each cell's is written by itself: of what cells have for themselves, and where what is done hangs on
        the number of the rank, and is known in each cell."""
        if not self.cells.axes:
            return False
        if any(isinstance(value, Own) for value in given):
            return True
        if self.numbers:
            return False
        if op.rank_numbers:
            return op.kind == "slice" and self.emitter.same_in_cells(op)
        deciding = {"select": given[:1], "dynamic-slice": given[1:], "dynamic-update-slice": given[2:]}.get(op.kind, [])
        if is_one_window(op):
            deciding = given[1:2]
        return any(self._differs(value) for value in deciding) and all(map(self._decided, deciding))

    def _decided(self, value: Value) -> bool:
        """Whether a value is one known number in each cell."""
        numbers = [self.emitter.known_at(cell, value) for cell in range(self.cells.count)]
        return all(n is not None and n.size > 0 and bool((n == n.flat[0]).all()) for n in numbers)

    def _differs(self, value: Value) -> bool:
        """Whether a known value differs between cells, and not within them."""
        numbers = [self.emitter.known_at(cell, value) for cell in range(self.cells.count)]
        if any(n is None for n in numbers):
            return False
        firsts = [n[:1] for n in numbers if n is not None]
        one = all((n == n[:1]).all() for n in numbers if n is not None)
        return one and any(not np.array_equal(first, firsts[0]) for first in firsts)


def replace_tensor(port: Port, tensor: Tensor) -> Port:
    """The port with another tensor."""
    return replace(port, tensor=tensor)
