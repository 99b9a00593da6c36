"""Fact tables as an executable model: graphs of ops in an order that can run, shapes, mesh, input correspondences.

A `Program` is a view of the tables of `docs/facts.md`; it may hold other sizes than the tables did (see `shrink`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.facts.ranks import written_out
from scalify_dl.ir.layout import Layout

from .addressing import Piece, layout_of, piece_of
from .dtypes import integer_limits, is_integer

Tables = Mapping[str, Iterable[Sequence[Any]]]


@dataclass(slots=True)
class Tensor:
    """`dtype` as in docs/facts.md, `shape` in elements."""

    id: str
    dtype: str
    shape: tuple[int, ...]
    literal: str | None = None
    items: tuple[int, ...] | None = None
    sha256: str | None = None


@dataclass(slots=True)
class Op:
    """One op. `by_rank[key][pos][rank]` overrides `numbers[key][pos]` on that rank."""

    id: str
    kind: str
    operands: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    symbols: dict[str, list[str]] = field(default_factory=dict)
    by_rank: dict[str, dict[int, dict[int, int]]] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    regions: list[str] = field(default_factory=list)
    declared: Any = None
    """The structure of an opaque call, where rules declare one (`meaning/declared.py`)."""

    def number(self, key: str, rank: int, default: Sequence[int] | None = None) -> list[int]:
        """The list-valued attribute on a rank; `default` where it is absent."""
        per_rank = self.by_rank.get(key)
        if per_rank is None:
            values = self.numbers.get(key)
            if values is None:
                if default is None:
                    raise InputError(
                        f"op {self.id} ({self.kind}) has no attribute `{key}`", expected="see docs/facts.md"
                    )
                return list(default)
            return values
        base = dict(enumerate(self.numbers.get(key, [])))
        base.update({pos: values[rank] for pos, values in per_rank.items() if rank in values})
        return [base[pos] for pos in sorted(base)]

    def symbol(self, key: str, default: str | None = None) -> str:
        """The scalar symbol attribute; `default` where it is absent."""
        values = self.symbols.get(key)
        if values:
            return values[0]
        if default is None:
            raise InputError(f"op {self.id} ({self.kind}) has no attribute `{key}`", expected="see docs/facts.md")
        return default


@dataclass(slots=True)
class Graph:
    """Ops in an order in which they can run. `ranks` run it; sub-graphs (regions) have role of their parent."""

    id: str
    role: str
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shard:
    """An assumed (or derived) correspondence between a distributed and a baseline value."""

    dist: str
    dist_piece: Piece
    base: str
    base_piece: Piece
    layout: Layout


@dataclass(slots=True)
class Program:
    """Baseline and distributed graphs with the mesh and what relates their inputs and outputs."""

    mesh: dict[str, int]
    coords: dict[int, dict[str, int]]
    graphs: dict[str, Graph]
    tensors: dict[str, Tensor]
    shards: list[Shard]
    expects: list[tuple[str, str, str]]
    ranges: dict[str, tuple[int, int]]
    assumed: dict[str, list[str]]
    names: dict[str, str]
    region_graphs: set[str]
    special: dict[str, list[int]] = field(default_factory=dict)
    """Values of integer inputs that every run should try."""
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Integers that a captured run had of inputs without range; a negative least one is a label that is ignored."""
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The least and the greatest number of integer inputs that types of both sides have, where these differ."""
    alike: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Dims of baseline inputs along which all elements are drawn equal."""

    finite: frozenset[str] | None = None
    """Baseline inputs that a proof takes for finite, None where that is not known."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks of the mesh."""
        return tuple(sorted(self.coords))

    def top(self, role: str) -> list[Graph]:
        """The graphs of that role that are not loop bodies or branches."""
        return [g for g in self.graphs.values() if g.role == role and g.id not in self.region_graphs]

    def producer(self) -> dict[str, Op]:
        """Which op makes a tensor (inputs have none)."""
        return {result: op for graph in self.graphs.values() for op in graph.ops for result in op.results}

    def name(self, tensor: str) -> str:
        """The name people know."""
        return self.names.get(tensor, tensor)


