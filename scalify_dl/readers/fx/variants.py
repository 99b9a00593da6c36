"""Ranks whose programs differ in numbers of a few statements: these are lowered for each rank beside the first one's.

    lt = aten.lt.Scalar(ids, 0)         rank 0: emits constant 0, broadcast, compare
    lt = aten.lt.Scalar(ids, 16)        rank 1: the same ops, constant 16         → a number that depends on the rank
    s = aten.mul.Tensor(lt, x)          the same statement: what it takes is the same value, so it emits the same ops

Where a statement differs, each rank's own is tried in the state that the first rank's program has come to, and all that
it did is taken back; it must emit the same ops but for numbers, and give the same kind of value. From then on a rank's
program is in the first one's state but for what these numbers show in: entries of the tables of the context, numbers of
ops, steps of views, values that only one of them has read. Whatever later looks at one of those makes the rank `lost`:
its file is lowered by itself. So of a rank that is not lost every statement emits what the first one's emits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Tensor

from ..merge import Difference, same_op
from .aliases import effect_of
from .compute import lowering_of, packet_of
from .liveness import live_names, names_in, sources
from .lowering import KERNELS
from .memory import Node, Once, Step, Trial, Variable
from .reader import Module, Statement
from .syntax import Call, Infix, Item, Ref, Symbol
from .view import View
from .watched import Layer, Numbers, SetTable, Watched, WatchedStep, laid

if TYPE_CHECKING:
    from .program import Program

__all__ = ["Variants"]

TABLES = (
    "dense", "iotas", "moved", "permutations", "places", "producers", "scalars", "scaled", "slices", "untyped", "views",
)  # fmt: skip
"""What a context remembers of tensors."""
SPACES = frozenset({"aten", "prims"})
MOVING = frozenset({"reshape", "slice", "transpose"})
"""Ops of one operand, of which one rank may take another's result than the first one does."""


class _Known(dict[Tensor, Tensor]):
    """Tensors of a rank's program by those of the first one's; all that is older is the same."""

    def get(self, key: Tensor, default: Any = None) -> Any:
        return dict.get(self, key, key)


class Refused(Exception):
    """A statement that is not tried beside another one."""


@dataclass
class _Done:
    """What a statement did: ops, values that it gives, entries that it made, and what it read first."""

    ops: list[Op]
    values: list[Any]
    entries: dict[str, Layer]
    read: dict[Node | Once, Any]
    """Nodes and values made once, by what they hold now."""


@dataclass
class _Agreed:
    """What two ranks do alike: values of theirs by ours, numbers that differ, views whose steps do. `read` is what they
    have read, which is taken back."""

    read: Mapping[Node | Once, Any]
    known: _Known = field(default_factory=_Known)
    differences: list[Difference] = field(default_factory=list)
    steps: list[Node] = field(default_factory=list)
    nodes: dict[Node | Once, Node | Once] = field(default_factory=dict)
    """Theirs by what stands for them."""
    swaps: list[_Swap] = field(default_factory=list)

    def held(self, node: Node) -> Any:
        """What a node of theirs holds."""
        return self.read.get(node, node.value)


class _Swap(NamedTuple):
    """Of what is there already, one rank takes another part than the first one does (`split(x)[1]` for `split(x)[0]`):
    op that made it, and what was done since. Nothing else may use either."""

    ours: Op
    theirs: Op
    between: list[Op]


