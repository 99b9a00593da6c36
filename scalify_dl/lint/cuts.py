"""Slices with the same bounds on all ranks: tables for the rules, and notes of `datalog/lift/cuts.dl` in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from scalify_dl.finding import Finding, Happening
from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.pysouffle import Program

from .lift import Lifted, Stopped
from .lines import lines

Row = tuple[object, ...]


def cut_rows(
    alive: Iterable[Op], stops: Iterable[Stopped], lifted: Lifted, ids: Mapping[Tensor, str], op_ids: Mapping[Op, str]
) -> dict[str, list[Row]]:
    """What slices take, and where the parts of values lie that a stop cuts across."""
    cut: list[Row] = []
    extent: list[Row] = []
    for op in alive:
        if op.kind == "slice" and not op.rank_numbers and not op.strides:
            (x,) = op.operands
            bounds = zip(op.numbers["start"], op.numbers["limit"], x.shape, strict=True)
            mine = [(d, lo, hi) for d, (lo, hi, n) in enumerate(bounds) if (lo, hi) != (0, n)]
            cut += [(op_ids[op], ids[x], *row) for row in mine]
            extent += [(ids[x], d, x.shape[d]) for d, _, _ in mine]
    across = [stop.op.operands[0] for stop in stops if stop.kind == "cuts-across"]
    side = [(ids[x], lifted.held[x].along, at) for x in across for p in lifted.held[x].parts for at in (p.lo, p.hi)]
    return {"cut": cut, "extent": extent, "side": list(side)}


def read_cuts(program: Program, position: Mapping[Op, int], op_ids: Mapping[Op, str]) -> list[Finding]:
    """Notes of slices that take what another one takes, too, while something is left."""
    by_id = {name: op for op, name in op_ids.items()}
    left: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for value, dim, lo, hi in program.relation("left"):
        left[str(value), int(dim)].append((int(lo), int(hi)))
    notes = []
    for first, second, value, dim, lo, hi in program.relation("taken_twice"):
        pair = sorted((by_id[str(first)], by_id[str(second)]), key=lambda op: position[op])
        places = [(lines(op) or ("",))[0] for op in pair]
        rest = ", ".join(f"[{a}:{b}]" for a, b in sorted(left[str(value), int(dim)]))
        at = f" ({places[0]})" if places[0] else ""
        text = (f"it takes [{lo}:{hi}] of dim {dim} of `{pair[0].operands[0].name}`, which `{pair[0].name}`{at} takes,"
                f" too, and no slice takes {rest}")  # fmt: skip
        events = tuple(Happening(None, op.name, place) for op, place in zip(pair[::-1], places[::-1], strict=True))
        notes.append((position[pair[1]], Finding("taken-twice", "note", text, events, op=pair[1].name,
                                                 name=pair[1].name, source=lines(pair[1]))))  # fmt: skip
    return [note for _, note in sorted(notes, key=lambda pair: pair[0])]
