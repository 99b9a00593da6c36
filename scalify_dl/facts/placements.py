"""Whether placements and groups fit: layouts against shapes and mesh, rank groups against the ranks that run them."""

from __future__ import annotations

from scalify_dl.errors import in_short, one_of
from scalify_dl.ir.dtypes import is_integer
from scalify_dl.ir.layout import Layout, Pending, parse_piece, piece_shape
from scalify_dl.ir.vocabulary import BITWISE, GROUPED, MODES

from .constants import known
from .model import Facts
from .problems import error, first
from .regions import Types

REASONS = ("given", "proposed", "annotation", "name", "shape", "elided")
"""Why an input, or a constant that no dump prints, is assumed to correspond (`shard`)."""


def check_placements(facts: Facts, types: Types) -> None:
    """Layouts are canonical text, name the mesh's axes, and fit the shapes of both tensors."""
    sizes = {tensor: shape for tensor, (_, shape) in types.items()}
    axes = {axis: size for axis, _, size in sorted(facts["mesh_axis"], key=lambda row: row[1])}
    cache: dict[str, Layout] = {}
    for n, (dist, dist_piece, base, base_piece, text, why) in enumerate(facts["shard"]):
        if why not in REASONS:
            raise error(facts, "shard", n, f"why `{why}`", column=6, **one_of(why, REASONS))
        layout = _layout(facts, "shard", n, 5, text, axes, cache)
        try:
            local = piece_shape(parse_piece(dist_piece), sizes[dist])
            whole = piece_shape(parse_piece(base_piece), sizes[base])
        except ValueError as problem:
            raise error(
                facts, "shard", n, str(problem), column=2, expected="`dim:lo:hi[,dim:lo:hi…]` within the tensor"
            ) from None
        _fits(facts, "shard", n, 5, layout, local, whole)
        _combines(facts, "shard", n, 5, layout, types[dist][0])
    for n, (dist, base, text) in enumerate(facts["expect"]):
        if text:
            layout = _layout(facts, "expect", n, 3, text, axes, cache)
            _fits(facts, "expect", n, 3, layout, sizes[dist], sizes[base])
            _combines(facts, "expect", n, 3, layout, types[dist][0])
    _check_expected(facts)
    if not facts["expect"]:
        raise error(facts, "expect", 0, "no output is to be checked", expected="one row per checked output")


def _check_expected(facts: Facts) -> None:
    """What is checked are outputs of distributed programs, against values of the baseline outside of its regions."""
    inside = {row[2] for row in facts["region"]}
    outputs = {tensor for graph, _, tensor in facts["output"] if graph not in inside}
    graphs = {tensor: graph for tensor, graph, _, _ in facts["tensor"]}
    for n, (dist, base, _) in enumerate(facts["expect"]):
        if dist not in outputs:
            raise error(facts, "expect", n, f"`{dist}` is no output", expected="an output of a distributed program")
        if graphs[base] in inside:
            raise error(facts, "expect", n, f"`{base}` is inside of a region", column=2, expected="a baseline value")