@dataclass
class Variants:
    """The programs of other ranks beside the first one's."""

    by_rank: Mapping[int, Mapping[int, Statement]]
    """By rank, statements that differ, by position."""
    lost: set[int] = field(default_factory=set)
    differences: dict[int, list[Difference]] = field(default_factory=dict)
    plain: list[tuple[Op, dict[str, list[int]]]] = field(default_factory=list)
    swaps: dict[int, list[_Swap]] = field(default_factory=dict)
    at: dict[int, list[int]] = field(default_factory=dict)
    """By position, ranks whose statement differs there."""

    def __post_init__(self) -> None:
        for rank, statements in self.by_rank.items():
            self.differences[rank], self.swaps[rank] = [], []
            for at in statements:
                self.at.setdefault(at, []).append(rank)

    def check(self, module: Module) -> None:
        """What reads names must be alive in all of them, or in none: it depends on that what some calls do."""
        plain = {name: s.value for s in module.statements if not isinstance(s.value, Call) for name in s.names}
        live: set[str] | None = None
        for rank, statements in self.by_rank.items():
            own = {name: s.value for s in statements.values() if not isinstance(s.value, Call) for name in s.names}
            others = {**plain, **own} if own else plain
            pairs = [(module.statements[at].value, s.value) for at, s in statements.items()]
            if all(sources(one, plain) == sources(other, others) for one, other in pairs):
                continue
            calls = {name for s in module.statements if isinstance(s.value, Call) for name in s.names}
            live = live_names(module) & calls if live is None else live
            mine = [statements.get(at, s) for at, s in enumerate(module.statements)]
            if live_names(Module(module.name, module.line, statements=mine, returned=module.returned)) & calls != live:
                self.lost.add(rank)

    def types_of_items(self, name: str) -> None:
        """Somebody asks which items of a value are taken, and of which types."""
        for rank, statements in self.by_rank.items():
            if any(isinstance(s.value, Item) and name in names_in(s.value) for s in statements.values()):
                self.lost.add(rank)

    def statement(self, program: Program, at: int, statement: Statement) -> None:
        """Lowers a statement of the first program, and finds out what those of others make of theirs."""
        ranks = [rank for rank in self.at[at] if rank not in self.lost]
        tried: dict[int, _Done] = {}
        for rank in ranks:
            try:
                tried[rank] = self.tried(program, statement, self.by_rank[rank][at])
            except (Refused, Trial, InputError, RecursionError):
                self.lost.add(rank)
        mine = self.done(program, lambda: self.run(program, statement), keep=True)
        agreed = {
            rank: self.agreed(program, mine, theirs) for rank, theirs in tried.items() if rank not in self.lost
        }
        for rank, found in agreed.items():
            if found is None:
                self.lost.add(rank)
            else:
                self.watch(program, rank, mine, tried[rank], found)

    def run(self, program: Program, statement: Statement) -> list[Any]:
        program.statement(statement)
        return [program.env.get(name) for name in statement.names]

    def tried(self, program: Program, statement: Statement, other: Statement) -> _Done:
        """What another rank's statement would do here."""
        if other.names != statement.names or other.type != statement.type or other.line != statement.line:
            raise Refused
        _tryable(program, statement, other)
        return self.done(program, lambda: self.values(program, other), keep=False)

    def values(self, program: Program, statement: Statement) -> list[Any]:
        type_ = program.type_of(statement.type)
        value = program.value_of(statement, type_)
        found = [value]
        if len(statement.names) > 1:
            found = [item() if callable(item) else item for item in program.sequence(value, len(statement.names))]
        for each in found:
            if isinstance(each, Variable):
                program.memory.read(each)
        return found

    def done(self, program: Program, run: Callable[[], list[Any]], *, keep: bool) -> _Done:
        """Runs something, with all that it does noted; taken back unless it is to be kept."""
        c, memory = program.c, program.memory
        mark, assumed, inputs = len(c.graph.ops), len(c.graph.assumptions), len(c.graph.inputs)
        below = {name: getattr(c, name) for name in TABLES}
        layers = {name: Layer(table if isinstance(table, dict) else SetTable(table)) for name, table in below.items()}
        for name, layer in layers.items():
            setattr(c, name, layer)
        memory.journal, memory.trial = [], not keep
        values, failed = list[Any](), True
        try:
            values = run()
            failed = len(c.graph.assumptions) != assumed or len(c.graph.inputs) != inputs
        finally:
            journal, memory.journal, memory.trial = memory.journal, None, False
            for name, table in below.items():
                setattr(c, name, table)
            if keep:
                for name, layer in layers.items():
                    laid(below[name], layer)
            ops = c.graph.ops[mark:]
            read = {each: each.value for each, _ in journal}
            if not keep:
                del c.graph.ops[mark:], c.graph.assumptions[assumed:]
                for each, before in reversed(journal):
                    each.restore(before)
        if failed and not keep:
            raise Refused
        return _Done(ops, values, layers, read)

    def agreed(self, program: Program, mine: _Done, theirs: _Done) -> _Agreed | None:
        """How what two ranks do is the same but for numbers; None where it is not."""
        found, before = _Agreed(theirs.read), program.c.graph.ops[: len(program.c.graph.ops) - len(mine.ops)]
        if len(mine.ops) != len(theirs.ops):
            return None
        for ours, other in zip(mine.ops, theirs.ops, strict=True):
            if ours.regions or other.regions or ours.groups != other.groups or ours.group_name != other.group_name:
                return None
            for a, b in zip(ours.operands, other.operands, strict=False):
                _stands(program, a, b, found, before)
            if not same_op(ours, other, found.known, found.differences):
                return None
            found.known.update(zip(other.results, ours.results, strict=True))
        pairs = list(zip(mine.values, theirs.values, strict=True))
        for a, b in pairs:
            if isinstance(a, Variable) and isinstance(b, Variable):
                _stands(program, a.node.value, found.held(b.node), found, before)
        return found if all(_same(a, b, found) for a, b in pairs) else None

    def watch(self, program: Program, rank: int, mine: _Done, theirs: _Done, found: _Agreed) -> None:
        """From now on it is noted who looks at what shows how the ranks differ."""
        self.differences[rank] += found.differences
        for op in {id(d.op): d.op for d in found.differences if d.key in d.op.numbers}.values():
            if not isinstance(op.numbers, Numbers):
                self.plain.append((op, op.numbers))
                op.numbers = Numbers(op.numbers, self.lost)
            op.numbers.ranks.add(rank)
        self.watch_entries(program, rank, mine, theirs, found.known, found.swaps)
        for node in found.steps:
            if not isinstance(node.step, WatchedStep):
                assert node.step is not None
                node.step = WatchedStep(node.step, self.lost)
            node.step.ranks.add(rank)
        memory = program.memory
        memory.lost = self.lost
        self.swaps[rank] += found.swaps
        if found.swaps:
            held = {id(x) for swap in found.swaps for x in (swap.ours.result, swap.theirs.result)}
            own = {v.node for v in mine.values if isinstance(v, Variable)}
            for node in _holding(program.env.values(), held):
                if node not in own:
                    memory.watched.setdefault(node, set()).add(rank)
        read = {found.nodes.get(each, each): value for each, value in theirs.read.items()}
        for each in {*mine.read, *read}:
            both = each in mine.read and each in read
            if not (both and _same(mine.read[each], read[each], found)):
                memory.watched.setdefault(each, set()).add(rank)

    def watch_entries(
        self, program: Program, rank: int, mine: _Done, theirs: _Done, known: _Known, swaps: list[_Swap]
    ) -> None:
        """Entries of tables that are others on this rank."""
        for name in TABLES:
            own = dict(mine.entries[name])
            other = {known.get(key): value for key, value in theirs.entries[name].items()}
            for swap in swaps:
                a, b = swap.ours.result, swap.theirs.result
                own |= _entry(getattr(program.c, name), a, a)
                other |= _entry(getattr(program.c, name), b, a)
            odd = [key for key in {**own, **other}
                   if not (key in own and key in other and _same_entry(own[key], other[key], known))]  # fmt: skip
            if odd:
                table = getattr(program.c, name)
                if not isinstance(table, Watched):
                    table = Watched(table, self.lost)
                    setattr(program.c, name, table)
                for key in odd:
                    table.watch(key, rank)

    def restore(self) -> None:
        """Nothing looks at numbers any more to make ops of it."""
        for op, numbers in self.plain:
            op.numbers = numbers

    def finish(self, graph: Graph) -> dict[int, list[Difference]]:
        """By rank that is not lost, the numbers that differ in what the graph still has."""
        there = {id(op) for op in graph.ops}
        for rank, swaps in self.swaps.items():
            ours = [id(swap.ours) for swap in swaps]
            others = {id(op) for swap in swaps for op in (swap.theirs, *swap.between)}
            if len({*ours}) < len(ours) or others & there:
                self.lost.add(rank)
        return {rank: [each for each in some if id(each.op) in there]
                for rank, some in self.differences.items() if rank not in self.lost}  # fmt: skip


