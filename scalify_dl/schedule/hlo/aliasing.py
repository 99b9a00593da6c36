"""Results that lie in the buffer of an operand: in-place updates, alone or at the end of a fusion, and what is said."""

from __future__ import annotations

import re

from scalify_dl.readers.hlo.attributes import integers
from scalify_dl.readers.hlo.module import Computation, Instruction

from .memory import Value

IN_PLACE = ("dynamic-update-slice", "scatter")
"""Opcodes that write into their first operands."""
ALIAS = re.compile(r"\{([\d,\s]*)\}:\s*\((\d+),\s*\{([\d,\s]*)\}")
"""An entry of `{0}: (1, {}, may-alias)`: index of the result, operand, index into it."""


def in_place(
    i: Instruction, inside: Computation | None, operands: list[Value], result: Value
) -> list[tuple[Value, Value]]:
    """Results that lie in the buffer of an operand."""
    if i.opcode in IN_PLACE:
        outs = result if isinstance(result, list) else [result]
        return list(zip(outs, operands, strict=False))
    found: list[tuple[Value, Value]] = []
    if "output_to_operand_aliasing" in i.attribute_text:
        for out, operand, index in ALIAS.findall(i.attributes.get("output_to_operand_aliasing", "")):
            if int(operand) >= len(operands):
                raise i.error(f"aliases operand {operand}, which there is not")
            found.append((part(result, integers(out)), part(operands[int(operand)], integers(index))))
    elif inside is not None:
        by_name = {j.name: j for j in inside.instructions}
        root = inside.root
        made = [by_name.get(name) for name in root.operands] if root.opcode == "tuple" else [root]
        for n, out in enumerate(made):
            updates = False
            while out is not None and out.opcode in ("bitcast", *IN_PLACE):
                updates = updates or out.opcode in IN_PLACE
                out = by_name.get(out.operands[0])
            if updates and out is not None and out.opcode == "parameter" and number_of(out) < len(operands):
                target = result[n] if isinstance(result, list) else result
                found.append((target, operands[number_of(out)]))
    return found


def number_of(i: Instruction) -> int:
    """Which parameter an instruction is."""
    text = i.operand_text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise i.error(f"parameter number `{text}`", expected="a number from 0")
    return int(text)


def part(value: Value, index: list[int]) -> Value:
    """An element of nested tuples; nothing where there is none."""
    for n in index:
        if not isinstance(value, list) or n >= len(value):
            return None
        value = value[n]
    return value
