"""One scheduled module as a list of steps: what runs on the host's lane, what is in flight beside it, on which cells.

Text order is the order of issue. Calls are inlined; of a loop two rounds are looked at (what one round leaves to the
next, the next leaves to the one after), branches one after the other. An in-place update, and what a loop carries,
stay in one buffer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.readers.hlo.attributes import integers
from scalify_dl.readers.hlo.module import Computation, Instruction, Module
from scalify_dl.readers.hlo.types import ArrayType

from .aliasing import ALIAS, in_place, number_of, part
from .assignment import Assignment
from .choices import DATA, RANK, loop_rests_on, rests_on
from .exchange import EXCHANGES, Exchange, exchange_of
from .memory import Cell, Flight, Memory, Value, cells, flights

LIMIT = 2_000_000
DEPTH = 60
HOST = 0
SAME = ("bitcast", "optimization-barrier", "opt-barrier", "domain", "add-dependency")
"""Opcodes whose result is their first operand."""
TOKENS = ("after-all", "create-token")
QUIET = ("parameter", "constant", "tuple", "get-tuple-element", *SAME, *TOKENS)
"""Opcodes that do nothing."""
_TRIPS = re.compile(r'known_trip_count\\?"\s*:\s*\{\s*\\?"n\\?"\s*:\s*\\?"?(\d{1,9})')


class Step(NamedTuple):
    """One thing that a rank does: on the host's lane, or in flight on a lane of its own (a permute has two)."""

    lanes: tuple[int, ...]
    instruction: Instruction
    reads: tuple[Cell, ...]
    writes: tuple[Cell, ...]
    waits: Sequence[int] = ()
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a computation is run: the lane, and the way of calls that leads there."""

    lane: int
    path: str
    depth: int


class Program:
    """The steps of a module. `whole`: every round of a loop with exchanges is needed, as ranks' programs differ."""

    def __init__(self, module: Module, assignment: Assignment | None = None, *, one_queue: bool = False,
                 whole: bool = False) -> None:  # fmt: skip
        self.module, self.one_queue, self.whole = module, one_queue, whole
        self.memory = Memory(assignment)
        self.steps: list[Step] = []
        self.given: list[Cell] = []
        """Cells with contents before anything is run."""
        self.replaced: list[tuple[Cell, Cell]] = []
        """Parameters, and the outputs that are written in their place."""
        self.assumptions: dict[str, None] = {}
        self.inside: list[Computation] = []
        """The computations that are being run, innermost last."""
        self.free: list[int] = []
        self.lanes = count(1)
        self.exchanging: dict[str, bool] = {}
        self.awaited: dict[tuple[str, str], Flight] = {}
        """Operations that are spoken of before they begin."""
        entry = module.entry
        arguments: list[Value] = []
        for i in sorted((i for i in entry.instructions if i.opcode == "parameter"), key=lambda i: number_of(i)):
            arguments.append(self.memory.make("", i, i.type))
            self.given += cells(arguments[-1])
        self.result = self.run(entry, arguments, _Place(HOST, "", 0))
        self.end = entry.root
        for text in ALIAS.findall(module.header.get("input_output_alias", "")):
            self.alias(arguments, *text)

    @property
    def in_lockstep(self) -> bool:
        """Whether every step waits for earlier ones only, and meets the same step of other ranks."""
        return all(
            all(w < n for w in step.waits) and (step.exchange is None or all(step.exchange.sides))
            for n, step in enumerate(self.steps)
        )

    def alias(self, arguments: list[Value], output: str, parameter: str, index: str) -> None:
        """An output that is written into a parameter's buffer."""
        if int(parameter) >= len(arguments):
            raise InputError(f"input_output_alias names parameter {parameter}", line=1, column=1)
        made, given = part(self.result, integers(output)), part(arguments[int(parameter)], integers(index))
        if isinstance(made, Cell) and isinstance(given, Cell) and made is not given:
            self.replaced.append((given, made))
        self.memory.join(made, given)

    def step(self, lanes: Iterable[int], i: Instruction, reads: Iterable[Cell], writes: Iterable[Cell],
             waits: Sequence[int] = (), exchange: Exchange | None = None) -> int:  # fmt: skip
        """One more step; its number."""
        if len(self.steps) >= LIMIT:
            raise i.error(f"more than {LIMIT:,} steps")
        self.steps.append(Step(tuple(lanes), i, tuple(reads), tuple(writes), waits, exchange))
        return len(self.steps) - 1

    # ---- computations ----
    def run(self, computation: Computation, arguments: list[Value], place: _Place) -> Value:
        """All instructions in their order; the root's value. One that stands before its operands finds them all the
        same, and reads what is not there yet."""
        if place.depth > DEPTH:
            raise InputError(f"calls nested deeper than {DEPTH}", line=computation.line, column=1)
        by_name = {i.name: i for i in computation.instructions}
        values: dict[str, Value] = {}
        begun: set[str] = set()

        def value_of(name: str, user: Instruction) -> Value:
            if name not in values:
                i = by_name.get(name)
                if i is None:
                    raise user.error(f"operand `{name}` is not defined", hint="the dump is truncated or edited")
                if name in begun:
                    raise i.error("depends on itself")
                begun.add(name)
                values[name] = self.early(i, value_of, place) if acts(i) else quiet(i)
            return values[name]

        def quiet(i: Instruction) -> Value:
            if i.opcode == "parameter":
                n = number_of(i)
                if n >= len(arguments):
                    raise i.error(f"is parameter {n}, but {len(arguments)} arguments are given")
                return arguments[n]
            if i.opcode == "constant":
                made = self.memory.make(place.path, i, i.type)
                self.given += cells(made)
                return made
            return self.same(i, [value_of(name, i) for name in i.operands])

        self.inside.append(computation)
        for i in computation.instructions:
            if acts(i):
                values[i.name] = self.instruction(i, [value_of(name, i) for name in i.operands], place)
            elif i.name not in values:
                values[i.name] = quiet(i)
        self.inside.pop()
        return values[computation.root.name]

    def early(self, i: Instruction, value_of: Callable[[str, Instruction], Value], place: _Place) -> Value:
        """What an instruction will give that stands behind its user: bytes without contents as yet."""
        if i.opcode in CONTROL:
            raise i.error("stands behind its users", expected="operands first")
        if i.opcode.endswith(("-done", "-update")) and i.operands:
            flight = value_of(i.operands[0], i)
            return flight.result if isinstance(flight, Flight) and i.opcode.endswith("-done") else flight
        if begins(i):
            flight = self.awaited[place.path, i.name] = self.flight(i, [], place)
            return flight
        return self.memory.make(place.path, i, i.type)

    def called(self, i: Instruction, key: str) -> Computation:
        """A computation that an attribute names."""
        name = i.attributes.get(key, "").strip().lstrip("%")
        if name not in self.module.computations:
            raise i.error(f"computation `{name}` is not defined", hint="the dump is truncated or edited")
        return self.module.computations[name]

    def exchanges(self, computation: Computation) -> bool:
        """Whether ranks meet in it, or anything is left in flight there."""
        name = computation.name
        if name not in self.exchanging:
            self.exchanging[name] = False
            self.exchanging[name] = any(
                kind(i.opcode) in EXCHANGES or any(self.exchanges(c) for c in self.below(i))
                for i in computation.instructions
            )
        return self.exchanging[name]

    def below(self, i: Instruction) -> list[Computation]:
        """The computations that an instruction calls."""
        names = [
            name.strip().lstrip("%")
            for key in ("calls", "to_apply", "body", "condition", "true_computation", "false_computation")
            if f"{key}=" in i.attribute_text
            for name in [i.attributes.get(key, "")]
        ]
        if "branch_computations" in i.attribute_text:
            names += [n.strip().lstrip("%") for n in i.attributes.get("branch_computations", "").strip("{}").split(",")]
        return [self.module.computations[name] for name in names if name in self.module.computations]

    # ---- instructions ----
    def instruction(self, i: Instruction, operands: list[Value], place: _Place) -> Value:
        """One instruction that acts: what it is as steps, and its value."""
        first = operands[0] if operands else None
        if i.opcode.endswith("-update") and isinstance(first, Flight):
            return first
        if i.opcode.endswith("-done"):
            return self.done(i, first, place)
        if begins(i):
            return self.start(i, operands, place)
        if i.opcode in CONTROL:
            return CONTROL[i.opcode](self, i, operands, place)
        if kind(i.opcode) in EXCHANGES:
            return self.done(i, self.start(i, operands, place), place)
        return self.plain(i, operands, place)

    def same(self, i: Instruction, operands: list[Value]) -> Value:
        """What only gives values another name."""
        first = operands[0] if operands else None
        if i.opcode == "tuple":
            return list(operands)
        if i.opcode == "get-tuple-element":
            parts = first.parts if isinstance(first, Flight) else first
            index = integers(i.attributes.get("index", ""))
            if not isinstance(parts, list) or len(index) != 1 or not 0 <= index[0] < len(parts):
                raise i.error(f"index={i.attributes.get('index')} of what is no such tuple")
            return parts[index[0]]
        return None if i.opcode in TOKENS else first

    def plain(self, i: Instruction, operands: list[Value], place: _Place) -> Value:
        """A computation, all at once."""
        result = self.memory.make(place.path, i, i.type)
        reads = list(cells(operands))
        inside = self.called(i, "calls") if i.opcode == "fusion" else None
        for target, source in in_place(i, inside, operands, result):
            self.memory.join(source, target)
        if inside is not None and self.exchanges(inside):
            for inner in inside.instructions:
                if kind(inner.opcode) in EXCHANGES:
                    self.step([place.lane], inner, [], [], exchange=exchange_of(self.module, inner))
        self.step([place.lane], i, reads, cells(result))
        return result

    # ---- asynchronous operations ----
    def flight(self, i: Instruction, operands: list[Value], place: _Place) -> Flight:
        """The values of an operation that begins."""
        type_ = i.type
        made = self.memory.make(place.path, i, type_)
        parts: list[Value] = made if isinstance(made, list) else [made]
        opcode = kind(i.opcode)
        flight = Flight(i.name, parts, made)
        given = operands[0] if operands else None
        if i.opcode == "copy-start":
            flight.result, flight.parts = parts[0], [parts[0], given, *parts[2:]]
        elif i.opcode == "send":
            flight.result, flight.parts = None, [given, *parts[1:]]
        elif i.opcode == "recv":
            flight.result = [parts[0], None]
        elif i.opcode.endswith("-start") and opcode != "all-reduce" and not isinstance(type_, ArrayType):
            if len(parts) < 2:
                raise i.error(f"has type {i.type_text}", expected="(operands, result, …)")
            flight.result, flight.parts = parts[1], [operands if isinstance(parts[0], list) else given, *parts[1:]]
        return flight

    def start(self, i: Instruction, operands: list[Value], place: _Place) -> Flight:
        """An operation begins: it reads and writes until its done."""
        flight = self.awaited.pop((place.path, i.name), None) or self.flight(i, operands, place)
        if kind(i.opcode) == "collective-permute" and begins(i) and len(operands) > 1:
            self.memory.join(operands[1], flight.result)
        asynchronous = place.lane == HOST and begins(i)
        writes = tuple(cells(flight.result))
        reads = tuple(cells(operands)) if i.opcode != "recv" else ()
        inner = self.called(i, "calls") if i.opcode == "async-start" else None
        if inner is not None and (inner.root.opcode not in EXCHANGES or sum(map(acts, inner.instructions)) > 1):
            lane = place.lane if not asynchronous else 1 if self.one_queue else self.lane()
            begun = len(self.steps)
            within = _Place(lane, f"{place.path}/{i.name}", place.depth + 1)
            self.memory.join(self.run(inner, list(operands), within), flight.result)
            flight.steps += range(begun, len(self.steps))
            if not flight.steps:
                flight.steps.append(self.step([lane], i, reads, writes))
            return flight
        said = inner.root if inner is not None else i
        exchange = exchange_of(self.module, said) if kind(said.opcode) in EXCHANGES else None
        pairs = exchange is not None and exchange.pairs is not None
        if asynchronous or pairs:
            lanes = [1, 2][: 1 + pairs] if self.one_queue else [self.lane() for _ in range(1 + pairs)]
        else:
            lanes = [place.lane]
        flight.steps.append(self.step(lanes, i, reads, writes, exchange=exchange))
        return flight

    def lane(self) -> int:
        """A lane on which nothing is in flight."""
        return self.free.pop() if self.free else next(self.lanes)

    def done(self, i: Instruction, flight: Value, place: _Place) -> Value:
        """The lane goes on when the operation has ended."""
        if not isinstance(flight, Flight):
            raise i.error("waits for what is no asynchronous start")
        if not flight.steps or self.steps[flight.steps[0]].lanes[0] != place.lane:
            self.step([place.lane], i, [], [], flight.steps)
            if place.lane == HOST and not flight.landed and not self.one_queue:
                self.free += sorted({lane for n in flight.steps for lane in self.steps[n].lanes} - {HOST})
        flight.landed = True
        return flight.result


