"""One side of a plan as data: ops by rank in the order in which they run, what they read and make, who meets whom.

Nothing is judged here but that rows refer to what is there: an op, a tensor or a rank that no row describes is bad
input, told with its file and line.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from scalify_dl.errors import InputError, one_of

from .meanings.declared import Function
from .meanings.declared import read as read_functions
from .stages import even
from .tables import Rows, Tables

STEP = -1
"""The micro-batch of what belongs to the whole step: weights, sums over micro-batches."""

SUM = "local_grad_accumulation"
REDUCER = "reducer"
LOADER = "dataloader"
MOVE = "MovePrim"
BROADCAST = "BroadcastPrim"
GROUPED = frozenset(
    {"AllReducePrim", "AllGatherPrim", "ReduceScatterPrim", "AllToAllPrim", "BroadcastPrim", "ChunkPrim"}
)
"""Kinds that have members."""
LOCAL = frozenset({"ChunkPrim", "IdentityPrim"})
"""Those that every member runs alone."""
ADAPTERS = GROUPED | LOCAL | {MOVE}
COLLECTIVES = (*sorted(GROUPED | LOCAL), "WRed")
"""What the table `coll` calls them; `WRed` is a reducer."""
DIRECTIONS = ("fw", "bw", "-")


@dataclass(slots=True)
class Op:
    """One op on one rank: for one micro-batch, or for the step."""

    id: str
    rank: int
    mb: int
    seq: int
    cid: int
    name: str
    kind: str
    direction: str
    line: int
    reads: list[str] = field(default_factory=list)
    makes: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    constants: list[tuple[str, str]] = field(default_factory=list)
    group: tuple[str, str, int] | None = None
    members: list[int] = field(default_factory=list)
    move: tuple[int, int] | None = None
    weights: list[str] = field(default_factory=list)
    prim: str = ""

    @property
    def sends(self) -> bool:
        """Whether it is the sending end of a message."""
        return self.move is not None and self.move[0] == self.rank

    @property
    def broadcast_from(self) -> int:
        """Where a broadcast comes from: its `src`, else its first member."""
        text = self.attributes.get("src", "")
        return int(text) if text.isdigit() else self.members[0]

    @property
    def backward(self) -> bool:
        """Whether it belongs to the backward pass."""
        return self.direction == "bw"


class Value(NamedTuple):
    """A tensor of one rank, or in transit (a negative rank): which part of a tensor of the model it is (`tid`), and its
    version."""

    rank: int
    mb: int
    tid: str
    version: int
    given: bool
    """Whether it is there before the step: a weight, a constant, the gradient of the loss."""


class Full(NamedTuple):
    """A tensor of the model."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    gradient: bool
    parameter: bool
    loss: bool


@dataclass(slots=True)
class Part:
    """Which part of a tensor of the model: its slice in every dim, and which of how many addends."""

    full: str
    spans: tuple[tuple[int, int], ...]
    addend: int = 0
    addends: int = 1
    shape: tuple[int, ...] = field(init=False, compare=False)
    """Sizes of the part."""

    def __post_init__(self) -> None:
        self.shape = tuple([hi - lo for lo, hi in self.spans])

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass
class Side:
    """One side of a plan."""

    tables: Tables
    world: dict[str, int]
    places: dict[int, tuple[int, int, int]]
    """Rank → its coordinates (dp, pp, tp)."""
    ops: dict[str, Op]
    values: dict[str, Value]
    parts: dict[str, Part]
    fulls: dict[str, Full]
    weight_of: dict[str, str]
    """Tid of a gradient → tid of its weight."""
    updates: dict[str, str] = field(default_factory=dict)
    """Tid of what a weight is after the step → tid of the weight."""
    functions: dict[str, Function] = field(default_factory=dict)
    """Functions of the model that are declared beside the tables."""
    repeated: bool = False
    """Whether these are copies and a micro-batch that all others, which are written out, were compared with."""

    def part(self, tensor: str) -> Part:
        """The part of the model's tensors that a tensor is."""
        return self.parts[self.values[tensor].tid]

    def full(self, tensor: str) -> Full:
        """The tensor of the model that a tensor is a part of."""
        return self.fulls[self.part(tensor).full]

    def named(self, tid: str) -> str:
        """The name of the model's tensor of a tid."""
        return self.fulls[self.parts[tid].full].name

    def programs(self) -> Iterator[list[Op]]:
        """The ops of every rank, in the order in which they run."""
        by_rank: dict[int, list[Op]] = {rank: [] for rank in self.places}
        for op in self.ops.values():
            by_rank[op.rank].append(op)
        for program in by_rank.values():
            program.sort(key=lambda op: op.seq)
            yield program


