"""Pieces proved one after another, equal ones once: what is derived of what leaves a piece is given where it enters.

Theorem (composition of pieces). The rules are run on a piece as on any pair of programs, with what enters for values of
which nothing is known but what is *given*: correspondences (`proved_equal`) and sorts of elements (`comes_in`). Whatever they
derive of what leaves is true of all values that enter and satisfy what is given. In the whole program the given rows were
derived earlier, of the same values, by the piece that they leave; so by induction on the order in which rows are derived they
are all true, and so are those of outputs. An equal piece (`Piece.key`) with equal rows given is the same pair of programs, up
to names, and the same rows follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scalify_dl.facts.model import Facts
from scalify_dl.facts.validate import check_written
from scalify_dl.ir.graph import Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.correspond import Correspondence
from scalify_dl.pairing.export import write_tables
from scalify_dl.pairing.paired import Paired
from scalify_dl.prove.pipeline import Analysis

from .joint import Joint, Unusual
from .pieces import Path, Piece, Ref, Written, paths, tensor_of

Given = tuple[int, int, str]
"""Places of a distributed and of a baseline value, and the layout in which the one holds the other."""
LISTED = frozenset({"finite", "overflow", "precision", "nonzero", "order"})
"""Reasons of assumptions that pieces may add: they speak of one value, and name no other."""
ALL_SORTS = 6


@dataclass
class Shown:
    """What the rules derive of a piece: of what leaves it (places in `leaving`), of its outputs (places in `asked`), what
    it assumes, and what has to be finite of what enters."""

    held: list[Given] = field(default_factory=list)
    sorts: dict[int, frozenset[str]] = field(default_factory=dict)
    proved: dict[int, str] = field(default_factory=dict)
    assumed: list[tuple[tuple[str, Path], str, str]] = field(default_factory=list)
    leaned: list[int] = field(default_factory=list)
    tuples: int = 0


class Whole:
    """What is known of the whole pair while its pieces are proved."""

    def __init__(
        self, joint: Joint, found: Sequence[Piece], paired: Paired, mesh: Mesh,
        derive: Callable[[Facts, Mapping[str, list[tuple[object, ...]]]], Analysis], ports: Mapping[int, list[tuple[int, Port]]],
        most: float,
    ) -> None:  # fmt: skip
        self.joint, self.pieces, self.paired, self.mesh = joint, found, paired, mesh
        self.derive, self.ports, self.left = derive, ports, most
        self.held: dict[Ref, dict[Ref, set[str]]] = {}
        self.sorts: dict[Ref, frozenset[str]] = {}
        self.memo: dict[tuple[object, ...], Shown] = {}
        self.shown: list[list[Shown]] = [[] for _ in found]
        self.readers: dict[Ref, list[int]] = {}
        for number, piece in enumerate(found):
            for ref in piece.entering:
                self.readers.setdefault(ref, []).append(number)
        self.shards = {shard.dist: shard for shard in paired.found[0].shards}

    def run(self) -> None:
        """Proves pieces until every output is proved or nothing more is derived. The piece of which least is missing
        goes first; one where only sorts are new waits until nothing else is left."""
        alike = Counter(piece.key for piece in self.pieces)
        waiting = dict.fromkeys(n for n, p in enumerate(self.pieces) if not p.entering or alike[p.key] == 1)
        later: dict[int, None] = {}
        open_outputs = {n: {*range(len(piece.asked))} for n, piece in enumerate(self.pieces) if piece.asked}
        while open_outputs and (waiting or later):
            if not waiting:
                waiting, later = later, {}
            number = min(waiting, key=self._missing)
            del waiting[number]
            later.pop(number, None)
            held, sorted_ = self._prove(number, open_outputs)
            waiting.update(dict.fromkeys(held))
            later.update(dict.fromkeys(n for n in sorted_ if n not in waiting))

    def _missing(self, number: int) -> tuple[int, int]:
        """How many of the values that enter a piece hold nothing so far."""
        return sum(ref not in self.held for ref in self.pieces[number].entering if self.joint.sides[ref[0]]), number

    def _prove(self, number: int, open_outputs: dict[int, set[int]]) -> tuple[list[int], list[int]]:
        """Derives what can be of a piece; the pieces that read what holds something new, or has fewer sorts now."""
        piece, sides = self.pieces[number], self.joint.sides
        given: list[Given] = []
        for ref, n in piece.entering.items():
            if sides[ref[0]]:
                for base, layouts in self.held.get(ref, {}).items():
                    if (m := piece.entering.get(base)) is not None:
                        given += [(n, m, layout) for layout in layouts]
        given.sort()
        key = (piece.key, tuple(given), tuple(self.sorts.get(ref) for ref in piece.entering))
        shown = self.memo.get(key)
        if shown is None:
            self.left -= len(piece.nodes)
            if self.left < 0:
                raise Unusual("pieces of too many kinds")
            shown = self.memo[key] = self._derive(piece, given)
        leaving, readers = [*piece.leaving], self.readers
        held: list[int] = []
        for d, b, layout in shown.held:
            known = self.held.setdefault(leaving[d], {}).setdefault(leaving[b], set())
            if layout not in known:
                known.add(layout)
                held += (*readers.get(leaving[d], ()), *readers.get(leaving[b], ()))
        fewer: list[int] = []
        for n, some in shown.sorts.items():
            if (before := self.sorts.get(leaving[n])) is None or some < before:
                self.sorts[leaving[n]] = some
                fewer += readers.get(leaving[n], ())
        left = open_outputs.get(number, set())
        if held or left & shown.proved.keys():  # what showed nothing new assumes nothing; sorts rest on what leans alone
            self.shown[number].append(shown)
        left -= shown.proved.keys()
        if not left:
            open_outputs.pop(number, None)
        return held, fewer

    def _derive(self, piece: Piece, given: Sequence[Given]) -> Shown:
        joint = self.joint
        written = Written(piece, joint, self.ports)
        base, dist = written.graphs
        inputs = {port.tensor for graph in written.graphs for port in graph.inputs}
        shards = [shard for tensor, shard in self.shards.items() if tensor in inputs]
        bounds = {tensor: some for tensor, some in self.paired.bounds.items() if tensor in inputs}
        expected = {(tensor_of(joint, d), tensor_of(joint, b)): text for d, b, text in piece.asked}
        if not expected:  # facts ask for something
            first = [next((t for ref in piece.leaving if joint.sides[ref[0]] == n for t in [tensor_of(joint, ref)]), None) for n in (1, 0)]
            if first[0] is None or first[1] is None:
                return Shown()
            expected = {(first[0], first[1]): ""}
        paired = Paired([Correspondence(shards)], [[]], [expected], [[]], bounds)
        ids: dict[Tensor, str] = {}
        facts = write_tables(base, [dist], [(dist, "dist", "")], paired, self.mesh, ids)
        check_written(facts)
        entering = [ids[tensor] for tensor in written.sources]
        told = {
            "proved_equal": [(entering[d], entering[b], layout) for d, b, layout in given],
            "comes_in": [
                (entering[n], sort) for n, ref in enumerate(piece.entering) for sort in sorted(self.sorts.get(ref, ()))
            ],
        }
        analysis = self.derive(facts, told)
        if analysis.stopped or any(analysis.rows("inconsistent")):
            raise Unusual("a piece that is not followed")
        return self._shown(piece, analysis, ids, inputs)

    def _shown(self, piece: Piece, analysis: Analysis, ids: Mapping[Tensor, str], inputs: set[Tensor]) -> Shown:
        joint, shown = self.joint, Shown(tuples=analysis.program.total_tuples)
        leaving = {ids[tensor_of(joint, ref)]: n for ref, n in piece.leaving.items()}
        for d, part, b, base_part, layout in analysis.rows("corr"):
            if d in leaving and b in leaving and not part and not base_part:
                shown.held.append((leaving[d], leaving[b], layout))
        shown.held.sort()
        sorts: dict[int, set[str]] = {}
        for value, sort in analysis.rows("may_be"):
            if value in leaving:
                sorts.setdefault(leaving[value], set()).add(sort)
        shown.sorts = {n: frozenset(some) for n, some in sorts.items() if len(some) < ALL_SORTS}
        verdicts = {(d, b): layout for d, b, verdict, layout in analysis.rows("output_verdict") if verdict == "PROVED"}
        for n, (d, b, _) in enumerate(piece.asked):
            layout = verdicts.get((ids[tensor_of(joint, d)], ids[tensor_of(joint, b)]))
            if layout is not None:
                shown.proved[n] = layout
        entering = {ids[tensor_of(joint, ref)]: n for ref, n in piece.entering.items()}
        shown.leaned = sorted(entering[value] for (value,) in analysis.rows("leans") if value in entering)
        self._assumed(piece, analysis, ids, inputs, shown)
        return shown

    def _assumed(
        self, piece: Piece, analysis: Analysis, ids: Mapping[Tensor, str], inputs: set[Tensor], shown: Shown
    ) -> None:
        given = {why for _, _, why in _premises(analysis.facts)}
        rows = [row for row in analysis.rows("assumption") if row[2] not in given]
        if not rows:
            return
        if not LISTED.issuperset(why for _, _, why in rows):
            raise Unusual("an assumption that names other values")
        tensors = {text: tensor for tensor, text in ids.items()}
        at = paths(piece, self.joint, {tensors[tensor] for tensor, _, _ in rows})
        shown.assumed = [(at[tensors[tensor]], text, why) for tensor, text, why in rows]


def _premises(facts: Facts) -> list[tuple[str, str, str]]:
    """Tensor, nothing and reason of what is given of inputs."""
    return [(row[0], "", row[-1]) for table in ("shard", "range") for row in facts[table]]
