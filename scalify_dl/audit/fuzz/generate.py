"""One random pair of programs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from scalify_dl.errors import InputError

from ..pair import Pair
from . import (  # noqa: F401  (they register their steps)
    batch_steps,
    block_order_steps,
    counted_steps,
    crossed_steps,
    distributed_steps,
    expert_steps,
    flat_steps,
    halo_steps,
    indexed_steps,
    infinite_steps,
    integer_steps,
    loop_steps,
    mean_steps,
    norm_steps,
    number_steps,
    one_hot_steps,
    order_steps,
    padding_steps,
    partitioner_steps,
    ring_steps,
    special_steps,
    sum_steps,
    window_steps,
)
from . import steps as _steps  # noqa: F401
from .world import MESHES, STEPS, Retry, Step, World


def random_pair(
    rng: random.Random, *, length: int | None = None, wrong: float = 0.12, prefer: Iterable[str] = (),
    share: float = 0.5, also: Mapping[str, tuple[Step, float]] | None = None,
) -> Pair:  # fmt: skip
    """A pair with about `length` steps on each side (by default some 8 to 32); every value that nobody uses is an
    output. Steps named in `prefer` are drawn with probability `share`; `also` are further steps, with their weights."""
    world = World(rng, Pair(rng.choice(MESHES)), wrong)
    if world.chance(0.12):
        world.extents = (0, 1, 1, 2, 4, 6)
    length = length or rng.choice([8, 12, 20, 32])
    steps = STEPS | dict(also or {})
    weights = {name: weight for name, (_, weight) in steps.items()}
    preferred = [name for name in prefer if name in steps]
    if preferred:
        more = share / (1 - share) * sum(weights.values()) / len(preferred)
        weights.update({name: weights[name] + more for name in preferred})
    done = 0
    for _ in range(6 * length):
        if done >= length:
            break
        marks = [(g, len(g.ops)) for g in (world.base, world.dist)]
        try:
            steps[rng.choices(list(weights), list(weights.values()))[0]][0](world)
            done += 1
        except (Retry, InputError):
            for graph, count in marks:  # a step that did not fit leaves nothing behind
                del graph.ops[count:]
            alive = {id(r) for g in (world.base, world.dist) for op in g.ops for r in op.results}
            alive |= {id(p.tensor) for g in (world.base, world.dist) for p in g.inputs}
            world.twins = [t for t in world.twins if id(t.base) in alive and id(t.dist) in alive]
    used = {id(x) for g in (world.base, world.dist) for op in g.ops for x in op.operands}
    for twin in world.twins:
        if id(twin.dist) not in used and twin.dist not in [p.tensor for p in world.dist.outputs]:
            world.pair.outputs(twin.base, twin.dist)
    return world.pair
