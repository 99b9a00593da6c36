"""Why a tensor corresponds to what it does, in words: the engine's proof, told as statements about tensors.

Most steps of a proof are about layouts and lists. Only steps of `corr` and `holds` speak about tensors, so those are
told, each with the rule that gave it and the comment that stands above that rule; what lies between is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl
from scalify_dl.lemmas import comment_above, lemma_at
from scalify_dl.prove.pipeline import Analysis
from scalify_dl.prove.view import View
from scalify_dl.pysouffle import Proof

from .pattern import holds
from .place import Places

_TOLD = "holds"
_DEMAND = "want_"
"""Relations that only ask for others to be computed: what they follow from is no reason."""
_NEAR = 4
_CODES = {-2: "sum", -3: "max", -4: "min", -5: "prod", -6: "and", -7: "or"}


@dataclass
class Statement:
    """One step: what holds, by which rule, because of what."""

    text: str
    why: str
    rule: str
    place: str
    premises: list[Statement] = field(default_factory=list)
    again: bool = False
    """Told before: its premises are not repeated."""


@dataclass(frozen=True)
class Explanation:
    """What is known of one tensor."""

    tensor: str
    name: str
    statements: list[Statement]
    obstacles: list[str]
    """Where nothing is known: what stands in the way."""


def tensors_named(view: View, text: str) -> list[str]:
    """Tensors of this id or name, or `output 0`; those of the distributed side first. InputError if there are none."""
    dist = {graph for graph, role in view.facts("graph") if role == "dist"}
    wanted = text.removeprefix("%")
    found = [(g not in dist, t) for t, g, _, _ in view.facts("tensor") if wanted in view.called(t)]
    if not found and (place := re.fullmatch(r"(input|output) (\d{1,9})", wanted)):
        found = [(g not in dist, t) for g, pos, t in view.facts(place[1]) if pos == int(place[2])]
    exact = [pair for pair in found if pair[1] == wanted]
    if not found:
        import difflib

        known = {name for t, *_ in view.facts("tensor") for name in view.called(t)}
        near = difflib.get_close_matches(wanted, known, 3)
        if place:
            near = [f"{place[1]} {pos}" for pos in sorted({pos for _, pos, _ in view.facts(place[1])})[-3:]]
        ends = [view.label(tensor) for graph, _, tensor in view.facts("output") if graph in dist][:6]
        raise InputError(
            f"no tensor `{text}`",
            expected="an id, the name of an input, an output or a value, `output 0` or `input 0`",
            hint=f"did you mean {' or '.join(near)}?" if near else f"outputs are {', '.join(ends)}",
        )
    return [t for _, t in sorted(exact or found)]


def explain(analysis: Analysis, tensor: str, depth: int) -> Explanation:
    """The proofs of all correspondences of one tensor, of whichever side, at most `depth` statements deep."""
    view = analysis.view
    teller = _Teller(analysis, view, depth)
    side = 2 if teller.is_base(tensor) else 0
    rows = sorted(row for row in analysis.rows("corr") if row[side] == tensor)
    statements = []
    for row in rows:
        proof = analysis.program.explain("corr", row)
        if proof is not None:
            statements += teller.tell(proof, 0)
    return Explanation(tensor, view.label(tensor), statements, [] if rows else teller.obstacles(tensor))


def as_text(found: Explanation) -> str:
    """An explanation as lines of text: a line for each statement, and what its lemmas say once, behind them."""
    lines: list[str] = []
    if not found.statements:
        lines = [f"{found.name} corresponds to nothing that is known:", *(f"  {line}" for line in found.obstacles)]
    said: dict[str, str] = {}
    for statement in found.statements:
        lines += _tree(statement, "", said)
    return "".join(f"{line}\n" for line in [*lines, *legend(said)])


def legend(said: Mapping[str, str]) -> list[str]:
    """What lemmas say, by what steps call them."""
    return ["", "Lemmas", *(f"  {name}: {why}" for name, why in sorted(said.items()))] if said else []


def _tree(statement: Statement, pad: str, said: dict[str, str]) -> Iterator[str]:
    lemma = statement.place.partition(" (")[0]
    if statement.why:
        said[statement.place] = statement.why
    short = statement.again and not statement.premises
    yield f"{pad}{statement.text}  [{lemma}{'; as above, or lies deeper (--depth)' if short else ''}]"
    for premise in statement.premises:
        yield from _tree(premise, f"{pad}    ", said)


class _Teller:
    def __init__(self, analysis: Analysis, view: View, depth: int) -> None:
        self.analysis = analysis
        self.view = view
        self.depth = depth
        self.told: set[tuple[Any, ...]] = set()
        self.pieces = {p: (t, dim, lo, hi) for p, t, dim, lo, hi in analysis.rows("piece")}
        self.axes = axes_of(view.facts)

    def tell(self, proof: Proof, level: int) -> list[Statement]:
        """The statement of a proof, or of the nearest ones below it."""
        if proof.relation != _TOLD:
            return [s for below in _nearest(proof) for s in self.tell(below, level)]
        dist, base, layout = proof.row
        text = f"{self._name(str(dist))} holds {self._layout(layout, self._name(str(base)), str(base))}"
        out = _statement(text, proof)
        key = (dist, base, layout)
        if key in self.told:
            out.again = True
        elif level < self.depth:
            self.told.add(key)
            out.premises = [s for below in _nearest(proof) for s in self.tell(below, level + 1)]
        elif any(True for _ in _nearest(proof)):
            out.again = True
        return [out]

    def is_base(self, tensor: str) -> bool:
        """Whether a tensor is of the baseline."""
        base = {graph for graph, role in self.view.facts("graph") if role == "base"}
        return any(t == tensor and graph in base for t, graph, _, _ in self.view.facts("tensor"))

    def _name(self, value: str) -> str:
        """A tensor, or a piece of one, as people know it."""
        if value not in self.pieces:
            return self.view.label(value)
        tensor, dim, lo, hi = self.pieces[value]
        return f"{self._name(tensor)} (dim {dim} from {lo} to {hi})"

    def _layout(self, term: Any, name: str, base: str) -> str:
        return holds(layout_text(term, self.axes), name, "", self.view.ranks.get(base, 0))

    def obstacles(self, tensor: str) -> list[str]:
        """Why nothing is known of a tensor: its op, and what its operands hold."""
        if self.is_base(tensor):
            return ["no tensor of the distributed program is known to hold it"]
        made = [op for op, _, t in self.view.facts("result") if t == tensor]
        if not made:
            notes = [text for t, text in self.view.facts("placement_note") if t == tensor]
            return notes or ["it is an input that no relation places"]
        op = self.view.ops({made[0]})[made[0]]
        held = self.view.correspondences(set(op.operands))
        article = "an" if op.kind[0] in "aeiou" else "a"
        places = Places(self.view)
        named = (("in module", places.module(op.operands, op.results)), ("it leads to", places.feeds(op.results)))
        told = "".join(f"; {label} {name}" for label, name in named if name)
        out = [f"it is made by {op.name}, {article} {op.kind}{told}"]
        for i, operand in enumerate(op.operands):
            rows = held.get(operand, [])
            words = [holds(x, self.view.label(b), bp, self.view.ranks.get(b, 0)) for _, b, bp, x in rows[:_NEAR]]
            out.append(
                f"operand {i}, {self.view.name(operand)}, "
                + (f"holds {'; '.join(words)}" if words else "corresponds to nothing")
            )
        frontier = {row[0] for row in self.view.results("frontier")}
        read = {t for _, _, t in self.view.facts("operand")} | {t for _, _, t in self.view.facts("output")}
        if tensor not in read:
            out.append("nothing reads it, and it is no output: nobody asks what it holds")
        elif made[0] in frontier:
            out.append("all that it reads is known, so the difference (or the missing lemma) is here")
        elif stops := self._stops(made[0], frontier):
            names = ", ".join(self.view.ops(stops)[x].name for x in sorted(stops)[:_NEAR])
            out.append(f"it hangs on where the proof stops: {names} (explain that)")
        return out

    def _stops(self, op: str, frontier: set[str]) -> set[str]:
        """The ops of the frontier that an op hangs on."""
        makers = {tensor: maker for maker, _, tensor in self.view.facts("result")}
        reads: dict[str, list[str]] = defaultdict(list)
        for reader, _, tensor in self.view.facts("operand"):
            if tensor in makers:
                reads[reader].append(makers[tensor])
        seen, stack = {op}, [op]
        while stack:
            new = [x for x in reads[stack.pop()] if x not in seen]
            seen.update(new)
            stack += [x for x in new if x not in frontier]
        return seen & frontier


def _statement(text: str, proof: Proof) -> Statement:
    """A statement and the lemma that gives it."""
    lemma = lemma_at(Path(proof.file), proof.line)
    why = lemma.statement if lemma else comment_above(Path(proof.file), proof.line)
    place = f"{Path(proof.file).name}:{proof.line}"
    return Statement(text, why, proof.rule or "", f"{lemma.id} ({place})" if lemma else place)


def _nearest(proof: Proof) -> Iterator[Proof]:
    """The nearest sub-proofs that are told, each once; that a layout is somewhere is none of a value that has it."""
    seen: set[int] = set()
    stack = list(reversed(proof.premises))
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.relation == _TOLD:
            yield node
        elif not node.relation.startswith(_DEMAND) and not _about_terms(node.row):
            stack += reversed(node.premises)


def _about_terms(row: Sequence[Any]) -> bool:
    """Whether a row speaks of layouts or lists, and of nothing by its name."""
    return not any(isinstance(value, str) for value in row) and not all(isinstance(value, int) for value in row)


def axes_of(facts: Callable[[str], Iterable[Sequence[Any]]]) -> list[tuple[str, int]]:
    """Axes of the mesh and their sizes, in order."""
    return [(axis, size) for axis, _, size in sorted(facts("mesh_axis"), key=lambda row: row[1])]


def layout_text(term: Any, axes_of_mesh: Sequence[tuple[str, int]]) -> str:
    """A layout as the rules hold it (one entry for every prime factor of the mesh), as tables have it."""
    local, mesh, num, den = term
    entries = [_entry(e) for e in _items(mesh)]
    axes, at = [], 0
    for axis, size in axes_of_mesh:
        mine, reach = [], 1
        while reach < size and at < len(entries):
            mine.append(entries[at])
            reach *= entries[at].size
            at += 1
        axes.append((axis, mine))
    dims = [[e for e in map(_entry, _items(d)) if isinstance(e, Digit)] for d in _items(local)]
    return str(Layout.of(dims, axes, Fraction(num, den)))


def _items(term: Any) -> Iterator[Any]:
    while term is not None:
        head, term = term
        yield head


def _entry(term: Any) -> Digit | Repl | Pending:
    dim, stride, size = term
    if dim >= 0:
        return Digit(dim, stride, size)
    return Repl(size) if dim == -1 else Pending(_CODES[dim], size)
