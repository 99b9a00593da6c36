"""The graph that every front end builds: one small mutable model, independent of the source format.

A front end reads a dump, lowers it to the op vocabulary of `docs/facts.md` and returns a `Graph`. Everything after
(pairing of inputs and outputs, placements, merging ranks, writing facts) works on graphs alone.

    g = Graph("base", file="model.hlo")
    x = g.input("x", "f32", (8, 16), path="args[0]")
    w = g.input("w", "f32", (16, 32))
    y = g.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0], name="y")   # shape inferred
    z = g.emit("multiply", [y, g.splat(0.5, "f32", y.shape)], source=[Frame("model.py", 12, "forward")])
    g.output(z)

Tensors and ops are compared by identity. `name`s are what people know (the dump's names); the fact writer makes unique
ids out of them, so they need not be unique here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .literals import Literal

if TYPE_CHECKING:
    from .layout import Layout
    from .mesh import Mesh
    from .transitions import Transition

__all__ = ["Annotation", "Assumption", "Frame", "Graph", "Literal", "Op", "Port", "Tensor"]


class Frame(NamedTuple):
    """One frame of a source stack."""

    file: str
    line: int
    function: str = ""

    @property
    def backward(self) -> Frame:
        """The same place, of an op in the backward of what stands there."""
        if self.function.startswith(BACKWARD):
            return self
        return self._replace(function=f"{BACKWARD} of {self.function}" if self.function else BACKWARD)


BACKWARD = "the backward"
"""Begins the function of frames of ops that differentiate those which stand there."""


class Annotation(Protocol):
    """What a dump says about how a value is placed (a sharding, a DTensor placement)."""

    def layout(self, base_shape: Sequence[int], mesh: Mesh) -> Layout:
        """The layout of the distributed value of a baseline value of `base_shape`; InputError where it does not fit."""
        ...


@dataclass(eq=False, slots=True)
class Tensor:
    """A value: a graph input, or one result of one op.

    `dtype` is a name of `docs/facts.md` (`f32`, `bf16`, `s32`, `pred`, …), `shape` sizes in elements.
    `literal` is set on results of `constant` ops (None there: the op has rank-dependent `rank_numbers`).
    """

    dtype: str
    shape: tuple[int, ...]
    name: str = ""
    literal: Literal | None = None

    @property
    def type(self) -> str:
        """`f32[8,16]`"""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(eq=False, slots=True)
class Op:
    """One op of the vocabulary of `docs/facts.md`.

    `numbers` and `symbols` hold the attributes, list-valued always (a scalar attribute is a list of one); ops that are
    written alike share them: they are replaced, never changed.
    `rank_numbers[key, pos][rank]` replaces `numbers[key][pos]` where the value depends on the rank;
    `strides[key, pos][axis]` times the rank's coordinate is added to it.
    `groups` are the rank groups of a collective, in order, or `along` the mesh axes (name, size) along which they run;
    `group_name` names a process group whose members the dump
    does not say (then `groups` is None until the relations file or an assumption gives them). `replica_groups_all`
    marks “one group of all ranks” where the dump leaves the list empty.
    `pairs` are the (source, target) pairs of a collective-permute. By its `channel` (0: none) programs of several ranks
    find each other's part of a collective. `regions` are sub-graphs (`while`: cond, body).
    `source` is the source stack, innermost frame first; `at` is line and column in the dump, for error messages.
    `rounding` is how it was asked to round, where that is not left to the machine: the same op of real numbers.
    """

    kind: str
    operands: list[Tensor]
    results: list[Tensor]
    name: str = ""
    numbers: dict[str, list[int]] = field(default_factory=dict)
    symbols: dict[str, list[str]] = field(default_factory=dict)
    rank_numbers: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    groups: list[list[int]] | None = None
    group_name: str | None = None
    replica_groups_all: bool = False
    pairs: list[tuple[int, int]] | None = None
    regions: list[Graph] = field(default_factory=list)
    source: Sequence[Frame] = ()
    layer: int | None = None
    at: tuple[int, int] = (0, 0)
    channel: int = 0
    along: tuple[tuple[str, int], ...] = ()
    strides: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    rounding: str = ""

    @property
    def result(self) -> Tensor:
        """The only result."""
        (result,) = self.results
        return result

    def once_more(self, operands: list[Tensor]) -> Op:
        """The same op of operands of the same types, where nothing depends on ranks; its results have no names."""
        results = [Tensor(t.dtype, t.shape) for t in self.results]
        numbers = {key: list(values) for key, values in self.numbers.items()}
        symbols = {key: list(values) for key, values in self.symbols.items()}
        return Op(self.kind, operands, results, self.name, numbers, symbols)


@dataclass(eq=False, slots=True)
class Port:
    """An input or output of a graph, with what pairs and places it.

    `path` is a stable name that both sides share: argument path, parameter name or descriptor; never an SSA name.
    `placement` is the dump's own annotation (distributed side). `range` are bounds lo ≤ x < hi of an integer input;
    `seen` are those of the values that it had in the run which was captured. `ignores`: bounds of labels of
    which one, the least, is ignored and no other is negative.
    `alias` is what the dump calls it, where the tensor bears the name of what it was copied from. `holds` is the input
    whose memory holds it when the program ends (an input that the program writes: a cache, a parameter).
    `argument` says that `path` is no more than the name of an argument: a call gives arguments by position, whatever
    their names; `parameter` that it is the name of a parameter or buffer of a module: these have no order.
    """

    tensor: Tensor
    path: str | None = None
    placement: Annotation | None = None
    range: tuple[int, int] | None = None
    alias: str | None = None
    holds: Port | None = None
    argument: bool = False
    parameter: bool = False
    seen: tuple[int, int] | None = None
    ignores: tuple[int, int] | None = None


class Assumption(NamedTuple):
    """Something the front end had to assume about a tensor; listed in every verdict."""

    tensor: Tensor
    text: str
    why: str


@dataclass(eq=False, slots=True)
class Graph:
    """A program: ops in an order in which they can run (operands before users), typed inputs and outputs.

    `ranks` are the ranks that run it (None: all). `file` is the dump it was read from.
    `lookups_fail` says that to look up an index out of range is an error: inputs that lead to one are none.
    `ignored_inputs` and `ignored_outputs` count non-tensors that were dropped. `aliases` are names of the dump that
    were resolved to a tensor of another name (copies, views that change nothing). `reductions` are names of reductions
    of collectives that the dump does not print. `outside` says what the program does and the dump does not say.
    `asynchronous` says that the program issues operations for which it waits later. `files` are the dumps of the ranks
    whose programs were merged into it, which may wait elsewhere; `names` the groups that those name. `transitions` are
    changes of SPMD types that somebody said, `types` those of values, by axis. `for_all` says that the dump says that
    every rank runs it.
    """

    name: str = ""
    file: str | None = None
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    ranks: Sequence[int] | None = None
    assumptions: list[Assumption] = field(default_factory=list)
    ignored_inputs: int = 0
    ignored_outputs: int = 0
    lookups_fail: bool = False
    aliases: dict[str, Tensor] = field(default_factory=dict)
    reductions: set[str] = field(default_factory=set)
    outside: list[str] = field(default_factory=list)
    asynchronous: bool = False
    files: dict[int, str | None] = field(default_factory=dict)
    names: dict[str, list[list[int]]] = field(default_factory=dict)
    transitions: list[Transition] = field(default_factory=list)
    types: dict[Tensor, dict[str, str]] = field(default_factory=dict)
    for_all: bool = False

    def input(
        self,
        name: str,
        dtype: str,
        shape: Iterable[int],
        *,
        path: str | None = None,
        placement: Annotation | None = None,
        range: tuple[int, int] | None = None,
    ) -> Tensor:
        """Appends an input and returns its tensor."""
        tensor = Tensor(dtype, tuple(shape), name)
        self.inputs.append(Port(tensor, path, placement, range))
        return tensor

    def output(self, tensor: Tensor, *, path: str | None = None, placement: Annotation | None = None) -> None:
        """Appends an output."""
        self.outputs.append(Port(tensor, path, placement))

    def add(
        self,
        kind: str,
        operands: Sequence[Tensor],
        types: Sequence[tuple[str, tuple[int, ...]]] | None = None,
        *,
        name: str = "",
        numbers: Mapping[str, Iterable[int]] | None = None,
        symbols: Mapping[str, Iterable[str]] | None = None,
        groups: list[list[int]] | None = None,
        group_name: str | None = None,
        pairs: list[tuple[int, int]] | None = None,
        regions: Sequence[Graph] = (),
        source: Sequence[Frame] = (),
        layer: int | None = None,
        at: tuple[int, int] = (0, 0),
        along: tuple[tuple[str, int], ...] = (),
    ) -> Op:
        """Appends an op with results of the given `types` (dtype, shape); without `types` they are inferred.

        Results are named after the op (`name`, or `name.0`, `name.1`, … where there are several).
        Raises InputError where operands do not fit the op, or `types` is missing and the kind has no shape rule.
        """
        op = Op(
            kind,
            list(operands),
            [],
            name or kind,
            {key: list(values) for key, values in (numbers or {}).items()},
            {key: list(values) for key, values in (symbols or {}).items()},
            {},
            groups,
            group_name,
            False,
            pairs,
            list(regions),
            source,
            layer,
            at,
            along=along,
        )
        if types is None:
            from .shapes import infer

            types = infer(op)
        if len(types) == 1:
            op.results.append(Tensor(types[0][0], tuple(types[0][1]), op.name))
        else:
            op.results.extend(Tensor(dtype, tuple(shape), f"{op.name}.{i}") for i, (dtype, shape) in enumerate(types))
        self.ops.append(op)
        return op

    def emit(
        self,
        kind: str,
        operands: Sequence[Tensor],
        *,
        name: str = "",
        source: Sequence[Frame] = (),
        dtype: str | None = None,
        shape: Sequence[int] | None = None,
        groups: list[list[int]] | None = None,
        pairs: list[tuple[int, int]] | None = None,
        **attributes: int | str | Sequence[int] | Sequence[str],
    ) -> Tensor:
        """Appends an op with one result and returns the result; attributes are keywords, numbers or symbols.

        The result type is inferred; `dtype` and `shape` are needed where operands do not determine it
        (`shape` of `reshape`, `broadcast`, `iota`; `dtype` of `convert`, `iota`).
        """
        numbers: dict[str, list[int]] = {}
        symbols: dict[str, list[str]] = {}
        for key, value in attributes.items():
            values: list[Any] = [value] if isinstance(value, int | str) else list(value)
            if values and isinstance(values[0], str):
                symbols[key] = values
            else:
                numbers[key] = values
        types: list[tuple[str, tuple[int, ...]]] | None = None
        if dtype is not None or shape is not None:
            from .shapes import complete

            types = [complete(kind, operands, dtype, shape)]
        return self.add(
            kind,
            operands,
            types,
            name=name,
            numbers=numbers,
            symbols=symbols,
            groups=groups,
            pairs=pairs,
            source=source,
        ).result

    def constant(
        self,
        literal: Literal | int | float | bool,
        dtype: str,
        shape: Sequence[int] = (),
        *,
        name: str = "",
        source: Sequence[Frame] = (),
    ) -> Tensor:
        """Appends a constant (a Python number means a scalar or splat)."""
        if not isinstance(literal, Literal):
            literal = Literal.scalar(literal, dtype)
        op = self.add("constant", [], [(dtype, tuple(shape))], name=name, source=source)
        op.result.literal = literal
        return op.result

    def splat(
        self, value: Literal | int | float | bool, dtype: str, shape: Sequence[int], *, source: Sequence[Frame] = ()
    ) -> Tensor:
        """A scalar constant, broadcast to `shape`: how Python scalars in elementwise ops are lowered."""
        scalar = self.constant(value, dtype, (), source=source)
        if not shape:
            return scalar
        op = self.add("broadcast", [scalar], [(dtype, tuple(shape))], numbers={"dimensions": []}, source=source)
        return op.result

    def assume(self, tensor: Tensor, text: str, why: str) -> None:
        """Records an assumption about a tensor."""
        self.assumptions.append(Assumption(tensor, text, why))

    def leave_out(self, effects: Iterable[str]) -> None:
        """Records ops that do something besides giving results (send values elsewhere, wait for them)."""
        for name in dict.fromkeys(effects):
            for port in self.outputs[:1]:
                self.assume(port.tensor, f"what `{name}` does besides giving results is not compared", "effect")