def read_side(tables: Tables) -> Side:
    """The model of one side; InputError where rows refer to what is not there, or contradict each other."""
    places = _places(tables)
    fulls = _fulls(tables)
    parts = _parts(tables, fulls)
    values: dict[str, Value] = {}
    world = _world(tables)
    written = world.get("written_mb", world["num_mb"])
    for n, (tensor, _, rank, mb, tid, version, init) in enumerate(tables["tensor"]):
        if tid not in parts:
            raise tables.error("tensor", n, f"no row of `sub_slice` says what tid {tid} is a part of")
        if rank >= 0 and rank not in places:
            raise _no_rank(tables, "tensor", n, rank)
        if tensor in values:
            raise tables.error("tensor", n, f"tensor `{tensor}` a second time")
        if not STEP <= mb < written:
            raise tables.error("tensor", n, f"micro-batch {mb}", expected=f"-1, or 0 … {written - 1}")
        values[tensor] = Value(rank, mb, tid, version, init == 1)
    ops: dict[str, Op] = {}
    for n, (op, _, rank, mb, seq, cid, name, kind, direction) in enumerate(tables["op"]):
        if rank not in places:
            raise _no_rank(tables, "op", n, rank)
        if op in ops:
            raise tables.error("op", n, f"op `{op}` a second time", hint=f"the first is in line {ops[op].line}")
        if not STEP <= mb < written:
            raise tables.error("op", n, f"micro-batch {mb}", expected=f"-1, or 0 … {written - 1}")
        if not kind:
            raise tables.error("op", n, f"op `{op}` has no kind")
        if direction not in DIRECTIONS:
            raise tables.error("op", n, f"direction `{direction}`", column=9, **one_of(direction, DIRECTIONS))
        ops[op] = Op(op, rank, mb, seq, cid, name, kind, direction, tables.line(n))
    if not ops:
        raise InputError("no ops", file=tables.file("op"), expected="at least one row")
    side = Side(tables, world, places, ops, values, parts, fulls, {}, functions=read_functions(tables.directory))
    _operands(side)
    _details(side)
    _communication(side)
    for table, what, found in (("grad_of", "the gradient of", side.weight_of), ("update", "a new", side.updates)):
        for n, (_, made, weight) in enumerate(tables[table]):
            for tid in (made, weight):
                if tid not in parts:
                    raise tables.error(table, n, f"no row of `sub_slice` has tid {tid}")
            if found.get(made, weight) != weight:
                raise tables.error(table, n, f"tid {made} is {what} {found[made]} as well")
            found[made] = weight
    tables.close()
    return side


def _no_rank(tables: Tables, table: str, n: int, rank: int) -> InputError:
    return tables.error(table, n, f"rank {rank} is absent from `{tables.file('mesh').name}`")


def _world(tables: Tables) -> dict[str, int]:
    world: dict[str, int] = {key: value for _, key, value in tables["world"]}
    for key in ("plan_ndevs", "runtime_ndevs", "num_dp", "num_tp", "num_pp", "num_mb"):
        if key not in world:
            raise InputError(f"no row says `{key}`", file=tables.file("world"), expected="a number")
    for n, (_, key, value) in enumerate(tables["world"]):
        if world[key] != value:
            raise tables.error("world", n, f"`{key}` is {value} here and {world[key]} elsewhere")
        if value < 1:
            raise tables.error("world", n, f"`{key}` is {value}", expected="a number from 1")
        if key == "written_mb" and value not in (1, world["num_mb"]):
            raise tables.error("world", n, f"`{key}` is {value}", expected="1, the first micro-batch, or all of them")
    return world


