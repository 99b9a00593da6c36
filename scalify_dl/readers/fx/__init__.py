"""PyTorch's FX readable text (`GraphModule.print_readable()`, ATen level), read into the graph model without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh

from ..prune import prune
from ..sizes import Resolve, given_none
from .annotation import Annotations, beside, descriptor_path, exported_paths, load_annotations
from .lowering import Context
from .open_sizes import instantiate, open_sizes
from .program import lower_module
from .reader import looks_like_fx, parse

__all__ = ["looks_like_fx", "read", "read_text"]


Divisions = Mapping[str, Sequence[Sequence[int]]]
"""All groups of ranks that a name of a process group stands for."""

NO_DIVISIONS: Divisions = {}
NO_REDUCTIONS: Mapping[str, str] = {}


def read(
    path: str | Path, mesh: Mesh | None = None, resolve: Resolve = given_none, divisions: Divisions = NO_DIVISIONS,
    reductions: Mapping[str, str] = NO_REDUCTIONS,
) -> Graph:  # fmt: skip
    """Reads one rank's FX text file, and the annotation beside it (`x.json` beside `x.fx.txt`), if there is one.

    `mesh` is the mesh of a distributed program, None for a baseline: one rank runs that, and every process group is it.
    `resolve` gives the values of symbols where sizes are open, `divisions` and `reductions` the process groups and
    reductions that the relations file says.
    Raises InputError with file, line and column where the text is malformed or contradicts itself.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", file=path) from None
    return read_text(
        text, mesh, file=str(path), annotations=load_annotations(beside(path)), resolve=resolve, divisions=divisions,
        reductions=reductions,
    )  # fmt: skip


def read_text(
    text: str,
    mesh: Mesh | None = None,
    *,
    file: str | None = None,
    annotations: Annotations | None = None,
    resolve: Resolve = given_none,
    divisions: Divisions = NO_DIVISIONS,
    reductions: Mapping[str, str] = NO_REDUCTIONS,
) -> Graph:
    """Reads FX text; see `read`."""
    try:
        return _read_text(text, mesh, file, annotations, resolve, divisions, reductions)
    except InputError as error:
        raise error.located(file) from None


def _read_text(
    text: str,
    mesh: Mesh | None,
    file: str | None,
    annotations: Annotations | None,
    resolve: Resolve,
    divisions: Divisions,
    reductions: Mapping[str, str],
) -> Graph:
    known = annotations or Annotations()
    module, signature = parse(text, file)
    exported = module.outputs
    sizes = open_sizes(module, text, signature, known, file)
    if sizes.symbols:
        module = instantiate(module, resolve(sizes), file)
    context = Context(Graph(module.name, file, lookups_fail=True))
    context.groups, context.alone = known.groups, mesh is None
    context.constants, context.divisions = known.constants, divisions
    context.reductions = {**known.reductions, **reductions}
    if mesh is not None and sum(size > 1 for _, size in mesh.axes) <= 1:
        context.spanned = range(mesh.size)
    returned = lower_module(module, context, file)
    graph = context.graph
    graph.asynchronous = "c10d_functional" in text
    graph.outside = list(known.outside)
    for port in graph.inputs:
        name = port.tensor.name
        if name in known.inputs:
            port.path = descriptor_path(known.inputs[name])
        elif name in signature:
            port.path = signature[name][1] or None
        port.parameter = port.path is not None and not port.path.startswith("input ")
        port.seen = known.seen.get(port.path or "")
        if port.path is not None and mesh is not None:
            port.placement = known.placement(port.path, port.tensor.shape)
    for output, key in zip(returned, module.keys, strict=True):
        if output is not None and key is not None:
            output.path = f"output {key}"
    if known.outputs is None and len(exported) == len(returned):
        names = [port.tensor.name for port in graph.inputs]
        for output, path in zip(returned, exported_paths(exported, names), strict=True):
            if output is not None:
                output.path = path
    if known.outputs is not None:
        if len(known.outputs) != len(returned):
            raise InputError(
                f"the annotation lists {len(known.outputs)} outputs, the graph returns {len(returned)}",
                file=file,
                line=module.returned_line,
                hint=f"is {beside(Path(file or 'graph.fx.txt')).name} of another capture?",
            )
        for output, descriptor in zip(returned, known.outputs, strict=True):
            if output is not None:
                output.path = descriptor_path(descriptor)
                if output.path is not None and mesh is not None:
                    output.placement = known.placement(output.path, output.tensor.shape)
    for output in graph.outputs:
        if output.holds is not None:
            output.path = f"written {output.holds.path or f'input {graph.inputs.index(output.holds)}'}"
    said = {(port.path, port.tensor) for port in returned if port is not None}
    graph.outputs[:] = [port for port in graph.outputs if port.holds is None or (port.path, port.tensor) not in said]
    _typed(graph, known)
    prune(graph)
    return graph


def _typed(graph: Graph, known: Annotations) -> None:
    """Writes the SPMD types that the annotation says of values by their names."""
    if known.types:
        values = {t.name: t for t in (*(p.tensor for p in graph.inputs), *(t for op in graph.ops for t in op.results))}
        values |= graph.aliases
        for name, types in known.types.items():
            mine = graph.types.setdefault(values[name], {}) if name in values else dict(types)
            if any(mine.setdefault(axis, word) != word for axis, word in types.items()):
                raise InputError(f"`{name}` is said to be {dict(types)}, and {mine}", file=graph.file)
