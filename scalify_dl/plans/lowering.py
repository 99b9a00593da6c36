"""Ops of a plan → ops of the vocabulary, with their names and places in the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.ir.recorder import Tape

from .meanings import Call, IllTyped, NoMeaning, dtype, meaning
from .model import SUM, Op, Side
from .traits import PLACED

RankNumbers = Mapping[int, int]


class Lowering:
    """Lowers local ops of one side. Ops that differ only in what they read are lowered once: layers repeat. `opaque`
    gets kinds without a meaning, and why."""

    def __init__(self, program: Program, side: Side, opaque: dict[str, str]) -> None:
        self.program, self.side, self.opaque = program, side, opaque
        self.known: dict[object, tuple[Sequence[Tensor], list[Tensor], Tape]] = {}

    def lower(
        self, op: Op, operands: Sequence[Tensor], by_rank: Mapping[str, RankNumbers] | None = None
    ) -> list[Tensor]:
        """The results of an op; a kind without a meaning becomes an opaque op. IllTyped where it cannot run."""
        side = self.side
        types = [(dtype(side.full(tensor).dtype), side.part(tensor).shape) for tensor in op.makes]
        read = [side.values[tensor].tid for tensor in op.reads]
        weights = [side.weight_of.get(side.values[tensor].tid) for tensor in op.makes]
        targets = [read.index(weight) if weight in read else None for weight in weights]
        attributes = {key: text for key, text in op.attributes.items() if key not in PLACED}
        call = Call(
            self.program, op.kind, op.backward, operands, types, attributes, op.constants, by_rank or {}, targets,
            side.functions,
        )  # fmt: skip
        if by_rank:
            return self._made(call)
        read_as = [(x.dtype, x.shape, operands.index(x)) for x in operands]
        key = (
            op.kind, op.backward, *types, "of", *read_as, *attributes.items(), "constants", *op.constants, *targets
        )  # fmt: skip
        found = self.known.get(key)
        if found is not None:
            first, results, tape = found
            known = dict(zip(first, operands, strict=True))
            self.program.again(tape, known)
            return [known.get(x, x) for x in results]
        results, tape = self.program.taped(lambda: self._made(call))
        if not any(made.rank_numbers or made.groups or made.regions for made, _ in tape):
            self.known[key] = operands, results, tape
        return results

    def _made(self, call: Call) -> list[Tensor]:
        if call.kind == SUM:
            if any(tuple(x.shape) != call.shapes[0] for x in call.operands):
                raise IllTyped(f"a sum of {' and '.join(str(list(x.shape)) for x in call.operands)}")
            return [self.program.add(*call.operands)]
        try:
            return meaning(call)
        except NoMeaning as missing:
            kind = f"{'BW.' if call.backward else ''}{call.kind}"
            self.opaque.setdefault(kind, str(missing))
            more = dict(call.attributes) | {f"constant_{n}": text for n, (_, text) in enumerate(call.constants)}
            return self.program.custom(kind, call.operands, call.types, **more)


def name_ops(program: Program, start: int, op: Op) -> None:
    """Names what was lowered since `start` after the op of the plan."""
    for made in program.graph.ops[start:]:
        made.name = f"{op.name}.c{op.cid}/{made.kind}"
        for n, result in enumerate(made.results):
            result.name = made.name if len(made.results) == 1 else f"{made.name}.{n}"
