"""Edits in the user's dialect: lines of the dump (HLO or FX text) that a way to mend puts in, changes or leaves out.

Ops are compared by name, before and after. Lines are those of the dump, with other operands and groups; collectives
that are put in are written anew. A way that cannot be said so (another dialect, an op without a line of its own) has
no patch; `place` says where it is in the user's source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from scalify_dl.ir.graph import Graph, Op

from .edits import Edit, edited
from .lines import lines

NEW = ("all-reduce", "all-gather", "reduce-scatter")


def place(graph: Graph, way: Sequence[Edit]) -> str:
    """The innermost frame of the user's source of what is put in, changed or left out first."""
    before, after = _ops(graph), _ops(mended(graph, way))
    changed = [after.get(n) or before[n] for n in (*after, *before) if _said(before.get(n)) != _said(after.get(n))]
    return next((places[0] for op in changed if (places := lines(op))), "")


def mended(graph: Graph, way: Sequence[Edit]) -> Graph:
    """A copy with all edits of a way."""
    for edit in way:
        graph = edited(graph, edit)
    return graph


def patch(graph: Graph, way: Sequence[Edit]) -> list[str]:
    """Lines with `-` and `+`, behind `@@` and the number of the line of the dump; none where they cannot be said."""
    file = graph.file or ""
    if not file.endswith((".hlo", ".fx.txt")):
        return []
    dump = dict(enumerate(Path(file).read_text("utf-8", "replace").splitlines(), 1))
    fx, draft = file.endswith(".fx.txt"), mended(graph, way)
    before, after = _ops(graph), _ops(draft)
    if len(before) < len(graph.ops) or len(after) < len(draft.ops):
        return []
    edits: dict[int, str] = {op.at[0]: "" for n, op in before.items() if n not in after}
    put_in: list[tuple[int, list[str]]] = []
    names: dict[str, str] = {}
    groups = {_groups(op): op.group_name for op in graph.ops if op.group_name}
    last = 0
    for name, op in after.items():
        old = before.get(name)
        if old is None:
            if op.kind not in NEW or op.groups is None:
                return []
            new = _fx(op, groups) if fx else _hlo(op, dump, graph)
            if not new:
                return []
            put_in.append((last + 1, new))
            continue
        last = max(last, op.at[0])
        if _said(old) == _said(op):
            continue
        if (old.kind, old.numbers, old.rank_numbers, old.symbols) != (op.kind, op.numbers, op.rank_numbers, op.symbols):
            return []
        line = dump.get(op.at[0], "")
        if old.groups != op.groups:
            braces = ",".join("{" + ",".join(map(str, group)) + "}" for group in op.groups or ())
            line, count = re.subn(r"replica_groups=(\{\{.*?\}\}|\{\}|\[[^ ]*)", f"replica_groups={{{braces}}}", line)
            if count != 1:
                return []
        names = {a.name: b.name for a, b in zip(old.operands, op.operands, strict=True) if a.name != b.name}
        edits[op.at[0]] = _renamed(line, names)
    names = {
        a.tensor.name: b.tensor.name for a, b in zip(graph.outputs, draft.outputs, strict=True)
        if a.tensor.name != b.tensor.name
    }  # fmt: skip
    if names and not _returned(dump, edits, after, names):
        return []
    if any(at not in dump or edits[at] == dump[at] for at in edits):
        return []
    rows = [(at, [f"+ {line}" for line in new]) for at, new in put_in]  # in front of the line with that number
    rows += [(at, [f"- {dump[at]}", *([f"+ {line}"] if line else [])]) for at, line in edits.items()]
    return [text for at, some in sorted(rows, key=lambda row: row[0]) for text in (f"@@ {at}", *some)]


def _returned(
    dump: Mapping[int, str], edits: dict[int, str], after: Mapping[str, Op], names: Mapping[str, str]
) -> bool:
    """Changes the line that says what is given back; whether there is one."""
    root = next((n for n, line in dump.items() if re.match(r"\s*ROOT ", line) and n in edits and not edits[n]), 0)
    if root:  # left out: what it read is the root
        at = next((op.at[0] for op in after.values() if [t.name for t in op.results] == [*names.values()]), 0)
        if at in dump:
            edits[at] = re.sub(r"^(\s*)%", r"\1ROOT %", edits.get(at) or dump[at])
        return at in dump
    found = [n for n, line in dump.items() if re.match(r"\s*(ROOT .*\btuple\(|return\b)", line)]
    for at in found[-1:]:
        edits[at] = _renamed(edits.get(at) or dump[at], names)
    return bool(found)


def _ops(graph: Graph) -> dict[str, Op]:
    return {op.name: op for op in graph.ops}


def _said(op: Op | None) -> object:
    """All that an op says, with names for its operands."""
    if op is None:
        return None
    read = [t.name for t in op.operands]
    return op.kind, read, op.numbers, op.symbols, op.rank_numbers, op.groups, op.pairs


def _renamed(line: str, names: Mapping[str, str]) -> str:
    """A line that reads other values; what it makes keeps its name."""
    head, equals, rest = line.partition(" = ")
    if not equals:
        head, rest = "", line
    for old, new in names.items():
        word = new if "%" + old in rest else new.replace(".", "_")  # FX names have no dots
        rest = re.sub(rf"(?<![\w.\-]){re.escape(old)}(?![\w.\-])", word, rest)
    return head + equals + rest


def _hlo(op: Op, dump: Mapping[int, str], graph: Graph) -> list[str]:
    """Its function, and what its groups number, as another collective of the dump says."""
    result, (x,), reducer = op.result, op.operands, op.symbols.get("reducer")
    said = [o for o in graph.ops if o.groups and (not reducer or o.symbols.get("reducer") == reducer)]
    alike = [dump.get(o.at[0], "") for o in said]
    groups = ",".join("{" + ",".join(map(str, group)) + "}" for group in op.groups or ())
    more = "".join(f", dimensions={{{dim}}}" for dim in op.numbers.get("dimension", ()))
    if any("use_global_device_ids=true" in line for line in alike):
        channels = [int(n) for line in dump.values() for n in re.findall(r"channel_id=(\d+)", line)]
        more += f", channel_id={max(channels, default=0) + 1}, use_global_device_ids=true"
    applied = next((found[0] for line in alike if (found := re.search(r", to_apply=%[\w.\-]+", line))), "")
    if not alike or (reducer and not applied):
        return []
    shape = ",".join(map(str, result.shape))
    call = f"{result.dtype}[{shape}] {op.kind}(%{x.name}), replica_groups={{{groups}}}{more}"
    return [f"  %{result.name or op.name} = {call}{applied if reducer else ''}"]


def _fx(op: Op, known: Mapping[object, str]) -> list[str]:
    (x,), group, dims = op.operands, known.get(_groups(op)), op.numbers.get("dimension", [0])
    if group is None or dims != [0]:
        return []
    name, size = (op.result.name or op.name).replace(".", "_"), str(len((op.groups or [[]])[0]))
    call, *said = {
        "all-reduce": ("all_reduce", *map(repr, op.symbols.get("reducer", ()))),
        "all-gather": ("all_gather_into_tensor", size),
        "reduce-scatter": ("reduce_scatter_tensor", *map(repr, op.symbols.get("reducer", ())), size),
    }[op.kind]
    space, read = "torch.ops._c10d_functional", ", ".join([x.name, *said, repr(group)])
    begun = f"{name}_begun = {space}.{call}.default({read})"
    return [f"        {begun}", f"        {name} = {space}.wait_tensor.default({name}_begun)"]


def _groups(op: Op) -> object:
    return tuple(map(tuple, op.groups or ()))