def _tryable(program: Program, statement: Statement, other: Statement) -> None:
    """Refused for what may write memory, or do more than give values of what is there."""
    one, two = statement.value, other.value
    if isinstance(one, Item) and isinstance(two, Item):
        plain = isinstance(one.value, Ref) and type(one.index) is type(two.index) is int
        if one.value != two.value or not plain:
            raise Refused
        return
    if not (isinstance(one, Call) and isinstance(two, Call)):
        raise Refused
    if (one.function, one.kwargs.keys()) != (two.function, two.kwargs.keys()):
        raise Refused
    if not all(_plain(program, [*value.args, *value.kwargs.values()]) for value in (one, two)):
        raise Refused
    name = one.function.removeprefix("torch.ops.")
    effects = [effect_of(name, value.kwargs) for value in (one, two)]
    if name.partition(".")[0] not in SPACES or lowering_of(name) is None or packet_of(name) in KERNELS:
        raise Refused
    if any(effect is not None and (effect.written or effect.metadata) for effect in effects):
        raise Refused


def _plain(program: Program, value: Any) -> bool:
    """Whether an argument is made of numbers, and of names of tensors."""
    if isinstance(value, Ref):
        return isinstance(program.env.get(value.name), Variable)
    if isinstance(value, Symbol):
        return not value.path.startswith("self.")
    if isinstance(value, Call):
        return value.function in ("device", "torch.device")
    if isinstance(value, Item | Infix | slice):
        return False
    if isinstance(value, dict):
        return all(_plain(program, each) for each in value.values())
    return not isinstance(value, list | tuple) or all(_plain(program, each) for each in value)


