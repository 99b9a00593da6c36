"""What the names of sizes mean: a mesh axis, or a dim of a baseline input; and what they are in each capture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts

from .family import SizeSymbol

_NAME = re.compile(r"[A-Za-z_]\w*")
RESERVED = ("floor", "mod")


def parse_symbols(text: str) -> dict[str, str | None]:
    """Reads `tp,batch=tokens:0,seq`: names with their places, None where none is given."""
    out: dict[str, str | None] = {}
    for word in text.split(","):
        name, equals, place = word.strip().partition("=")
        if not _NAME.fullmatch(name) or name in RESERVED or (equals and ":" not in place):
            raise InputError(
                f"--symbolic: `{word.strip()}` names no size",
                expected="a mesh axis, or name=input:dim, such as tp,batch=tokens:0",
            )
        if name in out:
            raise InputError(f"--symbolic: `{name}` twice")
        out[name] = place or None
    return out


def resolve(
    captures: Sequence[Facts], symbols: Mapping[str, str | None]
) -> tuple[list[SizeSymbol], list[dict[str, int]]]:
    """The symbols and their values in every capture; InputError where a name is no size."""
    axes = [{row[0]: row[2] for row in facts["mesh_axis"]} for facts in captures]
    inputs = [_input_dims(facts) for facts in captures]
    values: dict[str, list[int]] = {}
    found: dict[str, SizeSymbol] = {}
    for name, place in symbols.items():
        if not _NAME.fullmatch(name) or name in RESERVED:
            raise InputError(f"symbol `{name}`", expected="a name of letters, digits and `_`")
        if place is None and all(name in sizes for sizes in axes):
            values[name] = [sizes[name] for sizes in axes]
            found[name] = SizeSymbol(name, True, f"mesh axis {name}")
        elif place is not None:
            values[name] = [_at(dims, name, place) for dims in inputs]
            found[name] = SizeSymbol(name, False, f"dim {place.rpartition(':')[2]} of {place.rpartition(':')[0]}")
    open_names = [name for name in symbols if name not in found]
    if open_names:
        candidates = _candidates(inputs, list(values.values()))
        if len(open_names) > 1 or len(candidates) != 1:
            listed = "; ".join(f"{' = '.join(places)} ({', '.join(map(str, v))})" for v, places in candidates.items())
            hint = f"dims of baseline inputs that vary: {listed or 'none'}"
            if len(captures) == 1:
                shapes = {k: "x".join(map(str, d.values())) for k, d in inputs[0].items() if k.isdigit() and d}
                hint = "baseline inputs by position: " + ", ".join(f"{k} is {shape}" for k, shape in shapes.items())
            raise InputError(
                f"{open_names[0]} is neither a mesh axis nor placed",
                expected=f"{open_names[0]}=input:dim",
                hint=hint,
            )
        ((sizes, places),) = candidates.items()
        values[open_names[0]] = list(sizes)
        found[open_names[0]] = SizeSymbol(open_names[0], False, f"dim {places[0]}")
    points = [{name: values[name][i] for name in symbols} for i in range(len(captures))]
    return [found[name] for name in symbols], points


def _input_names(facts: Facts) -> dict[str, str]:
    """Baseline inputs by what people call them: position, `#position`, id, name."""
    regions = {row[2] for row in facts["region"]}
    base = next(graph for graph, role in facts["graph"] if role == "base" and graph not in regions)
    names: dict[str, str] = dict(facts["tensor_name"])
    out: dict[str, str] = {}
    for graph, position, tensor in facts["input"]:
        if graph == base:
            for key in (str(position), f"#{position}", tensor, str(names.get(tensor, tensor))):
                out[key] = tensor
    return out


def _input_dims(facts: Facts) -> dict[str, dict[int, int]]:
    """Dims of baseline inputs, by name and by position."""
    inputs = _input_names(facts)
    dims: dict[str, dict[int, int]] = {tensor: {} for tensor in inputs.values()}
    for tensor, position, size in facts["dim"]:
        if tensor in dims:
            dims[tensor][position] = size
    return {key: dims[tensor] for key, tensor in inputs.items()}


def located(facts: Facts, symbol: SizeSymbol, place: str | None) -> tuple[str, str, int] | tuple[str, str]:
    """The number that a symbol is: ("axis", name) or ("dim", tensor, position)."""
    if symbol.axis:
        return ("axis", symbol.name)
    key, _, position = (place or symbol.place).rpartition(":")
    return ("dim", _input_names(facts)[key], int(position))


def _at(dims: Mapping[str, Mapping[int, int]], name: str, place: str) -> int:
    key, _, dim = place.rpartition(":")
    if key not in dims:
        listed = ", ".join(k for k in dims if not k.isdigit() and not k.startswith("#"))
        raise InputError(f"{name}={place}: no baseline input `{key}`", expected=f"a position, or one of {listed}")
    if not dim.isdigit() or int(dim) not in dims[key]:
        raise InputError(f"{name}={place}: `{key}` has dims {', '.join(map(str, dims[key])) or 'none'}")
    return dims[key][int(dim)]


def _candidates(
    inputs: Sequence[Mapping[str, Mapping[int, int]]], known: Sequence[Sequence[int]]
) -> dict[tuple[int, ...], list[str]]:
    """Dims that vary, and not as a symbol that is known: their sizes, and where they occur."""
    growth = {tuple(Fraction(v, sizes[0]) for v in sizes) for sizes in known}
    out: dict[tuple[int, ...], list[str]] = {}
    for key, dims in inputs[0].items():
        if not key.isdigit():
            continue
        for position in dims:
            sizes = tuple(dims.get(key, {}).get(position, 0) for dims in inputs)
            if len(set(sizes)) > 1 and tuple(Fraction(v, sizes[0]) for v in sizes) not in growth:
                out.setdefault(sizes, []).append(f"{key}:{position}")
    return out
