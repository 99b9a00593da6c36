"""Runs graphs rank by rank: all ranks of a program in lockstep, several programs meeting at their collectives.

A graph is a coroutine that yields at collectives; the scheduler answers when every member of the group has come.
Values that are one object on several ranks are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scalify_dl.errors import in_short

from .dtypes import endless_beyond, is_float, round_to, storage, wrapped
from .jumping import is_jump
from .meaning import COLLECTIVES, GROUPED, MEANINGS, RANDOM, Call, Unsupported, collective_permute, is_opaque
from .meaning.control import opaque
from .program import Graph, Op, Program
from .rounded import jumps, of_constants
from .together import Stacked, meet_together, run_together

Array = np.ndarray[Any, Any]
PerRank = dict[int, Array]
Values = dict[str, PerRank]
RandomSource = Callable[[Op, dict[int, list[Array]]], dict[int, list[Array]]]
Observer = Callable[[str, PerRank], None]
MOVES = (
    COLLECTIVES
    | RANDOM
    | frozenset(
        """constant iota partition-id replica-id broadcast reshape transpose slice pad concatenate reverse gather
        dynamic-slice dynamic-update-slice sort top-k select clamp maximum minimum convert while conditional
        empty""".split()  # noqa: SIM905
    )
)
"""Kinds that pass elements on as they are."""

TOGETHER = 3
"""Ranks with values of their own from which on they are run together."""

STEPS_LIMIT = 10_000
"""Steps of one loop, after which a run is given up: the values drawn may keep it going for ever."""
LOOKED_AT = (100, 1_000)
"""Steps at which it is looked whether anything changes."""


@dataclass(slots=True)
class Request:
    """A collective that some ranks have reached."""

    op: Op
    values: PerRank


def _keep(kept: Values, tensor: str, value: PerRank) -> None:
    """Keeps a value; of the steps of a loop the first, which both sides have."""
    held = kept.setdefault(tensor, {})
    for rank, x in value.items():
        held.setdefault(rank, x)


def _freed(graph: Graph) -> list[list[str]]:
    """What is used for the last time by each op, or made and never used."""
    last = {tensor: n for n, op in enumerate(graph.ops) for tensor in (*op.results, *op.operands)}
    for tensor in graph.outputs:
        last.pop(tensor, None)
    freed: list[list[str]] = [[] for _ in graph.ops]
    for tensor, n in last.items():
        freed[n].append(tensor)
    return freed


def _apart(operands: list[PerRank]) -> bool:
    """Whether ranks have values of their own."""
    for value in operands:
        if isinstance(value, Stacked):
            return True
    return len({tuple(map(id, x)) for x in zip(*(v.values() for v in operands), strict=False)}) >= TOGETHER


_STEPS = np.array([1 - 2.0**-52, 1 + 2.0**-52])


def _moved(x: Array, jitter: np.random.Generator) -> Array:
    """By one rounding, but whole numbers."""
    step = _STEPS[jitter.integers(0, 2, x.shape)]
    exact = (x == np.rint(x)) & (np.abs(x) <= 2.0**53)
    return np.where(exact, x, x * step)


class Deadlock(Exception):
    """Ranks wait at collectives that never complete."""


@dataclass
class Machine:
    """One execution: what random ops give, whether casts round, who watches each result.

    `keep` are the tensors whose values are returned; all others are freed after their last use.
    """

    program: Program
    random: RandomSource
    seed: int = 0
    rounding: bool = False
    keep: frozenset[str] = frozenset()
    observe: Observer | None = None
    jitter: np.random.Generator | None = None
    """Moves every computed float that is no whole number (below 2⁵³) by one rounding, to measure how much rounding
    matters."""
    moved: frozenset[int] | None = None
    """Of which ranks `jitter` moves values; None: of all."""
    bounded: bool = False
    """Real numbers beyond their type are infinite."""
    freed: dict[str, list[list[str]]] = field(default_factory=dict)
    """Values that are used no more after each op, by graph."""
    lanes: dict[tuple[int, ...], slice | list[int]] = field(default_factory=dict)
    rounded: Values = field(default_factory=dict)
    """What is made of constants alone, rounded at each step."""

    def run(self, graphs: Iterable[Graph], inputs: Values) -> Values:
        """Runs graphs together; returns the values of kept tensors.

        Raises Unsupported where an op has no meaning, Deadlock where collectives do not meet.
        """
        kept: Values = {}
        threads = [self._top(graph, inputs, kept) for graph in graphs]
        waiting: dict[int, Request] = {}
        answers: dict[int, PerRank | None] = dict.fromkeys(range(len(threads)))
        while answers:
            for i, answer in answers.items():
                try:
                    waiting[i] = threads[i].send(answer)  # type: ignore[arg-type]
                except StopIteration:
                    waiting.pop(i, None)
            answers = self._meet(waiting) if waiting else {}
            if waiting and not answers:
                stuck = ", ".join(f"{r.op.id} (ranks {in_short(sorted(r.values))})" for r in waiting.values())
                raise Deadlock(f"no progress: {stuck}")
            for i in answers:
                waiting.pop(i)
        return kept

    def _top(self, graph: Graph, inputs: Values, kept: Values) -> Generator[Request, PerRank, None]:
        env = {tensor: {rank: inputs[tensor][rank] for rank in graph.ranks} for tensor in graph.inputs}
        for tensor, value in env.items():
            if self.observe:
                self.observe(tensor, value)
        results = yield from self._graph(graph, graph.ranks, env, kept)
        for tensor, value in zip(graph.outputs, results, strict=True):
            kept.setdefault(tensor, {}).update(value)

    def _graph(
        self, graph: Graph, ranks: tuple[int, ...], env: Values, kept: Values
    ) -> Generator[Request, PerRank, list[PerRank]]:
        if graph.id not in self.freed:
            self.freed[graph.id] = _freed(graph)
        for tensor in self.keep.intersection(env):
            _keep(kept, tensor, env[tensor])
        for op, freed in zip(graph.ops, self.freed[graph.id], strict=True):
            operands = [env[t] for t in op.operands]
            if op.kind in COLLECTIVES:
                answer = yield Request(op, operands[0])
                results = [answer]
            elif op.kind == "while":
                results = yield from self._while(op, ranks, operands, kept)
            elif op.kind == "conditional":
                results = yield from self._conditional(op, ranks, operands, kept)
            elif op.kind in RANDOM:
                drawn = self.random(op, {rank: [x[rank] for x in operands] for rank in ranks})
                results = [{rank: drawn[rank][k] for rank in ranks} for k in range(len(op.results))]
            else:
                results = self._local(op, ranks, operands)
                if self.rounding and not self.alone.isdisjoint(op.results):
                    results = self._at_their_types(op, ranks, results)
            for tensor, value in zip(op.results, results, strict=True):
                typed = self._typed(op, tensor, value)
                env[tensor] = self._within(tensor, typed) if self.bounded else self._jittered(op, typed)
                if self.observe:
                    self.observe(tensor, env[tensor])
                if tensor in self.keep:
                    _keep(kept, tensor, env[tensor])
            for tensor in freed:
                del env[tensor]
        return [env[t] for t in graph.outputs]

    @cached_property
    def alone(self) -> frozenset[str]:
        """Values that are made of constants alone, where something jumps between such."""
        return of_constants(self.program) if jumps(self.program) else frozenset()

    def _at_their_types(self, op: Op, ranks: tuple[int, ...], results: list[PerRank]) -> list[PerRank]:
        """What an op of such values gives, where it jumps or its operands did: of numbers rounded at each step."""
        given = [self.rounded[t] for t in op.operands]
        made = self._local(op, ranks, given) if given else results
        for n, (tensor, value) in enumerate(zip(op.results, made, strict=True)):
            dtype, typed = self.program.tensors[tensor].dtype, self._typed(op, tensor, value)
            real = is_float(dtype)
            self.rounded[tensor] = {r: round_to(x, dtype) for r, x in typed.items()} if real else typed
            if given and (not real or is_jump(self.program, op)):
                results = [*results[:n], typed, *results[n + 1 :]]
        return results

    def _within(self, tensor: str, value: PerRank) -> PerRank:
        """A value with infinities where its numbers are beyond their type."""
        dtype = self.program.tensors[tensor].dtype
        if not is_float(dtype):
            return value
        if isinstance(value, Stacked):
            return Stacked(value.ranks, endless_beyond(value.whole, dtype))
        return {rank: endless_beyond(x, dtype) for rank, x in value.items()}

    def _jittered(self, op: Op, value: PerRank) -> PerRank:
        if self.jitter is None or op.kind in MOVES:
            return value
        if isinstance(value, Stacked) and value.whole.dtype.kind in "fc":
            lanes = self._lanes(value.ranks)
            whole = np.array(value.whole)
            whole[lanes] = _moved(whole[lanes], self.jitter)
            return Stacked(value.ranks, whole)
        done: dict[int, Array] = {}
        result: PerRank = {}
        for rank, x in value.items():
            if x.dtype.kind not in "fc" or not (self.moved is None or rank in self.moved):
                result[rank] = x
                continue
            if id(x) not in done:
                done[id(x)] = _moved(x, self.jitter)
            result[rank] = done[id(x)]
        return result

    def _lanes(self, ranks: tuple[int, ...]) -> slice | list[int]:
        """Where the ranks are whose values `jitter` moves."""
        if ranks not in self.lanes:
            found = [lane for lane, rank in enumerate(ranks) if self.moved is None or rank in self.moved]
            in_a_row = found and found[-1] - found[0] + 1 == len(found)
            self.lanes[ranks] = slice(found[0], found[-1] + 1) if in_a_row else found
        return self.lanes[ranks]

    def _typed(self, op: Op, tensor: str, value: PerRank) -> PerRank:
        declared = self.program.tensors[tensor]
        dtype = storage(declared.dtype)
        if isinstance(value, Stacked) and value.whole.shape[1:] == declared.shape:
            if value.whole.dtype == dtype and wrapped(value.whole, declared.dtype) is value.whole:
                return value
            return Stacked(value.ranks, wrapped(value.whole.astype(dtype), declared.dtype))
        done: dict[int, Array] = {}
        result: PerRank = {}
        for rank, x in value.items():
            if id(x) not in done:
                if x.shape != declared.shape:
                    raise Unsupported(
                        f"op {op.id} ({op.kind}) made {tensor} of shape {x.shape}, declared is {declared.shape}"
                    )
                done[id(x)] = wrapped(x if x.dtype == dtype else x.astype(dtype), declared.dtype)
            result[rank] = done[id(x)]
        return result

    def _local(self, op: Op, ranks: tuple[int, ...], operands: list[PerRank]) -> list[PerRank]:
        function = MEANINGS.get(op.kind)
        if function is None:
            if not is_opaque(op.kind):
                raise Unsupported(f"the oracle has no meaning for `{op.kind}` (op {op.id})")
            function = opaque
        types = [self.program.tensors[t] for t in op.results]
        depends_on_rank = bool(op.by_rank) or op.kind in ("partition-id", "replica-id", "empty")
        if len(ranks) >= TOGETHER and not depends_on_rank and _apart(operands):
            call = Call(op, ranks[0], types, self.rounding, self.seed)
            try:
                stacked = run_together(op, ranks, operands, call, types)
            except (ValueError, IndexError, TypeError):  # told below, of the rank that it is of
                stacked = None
            if stacked is not None:
                return [stacked]
        done: dict[tuple[int, ...], list[Array]] = {}
        results: list[PerRank] = [{} for _ in types]
        for rank in ranks:
            given = [x[rank] for x in operands]
            key = (rank,) if depends_on_rank else tuple(map(id, given))
            if key not in done:
                call = Call(op, rank, types, self.rounding, self.seed)
                try:
                    done[key] = function(call, given)
                except (ValueError, IndexError, TypeError) as error:
                    shapes = ", ".join(str(x.shape) for x in given)
                    raise Unsupported(
                        f"op {op.id} ({op.kind}) cannot run on operands of shapes {shapes}: {error}"
                    ) from error
            for result, value in zip(results, done[key], strict=True):
                result[rank] = value
        return results

    def _while(
        self, op: Op, ranks: tuple[int, ...], carried: list[PerRank], kept: Values
    ) -> Generator[Request, PerRank, list[PerRank]]:
        condition, body = (self.program.graphs[g] for g in op.regions)
        carried = [dict(value) for value in carried]
        active, steps = ranks, 0
        while active:
            steps += 1
            if steps > STEPS_LIMIT:
                raise Unsupported(f"op {op.id} (while) runs for more than {STEPS_LIMIT:,} steps on the values drawn")
            (verdict,) = yield from self._region(condition, active, carried, kept)
            active = tuple(rank for rank in active if bool(verdict[rank]))
            if active:
                found = yield from self._region(body, active, carried, kept)
                if steps in LOOKED_AT and self._is_still(op, carried, found):
                    raise Unsupported(f"op {op.id} (while) never ends on the values drawn")
                for value, new in zip(carried, found, strict=True):
                    value.update(new)
        return carried

    def _is_still(self, op: Op, carried: list[PerRank], found: list[PerRank]) -> bool:
        """Whether a step of a loop changed nothing, so that none will: nothing comes from elsewhere."""
        pairs = [(value[rank], x) for value, new in zip(carried, found, strict=True) for rank, x in new.items()]
        same = all(np.array_equal(was, x, equal_nan=x.dtype.kind in "fc") for was, x in pairs)
        return same and self._is_closed(op)

    def _is_closed(self, op: Op) -> bool:
        """Whether nothing that the sub-graphs of an op compute is random or of other ranks."""
        inner = [it for graph in op.regions for it in self.program.graphs[graph].ops]
        return all(it.kind not in COLLECTIVES | RANDOM and self._is_closed(it) for it in inner)

    def _conditional(
        self, op: Op, ranks: tuple[int, ...], operands: list[PerRank], kept: Values
    ) -> Generator[Request, PerRank, list[PerRank]]:
        index, rest = operands[0], operands[1:]
        counts = op.number("branch_operand_count", 0, [len(self.program.graphs[g].inputs) for g in op.regions])
        results: list[PerRank] = [{} for _ in op.results]

        def branch(rank: int) -> int:
            value = index[rank]
            if value.dtype.kind == "b":  # branch 0 is the true one
                return 0 if value else 1
            return int(value) if 0 <= int(value) < len(op.regions) else len(op.regions) - 1

        for i, region in enumerate(op.regions):
            members = tuple(rank for rank in ranks if branch(rank) == i)
            if members:
                first = sum(counts[:i])
                found = yield from self._region(
                    self.program.graphs[region], members, rest[first : first + counts[i]], kept
                )
                for result, value in zip(results, found, strict=True):
                    result.update(value)
        return results

    def _region(
        self, graph: Graph, ranks: tuple[int, ...], arguments: list[PerRank], kept: Values
    ) -> Generator[Request, PerRank, list[PerRank]]:
        env = {t: {rank: x[rank] for rank in ranks} for t, x in zip(graph.inputs, arguments, strict=True)}
        return (yield from self._graph(graph, ranks, env, kept))

    def _meet(self, waiting: Mapping[int, Request]) -> dict[int, PerRank | None]:
        """Answers for the requests whose groups are complete."""
        arrived = {rank: i for i, request in waiting.items() for rank in request.values}
        answers: dict[int, PerRank | None] = {}
        for i, request in waiting.items():
            if i in answers:
                continue
            op = request.op
            if op.kind == "collective-permute":
                members = {i: request}
                needed = {rank for pair in op.pairs for rank in pair}
            else:
                needed = {rank for group in self._groups(op, request) for rank in group}
                members = {i: request}
            pending = {arrived[rank] for rank in needed if rank in arrived}
            if not needed <= set(arrived):
                continue
            members.update({j: waiting[j] for j in pending})
            if any(
                r.op.kind != op.kind or r.op.groups != op.groups or r.op.pairs != op.pairs for r in members.values()
            ):
                continue
            if len(members) == 1:
                answers[i] = meet_together(op, request.values) or self._together(op, request.values)
                continue
            values = {rank: x for r in members.values() for rank, x in r.values.items()}
            results = self._together(op, values)
            for j, r in members.items():
                answers[j] = {rank: results[rank] for rank in r.values}
        return answers

    def _groups(self, op: Op, request: Request) -> list[list[int]]:
        return op.groups or [sorted(request.values if len(request.values) == 1 else self.program.ranks)]

    def _together(self, op: Op, values: PerRank) -> PerRank:
        if op.kind == "collective-permute":
            return collective_permute(op, values)
        results: PerRank = {}
        for group in op.groups or [sorted(values)]:
            shapes = {values[rank].shape for rank in group}
            if len(shapes) > 1:
                raise Unsupported(f"op {op.id} ({op.kind}) meets different shapes in group {group}: {shapes}")
            try:
                found = GROUPED[op.kind](op, [values[rank] for rank in group])
            except ValueError as error:
                raise Unsupported(f"op {op.id} ({op.kind}) cannot run in group {group}: {error}") from error
            results.update(zip(group, found, strict=True))
        missing = sorted(set(values) - set(results))
        if missing:
            raise Unsupported(f"op {op.id} ({op.kind}): ranks {missing} are in no group")
        return results
