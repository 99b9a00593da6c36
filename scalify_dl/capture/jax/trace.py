"""Live JAX functions: traced with abstract arguments (no weights, no data), verified at once or written as dumps.

    report = verify(loss, shard_map_loss, args, mesh)                                 # manual collectives
    report = verify(step, step, args, mesh, in_shardings=(P(None, "tp"), P("dp")))    # what XLA's partitioner did

`args` are arrays or `jax.ShapeDtypeStruct`s (pytrees of them); of arrays only shape and type are used. The distributed
function is either written with `shard_map` (then its StableHLO already says what every rank does; the mesh may be
abstract, of any size), or an ordinary function that is compiled for the mesh with `in_shardings`: XLA's SPMD
partitioner runs, and the module behind it is verified. That needs as many devices as the mesh has; on a CPU host

    XLA_FLAGS=--xla_force_host_platform_device_count=8

in the environment makes them, before JAX is imported. Gradients, scans and jitted helpers are part of the functions.

One proof for all sizes (docs/symbolic.md) needs a program that says its sizes, or captures at several:

    b, s = jax.export.symbolic_shape("b, s")       # dims of arguments: what is written leaves these sizes open
    capture_family(program, [{"tp": 2, "batch": 4}, {"tp": 4, "batch": 12}], {"tp": None, "batch": "x:0"}, "family")
"""

from __future__ import annotations

import inspect
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh

from ..family import write_family
from ..raised import told
from . import lines
from .expanded import expanded
from .lines import own_lines

if TYPE_CHECKING:
    from scalify_dl.ir.graph import Graph
    from scalify_dl.prove.options import Options
    from scalify_dl.report.of_pair import Report

__all__ = ["Capture", "Program", "capture", "capture_family", "partitioned", "verify"]

PARTITIONER = {
    "xla_dump_hlo_as_text": True,
    "xla_dump_large_constants": True,
    "xla_dump_hlo_pass_re": "spmd-partition.*",
    "xla_backend_optimization_level": 0,
}
"""Compiler options that dump the module around the SPMD partitioner."""

BASELINE, DISTRIBUTED = "the baseline", "the distributed program"

AFTER = "*.after_spmd-partitioning*.txt"

Program = tuple[Any, ...]
"""Arguments of `capture`: baseline, distributed function, arguments, mesh, perhaps in_shardings."""


@dataclass(frozen=True)
class Capture:
    """Two dumps of one pair of programs, and the mesh. `command` verifies them."""

    base: Path
    dist: Path
    mesh: Mesh

    @property
    def command(self) -> str:
        """The command line that verifies the pair."""
        return shlex.join(["dlverify", "verify", str(self.base), str(self.dist), "--mesh", str(self.mesh)])


@own_lines()
def capture(
    fn_base: Callable[..., Any],
    fn_dist: Callable[..., Any],
    args: Sequence[Any],
    mesh: Any,
    in_shardings: Any = None,
    *,
    out_shardings: Any = None,
    directory: str | Path,
    name: str = "model",
) -> Capture:
    """Traces both functions and writes `NAME.base.mlir` and `NAME.dist.mlir` (shard_map) or `NAME.dist.hlo`
    (partitioned) into a directory.

    `mesh` is a `jax.sharding.Mesh` or `AbstractMesh`; `in_shardings` and `out_shardings` as `jax.jit` takes them, with
    `PartitionSpec`s or `NamedSharding`s. Arguments may have dims of `jax.export.symbolic_shape`: then both functions
    are exported (`shard_map` only), and the dumps leave these sizes open. Raises InputError where JAX is missing, the
    function neither uses `shard_map` nor has shardings, the devices do not suffice, or a function cannot be traced.
    """
    axes = _mesh(mesh)
    abstract = _abstract(args)
    if _open(abstract):
        return _exported(fn_base, _named_alike(fn_dist, fn_base), abstract, axes, Path(directory), name)
    with told(BASELINE):
        baseline = _lower(fn_base, abstract)
    fn_dist = _named_alike(fn_dist, fn_base)
    shardings = {"in_shardings": in_shardings, "out_shardings": out_shardings}
    with told(DISTRIBUTED):
        named = {key: _named(value, mesh) for key, value in shardings.items() if value is not None}
        distributed = _lower(fn_dist, abstract, **named)
    text = distributed.as_text(debug_info=True)
    suffix = "mlir"
    if "sdy.manual_computation" not in text:
        if in_shardings is None and not _placed(abstract):
            raise InputError(
                "the distributed function neither uses shard_map nor has shardings",
                expected="in_shardings, arguments with shardings, or a function with shard_map",
            )
        _results_alike(baseline, distributed)
        with told("XLA's partitioner, of the distributed program,"):
            text, suffix = partitioned(distributed, mesh), "hlo"
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    base, dist = folder / f"{name}.base.mlir", folder / f"{name}.dist.{suffix}"
    one = baseline.as_text(debug_info=True)
    base.write_text(expanded(one, text) if suffix == "hlo" else one, "utf-8")
    dist.write_text(text, "utf-8")
    return Capture(base, dist, axes)


