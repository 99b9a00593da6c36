"""A wrong pair with fewer blocks: of equal ones in a row the first and the last are kept, and what lies between blocks,
with those that it reads.

What a block read of one that is left out it reads of the one beside it that is kept: the same role, as many blocks
away. The result is a pair of programs of the very ops of the whole, in which causes and edits are sought; what is found
on it decides nothing. That the programs differ is said of a run of the whole, and that edits mend it by pieces of the
whole (`Induction.edited`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts, Whole
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.pairing.export import write_tables

from .induction import Ids, Induction, composed
from .joint import Joint, Unusual
from .pieces import BETWEEN, tensor_of

if TYPE_CHECKING:
    from scalify_dl.mend.draft import Edit

    from .roles import Roles


def short_pair(
    found: Roles, run: Induction, base: Graph, dist: Graph, told: set[Tensor], sure: set[tuple[Tensor, Tensor]]
) -> tuple[Facts, Ids] | None:
    """Its facts, with ids of the whole; None where nothing can be left out. Values that are left out, but are `told` of
    or given back, come from nowhere. `sure` are the outputs that are proved."""
    joint, parts, paired = run.joint, run.pieces, run.paired
    of = [BETWEEN if r < 0 else b for r, b in zip(found.role, found.block, strict=True)]
    blocks = sorted((of[piece.nodes[0]], piece.key) for piece in parts if of[piece.nodes[0]] != BETWEEN)
    number = {at: n for n, (at, _) in enumerate(blocks)}
    between = (m for node, reads in enumerate(joint.reads) if of[node] == BETWEEN for m, _ in reads if m >= 0)
    read = {number[of[m]] for m in between if of[m] in number}
    kept = [
        n for n, (_, key) in enumerate(blocks)
        if n in read or not 0 < n < len(blocks) - 1 or not blocks[n - 1][1] == key == blocks[n + 1][1]
    ]  # fmt: skip
    if len(kept) == len(blocks):
        return None
    spliced = _Spliced(joint, found, of, number, kept)
    short = spliced.program(base, told), spliced.program(dist, told)
    if short[0] is None or short[1] is None:
        return None
    ids = Ids({}, {})
    tables = partial(write_tables, base, [dist], [(dist, "dist", "")], paired, run.mesh)
    outline = tables(*ids, outline=True)
    known = {key[0] for key, shown in run.memo.items() if shown.tuples}
    for piece in {piece.key: piece for piece in parts if piece.key not in known}.values():
        run.checked(piece, {}, {}, {})  # as each piece was that was derived of
    ids.ops.update((op, ids.ops[own]) for op, own in spliced.copies.items())
    facts = write_tables(short[0], [short[1]], [(short[1], "dist", "")], paired, run.mesh, *ids)
    left = [d for d, b in paired.expected[0] if (d, b) not in sure]
    whole = cache(partial(tables, *ids))
    facts.whole = Whole(
        whole, partial(_program, whole, outline, (base, dist), ids), partial(_proves, run, ids),
        partial(_behind, joint, found.role, ids, left),
    )  # fmt: skip
    return facts, ids


def _program(
    whole: Callable[[], Facts], outline: Facts, graphs: tuple[Graph, Graph], ids: Ids, wanted: Collection[str]
) -> object:
    """What wanted outputs are made of, to be run."""
    from scalify_dl.oracle.outlined import outlined
    from scalify_dl.oracle.program import load_program

    if any(op.along or op.strides for graph in graphs for op in graph.ops):
        return load_program(whole().tables)
    return outlined(outline, graphs, ids, wanted)


def _proves(run: Induction, ids: Ids, edits: Sequence[Edit]) -> int:
    """How many outputs pieces prove with edits."""
    try:
        return len(composed(run.edited(edits, ids))[0])
    except (Unusual, InputError):
        return 0


class _Spliced:
    """The ops of kept blocks, with what they read instead."""

    def __init__(self, joint: Joint, found: Roles, of: list[int], number: Mapping[int, int], kept: list[int]) -> None:
        """`number` is that of a block in their row, `kept` are some of these."""
        self.joint, self.role, self.of, self.number, self.kept = joint, found.role, of, number, kept
        self.copies: dict[Op, Op] = {}
        self.place = {n: place for place, n in enumerate(kept)}
        self.at = {(r, number[of[node]]): node for node, r in enumerate(found.role) if r >= 0 and of[node] in number}

    def program(self, graph: Graph, told: set[Tensor]) -> Graph | None:
        """A program of what its outputs are made of, as far as that is kept."""
        shown = told | {port.tensor for port in graph.outputs}
        needed = {tensor for tensor in shown if self._stays(tensor)}
        ops: list[Op] = []
        for op in reversed(graph.ops):
            if needed.isdisjoint(op.results):
                ops += (Op("empty", [], [t], t.name) for t in op.results if t in shown)
                continue
            operands = [self._read(op, n) for n in range(len(op.operands))]
            if None in operands:
                return None
            read = [t for t in operands if t is not None]
            needed.update(read)
            if read != op.operands:
                copy = replace(op, operands=read)
                self.copies[copy] = op
                op = copy
            ops.append(op)
        return replace(graph, ops=ops[::-1])

    def _stays(self, tensor: Tensor) -> bool:
        """Whether what makes a value is kept: what is copied, or lies between, is wherever it is read."""
        node, _ = self.joint.at.get(tensor, (-1, 0))
        return node < 0 or self.of[node] == BETWEEN or self.number[self.of[node]] in self.place

    def _read(self, op: Op, n: int) -> Tensor | None:
        """What an op reads; None where nothing takes the place of what is left out."""
        tensor = op.operands[n]
        if self._stays(tensor):
            return tensor
        here, (there, result) = self.joint.at[op.results[0]][0], self.joint.at[tensor]
        place = self.number[self.of[here]]
        to = self.place[place] + self.number[self.of[there]] - place
        other = self.at.get((self.role[there], self.kept[to]), -1) if 0 <= to < len(self.kept) else -1
        if not 0 <= other < here:
            return None
        found = tensor_of(self.joint, (other, result))
        return found if found.type == tensor.type else None


def _behind(
    joint: Joint, role: Sequence[int], ids: Ids, outputs: Iterable[Tensor], ops: Iterable[str], here: Iterable[str]
) -> int:
    """How many ops lie between some and these outputs, of the roles of those that do so `here`."""
    some, wanted, here = {*ops}, {joint.at[tensor][0] for tensor in outputs}, {*here}
    count = len(joint.ops)
    names = ["" if op is None or not joint.sides[node] else ids.ops[op] for node, op in enumerate(joint.ops)]
    roles = {role[node] for node, name in enumerate(names) if name in here} - {-1}
    after, before = [name in some for name in names], [node in wanted for node in range(count)]
    for node, reads in enumerate(joint.reads):
        after[node] = after[node] or any(after[n] for n, _ in reads if n >= 0)
    for node in reversed(range(count)):
        for n, _ in joint.reads[node] if before[node] else ():
            before[n] = before[n] or n >= 0
    on_the_way = (n for n in range(count) if after[n] and before[n])
    return sum(names[n] in here or role[n] in roles for n in on_the_way)
