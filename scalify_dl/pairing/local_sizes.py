"""What a rank's dump has for the sizes that it leaves open: the baseline's sizes, divided as its inputs are placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.errors import InputError
from scalify_dl.ir.expression import Expression
from scalify_dl.ir.graph import Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart
from scalify_dl.readers.relations import InputRelation, Relations
from scalify_dl.readers.sizes import Formula, OpenInput, OpenSizes, Sizes

from .pairing import find, find_one, pair_rest
from .patterns import each_concat, filled


def local_sizes(
    base: Sequence[OpenInput],
    dump: OpenSizes,
    mesh: Mesh,
    relations: Relations,
    given: Sizes,
    dims: Mapping[tuple[int, int], Expression] | None = None,
    axes: Mapping[str, Expression] | None = None,
) -> Sizes:
    """Sizes of a rank's dump: from the baseline's inputs for what placement decides, else as given by name.

    `base` has the baseline's inputs with numbers for dims, or `dims` formulas of them; `axes` formulas of axis sizes.
    """
    theirs = [_port(port) for port in base]
    ours = [_port(port) for port in dump.inputs]
    placed: dict[int, InputRelation] = {}
    partner: dict[int, int] = {}
    joined = [key for relation in each_concat(relations.concat, theirs) for key in relation.of]
    settled: set[int] = {n for key in joined for n in find(ours, key)}
    for relation in relations.inputs:
        for position in find(ours, relation.key):
            placed[position] = relation
            if relation.base is not None:
                called = filled(relation.base, relation.key, ours[position])
                partner[position] = find_one(theirs, called, relation.place, "baseline input")
    pairs = {d: b for d, (b, _) in pair_rest(theirs, ours, partner, settled, "input", dump.file or "inputs").items()}
    found: dict[tuple[str, int], Expression] = {}
    for position, at in (pairs | partner).items():
        port, whole = dump.inputs[position], base[at].dims
        entry = placed.get(position)
        if len(port.dims) != len(whole) or (entry is not None and entry.parts is not None):
            continue
        split = entry.dims if entry is not None and isinstance(entry.dims, Mapping) and not port.whole else {}
        for n, dim in enumerate(port.dims):
            if isinstance(dim, Formula):
                there = whole[n]
                size = Expression.number(there) if isinstance(there, int) else (dims or {})[at, n]
                ways = _ways(split.get(n, ()), mesh, axes or {})
                local = size / ways
                if local.constant is not None and local.constant.denominator != 1:
                    raise InputError(
                        f"dim {n} of size {size} of {port.title} does not split evenly over"
                        f" {', '.join(map(str, split.get(n, ())))} ({ways} ways)",
                        file=dump.file,
                    )
                found[str(position), n] = local
    return Sizes(given.symbols, found)


def _port(port: OpenInput) -> Port:
    return Port(Tensor("", (0,) * len(port.dims), port.names[0] if port.names else ""), port.path)


def _ways(parts: Sequence[AxisPart], mesh: Mesh, axes: Mapping[str, Expression]) -> Expression:
    """In how many parts a dim is split."""
    ways = Expression.number(1)
    for part in parts:
        whole = axes.get(part.axis, Expression.number(mesh.axis_size(part.axis)))
        ways = ways * (whole / Expression.number(part.pre) if part.size is None else Expression.number(part.size))
    return ways
