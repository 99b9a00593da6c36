"""What every op kind asks of its operands, results and attributes: facts that break it describe no program.

Result types are those of `ir.shapes`; here are the attributes that a kind must have, and regions. Ops that look
alike (kind, types, attributes) are checked once, so that layers after the first cost a look-up each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.shapes import RULES, Type, family
from scalify_dl.ir.vocabulary import (
    ARITY,
    BITWISE,
    FLAGS,
    INDEX_REDUCERS,
    KINDS,
    LITERALS,
    NUMBERS,
    ONE_TYPE,
    RANKED,
    REGIONAL,
    SYMBOLS,
    WINDOW,
)

from .constants import is_literal
from .model import Facts, Row
from .problems import error, first
from .ranks import corners, sizes_of
from .regions import Types, check_regions, ordered


def check_ops(facts: Facts, types: Types) -> None:
    """InputError for the first op whose operands, results, attributes, groups or regions do not fit its kind."""
    numbered: dict[Type, int] = {}
    number_of = {tensor: numbered.setdefault(kind, len(numbered)) for tensor, kind in types.items()}.__getitem__
    operands, results = ordered(facts["operand"]), ordered(facts["result"])
    regions = ordered(facts["region"])
    numbers, symbols, ranked = (_rows_of(facts[table]) for table in ("attr_number", "attr_symbol", "rank_number"))
    groups = _groups(facts) | _along(facts)
    ends = corners(facts)
    seen: set[tuple[object, ...]] = set()
    for n, (op, _, kind) in enumerate(facts["op"]):
        has, made = operands.get(op, ()), results.get(op, ())
        given = tuple(numbers.get(op, ())), tuple(symbols.get(op, ())), tuple(ranked.get(op, ()))
        key = kind, tuple(map(number_of, has)), tuple(map(number_of, made)), given, groups.get(op)
        if key in seen and op not in regions and op not in ends:
            continue
        try:
            for checked in _by_rank(op, kind, *given, ends.get(op, ())):
                checked.operands = [Tensor(*types[t]) for t in has]
                checked.results = [Tensor(*types[t]) for t in made]
                checked.groups = [[0] * groups[op]] if op in groups else None
                checked.regions = [Graph()] * len(regions.get(op, ()))
                _check(checked)
        except InputError as problem:
            raise error(facts, "op", n, problem.message, expected=problem.expected, hint=problem.hint) from None
        seen.add(key)
    check_regions(facts, types)


def _rows_of(rows: Iterable[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row[0], []).append(row[1:])
    return out


def _groups(facts: Facts) -> dict[str, int]:
    """Collective → size of its groups; their members are numbered from 0, and all groups have as many."""
    members: dict[str, dict[int, list[int]]] = {}
    for op, group, position, _ in facts["group"]:
        members.setdefault(op, {}).setdefault(group, []).append(position)
    out = {}
    for op, found in members.items():
        sizes = {len(positions) for positions in found.values()}
        dense = all(sorted(positions) == list(range(len(positions))) for positions in found.values())
        if not dense or sorted(found) != list(range(len(found))) or len(sizes) > 1:
            raise error(
                facts,
                "group",
                first(facts["group"], 0, {op}),
                f"the groups of `{op}` are not numbered from 0, or not of one size",
                column=2,
                expected="groups 0, 1, …, the members of each at positions 0, 1, …",
            )
        out[op] = sizes.pop()
    return out


def _along(facts: Facts) -> dict[str, int]:
    """Collective → size of its groups, where these run along axes."""
    sizes = sizes_of(facts.tables)
    out: dict[str, int] = {}
    for op, _, axis in facts["group_along"]:
        out[op] = out.get(op, 1) * sizes[axis]
    return out


def _by_rank(
    op: str, kind: str, numbers: Sequence[Row], symbols: Sequence[Row], ranked: Sequence[Row],
    ends: Sequence[Mapping[tuple[str, int], int]] = (),
) -> Iterable[Op]:  # fmt: skip
    """The op with its attributes, once for every rank, and for the ends of axes, on which its numbers may be others."""
    for values in ends:
        there = [(key, position, values.get((key, position), value)) for key, position, value in numbers]
        yield from _by_rank(op, kind, there, symbols, ranked)
    texts = _listed(op, kind, symbols)
    allowed = RANKED.get(kind, frozenset()) if kind in KINDS else None
    for key, *_ in ranked:
        if allowed is not None and key not in allowed:
            raise InputError(
                f"`{op}` ({kind}): `{key}` depends on the rank",
                expected="ranks differ in values of constants and bounds of slices; other ops are several programs",
            )
    for rank in sorted({row[2] for row in ranked}) or [None]:
        mine = [(key, position, value) for key, position, at, value in ranked if at == rank]
        own = _listed(op, kind, [*numbers, *mine])
        if kind in KINDS and own.keys() & texts.keys():
            raise InputError(f"`{op}` ({kind}): `{min(own.keys() & texts.keys())}` is both a number and a text")
        yield Op(kind, [], [], op, own, texts)


def _listed(op: str, kind: str, rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Attributes as lists, in order of positions. InputError for gaps, in kinds whose attributes are known."""
    out: dict[str, list[Any]] = {}
    for key, position, value in sorted(rows, key=lambda row: row[1]):
        values = out.setdefault(key, [])
        if position < 0 or (position != len(values) and kind in KINDS):
            raise InputError(
                f"`{op}` ({kind}): `{key}` has position {position} after {len(values)} values",
                expected="positions 0, 1, … of an attribute",
            )
        values.append(value)
    return out