def _call(program: Program, i: Instruction, operands: list[Value], place: _Place) -> Value:
    called = program.called(i, "to_apply" if "to_apply" in i.attributes else "calls")
    return program.run(called, operands, _Place(place.lane, f"{place.path}/{i.name}", place.depth + 1))


def _while(program: Program, i: Instruction, operands: list[Value], place: _Place) -> Value:
    condition, body = program.called(i, "condition"), program.called(i, "body")
    inside = _Place(place.lane, f"{place.path}/{i.name}", place.depth + 1)
    found = _TRIPS.search(i.attribute_text)
    trips = int(found[1]) if found else None
    meeting = program.exchanges(body) or program.exchanges(condition)
    carried: Value = operands[0] if operands else None
    if trips is None and meeting and program.whole:
        raise i.error(
            "ranks meet in this loop, and how often it runs is not said", expected="known_trip_count, as ranks run "
            "several programs",
        )  # fmt: skip
    if trips is None and meeting:
        _check_choice(program, i, loop_rests_on(program.module, program.inside[-1], i, condition, body))
    if trips is None and any(True for _ in flights(carried)):
        program.assumptions[f"`{i.name}` runs at least twice"] = None
    rounds = 2 if trips is None else trips if meeting and program.whole else min(trips, 2)
    for _ in range(rounds):
        program.run(condition, [carried], inside)
        after = program.run(body, [carried], inside)
        program.memory.join(carried, after)
        carried = after
    program.run(condition, [carried], inside)
    return carried


