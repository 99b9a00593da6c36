"""The machinery of lowering: blocks are walked op by op; a handler per op name emits into the graph.

A `Body` is a graph under construction, a `Scope` one function call or region inside of it, a `Site` one MLIR op as its
handler sees it. Values of an enclosing body that a region uses are captured: constants are repeated inside, everything
else becomes one more input of the region's graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Literal, Op, Tensor
from scalify_dl.ir.texts import escaped
from scalify_dl.registry import registering

from .. import regions, rounding
from ..sdy import DeviceMesh, Sharding
from . import locations
from .known import KNOWN_LIMIT, Known, fold
from .types import Type, Types, agrees, is_open

if TYPE_CHECKING:
    from jaxlib.mlir import ir

OPS_LIMIT = 5_000_000
CALLS_LIMIT = 64
EXACT_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
"""Whole numbers of so many bits are exact in a float type."""

Handler = Callable[["Site"], Sequence["Value"]]
HANDLERS: dict[str, Handler] = {}

lowers = registering(HANDLERS)
"""Registers the handler of some MLIR ops."""


@dataclass(eq=False, slots=True)
class Shards:
    """A value that exists as the shards that a manual computation left (or takes): `local` is the shard on every rank.

    `shape` is that of the whole value. The whole is only put together where something asks for it.
    """

    local: Tensor
    sharding: Sharding
    shape: tuple[int, ...]
    whole: Tensor | None = None


Value = Tensor | Shards | Known | None
"""What an SSA value stands for; None for tokens."""


@dataclass(eq=False)
class Module:
    """What all functions of one module share. Ranks are `replica * partitions + partition`."""

    file: str | None
    functions: dict[str, ir.Operation]
    meshes: dict[str, DeviceMesh]
    replicas: int
    partitions: int
    names: ir.AsmState
    parsed: ir.Module  # owns every op above
    types: Types = field(default_factory=Types)
    ops: int = 0
    effects: list[str] = field(default_factory=list)
    """Ops that do something besides giving results."""
    sized: bool = False
    """Whether it left sizes open, which now are given."""
    places: dict[ir.Attribute, tuple[tuple[int, int], locations.Stack]] = field(default_factory=dict)
    manual: dict[ir.Operation, tuple[list[Sharding], list[Sharding]]] = field(default_factory=dict)
    """How values enter and leave each manual computation."""

    def place(self, location: ir.Location) -> tuple[tuple[int, int], locations.Stack]:
        """Where an op is in the dump, and its source stack; ops of layers share theirs."""
        found = self.places.get(location.attr)
        if found is None:
            found = self.places[location.attr] = locations.position(location), locations.stack(location)
        return found

    @property
    def ranks(self) -> int:
        """Number of ranks of the program."""
        return self.replicas * self.partitions


@dataclass(eq=False)
class Body:
    """A graph under construction, the producers of its values, and what it captured from outside."""

    graph: Graph
    made: dict[Tensor, Op] = field(default_factory=dict)
    captured: dict[Tensor, Tensor] = field(default_factory=dict)
    constants: dict[Known, Tensor] = field(default_factory=dict)

    def constant(self, known: Known) -> Tensor:
        """The constant of a known value; several are put together from scalars, which are formulas of sizes each."""
        if known not in self.constants:
            before = len(self.graph.ops)
            source = known.about["source"]
            scalars = [self.graph.constant(item, known.dtype, source=source) for item in known.items]
            found = scalars[0] if scalars else self.graph.constant(Literal("{}"), known.dtype, known.shape)
            if known.shape and scalars:
                rows = [self.graph.emit("reshape", [x], shape=(1,), source=source) for x in scalars]
                found = rows[0] if len(rows) == 1 else self.graph.emit("concatenate", rows, dimension=0, source=source)
            if found.shape != known.shape and scalars:
                found = self.graph.emit("reshape", [found], shape=known.shape, source=source)
            self.made.update(regions.producers(self.graph.ops[before:]))
            self.constants[known] = found
        return self.constants[known]

    def capture(self, outer: Tensor, made: Mapping[Tensor, Op]) -> Tensor:
        """The inner counterpart of a tensor of the enclosing body."""
        known = self.captured.get(outer)
        if known is not None:
            return known
        op = made.get(outer)
        if op is not None and op.kind == "constant" and outer.literal is not None:
            inner = self.graph.constant(outer.literal, outer.dtype, outer.shape, name=op.name, source=op.source)
            self.made[inner] = self.graph.ops[-1]
            return inner
        inner = self.graph.input(outer.name, outer.dtype, outer.shape)
        self.captured[outer] = inner
        return inner


@dataclass(eq=False)
class Scope:
    """One function call, region or manual computation: its SSA values, and the call stack that led here."""

    module: Module
    body: Body
    values: dict[ir.Value, Value] = field(default_factory=dict)
    outer: Scope | None = None
    stack: locations.Stack = ()
    depth: int = 0

    def value(self, ssa: ir.Value) -> Value:
        """What an SSA value stands for here."""
        if ssa not in self.values:
            if self.outer is None:
                raise InputError(f"`{ssa.get_name()}` is used before it is defined", file=self.module.file)
            found = self.outer.value(ssa)
            if isinstance(found, Tensor | Shards) and self.outer.body is not self.body:
                found = self.body.capture(self.outer.tensor(found), self.outer.body.made)
            self.values[ssa] = found
        return self.values[ssa]

    def tensor(self, value: Value) -> Tensor:
        """A value as one tensor on every rank (shards are put together)."""
        if isinstance(value, Shards):
            from .manual import assemble

            if value.whole is None:
                value.whole = assemble(self.body, value)
            return value.whole
        if isinstance(value, Known):
            return self.body.constant(value)
        if value is None:
            raise InputError("a token is used as a tensor", file=self.module.file)
        return value

    def run(self, block: ir.Block, arguments: Sequence[Value]) -> list[Value]:
        """Lowers a block with the given arguments; returns the operands of its terminator."""
        for ssa, value in zip(block.arguments, arguments, strict=True):
            self.values[ssa] = value
        for view in block.operations:
            op = view.operation
            if op.name in TERMINATORS:
                return [self.value(operand) for operand in op.operands]
            self.lower(op)
        return []

    def lower(self, op: ir.Operation) -> None:
        """Lowers one op by its handler; an op without one becomes `unknown:<name>`."""
        self.module.ops += 1
        if self.module.ops > OPS_LIMIT:
            raise InputError(f"more than {OPS_LIMIT} ops after inlining calls", file=self.module.file)
        site = Site(self, op)
        try:
            results = fold(site) or self.handled(site)
        except InputError as error:
            raise error.located(self.module.file, *site.at) from None
        for ssa, value in zip(op.results, results, strict=True):
            self.values[ssa] = value

    def handled(self, site: Site) -> Sequence[Value]:
        """What the op's handler makes of it; unknown where it leaves an attribute unread that may mean something."""
        handler = HANDLERS.get(site.op.name, unknown)
        results = handler(site)  # these ops stay: others may read what was put together for them
        return unknown(site) if handler is not unknown and site.unread() else results

    def region(self, region: ir.Region, name: str, arguments: Sequence[Type]) -> Scope:
        """Lowers a region into a graph of its own with inputs of the given types; captures become further inputs."""
        block = region.blocks[0]
        body = Body(Graph(name, self.module.file))
        inner = Scope(self.module, body, {}, self, self.stack, self.depth)
        inputs = [
            body.graph.input(ssa.get_name(self.module.names), *type_)
            for ssa, type_ in zip(block.arguments, arguments, strict=True)
        ]
        for value in inner.run(block, inputs):
            body.graph.output(inner.tensor(value))
        return inner