def capture_family(
    program: Callable[[Mapping[str, int]], Program],
    points: Sequence[Mapping[str, int]],
    symbols: Mapping[str, str | None],
    directory: str | Path,
) -> Path:
    """Captures a program at several sizes and writes the family file; returns its path, for `dlverify family`.

    `program` gives the arguments of `capture` at some sizes; `points` are sizes that grow by different primes;
    `symbols` says what a size is: a dim of an argument (`"x:0"`, or `"0:0"` by position), None for a mesh axis.
    """
    members = []
    for number, point in enumerate(points):
        found = capture(*program(point), directory=directory, name=f"at{number}")
        members.append((found.base, [found.dist], str(found.mesh)))
    return write_family(directory, symbols, members)


def verify(
    fn_base: Callable[..., Any],
    fn_dist: Callable[..., Any],
    args: Sequence[Any],
    mesh: Any,
    in_shardings: Any = None,
    *,
    out_shardings: Any = None,
    relate: str | Path | None = None,
    options: Options | None = None,
) -> Report:
    """Traces both functions and verifies that the distributed one computes what the other does.

    Arguments as for `capture`; `relate` is a relations file, `options` those of `dlverify verify`. The report's
    `verdict` is PROVED, REFUTED or UNKNOWN.
    """
    from scalify_dl.pairing.export import tables
    from scalify_dl.pairing.read_pair import read_pair
    from scalify_dl.prove.options import Options
    from scalify_dl.prove.pipeline import analyse
    from scalify_dl.readers.relations import load_relations
    from scalify_dl.report.conclude import conclude
    from scalify_dl.report.of_pair import Report

    with tempfile.TemporaryDirectory(prefix="dlverify-") as directory:
        found = capture(fn_base, fn_dist, args, mesh, in_shardings, out_shardings=out_shardings, directory=directory)
        base, dists = read_pair(found.base, [found.dist], found.mesh)
    base.file = _title(fn_base)
    for graph in dists:
        graph.file = _title(fn_dist)
        _called_alike(base, graph)
    facts = tables(base, dists, found.mesh, load_relations(relate) if relate else None, joined=True)
    analysis = analyse(facts, options or Options())
    return Report(conclude(analysis), analysis)


def _called_alike(base: Graph, dist: Graph) -> None:
    """Both functions got the same arguments: inputs pair by position, whatever the functions call them."""
    if len(base.inputs) != len(dist.inputs):
        raise InputError(f"{len(base.inputs)} arguments in the baseline, {len(dist.inputs)} in the distributed program")
    for n, (ours, theirs) in enumerate(zip(dist.inputs, base.inputs, strict=True)):
        ours.alias = ours.path
        ours.path = theirs.path = theirs.path or f"argument {n}"
        ours.argument = theirs.argument = False


def _results_alike(baseline: Any, distributed: Any) -> None:
    """Behind the partitioner results have no names, so that they pair by position: their keys must be the same."""
    import jax

    ours, theirs = (
        [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(lowered.out_info)[0]]
        for lowered in (distributed, baseline)
    )
    keyed = any(one != other and "['" in one + other for one, other in zip(ours, theirs, strict=False))
    if len(ours) > 1 and keyed:
        raise InputError(
            f"the two functions have results of different structure: {', '.join(ours[:6])} and {', '.join(theirs[:6])}",
            expected="the same keys in both",
        )


def _named_alike(
    function: Callable[..., Any], like: Callable[..., Any], *, always: bool = False
) -> Callable[..., Any]:
    """The function under the argument names of another one that has some of its names in other places (`always`: or
    other names): dumps pair arguments by name."""
    try:
        ours, theirs = (list(inspect.signature(f).parameters) for f in (function, like))
    except (TypeError, ValueError):
        return function
    moved = any(name in theirs and (n >= len(theirs) or theirs[n] != name) for n, name in enumerate(ours))
    if not moved and not (always and ours != theirs):
        return function

    def call(*args: Any) -> Any:
        return function(*args)

    call.__signature__ = inspect.signature(like)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = getattr(function, "__name__", "call")
    return call


