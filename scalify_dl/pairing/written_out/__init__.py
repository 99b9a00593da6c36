"""Loops in which each rank does something else, written out: turn by turn, and what each rank does by itself.

    def turn(carry, t):                                   # a pipeline, of which every rank runs one stage
        received, outputs = carry
        x = layer(p, jnp.where(rank == 0, fresh(t), received))
        outputs = jnp.where(rank == last, outputs.at[t - last].set(x), outputs)
        return (lax.ppermute(x, "pp", to_the_next), outputs), None

On rank r the value of turn t belongs to micro-batch t - r, so no value of the loop is that of one baseline value on all
ranks. Written out, each value of each rank is one of the baseline's (`values.py`): what a rank receives is a value that
is there already, what it chooses by its number is chosen, and what ranks add up is a sum of values. Loops of the
baseline are written out, too.

So is what ranks draw with keys that their numbers went into (`keys.py`).

So are loops that only one program has, as micro-batches that a scan adds up: nothing pairs their turns with another
loop's.

Loops that both have are proved as loops, carried value by carried value. Where that fails they are written out, too
(`loops_written_out`): a factor that one side has from the start and the other at the end is no invariant of a loop.

`written_out` gives programs that compute the same, on inputs that it lists as finite: where a rank multiplies by
zero what belongs to no micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Repl
from scalify_dl.ir.mesh import Mesh

from ..correspond import Shard
from .wanted import RANK_NUMBERS, axes_of_turns, combines_bits, loops_of, loops_of_one_side

__all__ = ["keys_written_out", "loops_written_out", "written_out"]


def written_out(base: Graph, dist: Graph, mesh: Mesh, given: Callable[[], Sequence[Shard]]) -> tuple[Graph, Graph]:
    """Both programs, with loops written out where ranks of the distributed one do different things in them, or where
    one program has loops that none of the other's is like; else as they are. `given` tells what the distributed inputs
    are of the baseline's."""
    axes = axes_of_turns(dist, mesh)
    loops = None if axes else loops_of_one_side(base, dist)
    if loops == set() or not mesh.still.isdisjoint(axes):
        return base, dist
    from .values import NotWrittenOut
    from .writer import Writer  # numpy, which takes a while to import

    try:
        alike = _alike(given(), axes) if axes else set()
        return Writer(base, Mesh(()), (), set(), loops).run(), Writer(dist, mesh, axes, alike, loops).run()
    except NotWrittenOut:
        return base, dist


def keys_written_out(
    base: Graph, dist: Graph, mesh: Mesh, given: Callable[[], Sequence[Shard]]
) -> tuple[Graph, Graph] | None:
    """Both programs, with what each rank draws with a key of its own written out, and loops as `written_out` has them;
    None where no rank does, or ranks do different things in loops, too."""
    if not combines_bits(dist.ops) or not any(op.kind in RANK_NUMBERS for op in dist.ops) or axes_of_turns(dist, mesh):
        return None
    from .keys import keys
    from .values import NotWrittenOut
    from .writer import Writer

    found = keys(dist, mesh)
    if not found.axes or not mesh.still.isdisjoint(found.axes):
        return None
    loops = loops_of_one_side(base, dist) | found.loops
    try:
        alike = _alike(given(), found.axes)
        return (
            Writer(base, Mesh(()), (), set(), loops).run(),
            Writer(dist, mesh, found.axes, alike, loops, found.numbers).run(),
        )
    except NotWrittenOut:
        return None


def loops_written_out(base: Graph, dist: Graph, mesh: Mesh) -> tuple[Graph, Graph] | None:
    """Both programs without the loops that both have; None where they have none, or these have too many turns."""
    loops = loops_of(base) & loops_of(dist)
    if not loops:
        return None
    from .values import NotWrittenOut
    from .writer import Writer

    try:
        return Writer(base, Mesh(()), (), set(), loops).run(), Writer(dist, mesh, (), set(), loops).run()
    except NotWrittenOut:
        return None


def _alike(given: Sequence[Shard], axes: Sequence[str]) -> set[Tensor]:
    """Inputs that do not differ along those axes."""
    wholes = [shard.dist for shard in given if not shard.dist_piece and all(
        isinstance(entry, Repl) for axis, entries in shard.layout.axes if axis in axes for entry in entries
    )]  # fmt: skip
    return {x for x in wholes if sum(shard.dist is x for shard in given) == 1}