def check_assumed(facts: Facts) -> None:
    """What is assumed to correspond are inputs, or constants without a value."""
    inside = {row[2] for row in facts["region"]}
    given = {tensor for graph, _, tensor in facts["input"] if graph not in inside}
    kinds = {op: kind for op, _, kind in facts["op"]}
    named = {tensor for row in facts["shard"] for tensor in (row[0], row[2])} - given
    constants = {tensor for op, _, tensor in facts["result"] if tensor in named and kinds[op] == "constant"}
    constants -= known(facts, constants)
    for n, (dist, _, base, _, _, why) in enumerate(facts["shard"]):
        if not why or (why == "elided") != (dist in constants):
            raise error(
                facts,
                "shard",
                n,
                f"`{dist}` is placed because of `{why}`",
                column=6,
                expected="`elided` for constants that are not printed; given, annotation, name, shape, … for inputs",
            )
        for column, tensor in ((1, dist), (3, base)):
            if tensor not in given and tensor not in constants:
                raise error(
                    facts,
                    "shard",
                    n,
                    f"`{tensor}` is computed",
                    column=column,
                    expected="an input, or a constant whose value is not printed: what is computed is for the rules",
                )


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
    kinds = {e.reducer for _, entries in layout.axes for e in entries if isinstance(e, Pending)}
    if len(kinds) > 1:
        raise error(
            facts,
            table,
            row,
            f"layout `{text}` has several kinds of pending reductions: {' and '.join(sorted(kinds))}",
            column=column,
            expected="one kind, as they do not commute",
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


def _combines(facts: Facts, table: str, row: int, column: int, layout: Layout, dtype: str) -> None:
    """What is pending can be carried out on numbers of the type."""
    pending = {e.reducer for _, entries in layout.axes for e in entries if isinstance(e, Pending)}
    if pending & BITWISE and not (dtype == "pred" or is_integer(dtype)):
        raise error(facts, table, row, f"layout `{layout}` combines the bits of {dtype}", column=column)


def check_groups(facts: Facts) -> None:
    """Groups of a distributed collective hold each rank that runs it once; those of the baseline are its one rank."""
    ranks = {row[0] for row in facts["rank_coord"]}
    roles: dict[str, str] = dict(facts["graph"])
    running: dict[str, set[int]] = {}
    for graph, rank in facts["runs"]:
        running.setdefault(graph, set()).add(rank)
    kinds = {op: (kind, graph) for op, graph, kind in facts["op"]}
    members: dict[str, list[int]] = {}
    for op, _, _, rank in facts["group"]:
        members.setdefault(op, []).append(rank)
    for op, found in members.items():
        kind, graph = kinds[op]
        if kind not in GROUPED:
            raise error(facts, "group", first(facts["group"], 0, {op}), f"`{op}` ({kind}) is no collective with groups")
        holds = set(found)
        if roles[graph] == "base":
            wanted, fits = {0}, holds == {0}
        elif graph in running:  # its partners may run other programs
            wanted, fits = running[graph], running[graph] <= holds
        else:
            wanted, fits = ranks, holds == ranks
        silent = holds - set().union(*running.values()) if running and roles[graph] == "dist" else set()
        if silent:
            raise error(
                facts,
                "group",
                next(n for n, row in enumerate(facts["group"]) if row[0] == op and row[3] in silent),
                f"`{op}` waits for rank {min(silent)}, which runs no program",
                column=4,
                expected="ranks that have a row in `runs`",
            )
        if fits and len(holds) == len(found):
            continue
        raise error(
            facts,
            "group",
            first(facts["group"], 0, {op}),
            f"the groups of `{op}` hold the ranks {in_short(sorted(found))}",
            expected=f"each of the ranks {in_short(sorted(wanted))} once",
            hint="do the groups fit the mesh?",
        )


def check_permutes(facts: Facts) -> None:
    """A rank sends once (that it receives once is the table's key); only permutations have pairs."""
    permutes = {op for op, _, kind in facts["op"] if kind == "collective-permute"}
    others = {row[0] for row in facts["permute_pair"]} - permutes
    if others:
        at = first(facts["permute_pair"], 0, others)
        raise error(facts, "permute_pair", at, f"`{facts['permute_pair'][at][0]}` is no collective-permute")
    seen: set[tuple[str, int]] = set()
    for n, (op, source, _) in enumerate(facts["permute_pair"]):
        if (op, source) in seen:
            raise error(
                facts,
                "permute_pair",
                n,
                f"rank {source} is twice a source of `{op}`",
                column=2,
                expected="every rank at most once as a source, and once as a target",
            )
        seen.add((op, source))


def check_modes(facts: Facts) -> None:
    """What a gather does with ids out of range is one of the vocabulary's ways."""
    odd = [n for n, (_, key, _, mode) in enumerate(facts["attr_symbol"]) if key == "mode" and mode not in MODES]
    gathers = {op for op, _, kind in facts["op"] if kind == "gather"} if odd else set()
    for n in odd:
        op, _, _, mode = facts["attr_symbol"][n]
        if op in gathers:
            raise error(
                facts,
                "attr_symbol",
                n,
                f"`{op}` (gather) has the mode `{mode}`",
                column=4,
                expected=" or ".join(MODES),
                hint="other ways (a filler, nothing at all) are a gather that clamps and a select",
            )