def _check(op: Op) -> None:
    """InputError where one op breaks a law of its kind."""
    if op.kind not in KINDS:
        return
    if op.kind in ARITY and len(op.operands) != ARITY[op.kind]:
        raise InputError(f"`{op.name}` ({op.kind}) has {len(op.operands)} operands, expected {ARITY[op.kind]}")
    if op.regions and op.kind not in REGIONAL:
        raise InputError(
            f"`{op.name}` ({op.kind}) has a region", expected=f"none, or one of {' '.join(sorted(REGIONAL))}"
        )
    for key, values in SYMBOLS.get(op.kind, {}).items():
        found = op.symbols.get(key, [])
        if op.regions and found in ([], ["region"]):
            continue
        if op.regions or len(found) != 1 or (values and found[0] not in values):
            raise InputError(
                f"`{op.name}` ({op.kind}) has the {key} {found}" + (" and a region" if op.regions else ""),
                expected=f"one of {' '.join(sorted(values))}" if values else "one text",
            )
        if key in LITERALS and not is_literal(found[0]):
            raise InputError(f"`{op.name}` ({op.kind}) has the {key} `{found[0][:40]}`", expected="a number")
        if found[0] in BITWISE and any(family(t.dtype) in ("real", "complex") for t in op.operands):
            raise InputError(f"`{op.name}` ({op.kind}) combines the bits of {op.operands[0].type} by {found[0]}")
    for key in NUMBERS.get(op.kind, ()):
        if len(op.numbers.get(key, ())) != 1:
            raise InputError(
                f"`{op.name}` ({op.kind}) has {len(op.numbers.get(key, ()))} values of `{key}`, expected 1"
            )
    if op.kind in BITWISE and any(family(t.dtype) in ("real", "complex") for t in op.operands):
        raise InputError(f"`{op.name}` ({op.kind}) combines the bits of {op.operands[0].type}")
    alike = op.operands[1:] if op.kind == "select" else op.operands
    if op.kind in ONE_TYPE and len({t.dtype for t in alike}) > 1:
        raise InputError(
            f"`{op.name}` ({op.kind}) takes operands of one element type, not {' and '.join(t.type for t in alike)}"
        )
    flag = FLAGS.get(op.kind, "")
    if op.numbers.get(flag, [0]) not in ([0], [1]):
        raise InputError(f"`{op.name}` ({op.kind}) has {flag} {op.numbers[flag]}", expected="0 or 1")
    _types(op)
    if op.kind == "convolution":
        _labels(op)
    if op.operands and op.kind in ("convolution", "reduce-window", "select-and-scatter"):
        _windows(op)
    rule = RULES.get(op.kind)
    if rule is None:
        return
    declared = [(t.dtype, t.shape) for t in op.results]
    types = rule(op, declared[0] if declared else None)
    if types != declared:
        raise InputError(
            f"`{op.name}` ({op.kind}) has results {' '.join(t.type for t in op.results)}, but its operands and"
            f" attributes make them {' '.join(Tensor(*t).type for t in types)}",
            hint=f"operands: {', '.join(t.type for t in op.operands)}",
        )


def _types(op: Op) -> None:
    """Bits that are read as another type are as many; positions are integers."""
    if op.kind == "bitcast-convert" and op.results:
        before, after = op.operands[0].dtype, op.results[0].dtype
        if op.symbols["from"] != [before] or _bits(before) != _bits(after):
            raise InputError(
                f"`{op.name}` ({op.kind}) reads the bits of {before} as {after}, from {op.symbols['from'][0]}",
                expected="the operand's type as `from`, and one of as many bits",
            )
    positions = op.results[1:] if op.kind == "top-k" else []
    if op.symbols.get("reducer", [""])[0] in INDEX_REDUCERS:
        positions = op.results
    if any(family(t.dtype) != "integer" for t in positions) or (op.kind == "iota" and op.results[0].dtype == "pred"):
        raise InputError(f"`{op.name}` ({op.kind}) counts in {op.results[-1].type}", expected="positions of integers")


def _bits(dtype: str) -> int:
    found = re.search("[0-9]+", dtype)
    return int(found[0]) if found else 8  # pred


def _labels(op: Op) -> None:
    """Dim labels name every dim of operands and result once."""
    for tensor, names in (
        (op.operands[0], ("input_batch", "input_feature", "input_spatial")),
        (op.operands[1], ("kernel_input_feature", "kernel_output_feature", "kernel_spatial")),
        (op.results[0], ("output_batch", "output_feature", "output_spatial")),
    ):
        found = [d for name in names for d in op.numbers.get(name, ())]
        if sorted(found) != list(range(len(tensor.shape))):
            raise InputError(
                f"`{op.name}` ({op.kind}): {', '.join(names)} {found} do not label the dims of {tensor.type}"
            )


def _windows(op: Op) -> None:
    """Window attributes have an entry for every dim of the window; that of a convolution is its kernel."""
    kernel = [op.operands[1].shape[d] for d in op.numbers["kernel_spatial"]] if op.kind == "convolution" else None
    dims = len(op.operands[0].shape) if kernel is None else len(kernel)
    for key in ("window_size", *WINDOW):
        found = op.numbers.get(key, [])
        if found and len(found) != dims:
            raise InputError(f"`{op.name}` ({op.kind}) has {key} {found}", expected=f"{dims} numbers, or none")
    if kernel is not None and op.numbers.get("window_size", kernel) != kernel:
        raise InputError(f"`{op.name}` (convolution) has window_size {op.numbers['window_size']}, its kernel {kernel}")
