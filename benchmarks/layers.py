"""Deeper models out of a one-layer HLO dump: the decoder layer is found in the text and repeated.

The layer is everything between the activation that enters it (parameter 0) and the last sum of that shape (the
residual stream that leaves it), as far as it depends on the activation or on a weight. Every copy gets weights of its
own, as further parameters, and adds its own outputs to the result tuple.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"^  (?P<root>ROOT )?%(?P<name>[\w.\-]+) = (?P<type>\(.*?\)|\S+) (?P<kind>[\w\-]+)\((?P<args>[^)]*)\)"
)
_USE = re.compile(r"%([\w.\-]+)")


@dataclass
class Instruction:
    """One line of the entry computation."""

    name: str
    type: str
    kind: str
    args: list[str]
    line: str
    root: bool


@dataclass(frozen=True)
class Deep:
    """The text of the deeper model, and for every parameter of a copy the parameter number it copies."""

    text: str
    copies: dict[int, int]


def _shape(type_: str) -> str:
    return type_.split("{")[0]


def replicate(text: str, layers: int) -> Deep:
    """The one-layer dump `text` with its decoder layer `layers` times."""
    head, entry = text.split("ENTRY ", 1)
    first, body = entry.split("\n", 1)
    computation = first.split("(")[0].split()[0]
    inside, tail = body.split("\n}", 1)
    instructions = []
    for line in inside.split("\n"):
        m = _LINE.match(line)
        if m is None:
            raise ValueError(f"not an instruction: {line[:80]}")
        instructions.append(
            Instruction(m["name"], m["type"], m["kind"], _USE.findall(m["args"]), line, bool(m["root"]))
        )
    by_name = {i.name: i for i in instructions}
    stream_in = next(i for i in instructions if i.kind == "parameter" and "parameter(0)" in i.line)
    stream_out = [i for i in instructions if i.kind == "add" and _shape(i.type) == _shape(stream_in.type)][-1]
    above = {stream_out.name}
    for i in reversed(instructions):
        if i.name in above:
            above.update(i.args)
    moving: set[str] = set()
    for i in instructions:
        weight = i.kind == "parameter" and i.type[0] != "s" and i.name in above and i is not stream_in
        if weight or i is stream_in or any(a in moving for a in i.args):
            moving.add(i.name)
    layer = [i for i in instructions if i.name in moving & above and i is not stream_in]
    root = next(i for i in instructions if i.root)
    kept = [by_name[a].name for a in root.args if by_name[a] in layer]
    count = sum(i.kind == "parameter" for i in instructions)

    copies: dict[int, int] = {}
    added: list[str] = []
    results: list[str] = []
    stream = stream_out.name
    for copy in range(1, layers):
        rename = {i.name: f"{i.name}.{copy}" for i in layer} | {stream_in.name: stream}
        for i in layer:
            code, *metadata = i.line.partition(", metadata=")
            line = "".join(["%" + rename.get(w, w) if n % 2 else w for n, w in enumerate(_USE.split(code))] + metadata)
            if i.kind == "parameter":
                number = int(i.line.split("parameter(")[1].split(")")[0])
                copies[count] = number
                line = line.replace(f"parameter({number})", f"parameter({count})")
                count += 1
            added.append(line)
        results += [rename[name] for name in kept]
        stream = rename[stream_out.name]

    out: list[str] = []
    for i in instructions:
        if i.root:
            types = ", ".join([by_name[a].type for a in i.args] + [by_name[a.rsplit(".", 1)[0]].type for a in results])
            args = ", ".join(f"%{a}" for a in [*i.args, *results])
            out.append(f"  ROOT %{i.name} = ({types}) tuple({args})")
        elif i.name not in above and stream_out.name in i.args:
            out.append(_USE.sub(lambda m: f"%{stream}" if m[1] == stream_out.name else m[0], i.line))
        else:
            out.append(i.line)
        if i is stream_out:
            out += added
    module = head.split("\n", 1)[0].split(",")[0]
    rest = head.split("\n", 1)[1]
    return Deep(f"{module}\n{rest}ENTRY {computation} {{\n" + "\n".join(out) + "\n}" + tail, copies)
