"""Several programs, run side by side until all have ended; what they do becomes the joined program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.vocabulary import RANDOM

from ..correspond import Shard
from .alike import Alikes
from .cells import Cells
from .combined import combined
from .matching import Match, is_splat, matched
from .meetings import Meeting, apart, meetings, peers
from .moved import see_pieces
from .own_parts import see_own_parts
from .ports import One, inputs_alike, same_everywhere
from .values import Alike, Awaited, Message, NeverComes, Own, Ragged, Unjoinable, Value, Values

__all__ = ["Joined", "join"]

Rows = Mapping[Tensor, tuple[Shard, ...]]


@dataclass
class Joined:
    """The joined program. `values[k]` has what the values of cell k's program are in it, `inputs[k]` its inputs;
    `shards` what is given of them."""

    graph: Graph
    cells: Cells
    made: Values
    values: list[dict[Tensor, Value]]
    inputs: list[dict[Tensor, Tensor]]
    shards: list[Shard]

    def at(self, cell: int, tensor: Tensor) -> Tensor | None:
        """The tensor that is a value of a cell's program; None where there is none by itself."""
        value = self.values[cell].get(tensor)
        return value.tensor if isinstance(value, Alike | Own) else None


def join(programs: Sequence[Graph], cells: Cells, rows: Sequence[Rows]) -> Joined:
    """One program of several; `rows` is what is given of the inputs, by cell. Unjoinable where there is none,
    NeverComes where a message is never sent."""
    for n, program in enumerate(programs):
        see_own_parts(program, [rank for cell in cells.of(n) for rank in cells.ranks[cell]])
        see_pieces(program)
    joining = _Joining(programs, cells, rows)
    joining.run()
    return Joined(joining.made.graph, cells, joining.made, joining.values, joining.inputs, joining.shards)


