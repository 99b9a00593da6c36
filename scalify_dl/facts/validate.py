"""What makes a facts directory valid (docs/facts.md): keys, references, shapes, groups, placements.

Every check works on whole columns first and looks for the guilty row only when something is wrong, so that valid facts
cost little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import prod

from scalify_dl.errors import InputError

from .layout import Layout, parse_piece, piece_shape
from .model import Facts, Row
from .schema import TABLES, VERSION
from .vocabulary import DTYPES, GROUPED, is_kind


def validate(facts: Facts) -> None:
    """InputError with table, line and column for the first thing that is wrong."""
    for name, table in TABLES.items():
        if table.required and not facts[name]:
            raise error(facts, name, 0, f"table `{name}` is empty", expected=table.signature)
    _schema_version(facts)
    _keys(facts)
    _references(facts)
    _mesh(facts)
    _graphs(facts)
    sizes = _shapes(facts)
    _positions(facts)
    _placements(facts, sizes)
    _groups(facts)


def error(
    facts: Facts,
    table: str,
    row: int,
    message: str,
    *,
    column: int = 1,
    expected: str | None = None,
    hint: str | None = None,
) -> InputError:
    """An error about one row (0-based)."""
    file, line = facts.place(table, row)
    return InputError(message, file=file, line=line, column=column, expected=expected, hint=hint)


def where(rows: Iterable[Row], bad: Callable[[Row], bool]) -> int:
    """The first row that is bad."""
    return next(n for n, row in enumerate(rows) if bad(row))


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
                at = where(rows, lambda row, position=position, missing=missing: row[position] in missing)  # type: ignore[misc]
                raise error(
                    facts,
                    name,
                    at,
                    f"`{rows[at][position]}` is no {column.refers}",
                    column=position + 1,
                    expected=f"the first column of a row of `{column.refers}.facts`",
                )


def _mesh(facts: Facts) -> None:
    """Axes numbered from 0; ranks numbered from 0, one at every coordinate."""
    axes = sorted(facts["mesh_axis"], key=lambda row: row[1])
    for n, (axis, position, size) in enumerate(axes):
        if position != n or size < 1:
            at = where(facts["mesh_axis"], lambda row, axis=axis: row[0] == axis)  # type: ignore[misc]
            raise error(
                facts,
                "mesh_axis",
                at,
                f"axis `{axis}` has pos {position} and size {size}",
                expected="pos 0, 1, … and sizes from 1",
            )
    sizes = {axis: size for axis, _, size in axes}
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
    if sorted(coordinates) != list(range(count)):
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
            at = where(rows, lambda row, column=column, bad=bad: row[column] in bad)  # type: ignore[misc]
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
    roles = dict(facts["graph"])
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
    for n, (_, _, kind) in enumerate(facts["op"]):
        if not is_kind(kind):
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
        for n, (op, _, tensor) in enumerate(facts[table]):
            if op_graph[op] != tensor_graph[tensor]:
                raise error(facts, table, n, f"op `{op}` and tensor `{tensor}` are in different graphs", column=3)
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
        at = where(facts["op"], lambda row: waiting.get(row[0], 0) > 0)
        raise error(facts, "op", at, f"op `{facts['op'][at][0]}` depends on itself", expected="a graph without cycles")


def _shapes(facts: Facts) -> dict[str, tuple[int, ...]]:
    """Dims 0 … rank-1 of every tensor; returns the shapes."""
    sizes: dict[str, list[int]] = {}
    found: dict[str, dict[int, int]] = {}
    for n, (tensor, position, size) in enumerate(facts["dim"]):
        if size < 0:
            raise error(facts, "dim", n, f"size {size}", column=3, expected="a size from 0")
        found.setdefault(tensor, {})[position] = size
    for n, (tensor, _, dtype, rank) in enumerate(facts["tensor"]):
        if dtype not in DTYPES:
            raise error(facts, "tensor", n, f"dtype `{dtype}`", column=3, expected="pred, s32, f32, bf16, …")
        dims = found.get(tensor, {})
        if len(dims) != rank or any(position not in dims for position in range(rank)):
            raise error(
                facts,
                "tensor",
                n,
                f"tensor `{tensor}` has rank {rank} and dims {sorted(dims)}",
                column=4,
                expected="one row in `dim` for each of 0 … rank-1",
            )
        sizes[tensor] = [dims[position] for position in range(rank)]
    return {tensor: tuple(shape) for tensor, shape in sizes.items()}


def _positions(facts: Facts) -> None:
    """Numbered lists start at 0 and have no gaps."""
    for table, key in (("operand", 1), ("result", 1), ("input", 1), ("output", 1), ("region", 1)):
        count: dict[str, int] = {}
        total: dict[str, int] = {}
        for row in facts[table]:
            count[row[0]] = count.get(row[0], 0) + 1
            total[row[0]] = max(total.get(row[0], 0), row[key] + 1)
        if count != total:
            at = where(facts[table], lambda row, count=count, total=total: count[row[0]] != total[row[0]])  # type: ignore[misc]
            raise error(
                facts, table, at, f"positions of `{facts[table][at][0]}` have gaps", column=2, expected="0, 1, 2, …"
            )
    regions = {row[0] for row in facts["region"]}
    loops = {"while", "conditional"}
    for n, (op, _, kind) in enumerate(facts["op"]):
        if kind in loops and op not in regions:
            raise error(facts, "op", n, f"`{op}` ({kind}) has no rows in `region`")


def _placements(facts: Facts, sizes: dict[str, tuple[int, ...]]) -> None:
    """Layouts are canonical text, name the mesh's axes, and fit the shapes of both tensors."""
    axes = {axis: size for axis, _, size in sorted(facts["mesh_axis"], key=lambda row: row[1])}
    cache: dict[str, Layout] = {}
    for n, (dist, dist_piece, base, base_piece, text, _) in enumerate(facts["shard"]):
        layout = _layout(facts, "shard", n, 5, text, axes, cache)
        try:
            local = piece_shape(parse_piece(dist_piece), sizes[dist])
            whole = piece_shape(parse_piece(base_piece), sizes[base])
        except ValueError as problem:
            raise error(
                facts, "shard", n, str(problem), column=2, expected="`dim:lo:hi[,dim:lo:hi…]` within the tensor"
            ) from None
        _fits(facts, "shard", n, 5, layout, local, whole)
    for n, (dist, base, text) in enumerate(facts["expect"]):
        if text:
            layout = _layout(facts, "expect", n, 3, text, axes, cache)
            _fits(facts, "expect", n, 3, layout, sizes[dist], sizes[base])
    if not facts["expect"]:
        raise error(facts, "expect", 0, "no output is to be checked", expected="one row per checked output")