HARMLESS = frozenset(
    """precision_config result_accuracy indices_are_sorted unique_indices channel_handle
    sharding group_id allowed_direction in_shardings out_shardings manual_axes""".split()  # noqa: SIM905
)
"""Attributes that say how an op is run or placed, or promise what the program keeps (indices without repetition), not
what it computes; so do those of other dialects, with a dot in their names (`mhlo.frontend_attributes`)."""
ASKS = {"precision_config": rounding.precision, "result_accuracy": rounding.accuracy}
TERMINATORS = frozenset({"func.return", "stablehlo.return", "sdy.return", "mhlo.return", "chlo.return"})


class Site:
    """One MLIR op as its handler sees it: operands as tensors, attributes as Python values, and `emit`."""

    def __init__(self, scope: Scope, op: ir.Operation) -> None:
        self.scope = scope
        self.op = op
        self.module = scope.module
        self.at, inner = self.module.place(op.location)
        self.stack = locations.under_call(inner, scope.stack)
        self.name = op.results[0].get_name(self.module.names) if len(op.results) else op.name
        self._attributes = op.attributes
        self._read: set[str] = set()

    @property
    def values(self) -> list[Value]:
        """The operands as they are."""
        return [self.scope.value(ssa) for ssa in self.op.operands]

    @property
    def operands(self) -> list[Tensor]:
        """The operands as tensors."""
        return [self.scope.tensor(value) for value in self.values]

    def known(self, value: Value) -> Known | None:
        """The integers that a value stands for: it follows from sizes, or is a small constant."""
        if not isinstance(value, Tensor):
            return value if isinstance(value, Known) else None
        literal, count = value.literal, prod(value.shape)
        if literal is None or value.dtype[0] not in "psu" or count > KNOWN_LIMIT:
            return None
        items = literal.items
        if items is None and literal.rational is not None and literal.rational.denominator == 1:
            items = (int(literal.rational),) * count
        return None if items is None else Known(value.dtype, value.shape, items, self.about)

    def sizes(self, operand: int) -> tuple[int, ...]:
        """A shape that an operand gives; InputError where it does not follow from the sizes of the inputs."""
        known = self.known(self.values[operand])
        if known is None:
            raise InputError(f"`{self.op.name}`: operand {operand} says a shape that depends on data")
        return known.items

    def operand(self, position: int) -> Tensor:
        """One operand as a tensor; the others, which may be shapes, are left alone."""
        return self.scope.tensor(self.values[position])

    @property
    def types(self) -> list[Type | None]:
        """dtype and shape of every result, open sizes as `OPEN`; None for tokens."""
        return [self.module.types(ssa.type) for ssa in self.op.results]

    @property
    def type(self) -> Type:
        """dtype and shape of the first result."""
        type_ = self.module.types(self.op.results[0].type)
        if type_ is None:
            raise InputError(f"`{self.op.name}` gives no tensor")
        return type_

    @property
    def made(self) -> dict[Tensor, Op]:
        """Producers of the graph under construction."""
        return self.scope.body.made

    def has(self, key: str) -> bool:
        """Whether the op carries an attribute."""
        self._read.add(key)
        return key in self._attributes

    def unread(self) -> list[str]:
        """Attributes that no handler asked for, and that may change what is computed."""
        names = attribute_names(self.op) if len(self._attributes) else []
        return [name for name in names if name not in self._read and name not in HARMLESS and "." not in name]

    def ignore(self, *keys: str) -> None:
        """These attributes do not matter to what the handler makes of the op."""
        self._read.update(keys)

    def attribute(self, key: str) -> Any:
        """An attribute as the bindings give it; InputError where it is missing."""
        self._read.add(key)
        if key not in self._attributes:
            raise InputError(f"`{self.op.name}` needs the attribute `{key}`")
        return self._attributes[key]

    def number(self, key: str, default: int | None = None) -> int:
        """An integer or boolean attribute."""
        self._read.add(key)
        if default is not None and key not in self._attributes:
            return default
        return int(self.attribute(key).value)

    def numbers(self, key: str, default: Sequence[int] | None = None) -> list[int]:
        """An array of integers; a dense matrix row by row."""
        self._read.add(key)
        if default is not None and key not in self._attributes:
            return list(default)
        attribute = self.attribute(key)
        if getattr(attribute, "is_splat", False):
            count = 1
            for n in attribute.type.shape:
                count *= n
            return [int(attribute.get_splat_value().value)] * count
        return [int(n) for n in attribute]

    def text(self, key: str) -> str:
        """A string attribute, or the text of another one."""
        attribute = self.attribute(key)
        value = getattr(attribute, "value", None)
        return value if isinstance(value, str) else str(attribute)

    def emit(
        self,
        kind: str,
        operands: Sequence[Tensor],
        type_: Type | None = None,
        *,
        numbers: Mapping[str, Iterable[int]] | None = None,
        symbols: Mapping[str, Iterable[str]] | None = None,
        **more: Any,
    ) -> Tensor:
        """Appends an op with one result, of the MLIR op's own type unless another is given."""
        return self.add(kind, operands, [type_ or self.type], numbers=numbers, symbols=symbols, **more).result

    def add(self, kind: str, operands: Sequence[Tensor], types: Sequence[Type], **more: Any) -> Op:
        """Appends an op; sizes that its types leave open follow from the operands."""
        inferred = any(map(is_open, types))
        op = self.scope.body.graph.add(kind, operands, None if inferred else types, **self.about, **more)
        if inferred:
            for result, type_ in zip(op.results, types, strict=True):
                result.dtype = type_[0]
                if not agrees(type_, result.shape):
                    raise InputError(f"`{self.op.name}` is declared as {type_[0]}{list(type_[1])}, it is {result.type}")
        for result in op.results:
            self.made[result] = op
        if len(self._attributes):
            rounding.ask([op], self.asked)
        return op

    @property
    def asked(self) -> list[str]:
        """How it is asked to round."""
        return [text(str(self._attributes[key])) for key, text in ASKS.items() if key in self._attributes]

    @property
    def about(self) -> dict[str, Any]:
        """Name, source and place, as keywords of `Graph.add`."""
        return {"name": self.name, "source": self.stack, "at": self.at}

    def constant(self, value: int | float, type_: Type) -> Tensor:
        """A scalar constant, broadcast to a shape."""
        dtype, shape = type_
        graph = self.scope.body.graph
        before = len(graph.ops)
        tensor = graph.splat(value, dtype, shape, source=self.stack)
        self.made.update(regions.producers(graph.ops[before:]))
        return tensor

    def exact_float(self, known: Known) -> Tensor | None:
        """Sizes as floats of the op's type: one number, where it is exact."""
        dtype, shape = self.type
        whole = len(set(known.items)) == 1 and abs(known.items[0]) < 2 ** EXACT_BITS.get(dtype, 0)
        return self.constant(known.items[0], (dtype, shape)) if whole and shape == known.shape else None

    def inline(self, function: ir.Operation, arguments: Sequence[Value]) -> list[Value]:
        """Lowers the body of a function in place."""
        if self.scope.depth >= CALLS_LIMIT:
            raise InputError(f"calls nest deeper than {CALLS_LIMIT}: a function calls itself?")
        blocks = function.regions[0].blocks
        if len(blocks) != 1:
            raise InputError(f"a function with {len(blocks)} blocks; structured control flow is expected")
        scope = Scope(self.module, self.scope.body, {}, None, self.stack, self.scope.depth + 1)
        return scope.run(blocks[0], arguments)


