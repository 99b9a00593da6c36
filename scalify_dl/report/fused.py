"""Inputs that were placed or paired as they are not, as a cause: several values side by side that were taken for one
block, parameters in another order, interleaved parts in place of blocks."""

from __future__ import annotations

from dataclasses import replace

from scalify_dl.ir.layout import dims_written
from scalify_dl.mend.fused import Parts
from scalify_dl.mend.interleaved import Interleaved
from scalify_dl.prove.verdict import RootCause
from scalify_dl.prove.view import View

from .localisation import root_causes_of

_WHO = {"shape": "its shape", "annotation": "the dump"}
_IF = "cut each part over the ranks by itself; if that is how it is cut, "


def fused_cause(view: View, parts: list[Parts], causes: list[RootCause]) -> RootCause:
    """The one cause where inputs that were placed by their shapes are several values side by side."""
    slices = {op for p in parts for op in p.slices}
    (lead,) = [c for c in causes if c.op in slices][:1] or root_causes_of(view, [parts[0].slices[0]], {})
    some = [
        f'"{view.name(p.dist)}": {{dims: {dims_written(p.layout)}, parts: {{dim: {p.dim}, sizes: {[*p.sizes]}}}}}'
        for p in parts
    ]
    if_so = _IF if any(p.why != "shape" for p in parts) else ""
    return replace(
        lead,
        expected=tuple(f"the baseline takes {view.name(p.base)} in parts, {[*p.sizes]} of dim {p.dim}" for p in parts),
        found=tuple(f"{view.name(p.dist)} was placed by {_WHO[p.why]}, as a block of dim {p.dim}" for p in parts),
        suggestion=(f"{if_so}in the relations file: inputs: {{{', '.join(some)}}}",),
        tried=("with this, all outputs are PROVED",),
        lemma_missing=None,
        inputs=(),
    )


def exchanged_cause(view: View, pairs: dict[str, str]) -> RootCause:
    """The one cause where inputs of other names stand in another order than the baseline's."""
    first = next(iter(pairs))
    names = [f'"{view.input_name(dist)}": {{base: "{view.input_name(base)}"}}' for dist, base in pairs.items()]
    return RootCause(
        op="", name=view.name(first), kind="input", source=(), operands=(), expected=(), lemma_missing=None,
        found=("it was paired by its order, as the baseline has no input of this name",),
        suggestion=(f"in the relations file: inputs: {{{', '.join(names)}}}",),
        tried=("with this, all outputs are PROVED",), results=(first,), called=view.input_name(first),
    )  # fmt: skip


def interleaved_cause(view: View, inputs: list[Interleaved]) -> RootCause:
    """The one cause where ranks hold interleaved parts of inputs, and blocks would be right."""
    first = inputs[0].dist
    readers = view.ops({op for op, _, tensor in view.facts("operand") if tensor == first})
    lines = [op.source for _, op in sorted(readers.items())]
    some = [(view.input_name(i.dist) or view.name(i.dist), i) for i in inputs]
    return RootCause(
        op="", name=view.name(first), kind="input", source=lines[0] if lines else (), operands=(), lemma_missing=None,
        expected=tuple(f"rank r holds block r of {i.parts} of dim {i.dim} of {name}" for name, i in some),
        found=tuple(f"ranks hold {i.parts} interleaved parts of dim {i.dim} of {name}" for name, i in some),
        suggestion=(f"cut {', '.join(name for name, _ in some)} into blocks: w.chunk(n, dim)[rank], not every n-th",),
        tried=("with this, all outputs are PROVED",), results=(first,), called=view.input_name(first),
    )  # fmt: skip