def _places(tables: Tables) -> dict[int, tuple[int, int, int]]:
    """Rank → (dp, pp, tp), each coordinate within the world, each place taken once."""
    world = _world(tables)
    sizes = tuple(world[key] for key in ("num_dp", "num_pp", "num_tp"))
    places: dict[int, tuple[int, int, int]] = {}
    taken: dict[tuple[int, int, int], int] = {}
    for n, (_, rank, *place) in enumerate(tables["mesh"]):
        at = (place[0], place[1], place[2])
        if rank in places:
            raise tables.error("mesh", n, f"rank {rank} a second time")
        if any(not 0 <= c < size for c, size in zip(at, sizes, strict=True)):
            raise tables.error("mesh", n, f"rank {rank} is at {at}", expected=f"within dp, pp, tp = {sizes}")
        if at in taken:
            raise tables.error("mesh", n, f"rank {rank} is at {at}, as rank {taken[at]} is")
        places[rank], taken[at] = at, rank
    copies = {d for d, _, _ in places.values()}
    one, written = sizes[1] * sizes[2], len(copies)
    even(tables, places)
    if len(places) != written * one or copies != set(range(written)) or not written or sizes[0] % written:
        raise InputError(
            f"ranks are absent: {len(places)} are placed",
            file=tables.file("mesh"),
            line=len(tables["mesh"]),
            expected=f"{sizes[0] * one} (dp · pp · tp), or the {one} of the first dp copy, or those of the first few",
        )
    if written < sizes[0] and (set(places) != set(range(written * one)) or world["plan_ndevs"] != written * one):
        raise InputError(
            f"in unit form, {written * one} ranks of {world['plan_ndevs']} (`plan_ndevs`) are written",
            file=tables.file("mesh"),
            line=len(tables["mesh"]),
            expected="ranks 0, 1, … of the first copies, and `plan_ndevs` of them",
        )
    return places


def _fulls(tables: Tables) -> dict[str, Full]:
    fulls = {}
    for n, (_, full, name, dtype, shape, gradient, parameter, loss) in enumerate(tables["full"]):
        try:
            sizes = tuple(map(int, shape.split("x"))) if shape not in ("", "()") else ()
        except ValueError:
            raise tables.error("full", n, f"`{shape}` is no shape", expected="sizes such as 16x64") from None
        if full in fulls:
            raise tables.error("full", n, f"tensor {full} of the model a second time")
        fulls[full] = Full(name, dtype, sizes, gradient == 1, parameter == 1, loss == 1)
    return fulls


def _parts(tables: Tables, fulls: dict[str, Full]) -> dict[str, Part]:
    spans: dict[str, dict[int, tuple[int, int]]] = {}
    owners: dict[str, str] = {}
    before, own, shape, dims = "", "", tuple[int, ...](), dict[int, tuple[int, int]]()
    for n, (_, tid, full, dim, lo, hi) in enumerate(tables["sub_slice"]):
        if tid != before or full != own or not n:
            if full not in fulls:
                raise tables.error("sub_slice", n, f"no row of `full` describes {full}")
            if owners.setdefault(tid, full) != full:
                raise tables.error("sub_slice", n, f"tid {tid} is a part of {full} here and of {owners[tid]} elsewhere")
            before, own, shape, dims = tid, full, fulls[full].shape, spans.setdefault(tid, {})
        if not (0 <= dim < len(shape) and 0 <= lo < hi <= shape[dim]):
            raise tables.error("sub_slice", n, f"{lo}:{hi} in dim {dim}", expected=f"within the shape {shape}")
        if dim in dims:
            raise tables.error("sub_slice", n, f"dim {dim} of tid {tid} a second time")
        dims[dim] = (lo, hi)
    addends: dict[str, tuple[int, int]] = {}
    for n, (_, tid, part, parts) in enumerate(tables["sub_val"]):
        if not 0 <= part < parts:
            raise tables.error("sub_val", n, f"addend {part} of {parts}")
        addends[tid] = (part, parts)
    out = {}
    for tid, dims in spans.items():
        rank = len(fulls[owners[tid]].shape)
        if len(dims) != rank:
            n = next(n for n, row in enumerate(tables["sub_slice"]) if row[1] == tid)
            raise tables.error("sub_slice", n, f"tid {tid} has {len(dims)} dims, its tensor has {rank}")
        out[tid] = Part(owners[tid], tuple([dims[d] for d in range(rank)]), *addends.get(tid, (0, 1)))
    return out


def _op(side: Side, table: str, n: int, name: str) -> Op:
    found = side.ops.get(name)
    if found is None:
        raise side.tables.error(table, n, f"unknown op `{name}`", expected=f"an op of `{side.tables.file('op').name}`")
    return found


