"""Pieces proved one after another, equal ones once: what was derived of what leaves a piece is given where it enters.

Lemma composition-of-pieces. The rules are run on a piece as on any pair of programs. What enters is the result of ops
of which nothing is known (uninitialised memory) but what is *given*: correspondences (`proved_equal`) and the sorts of
elements (`comes_in`). What they derive of what leaves and of outputs is true of all values that enter and are as given.
Conditions: every given row was derived before, of these very values, by the piece that they leave; what a proof leans
on of values that enter is listed for the inputs that these are made of; nothing draws, loops, asks for infinities or
has unknown effects, nor is anything else said of the programs as a whole (`whole.py`).
Why sound: by induction on the order in which rows are derived all given rows are true of the values in the whole
program, so what is derived of outputs is, too. That order is one in time, so no row rests on itself. An equal piece
(`Piece.key`) with equal rows given is the same pair of programs up to names, and the rules know no names: the same rows
follow.
Wrong twin: a row about what a layer gives is supposed of all layers, and never derived of the one that lacks an
all-reduce.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scalify_dl.facts.model import Facts, Row
from scalify_dl.facts.validate import check_meaning, check_written
from scalify_dl.ir.graph import Op, Port, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.correspond import Correspondence
from scalify_dl.pairing.export import write_tables
from scalify_dl.pairing.paired import Paired
from scalify_dl.prove.pipeline import Analysis

from .joint import Joint, Unusual
from .pieces import Path, Piece, Ref, Written, found_at, paths, tensor_of

if TYPE_CHECKING:
    from scalify_dl.mend.draft import Edit

Held = tuple[int, int, str]
"""Places of a distributed and of a baseline value, and the layout in which the one holds the other."""
Derive = Callable[[Facts, Mapping[str, list[Row]]], Analysis]
LISTED = frozenset({"finite", "overflow", "precision", "nonzero", "order", "opaque"})
"""Reasons of assumptions that pieces may add: they speak of one value, and name no other."""
ALL_SORTS = 6
"""Sorts of which a value may be that nothing is known of."""


@dataclass
class Shown:
    """What the rules derive of a piece: of what leaves it (places in `leaving`), of its outputs (places in `asked`),
    what it assumes, and what has to be finite of what enters."""

    held: list[Held] = field(default_factory=list)
    sorts: dict[int, frozenset[str]] = field(default_factory=dict)
    proved: dict[int, str] = field(default_factory=dict)
    assumed: list[tuple[Path, str, str]] = field(default_factory=list)
    leaned: list[int] = field(default_factory=list)
    tuples: int = 0


class Ids(NamedTuple):
    """Ids of tensors and ops in the tables of the whole."""

    names: dict[Tensor, str]
    ops: dict[Op, str]


class Induction:
    """What is known of the whole pair while its pieces are proved. `shown`: of each piece, what added something."""

    def __init__(
        self, joint: Joint, pieces: Sequence[Piece], paired: Paired, mesh: Mesh, derive: Derive,
        ports: Mapping[int, list[tuple[int, Port]]], most: float,
    ) -> None:  # fmt: skip
        """`ports` are the inputs of each node, by side; `most` ops are derived of, all pieces together."""
        self.joint, self.pieces, self.paired, self.mesh = joint, pieces, paired, mesh
        self.derive, self.ports, self.left = derive, ports, most
        self.held: dict[Ref, dict[Ref, set[str]]] = {}
        self.sorts: dict[Ref, frozenset[str]] = {}
        self.memo: dict[tuple[object, ...], Shown] = {}
        self.edits: Mapping[int, tuple[Edit, ...]] = {}
        self.ids, self.own = Ids({}, {}), set[str]()
        self.shown: list[list[Shown]] = [[] for _ in pieces]
        self.readers: dict[Ref, list[int]] = {}
        for number, piece in enumerate(pieces):
            for ref in piece.entering:
                self.readers.setdefault(ref, []).append(number)

    def run(self) -> None:
        """Proves pieces until every output is proved or nothing more is derived. The piece of which least is missing
        goes first; one where only sorts are new waits until nothing else is left."""
        alike = Counter(piece.key for piece in self.pieces)
        waiting = dict.fromkeys(n for n, p in enumerate(self.pieces) if not p.entering or alike[p.key] == 1)
        later: dict[int, None] = {}
        asked = {n: {*range(len(piece.asked))} for n, piece in enumerate(self.pieces) if piece.asked}
        while asked and (waiting or later):
            if not waiting:
                waiting, later = later, {}
            number = min(waiting, key=self._missing)
            del waiting[number]
            later.pop(number, None)
            held, fewer = self._prove(number, asked)
            waiting.update(dict.fromkeys(held))
            later.update(dict.fromkeys(n for n in fewer if n not in waiting))

    def _missing(self, number: int) -> tuple[int, int]:
        """How many of the values that enter a piece hold nothing so far."""
        sides = self.joint.sides
        return sum(ref not in self.held for ref in self.pieces[number].entering if sides[ref[0]]), number

    def _prove(self, number: int, asked: dict[int, set[int]]) -> tuple[list[int], list[int]]:
        """Derives what can be of a piece; the pieces that read what holds something new, or is of fewer sorts now."""
        piece, sides = self.pieces[number], self.joint.sides
        given: list[Held] = []
        for ref, n in piece.entering.items():
            if sides[ref[0]]:
                for base, layouts in self.held.get(ref, {}).items():
                    if (m := piece.entering.get(base)) is not None:
                        given += [(n, m, layout) for layout in layouts]
        given.sort()
        edits = self.edits.get(number, ())
        key = (piece.key, edits, tuple(given), tuple(self.sorts.get(ref) for ref in piece.entering))
        shown = self.memo.get(key)
        if shown is None:
            shown = self.memo[key] = self._derive(piece, given, edits)
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
        left = asked.get(number, set())
        if held or left & shown.proved.keys():  # else nothing rests on it: sorts rest on inputs that are leaned on
            self.shown[number].append(shown)
        left -= shown.proved.keys()
        if not left:
            asked.pop(number, None)
        return held, fewer

    def edited(self, edits: Sequence[Edit], ids: Ids) -> Induction:
        """The same of the pair with edits, each of ops of one piece: equal pieces are not derived again. `ids` are
        those by which edits name ops and tensors. Unusual for edits of anything else."""
        number = self._numbers(ids)
        of: dict[int, tuple[Edit, ...]] = {}
        for edit in edits:
            at = number.get(edit.cause, -1)
            if at < 0 or at != number.get(edit.target):
                raise Unusual("an edit of several pieces")
            of[at] = (*of.get(at, ()), edit)
        run = Induction(self.joint, self.pieces, self.paired, self.mesh, self.derive, self.ports, self.left)
        run.memo, run.edits, run.ids = self.memo, of, ids
        run.own = {name for name, at in number.items() if at in of}
        run.run()
        return run

    def _numbers(self, ids: Ids) -> dict[str, int]:
        """By the id of an op of the distributed program, or of what it makes: the piece that has it; -1 for what is
        copied to several."""
        number: dict[str, int] = {}

        def has(op: Op, n: int) -> None:
            if number.get(ids.ops[op], n) not in (n, -1):
                n = -1
            number.update(dict.fromkeys([ids.ops[op], *(ids.names[t] for t in op.results)], n))
            for tensor in op.operands:
                maker = self.joint.maker(tensor)
                if maker is not None and number.get(ids.ops[maker]) not in (n, -1):
                    has(maker, n)

        for n, piece in enumerate(self.pieces):
            for node in piece.nodes:
                if self.joint.sides[node]:
                    has(self.joint.op(node), n)
        return number

    def _derive(self, piece: Piece, given: Sequence[Held], edits: Sequence[Edit]) -> Shown:
        """Runs the rules on a piece."""
        joint = self.joint
        self.left -= len(piece.nodes)
        if self.left < 0:
            raise Unusual("pieces of too many kinds")
        expected = {(tensor_of(joint, d), tensor_of(joint, b)): text for d, b, text in piece.asked}
        if not expected:  # facts ask for something
            sides = [[tensor_of(joint, ref) for ref in piece.leaving if joint.sides[ref[0]] == side] for side in (1, 0)]
            if not all(sides):
                return Shown()
            expected = {(sides[0][0], sides[1][0]): ""}
        ids, ops = (dict(self.ids.names), dict(self.ids.ops)) if edits else ({}, {})
        facts = self.checked(piece, expected, ids, ops)
        if edits:
            facts = _edited(facts, edits, self.own)
        names = [ids[tensor_of(joint, ref)] for ref in piece.entering]
        sorts = zip(names, map(self.sorts.get, piece.entering), strict=True)
        told: dict[str, list[Row]] = {
            "proved_equal": [(names[d], names[b], layout) for d, b, layout in given],
            "comes_in": [(name, sort) for name, some in sorts for sort in sorted(some or ())],
        }
        analysis = self.derive(facts, told)
        if analysis.stopped or any(analysis.rows("inconsistent")):
            raise Unusual("a piece that is not followed")
        return self._shown(piece, analysis, ids)

    def checked(
        self, piece: Piece, expected: Mapping[tuple[Tensor, Tensor], str], ids: dict[Tensor, str], ops: dict[Op, str]
    ) -> Facts:
        """The tables of a piece; InputError where they describe no programs."""
        written = Written(piece, self.joint, self.ports)
        base, dist = written.graphs
        if not expected:  # facts ask for something
            asked = next(iter(self.paired.expected[0]))
            for graph, tensor in zip((dist, base), asked, strict=True):
                if all(tensor not in op.results for op in graph.ops):
                    graph.ops.append(Op("empty", [], [tensor], tensor.name))
                graph.outputs.append(Port(tensor))
            expected = {asked: ""}
        inputs = {port.tensor for graph in written.graphs for port in graph.inputs}
        shards = [shard for shard in self.paired.found[0].shards if shard.dist in inputs]
        bounds = {tensor: some for tensor, some in self.paired.bounds.items() if tensor in inputs}
        constants = {op.result for graph in written.graphs for op in graph.ops if op.kind == "constant"}
        elided = [row for row in self.paired.elided[0] if constants.issuperset(row[:2])]
        paired = Paired([Correspondence(shards)], [elided], [{**expected}], [[]], bounds)
        facts = write_tables(base, [dist], [(dist, "dist", "")], paired, self.mesh, ids, ops)
        check_written(facts)
        return facts

    def _shown(self, piece: Piece, analysis: Analysis, ids: Mapping[Tensor, str]) -> Shown:
        """What was derived, by places."""
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
        for n, (d_ref, b_ref, _) in enumerate(piece.asked):
            layout = verdicts.get((ids[tensor_of(joint, d_ref)], ids[tensor_of(joint, b_ref)]))
            if layout is not None:
                shown.proved[n] = layout
        entering = {ids[tensor_of(joint, ref)]: n for ref, n in piece.entering.items()}
        shown.leaned = sorted(entering[value] for (value,) in analysis.rows("leans") if value in entering)
        shown.assumed = self._assumed(piece, analysis, ids)
        return shown

    def _assumed(self, piece: Piece, analysis: Analysis, ids: Mapping[Tensor, str]) -> list[tuple[Path, str, str]]:
        """Assumptions beyond those that are given of inputs, which the whole lists; by where their values are."""
        given = {row[-1] for table in ("shard", "range") for row in analysis.facts[table]}
        rows = [row for row in analysis.rows("assumption") if row[2] not in given]
        if not LISTED.issuperset(why for _, _, why in rows):
            raise Unusual("an assumption that names other values")
        tensors = {text: tensor for tensor, text in ids.items()}
        at = paths(piece, self.joint, {tensors[tensor] for tensor, _, _ in rows if tensor in tensors})
        try:
            return [(at[tensors[tensor]], text, why) for tensor, text, why in rows]
        except KeyError:
            raise Unusual("an assumption about something else") from None


def _edited(facts: Facts, edits: Sequence[Edit], own: set[str]) -> Facts:
    """The facts of a piece with edits, of its own ops of the distributed program; Unusual where others change, which
    other pieces have, too."""
    from scalify_dl.mend.below import changed
    from scalify_dl.mend.verbs import apply

    edited = apply(facts, edits)
    check_meaning(edited)
    before = {op for op, _, _ in facts["op"]}
    if not (touched := changed(facts, edited)) or not touched & before <= own:
        raise Unusual("an edit of what pieces share")
    return edited


Proved = list[tuple[Tensor, Tensor, str]]
Assumed = dict[tuple[Tensor, str, str], None]


def composed(run: Induction) -> tuple[Proved, Assumed, list[Ref]]:
    """What is proved of outputs, what that assumes, and which values have to be made of finite numbers: instances of
    what was shown of pieces."""
    proved: Proved = []
    assumed: Assumed = {}
    leaned: list[Ref] = []
    for piece, shown in zip(run.pieces, run.shown, strict=True):
        layouts = {n: layout for some in shown for n, layout in some.proved.items()}
        proved += [
            (tensor_of(run.joint, d), tensor_of(run.joint, b), layouts[n])
            for n, (d, b, _) in enumerate(piece.asked)
            if n in layouts
        ]
        entering = [*piece.entering]
        for some in shown:
            assumed.update(((found_at(piece, run.joint, at), text, why), None) for at, text, why in some.assumed)
            leaned += [entering[n] for n in some.leaned]
    return proved, assumed, leaned
