"""The single-device program that was recovered, as text: one line an op, with its type, in the order of the program.

    %y = dot(%x, %w) {lhs_contracting_dims=[1], rhs_contracting_dims=[0]} : f32[8,32]    // model.py:12
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scalify_dl.ir.graph import Graph, Op, Tensor

from .judge import Result
from .spmd import type_text


def baseline(graph: Graph, returned: Sequence[Tensor] | None = None) -> Iterator[str]:
    """A program, line by line: what does not lead to an output stays out. `returned` are values that it returns, where
    other outputs are there to be looked at."""
    names = _names(graph)
    used = _used(graph)
    inputs = ", ".join(f"{names[p.tensor]}: {p.tensor.type}" for p in graph.inputs)
    yield f"func @main({inputs}) {{"
    for op in graph.ops:
        if used.isdisjoint(op.results):
            continue
        made = ", ".join(names[t] for t in op.results)
        types = ", ".join(t.type for t in op.results)
        where = f"    // {op.source[0].file}:{op.source[0].line}" if op.source else ""
        yield f"  {made} = {op.kind}({_arguments(op, names)}){_attributes(op)} : {types}{where}"
    ends = [p.tensor for p in graph.outputs] if returned is None else returned
    yield f"  return {', '.join(names[t] for t in ends)}" if ends else "  // what it returns is not known"
    yield "}"


def _names(graph: Graph) -> dict[Tensor, str]:
    taken: set[str] = set()
    names: dict[Tensor, str] = {}
    for tensor in (*(p.tensor for p in graph.inputs), *(t for op in graph.ops for t in op.results)):
        plain = "%" + (re.sub(r"[^\w.-]+", "_", tensor.name) or "v")
        chosen, n = plain, 1
        while chosen in taken:
            n += 1
            chosen = f"{plain}~{n}"
        taken.add(chosen)
        names[tensor] = chosen
    return names


def _used(graph: Graph) -> set[Tensor]:
    maker = {t: op for op in graph.ops for t in op.results}
    found: set[Tensor] = set()
    stack = [p.tensor for p in graph.outputs]
    while stack:
        tensor = stack.pop()
        if tensor not in found:
            found.add(tensor)
            stack += maker[tensor].operands if tensor in maker else []
    return found


def _arguments(op: Op, names: dict[Tensor, str]) -> str:
    if op.kind == "constant" and op.result.literal is not None:
        return op.result.literal.text[:60]
    return ", ".join(names[t] for t in op.operands)


def _attributes(op: Op) -> str:
    parts = [f"{key}={values}" for key, values in op.numbers.items() if values]
    parts += [f"{key}={','.join(texts)}" for key, texts in op.symbols.items()]
    parts += [f"{key}[{n}] by rank={[by[rank] for rank in sorted(by)]}" for (key, n), by in op.rank_numbers.items()]
    if op.groups:
        parts.append(f"groups={op.groups}")
    return f" {{{', '.join(parts)}}}" if parts else ""


def placements(result: Result) -> Iterator[str]:
    """The SPMD type of every input and output, and of what every collective makes."""
    lines: list[tuple[str, str]] = []
    lifted = result.lifted
    seen: set[Tensor] = set()
    for tensor in result.shown:
        if tensor in lifted.held and tensor not in seen:
            seen.add(tensor)
            lines.append((tensor.name, type_text(lifted.held[tensor], result.grid, result.gradients.get(tensor, {}))))
    width = max((len(name) for name, _ in lines), default=0)
    for name, text in lines:
        yield f"{name:<{width}} : {text}"
