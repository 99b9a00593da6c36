"""Pieces of both programs: blocks and what lies between them, each with a key that is equal for equal pieces alone.

A piece is a pair of programs. What it reads of other pieces *enters*, what others read of it *leaves*; inputs and
copied values (`joint.py`) it has itself. Its key says, in the order of the piece, what every op is and what it reads,
all that is known of its inputs, of which types what enters is, what leaves, and which outputs are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scalify_dl.ir.graph import Graph, Op, Port, Tensor

from .joint import Joint, Unusual

Ref = tuple[int, int]
"""A node and which of its results."""
BETWEEN = -(10**9)
"""The number of what is in no block."""
MOST = 40
"""Ops that are copied for one value, at most."""


class Piece:
    """Nodes of both programs in an order that equal pieces share. Places in its lists are what `Shown` speaks of."""

    __slots__ = ("asked", "entering", "inputs", "key", "leaving", "nodes")

    def __init__(self, nodes: list[int]) -> None:
        self.nodes = nodes
        self.inputs: dict[int, int] = {}
        self.entering: dict[Ref, int] = {}
        self.leaving: dict[Ref, int] = {}
        self.asked: list[tuple[Ref, Ref, str]] = []
        self.key = 0


def pieces(
    joint: Joint, role: Sequence[int], block: Sequence[int], asked: Iterable[tuple[Ref, Ref, str]]
) -> list[Piece]:
    """All pieces. `asked` are outputs, of the distributed program and the baseline, with the layout that is wanted."""
    where: dict[int, list[int]] = {}
    of = [BETWEEN if r < 0 else b for r, b in zip(role, block, strict=True)]
    reads, ops = joint.reads, joint.ops
    for node, op in enumerate(ops):
        if op is not None:
            where.setdefault(of[node], []).append(node)
    found = {at: Piece(nodes) for at, nodes in where.items()}
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


def _small(joint: Joint, of: Sequence[int]) -> dict[int, list[int]]:
    """Nodes between the blocks that are made of inputs by few ops: they are copied, too. By node those inputs."""
    found: dict[int, frozenset[int]] = {}
    for node, op in enumerate(joint.ops):
        if op is None or of[node] != BETWEEN:
            continue
        above = {node}.union(
            *(found.get(n, _MANY) for n, _ in joint.reads[node] if n >= 0 and joint.ops[n] is not None)
        )
        if len(above) <= MOST:
            found[node] = frozenset(above)
            for n, tensor in enumerate(op.results):
                joint.copied[tensor] = op, joint.fresh(("small", node, n))
    return {node: sorted({n for at in above for n, _ in joint.reads[at] if n >= 0 and joint.ops[n] is None})
            for node, above in found.items()}  # fmt: skip


_MANY = frozenset(range(-MOST, 0))


def _said(
    piece: Piece, at: int, joint: Joint, of: Sequence[int], place: Sequence[int], small: Mapping[int, list[int]]
) -> tuple[object, ...]:
    """All that a piece is. What is copied of constants and integers is said by the kinds of what reads it; what else is
    copied may be made of an input that the piece reads, too."""
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
                words += (-4, made_by, result, *(inputs.setdefault(n, len(inputs)) for n in small[made_by]))
            else:
                words += (-3, entering.setdefault(ref, len(entering)))
    leaving = sorted((place[node], result, (node, result)) for node, result in piece.leaving)
    piece.leaving = {ref: n for n, (_, _, ref) in enumerate(leaving)}
    piece.asked.sort(key=lambda row: (place[row[0][0]], row[0][1], place[row[1][0]], row[1][1], row[2]))
    outputs = [(place[d[0]], d[1], place[b[0]], b[1], text) for d, b, text in piece.asked]
    known = tuple(kinds[node] for node in inputs)
    types = tuple(tensor_of(joint, ref).type for ref in entering)  # ops say those of their results alone
    return tuple(words), known, types, tuple((n, r) for n, r, _ in leaving), tuple(outputs)


class Written:
    """A piece as two programs, of the very ops and tensors of the pair: what enters is the result of ops of which
    nothing is known."""

    def __init__(self, piece: Piece, joint: Joint, ports: Mapping[int, Sequence[tuple[int, Port]]]) -> None:
        self.graphs = Graph("base"), Graph("dist")
        self._joint, self._known = joint, set[Tensor]()
        self._inputs = dict.fromkeys(piece.inputs)
        inside = {*piece.nodes}
        for ref in piece.entering:
            tensor = tensor_of(joint, ref)
            self.graphs[joint.sides[ref[0]]].ops.append(Op("empty", [], [tensor], tensor.name))
        for node in sorted(piece.nodes):
            op, into = joint.op(node), self.graphs[joint.sides[node]].ops
            for tensor in op.operands:
                if tensor in joint.copied and joint.at.get(tensor, _NOWHERE)[0] not in inside:
                    self._copy(tensor, into)
            into.append(op)
        for node in self._inputs:
            for side, port in ports[node]:
                self.graphs[side].inputs.append(port)
        for ref in dict.fromkeys([*piece.leaving, *(ref for d, b, _ in piece.asked for ref in (d, b))]):
            self.graphs[joint.sides[ref[0]]].outputs.append(Port(tensor_of(joint, ref)))

    def _copy(self, tensor: Tensor, into: list[Op]) -> None:
        if tensor in self._known:
            return
        self._known.add(tensor)
        op = self._joint.maker(tensor)
        if op is None:
            self._inputs[self._joint.at[tensor][0]] = None
            return
        self._known.update(op.results)
        for operand in op.operands:
            self._copy(operand, into)
        into.append(op)


_NOWHERE = (-1, 0)


def tensor_of(joint: Joint, ref: Ref) -> Tensor:
    """The result of a node."""
    return joint.op(ref[0]).results[ref[1]]


Path = tuple[str, tuple[int, ...]]
"""Where a tensor is in a piece: what enters at a place; a node's place and result; or a node's place, an operand, and
operands of what is copied there."""


def found_at(piece: Piece, joint: Joint, path: Path) -> Tensor:
    """The tensor there."""
    sort, (n, *rest) = path
    if sort == "entering":
        return tensor_of(joint, [*piece.entering][n])
    op = joint.op(piece.nodes[n])
    if sort == "result":
        return op.results[rest[0]]
    tensor = op.operands[rest[0]]
    for place in rest[1:]:
        maker = joint.maker(tensor)
        assert maker is not None
        tensor = maker.operands[place]
    return tensor


def paths(piece: Piece, joint: Joint, wanted: set[Tensor]) -> dict[Tensor, Path]:
    """Where tensors are in a piece, as far as they are there."""
    if not wanted:
        return {}
    out: dict[Tensor, Path] = {tensor_of(joint, ref): ("entering", (n,)) for ref, n in piece.entering.items()}
    seen: set[Tensor] = set()

    def inside(tensor: Tensor, path: tuple[int, ...]) -> None:
        if tensor not in seen and tensor not in out:
            seen.add(tensor)
            if tensor in wanted:
                out[tensor] = "copied", path
            maker = joint.maker(tensor)
            for place, operand in enumerate(maker.operands if maker is not None else ()):
                inside(operand, (*path, place))

    for n, node in enumerate(piece.nodes):
        op = joint.op(node)
        for result, tensor in enumerate(op.results):
            if tensor in wanted:
                out[tensor] = "result", (n, result)
    for n, node in enumerate(piece.nodes):
        for place, tensor in enumerate(joint.op(node).operands):
            inside(tensor, (n, place))
    return out
