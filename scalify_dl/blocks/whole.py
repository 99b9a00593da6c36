"""A large pair by its blocks: facts of what the whole takes and gives, and what is told the rules of its outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts, Row
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import write_tables
from scalify_dl.pairing.paired import Paired
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, derive
from scalify_dl.refute.provided import MOST_OPS

from .induction import Induction, composed
from .joint import Joint, Key, Unusual, is_integer, is_unprinted, joined
from .pieces import Ref, pieces
from .shorter import short_pair

LEAST = 4_000
"""Ops of both programs from which blocks are looked for."""
PART = 0.15
"""How much of both programs is derived at most, all pieces together, before the ordinary run takes over."""


def by_blocks(options: Options, begun: float) -> ByBlocks | None:
    """Looks at a pair block by block, where that is all that is asked for; `begun`: when reading did."""
    if options.rules or options.out or options.certificate or options.html:
        return None  # which all see every op
    return ByBlocks(options, None if options.timeout is None else begun + options.timeout)


@dataclass
class ByBlocks:
    """What takes the place of the tables of a pair (`export`). `told` is what was proved then: rows of answers, and of
    what the proof assumes."""

    options: Options
    deadline: float | None = None
    least: int = LEAST
    part: float = PART
    told: dict[str, list[Row]] = field(default_factory=dict)
    words: str = ""
    elsewhere: tuple[int, int] = (0, 0)
    proved: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, base: Graph, dist: Graph, paired: Paired, mesh: Mesh) -> Facts | None:
        """Facts of the inputs and outputs of a pair alone, or where not all outputs are proved block by block of a
        shorter pair; None where neither is had, deriving of pieces of at most a `part` of all ops."""
        if len(base.ops) + len(dist.ops) < self.least or not _ordinary(base, dist, paired, mesh):
            return None
        try:
            return self._whole(base, dist, paired, mesh)
        except (Unusual, InputError):  # the ordinary run says what is wrong
            return None

    def conclude(self, facts: Facts) -> Analysis | None:
        """The run on these facts and on what was proved; None if that does not prove what pieces do."""
        analysis = derive(facts, self.options, self.told, self.deadline)
        if analysis.stopped or (facts.whole is None and analysis.outputs_left):
            return None
        if facts.whole is not None:
            proved = {(d, b) for d, b, verdict, _ in analysis.rows("output_verdict") if verdict == "PROVED"}
            if proved != self.proved or any(analysis.rows("inconsistent")):
                return None  # nothing is proved of the whole that its pieces do not prove
        analysis.notes.append(self.words)
        analysis.elsewhere = self.elsewhere
        return analysis

    def _whole(self, base: Graph, dist: Graph, paired: Paired, mesh: Mesh) -> Facts | None:
        holds = dict.fromkeys((shard.dist, shard.base) for shard in paired.found[0].shards)
        joint = joined(base, dist, _given(base, paired), [*holds])
        try:
            asked = [(joint.at[d], joint.at[b], text) for (d, b), text in paired.expected[0].items()]
        except KeyError:
            raise Unusual("an output made of constants") from None
        from .cuts import move  # with numpy: most proofs do without
        from .roles import FEWEST, Edges, roles, taken_in

        found = roles(joint, Edges(joint))
        if found is None:
            return None
        move(joint, found)
        taken_in(joint, found, ((d, b) for (d, _), (b, _), _ in asked))
        parts = pieces(joint, found.role, found.block, asked)
        key, most = Counter(piece.key for piece in parts).most_common(1)[0]
        if most < FEWEST:
            return None
        holders: dict[int, list[tuple[int, Port]]] = {}
        for side, graph in enumerate((base, dist)):
            for port in graph.inputs:
                holders.setdefault(joint.at[port.tensor][0], []).append((side, port))
        run = Induction(
            joint, parts, paired, mesh, lambda facts, told: derive(facts, self.options, told, self.deadline), holders,
            self.part * len(joint.ops),
        )  # fmt: skip
        run.run()
        proved, assumed, leaned = composed(run)
        assumed |= dict.fromkeys((t, "its values are finite", "finite") for t in _made_of(joint, leaned, base, dist))
        told = {tensor for d, b, _ in proved for tensor in (d, b)} | {tensor for tensor, _, _ in assumed}
        told.update(tensor for d, b, _ in paired.elided[0] for tensor in (d, b))
        ids: dict[Tensor, str] = {}
        if len(proved) < len(asked):
            if not (self.options.refute and self.options.mend):
                return None
            sure = {(d, b) for d, b, _ in proved}
            if (short := short_pair(found, run, base, dist, told, sure)) is None:
                return None
            facts, (ids, _) = short
            self.proved = {(ids[d], ids[b]) for d, b in sure}
        else:
            outside = _outside(base, told), _outside(dist, told)
            facts = write_tables(outside[0], [outside[1]], [(outside[1], "dist", "")], paired, mesh, ids)
        self.told = {
            "proved_equal": [(ids[d], ids[b], layout) for d, b, layout in proved],
            "assumed_equality": [(ids[tensor], text, why) for tensor, text, why in assumed],
        }
        size = next(len(piece.nodes) for piece in parts if piece.key == key)
        self.words = f"{most} equal blocks of {size:,} ops each were proved once"
        self.elsewhere = len(base.ops) + len(dist.ops), sum(shown.tuples for shown in run.memo.values())
        return facts


def _ordinary(base: Graph, dist: Graph, paired: Paired, mesh: Mesh) -> bool:
    """Whether nothing is asked or said of the programs as a whole that blocks do not know."""
    asks = [_asks(graph) for graph in (base, dist)]
    large = (len(base.ops) + len(dist.ops)) * mesh.size > MOST_OPS
    return not (
        base.assumptions or dist.assumptions or dist.asynchronous or dist.ranks is not None or mesh.still
        or len(paired.found) != 1
        or (any(one for one, _ in asks) and (not large or any(extreme for _, extreme in asks)))
        or not all(t.name for graph in (base, dist) for op in graph.ops for t in op.results)
    )  # fmt: skip


def _asks(graph: Graph) -> tuple[bool, bool]:
    """Whether a program compares real numbers, and whether it has infinities to compare with: then it is judged as a
    whole whether a proof leaves out what it provides for (`refute/provided.py`)."""
    asking = extreme = False
    for op in graph.ops:
        if op.kind == "constant":
            literal = op.result.literal
            extreme = extreme or (literal is not None and ("inf" in literal.text or "nan" in literal.text))
        elif op.kind == "is-finite":
            asking = extreme = True
        elif op.kind == "compare" and not is_integer(op.operands[0].dtype):
            asking = True
            extreme = extreme or op.operands[0] is op.operands[1]
    return asking, extreme


def _given(base: Graph, paired: Paired) -> dict[Tensor, Key]:
    """All that is known of inputs, and of constants that are not printed: each is one of its own."""
    given: dict[Tensor, Key] = {p.tensor: (p.tensor.type, paired.bounds.get(p.tensor)) for p in base.inputs}
    holds: dict[Tensor, Tensor] = {}
    for shard in paired.found[0].shards:
        if holds.setdefault(shard.dist, shard.base) is not shard.base:
            raise Unusual("an input that holds parts of several")
        first = (shard.dist.type, paired.bounds.get(shard.dist))
        given[shard.dist] = (*given.get(shard.dist, first), (*shard.row, shard.why))
    for number, (d, b, layout) in enumerate(paired.elided[0]):
        given[d] = given[b] = ("elided", number, str(layout))
    return given


def _made_of(joint: Joint, refs: Sequence[Ref], base: Graph, dist: Graph) -> list[Tensor]:
    """The inputs of floats that values are made of."""
    inputs = {joint.at[port.tensor]: port.tensor for graph in (base, dist) for port in graph.inputs}
    seen, left, out = {*refs}, [*refs], []
    while left:
        ref = left.pop()
        op = joint.ops[ref[0]]
        if op is None:
            if not is_integer(inputs[ref].dtype):
                out.append(inputs[ref])
            continue
        for operand, at in zip(op.operands, joint.reads[ref[0]], strict=True):
            if at[0] >= 0 and at not in seen and not is_integer(operand.dtype):
                seen.add(at)
                left.append(at)
    return out


def _outside(graph: Graph, told: set[Tensor]) -> Graph:
    """The program with nothing in it but what is told of: constants that are not printed, else values that come from
    nowhere."""
    names = {t.name for t in told}  # what bears a name first has it as its id
    ops = [
        op if op.kind == "constant" and is_unprinted(op) else Op("empty", [], [t], t.name)
        for op in graph.ops for t in op.results if t.name in names
    ]  # fmt: skip
    return replace(graph, ops=ops)
