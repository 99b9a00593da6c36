"""One random pair of programs."""

from __future__ import annotations

import random

from ..pair import Pair
from . import distributed_steps, partitioner_steps, special_steps, steps  # noqa: F401  (register their steps)
from .world import MESHES, STEPS, Retry, World


def random_pair(rng: random.Random, *, length: int = 12, wrong: float = 0.12) -> Pair:
    """A pair with about `length` steps on each side; every value that nobody uses is an output."""
    world = World(rng, Pair(rng.choice(MESHES)), wrong)
    names = list(STEPS)
    weights = [STEPS[name][1] for name in names]
    done = 0
    for _ in range(6 * length):
        if done >= length:
            break
        marks = [(g, len(g.ops)) for g in (world.base, world.dist)]
        try:
            STEPS[rng.choices(names, weights)[0]][0](world)
            done += 1
        except Retry:
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
