"""FX graphs with functional collectives: results reach their `wait_tensor` before use, inputs stay until then.

Computations run on the host's chain, collectives on a stream: issued when the host gets there, awaited by `wait_tensor`
on any value that shares memory with what the collective writes. What operators write, and what their results share
memory with, is read from the table of torch's own schemas; views touch nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress, count
from operator import is_not
from pathlib import Path
from typing import Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.readers.fx.aliases import Argument, Effect, effect_of
from scalify_dl.readers.fx.annotation import UNTIMED, beside
from scalify_dl.readers.fx.reader import Module, Statement, parse
from scalify_dl.readers.fx.syntax import Call, Item, Ref

from .fx_ranks import AT_ONCE, EQUAL, MESSAGES, SPACES, Groups, Ranks, collectives, group_of, size_of
from .fx_rows import ALL, Rows, Splits, root, view
from .tables import Named, Schedule

AT_ISSUE = (
    "collectives and messages are awaited before their results are used, and find each other: the dump does not say"
)


Place = tuple[int, int, int]
"""A buffer, and rows of it."""
def sends(text: str) -> bool:
    """Whether a program has messages: what one rank sends another one receives, perhaps in another step."""
    return any(f"c10d_functional.{word}" in text for word in MESSAGES)


def alike(texts: Mapping[str, str]) -> bool:
    """Whether files of ranks may be one program as far as its steps go: nothing is sent from one rank to another, and
    what is said beside the files is the same. Where they are, ranks cannot hang: all do the same steps, each waits for
    earlier ones, and meets the same step of the others."""
    notes = {_note(beside(Path(file))) for file in texts}
    return len(notes) == 1 and not any(map(sends, texts.values()))


def _note(path: Path) -> str:
    said = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return json.dumps({key: said[key] for key in ("groups", "outside") if key in said}, sort_keys=True)


def read_fx(
    paths: Sequence[Path], texts: Sequence[str], streams: str = "pair", groups: Groups | None = None
) -> Schedule:
    """One program for all ranks, or one a rank. Of several, those collectives meet whose groups are known: from
    `groups`, or from the annotation beside a file."""
    made = Ranks(streams == "rank", len(paths) > 1, groups or {})
    modules: dict[Path, Module] = {}
    for rank, (path, text) in enumerate(zip(paths, texts, strict=True)):
        if path not in modules:
            modules[path], _ = parse(text, str(path))
        made.call(rank, path, map(group_of, collectives(modules[path])))
    for rank, path in enumerate(paths):
        if modules[path].modules:
            raise InputError(
                f"the graph calls another one, {next(iter(modules[path].modules))}", file=path,
                expected="one graph: what collectives do in called ones is not followed",
            )  # fmt: skip
        _Program(made, rank, path, modules[path])
    made.assume()
    return made.schedule


def read_alike(paths: Sequence[Path], texts: Sequence[str]) -> Schedule | None:
    """The steps that the programs of all ranks have, whatever the numbers in them; None where these differ. Of files
    that are `alike`."""
    found = [parse(text, str(path))[0] for path, text in zip(paths, texts, strict=True)]
    first, *others = list({id(module): module for module in found}.values())
    if any(module.modules for module in found) or not all(_same_frame(first, other) for other in others):
        return None
    made = Ranks(False, False, {})
    try:
        _Program(made, 0, paths[0], first, others)
    except _Unlike:
        return None
    made.assume()
    return made.schedule


class _Unlike(Exception):
    """Ranks do different steps."""


def _same_frame(one: Module, other: Module) -> bool:
    """Whether programs take and return values of the same names, and have as many statements."""
    return (
        [parameter.name for parameter in one.parameters] == [parameter.name for parameter in other.parameters]
        and len(one.statements) == len(other.statements)
        and (one.returned is other.returned or one.returned == other.returned)
    )


_NOWHERE: frozenset[Place] = frozenset()


class _Flight(NamedTuple):
    """A collective that nobody has waited for yet: the memory that it touches, what of it it writes, and the memory of
    each tensor that it writes, one of several buffers where these are several."""

    touched: frozenset[int]
    written: frozenset[int]
    tensors: frozenset[frozenset[int]]
    name: str


class _Program:
    """One file; memory is followed as sets of buffers that a value may be in."""

    def __init__(
        self, ranks: Ranks, rank: int, path: Path, module: Module, others: Sequence[Module] = ()
    ) -> None:
        """`others` are programs of which each step must be the same: else `_Unlike`."""
        self.ranks, self.rank, self.path = ranks, rank, path
        self.schedule = schedule = ranks.schedule
        self.host = schedule.chain(rank, "compute")
        self.at_once = UNTIMED in ranks.annotations(path).outside
        if self.at_once and AT_ISSUE not in schedule.assumptions:
            schedule.assumptions.append(AT_ISSUE)
        self.streams: dict[tuple[str, int], int] = {}
        self.last: int | None = None
        self.given: set[int] = set()
        self.held: dict[str, frozenset[int]] = {}
        self.parts: defaultdict[str, dict[Any, frozenset[int]]] = defaultdict(dict)
        """Of tuples, by index."""
        self.indices: defaultdict[str, set[Any]] = defaultdict(set)
        self.rows: dict[str, Rows | Splits] = {}
        """Of values that lie in one buffer, where more is known than that."""
        self.pending: dict[int, _Flight] = {}
        """Collectives not waited for yet."""
        for parameter in module.parameters:
            self.held[parameter.name] = self.fresh(given=True)
            self.rows[parameter.name] = root(parameter.type)
        for statement in module.statements:
            for item in _items(statement.value):
                if isinstance(item.value, Ref):
                    self.indices[item.value.name].add(item.index)
        differing: defaultdict[int, list[Statement]] = defaultdict(list)
        for other in others:
            for at in compress(count(), map(is_not, module.statements, other.statements)):
                differing[at].append(other.statements[at])
        for at, statement in enumerate(module.statements):
            if at in differing:
                told = self.told(statement)
                if any(self.told(another) != told for another in differing[at]):
                    raise _Unlike
            self.statement(statement, alike=at not in differing)
        end = self.event(self.host, Named("return", "return", None, str(path), module.returned_line))
        self.touch("reads", end, self.places(module.returned))
        schedule.add("last", rank, end)

    def fresh(self, given: bool = False) -> frozenset[int]:
        """Memory that nothing else is in."""
        buffer = self.schedule.buffer()
        if given:
            self.schedule.add("initial", buffer, *ALL.region)
            self.given.add(buffer)
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

    def places(self, value: Any) -> frozenset[Place]:
        """All rows of buffers that a value may be in."""
        if isinstance(value, int | float | str) or value is None:
            return _NOWHERE
        if isinstance(value, Ref) or (isinstance(value, Item) and isinstance(value.value, Ref)):
            buffers, found = self.memory(value), self.rows_of(value)
            return frozenset((b, *(found.region if len(buffers) == 1 else ALL.region)) for b in buffers)
        return frozenset().union(*(self.places(part) for part in _inside(value)))

    def rows_of(self, value: Any) -> Rows:
        """The rows of a value that lies in one buffer."""
        found: Rows | Splits = ALL
        if isinstance(value, Ref):
            found = self.rows.get(value.name, ALL)
        elif isinstance(value, Item) and isinstance(value.value, Ref) and isinstance(value.index, int):
            several = self.rows.get(value.value.name, ALL)
            if not isinstance(several, Rows) and 0 <= value.index < len(several):
                found = several[value.index]
        return found if isinstance(found, Rows) else ALL

    def event(self, chain: int, named: Named) -> int:
        """An event on the host, or one that starts when the host has come so far."""
        e = self.schedule.event(chain, named)
        if chain == self.host:
            self.last = e
        elif self.last is not None:
            self.schedule.waits(e, self.last)
        return e

    def touch(self, table: str, e: int, places: Iterable[Place]) -> None:
        """One row for each place."""
        for b, lo, hi in sorted(places):
            if lo < hi:
                self.schedule.add(table, e, b, lo, hi)

    def statement(self, statement: Statement, alike: bool = True) -> None:
        """A call is an event; all else only names values. Where it is not `alike` on all ranks, its numbers are those
        of one."""
        value = statement.value
        if not isinstance(value, Call):
            for name in statement.names:
                self.held[name] = self.memory(value) or self.fresh(given=True)
                self.rows[name] = self.rows_of(value) if alike else ALL
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
            if self.pending:
                self.ranks.unknown[function] = None
            effect = Effect()
        changed = [self.operand(value, a) for a in effect.written]
        written = frozenset().union(*map(self.memory, changed))
        if effect.metadata:
            self.rows = {name: rows for name, rows in self.rows.items() if not self.held[name] & written}
            changed, written = [], frozenset()
        shared = [self.memory(self.operand(value, s.argument) if s.argument else list(value.args)) if s else None
                  for s in effect.results]  # fmt: skip
        is_view = bool(shared) and not written and all(s is not None and s.sure for s in effect.results)
        results = self.results(statement, shared, [s is None or not s.sure for s in effect.results])
        self.found(statement, function, value, is_view, results, alike)
        if is_view and not results:
            return
        places = frozenset().union(*map(self.places, (*value.args, *value.kwargs.values())))
        reads = frozenset(b for b, _, _ in places)
        apart = space in SPACES and packet not in AT_ONCE
        if not apart:
            issued = [self.event(self.host, named)]
        elif packet in MESSAGES:
            issued = self.messages(value, packet, named, statement.type)
        else:
            issued = [self.collective(value, packet, named, statement.type)]
        for e in issued:
            self.touch("reads", e, places)
            made = frozenset((b, *ALL.region) for b in results)
            self.touch("writes", e, frozenset().union(made, *map(self.places, changed)))
        self.distinct(reads | written, written)
        for e in issued if apart and not self.at_once else ():
            self.pending[e] = _Flight(
                reads | written | results, written | results,
                frozenset([*map(self.memory, _each(changed)), *(frozenset([b]) for b in results)]), named.name,
            )  # fmt: skip

    def told(self, statement: Statement) -> tuple[Any, ...]:
        """All that `statement` takes from one: what it names, what it calls, the memory of what it is given, and of
        collectives every argument."""
        value, items = statement.value, [(item.value, item.index) for item in _items(statement.value)]
        if not isinstance(value, Call):
            return statement.names, items, self.places(value)
        parts = [*enumerate(value.args), *value.kwargs.items()]
        told = [(key, self.places(part)) for key, part in parts]
        space = value.function.removeprefix("torch.ops.").partition(".")[0]
        exact = (value.args, value.kwargs, statement.type) if space in SPACES else None
        return statement.names, items, value.function, told, exact

    def distinct(self, touched: frozenset[int], written: frozenset[int]) -> None:
        """Notes where it matters that two inputs are not in the same memory."""
        for flight in self.pending.values() if touched & self.given else ():
            others = flight.touched & self.given
            inputs = (touched & self.given) | others
            if len(inputs) > 1 and ((written & self.given and others) or flight.written & self.given):
                self.ranks.inputs_apart = True

    def collective(self, call: Call, packet: str, named: Named, type_: str | None) -> int:
        """A call on the stream of its communicator."""
        group = group_of(call)
        members = self.ranks.members(self.rank, self.path, group)
        comm = self.ranks.comm(members, group)
        e = self.flying(("collectives", 0 if self.ranks.one_queue else comm), named)
        self.schedule.add("collective", e, comm, self.ranks.next((comm, self.rank)), members.index(self.rank))
        if self.ranks.several:
            said = [a for a in call.args[1:] if isinstance(a, str | int) and a != group]
            self.schedule.carries(e, "kind", packet.rstrip("_"))
            self.schedule.carries(e, "arguments", ", ".join(map(str, said)))
            if (size := size_of(type_)) is not None and packet in EQUAL:
                self.schedule.carries(e, "size", size)
        return e

    def messages(self, call: Call, packet: str, named: Named, type_: str | None) -> list[int]:
        """Messages: one, or those of a batch. They meet where it is known who is in the group, and when they end."""
        size = size_of(type_) if packet != "batch_p2p_ops" else None
        ways, peers, tags, group = [packet], *[[a] if isinstance(a, int) else a for a in call.args[1:3]], call.args[-1]
        if packet == "batch_p2p_ops":
            ways, peers, tags = call.args[:3]
        members = () if self.at_once else self.ranks.members(self.rank, self.path, group)
        events = []
        for way, peer, tag in zip(ways, peers, tags, strict=False):
            known = isinstance(peer, int) and 0 <= peer < len(members) and len(members) > 1
            there = members[peer] if known else -1
            e = self.flying(("messages", 0 if self.ranks.one_queue else there), named)
            events.append(e)
            if not known:
                continue
            sends = way == "isend"
            ends = (self.rank, there) if sends else (there, self.rank)
            channel = self.ranks.channel((str(group), tag, *ends))
            self.schedule.add("send" if sends else "recv", e, channel, self.ranks.next((channel, sends, "message")))
            if size is not None:
                self.schedule.carries(e, "size", size)
        return events

    def flying(self, queue: tuple[str, int], named: Named) -> int:
        """An event on a queue; on the host where the dump does not say when it is waited for."""
        if self.at_once:
            return self.event(self.host, named)
        if queue not in self.streams:
            self.streams[queue] = self.schedule.chain(self.rank, f"{queue[0]} {queue[1]}")
        e = self.event(self.streams[queue], named)
        self.schedule.add("issue", e, self.ranks.next(("issue", self.rank)))
        return e

    def wait(self, statement: Statement, call: Call, named: Named) -> None:
        """The host goes on when all collectives that write this memory have ended."""
        memory = self.memory(list(call.args))
        e = self.event(self.host, named)
        ended = [c for c, flight in self.pending.items() if flight.written & memory]
        self.schedule.waits(e, *ended)
        for flight in (self.pending[c] for c in ended):
            if memory not in flight.tensors:
                self.ranks.unclear[f"{named.name} waits for {flight.name}"] = None
        for c in ended:
            del self.pending[c]
        for name in statement.names:
            self.held[name] = memory
            self.rows[name] = self.rows_of(call.args[0]) if len(call.args) == 1 else ALL

    def found(
        self, statement: Statement, function: str, call: Call, is_view: bool, new: frozenset[int], alike: bool
    ) -> None:
        """The rows of what a call makes."""
        for name in statement.names:
            self.rows.pop(name, None)
        if len(statement.names) != 1 or not alike:
            return
        (name,) = statement.names
        if is_view and call.args:
            self.rows[name] = view(function, call, self.rows_of(call.args[0]))
        elif new and self.held[name] == new and not self.parts[name]:
            self.rows[name] = root(statement.type)

    def results(self, statement: Statement, shared: list[frozenset[int] | None], made: list[bool]) -> frozenset[int]:
        """Binds names; what is new memory."""
        new: set[int] = set()

        def one(n: int) -> frozenset[int]:
            n = 0 if len(shared) == 1 else n  # a list of views, as of `split`
            if -len(shared) <= n < len(shared) and (old := shared[n]) is not None:
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
            if any(isinstance(index, int) and index < 0 for index in self.parts[name]):  # which are one is not told
                self.parts[name].clear()
        return frozenset(new)

    def operand(self, call: Call, argument: Argument | None) -> Any:
        """The argument of a call that a parameter of the schema is."""
        if argument is None:
            return None
        if argument.name in call.kwargs:
            return call.kwargs[argument.name]
        at = argument.position
        return call.args[at] if at is not None and at < len(call.args) else None


def _each(values: Iterable[Any]) -> Iterator[Any]:
    """Tensors, those of lists one by one."""
    for value in values:
        yield from value if isinstance(value, list | tuple) and not isinstance(value, Ref) else (value,)


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
