"""HLO module → graph: calls and fusions inlined, tuples opened, opcodes lowered to the vocabulary (docs/facts.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Annotation, Frame, Graph, Op, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.registry import registering

from .. import rounding
from .again import Again
from .groups import channel_of
from .metadata import Metadata
from .module import Computation, Instruction, Module, parse_module
from .sharding import parse_shardings
from .types import ArrayType, flatten
from .values import array, opened, shaped

Lowerer = Callable[["Lowering", Instruction, list[object]], object]
"""Lowers one instruction, given the values of its operands. A value is a tensor, a list (tuple), or None (token)."""

OPCODES: dict[str, Lowerer] = {}

HARMLESS = frozenset(
    """metadata backend_config frontend_attributes sharding control-predecessors statistics origin schedule kind
    channel_id indices_are_sorted unique_indices constrain_layout is_host_transfer
    async_execution_thread async_context_id cross_program_prefetch_index is_cross_program_prefetch
    output_to_operand_aliasing parameter_replication called_computations""".split()  # noqa: SIM905
)
"""Attributes that say how an instruction is run, or promise what the program keeps (indices without repetition), not
what it computes. Any other attribute that a lowering does not read makes the instruction unknown."""

EDITED = "the dump is truncated or edited"
OPS_LIMIT = 3_000_000
DEPTH_LIMIT = 100

opcode = registering(OPCODES)
"""Registers the lowering of some opcodes."""


def read(path: str | Path, mesh: Mesh | None = None) -> Graph:
    """Reads an HLO text file. `mesh` is the mesh of a distributed program, None for a baseline (one rank)."""
    try:
        text = Path(path).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", file=path) from None
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return read_text(text, mesh, file=str(path))


def read_text(text: str, mesh: Mesh | None = None, *, file: str | None = None) -> Graph:
    """Reads HLO text; see `read`. InputError with file, line and column where it is malformed."""
    try:
        return Lowering(parse_module(text), mesh, file).run()
    except InputError as error:
        raise error.located(file) from None


class Lowering:
    """Lowers one module. `graph` is the graph being built (a region's while inside of one)."""

    def __init__(self, module: Module, mesh: Mesh | None, file: str | None) -> None:
        self.module = module
        self.file = file
        self.ranks = mesh.size if mesh else 1
        self.is_base = mesh is None
        self.metadata = Metadata(module)
        self.recognitions: dict[tuple[Callable[[Graph], str | None], Graph], str | None] = {}
        self.functions: dict[object, Graph] = {}
        self.graph = Graph(module.name, file)
        self.asynchronous: dict[str, object] = {}
        self.starts = False
        self.stack: list[str] = []
        self.call_source: Sequence[Frame] = ()
        self.emitted = 0
        self.effects: list[str] = []
        self.again = Again(module)
        self.here: dict[str, Instruction] = {}
        self.producer: dict[Tensor, Op] = {}
        self.replicas, self.partitions = self._counts(mesh)

    def _counts(self, mesh: Mesh | None) -> tuple[int, int]:
        """Replicas and partitions that run the module."""
        replicas, partitions = self.module.replicas, self.module.partitions
        if mesh is None or replicas * partitions == mesh.size:
            return replicas, partitions
        if replicas * partitions != 1:
            raise InputError(
                f"the module runs on {replicas} replica(s) × {partitions} partition(s), --mesh has {mesh.size} ranks",
                line=1,
                column=1,
                hint=f"give a mesh of {replicas * partitions} ranks",
            )
        # The header does not say. Partitioned programs have channels; without any, ids are replicas.
        for computation in self.module.computations.values():
            for i in computation.instructions:
                if i.opcode == "partition-id" or "channel_id=" in i.attribute_text:
                    return 1, mesh.size
        return mesh.size, 1

    def run(self) -> Graph:
        """The graph of the entry computation."""
        entry = self.module.entry
        parameters = self._parameters(entry)
        arguments = []
        for number in sorted(parameters):
            arguments.append(self._argument(parameters[number]))
        result = self.computation(entry, arguments)
        outputs = opened(result)
        for tensor in outputs:
            if tensor is None:
                self.graph.ignored_outputs += 1
            else:
                self.graph.output(tensor)
        self._annotate_outputs(entry.root)
        self.graph.asynchronous = self.starts
        self.graph.for_all = self.module.for_all
        self.graph.leave_out(self.effects)
        return self.graph

    def _parameters(self, computation: Computation) -> dict[int, Instruction]:
        """Parameter number → instruction; InputError unless they are 0 … n-1."""
        found: dict[int, Instruction] = {}
        for i in computation.instructions:
            if i.opcode == "parameter":
                text = i.operand_text.strip()
                if not text.isdigit() or int(text) in found:
                    raise i.error(f"parameter number `{text}`", expected="distinct numbers from 0")
                found[int(text)] = i
        if sorted(found) != list(range(len(found))):
            raise InputError(
                f"computation `{computation.name}` has parameters {sorted(found)}",
                line=computation.line,
                column=1,
                expected="parameters from 0 without gaps",
            )
        return found

    def _argument(self, i: Instruction) -> object:
        """A parameter of the entry: its arrays become inputs, with path and sharding."""
        scope, _ = self.metadata.read(i.attributes.get("metadata"))
        arrays = flatten(i.type)
        shardings: Sequence[Annotation | None] = [None] * len(arrays)
        if not self.is_base:
            shardings = parse_shardings(i, len(arrays), self.module)
        counter = iter(range(len(arrays)))

        def build(type_: object) -> object:
            if not isinstance(type_, ArrayType):
                assert isinstance(type_, tuple)
                return [build(element) for element in type_]
            position = next(counter)
            if type_.dtype in ("token", "opaque"):
                self.graph.ignored_inputs += 1
                return None
            many = len(arrays) > 1
            value = self.graph.input(
                f"{i.name}.{position}" if many else i.name,
                type_.dtype,
                type_.shape,
                path=(f"{scope}.{position}" if many else scope) if scope else None,
                placement=shardings[position],
            )
            self.graph.inputs[-1].argument = True
            return value

        return build(i.type)

    def _annotate_outputs(self, root: Instruction) -> None:
        if self.is_base or "sharding=" not in root.attribute_text:
            return
        arrays = flatten(root.type)
        said = zip(arrays, parse_shardings(root, len(arrays), self.module), strict=True)
        shardings = [sharding for array, sharding in said if array.dtype not in ("token", "opaque")]
        for port, sharding in zip(self.graph.outputs, shardings, strict=True):
            port.placement = sharding

    def computation(self, computation: Computation, arguments: list[object]) -> object:
        """Inlines a computation into the current graph and returns the value of its root."""
        if computation.name in self.stack or len(self.stack) >= DEPTH_LIMIT:
            raise InputError(
                f"computation `{computation.name}` calls itself, or calls nest deeper than {DEPTH_LIMIT}",
                line=computation.line,
                column=1,
            )
        self.stack.append(computation.name)
        outer, started = self.here, self.asynchronous
        self.here, self.asynchronous = {i.name: i for i in computation.instructions}, {}
        values: dict[str, object] = {}
        for i in self._ordered(computation):
            if i.name in values:
                raise i.error("is defined twice")
            if i.opcode == "parameter":
                number = int(i.operand_text) if i.operand_text.strip().isdigit() else -1
                if not 0 <= number < len(arguments):
                    raise i.error(f"parameter {i.operand_text}, but the computation is called with {len(arguments)}")
                values[i.name] = arguments[number]
                self._check_argument(i, arguments[number])
                continue
            values[i.name] = self.instruction(i, values)
        self.stack.pop()
        self.here, self.asynchronous = outer, started
        return values[computation.root.name]

    def stored(self, i: Instruction, x: Tensor) -> ArrayType:
        """The type, with its layout, of an instruction's only operand `x`."""
        type_ = array(self.here[i.operands[0]])
        if type_.shape != x.shape:
            raise i.error(f"takes {x.type}, its operand is declared as {self.here[i.operands[0]].type_text}")
        return type_

    def _check_argument(self, i: Instruction, value: object) -> None:
        given = opened(value)
        declared = flatten(i.type)
        if len(given) != len(declared) or any(
            t is not None and t.shape != a.shape for t, a in zip(given, declared, strict=True)
        ):
            types = ", ".join(t.type if t else "token" for t in given)
            raise i.error(f"is declared as {i.type_text}, but called with {types}")

    def _ordered(self, computation: Computation) -> list[Instruction]:
        """The instructions with operands before users (as printed, or sorted where they are not)."""
        seen: set[str] = set()
        for i in computation.instructions:
            if i.opcode not in ("constant", "parameter") and not seen.issuperset(i.operands):
                return self._sorted(computation)
            seen.add(i.name)
        return computation.instructions

    def _sorted(self, computation: Computation) -> list[Instruction]:
        by_name = {i.name: i for i in computation.instructions}
        order: dict[str, Instruction] = {}
        for start in computation.instructions:
            pending = [(start, False)]
            open_: set[str] = set()
            while pending:
                i, done = pending.pop()
                if i.name in order:
                    continue
                if done:
                    order[i.name] = i
                    open_.discard(i.name)
                    continue
                if i.name in open_:
                    raise i.error("depends on itself")
                open_.add(i.name)
                pending.append((i, True))
                for name in i.operands if i.opcode not in ("constant", "parameter") else ():
                    if name not in by_name:
                        raise i.error(f"operand `{name}` is not defined", hint="the dump is truncated or edited")
                    if name not in order:
                        pending.append((by_name[name], False))
        return list(order.values())

    def instruction(self, i: Instruction, values: Mapping[str, object]) -> object:
        """Lowers one instruction, operands already lowered."""
        operands = [values[name] for name in i.operands] if i.opcode != "constant" else []
        like = i.written.like or self.again.like(i.written)
        if like is not None and (op := self.again.made(i, like, operands, self.call_source)) is not None:
            self._count(i)
            self.graph.ops.append(op)
            result = op.results[0]
            self.producer[result] = op
            return result
        before, assumed = len(self.graph.ops), len(self.graph.assumptions)
        self.starts = self.starts or i.opcode.endswith("-start") or i.opcode in ("send", "recv")
        try:
            lower = OPCODES.get(i.opcode) or control.asynchronous(i.opcode) or unknown
            value = lower(self, i, operands)
            asked = rounding.asked(i.attributes) if i.attribute_text else ()
            if i.attribute_text and lower is not unknown and not i.attributes.all_read(HARMLESS):
                # an attribute that nobody looked at may change what is computed
                del self.graph.ops[before:]
                self.asynchronous.pop(i.name, None)
                return unknown(self, i, operands)
            self._check_type(i, value)
            rounding.ask(self.graph.ops[before:], asked)
            if like is not None and len(self.graph.assumptions) == assumed:
                self.again.note(like, operands, self.graph.ops[before:], value, self.call_source)
            return value
        except (ValueError, IndexError, KeyError) as error:  # numbers that are none, lists that are too short
            raise i.error(f"cannot read its operands or attributes ({error})", hint="is the dump edited?") from None

    def _check_type(self, i: Instruction, value: object) -> None:
        """What an instruction gives is what it is declared as (a start's type holds more than its result)."""
        type_ = i.type
        if isinstance(value, Tensor) and isinstance(type_, ArrayType):
            if value.shape == type_.shape and value.dtype == type_.dtype:
                return
        elif i.opcode.endswith(("-start", "-update")):
            return
        given, declared = opened(value), flatten(i.type)
        if len(given) != len(declared) or any(
            t is not None and (t.dtype, t.shape) != (a.dtype, a.shape) for t, a in zip(given, declared, strict=True)
        ):
            types = ", ".join(t.type if t else "token" for t in given)
            raise i.error(f"is declared as {i.type_text}, but gives {types}", hint="is the dump edited?")

    def emit(
        self,
        i: Instruction,
        kind: str,
        operands: Sequence[Tensor],
        types: Sequence[tuple[str, tuple[int, ...]]] | None = None,
        *,
        numbers: dict[str, list[int]] | None = None,
        symbols: dict[str, list[str]] | None = None,
        groups: list[list[int]] | None = None,
        pairs: list[tuple[int, int]] | None = None,
        regions: list[Graph] | None = None,
        suffix: str = "",
    ) -> Op:
        """Appends an op for an instruction, with its name (and a suffix for auxiliary ones), source and place.

        Result types are the instruction's where they are not given."""
        self._count(i)
        name = i.name + suffix
        if types is None:
            types = [(array.dtype, array.shape) for array in flatten(i.type)]
        if len(types) == 1:
            results = [Tensor(types[0][0], types[0][1], name)]
        else:
            results = [Tensor(dtype, shape, f"{name}.{n}") for n, (dtype, shape) in enumerate(types)]
        op = Op(
            kind,
            list(operands),
            results,
            name,
            numbers or {},
            symbols or {},
            {},
            groups,
            None,
            False,
            pairs,
            regions or [],
            self.source(i),
            None,
            (i.line, i.column),
            channel=channel_of(i.attributes) if groups is not None or pairs is not None else 0,
        )
        self.graph.ops.append(op)
        for result in results:
            self.producer[result] = op
        return op

    def source(self, i: Instruction) -> Sequence[Frame]:
        """The instruction's source stack, that of the call which is being inlined where it has none."""
        stack = self.metadata.read(i.attributes.get("metadata"))[1] if "metadata={" in i.attribute_text else ()
        return stack or self.call_source

    def about(self, i: Instruction) -> dict[str, Any]:
        """Name, source and place of an instruction, as `Graph.add` takes them."""
        return {"name": i.name, "source": self.source(i), "at": (i.line, i.column)}

    def track(self, ops: Sequence[Op]) -> None:
        """Takes note of ops that were appended to the graph by other means than `emit`."""
        for op in ops:
            for result in op.results:
                self.producer[result] = op

    def recognised(self, recognise: Callable[[Graph], str | None], i: Instruction, key: str) -> str | None:
        """What a called function is; each is looked at once."""
        function = self.function(i.attributes.get(key), i)
        if (recognise, function) not in self.recognitions:
            self.recognitions[recognise, function] = recognise(function)
        return self.recognitions[recognise, function]

    def function(self, name: str | None, i: Instruction) -> Graph:
        """A called computation as a graph to look at, not to keep: those that are written alike share one."""
        form = self.called(name, i).form
        if form not in self.functions:
            self.functions[form] = self.region(name, i)
        return self.functions[form]

    def _count(self, i: Instruction) -> None:
        self.emitted += 1
        if self.emitted > OPS_LIMIT:
            raise i.error(f"more than {OPS_LIMIT} ops after inlining")

    def region(self, name: str | None, i: Instruction) -> Graph:
        """A called computation as a graph of its own; tuples among its parameters and results are opened."""
        computation = self.called(name, i)
        outer, outer_stack = self.graph, self.stack
        self.graph = Graph(computation.name, self.file)
        parameters = self._parameters(computation)
        arguments = [self._region_argument(parameters[number]) for number in sorted(parameters)]
        result = self.computation(computation, arguments)
        for tensor in opened(result):
            if tensor is not None:
                self.graph.output(tensor)
        region, self.graph, self.stack = self.graph, outer, outer_stack
        return region

    def _region_argument(self, i: Instruction) -> object:
        def build(type_: object) -> object:
            if not isinstance(type_, ArrayType):
                assert isinstance(type_, tuple)
                return [build(element) for element in type_]
            if type_.dtype in ("token", "opaque"):
                return None
            return self.graph.input(i.name, type_.dtype, type_.shape)

        return build(i.type)

    def called(self, name: str | None, i: Instruction) -> Computation:
        """A computation by name."""
        if name is None:
            raise i.error(f"`{i.opcode}` does not say which computation it calls", hint=EDITED)
        found = self.module.computations.get(name.strip().lstrip("%"))
        if found is None:
            raise i.error(f"computation `{name}` is not defined", hint=EDITED)
        return found

    def inline(self, name: str | None, i: Instruction, operands: list[object]) -> object:
        """Inlines a called computation; ops without a source of their own get the call's."""
        computation = self.called(name, i)
        outer = self.call_source
        source = self.metadata.read(i.attributes.get("metadata"))[1]
        self.call_source = source or outer
        try:
            return self.computation(computation, operands)
        finally:
            self.call_source = outer



def unknown(self: Lowering, i: Instruction, operands: list[object]) -> object:
    """An opcode without a lowering: kept as `unknown:<opcode>`, so that the verdict says so."""
    arrays = flatten(i.type)
    types = [(a.dtype, a.shape) for a in arrays if a.dtype not in ("token", "opaque")]
    if not arrays or len(types) < len(arrays):
        self.effects.append(i.opcode)
    inputs = [tensor for operand in operands for tensor in opened(operand) if tensor is not None]
    if not types:
        return shaped([], i.type)
    op = self.emit(i, f"unknown:{i.opcode}", inputs, types)
    return shaped(op.results, i.type)


from . import collectives, control, functions, libraries, opaque, opcodes  # noqa: E402,F401  (they register their lowerings)