def partitioned(lowered: Any, mesh: Any) -> str:
    """The HLO text of a lowered function behind XLA's SPMD partitioner."""
    import jax

    if jax.device_count() < mesh.size:
        raise InputError(
            f"XLA's partitioner needs {mesh.size} devices, JAX has {jax.device_count()}",
            hint=f"set XLA_FLAGS=--xla_force_host_platform_device_count={mesh.size} before Python starts",
        )
    with tempfile.TemporaryDirectory(prefix="dlverify-xla-") as directory:
        lowered.compile(compiler_options={"xla_dump_to": directory, **PARTITIONER})
        dumps = sorted(Path(directory).glob(AFTER))
        if not dumps:
            raise InputError("XLA dumped no module behind its SPMD partitioner: does the mesh have one device only?")
        return dumps[-1].read_text("utf-8")


def _jax() -> Any:
    """The jax module."""
    try:
        import jax
        from jax.extend import source_info_util
    except ImportError:
        hint = "install the `jax` extra: pip install 'scalify-dl[jax]'"
        raise InputError("JAX is not installed", hint=hint) from None
    for file in (__file__, lines.__file__):  # source stacks begin in the user's code
        source_info_util.register_exclusion(file)
    return jax


def _title(function: Callable[..., Any]) -> str:
    """What reports call a function."""
    while not hasattr(function, "__name__") and hasattr(function, "func"):
        function = function.func  # functools.partial
    return f"`{getattr(function, '__name__', 'function')}` (live)"


def _open(abstract: Sequence[Any]) -> bool:
    """Whether a dim of an argument is a symbol."""
    import jax

    return any(not isinstance(n, int) for leaf in jax.tree.leaves(list(abstract)) for n in leaf.shape)


def _exported(
    fn_base: Callable[..., Any],
    fn_dist: Callable[..., Any],
    abstract: Sequence[Any],
    axes: Mesh,
    folder: Path,
    name: str,
) -> Capture:
    """Both functions with their sizes left open."""
    import jax.export

    folder.mkdir(parents=True, exist_ok=True)
    found = Capture(folder / f"{name}.base.mlir", folder / f"{name}.dist.mlir", axes)
    for function, file, who in ((fn_base, found.base, BASELINE), (fn_dist, found.dist, DISTRIBUTED)):
        with told(who):
            exported = jax.export.export(_jax().jit(function, keep_unused=True), platforms=("cpu",))(*abstract)
        file.write_text(str(exported.mlir_module()), "utf-8")
    return found


def _lower(function: Callable[..., Any], abstract: Sequence[Any], **shardings: Any) -> Any:
    """StableHLO of a function. Arguments that it does not use stay, so that positions keep their meaning."""
    jitted = _jax().jit(function, keep_unused=True, **shardings)
    return jitted.trace(*abstract).lower(lowering_platforms=("cpu",))


def _abstract(args: Sequence[Any]) -> list[Any]:
    """Arguments by shape, type and placement only."""
    jax = _jax()

    def leaf(value: Any) -> Any:
        if isinstance(value, jax.ShapeDtypeStruct):
            return value
        try:
            typed = jax.typeof(value)
        except TypeError:
            raise InputError(
                f"an argument has a {type(value).__name__} in it", expected="arrays, or jax.ShapeDtypeStruct"
            ) from None
        return jax.ShapeDtypeStruct(typed.shape, typed.dtype)

    return [jax.tree.map(leaf, arg) for arg in args]


def _placed(abstract: Sequence[Any]) -> bool:
    """Whether arguments carry shardings of their own."""
    import jax

    return any(getattr(leaf, "sharding", None) is not None for leaf in jax.tree.leaves(list(abstract)))


def _named(shardings: Any, mesh: Any) -> Any:
    """PartitionSpecs bound to the mesh; None means replicated, as in `shard_map`."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    def bind(leaf: Any) -> Any:
        if leaf is None:
            return NamedSharding(mesh, PartitionSpec())
        return NamedSharding(mesh, leaf) if isinstance(leaf, PartitionSpec) else leaf

    return jax.tree.map(bind, shardings, is_leaf=lambda leaf: leaf is None or isinstance(leaf, PartitionSpec))


def _mesh(mesh: Any) -> Mesh:
    """The verifier's mesh of a JAX mesh (or of a mapping axis → size)."""
    shape: Mapping[str, int] = mesh if isinstance(mesh, Mapping) else mesh.shape
    return Mesh(tuple((str(axis), int(size)) for axis, size in shape.items()))