class _Joining:
    def __init__(self, programs: Sequence[Graph], cells: Cells, rows: Sequence[Rows]) -> None:
        self.programs, self.cells, self.rows = programs, cells, rows
        for op in (op for program in programs for op in program.ops):
            if op.groups is None and op.replica_groups_all:
                op.groups = [sorted(cells.place)]
        self.made = Values(cells)
        self.alikes = Alikes(self.made)
        self.values: list[dict[Tensor, Value]] = [{} for _ in range(cells.count)]
        self.inputs: list[dict[Tensor, Tensor]] = [{} for _ in range(cells.count)]
        self.shards: list[Shard] = []
        self.meetings = meetings(programs, cells)
        self.at = [0] * len(programs)
        self.sent: dict[tuple[int, int, str], list[Value]] = {}
        self.received: dict[tuple[int, int, str], int] = {}
        self.met: dict[Meeting, dict[Op, dict[int, Value]]] = {}
        ones = inputs_alike(programs, cells, rows)
        self.take_inputs(ones)
        everyone = [m for m in dict.fromkeys(self.meetings.values()) if len(m.ops) == len(programs)]
        met = [[meeting.ops[n] for n in range(len(programs))] for meeting in everyone]
        self.matches = matched(programs, [one.tensors for one in ones], met) if len(programs) > 1 else [{}]

    # --- inputs ------------------------------------------------------------------------------------------------------

    def take_inputs(self, ones: Sequence[One]) -> None:
        """Every input in the joined program."""
        of = {tensor: one for one in ones for tensor in one.tensors}
        taken: dict[One, Alike | Ragged] = {}
        names = [min(ranks) for ranks in self.cells.ranks]
        for k, p in enumerate(self.cells.program):
            for port in self.programs[p].inputs:
                one = of.get(port.tensor)
                if one is None:
                    self.values[k][port.tensor] = self.own_input(k, port, f"r{names[k]}/{port.tensor.name}")
                    continue
                if one not in taken:
                    taken[one] = self.common_input(one, port)
                value = self.values[k][port.tensor] = taken[one]
                self.inputs[k][port.tensor] = value.tensor if isinstance(value, Alike) else self.made.whole(value)

    def new_input(self, port: Port, name: str, shape: Sequence[int], rows: Sequence[Shard]) -> Tensor:
        tensor = Tensor(port.tensor.dtype, tuple(shape), name)
        changed = copy(port)
        changed.tensor, changed.holds = tensor, None
        self.made.graph.inputs.append(changed)
        self.shards += [Shard(tensor, s.base, s.layout, s.why, s.dist_piece, s.base_piece) for s in rows]
        return tensor

    def own_input(self, cell: int, port: Port, name: str) -> Own:
        """An input that only one cell has: others hold what it would be there."""
        rows = self.rows[cell].get(port.tensor, ())
        if self.cells.count == 1:
            name = port.tensor.name
        tensor = self.new_input(port, name, port.tensor.shape, rows)
        self.inputs[cell][port.tensor] = tensor
        if self.cells.count == 1 or (rows and all(same_everywhere(row.layout, self.cells.axes) for row in rows)):
            return Own(tensor)
        return Own(self.made.taken(tensor, cell, None))

    def common_input(self, one: One, port: Port) -> Alike | Ragged:
        if not one.sizes:
            tensor = self.new_input(port, port.tensor.name, port.tensor.shape, one.shards)
            return Alike(tensor, all(same_everywhere(row.layout, self.cells.axes) for row in one.shards))
        rest = list(port.tensor.shape)
        rest[one.dim] = one.sizes[0]
        ragged = Ragged(one.dim, one.sizes, port.tensor.dtype, tuple(rest))
        ragged.whole = self.new_input(port, port.tensor.name, ragged.extent(ragged.total), one.shards)
        return ragged

    # --- running -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs every program as far as it comes, until all have ended."""
        while any(at < len(p.ops) for at, p in zip(self.at, self.programs, strict=True)):
            moved = False
            for n, program in enumerate(self.programs):
                while self.at[n] < len(program.ops) and self.step(n, program.ops[self.at[n]]):
                    self.at[n] += 1
                    moved = True
            if not moved and not self.give_up_a_match():
                self.stuck()
        for values in self.values:
            for tensor, value in values.items():
                if isinstance(value, Awaited) and (come := self.come(value)) is not None:
                    values[tensor] = come

    def give_up_a_match(self) -> bool:
        """One of the matches at which programs wait for each other is none."""
        for n, program in enumerate(self.programs):
            op = program.ops[self.at[n]] if self.at[n] < len(program.ops) else None
            match = self.matches[n].get(op) if op is not None else None
            if match is not None and match.mixed and not match.dead:
                match.dead = True
                return True
        return False

    def stuck(self) -> None:
        """The programs wait for messages that do not come."""
        for n, program in enumerate(self.programs):
            if self.at[n] == len(program.ops):
                continue
            op = program.ops[self.at[n]]
            for cell in self.cells.of(n):
                for x in op.operands:
                    value = self.values[cell].get(x)
                    if isinstance(value, Awaited):
                        late = next((m for m in value.messages if not self.there(m)), value.messages[0])
                        raise NeverComes(
                            InputError(
                                f"`{value.op.name}`: rank {late.target} waits for message {late.number} of rank"
                                f" {late.source}, which is not sent before",
                                file=program.file, line=value.op.at[0],
                                hint="each message that is received must be sent, in the same order, by a rank that"
                                " does not wait for the receiver",
                            )
                        )  # fmt: skip
        raise Unjoinable("the programs wait for each other")

    def step(self, n: int, op: Op) -> bool:
        """Does an op of a program, if what it takes is there."""
        cells = self.cells.of(n)
        if not self.ready(n, op):
            return False
        if op.kind == "send":
            self.send(n, op)
        elif op.kind == "recv":
            self.receive(n, op)
        elif op in self.meetings:
            return self.meet(n, op)
        elif not self.everywhere(n, op):
            match = self.matches[n].get(op)
            if match is None or match.dead:
                self.alone(cells, op)
            else:
                return self.together(n, op, match)
        return True

    def everywhere(self, n: int, op: Op) -> bool:
        """Does an op that gives one number everywhere, which it is on every rank at once. False for any other op."""
        found: dict[int, Alike] = {}
        for cell in self.cells.of(n):
            values = [self.values[cell][x] for x in op.operands]
            scalars = {
                x: self.made.scalar(value.tensor) if value.tensor.shape else value.tensor
                for x, value in zip(op.operands, values, strict=True) if isinstance(value, Alike)
            }  # fmt: skip
            known = {x: scalar for x, scalar in scalars.items() if scalar is not None}
            if len(known) < len(set(op.operands)) or not is_splat(op, known):
                return False
            uniform = all(isinstance(value, Alike) and value.uniform for value in values)
            scalar = self.alikes.scalar(op, [known[x] for x in op.operands])
            found[cell] = Alike(self.made.splat(scalar, op.result.shape, op), uniform)
        for cell, value in found.items():
            self.values[cell][op.result] = value
        return bool(found)

    def ready(self, n: int, op: Op) -> bool:
        """Whether what an op takes is there: messages that have come are values from now on."""
        for cell in self.cells.of(n):
            for x in dict.fromkeys(op.operands):
                value = self.values[cell][x]
                if isinstance(value, Awaited):
                    come = self.come(value)
                    if come is None:
                        return False
                    self.values[cell][x] = come
        return True

    def all_at(self, ops: Mapping[int, Op]) -> bool:
        """Whether programs have come to these ops, and what they take is there."""
        return all(
            self.at[p] < len(self.programs[p].ops) and self.programs[p].ops[self.at[p]] is op and self.ready(p, op)
            for p, op in ops.items()
        )

    def together(self, n: int, op: Op, match: Match) -> bool:
        """An op that all programs have: done by the first that comes to it, or when all have."""
        if match.results is None:
            if match.mixed and not self.all_at(dict(enumerate(match.ops))):
                return False
            match.results = self.for_all(n, op, match)
            if match.results is None:
                match.dead = True
                self.alone(self.cells.of(n), op)
                return True
        for cell in self.cells.of(n):
            self.values[cell].update(zip(op.results, match.results, strict=True))
        return True

    def for_all(self, n: int, op: Op, match: Match) -> list[Value] | None:
        """What an op gives that all programs have; None where each is better done for itself."""
        by_cell = [match.ops[p] for p in self.cells.program]
        if match.mixed:
            operands = [[self.values[k][x] for x in mine.operands] for k, mine in enumerate(by_cell)]
        else:
            operands = [[self.values[self.cells.of(n)[0]][x] for x in op.operands]] * self.cells.count
            if not all(isinstance(value, Alike | Ragged) for value in operands[0]):
                return None
        return self.alikes.done(by_cell, operands)

    def alone(self, cells: Sequence[int], op: Op) -> None:
        """An op that a program has for itself: what each of its cells computes, on every rank."""
        for cell in cells:
            operands = [self.made.at(cell, self.values[cell][x], op) for x in op.operands]
            results = self.alikes.alone(cell, op, operands)
            if op.kind in RANDOM and self.cells.count > 1:
                results = [self.made.taken(x, cell, op) for x in results]
            self.values[cell].update((t, Own(x)) for t, x in zip(op.results, results, strict=True))

    # --- meeting -----------------------------------------------------------------------------------------------------

    def meet(self, n: int, op: Op) -> bool:
        """A collective over several programs: done when all have come to it."""
        meeting = self.meetings[op]
        if meeting not in self.met:
            if not self.all_at(meeting.ops):
                return False
            self.met[meeting] = self.meeting_of(meeting)
        for cell, value in self.met[meeting][op].items():
            self.values[cell][op.result] = value
        return True

    def meeting_of(self, meeting: Meeting) -> dict[Op, dict[int, Value]]:
        """By op and cell, what a collective gives."""
        ops = {cell: meeting.ops[p] for cell, p in enumerate(self.cells.program) if p in meeting.ops}
        brought = {cell: self.values[cell][op.operands[0]] for cell, op in ops.items()}
        one = self.alikes.collective(ops, brought) if len(ops) == self.cells.count else None
        if one is not None:
            results: dict[int, Value] = dict.fromkeys(ops, one)
        else:
            there = {cell: self.made.at(cell, value, ops[cell]) for cell, value in brought.items()}
            found: dict[int, Tensor] = {}
            for some in apart(ops, self.cells):
                found |= combined(self.made, some, {cell: there[cell] for cell in some})
            same = len(found) == self.cells.count and len(set(found.values())) == 1
            results = {cell: Alike(x, True) if same else Own(x) for cell, x in found.items()}
            if same:
                results = dict.fromkeys(results, next(iter(results.values())))
        return {op: {c: results[c] for c in ops if ops[c] is op} for op in meeting.ops.values()}

    def send(self, n: int, op: Op) -> None:
        for cell in self.cells.of(n):
            to = peers(op, self.programs[n], self.cells.ranks[cell])
            for rank in self.cells.ranks[cell]:
                channel = (rank, to[rank], op.symbols["channel"][0])
                self.sent.setdefault(channel, []).append(self.values[cell][op.operands[0]])

    def receive(self, n: int, op: Op) -> None:
        for cell in self.cells.of(n):
            of = peers(op, self.programs[n], self.cells.ranks[cell])
            messages = []
            for rank in self.cells.ranks[cell]:
                channel = (of[rank], rank, op.symbols["channel"][0])
                number = self.received.get(channel, 0)
                self.received[channel] = number + 1
                messages.append(Message(*channel, number))
            self.values[cell][op.result] = Awaited(messages, op)

    def there(self, message: Message) -> bool:
        """Whether a message is sent."""
        return message.number < len(self.sent.get((message.source, message.target, message.channel), ()))

    def come(self, value: Awaited) -> Value | None:
        """What is received, if all of it is sent."""
        if not all(self.there(m) for m in value.messages):
            return None
        sent = [self.sent[m.source, m.target, m.channel][m.number] for m in value.messages]
        places = [self.cells.place[m.source] for m in value.messages]
        cell = places[0][0]
        if any(k != cell for k, _ in places) or any(x is not sent[0] for x in sent):
            raise Unjoinable("counterparts receive from several programs, or in several orders")
        if isinstance(sent[0], Awaited):
            passed = self.come(sent[0])
            if passed is None:
                return None
            sent[0] = passed
        x = self.made.at(cell, sent[0], value.op)
        if x.type != value.op.result.type:
            m = value.messages[0]
            raise NeverComes(
                InputError(
                    f"`{value.op.name}`: rank {m.target} receives {value.op.result.type}, rank {m.source} sends"
                    f" {x.type}"
                )
            )
        if any(j != n for n, (_, j) in enumerate(places)):
            if sorted(j for _, j in places) != list(range(self.cells.columns)):
                raise Unjoinable("one rank sends to several counterparts")
            pairs = [(ranks[j], ranks[n]) for ranks in self.cells.ranks for n, (_, j) in enumerate(places)]
            x = self.made.emit("collective-permute", [x], value.op, pairs=pairs)
        return Own(x)
