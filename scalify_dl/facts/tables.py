"""Graphs → fact tables (docs/facts.md): unique readable ids, one row per fact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import prod

from scalify_dl.facts.coordinates import Ranks
from scalify_dl.facts.model import Facts
from scalify_dl.facts.names import SEPARATOR
from scalify_dl.ir.graph import Frame, Graph, Op, Tensor
from scalify_dl.ir.literals import ITEMS_LIMIT, LIMIT, Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import GROUPED

_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ESCAPED = re.compile(rf"[^\S ]|[\x00-\x1f\x7f-\x9f{SEPARATOR}]|\\x")
LISTED = 64
"""Ranks up to which the groups of a collective are listed; on larger meshes they are said along axes where they can."""
_INTEGER_TYPE = re.compile(r"pred\Z|[su]\d+\Z")


def _in_words(path: str) -> str:
    """What people call the output of a path: `output loss`, `written fc.weight`, `grad fc.weight`."""
    what, _, name = path.partition(" ")
    if name.isdigit():
        return path
    return {"output": name, "written": f"{name} after the step", "grad": f"gradient of {name}"}.get(what, path)


class TableWriter:
    """Writes graphs into one `Facts`. Ids of distributed ops and tensors are the dump's names, those of the baseline
    have the prefix `base/`; several distributed programs have `r0/`, `r1/`, … Ids are made unique by `~2`, `~3`, …
    What has an id already (`names`, `ops`) keeps it."""

    def __init__(
        self, mesh: Mesh, names: Mapping[Tensor, str] | None = None, ops: Mapping[Op, str] | None = None
    ) -> None:
        self.facts = Facts()
        self.mesh = mesh
        self.ids: dict[Tensor, str] = {}
        self.op_ids: dict[Op, str] = {}
        self._names, self._ops = names or {}, ops or {}
        self._used = {"op": {*self._ops.values()}, "tensor": {*self._names.values()}, "graph": set[str]()}
        self._stacks: dict[int, tuple[Sequence[Frame], list[tuple[int, str, int, str]]]] = {}
        self._next: dict[tuple[str, str], int] = {}
        self._several = False
        self._along: dict[int, tuple[object, tuple[str, ...]]] = {}
        facts = self.facts
        for position, (axis, size) in enumerate(mesh.axes):
            facts.add("mesh_axis", axis, position, size)
        for rank, coordinates in enumerate(mesh.coordinates):
            for (axis, _), coordinate in zip(mesh.axes, coordinates, strict=True):
                if axis not in mesh.still:
                    facts.add("rank_coord", rank, axis, coordinate)
        facts.extend("whole_axis", ((axis,) for axis, _ in mesh.axes if axis in mesh.still))

    def _unique(self, space: str, name: str) -> str:
        """The name, or the name with a number where it is taken."""
        used = self._used[space]
        chosen = name
        while chosen in used:
            count = self._next.get((space, name), 1) + 1
            self._next[space, name] = count
            chosen = f"{name}~{count}"
        used.add(chosen)
        return chosen

    def graph(self, graph: Graph, role: str, name: str, prefix: str) -> str:
        """Writes a graph with its regions; returns its id."""
        facts = self.facts
        graph_id = self._unique("graph", name)
        facts.add("graph", graph_id, role)
        if graph.ranks is not None:
            self._several = True
            facts.extend("runs", ((graph_id, rank) for rank in graph.ranks))
        for position, port in enumerate(graph.inputs):
            name = port.tensor.name or f"input{position}"
            facts.add("input", graph_id, position, self.tensor(port.tensor, graph_id, prefix, name))
        for op in graph.ops:
            self.op(op, graph_id, role, prefix)
        for position, port in enumerate(graph.outputs):
            facts.add("output", graph_id, position, self.ids[port.tensor])
        paths = {self.ids[p.tensor]: p.path for p in graph.inputs if p.path and p.path != p.tensor.name}
        paths |= {self.ids[port.tensor]: port.path for port in reversed(graph.outputs) if port.path}
        facts.extend("output_name", ((tensor, clean(_in_words(path))) for tensor, path in paths.items()))
        for tensor, text, why in graph.assumptions:
            facts.add("assume", self.ids[tensor], clean(text), why)
        return graph_id

    def tensor(self, tensor: Tensor, graph_id: str, prefix: str, name: str) -> str:
        """Writes a tensor's rows; returns its id."""
        facts = self.facts
        tensor_id = self._names.get(tensor) or self._unique("tensor", prefix + clean(name))
        self.ids[tensor] = tensor_id
        facts.tables["tensor"].append((tensor_id, graph_id, tensor.dtype, len(tensor.shape)))
        facts.types[tensor_id] = tensor.dtype, tuple(tensor.shape)
        facts.tables["dim"] += [(tensor_id, position, size) for position, size in enumerate(tensor.shape)]
        if tensor.name:
            facts.tables["tensor_name"].append((tensor_id, clean(tensor.name)))
        if tensor.literal is not None:
            self.literal(tensor_id, tensor, tensor.literal)
        return tensor_id

    def literal(self, tensor_id: str, tensor: Tensor, literal: Literal) -> None:
        """Writes the value of a constant."""
        facts = self.facts
        facts.add("literal", tensor_id, exact(literal.text))
        ratio = literal.rational
        if ratio is not None and abs(ratio.numerator) < LIMIT and ratio.denominator < LIMIT:
            facts.add("literal_rational", tensor_id, ratio.numerator, ratio.denominator)
        if literal.sha256 is not None:
            facts.add("literal_hash", tensor_id, literal.sha256)
        items = literal.items
        count = prod(tensor.shape)
        if items is None and ratio is not None and ratio.denominator == 1 and _INTEGER_TYPE.match(tensor.dtype):
            items = (int(ratio),) * count if count <= ITEMS_LIMIT else None
        if items is not None and all(abs(item) < LIMIT for item in items):
            facts.extend("literal_item", ((tensor_id, index, item) for index, item in enumerate(items)))

    def op(self, op: Op, graph_id: str, role: str, prefix: str) -> None:
        """Writes an op's rows."""
        tables = self.facts.tables
        op_id = self._ops.get(op) or self._unique("op", prefix + clean(op.name))
        self.op_ids[op] = op_id
        tables["op"].append((op_id, graph_id, exact(op.kind)))
        tables["operand"] += [(op_id, position, self.ids[operand]) for position, operand in enumerate(op.operands)]
        for position, result in enumerate(op.results):
            tables["result"].append((op_id, position, self.tensor(result, graph_id, prefix, result.name or op.name)))
        for key, values in op.numbers.items():
            name, ranked = exact(key), op.rank_numbers
            tables["attr_number"] += [
                (op_id, name, position, value)
                for position, value in enumerate(values)
                if not ranked or (key, position) not in ranked
            ]
        for key, texts in op.symbols.items():
            name = exact(key)
            tables["attr_symbol"] += [(op_id, name, position, exact(text)) for position, text in enumerate(texts)]
        for (key, position), by_rank in op.rank_numbers.items():
            for rank, value in sorted(by_rank.items()):
                tables["rank_number"].append((op_id, exact(key), position, rank, value))
        for (key, position), strides in op.strides.items():
            tables["number_along"] += [(op_id, exact(key), position, axis, n) for axis, n in strides.items()]
        if op.kind in GROUPED:
            axes = self.axes_along(op, role)
            tables["group_along"] += [(op_id, position, axis) for position, axis in enumerate(axes)]
            for number, position, rank in () if axes else self.members(op, role):
                tables["group"].append((op_id, number, position, rank))
        for source, target in op.pairs or ():
            tables["permute_pair"].append((op_id, source, target))
        for position, region in enumerate(op.regions):
            name = self.graph(region, role, f"{op_id}/{clean(region.name) or position}", f"{op_id}/")
            tables["region"].append((op_id, position, name))
        if op.source:
            frames = self.frames(op.source)
            tables["source"] += [(op_id, n, file, line, function) for n, file, line, function in frames]
        if op.rounding:
            tables["rounding"].append((op_id, exact(op.rounding)))
        if op.layer is not None:
            tables["layer"].append((op_id, op.layer))

    def frames(self, source: Sequence[Frame]) -> list[tuple[int, str, int, str]]:
        """(position, file, line, function) of a source stack; ops share most of their stacks."""
        known = self._stacks.get(id(source))
        if known is None:
            rows = [(n, clean(frame.file), frame.line, clean(frame.function)) for n, frame in enumerate(source)]
            known = self._stacks[id(source)] = source, rows  # the stack is kept, so that no other one gets its id
        return known[1]

    def axes_along(self, op: Op, role: str) -> tuple[str, ...]:
        """The axes along which the groups of a collective are said; none where they are listed."""
        if op.along:
            return tuple(axis for axis, _ in op.along)
        if role == "base" or self._several or self.mesh.size <= LISTED or self.mesh.still:
            return ()
        if op.replica_groups_all and op.groups is None:
            return tuple(axis for axis, size in self.mesh.axes if size > 1)
        if op.groups is None:
            return ()
        known = self._along.get(id(op.groups))
        if known is None:  # the groups are kept, so that no other ones get their id
            every = {rank for group in op.groups for rank in group} == set(self._ranks.all)
            axes = self._ranks.axes_of(op.groups) if every and all(op.groups) else None
            known = self._along[id(op.groups)] = op.groups, axes or ()
        return known[1]

    @cached_property
    def _ranks(self) -> Ranks:
        return Ranks(self.facts["rank_coord"], [axis for axis, _ in self.mesh.axes])

    def members(self, op: Op, role: str) -> Iterator[tuple[int, int, int]]:
        """(group, position, rank) of a collective; a baseline runs on one rank, which is every group."""
        groups = op.groups
        if groups is None and op.replica_groups_all:
            groups = [list(range(self.mesh.size))]
        if role == "base" and groups is not None:
            groups = [[0]]
        for number, group in enumerate(groups or ()):
            for position, rank in enumerate(group):
                yield number, position, rank


class Outline(TableWriter):
    """The same ids, with rows of inputs, constants and outputs alone."""

    def op(self, op: Op, graph_id: str, role: str, prefix: str) -> None:
        """Gives an op and its results their ids."""
        self.op_ids[op] = self._ops.get(op) or self._unique("op", prefix + clean(op.name))
        for result in op.results:
            name = result.name or op.name
            if op.kind == "constant":
                self.tensor(result, graph_id, prefix, name)
            else:
                self.ids[result] = self._names.get(result) or self._unique("tensor", prefix + clean(name))


@lru_cache(maxsize=65536)
def clean(text: str) -> str:
    """A name of the fact files: no tabs, line breaks or other control characters, no separator of made names."""
    return _UNSAFE.sub(" ", text).replace(SEPARATOR, "|") if _UNSAFE.search(text) or SEPARATOR in text else text


@lru_cache(maxsize=65536)
def exact(text: str) -> str:
    """A value of the fact files: what `clean` takes out is written `\\x…;`, so that different texts stay different."""
    return _ESCAPED.sub(lambda found: f"\\x{ord(found[0][0]):x};" + found[0][1:], text)
