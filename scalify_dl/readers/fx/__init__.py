"""PyTorch's FX readable text (`GraphModule.print_readable()`, ATen level), read into the graph model without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh

from ..merge import Alike, Difference
from ..prune import prune
from ..sizes import Resolve, given_none
from .annotation import Annotations, beside, descriptor_path, exported_paths, load_annotations
from .differing import Named, differing
from .lowering import Context
from .open_sizes import instantiate, open_sizes
from .program import lower_module
from .reader import Module, Statement, looks_like_fx, parse
from .variants import Variants

__all__ = ["looks_like_fx", "read", "read_ranks", "read_text"]


Divisions = Mapping[str, Sequence[Sequence[int]]]
"""All groups of ranks that a name of a process group stands for."""

NO_DIVISIONS: Divisions = {}
NO_REDUCTIONS: Mapping[str, str] = {}


def read(
    path: str | Path, mesh: Mesh | None = None, resolve: Resolve = given_none, divisions: Divisions = NO_DIVISIONS,
    reductions: Mapping[str, str] = NO_REDUCTIONS, variants: Variants | None = None,
) -> Graph:  # fmt: skip
    """Reads one rank's FX text file, and the annotation beside it (`x.json` beside `x.fx.txt`), if there is one.

    `mesh` is the mesh of a distributed program, None for a baseline: one rank runs that, and every process group is it.
    `resolve` gives the values of symbols where sizes are open, `divisions` and `reductions` the process groups and
    reductions that the relations file says; `variants` are the programs of other ranks, lowered beside it.
    Raises InputError with file, line and column where the text is malformed or contradicts itself.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", file=path) from None
    return read_text(
        text, mesh, file=str(path), annotations=load_annotations(beside(path)), resolve=resolve, divisions=divisions,
        reductions=reductions, variants=variants,
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
    variants: Variants | None = None,
) -> Graph:
    """Reads FX text; see `read`."""
    try:
        return _read_text(text, mesh, file, annotations, resolve, divisions, reductions, variants)
    except InputError as error:
        raise error.located(file) from None


def read_ranks(
    paths: Sequence[str | Path], mesh: Mesh, resolve: Resolve = given_none, divisions: Divisions = NO_DIVISIONS,
    reductions: Mapping[str, str] = NO_REDUCTIONS,
) -> Iterator[Graph | Alike]:  # fmt: skip
    """The files of ranks 0, 1, …, as `read` reads each; one that differs from the first in numbers of a few statements
    is that one's graph with these numbers (see `variants`)."""
    variants = _variants(paths)
    first, numbers = None, dict[int, list[Difference]]()
    for rank, path in enumerate(paths):
        if first is not None and rank in numbers:
            yield Alike(first, numbers[rank], str(path))
            continue
        graph = read(path, mesh, resolve, divisions, reductions, None if rank else variants)
        if not rank and variants is not None:
            first, numbers = graph, variants.finish(graph)
        yield graph


def _variants(paths: Sequence[str | Path]) -> Variants | None:
    """The programs of other ranks beside the first one's; None where there are none, or not all is known of them."""
    found: dict[int, dict[int, Statement]] = {}
    first: tuple[Module, dict[str, tuple[str, str]], Annotations] | None = None
    for rank, path in enumerate(map(Path, paths)):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            module, signature = parse(text, str(path))
            known = load_annotations(beside(path))
        except (OSError, InputError):  # told where it is read
            if first is None:
                return None
            continue
        if first is None:
            if open_sizes(module, text, signature, known, str(path)).symbols:
                return None
            first, names = (module, signature, _everywhere(known)), Named(module)
            continue
        statements = differing(first[0], module)
        if statements and not known.types:
            statements = names.aligned(statements)
        if statements is not None and first[1:] == (signature, _everywhere(known)):
            found[rank] = statements
    return Variants(found) if found else None


def _everywhere(known: Annotations) -> Annotations:
    """What an annotation says but for its rank, its file, and what that rank happened to be given."""
    placed, gradients = ({name: replace(each, file=None) for name, each in some.items()}
                         for some in (known.placements, known.gradients))  # fmt: skip
    return replace(known, rank=None, seen={}, placements=placed, gradients=gradients)


def _read_text(
    text: str,
    mesh: Mesh | None,
    file: str | None,
    annotations: Annotations | None,
    resolve: Resolve,
    divisions: Divisions,
    reductions: Mapping[str, str],
    variants: Variants | None,
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
    returned = lower_module(module, context, file, variants)
    graph = context.graph
    graph.asynchronous = "c10d_functional" in text
    graph.outside, graph.for_all = list(known.outside), known.for_all
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
