"""A whole training step of JAX as its user writes it, as dumps that `dlverify verify` reads.

    def build(mesh=None):                              # or two functions: capture_step(build_dist, …, baseline=build)
        step = train_step if mesh is None else jax.shard_map(train_step, mesh=mesh, in_specs=…, out_specs=…)
        return step, (params, optimiser_state, x, y)

    captured = capture_step(build, {"dp": 4}, "dump/net")
    captured.verify()                                  # a verdict, or on the command line: captured.command

The step is a function of whole arrays that returns what it updates: loss, parameters, state of the optimiser. It may be
jitted, with shardings and donated arguments, have `shard_map` inside, an optimiser (optax), placed arrays as arguments.
It is traced, never run. All that it returns is compared. Of the arguments' numbers only this is noted: between which
those of integers are of which some are negative (labels that are ignored).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.readers.read import outside_lines, seen_lines

from ..raised import told
from .lines import own_lines
from .trace import BASELINE, DISTRIBUTED, Capture, _abstract, _jax, _named_alike, capture

if TYPE_CHECKING:
    from scalify_dl.prove.options import Options
    from scalify_dl.report.of_pair import Report

__all__ = ["CapturedStep", "capture_step"]

COMPILED = "what XLA's compiler does behind its partitioner"
ANNOTATED = "what XLA makes of shardings outside of shard_map, and all that its compiler does"
DONATED = "donated arguments: that nobody reads them after the step"


@dataclass(frozen=True)
class CapturedStep(Capture):
    """Dumps of a baseline's step and of the distributed one, and the mesh. `command` verifies them; `outside` is what
    the step does and they do not say."""

    outside: tuple[str, ...] = ()

    def verify(self, relate: str | Path | None = None, options: Options | None = None) -> Report:
        """The verdict on the pair; `relate` is a relations file, `options` those of `dlverify verify`."""
        from scalify_dl.pairing.export import export
        from scalify_dl.prove.options import Options
        from scalify_dl.prove.pipeline import analyse
        from scalify_dl.report.conclude import conclude
        from scalify_dl.report.of_pair import Report

        analysis = analyse(export(self.base, [self.dist], str(self.mesh), relate), options or Options())
        return Report(conclude(analysis), analysis)


@own_lines()
def capture_step(
    build: Callable[..., Any],
    mesh: Mapping[str, int],
    path: str | Path,
    baseline: Callable[..., Any] | None = None,
) -> CapturedStep:
    """Traces a step on one device and on a mesh, to `<path>.base.mlir` and `<path>.dist.mlir` (with `shard_map`) or
    `<path>.dist.hlo` (behind XLA's partitioner).

    `build` gives the step and its arguments (arrays, or `jax.ShapeDtypeStruct`s, in pytrees); if it takes an argument,
    that is the mesh (None for the baseline, unless `baseline` builds that one): one of JAX's devices where there are
    enough, else an abstract one, on which `shard_map` can be traced. Raises InputError where the two steps take or
    return other things, cannot be traced, or the devices do not suffice.
    """
    jax = _jax()
    base_step, base_args = _built(baseline or build, None)
    dist_mesh = _mesh_of(mesh)
    step, args = _built(build, dist_mesh)
    _alike("arguments", _abstract(base_args), _abstract(args))
    with told(BASELINE):
        whole = jax.eval_shape(base_step, *_abstract(base_args))
    with told(DISTRIBUTED):
        sharded = jax.eval_shape(step, *_abstract(args))
        shardings, donated = _placements(step, args)
    _alike("results", whole, sharded)
    folder, name = Path(path).parent, Path(path).name
    step = _named_alike(step, base_step, always=True)  # both got the same arguments
    found = capture(base_step, step, _abstract(args), dist_mesh, shardings, directory=folder, name=name)
    outside = [ANNOTATED if found.dist.suffix == ".mlir" else COMPILED, *([DONATED] if donated else [])]
    for file, lines in ((found.dist, outside_lines(outside)), (found.base, seen_lines(_negative(base_args)))):
        file.write_text(lines + file.read_text("utf-8"), "utf-8")
    return CapturedStep(found.base, found.dist, found.mesh, tuple(outside))


def _built(build: Callable[..., Any], mesh: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What a user's function builds, with the mesh if it asks for one."""
    parameters = inspect.signature(build).parameters.values()
    asks = any(p.default is p.empty or p.name == "mesh" for p in parameters if p.kind is not p.VAR_KEYWORD)
    with told(f"`{getattr(build, '__name__', 'build')}`"):
        made = build(mesh) if asks else build()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], tuple | list)):
        raise InputError(
            f"`{getattr(build, '__name__', 'build')}` returns {type(made).__name__}",
            expected="the step, a function, and the tuple of its arguments",
        )
    return made[0], tuple(made[1])


def _negative(args: tuple[Any, ...]) -> dict[int, tuple[int, int]]:
    """Arguments that hold integers of which some are negative, by position: the least and the greatest."""
    import jax
    import numpy as np

    found = {}
    for n, leaf in enumerate(jax.tree.leaves(args)):
        kind = getattr(getattr(leaf, "dtype", None), "kind", "")
        if kind == "i" and not isinstance(leaf, jax.ShapeDtypeStruct) and leaf.size and np.min(leaf) < 0:
            found[n] = int(np.min(leaf)), int(np.max(leaf))
    return found


def _mesh_of(axes: Mapping[str, int]) -> Any:
    """A mesh of JAX's devices, or an abstract one where there are too few."""
    jax = _jax()
    from jax.sharding import AbstractMesh, AxisType

    names, sizes = tuple(axes), tuple(axes.values())
    types = (AxisType.Auto,) * len(names)
    if jax.device_count() < prod(sizes):
        return AbstractMesh(sizes, names, axis_types=types)
    return jax.make_mesh(sizes, names, types, devices=jax.devices()[: prod(sizes)])


def _alike(what: str, base: Any, dist: Any) -> None:
    """InputError unless two trees of arrays have the same leaves, shapes and types."""
    import jax

    ours, theirs = (
        {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]}
        for tree in (dist, base)
    )
    for key in dict.fromkeys([*theirs, *ours]):
        said = [
            f"{leaf.dtype}{list(leaf.shape)}" if (leaf := side.get(key)) is not None else "nothing"
            for side in (ours, theirs)
        ]
        if said[0] != said[1]:
            raise InputError(
                f"{what} differ at `{key}`: {said[0]} in the distributed step, {said[1]} in the baseline's",
                expected="two steps of the same whole arrays",
            )


def _placements(step: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, bool]:
    """How a jitted step, or arrays that are placed, lay out the arguments (None: nothing is said), and whether some are
    donated."""
    import jax
    from jax.sharding import NamedSharding

    leaves, tree = jax.tree.flatten(args)
    placed = [s if isinstance(s := getattr(leaf, "sharding", None), NamedSharding) else None for leaf in leaves]
    donated = False
    traced = jax.make_jaxpr(step)(*_abstract(args))
    (call,) = traced.eqns if len(traced.eqns) == 1 else (None,)
    if call is not None and "in_shardings" in call.params and list(call.invars) == list(traced.jaxpr.invars):
        said = [s if isinstance(s, NamedSharding) else None for s in call.params["in_shardings"]]
        placed = [own or given for own, given in zip(said, placed, strict=True)]
        donated = any(call.params.get("donated_invars", ()))
    if not any(placed):
        return None, donated
    return jax.tree.unflatten(tree, placed), donated
