"""`verify` and `assert_equivalent`: dumps, live torch and JAX programs, captured steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.origin import Origin, has_order
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import InTime, Verdict
from scalify_dl.readers.sizes import Sizes
from scalify_dl.report.conclude import conclude
from scalify_dl.report.of_pair import Report

from . import arguments
from .arguments import a, with_hints

if TYPE_CHECKING:
    from scalify_dl.readers.relations import Relations

MeshLike = str | Mapping[str, int] | Mesh | Any
"""`"dp=2,tp=4"`, `{"dp": 2, "tp": 4}`, or a mesh of JAX."""


class NotEquivalent(AssertionError):
    """The distributed program is not proved to compute what the baseline does. `report` says where and why not."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(report.text())


@with_hints()
def verify(
    base: Any,
    dist: Any = None,
    *,
    mesh: MeshLike = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    relate: str | Path | Mapping[str, Any] | None = None,
    sizes: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    gradients: bool = False,
    opaque: Sequence[str] | None = None,
    rules: Sequence[str | Path] | None = None,
    strict: bool = False,
    accept: str | Path | None = None,
    timeout: float | None = None,
    max_memory: int | None = None,
    refute: bool = True,
    keep: str | Path | None = None,
) -> Report:
    """Whether the distributed program computes what the baseline computes.

    Programs are given as

    - dumps: `base` is a file, `dist` a file or one for each rank, `mesh` text or a mapping; or `base` is a directory
      of facts, or what a `capture…` function gave, and that is all;
    - live torch: `base` is a module or a function of tensors, `dist` a function of the device mesh that gives the
      distributed one (or a tuple with its arguments, or with arguments and a step); `args` and `kwargs` are the
      baseline's arguments. `gradients=True` compares the gradients of all parameters, too (the program returns its
      loss). Or `base` is a builder as `scalify_dl.capture_step` takes it, `dist` perhaps another one. Ranks are played
      on this machine;
    - live JAX: two functions, `args` (arrays or `jax.ShapeDtypeStruct`s), and `mesh`, a mesh of JAX; with
      `in_shardings` and `out_shardings` the partitioner's program is verified. Or builders, as for
      `scalify_dl.capture.jax.capture_step`, with `mesh` a mapping.

    `relate` is a relations file, or a mapping that says the same; `sizes` are those that dumps leave open
    (`"tokens:0=8"`); `kernels` say which kernels opaque calls run (`"mylib.gemm=gemm.py,as=matmul"`); `opaque`
    names ops of libraries that stay one call though torch has them in Python (`"mylib.rope"`, `"mylib.*"`:
    docs/adding_an_op.md); `rules`, `strict`, `accept`,
    `timeout` (seconds), `max_memory` (MB) and `refute` are as on the command line; `keep` is a directory for the dumps
    of live programs. Raises InputError for what is no such pair.
    """
    __tracebackhide__ = True
    try:
        options = arguments.options(rules, strict, accept, timeout, max_memory, refute)
        related = arguments.relations(relate)
        keep = arguments.path("keep", keep)
        sizes, kernels = arguments.texts("sizes", sizes), arguments.texts("kernels", kernels)
        opaque = arguments.texts("opaque", opaque)
        if isinstance(base, str | Path):
            calls = {"args": args, "kwargs": kwargs, "in_shardings": in_shardings, "out_shardings": out_shardings}
            arguments.of_live_programs({**calls, "gradients": gradients, "keep": keep, "opaque": opaque or None})
        if isinstance(base, str | Path) and dist is None and Path(base).is_dir():
            from scalify_dl.facts.files import load

            return _concluded(load(Path(base)), options)
        if all(hasattr(base, name) for name in ("base", "dist", "mesh")) and not callable(base):
            base, dist, mesh = base.base, base.dist, base.mesh
        if isinstance(base, str | Path):
            return _dumps(base, dist, mesh, related, options, sizes=sizes, kernels=kernels)
        if not callable(base):
            raise InputError(
                f"`base` is {a(base)}",
                expected="a file, a module, a function, a directory of facts, or what a capture function gave",
            )
        from .live import captured

        live = captured(base, dist, mesh, args, kwargs, in_shardings, out_shardings, gradients, keep, opaque)
        with live as (files, axes, titles):
            gone = Path(files[0]).parent if keep is None else None
            report = _dumps(files[0], files[1], axes, related, options, titles, kernels=kernels, gone=gone)
        where = f" (dumps in {keep})" if keep is not None else ""
        title = f"{_called_so(dist or base)} against {_called_so(base)} on mesh {axes}, live{where}"
        return Report(replace(report.found, title=title), report.analysis)
    except InputError as error:
        raise error.with_traceback(None) from None  # its text says where; not through which of our functions it came


