"""Whether what is stated for the whole of arguments is, part by part, what is stated for parts: the rules prove it."""

from __future__ import annotations

from collections.abc import Sequence

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import InputRelation, OutputRelation, Relations
from scalify_dl.readers.tir.syntax import Kernel
from scalify_dl.report.conclude import conclude
from scalify_dl.yaml_nodes import Place

from .one_block import Cut

MOST_RANKS = 256
SECONDS = 20.0
_NOWHERE = Place(None, 0, 0)


def splits(kernel: Kernel, cuts: Sequence[Cut], graphs: Sequence[Graph]) -> list[tuple[str, str]] | None:
    """What it rests on that each of `graphs` is the one before it on one more cut of the arguments; None if it is not
    proved. The first is on the arguments of `kernel`: there is one more than there are cuts.

    A part of an argument is a rank's, and nothing passes between ranks: the program for the parts is the distributed
    one, that for the whole its baseline.
    """
    found: dict[tuple[str, str], None] = {}
    for cut, whole, part in zip(cuts, graphs, graphs[1:], strict=False):
        if cut.count > MOST_RANKS:
            return None
        place = {id(b): at for at, b in enumerate(kernel.arguments)}

        def dims(buffer: object, cut: Cut = cut, place: dict[int, int] = place) -> dict[int, list[AxisPart]]:
            at = place[id(buffer)]
            return {cut.dims[at]: [AxisPart("block")]} if at in cut.dims else {}

        relations = Relations(
            inputs=tuple(InputRelation(b.name, _NOWHERE, b.name, dims(b)) for b in kernel.inputs),
            outputs=tuple(
                OutputRelation(str(n), _NOWHERE, None, dims(b)) for n, b in enumerate(kernel.outputs)
            ),
        )  # fmt: skip
        try:
            facts = tables(whole, [part], Mesh((("block", cut.count),)), relations)
            report = conclude(analyse(facts, Options(refute=False, timeout=SECONDS)))
        except InputError:
            return None
        if report.verdict is not Verdict.PROVED:
            return None
        found |= {(a.text, a.why): None for a in report.assumptions if a.why != "given"}
    return [*found]
