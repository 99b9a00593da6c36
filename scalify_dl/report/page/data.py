"""What the page's scripts draw from: both graphs and what corresponds, as lists of numbers and one list of texts.

Texts (names, kinds, types, source lines, layouts) are told by their position in `texts`; tensors and ops by theirs in
`tensors` and `ops`. Graphs of 100,000 ops are some ten megabytes so; the page draws only what is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from scalify_dl.prove.verdict import Report
from scalify_dl.prove.view import View, user_frames

from ..pattern import pattern

HELD = 3
"""Correspondences of one tensor that are shown."""


class _Texts:
    def __init__(self) -> None:
        self.at: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self.at.setdefault(text, len(self.at))


def page_data(report: Report) -> dict[str, Any]:
    """All that the scripts need; only words where a report has no graphs."""
    found: dict[str, Any] = {
        "verdict": report.verdict.value,
        "causes": [[c.op, c.base_op, list(c.results)] for c in report.frontier],
        "assumptions": [[a.label or a.tensor, a.words or a.text, a.why, a.accepted] for a in report.assumptions],
    }
    if report.view is not None:
        found |= _graphs(report, report.view)
    return found


def _graphs(report: Report, view: View) -> dict[str, Any]:
    texts = _Texts()
    roles: dict[str, str] = dict(view.facts("graph"))
    for _, _, graph in view.facts("region"):
        roles.setdefault(graph, "dist")
    dims: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for tensor, pos, size in view.facts("dim"):
        dims[tensor].append((pos, size))
    numbers: dict[str, int] = {}
    tensors: list[list[Any]] = []
    for tensor, graph, dtype, _ in view.facts("tensor"):
        numbers[tensor] = len(tensors)
        shape = [size for _, size in sorted(dims.get(tensor, ()))]
        called = view.input_name(tensor) if tensor in view.inputs else view.output_names.get(tensor, "")
        side = 1 if roles.get(graph) == "dist" else 0
        tensors.append([texts(view.name(tensor)), texts(dtype), shape, -1, side, texts(called)])
    operands = _lists(view, "operand", numbers)
    results = _lists(view, "result", numbers)
    frames: dict[str, list[Any]] = defaultdict(list)
    for op, pos, file, line, function in view.facts("source"):
        frames[op].append((pos, file, line, function))
    ops: list[list[Any]] = []
    op_numbers: dict[str, int] = {}
    for op, graph, kind in view.facts("op"):
        number = op_numbers[op] = len(ops)
        for tensor in results[op]:
            tensors[tensor][3] = number
        place, side = texts(_place(frames.get(op, []))), int(roles.get(graph) == "dist")
        ops.append([texts(kind), operands[op], results[op], place, side])
    held, layouts = _held(view, numbers, texts)
    wanted = {(d, b): layout for d, b, layout in view.facts("expect") if layout}
    ends = {numbers[t] for _, _, t in view.facts("output") if t in numbers}
    return {
        "texts": list(texts.at),
        "tensors": tensors,
        "ops": ops,
        "held": held,
        "layouts": layouts,
        "outputs": sorted(ends),
        "mesh": [[axis, size] for axis, _, size in sorted(view.facts("mesh_axis"), key=lambda row: row[1])],
        "marked": [
            [op_numbers.get(c.op, -1), op_numbers.get(c.base_op, -1), numbers.get(next(iter(c.results), ""), -1)]
            for c in report.frontier
        ],
        "checked": [
            [numbers.get(o.tensor, -1), numbers.get(o.base_tensor, -1), o.layout, layout,
             pattern(layout, view.ranks.get(o.base_tensor, 0)) if layout else ""]
            for o in report.outputs for layout in [wanted.get((o.tensor, o.base_tensor), "")]
        ],
        "frontier": sorted(op_numbers[row[0]] for row in view.results("frontier") if row[0] in op_numbers),
    }


def _lists(view: View, table: str, numbers: dict[str, int]) -> dict[str, list[int]]:
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for op, pos, tensor in view.facts(table):
        if tensor in numbers:
            rows[op].append((pos, numbers[tensor]))
    return defaultdict(list, {op: [t for _, t in sorted(pairs)] for op, pairs in rows.items()})


def _place(frames: list[Any]) -> str:
    from scalify_dl.prove.verdict import Frame

    found = user_frames(Frame(file, line, function) for _, file, line, function in sorted(frames))
    return f"{found[0]}" if found else ""


def _held(view: View, numbers: dict[str, int], texts: _Texts) -> tuple[dict[int, list[list[int]]], dict[int, str]]:
    """What distributed tensors hold, whole values only: [baseline tensor, layout]; and patterns of layouts."""
    held: dict[int, list[list[int]]] = defaultdict(list)
    words: dict[int, str] = {}
    for dist, piece, base, base_piece, layout in view.results("corr"):
        d, b = numbers.get(dist), numbers.get(base)
        if piece or base_piece or d is None or b is None or len(held[d]) >= HELD:
            continue
        number = texts(layout)
        if number not in words:
            words[number] = pattern(layout, view.ranks.get(base, 0))
        held[d].append([b, number])
    return {d: rows for d, rows in held.items() if rows}, words
