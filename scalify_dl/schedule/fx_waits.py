"""FX graphs with functional collectives: results reach their `wait_tensor` before use, inputs stay until then.

Computations run on the host's chain, collectives on a stream: issued when the host gets there, awaited by `wait_tensor`
on any value that shares memory with what the collective writes. What operators write, and what their results share
memory with, is read from the table of torch's own schemas; views touch nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.readers.fx.aliases import Argument, Effect, effect_of
from scalify_dl.readers.fx.reader import Module, Statement, parse
from scalify_dl.readers.fx.syntax import Call, Item, Ref

from .tables import Named, Schedule

SPACES = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd")
"""Namespaces of operators that are issued and not waited for."""
AT_ONCE = ("wait_tensor", "_wrap_tensor_autograd")


def read_fx(paths: Sequence[Path], texts: Sequence[str]) -> Schedule:
    """One program a rank; each is looked at by itself."""
    schedule = Schedule()
    unknown: set[str] = set()
    for rank, (path, text) in enumerate(zip(paths, texts, strict=True)):
        module, _ = parse(text, str(path))
        if module.modules:
            raise InputError(
                f"the graph calls another one, {next(iter(module.modules))}", file=path,
                expected="one graph: what collectives do in called ones is not followed",
            )  # fmt: skip
        unknown |= _Program(schedule, rank, path, module).unknown
    schedule.assumptions.append("all members of a group call its collectives alike, and inputs share no memory")
    if unknown:
        names = ", ".join(sorted(unknown)[:8]) + (" …" if len(unknown) > 8 else "")
        schedule.assumptions.append(f"operators of which no schema is known write nothing: {names}")
    return schedule


class _Program:
    """One file; memory is followed as sets of buffers that a value may be in."""

    def __init__(self, schedule: Schedule, rank: int, path: Path, module: Module) -> None:
        self.schedule, self.rank, self.path = schedule, rank, path
        self.host = schedule.chain(rank, "compute")
        self.stream = schedule.chain(rank, "collectives")
        schedule.add("member", rank, 0, rank)
        self.calls = 0
        self.last: int | None = None
        self.held: dict[str, frozenset[int]] = {}
        self.parts: defaultdict[str, dict[Any, frozenset[int]]] = defaultdict(dict)
        """Of tuples, by index."""
        self.indices: defaultdict[str, set[Any]] = defaultdict(set)
        self.pending: dict[int, set[int]] = {}
        """Collectives not waited for yet, with what they write."""
        self.unknown: set[str] = set()
        for parameter in module.parameters:
            self.held[parameter.name] = self.fresh(given=True)
        for statement in module.statements:
            for item in _items(statement.value):
                if isinstance(item.value, Ref):
                    self.indices[item.value.name].add(item.index)
        for statement in module.statements:
            self.statement(statement)
        end = self.event(self.host, Named("return", "return", None, str(path), module.returned_line))
        self.touch("reads", end, self.memory(module.returned))
        schedule.add("last", rank, end)

    def fresh(self, given: bool = False) -> frozenset[int]:
        """Memory that nothing else is in."""
        buffer = self.schedule.buffer()
        if given:
            self.schedule.add("initial", buffer, 0, 1)
        return frozenset([buffer])

    def memory(self, value: Any) -> frozenset[int]:
        """All buffers that a value may be in."""
        if isinstance(value, Ref):
            return self.held.get(value.name, frozenset())
        if (
            isinstance(value, Item)
            and isinstance(value.value, Ref)
            and _is_part(value)
            and value.index in self.parts[value.value.name]
        ):
            return self.parts[value.value.name][value.index]
        return frozenset().union(*(self.memory(part) for part in _inside(value)))

    def event(self, chain: int, named: Named) -> int:
        """An event on the host, or one that starts when the host has come so far."""
        e = self.schedule.event(chain, named)
        if chain == self.host:
            self.last = e
        elif self.last is not None:
            self.schedule.waits(e, self.last)
        return e

    def touch(self, table: str, e: int, buffers: Iterable[int]) -> None:
        """One row for each buffer."""
        for b in sorted(buffers):
            self.schedule.add(table, e, b, 0, 1)

    def statement(self, statement: Statement) -> None:
        """A call is an event; all else only names values."""
        value = statement.value
        if not isinstance(value, Call):
            for name in statement.names:
                self.held[name] = self.memory(value) or self.fresh(given=True)
            return
        function = value.function.removeprefix("torch.ops.")
        space, _, rest = function.partition(".")
        packet = rest.partition(".")[0]
        frame = statement.frames[0] if statement.frames else None
        place = (frame.file, frame.line) if frame else (str(self.path), statement.line)
        named = Named(statement.names[0] if statement.names and statement.names[0] else packet, function, None, *place)
        if space in SPACES and packet == "wait_tensor":
            self.wait(statement, value, named)
            return
        effect = effect_of(function, tuple(value.kwargs)) if "." in function else Effect()
        if effect is None:
            self.unknown.add(function)
            effect = Effect()
        written = frozenset().union(*(self.memory(self.given(value, a)) for a in effect.written))
        if effect.metadata:
            written = frozenset()
        shared = [self.memory(self.given(value, s.argument) if s.argument else list(value.args)) if s else None
                  for s in effect.results]  # fmt: skip
        view = bool(shared) and not written and all(s is not None and s.sure for s in effect.results)
        results = self.results(statement, shared, [s is None or not s.sure for s in effect.results])
        if view and not results:
            return
        apart = space in SPACES and packet not in AT_ONCE
        e = self.event(self.stream if apart else self.host, named)
        reads = frozenset().union(*(self.memory(part) for part in (*value.args, *value.kwargs.values())))
        self.touch("reads", e, reads)
        self.touch("writes", e, written | results)
        if apart:
            self.schedule.add("collective", e, self.rank, self.calls, 0)
            self.calls += 1
            self.pending[e] = set(written | results)

    def wait(self, statement: Statement, call: Call, named: Named) -> None:
        """The host goes on when all collectives that write this memory have ended."""
        memory = self.memory(list(call.args))
        e = self.event(self.host, named)
        ended = [c for c, buffers in self.pending.items() if buffers & memory]
        self.schedule.waits(e, *ended)
        for c in ended:
            del self.pending[c]
        for name in statement.names:
            self.held[name] = memory

    def results(self, statement: Statement, shared: list[frozenset[int] | None], made: list[bool]) -> frozenset[int]:
        """Binds names; what is new memory."""
        new: set[int] = set()

        def one(n: int) -> frozenset[int]:
            n = 0 if len(shared) == 1 else n  # a list of views, as of `split`
            if n < len(shared) and (old := shared[n]) is not None:
                if not made[n]:
                    return old
                extra = self.fresh()
                new.update(extra)
                return old | extra
            own = self.fresh()
            new.update(own)
            return own

        if len(statement.names) > 1:
            for n, name in enumerate(statement.names):
                self.held[name] = one(n)
        for name in statement.names[:1] if len(statement.names) == 1 else ():
            for index in self.indices[name]:
                self.parts[name][index] = one(index if isinstance(index, int) else 0)
            parts = self.parts[name].values()
            self.held[name] = frozenset().union(*parts) if parts else one(0)
        return frozenset(new)

    def given(self, call: Call, argument: Argument | None) -> Any:
        """The argument of a call that a parameter of the schema is."""
        if argument is None:
            return None
        if argument.name in call.kwargs:
            return call.kwargs[argument.name]
        at = argument.position
        return call.args[at] if at is not None and at < len(call.args) else None


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Call):
        yield from (*value.args, *value.kwargs.values())
    elif isinstance(value, Item):
        yield value.value
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple) and not isinstance(value, Ref):
        yield from value


def _items(value: Any) -> Iterator[Item]:
    if isinstance(value, Item) and _is_part(value):
        yield value
    for part in _inside(value):
        yield from _items(part)


def _is_part(item: Item) -> bool:
    return isinstance(item.index, int | str)