def _by_op(side: Side, table: str, column: int) -> Iterator[tuple[Sequence[int], Op, Sequence[Any]]]:
    """A column of a table with positions, op by op: its rows in their order, numbered from 0 without a gap."""
    rows = side.tables[table]
    spans = _spans(rows)
    if spans is not None:
        ops, cells = rows.columns[0], rows.columns[column]
        for start, end in spans:
            yield range(start, end), _op(side, table, start, ops[start]), cells[start:end]
        return
    found: dict[str, tuple[list[int], Op, list[Any]]] = {}
    for n, row in sorted(enumerate(rows), key=lambda row: row[1][:2]):
        lines, _, cells = found.setdefault(row[0], ([], _op(side, table, n, row[0]), []))
        if row[1] != len(lines):
            raise side.tables.error(table, n, f"position {row[1]} of `{row[0]}`", expected=f"{len(lines)}")
        lines.append(n)
        cells.append(row[column])
    yield from found.values()


def _spans(rows: Rows) -> list[tuple[int, int]] | None:
    """Where the rows of every op begin and end, if they stand together in their order."""
    ops, positions = rows.columns[:2]
    starts = [n for n, pos in enumerate(positions) if not pos]
    if len({ops[n] for n in starts}) < len(starts) or (starts[0] if starts else len(ops)):
        return None
    spans = list(pairwise([*starts, len(ops)]))
    numbers = array("q", range(max((end - start for start, end in spans), default=0)))
    for start, end in spans:
        count = end - start
        if count > 1 and (positions[start:end] != numbers[:count] or ops[start:end].count(ops[start]) != count):
            return None
    return spans


def _operands(side: Side) -> None:
    values = side.values
    for table in ("in", "out"):
        for lines, op, tensors in _by_op(side, table, 2):
            for n, tensor in zip(lines, tensors, strict=True):
                value = values.get(tensor)
                if value is None:
                    raise side.tables.error(
                        table, n, f"unknown tensor `{tensor}`", expected=f"one of `{side.tables.file('tensor').name}`"
                    )
                if value.rank != op.rank and not (value.rank < 0 and op.kind in (MOVE, BROADCAST)):
                    raise side.tables.error(
                        table, n, f"`{op.id}` of rank {op.rank} has `{tensor}` of rank {value.rank}",
                        expected="a tensor of its own rank; values of other ranks come by messages",
                    )  # fmt: skip
            (op.reads if table == "in" else op.makes).extend(tensors)


def _details(side: Side) -> None:
    for n, row in enumerate(side.tables["attr"]):
        attributes = _op(side, "attr", n, row[0]).attributes
        if row[1] in attributes:
            raise side.tables.error("attr", n, f"`{row[1]}` of `{row[0]}` a second time")
        attributes[row[1]] = row[3]
    kinds = side.tables["const"].columns[2]
    for lines, op, texts in _by_op(side, "const", 3):
        op.constants.extend((kinds[n], text) for n, text in zip(lines, texts, strict=True))
    for n, row in enumerate(side.tables["adapter"]):
        _op(side, "adapter", n, row[0]).prim = row[2]


def _communication(side: Side) -> None:
    ranks = side.world["runtime_ndevs"]
    for n, row in enumerate(side.tables["coll"]):
        op = _op(side, "coll", n, row[0])
        op.group = (row[1], row[2], row[3])
        if row[2] not in COLLECTIVES:
            raise side.tables.error("coll", n, f"collective `{row[2]}`", column=3, **one_of(row[2], COLLECTIVES))
        kinds = (*sorted(GROUPED | LOCAL), REDUCER)
        if op.kind not in kinds:
            text = f"`{op.kind}` with a row of `coll`"
            raise side.tables.error("op", op.line - 1, text, column=8, **one_of(op.kind, kinds))
    for lines, op, members in _by_op(side, "coll_member", 2):
        if min(members) < 0 or max(members) >= ranks:
            n, rank = next((n, rank) for n, rank in zip(lines, members, strict=True) if not 0 <= rank < ranks)
            raise side.tables.error("coll_member", n, f"rank {rank} is absent", expected=f"one of 0 … {ranks - 1}")
        op.members.extend(members)
    for op in side.ops.values():
        if op.kind == BROADCAST and not op.members:  # some exports say it in the attribute alone
            op.members = [int(word) for word in re.findall(r"\d+", op.attributes.get("ranks", ""))]
    for n, row in enumerate(side.tables["p2p"]):
        op = _op(side, "p2p", n, row[0])
        for rank in row[1:]:
            if rank not in side.places:
                raise _no_rank(side.tables, "p2p", n, rank)
        op.move = (row[1], row[2])
    for n, row in enumerate(side.tables["wred"]):
        if row[2] not in side.parts:
            raise side.tables.error("wred", n, f"no row of `sub_slice` has the weight {row[2]}")
        _op(side, "wred", n, row[0]).weights.append(row[2])