@with_hints(verify)
def assert_equivalent(
    base: Any, dist: Any = None, *, mesh: MeshLike = None, allow_unknown: bool = False, **options: Any
) -> Report:  # fmt: skip
    """The report of `verify`; raises NotEquivalent, with all of it in words, where the pair is not PROVED.

    `allow_unknown` lets UNKNOWN pass (a lemma is missing, or a bug that no run can show), but never REFUTED. Other
    arguments as for `verify`.
    """
    __tracebackhide__ = True
    report = verify(base, dist, mesh=mesh, **options)
    if report.verdict is Verdict.PROVED or (allow_unknown and report.verdict is Verdict.UNKNOWN):
        return report
    raise NotEquivalent(report)


def _dumps(
    base: str | Path,
    dist: Any,
    mesh: MeshLike,
    relate: Path | Relations | None,
    options: Options,
    called_alike: Callable[[Any, Sequence[Any]], None] | None = None,
    sizes: Sequence[str] = (),
    kernels: Sequence[str] = (),
    gone: Path | None = None,
) -> Report:
    """`called_alike` says of two live functions what their dumps do not; `gone` is a folder that nobody will see."""
    from scalify_dl.pairing.export import export

    if dist is None or mesh is None:
        missing = "no distributed program is given" if dist is None else "no mesh is given"
        raise InputError(missing, expected='verify("base.hlo", "dist.hlo", mesh="tp=2")')
    files = arguments.files(dist)
    axes = mesh if isinstance(mesh, Mesh) else Mesh.parse(mesh_text(mesh))
    begun = time.monotonic()
    origins: list[Origin] = []
    follow = None
    if kernels:
        from scalify_dl.kernels.inside import following

        follow = following(kernels)
    if called_alike is None:
        facts = export(base, files, axes, relate, Sizes.parse(sizes), origins, follow)
    else:
        facts = _called(base, files, axes, relate, origins, called_alike, follow)
    if gone is not None:  # lines of them are no place to look at
        here, rows = f"{gone}/", facts.tables["source"]
        for n, (op, pos, file, *place) in enumerate(rows):
            if str(file).startswith(here):
                rows[n] = (op, pos, f"{str(file).removeprefix(here)} (keep=DIR keeps it)", *place)
    timed = None
    if has_order(origins):
        from scalify_dl.schedule.programs import in_time

        timed = in_time(origins, axes.size)
    return _concluded(facts, options, timed, begun)


def _called(
    base: str | Path,
    files: Sequence[Any],
    mesh: Mesh,
    relate: Path | Relations | None,
    origins: list[Origin],
    called_alike: Callable[[Any, Sequence[Any]], None],
    follow: Callable[[Sequence[Graph]], None] | None,
) -> Facts:
    from scalify_dl.pairing.export import tables
    from scalify_dl.pairing.read_pair import read_pair
    from scalify_dl.readers.relations import load_relations

    said = load_relations(relate) if isinstance(relate, Path) else relate
    graph, dists = read_pair(base, files, mesh, follow=follow)
    called_alike(graph, dists)
    origins += map(Origin.of, dists)
    return tables(graph, dists, mesh, said, joined=True)


def _concluded(facts: Facts, options: Options, timed: InTime | None = None, begun: float | None = None) -> Report:
    analysis = analyse(facts, options, begun=begun)
    return Report(conclude(analysis, in_time=timed), analysis)


def _called_so(program: Any) -> str:
    while not hasattr(program, "__name__") and hasattr(program, "func"):
        program = program.func  # functools.partial
    return f"`{getattr(program, '__name__', type(program).__name__)}`"


def mesh_text(mesh: MeshLike) -> str:
    """A mesh as the command line has it."""
    if isinstance(mesh, str):
        return mesh
    if isinstance(mesh, Mapping):
        return ",".join(f"{axis}={size}" for axis, size in arguments.sizes_of_axes(mesh).items())
    shape = getattr(mesh, "shape", None)
    if isinstance(shape, Mapping):  # a mesh of JAX
        return mesh_text(shape)
    names = getattr(mesh, "mesh_dim_names", None)
    if names and shape is not None:  # a device mesh of torch
        return ",".join(f"{axis}={size}" for axis, size in zip(names, shape, strict=True))
    raise InputError(f"`mesh` is {a(mesh)}", expected='text ("dp=2,tp=4") or a mapping ({"dp": 2, "tp": 4})')
