"""`shard_map`: what a module with manual computations makes every rank do.

Outside of a manual computation StableHLO speaks of whole values: every rank computes them alike. A manual computation
takes the rank's own shard of each operand, by its `in_shardings`, and leaves shards that together are the whole result,
by its `out_shardings`. So a rank slices what enters and gathers what leaves; where shards go straight from one manual
computation into another, from an input, or to an output of the program, neither is needed and nothing is emitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor

from .. import regions
from ..sdy import DeviceMesh, Sharding
from .known import Known
from .scope import Body, Module, Scope, Shards, Site, Value, lowers
from .types import agrees

if TYPE_CHECKING:
    from jaxlib.mlir import ir


@lowers("sdy.manual_computation")
def manual_computation(site: Site) -> list[Value]:
    """Runs the body on shards."""
    module = site.module
    entering, leaving = shardings(site.op, module)
    block = site.op.regions[0].blocks[0]
    arguments: list[Value] = []
    for value, sharding, ssa in zip(site.values, entering, block.arguments, strict=True):
        if isinstance(value, Known) and not sharding.dims:
            arguments.append(value)
            continue
        local = shard(site, value, sharding)
        type_ = module.types(ssa.type)
        if type_ is None or local.dtype != type_[0] or not agrees(type_, local.shape):
            raise InputError(f"a shard of {local.type} enters a manual computation as `{ssa.type}`")
        arguments.append(local)
    inner = Scope(module, site.scope.body, {}, site.scope, site.stack, site.scope.depth)
    results: list[Value] = []
    for value, sharding, type_ in zip(inner.run(block, arguments), leaving, site.types, strict=True):
        assert type_ is not None
        local = inner.tensor(value)
        shape = tuple(n * ways for n, ways in zip(local.shape, sharding.tiles, strict=True))
        if not agrees(type_, shape):
            raise InputError(f"shards {local.type} leave a manual computation as {type_[0]}{list(type_[1])}")
        whole = local if all(n == 1 for n in sharding.tiles) else None
        results.append(Shards(local, sharding, shape, whole))
    return results


def shardings(op: ir.Operation, module: Module) -> tuple[list[Sharding], list[Sharding]]:
    """in_shardings and out_shardings over the manual axes."""
    found = module.manual.get(op)
    if found is None:
        found = module.manual[op] = _sharded(op, "in", module.meshes), _sharded(op, "out", module.meshes)
    return found


def _sharded(op: ir.Operation, way: str, meshes: dict[str, DeviceMesh]) -> list[Sharding]:
    """The shardings of what goes in or out; operands in the hundreds share a few."""
    from jaxlib.mlir.dialects import sdy

    words = str(op.attributes["manual_axes"]).partition("{")[2].rpartition("}")[0].split(",")
    axes = {word.strip(' "') for word in words}
    texts = [str(text) for text in sdy.TensorShardingPerValueAttr(op.attributes[f"{way}_shardings"]).shardings]
    parsed = {text: Sharding.parse(text, meshes) for text in dict.fromkeys(texts)}
    if any(sharding.unreduced for sharding in parsed.values()):
        raise InputError("a manual computation with unreduced axes is not supported")
    return [parsed[text].restricted(axes) for text in texts]


def shard(site: Site, value: Value, sharding: Sharding) -> Tensor:
    """The rank's shard of a value: the shard itself where it already is one, else a slice at the rank's offset.

    Shards of another sharding are put together only along the dims that are split otherwise.
    """
    if isinstance(value, Shards) and value.sharding.mesh == sharding.mesh:
        x, kept = value.local, value.sharding
        for d, refs in enumerate(kept.dims):
            if refs != sharding.dims[d] and kept.tiles[d] > 1:
                x = _gather(site.scope.body, x, kept, d)
        todo = [d for d, refs in enumerate(sharding.dims) if refs != kept.dims[d]]
    else:
        x = site.scope.tensor(value)
        todo = list(range(len(sharding.dims)))
    for d in todo:
        if sharding.tiles[d] > 1:
            x = _slice(site, x, sharding, d)
    return x


def _slice(site: Site, x: Tensor, sharding: Sharding, d: int) -> Tensor:
    """The rank's block of one dim."""
    if x.shape[d] % sharding.tiles[d]:
        raise InputError(f"dim {d} of {x.type} is not divisible into {sharding.tiles[d]} shards")
    size = x.shape[d] // sharding.tiles[d]
    shape = (*x.shape[:d], size, *x.shape[d + 1 :])
    numbers = {"start": [0] * len(shape), "limit": list(shape), "stride": [1] * len(shape)}
    op = site.add("slice", [x], [(x.dtype, shape)], numbers=numbers)
    starts = {rank: sharding.mesh.coordinate(rank, sharding.dims[d]) * size for rank in range(sharding.mesh.size)}
    op.rank_numbers["start", d] = starts
    op.rank_numbers["limit", d] = {rank: start + size for rank, start in starts.items()}
    return op.result


def assemble(body: Body, value: Shards) -> Tensor:
    """The whole of a value that exists as shards."""
    whole = value.local
    for d, tiles in enumerate(value.sharding.tiles):
        if tiles > 1:
            whole = _gather(body, whole, value.sharding, d)
    return whole


def _gather(body: Body, x: Tensor, sharding: Sharding, d: int) -> Tensor:
    """One dim put together from the ranks that hold its blocks."""
    shape = (*x.shape[:d], x.shape[d] * sharding.tiles[d], *x.shape[d + 1 :])
    op = body.graph.add(
        "all-gather",
        [x],
        [(x.dtype, shape)],
        numbers={"dimension": [d]},
        groups=sharding.mesh.groups(sharding.dims[d]),
        name=f"{x.name}.whole",
        source=body.made[x].source if x in body.made else (),
    )
    body.made.update(regions.producers([op]))
    return op.result


def entering_sharding(ssa: ir.Value, scope: Scope) -> Sharding | None:
    """The one sharding by which a function argument enters manual computations; None where something uses the whole."""
    found = list(dict.fromkeys(_uses(ssa, scope, 0)))
    return found[0] if len(found) == 1 else None


def _uses(ssa: ir.Value, scope: Scope, depth: int) -> Iterator[Sharding | None]:
    for use in ssa.uses:
        op = use.owner.operation
        if op.name == "sdy.manual_computation":
            yield shardings(op, scope.module)[0][use.operand_number]
        elif op.name == "func.call" and depth < 64:
            callee = scope.module.functions.get(str(op.attributes["callee"]).lstrip("@").strip('"'))
            if callee is None:
                yield None
            else:
                yield from _uses(callee.regions[0].blocks[0].arguments[use.operand_number], scope, depth + 1)
        elif op.name != "stablehlo.get_dimension_size":  # a size is the same, however the value is placed
            yield None
