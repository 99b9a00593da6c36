"""Pieces of both programs: blocks and what lies between them, each with a key that is equal for equal pieces alone.

A piece is a pair of programs. What it reads of other pieces *enters*, what others read of it *leaves*; inputs and copied
values (`joint.py`) it has itself. Its key says, in the order of the piece, what every op is and what it reads, all that is
known of its inputs, what leaves, and which outputs are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scalify_dl.ir.graph import Graph, Op, Port, Tensor

from .joint import Joint, Unusual

Ref = tuple[int, int]
"""A node and which of its results."""
BETWEEN = -(10**9)


class Piece:
    """Nodes of both programs in an order that equal pieces share; places in these lists are what `Shown` speaks of."""

    __slots__ = ("asked", "entering", "inputs", "key", "leaving", "nodes")

    def __init__(self, nodes: list[int]) -> None:
        self.nodes = nodes
        self.inputs: dict[int, int] = {}
        self.entering: dict[Ref, int] = {}
        self.leaving: dict[Ref, int] = {}
        self.asked: list[tuple[Ref, Ref, str]] = []
        self.key = 0


def pieces(joint: Joint, role: Sequence[int], block: Sequence[int], asked: Iterable[tuple[Ref, Ref, str]]) -> list[Piece]:
    """All pieces. `asked` are outputs, of the distributed program and of the baseline, with the layout that is wanted."""
    where: dict[int, list[int]] = {}
    of = [BETWEEN if r < 0 else b for r, b in zip(role, block, strict=True)]
    for node, op in enumerate(joint.ops):
        if op is not None:
            where.setdefault(of[node], []).append(node)
    found = {at: Piece(nodes) for at, nodes in where.items()}
    reads, ops = joint.reads, joint.ops
    small = _small(joint, of)
    for at, piece in found.items():
        if at != BETWEEN:
            piece.nodes.sort(key=lambda node: (role[node], node))
    for node, op in enumerate(ops):
        if op is not None:
            here = of[node]
            for ref in reads[node]:
                made_by = ref[0]
                if made_by >= 0 and of[made_by] != here and ops[made_by] is not None and made_by not in small:
                    found[of[made_by]].leaving.setdefault(ref, 0)
    for d, b, text in asked:
        if of[d[0]] != of[b[0]] or ops[d[0]] is None or ops[b[0]] is None:
            raise Unusual("an output of two pieces")
        found[of[d[0]]].asked.append((d, b, text))
    place = [0] * len(ops)
    for piece in found.values():
        for n, node in enumerate(piece.nodes):
            place[node] = n
    known: dict[tuple[object, ...], int] = {}
    for at, piece in found.items():
        words = _said(piece, at, joint, of, place, small)
        piece.key = known.setdefault(words, len(known))
    return [*found.values()]


MOST = 40
"""Ops that are copied for one value, at most."""


def _small(joint: Joint, of: Sequence[int]) -> dict[int, frozenset[int]]:
    """Nodes between the blocks that are made of inputs by few ops, each with these: they are copied, too."""
    found: dict[int, frozenset[int]] = {}
    for node, op in enumerate(joint.ops):
        if op is None or of[node] != BETWEEN:
            continue
        above: set[int] = {node}
        for made_by, _ in joint.reads[node]:
            if made_by >= 0 and joint.ops[made_by] is not None:
                above |= found.get(made_by, _MANY)
        if len(above) <= MOST:
            found[node] = frozenset(above)
    for node in found:
        op = joint.ops[node]
        assert op is not None
        for n, tensor in enumerate(op.results):
            joint.copied.setdefault(tensor, (op, -2 - len(found) * n - node))
    return found


_MANY = frozenset(range(-MOST, 0))


def _said(
    piece: Piece, at: int, joint: Joint, of: Sequence[int], place: Sequence[int], small: Mapping[int, object]
) -> tuple[object, ...]:
    """All that a piece is."""
    kinds, reads, ops = joint.kinds, joint.reads, joint.ops
    inputs, entering = piece.inputs, piece.entering
    words: list[object] = []
    for node in piece.nodes:
        words.append(kinds[node])
        for ref in reads[node]:
            made_by, result = ref
            if made_by < 0:
                words.append(-1)
            elif ops[made_by] is None:
                words += (-2, inputs.setdefault(made_by, len(inputs)), result)
            elif of[made_by] == at:
                words += (place[made_by], result)
            elif made_by in small:
                words += (-4, made_by, result)
            else:
                words += (-3, entering.setdefault(ref, len(entering)))
    leaving = sorted((place[node], result, (node, result)) for node, result in piece.leaving)
    piece.leaving = {ref: n for n, (_, _, ref) in enumerate(leaving)}
    piece.asked.sort(key=lambda row: (place[row[0][0]], row[0][1], place[row[1][0]], row[1][1], row[2]))
    outputs = [(place[d[0]], d[1], place[b[0]], b[1], text) for d, b, text in piece.asked]
    held = [kinds[node] for node in inputs]
    return (tuple(words), tuple(held), tuple((n, r) for n, r, _ in leaving), tuple(outputs))


_NOWHERE = (-1, 0)


class Written:
    """A piece as two programs: what enters is the result of ops of which nothing is known."""

    def __init__(self, piece: Piece, joint: Joint, ports: Mapping[int, Sequence[tuple[int, Port]]]) -> None:
        self.sources: list[Tensor] = []
        self.graphs = Graph("base"), Graph("dist")
        self.inputs = dict.fromkeys(piece.inputs)
        copied: tuple[list[Op], list[Op]] = [], []
        body: tuple[list[Op], list[Op]] = [], []
        for node, result in piece.entering:
            tensor = tensor_of(joint, (node, result))
            self.sources.append(tensor)
            copied[joint.sides[node]].append(Op("empty", [], [tensor], tensor.name))
        known: set[Tensor] = set()
        inside = {*piece.nodes}
        for node in sorted(piece.nodes):
            op, side = joint.ops[node], joint.sides[node]
            assert op is not None
            for tensor in op.operands:
                if tensor in joint.copied and joint.at.get(tensor, _NOWHERE)[0] not in inside:
                    self._copy(tensor, joint, copied[side], known)
            body[side].append(op)
        for node in self.inputs:
            for side, port in ports[node]:
                self.graphs[side].inputs.append(port)
        for side, graph in enumerate(self.graphs):
            graph.ops = copied[side] + body[side]
        outputs = dict.fromkeys([*piece.leaving, *(ref for d, b, _ in piece.asked for ref in (d, b))])
        for ref in outputs:
            self.graphs[joint.sides[ref[0]]].outputs.append(Port(tensor_of(joint, ref)))

    def _copy(self, tensor: Tensor, joint: Joint, into: list[Op], known: set[Tensor]) -> None:
        if tensor in known:
            return
        known.add(tensor)
        op = joint.copied[tensor][0] if tensor in joint.copied else None
        if op is None:
            self.inputs[joint.at[tensor][0]] = None
            return
        known.update(op.results)
        for operand in op.operands:
            self._copy(operand, joint, into, known)
        into.append(op)


def tensor_of(joint: Joint, ref: Ref) -> Tensor:
    """The result of a node."""
    op = joint.ops[ref[0]]
    assert op is not None
    return op.results[ref[1]]


Path = tuple[int, ...]
"""Where a tensor is in a piece: a node's place and result; or a node's place, an operand, and operands of what is
copied there."""


def found_at(piece: Piece, joint: Joint, path: tuple[str, Path]) -> Tensor:
    """The tensor there."""
    sort, (n, *rest) = path
    if sort == "entering":
        return tensor_of(joint, [*piece.entering][n])
    op = joint.ops[piece.nodes[n]]
    assert op is not None
    if sort == "result":
        return op.results[rest[0]]
    tensor = op.operands[rest[0]]
    for place in rest[1:]:
        maker = joint.copied[tensor][0]
        assert maker is not None
        tensor = maker.operands[place]
    return tensor


def paths(piece: Piece, joint: Joint, wanted: set[Tensor]) -> dict[Tensor, tuple[str, Path]]:
    """Where tensors are in a piece, as far as they are there."""
    out: dict[Tensor, tuple[str, Path]] = {}
    for ref, n in piece.entering.items():
        out[tensor_of(joint, ref)] = "entering", (n,)

    def inside(tensor: Tensor, path: Path) -> None:
        if tensor not in out:
            if tensor in wanted:
                out[tensor] = "copied", path
            maker = joint.copied[tensor][0] if tensor in joint.copied else None
            for place, operand in enumerate(maker.operands if maker is not None else ()):
                inside(operand, (*path, place))

    for n, node in enumerate(piece.nodes):
        op = joint.ops[node]
        assert op is not None
        for result, tensor in enumerate(op.results):
            if tensor in wanted:
                out[tensor] = "result", (n, result)
        for place, tensor in enumerate(op.operands):
            if tensor in joint.copied:
                inside(tensor, (n, place))
            elif tensor in wanted and tensor not in out:
                out[tensor] = "copied", (n, place)
    return out