def _stands(program: Program, a: Any, b: Any, found: _Agreed, before: list[Op]) -> None:
    """Whether an older value of another rank is one that nothing used, made by the same ops as ours but for numbers:
    then it stands in its place."""
    if a is b or not (isinstance(a, Tensor) and isinstance(b, Tensor)) or found.known.get(b) is not b:
        return
    pairs = _pairs(program, a, b, found)
    ours, theirs = {id(op) for op, _ in pairs}, {id(op) for _, op in pairs}
    if not pairs or len(ours | theirs) < 2 * len(pairs) or any(id(s.ours) in ours for s in found.swaps):
        return
    made = {id(op.results[0]) for pair in pairs for op in pair}
    between, left = list[Op](), 2 * len(pairs)
    for op in reversed(before):
        if id(op) in ours or id(op) in theirs:
            left -= 1
        elif any(id(x) in made for x in op.operands):
            return  # it is used
        else:
            between.append(op)
        if not left:
            break
    known, numbers = _Known(found.known), list[Difference]()
    for mine, other in reversed(pairs):
        if len(mine.results) != 1 or mine.groups is not None or not same_op(mine, other, known, numbers):
            return
        known[other.results[0]] = mine.results[0]
    if not left:
        found.known.update(known)
        found.differences += numbers
        found.swaps += [_Swap(mine, other, between) for mine, other in pairs]


def _pairs(program: Program, a: Tensor, b: Tensor, found: _Agreed) -> list[tuple[Op, Op]]:
    """Ops that made two values, last first, as far as they are others; none where they are made of several."""
    producers = program.c.producers
    pairs: list[tuple[Op, Op]] = []
    while found.known.get(b) is not a:
        ours, theirs = dict.get(producers, a), dict.get(producers, b)
        if ours is None or theirs is None or ours.kind not in MOVING or theirs.kind != ours.kind:
            return []
        pairs.append((ours, theirs))
        a, b = ours.operands[0], theirs.operands[0]
    return pairs


def _holding(values: Iterable[Any], held: set[int]) -> Iterator[Node]:
    """Nodes of variables that hold one of some tensors."""
    for value in values:
        if isinstance(value, Variable):
            if id(value.node.value) in held:
                yield value.node
        elif isinstance(value, list | tuple):
            yield from _holding(value, held)
        elif isinstance(value, Once):
            yield from _holding([value.value], held)


def _entry(table: Any, key: Tensor, named: Tensor) -> dict[Tensor, Any]:
    """What a table has of a tensor, under the name of another one."""
    if isinstance(table, dict):
        return {named: dict.__getitem__(table, key)} if dict.__contains__(table, key) else {}
    return {named: True} if key in table else {}


def _same(a: Any, b: Any, found: _Agreed) -> bool:
    """Whether two values are the same to whoever uses them, but for steps of views, which are noted."""
    if a is b:
        return True
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return found.known.get(b) is a
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(_same(x, y, found) for x, y in zip(a, b, strict=True))
    if not (isinstance(a, Variable) and isinstance(b, Variable)):
        return type(a) is type(b) and isinstance(a, int | float | str) and a == b
    one, other = a.node, b.node
    if a.first is not one or b.first is not other or one.version != other.version or one.parent is not other.parent:
        return False
    if not _same(one.value, found.held(other), found):
        return False
    if one.parent is None:
        s, t = one.storage, other.storage
        if s.perhaps or t.perhaps or s.lost or t.lost or s.turned or t.turned:
            return False
        if (s.type, s.version, s.dense, s.repeats) != (t.type, t.version, t.dense, t.repeats):
            return False
    elif not _same_step(one.step, other.step, found.known):
        found.steps.append(one)
    found.nodes[other] = one
    return True


def _same_step(a: Step | None, b: Step | None, known: _Known) -> bool:
    if not (isinstance(a, View) and isinstance(b, View)):
        return False
    told = [(v.name, v.argument, v.path, v.lies) for v in (a, b)]
    return told[0] == told[1] and _same_entry([a.args, a.kwargs], [b.args, b.kwargs], known)


def _same_entry(a: Any, b: Any, known: _Known) -> bool:
    """Whether what is remembered of two tensors is the same."""
    if isinstance(a, Op):
        return True  # numbers are watched for themselves
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(b, Tensor) and known.get(b) is a
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_entry(a[key], b[key], known) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_same_entry(x, y, known) for x, y in zip(a, b, strict=True))
    return bool(a == b)
