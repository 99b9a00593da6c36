"""A large pair by its blocks: facts of what the whole takes and gives, with what was proved of its outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts, InBlocks
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import write_tables
from scalify_dl.pairing.paired import Paired
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import derive

from .induction import Whole
from .joint import Joint, Key, Unusual, is_integer, joined
from .pieces import Ref, found_at, pieces, tensor_of

LEAST = 4_000
"""Ops of both programs from which blocks are looked for."""
PART = 0.15
"""How much of both programs is derived at most, all pieces together, before the ordinary run takes over."""


def by_blocks(options: Options, begun: float) -> Callable[[Graph, Graph, Paired, Mesh], Facts | None] | None:
    """Looks at a pair block by block, where that is all that is asked for; `begun`: when reading did."""
    if options.rules or options.out or options.certificate or options.html:
        return None  # which all see every op
    deadline = None if options.timeout is None else begun + options.timeout
    return partial(in_blocks, options=options, deadline=deadline)


def in_blocks(
    base: Graph, dist: Graph, paired: Paired, mesh: Mesh, *, options: Options, deadline: float | None,
    least: int = LEAST, part: float = PART,
) -> Facts | None:  # fmt: skip
    """Facts of the inputs and outputs of a pair, and what is told the rules of its outputs; None where not all of them
    are proved block by block, deriving of pieces of at most a `part` of all ops."""
    if len(base.ops) + len(dist.ops) < least or not _ordinary(base, dist, paired, mesh):
        return None
    try:
        return _told(base, dist, paired, mesh, options, deadline, part)
    except (Unusual, InputError) as e:  # the ordinary run says what is wrong
        return None


def _ordinary(base: Graph, dist: Graph, paired: Paired, mesh: Mesh) -> bool:
    """Whether nothing is said of the programs as a whole that blocks do not know."""
    names = [t.name for graph in (base, dist) for op in graph.ops for t in op.results]
    names += [port.tensor.name for graph in (base, dist) for port in graph.inputs]
    return not (
        base.assumptions or dist.assumptions or dist.asynchronous or dist.ranks is not None or mesh.still
        or any(paired.elided) or len(paired.found) != 1 or not all(names)
    )  # fmt: skip


def _told(
    base: Graph, dist: Graph, paired: Paired, mesh: Mesh, options: Options, deadline: float | None,
    part: float,
) -> Facts | None:  # fmt: skip
    if _asks(base) or _asks(dist):
        return None
    found, expected = paired.found[0], paired.expected[0]
    given: dict[Tensor, Key] = {p.tensor: (p.tensor.type, paired.bounds.get(p.tensor)) for p in base.inputs}
    for shard in found.shards:
        if shard.dist in given:
            raise Unusual("an input in parts")
        given[shard.dist] = (shard.dist.type, *shard.row, shard.why, paired.bounds.get(shard.dist))
    joint = joined(base, dist, given, [(shard.dist, shard.base) for shard in found.shards])
    from .cuts import move  # with numpy: most proofs do without
    from .roles import Edges, roles, taken_in

    edges = Edges(joint)
    of = roles(joint, edges)
    if of is None:
        return None
    try:
        asked = [(joint.at[d], joint.at[b], text) for (d, b), text in expected.items()]
    except KeyError:
        raise Unusual("an output made of constants") from None
    move(joint, of)
    taken_in(joint, of, ((d, b) for (d, _), (b, _), _ in asked))
    parts = pieces(joint, of.role, of.block, asked)
    if len({piece.key for piece in parts}) * 2 > len(parts):
        return None
    holders: dict[int, list[tuple[int, Port]]] = {}
    for side, graph in enumerate((base, dist)):
        for port in graph.inputs:
            holders.setdefault(joint.at[port.tensor][0], []).append((side, port))
    most = part * len(joint.ops)
    whole = Whole(
        joint, parts, paired, mesh, lambda facts, told: derive(facts, options, told, deadline), holders, most
    )  # fmt: skip
    whole.run()
    proved: list[tuple[Tensor, Tensor, str]] = []
    assumed: dict[tuple[Tensor, str, str], None] = {}
    leaned: list[Ref] = []
    for piece, shown in zip(parts, whole.shown, strict=True):
        layouts = {n: layout for some in shown for n, layout in some.proved.items()}
        if len(layouts) < len(piece.asked):
            return None
        for n, (d, b, _) in enumerate(piece.asked):
            proved.append((tensor_of(joint, d), tensor_of(joint, b), layouts[n]))
        entering = [*piece.entering]
        for some in {id(one): one for one in shown}.values():
            assumed.update(((found_at(piece, joint, at), text, why), None) for at, text, why in some.assumed)
            leaned += [entering[n] for n in some.leaned]
    for tensor in _made_of(joint, leaned, base, dist):
        assumed[tensor, "its values are finite", "finite"] = None
    return _facts(base, dist, paired, mesh, proved, [*assumed], _Figures(parts, whole, len(base.ops) + len(dist.ops)).said)


class _Figures:
    def __init__(self, parts, whole, ops) -> None:
        alike = Counter(piece.key for piece in parts)
        key, most = alike.most_common(1)[0]
        size = next(len(piece.nodes) for piece in parts if piece.key == key)
        words = f"{most} equal blocks of {size} ops were proved once, {len(whole.memo)} pieces in all"
        self.said = InBlocks(ops, sum(shown.tuples for shown in whole.memo.values()), words)


def _asks(graph: Graph) -> bool:
    """Whether a program may ask for infinities, which is judged of it as a whole (`refute/provided.py`)."""
    asking = extreme = False
    for op in graph.ops:
        if op.kind == "constant" and (literal := op.result.literal) is not None:
            extreme = extreme or "inf" in literal.text or "nan" in literal.text
        elif op.kind == "is-finite":
            return True
        elif op.kind == "compare" and not is_integer(op.operands[0].dtype):
            asking = True
            extreme = extreme or op.operands[0] is op.operands[1]
    return asking and extreme


def _made_of(joint: Joint, refs: list[Ref], base: Graph, dist: Graph) -> list[Tensor]:
    """The inputs of floats that values are made of."""
    inputs = {joint.at[port.tensor]: port.tensor for graph in (base, dist) for port in graph.inputs}
    seen, left, out = {*refs}, [*refs], []
    while left:
        ref = left.pop()
        op = joint.ops[ref[0]]
        if op is None:
            tensor = inputs[ref]
            if not is_integer(tensor.dtype):
                out.append(tensor)
            continue
        for operand, at in zip(op.operands, joint.reads[ref[0]], strict=True):
            if at[0] >= 0 and at not in seen and not is_integer(operand.dtype):
                seen.add(at)
                left.append(at)
    return out


def _facts(
    base: Graph, dist: Graph, paired: Paired, mesh: Mesh, proved: list[tuple[Tensor, Tensor, str]],
    assumed: list[tuple[Tensor, str, str]], said: InBlocks,
) -> Facts:  # fmt: skip
    told = {tensor for d, b, _ in proved for tensor in (d, b)} | {tensor for tensor, _, _ in assumed}
    graphs = _rest(base, told), _rest(dist, told)
    ids: dict[Tensor, str] = {}
    facts = write_tables(graphs[0], [graphs[1]], [(graphs[1], "dist", "")], paired, mesh, ids)
    facts.in_blocks = said
    facts.told = {
        "proved_equal": [(ids[d], ids[b], layout) for d, b, layout in proved],
        "assumed_equality": [(ids[tensor], text, why) for tensor, text, why in assumed],
    }
    return facts


def _rest(graph: Graph, told: set[Tensor]) -> Graph:
    """The program with nothing in it but what is told of: values that come from nowhere."""
    names = {t.name for t in told}  # what bears a name first has it as its id
    ops = [Op("empty", [], [t], t.name) for op in graph.ops for t in op.results if t.name in names]
    return replace(graph, ops=ops)