def _conditional(program: Program, i: Instruction, operands: list[Value], place: _Place) -> Value:
    _, *arguments = operands
    branches = program.below(i)
    if "branch_computations" not in i.attribute_text:
        branches = [program.called(i, "true_computation"), program.called(i, "false_computation")]
    if len(branches) != len(arguments) or not branches:
        raise i.error(f"{len(branches)} branches, {len(arguments)} branch operands")
    if any(True for value in arguments for _ in flights(value)):
        raise i.error("an operation in flight is given to a branch", hint="data decide whether it is waited for")
    if any(program.exchanges(branch) for branch in branches):
        _check_choice(program, i, rests_on(program.module, program.inside[-1], i.operands[:1]).level)
    results: list[Value] = []
    for n, (branch, argument) in enumerate(zip(branches, arguments, strict=True)):
        begun = len(program.steps)
        results.append(
            program.run(branch, [argument], _Place(place.lane, f"{place.path}/{i.name}{n}", place.depth + 1))
        )
        awaited = {w for step in program.steps[begun:] for w in step.waits}
        flying = [n for n in range(begun, len(program.steps)) if program.steps[n].lanes[0] != place.lane]
        if any(True for _ in flights(results[-1])) or not awaited.issuperset(flying):
            raise i.error(
                "a branch leaves an operation in flight", hint="data decide whether there is anything to wait for"
            )
        program.memory.join(results[0], results[-1])
    return results[0]


def _check_choice(program: Program, i: Instruction, rests: int) -> None:
    """Where ranks meet, all of them have to choose alike."""
    if rests == RANK:
        raise i.error(
            "the rank's number decides whether it meets the others here", expected="collectives that all ranks reach"
        )
    if rests == DATA:
        program.assumptions[f"all ranks choose alike at `{i.name}`, where they meet"] = None


Control = Callable[[Program, Instruction, list[Value], _Place], Value]
CONTROL: dict[str, Control] = {"call": _call, "while": _while, "conditional": _conditional}


def kind(opcode: str) -> str:
    """An opcode without the word that says which end of an asynchronous operation it is."""
    return opcode.removesuffix("-start")


def acts(i: Instruction) -> bool:
    """Whether an instruction does anything."""
    return i.opcode not in QUIET


def begins(i: Instruction) -> bool:
    """Whether an asynchronous operation begins here."""
    return i.opcode.endswith("-start") or i.opcode in ("send", "recv")
