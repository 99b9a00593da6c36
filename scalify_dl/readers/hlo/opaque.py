"""Lowering of HLO opcodes whose meaning the text does not show: random numbers and custom calls."""

from __future__ import annotations

import re
from functools import lru_cache

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.texts import escaped
from scalify_dl.readers import regions
from scalify_dl.readers.libraries import PREFIX

from .attributes import integers, unquote
from .functions import without_sort_keys
from .lower import Lowering, opcode, unknown
from .module import Instruction
from .types import flatten, parse_type
from .values import opened, results, shaped, tensors


@opcode("rng")
def rng(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """`distribution=rng_uniform` or `rng_normal` with its two parameters."""
    distribution = i.attributes.get("distribution", "")
    kind = {"rng_uniform": "rng-uniform", "rng_normal": "rng-normal"}.get(distribution, "rng")
    return results(lo.emit(i, kind, tensors(i, operands)))


@opcode("rng-bit-generator")
def rng_bit_generator(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """New state and bits."""
    algorithm = i.attributes.get("algorithm", "rng_default")
    op = lo.emit(i, "rng-bit-generator", tensors(i, operands), symbols={"algorithm": [algorithm]})
    return shaped(op.results, i.type)


IGNORED = frozenset(
    {
        "metadata",
        "sharding",
        "frontend_attributes",
        "custom_call_target",
        "api_version",
        "backend_config",
        "operand_layout_constraints",
        "custom_call_has_side_effect",
        "opaque",
        "control-predecessors",
        "called_computations",
        "to_apply",
        "output_to_operand_aliasing",
        "statistics",
        "schedule",
    }
)
MARKERS = frozenset(
    {"Sharding", "MoveToHost", "MoveToDevice", "PinToHost", "annotate_device_placement", "LayoutConstraint"}
)


@opcode("custom-call")
def custom_call(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """An opaque call, with its target, configuration and numbers; markers that change nothing are their operand."""
    target = unquote(i.attributes.get("custom_call_target", ""))
    if not target:
        raise i.error("attribute `custom_call_target` is missing")
    flat = [tensor for operand in operands for tensor in opened(operand) if tensor is not None]
    if target in MARKERS and len(operands) == 1:
        i.attributes.read.update(IGNORED)
        return operands[0]
    if i.attributes.get("custom_call_has_side_effect") == "true" or target.startswith(PREFIX):
        lo.effects.append(f"{i.opcode} {target}")
        return unknown(lo, i, operands)  # more than a function of its operands
    if target == "TopK" and len(flat) == 1 and _is_top_k(lo, i):
        return results(lo.emit(i, "top-k", flat, numbers={"k": [flatten(i.type)[0].shape[-1]]}))
    symbols: dict[str, list[str]] = {}
    numbers: dict[str, list[int]] = {}
    config = unquote(i.attributes.get("backend_config", i.attributes.get("opaque", "")))
    if config:
        symbols["config"] = [escaped(config)]
    form = _form(i, operands)
    for key, value in i.attributes.items():
        i.attributes.read.add(key)
        if key not in IGNORED:
            name = f"attribute {key}" if key in ("config", "form") else key
            if re.fullmatch(r"-?\d{1,9}|\{[\d,\s-]*\}", value):
                numbers[name] = integers(value)
                form += [f"{key} is a list of {len(numbers[name])}"] if value[0] == "{" else []
            else:
                symbols[name] = [escaped(unquote(value))]
    if form:
        symbols["form"] = ["; ".join(form)]
    name = re.sub(r"\s+", "_", target)
    types = [(t.dtype, t.shape) for t in flatten(i.type) if t.dtype not in ("token", "opaque")]
    if not types:
        return shaped([], i.type)
    called = i.attributes.get("called_computations", "").strip("{}")
    names = [part.strip() for part in called.split(",") if part.strip()]
    if i.attributes.get("to_apply"):
        names.append(i.attributes["to_apply"])
    regions = [lo.region(part, i) for part in names]
    op = lo.emit(i, f"custom:{name}", flat, types, numbers=numbers, symbols=symbols, regions=regions)
    return shaped(op.results, i.type)


def _form(i: Instruction, operands: list[object]) -> list[str]:
    """What tells calls with the same arrays apart: tuples among the operands, and layouts that are not row-major."""
    plain = all(isinstance(operand, Tensor) for operand in operands)
    form = [] if plain else [f"operands ({', '.join(map(_nesting, operands))})"]
    constraints = i.attributes.get("operand_layout_constraints", "{}")
    try:
        form += _lying("operand", f"({constraints[1:-1]})")
    except ValueError as error:
        raise i.error(f"`operand_layout_constraints`: {error}") from None
    return [*form, *_lying("result", i.type_text)]


@lru_cache(4096)
def _lying(what: str, types: str) -> tuple[str, ...]:
    """The arrays of a type that are not row-major, in words."""
    found = []
    for number, array in enumerate(flatten(parse_type(types))):
        order = array.minor_to_major
        if order is not None and order != tuple(range(len(order)))[::-1]:
            found.append(f"{what} {number} lies {','.join(map(str, order))}")
    return tuple(found)


def _nesting(operand: object) -> str:
    """The tuples of an operand."""
    if isinstance(operand, list):
        return f"({', '.join(map(_nesting, operand))})"
    return "token" if operand is None else "%"


def _is_top_k(lo: Lowering, i: Instruction) -> bool:
    """Whether XLA's `TopK` call takes the largest values along the last dim, as its comparator says."""
    types = flatten(i.type)
    name = i.attributes.get("called_computations", "").strip("{}")
    if len(types) != 2 or not types[0].shape:
        return False
    function = without_sort_keys(lo.region(name, i))
    return "DESC" in (regions.comparator(function), regions.total_comparator(function))