def _dense(rows: dict[int, Any], *what: object) -> list[Any]:
    """Values in the order of their positions; `what` they are, piece by piece."""
    for position, given in enumerate(rows):
        if position != given:
            break
    else:  # in order, as tables are mostly
        return [*rows.values()]
    if sorted(rows) != list(range(len(rows))):
        text = "".join(map(str, what))
        raise InputError(f"{text}: positions {sorted(rows)} have gaps", expected="positions from 0 without gaps")
    return [rows[i] for i in range(len(rows))]


def _attributes(tables: Tables, ops: dict[str, Op]) -> None:
    symbols: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for op, key, pos, value in tables.get("attr_symbol", ()):
        symbols[op, key][pos] = value
    for (op, key), texts in symbols.items():
        ops[op].symbols[key] = _dense(texts, "attribute `", key, "` of op ", op)
    for op, key, pos, rank, value in tables.get("rank_number", ()):
        ops[op].by_rank.setdefault(key, {}).setdefault(pos, {})[rank] = value
    numbers: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for op, key, pos, value in tables.get("attr_number", ()):
        numbers[op, key][pos] = value
    for name, ranked in ((op.id, op.by_rank) for op in ops.values() if op.by_rank):
        for key, by_pos in ranked.items():
            for pos in by_pos:
                numbers[name, key].setdefault(pos, 0)
    for (op, key), values in numbers.items():
        ops[op].numbers[key] = _dense(values, "attribute `", key, "` of op ", op)