def unknown(site: Site) -> list[Value]:
    """An op that no handler lowers: kept, with its operands and attributes, as `unknown:<name>`."""
    return opaque(site, f"unknown:{site.op.name}")


def opaque(site: Site, kind: str, symbols: Mapping[str, Iterable[str]] | None = None) -> list[Value]:
    """One op of an opaque kind with all tensor operands; attributes by their text. Tokens are dropped."""
    operands = [site.scope.tensor(value) for value in site.values if value is not None]
    types = site.types
    kept = [type_ for type_ in types if type_ is not None]
    if any(map(is_open, kept)):
        raise InputError(f"`{site.op.name}` makes a size that depends on values: dynamic shapes are not supported")
    if symbols is None:
        symbols = {key: [short(str(site.attribute(key)))] for key in attribute_names(site.op)}
        if len(site.op.regions):
            symbols["regions"] = [short(str(site.op))]
    if not types or len(kept) < len(types):
        site.module.effects.append(kind.removeprefix("unknown:"))
    results = iter(site.add(kind, operands, kept, symbols=symbols).results)
    return [None if type_ is None else next(results) for type_ in types]


def short(text: str) -> str:
    """One line of text; long text by its hash."""
    line = escaped(text)
    return line if len(line) <= 200 else f"sha256:{hashlib.sha256(line.encode()).hexdigest()}"


def attribute_names(op: ir.Operation) -> list[str]:
    """Names of the attributes of an op."""
    return [getattr(item, "name", item) for item in op.attributes]
