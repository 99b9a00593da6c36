"""What a kernel is compared with: a named op, a dump of a program, another kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.readers.tir.syntax import Buffer, Kernel

from . import convolved, gathered, named_more
from .bounds import index_bounds
from .decide import Judgement, Meaning, Spec, judge
from .domain import Array, Domain
from .graphs import run_graph
from .machine import Machine
from .named import graphs_of
from .one_block import one_block
from .parts import splits

MODULES = (convolved, gathered, named_more)
"""What they define is entered in `named.NAMED` and `graphs.RULES`."""


def spec_of(kernel: Kernel, named: str | None, file: Path | None, sizes: Mapping[str, Any]) -> Spec:
    """What the kernel is to compute."""
    if named is not None:
        graphs = graphs_of(named, kernel)
        return Spec(named, [_meaning(graph) for graph in graphs], len(graphs[0].inputs), graphs)
    assert file is not None
    if is_kernel(file):
        return _kernel_spec(kernel, file, sizes)
    from scalify_dl.readers.read import read

    graph = read(file)
    inputs, outputs = ([(p.tensor.dtype, p.tensor.shape) for p in ports] for ports in (graph.inputs, graph.outputs))
    _fits(kernel, inputs, outputs, file)
    return Spec(file.name, [_meaning(graph)], len(graph.inputs), [graph])


def decided(
    kernel: Kernel, named: str | None, file: Path | None, sizes: Mapping[str, Any], seconds: float = 60.0, *,
    reals: bool = False,
) -> tuple[Spec, Judgement]:  # fmt: skip
    """What is stated, and whether the kernel computes it: judged on one block of its grid where that stands for all."""
    spec = spec_of(kernel, named, file, sizes)
    kernels, cuts = one_block(kernel)
    if named is None or not cuts:
        return spec, judge(kernel, spec, seconds, reals=reals)
    try:
        found = judge(kernels[-1], spec_of(kernels[-1], named, None, sizes), seconds, reals=reals)
        rests = splits(kernel, cuts, [graphs_of(named, one)[found.proved] for one in kernels])
    except InputError:
        rests = None
    if rests is None:
        return spec, judge(kernel, spec, seconds, reals=reals)
    found.alike = cuts
    found.assumptions = list(dict.fromkeys([*found.assumptions, *rests]))
    return spec, found


def _meaning(graph: Graph) -> Meaning:
    return lambda domain, inputs: run_graph(graph, domain, inputs)


def is_kernel(file: Path) -> bool:
    """Whether a file is text of kernels."""
    try:
        head = file.read_bytes()[: 1 << 16]
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", file=file) from None
    return b"prim_func" in head


def _kernel_spec(kernel: Kernel, file: Path, sizes: Mapping[str, Any]) -> Spec:
    from scalify_dl.readers.tir import read_kernel

    other = read_kernel(file, sizes)
    _fits(kernel, _types(other.inputs), _types(other.outputs), file)

    def meaning(domain: Domain, inputs: Sequence[Array]) -> list[Array]:
        machine = Machine(other, Renamed(domain, dict(zip([b.name for b in other.inputs], inputs, strict=True))))
        found = machine.run()
        bad = [flaw for flaw in machine.flaws if flaw.kind != "unwritten"]
        if bad:
            raise InputError(bad[0].text, file=file, line=bad[0].line, hint="this is what --spec states")
        return [found[b.name] for b in other.outputs]

    bounds = index_bounds(other)
    ranges = {at: bounds[b.name] for at, b in enumerate(other.inputs) if b.name in bounds}
    return Spec(f"{file.name}: {other.name}", [meaning], len(other.inputs), ranges=ranges)


class Renamed:
    """A domain whose arguments are given."""

    def __init__(self, domain: Domain, given: dict[str, Array]) -> None:
        self.domain, self.given = domain, given

    def __getattr__(self, name: str) -> Any:
        return getattr(self.domain, name)

    def argument(self, name: str, shape: tuple[int, ...], dtype: str) -> Array:
        """What is given; what outputs hold at first is nothing that is given."""
        return self.given[name] if name in self.given else self.domain.argument(f"{name} of the spec", shape, dtype)


Type = tuple[str, tuple[int, ...]]


def _types(buffers: Sequence[Buffer]) -> list[Type]:
    return [(b.dtype, b.shape) for b in buffers]


def _fits(kernel: Kernel, inputs: Sequence[Type], outputs: Sequence[Type], file: Path) -> None:
    mine, both = (_types(kernel.inputs), _types(kernel.outputs)), _types(kernel.arguments)
    theirs = [(dtype, tuple(shape)) for dtype, shape in inputs], [(dtype, tuple(shape)) for dtype, shape in outputs]
    if theirs[0] not in (mine[0], both) or theirs[1] != mine[1]:
        raise InputError(
            f"the kernel takes {_shown(mine[0])} and writes {_shown(mine[1])}, what is stated takes "
            f"{_shown(theirs[0])} and gives {_shown(theirs[1])}",
            file=file,
            expected="the same types in the same order",
        )


def _shown(types: Sequence[Type]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in types) or "nothing"
