"""Calls, composites, loops and branches, custom calls, and markers that only rename."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.texts import escaped

from .. import regions
from ..libraries import PREFIX
from .dynamic import DYNAMIC
from .scope import Scope, Site, Value, attribute_names, lowers, opaque, short, unknown
from .types import is_open

if TYPE_CHECKING:
    from jaxlib.mlir import ir

RENAMING = (
    "stablehlo.optimization_barrier",
    "sdy.sharding_constraint",
    "sdy.reshard",
    "sdy.propagation_barrier",
    "sdy.data_flow_edge",
)
MARKERS = frozenset({"Sharding", "LayoutConstraint", "annotate_device_placement", "xla.sdy.FuncResultSharding"})
"""Targets of custom calls that say something about their operand and return it."""
NO_MEANING = frozenset(
    {
        "call_target_name",
        "api_version",
        "has_side_effect",
        "output_operand_aliases",
        "mhlo.sharding",
        "sdy.sharding",
        "sdy.sharding_rule",
        "mhlo.frontend_attributes",
    }
)
"""Attributes of custom calls that do not change what is computed."""


@lowers(*RENAMING)
def renaming(site: Site) -> list[Value]:
    """The operands under new names."""
    return site.values


@lowers("sdy.sharding_group")
def nothing(site: Site) -> list[Value]:
    """No results, no effect on values."""
    return []


@lowers("func.call")
def call(site: Site) -> list[Value]:
    """The callee in place."""
    return site.inline(function(site, site.attribute("callee")), site.values)


def function(site: Site, reference: ir.Attribute) -> ir.Operation:
    """The function of a symbol reference."""
    name = str(reference).lstrip("@").strip('"')
    found = site.module.functions.get(name)
    if found is None or not len(found.regions[0].blocks):
        raise InputError(f"`@{name}` is called but not defined in the module")
    return found


@lowers("sdy.named_computation")
def named_computation(site: Site) -> list[Value]:
    """The region in place."""
    inner = Scope(site.module, site.scope.body, {}, site.scope, site.stack, site.scope.depth)
    return inner.run(site.op.regions[0].blocks[0], site.values)


@lowers("stablehlo.composite")
def composite(site: Site) -> list[Value]:
    """The decomposition in place: that is what it computes, whatever it is called."""
    site.ignore("name", "version", "composite_regions", "composite_attributes")
    return site.inline(function(site, site.attribute("decomposition")), site.values)


@lowers("stablehlo.custom_call")
def custom_call(site: Site) -> list[Value]:
    """Markers are their operand; anything else is opaque, with its configuration."""
    target = site.text("call_target_name")
    site.ignore(*attribute_names(site.op))
    if target in DYNAMIC:
        return DYNAMIC[target](site)
    if target in MARKERS and len(site.values) == len(site.types):
        return site.values
    if site.number("has_side_effect", 0) or target.startswith(PREFIX):
        site.module.effects.append(f"custom:{target}")
        return opaque(site, f"unknown:custom:{target}")  # more than a function of its operands
    return opaque(site, f"custom:{target}", dict(_symbols(site)))


def _symbols(site: Site) -> Iterator[tuple[str, list[str]]]:
    """What tells custom calls of one target apart; layouts only where they are not row-major."""
    for key in attribute_names(site.op):
        attribute = site.attribute(key)
        if key in ("operand_layouts", "result_layouts"):
            orders = [list(order) for order in attribute]
            if any(order != sorted(order, reverse=True) for order in orders):
                yield key, [str(orders)]
        elif key == "backend_config":
            word = isinstance(getattr(attribute, "value", None), str)
            yield ("config", [escaped(attribute.value)]) if word else ("config attributes", [short(str(attribute))])
        elif key == "called_computations":
            if len(attribute):
                yield key, [short("\n".join(_bodies(site, [str(name) for name in attribute])))]
        elif key not in NO_MEANING:
            yield f"attribute {key}" if key == "config" else key, [short(str(attribute))]


def _bodies(site: Site, names: Sequence[str]) -> list[str]:
    """The texts of functions and of all that they call."""
    found: dict[str, str] = {}
    pending = list(names)
    while pending:
        name = pending.pop().lstrip("@").strip('"')
        if name not in found and name in site.module.functions:
            found[name] = str(site.module.functions[name])
            pending += re.findall(r"@([\w.$-]+)", found[name])
    return [*names, *found.values()]


@lowers("stablehlo.after_all", "stablehlo.create_token")
def token(site: Site) -> list[Value]:
    """Order of effects only."""
    return [None]


@lowers("stablehlo.tuple", "stablehlo.get_tuple_element")
def tuples(site: Site) -> list[Value]:
    """Tuples do not occur in modules of current JAX."""
    raise InputError(f"`{site.op.name}`: tuples are not supported", hint="export with a current StableHLO")


@lowers("stablehlo.while")
def while_(site: Site) -> list[Value]:
    """Carried values in, carried values out; what the regions capture is carried unchanged."""
    carried = site.operands
    types = [(t.dtype, t.shape) for t in carried]
    cond, body = (
        site.scope.region(region, f"{site.name}.{part}", types)
        for region, part in zip(site.op.regions, ("cond", "body"), strict=True)
    )
    outer = list(dict.fromkeys([*cond.body.captured, *body.body.captured]))
    for inner in (cond.body, body.body):
        align(inner.graph, inner.captured, len(carried), outer)
    for port in body.body.graph.inputs[len(carried) :]:
        body.body.graph.output(port.tensor)
    initial = [*carried, *outer]
    trips = regions.trip_count(cond.body.graph, body.body.graph, initial, site.made)
    op = site.add(
        "while",
        initial,
        [(t.dtype, t.shape) for t in initial],
        numbers={} if trips in (None, regions.WRAPS) else {"trip_count": [trips]},
        regions=[cond.body.graph, body.body.graph],
    )
    return list(op.results[: len(carried)])


def align(graph: Graph, captured: dict[Tensor, Tensor], count: int, outer: list[Tensor]) -> None:
    """Gives a region the inputs of `outer`, in that order, behind its first `count` inputs."""
    ports = {port.tensor: port for port in graph.inputs[count:]}
    del graph.inputs[count:]
    for tensor in outer:
        if tensor in captured:
            graph.inputs.append(ports[captured[tensor]])
        else:
            captured[tensor] = graph.input(tensor.name, tensor.dtype, tensor.shape)


@lowers("stablehlo.case", "stablehlo.if")
def conditional(site: Site) -> list[Value]:
    """Branch by index; `if` has the false branch at index 0."""
    (index,) = site.operands
    branches = list(site.op.regions)
    if site.op.name == "stablehlo.if":
        branches.reverse()
        index = site.emit("convert", [index], ("s32", ()))
    scopes = [site.scope.region(region, f"{site.name}.{i}", []) for i, region in enumerate(branches)]
    captures = [list(scope.body.captured) for scope in scopes]
    types = [type_ for type_ in site.types if type_ is not None]
    if len(types) != len(site.types):
        return unknown(site)
    if any(map(is_open, types)):
        types = [(port.tensor.dtype, port.tensor.shape) for port in scopes[0].body.graph.outputs]
    op = site.add(
        "conditional",
        [index, *(tensor for captured in captures for tensor in captured)],
        types,
        numbers={"branch_operand_count": [len(captured) for captured in captures]},
        regions=[scope.body.graph for scope in scopes],
    )
    return list(op.results)
