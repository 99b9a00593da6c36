"""What makes a facts directory valid (docs/facts.md): keys, references, shapes, groups, placements.

Every check works on whole columns first and looks for the guilty row only when something is wrong, so that valid facts
cost little.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from operator import lt

from scalify_dl.ir.layout import AXIS
from scalify_dl.ir.vocabulary import DTYPES, is_kind

from .constants import check_constants
from .laws import check_ops
from .model import Facts
from .placements import check_assumed, check_groups, check_modes, check_permutes, check_placements
from .premises import check_premises
from .problems import columns, error, first
from .ranks import check_along, still_axes
from .regions import Types
from .schema import TABLES, VERSION


def validate(facts: Facts) -> None:
    """InputError with table, line and column for the first thing that is wrong."""
    for name, table in TABLES.items():
        if table.required and not facts[name] and name != "op":  # a program may return what it is given
            raise error(facts, name, 0, f"table `{name}` is empty", expected=table.signature)
    _schema_version(facts)
    _keys(facts)
    _references(facts)
    _mesh(facts)
    _graphs(facts)
    types = _types(facts)
    _positions(facts)
    _programs(facts)
    check_meaning(facts, types)


def check_written(facts: Facts) -> None:
    """`check_meaning` of facts as they were written, whose types need not be read of their rows."""
    sound = all(dtype in DTYPES and min(shape, default=0) >= 0 for dtype, shape in {*facts.types.values()})
    check_meaning(facts, facts.types if sound and len(facts.types) == len(facts["tensor"]) else None)


def check_meaning(facts: Facts, types: Types | None = None) -> None:
    """Whether tables whose rows refer to each other as they should describe programs: what `validate` asks beyond keys
    and references, of facts that were made in memory. InputError for the first thing that is wrong."""
    types = _types(facts) if types is None else types
    check_placements(facts, types)
    check_premises(facts)
    check_assumed(facts)
    check_groups(facts)
    check_along(facts, types)
    check_ops(facts, types)
    check_constants(facts, types)
    check_permutes(facts)
    check_modes(facts)


def _schema_version(facts: Facts) -> None:
    version = facts.meta.get("schema")
    if version != VERSION:
        raise error(facts, "meta", 0, f"schema version `{version}`", expected=f"a row `schema\t{VERSION}`")


def _keys(facts: Facts) -> None:
    """No key twice."""
    for name, table in TABLES.items():
        rows = facts[name]
        if not rows or not table.key:
            continue
        columns = list(zip(*rows, strict=True))
        keys = list(zip(*(columns[i] for i in table.key), strict=True))
        if len(set(keys)) != len(keys):
            counts = Counter(keys)
            seen: set[tuple[object, ...]] = set()
            for n, key in enumerate(keys):
                if counts[key] > 1:
                    if key in seen:
                        text = ", ".join(map(str, key))
                        names = ", ".join(table.columns[i].name for i in table.key)
                        raise error(
                            facts, name, n, f"duplicate key ({text}) in table `{name}`", expected=f"each {names} once"
                        )
                    seen.add(key)


def _references(facts: Facts) -> None:
    """Every reference has its row."""
    known = {name: {row[0] for row in facts[name]} for name in ("graph", "op", "tensor", "mesh_axis")}
    for name, table in TABLES.items():
        rows = facts[name]
        if not rows:
            continue
        for position, column in enumerate(table.columns):
            if column.refers is None:
                continue
            target = known[column.refers]
            missing = {row[position] for row in rows} - target
            if missing:
                at = first(rows, position, missing)
                raise error(
                    facts,
                    name,
                    at,
                    f"`{rows[at][position]}` is no {column.refers}",
                    column=position + 1,
                    expected=f"the first column of a row of `{column.refers}.facts`",
                )


def _mesh(facts: Facts) -> None:
    """Axes numbered from 0, with names that layouts can have; ranks numbered from 0, one at every coordinate."""
    odd = {row[0] for row in facts["mesh_axis"] if not AXIS.fullmatch(row[0])}
    if odd:
        at = first(facts["mesh_axis"], 0, odd)
        raise error(facts, "mesh_axis", at, f"axis `{facts['mesh_axis'][at][0]}`", expected="no blanks nor `|=,[]*`")
    axes = sorted(facts["mesh_axis"], key=lambda row: row[1])
    for n, (axis, position, size) in enumerate(axes):
        if position != n or size < 1:
            at = first(facts["mesh_axis"], 0, {axis})
            raise error(
                facts,
                "mesh_axis",
                at,
                f"axis `{axis}` has pos {position} and size {size}",
                expected="pos 0, 1, … and sizes from 1",
            )
    still = still_axes(facts.tables)
    sizes = {axis: size for axis, _, size in axes if axis not in still}
    count = prod(sizes.values())
    coordinates: dict[int, dict[str, int]] = {}
    for n, (rank, axis, coordinate) in enumerate(facts["rank_coord"]):
        if not 0 <= coordinate < sizes[axis]:
            raise error(
                facts,
                "rank_coord",
                n,
                f"coordinate {coordinate} on axis `{axis}`",
                column=3,
                expected=f"0 … {sizes[axis] - 1}",
            )
        coordinates.setdefault(rank, {})[axis] = coordinate
    if len(coordinates) != count or sorted(coordinates) != list(range(count)):
        raise error(
            facts,
            "rank_coord",
            0,
            f"{len(coordinates)} ranks, the axes make {count}",
            expected=f"ranks 0 … {count - 1}, each with one row per axis",
        )
    places = {tuple(found.get(axis, -1) for axis in sizes) for found in coordinates.values()}
    if len(places) != count or any(-1 in place for place in places):
        raise error(
            facts, "rank_coord", 0, "ranks share a place or lack a coordinate", expected="one rank at every place"
        )
    for table, column in (("runs", 1), ("group", 3), ("permute_pair", 1), ("permute_pair", 2), ("rank_number", 3)):
        rows = facts[table]
        bad = {row[column] for row in rows} - coordinates.keys()
        if bad:
            at = first(rows, column, bad)
            raise error(
                facts,
                table,
                at,
                f"rank {rows[at][column]} is not on the mesh",
                column=column + 1,
                expected=f"0 … {count - 1}",
            )


def _graphs(facts: Facts) -> None:
    """One baseline, at least one distributed program; ops, operands and results stay in their graph."""
    roles: dict[str, str] = dict(facts["graph"])
    for n, (_, role) in enumerate(facts["graph"]):
        if role not in ("base", "dist"):
            raise error(facts, "graph", n, f"role `{role}`", column=2, expected="base or dist")
    regions = {row[2] for row in facts["region"]}
    top = [graph for graph in roles if graph not in regions]
    if sum(roles[graph] == "base" for graph in top) != 1 or not any(roles[graph] == "dist" for graph in top):
        raise error(
            facts,
            "graph",
            0,
            "no single baseline graph with distributed ones",
            expected="one `base`, one or more `dist`",
        )
    unknown = {kind for kind in {row[2] for row in facts["op"]} if not is_kind(kind)}
    for n, (_, _, kind) in enumerate(facts["op"] if unknown else ()):
        if kind in unknown:
            raise error(
                facts,
                "op",
                n,
                f"unknown op kind `{kind}`",
                column=3,
                expected="a kind of the vocabulary (docs/facts.md)",
                hint=f"an opaque operation is `custom:{kind}`, one without a meaning yet `unknown:{kind}`",
            )
    op_graph = {op: graph for op, graph, _ in facts["op"]}
    tensor_graph = {tensor: graph for tensor, graph, _, _ in facts["tensor"]}
    for table in ("operand", "result"):
        ops, _, tensors = columns(facts[table], 3)
        if list(map(op_graph.__getitem__, ops)) != list(map(tensor_graph.__getitem__, tensors)):
            at = next(n for n, (op, _, tensor) in enumerate(facts[table]) if op_graph[op] != tensor_graph[tensor])
            op, _, tensor = facts[table][at]
            raise error(facts, table, at, f"op `{op}` and tensor `{tensor}` are in different graphs", column=3)
    for table in ("input", "output"):
        for n, (graph, _, tensor) in enumerate(facts[table]):
            if tensor_graph[tensor] != graph:
                raise error(facts, table, n, f"tensor `{tensor}` is not in graph `{graph}`", column=3)
    _made_once(facts)
    for table in ("shard", "expect"):
        width = 2 if table == "shard" else 1
        for n, row in enumerate(facts[table]):
            dist, base = row[0], row[width]
            if roles[tensor_graph[dist]] != "dist" or roles[tensor_graph[base]] != "base":
                raise error(
                    facts,
                    table,
                    n,
                    f"`{dist}` is no distributed tensor or `{base}` no baseline tensor",
                    expected="a tensor of a `dist` graph, then one of the `base` graph",
                    hint="are base and dist swapped?",
                )


def _made_once(facts: Facts) -> None:
    """Every tensor is an input of its graph or the result of one op; ops come without cycles."""
    made = Counter(row[2] for row in facts["result"])
    made.update(row[2] for row in facts["input"])
    if len(made) != len(facts["tensor"]) or max(made.values(), default=0) > 1:
        for n, (tensor, *_) in enumerate(facts["tensor"]):
            if made[tensor] != 1:
                what = "has no origin" if not made[tensor] else f"has {made[tensor]} origins"
                raise error(
                    facts,
                    "tensor",
                    n,
                    f"tensor `{tensor}` {what}",
                    expected="an input of its graph, or the result of one op",
                )
    producer = {tensor: op for op, _, tensor in facts["result"]}
    waiting: dict[str, int] = {}
    users: dict[str, list[str]] = {}
    for op, _, tensor in facts["operand"]:
        source = producer.get(tensor)
        if source is not None:
            waiting[op] = waiting.get(op, 0) + 1
            users.setdefault(source, []).append(op)
    ready = [op for op, _, _ in facts["op"] if op not in waiting]
    done = 0
    while ready:
        op = ready.pop()
        done += 1
        for user in users.get(op, ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if done != len(facts["op"]):
        at = first(facts["op"], 0, {op for op, count in waiting.items() if count})
        raise error(facts, "op", at, f"op `{facts['op'][at][0]}` depends on itself", expected="a graph without cycles")


def _types(facts: Facts) -> Types:
    """Dims 0 … rank-1 of every tensor; returns the types of all."""
    ranks: dict[str, int] = {tensor: rank for tensor, _, _, rank in facts["tensor"]}
    unknown = {dtype for _, _, dtype, _ in facts["tensor"]} - DTYPES
    if unknown:
        at = first(facts["tensor"], 2, unknown)
        raise error(
            facts, "tensor", at, f"dtype `{facts['tensor'][at][2]}`", column=3, expected="pred, s32, f32, bf16, …"
        )
    if (types := _in_order(facts)) is not None:
        return types
    tensors, positions, sizes = columns(facts["dim"], 3)
    if min(sizes, default=0) < 0:
        at = next(n for n, size in enumerate(sizes) if size < 0)
        raise error(facts, "dim", at, f"size {sizes[at]}", column=3, expected="a size from 0")
    counts = Counter(tensors)
    complete = counts == {tensor: rank for tensor, rank in ranks.items() if rank}
    if not complete or not all(map(lt, positions, map(ranks.__getitem__, tensors))) or min(positions, default=0) < 0:
        dims: dict[str, set[int]] = {}
        for tensor, position, _ in facts["dim"]:
            dims.setdefault(tensor, set()).add(position)

        def lacking(tensor: str, rank: int) -> bool:
            found = dims.get(tensor, set())
            return len(found) != rank or found != set(range(rank))

        at = next(n for n, row in enumerate(facts["tensor"]) if lacking(row[0], row[3]))
        tensor, _, _, rank = facts["tensor"][at]
        raise error(
            facts,
            "tensor",
            at,
            f"tensor `{tensor}` has rank {rank} and dims {sorted(dims.get(tensor, ()))}",
            column=4,
            expected="one row in `dim` for each of 0 … rank-1",
        )
    shapes: dict[str, list[int]] = {tensor: [0] * rank for tensor, rank in ranks.items()}
    for tensor, position, size in facts["dim"]:
        shapes[tensor][position] = size
    return {tensor: (dtype, tuple(shapes[tensor])) for tensor, _, dtype, _ in facts["tensor"]}


def _in_order(facts: Facts) -> Types | None:
    """The types of all tensors where the dims of each have rows in their order, as they mostly have; else None."""
    shapes: dict[str, list[int]] = {row[0]: [] for row in facts["tensor"]}
    for tensor, position, size in facts["dim"]:
        shape = shapes.get(tensor)
        if shape is None or position != len(shape) or size < 0:
            return None
        shape.append(size)
    if any(len(shapes[tensor]) != rank for tensor, _, _, rank in facts["tensor"]):
        return None
    return {tensor: (dtype, tuple(shapes[tensor])) for tensor, _, dtype, _ in facts["tensor"]}


def _programs(facts: Facts) -> None:
    """Every region belongs to one op, on its side of the proof. Every rank runs one program at most: several
    distributed ones say which ranks run them."""
    roles: dict[str, str] = dict(facts["graph"])
    graph_of = {op: graph for op, graph, _ in facts["op"]}
    owner: dict[str, tuple[str, int]] = {}
    for n, (op, position, graph) in enumerate(facts["region"]):
        other, _ = owner.setdefault(graph, (op, position))
        if owner[graph] != (op, position):
            raise error(
                facts,
                "region",
                n,
                f"graph `{graph}` is a region of `{other}` and of `{op}`",
                column=3,
                expected="a graph of its own for every region",
                hint="write the graph once for each",
            )
        if roles[graph] != roles[graph_of[op]]:
            raise error(facts, "region", n, f"`{op}` and its region `{graph}` have different roles", column=3)
    regions = {row[2] for row in facts["region"]}
    programs = [graph for graph, role in facts["graph"] if role == "dist" and graph not in regions]
    runner: dict[int, str] = {}
    for n, (graph, rank) in enumerate(facts["runs"]):
        if graph not in programs or runner.setdefault(rank, graph) != graph:
            other = f", which runs `{runner[rank]}`" if rank in runner else ""
            raise error(
                facts,
                "runs",
                n,
                f"`{graph}` on rank {rank}{other}",
                expected="distributed programs (no regions), each rank with one of them",
            )
    silent = [graph for graph in programs if graph not in runner.values()]
    if len(programs) > 1 and silent:
        at = first(facts["graph"], 0, set(silent))
        raise error(
            facts, "graph", at, f"nobody runs `{silent[0]}`", expected="rows in `runs`, one for each of its ranks"
        )


def _positions(facts: Facts) -> None:
    """Numbered lists start at 0 and have no gaps."""
    for table in ("operand", "result", "input", "output", "region"):
        owners, positions, _ = columns(facts[table], 3)
        counts = Counter(owners)
        if not all(map(lt, positions, map(counts.__getitem__, owners))) or min(positions, default=0) < 0:
            at = next(n for n, row in enumerate(facts[table]) if not 0 <= row[1] < counts[row[0]])
            raise error(
                facts, table, at, f"positions of `{facts[table][at][0]}` have gaps", column=2, expected="0, 1, 2, …"
            )
    regions = {row[0] for row in facts["region"]}
    loops = {"while", "conditional"}
    for n, (op, _, kind) in enumerate(facts["op"]):
        if kind in loops and op not in regions:
            raise error(facts, "op", n, f"`{op}` ({kind}) has no rows in `region`")
