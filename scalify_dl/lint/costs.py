"""What collectives move, and what for nothing: tables for `datalog/lift/costs.dl`, and its answers in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scalify_dl.finding import Finding, Happening
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.vocabulary import COLLECTIVES
from scalify_dl.pysouffle import Program

from .edits import size
from .grid import Grid

Row = tuple[object, ...]
WORDS = {
    "unread": "what it moves is read by nobody",
    "gathered-again": "`{other}` gathered the same value already",
    "scattered-and-gathered": "it puts together what `{other}` scattered, which nobody else reads: one all-reduce",
}


@dataclass
class Costs:
    """Bytes per rank by op and by axes of the mesh."""

    by_op: list[tuple[str, str, str, int]] = field(default_factory=list)
    """Name, kind, axes, bytes; in the order of the program."""
    by_axes: dict[str, int] = field(default_factory=dict)

    def lines(self, most: int = 12) -> Iterator[str]:
        """For people: totals, then what moves most."""
        for axes, moved in sorted(self.by_axes.items(), key=lambda row: -row[1]):
            yield f"over {axes or 'no axis'}: {moved:,}"
        for name, kind, axes, moved in sorted(self.by_op, key=lambda row: -row[3])[:most]:
            yield f"  {moved:>14,}  {name} ({kind}) over {axes or 'no axis'}"
        if len(self.by_op) > most:
            yield f"  and {len(self.by_op) - most} more"


def cost_rows(dist: Graph, grid: Grid, ids: Mapping[Tensor, str], op_ids: Mapping[Op, str]) -> dict[str, list[Row]]:
    """The tables."""
    rows: dict[str, list[Row]] = defaultdict(list)
    gathers: dict[Row, list[str]] = defaultdict(list)
    for op in dist.ops:
        name = op_ids[op]
        rows["any_reads"] += [(name, ids[t]) for t in dict.fromkeys(op.operands) if t in ids]
        rows["any_makes"] += [(name, ids[t]) for t in op.results if t in ids]
        if op.kind not in COLLECTIVES:
            continue
        axes, ways = _along(op, grid)
        taken, made = sum(map(size, op.operands)), sum(map(size, op.results))
        rows["collective"].append((name, op.kind, axes, ways, taken, made))
        dim = op.numbers.get("dimension")
        if dim:
            rows["gathers"].append((name, dim[0]))
        if op.kind == "all-gather":
            key = (*op.operands, axes, *(dim or ()))
            rows["before"] += [(first, name) for first in gathers[key]]
            gathers[key].append(name)
    rows["any_output"] = [(ids[port.tensor],) for port in dist.outputs if port.tensor in ids]
    return rows


def _along(op: Op, grid: Grid) -> tuple[str, int]:
    """Axes of the mesh as text, and how many ranks take part in each."""
    if op.along:
        return ",".join(axis for axis, _ in op.along), max(1, _product(n for _, n in op.along))
    if op.pairs is not None:
        moved = [
            p for source, target in op.pairs
            for p, (a, b) in enumerate(zip(grid.coordinates[source], grid.coordinates[target], strict=True)) if a != b
        ]  # fmt: skip
        return ",".join(grid.axes_of(sorted(set(moved)))), 2
    groups = op.groups or [list(range(grid.mesh.size))]
    found = grid.along(groups)
    return ",".join(grid.axes_of(found)) if found else "", max(1, len(groups[0]))


def _product(sizes: Iterator[int]) -> int:
    total = 1
    for n in sizes:
        total *= n
    return total


def read_costs(program: Program, dist: Graph, op_ids: Mapping[Op, str]) -> tuple[Costs, list[Finding]]:
    """What the rules say: costs, and notes of what is moved for nothing."""
    from .lines import lines

    by_id = {name: op for op, name in op_ids.items()}
    order = {op: n for n, op in enumerate(dist.ops)}
    traffic = {str(name): (str(axes), int(moved)) for name, axes, moved in program.relation("traffic")}
    costs = Costs(by_axes={str(axes): int(moved) for axes, moved in program.relation("total")})
    for name in sorted(traffic, key=lambda name: order[by_id[name]]):
        costs.by_op.append((by_id[name].name, by_id[name].kind, *traffic[name]))
    notes = []
    found = sorted(program.relation("redundant"), key=lambda row: order[by_id[str(row[0])]])
    for name, why, other in found:
        op = by_id[str(name)]
        moved = traffic.get(str(name), ("", 0))[1]
        text = f"{WORDS[str(why)].format(other=by_id[str(other)].name)} ({moved:,} bytes per rank)"
        place = (lines(op) or ("",))[0]
        notes.append(Finding(str(why), "note", text, (Happening(None, op.name, place),), op=op.name, name=op.name,
                             source=lines(op)))  # fmt: skip
    return costs, notes