def _wiring(tables: Tables, ops: dict[str, Op]) -> None:
    for table, attribute in (("operand", "operands"), ("result", "results"), ("region", "regions")):
        rows: dict[str, dict[int, str]] = defaultdict(dict)
        for op, pos, other in tables.get(table, ()):
            rows[op][pos] = other
        for op, entries in rows.items():
            setattr(ops[op], attribute, _dense(entries, table, " of op ", op))
    groups: dict[str, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for op, group, pos, rank in tables.get("group", ()):
        groups[op][group][pos] = rank
    for op, members in groups.items():
        ops[op].groups = [_dense(members[g], "group ", g, " of op ", op) for g in sorted(members)]
    for op, source, target in tables.get("permute_pair", ()):
        ops[op].pairs.append((source, target))


def _ordered(graph: Graph) -> list[Op]:
    """The ops so that operands come before users; otherwise as they stand."""
    made = {result: op for op in graph.ops for result in op.results}
    order: list[Op] = []
    state: dict[str, int] = {}
    for root in graph.ops:
        stack = [(root, iter(root.operands))]
        if state.get(root.id):
            continue
        state[root.id] = 1
        while stack:
            op, operands = stack[-1]
            for operand in operands:
                source = made.get(operand)
                if source is None or state.get(source.id) == 2:
                    continue
                if state.get(source.id) == 1:
                    raise InputError(f"op {source.id} depends on its own result", expected="a graph without cycles")
                state[source.id] = 1
                stack.append((source, iter(source.operands)))
                break
            else:
                state[op.id] = 2
                order.append(op)
                stack.pop()
    return order


def load_program(tables: Tables) -> Program:
    """The program of fact tables (table name → rows with numbers as `int`).

    Raises InputError where the tables do not describe graphs that can run (gaps, cycles, dangling names), or have more
    ranks than can be run one by one.
    """
    tables = written_out(tables)
    shapes: dict[str, dict[int, int]] = defaultdict(dict)
    for tensor, pos, size in tables.get("dim", ()):
        shapes[tensor][pos] = size
    tensors = {
        tensor: Tensor(tensor, dtype, tuple(_dense(shapes[tensor], "dims of ", tensor)))
        for tensor, _graph, dtype, _rank in tables.get("tensor", ())
    }
    for tensor, text in tables.get("literal", ()):
        tensors[tensor].literal = text
    for tensor, digest in tables.get("literal_hash", ()):
        tensors[tensor].sha256 = digest
    items: dict[str, dict[int, int]] = defaultdict(dict)
    for tensor, index, value in tables.get("literal_item", ()):
        items[tensor][index] = value
    for tensor, values in items.items():
        text = tensors[tensor].literal
        if text is not None and not text.startswith("{"):
            continue  # a splat: the text says it all, at any size
        tensors[tensor].items = tuple(_dense(values, "literal_item of ", tensor))

    graphs = {graph: Graph(graph, role) for graph, role in tables.get("graph", ())}
    ops: dict[str, Op] = {}
    for op, graph, kind in tables.get("op", ()):
        ops[op] = Op(op, kind)
        graphs[graph].ops.append(ops[op])
    try:
        _wiring(tables, ops)
        _attributes(tables, ops)
    except KeyError as missing:
        raise InputError(f"a table refers to op {missing}, which table `op` does not have") from None
    ports: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for table in ("input", "output"):
        for graph, pos, tensor in tables.get(table, ()):
            ports[table, graph][pos] = tensor
    for graph in graphs.values():
        graph.inputs = _dense(ports["input", graph.id], "inputs of ", graph.id)
        graph.outputs = _dense(ports["output", graph.id], "outputs of ", graph.id)
        graph.ops = _ordered(graph)

    mesh = {axis: size for axis, _pos, size in sorted(tables.get("mesh_axis", ()), key=lambda row: row[1])}
    coords: dict[int, dict[str, int]] = defaultdict(dict)
    for rank, axis, coord in tables.get("rank_coord", ()):
        coords[rank][axis] = coord
    runs: dict[str, list[int]] = defaultdict(list)
    for graph, rank in tables.get("runs", ()):
        runs[graph].append(rank)
    for graph in graphs.values():
        everyone = sorted(coords) or [0]
        graph.ranks = (0,) if graph.role == "base" else tuple(sorted(runs.get(graph.id, everyone)))
    assumed: dict[str, list[str]] = defaultdict(list)
    for tensor, text, _why in tables.get("assume", ()):
        assumed[tensor].append(text)
    shards = [
        Shard(dist, piece_of(dist_piece), base, piece_of(base_piece), layout_of(layout))
        for dist, dist_piece, base, base_piece, layout, _why in tables.get("shard", ())
    ]
    limits = _limits(tensors, shards)

    def within(tensor: str, lo: int, hi: int) -> tuple[int, int]:
        least, most = limits.get(tensor) or integer_limits(tensors[tensor].dtype)
        return max(lo, least), min(hi, most + 1)

    return Program(
        mesh,
        dict(coords) or {0: {}},
        graphs,
        tensors,
        shards,
        [(dist, base, layout) for dist, base, layout in tables.get("expect", ())],
        {tensor: within(tensor, lo, hi) for tensor, lo, hi, *_ in tables.get("range", ())},
        dict(assumed),
        dict(tables.get("tensor_name", ())),  # type: ignore[arg-type]
        {graph for _op, _pos, graph in tables.get("region", ())},
        seen={tensor: (lo, hi) for tensor, lo, hi in tables.get("seen", ())},
        limits=limits,
    )


def _limits(tensors: Mapping[str, Tensor], shards: Iterable[Shard]) -> dict[str, tuple[int, int]]:
    """What an input can be on both sides: they are assumed to hold the same integers, whatever their types."""
    found: dict[str, tuple[int, int]] = {}
    for row in shards:
        ours, theirs = (tensors[t].dtype for t in (row.base, row.dist))
        if ours != theirs and is_integer(ours) and is_integer(theirs):
            least, most = found.get(row.base) or integer_limits(ours)
            lo, hi = integer_limits(theirs)
            found[row.base] = max(least, lo), min(most, hi)
    return found


def relations(rows: Iterable[Sequence[str]]) -> list[Shard]:
    """Rows `dist, dist_piece, base, base_piece, layout` (a `corr` table) as correspondences."""
    return [
        Shard(dist, piece_of(dist_piece), base, piece_of(base_piece), layout_of(layout))
        for dist, dist_piece, base, base_piece, layout, *_ in rows
    ]