def _layout(
    facts: Facts, table: str, row: int, column: int, text: str, axes: dict[str, int], cache: dict[str, Layout]
) -> Layout:
    layout = cache.get(text)
    if layout is not None:
        return layout
    try:
        layout = Layout.parse(text)
    except ValueError as problem:
        raise error(facts, table, row, f"layout `{text}`: {problem}", column=column) from None
    if [axis for axis, _ in layout.axes] != list(axes):
        raise error(
            facts,
            table,
            row,
            f"layout `{text}` names other axes than the mesh",
            column=column,
            expected="one `|axis=…` for each of " + ", ".join(axes) + ", in this order",
        )
    for axis, size in layout.axis_sizes.items():
        if size != axes[axis]:
            raise error(
                facts,
                table,
                row,
                f"layout `{text}`: entries of axis `{axis}` multiply to {size}",
                column=column,
                expected=f"{axis} has {axes[axis]} positions",
            )
    if str(layout.canonical) != text:
        raise error(
            facts, table, row, f"layout `{text}` is not canonical", column=column, expected=str(layout.canonical)
        )
    cache[text] = layout
    return layout


def _fits(
    facts: Facts, table: str, row: int, column: int, layout: Layout, local: tuple[int, ...], whole: tuple[int, ...]
) -> None:
    text = str(layout)
    if layout.local_shape != local:
        raise error(
            facts,
            table,
            row,
            f"layout `{text}` makes {list(layout.local_shape)} on every rank, the distributed tensor or"
            f" piece has {list(local)}",
            column=column,
        )
    problem = layout.gaps(whole)
    if problem:
        raise error(
            facts, table, row, f"layout `{text}` does not fit the baseline's {list(whole)}: {problem}", column=column
        )


def _groups(facts: Facts) -> None:
    """Groups of a distributed collective hold each rank that runs it once; those of the baseline are its one rank."""
    ranks = {row[0] for row in facts["rank_coord"]}
    roles = dict(facts["graph"])
    runs: dict[str, set[int]] = {}
    for graph, rank in facts["runs"]:
        runs.setdefault(graph, set()).add(rank)
    kinds = {op: (kind, graph) for op, graph, kind in facts["op"]}
    members: dict[str, list[int]] = {}
    for op, _, _, rank in facts["group"]:
        members.setdefault(op, []).append(rank)
    for op, found in members.items():
        kind, graph = kinds[op]
        at = (
            where(facts["group"], lambda row, op=op: row[0] == op)
            if _wrong(op, kinds, roles, runs, ranks, found)
            else -1
        )  # type: ignore[misc]
        if at < 0:
            continue
        if kind not in GROUPED:
            raise error(facts, "group", at, f"`{op}` ({kind}) is no collective with groups")
        if len(set(found)) != len(found):
            raise error(facts, "group", at, f"the groups of `{op}` name a rank twice")
        expected = sorted(runs.get(graph, ranks)) if roles[graph] == "dist" else [0]
        raise error(
            facts,
            "group",
            at,
            f"the groups of `{op}` hold the ranks {sorted(found)}",
            expected=f"each of the ranks {expected} once",
            hint="do the groups fit the mesh?",
        )


def _wrong(
    op: str,
    kinds: dict[str, tuple[str, str]],
    roles: dict[str, str],
    runs: dict[str, set[int]],
    ranks: set[int],
    found: list[int],
) -> bool:
    kind, graph = kinds[op]
    if kind not in GROUPED or len(set(found)) != len(found):
        return True
    if roles[graph] == "base":
        return set(found) != {0}
    # the members of one group may run different programs
    running = runs.get(graph)
    return not running <= set(found) if running is not None else set(found) != ranks
