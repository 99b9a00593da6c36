"""Ops of a plan → ops of the vocabulary, with their names and places in the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program

from .meanings import Call, IllTyped, NoMeaning, dtype, meaning
from .model import SUM, Op, Side
from .traits import PLACED

RankNumbers = Mapping[int, int]


def lower(
    program: Program,
    side: Side,
    op: Op,
    operands: Sequence[Tensor],
    opaque: dict[str, str],
    by_rank: Mapping[str, RankNumbers] | None = None,
) -> list[Tensor]:
    """The results of a local op; a kind without a meaning becomes an opaque op and is noted. IllTyped where it cannot
    run."""
    types = [(dtype(side.full(tensor).dtype), side.part(tensor).shape) for tensor in op.makes]
    attributes = {key: text for key, text in op.attributes.items() if key not in PLACED}
    read = [side.values[tensor].tid for tensor in op.reads]
    weights = [side.weight_of.get(side.values[tensor].tid) for tensor in op.makes]
    targets = [read.index(weight) if weight in read else None for weight in weights]
    call = Call(
        program, op.kind, op.backward, operands, types, attributes, op.constants, by_rank or {}, targets,
        side.functions,
    )  # fmt: skip
    if op.kind == SUM:
        if any(tuple(x.shape) != types[0][1] for x in operands):
            raise IllTyped(f"a sum of {' and '.join(str(list(x.shape)) for x in operands)}")
        return [program.add(*operands)]
    try:
        return meaning(call)
    except NoMeaning as missing:
        kind = f"{'BW.' if op.backward else ''}{op.kind}"
        opaque.setdefault(kind, str(missing))
        more = attributes | {f"constant_{n}": text for n, (_, text) in enumerate(op.constants)}
        return program.custom(kind, operands, types, **more)


def name_ops(program: Program, start: int, op: Op) -> None:
    """Names what was lowered since `start` after the op of the plan."""
    for made in program.graph.ops[start:]:
        made.name = f"{op.name}.c{op.cid}/{made.kind}"
        for n, result in enumerate(made.results):
            result.name = made.name if len(made.results) == 1 else f"{made.name}.{n}"
