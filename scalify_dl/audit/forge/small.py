"""Small proofs to forge: a rule set of a few lines with every construct that certificates know, and random facts.

The rules stand for the shipped ones: a recursion of `holds` with aggregates, negations, records, functors, choices,
suppositions and claims of arithmetic; verdicts, assumptions and contradictions above it. Checking a certificate of them
takes milliseconds.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalify_dl.certificate.check import Checker
from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.structure import DECIDED
from scalify_dl.prove.certificate import lines_of
from scalify_dl.pysouffle import Program

Tables = dict[str, list[tuple[Any, ...]]]

RULES = """
.type Layout = [n:number, rest:Layout]
.type Term = X {} | Const { v:number } | Rank { base:number, w:Weights } | Binary { op:symbol, a:Term, b:Term }
.type Weights = [w:number, rest:Weights]
.decl op(o:symbol, side:symbol, kind:symbol)
.input op
.decl arg(o:symbol, i:number, x:symbol)
.input arg
.decl given(d:symbol, t:symbol, n:number)
.input given
.decl weight(o:symbol, n:number)
.input weight
.decl bound(x:symbol, n:number)
.input bound
.decl expect(d:symbol, t:symbol, l:symbol)
.input expect
.decl rank_coord(r:number, a:symbol, c:number)
.input rank_coord
.decl rank_digit(r:number, a:number, c:number)
rank_digit(r, 0, c) :- rank_coord(r, _, c).
.decl rank_function(f:symbol, r:number, v:number)
rank_function(f, r, v + c) :- bound(f, v), rank_coord(r, _, c).
.decl proved(f:Term, lo:number, hi:number)
.input proved

// below the recursion: counted, denied, summed up
.decl arity(o:symbol, n:number)
arity(o, n) :- op(o, _, _), n = count : { arg(o, _, _) }.
.decl lightest(o:symbol, n:number)
lightest(o, n) :- weight(o, _), n = min w : { weight(o, w) }.
.decl blocked(o:symbol)
blocked(o) :- weight(o, n), n < 0.
.decl first(o:symbol)
first(o) :- op(o, s, k), ord(o) = min n : { op(p, s, k), n = ord(p) }.
.decl feeds(x:symbol, y:symbol)
feeds(x, o) :- arg(o, _, x).
feeds(x, z) :- feeds(x, y), feeds(y, z).

// the recursion
.decl holds(d:symbol, t:symbol, l:Layout)
holds(d, t, [n, nil]) :- given(d, t, n).
.decl alike(o:symbol, p:symbol)
alike(o, p) :- holds(d, t, _), arg(o, i, d), arg(p, i, t), op(o, "dist", k), op(p, "base", k), arity(o, n), arity(p, n).
.decl matched(o:symbol, p:symbol, i:number, l:Layout)
matched(o, p, 1, l) :- alike(o, p), arg(o, 0, d), arg(p, 0, t), holds(d, t, l).
matched(o, p, i + 1, l) :- matched(o, p, i, l), arg(o, i, d), arg(p, i, t), holds(d, t, l).
holds(o, p, l) :- matched(o, p, n, l), arity(o, n), op(o, _, k), (k = "add" ; k = "mul").
// aggregates within the recursion, with variables of their own
holds(o, p, [n, l]) :- matched(o, p, 1, l), op(o, _, "sum"), n = sum w : { weight(o, w) }, n = sum w : { weight(p, w) }.
holds(o, p, [n, l]) :- matched(o, p, 1, l), op(o, _, "count"), n = count : { weight(o, w), weight(p, w), w > 0 }, n > 0.
holds(o, p, l) :- matched(o, p, 1, l), op(o, _, "least"), lightest(o, n), n = min w : { weight(p, w) }.
holds(o, p, l) :- matched(o, p, 1, l), op(o, _, "free"), !blocked(o), !blocked(p), !feeds(o, o).
// records, functors
.decl want_flat(l:Layout)
want_flat(l) :- matched(o, _, 1, l), op(o, _, "flatten").
want_flat(r) :- want_flat([_, r]).
.decl flat(l:Layout, n:number)
flat(nil, 1) :- want_flat(nil).
flat(l, n * m) :- want_flat(l), l = [n, r], flat(r, m), n % 2 = 0.
holds(o, p, [n, nil]) :- matched(o, p, 1, l), op(o, _, "flatten"), flat(l, n), n < 1000.
// a choice: a draw has one counterpart
.decl pair(o:symbol, p:symbol) choice-domain o, p
pair(o, p) :- matched(o, p, 1, _), op(o, _, "draw").
holds(o, p, l) :- pair(o, p), matched(o, p, 1, l).
// a supposition about a loop, given back or broken
.decl supposed(o:symbol, p:symbol, l:Layout)
supposed(o, p, l) :- matched(o, p, 1, l), op(o, _, "loop").
holds(o, p, l) :- supposed(o, p, l).
.decl kept_up(o:symbol, p:symbol, l:Layout)
kept_up(o, p, l) :- supposed(o, p, l), arg(o, 1, d), arg(p, 1, t), holds(d, t, l).
holds(o, p, l) :- kept_up(a, b, l), arg(o, 0, a), arg(p, 0, b), op(o, "dist", "after"), op(p, "base", "after").
// a claim of arithmetic
.decl claim(o:symbol, p:symbol, l:Layout, f:Term, n:number)
claim(o, p, l, $Binary("LT", $Binary("add", $X(), $Rank(0, [v, nil])), $Const(m)), n) :-
    matched(o, p, 1, l), op(o, _, "read"), bound(o, n), bound(p, m), weight(o, v).
holds(o, p, l) :- claim(o, p, l, f, n), proved(f, 0, n).
.decl obligation(f:Term, lo:number, hi:number)
obligation(f, 0, n) :- claim(_, _, _, f, n), !proved(f, 0, n).
// what assumptions and contradictions are made of
.decl loud(l:Layout)
loud(l) :- holds(_, _, l), l = [n, _], n > 3.
.decl deep(l:Layout, n:number)
deep(nil, 0) :- holds(_, _, l), l = [_, nil].
deep(l, n + 1) :- holds(_, _, l), l = [_, r], deep(r, n).
holds(o, p, l) :- matched(o, p, 1, l), op(o, _, "louder"), loud(l).
holds(o, p, [n, l]) :- matched(o, p, 1, l), op(o, _, "deepen"), deep(l, n), n < 4.

// above it
.decl broken(o:symbol)
broken(o) :- supposed(o, p, l), !kept_up(o, p, l).
.decl voided(o:symbol)
voided(o) :- broken(o).
voided(y) :- voided(x), arg(y, _, x).
.decl text(l:Layout, x:symbol)
.decl want_text(l:Layout)
want_text(l) :- holds(_, _, l).
want_text(r) :- want_text([_, r]).
text(nil, "") :- want_text(nil).
text(l, cat(to_string(n), ",", x)) :- want_text(l), l = [n, r], text(r, x).
.decl accepted(d:symbol, t:symbol, l:Layout)
accepted(d, t, l) :- expect(d, t, ""), holds(d, t, l), !voided(d).
accepted(d, t, l) :- expect(d, t, x), x != "", holds(d, t, l), text(l, x), !voided(d).
.decl proved_output(d:symbol, t:symbol)
proved_output(d, t) :- accepted(d, t, _).
.decl output_verdict(d:symbol, t:symbol, verdict:symbol, l:symbol)
output_verdict(d, t, "PROVED", x) :- accepted(d, t, l), text(l, x).
output_verdict(d, t, "UNKNOWN", "") :- expect(d, t, _), !proved_output(d, t).
.decl assumption(t:symbol, text:symbol, why:symbol)
assumption(d, cat("given as ", to_string(n)), "given") :- given(d, _, n).
assumption(d, "its parts are rounded", "precision") :- op(d, _, "add"), holds(d, _, l), loud(l), !blocked(d).
assumption(d, cat("deep: ", to_string(n)), "deep") :- holds(d, _, l), deep(l, n), n > 2.
assumption(o, cat("drawn as ", p), "random") :- pair(o, p).
assumption(o, "a claim", "claim") :- claim(o, _, _, f, n), proved(f, 0, n).
.decl idle(o:symbol)
idle(o) :- holds(o, _, l), deep(l, 4).
.decl inconsistent(text:symbol)
inconsistent(cat("too deep: ", o)) :- idle(o).
inconsistent(cat("no weight: ", o)) :- kept_up(o, p, _), !weight(o, _), !weight(p, _).
"""
KINDS = (
    "add",
    "mul",
    "sum",
    "count",
    "least",
    "free",
    "flatten",
    "draw",
    "loop",
    "read",
    "loop",
    "after",
    "louder",
    "deepen",
)


@dataclass(frozen=True)
class Case:
    """Facts, with what the engine derives of them: outputs, assumptions, whether they contradict each other; and a
    certificate, if all outputs are proved."""

    tables: Tables
    outputs: frozenset[tuple[str, str, str]]
    assumptions: list[list[str]]
    sound: bool
    lines: tuple[Any, ...]


class Small:
    """The small rules, in files that go with the object."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name).resolve()
        file = self.folder / "small.dl"
        file.write_text(RULES, "utf-8")
        self.checker = Checker([file], self.folder)
        self.rules = read_rules([file])
        self.program = Program.from_file(file)

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def run(self, tables: Tables, choices: dict[str, Any] | None = None) -> Program:
        """The engine on these facts, claims of arithmetic decided; `choices` are made before the rules make any."""
        program = self.program.fresh()
        for relation in self.rules.inputs:
            program.insert(relation, tables.get(relation, []))
        for relation, rows in (choices or {}).items():
            program.insert(relation, rows)
        program.run(timeout=20)
        claims = {(f, 0, n) for _, _, _, f, n in program.relation("claim") if self._true(program, f, n)}
        if claims:
            program.insert(DECIDED, sorted(claims, key=str))
            program.run(timeout=20)
        return program

    @staticmethod
    def _true(program: Program, term: Any, n: int) -> bool:
        """The one form of claims that the rules make: x + rank * v < m for 0 <= x <= n."""
        _, (_, left, (_, (m,))) = term
        (_, (_, _, (_, (_, (v, _))))) = left
        return n >= 0 and all(n + r * v < m for _, _, r in program.relation("rank_coord"))

    def case(self, tables: Tables) -> Case:
        """What holds of these facts."""
        program = self.run(tables)
        verdicts = program.relation("output_verdict")
        outputs = frozenset((d, t, layout) for d, t, verdict, layout in verdicts if verdict == "PROVED")
        sound = not program.relation("inconsistent")
        whole = sound and bool(outputs) and {o[:2] for o in outputs} >= {row[:2] for row in tables["expect"]}
        found = lines_of(program, self.rules, self.folder, tables, sorted(outputs)) if whole else ()
        lines = tuple(json.loads(json.dumps(line)) for line in found)
        return Case(tables, outputs, sorted(map(list, program.relation("assumption"))), sound, lines)


def random_tables(chance: random.Random) -> Tables:
    """A random pair of graphs, alike but for what chance changes."""
    tables: Tables = {name: [] for name in ("op", "arg", "given", "weight", "bound", "expect")}
    ranks = chance.choice((1, 2, 2, 4))
    tables["rank_coord"] = [(r, "tp", r) for r in range(ranks)]
    values = []
    for i in range(chance.randint(1, 3)):
        tables["given"].append((f"d{i}", f"t{i}", chance.randint(1, 4)))
        values.append(str(i))
    for i in range(len(values), len(values) + chance.randint(2, 6)):
        kind = chance.choice(KINDS)
        count = {"add": 2, "mul": 2, "loop": 2}.get(kind, 1)
        found = [values[-1], *chance.choices(values, k=count - 1)]
        weights = [chance.randint(0, 4) for _ in range(chance.randint(1, 3))]
        for side, letter in (("dist", "d"), ("base", "t")):
            wrong = chance.random() < 0.06
            tables["op"].append((f"{letter}{i}", side, chance.choice(KINDS) if wrong else kind))
            tables["arg"] += [(f"{letter}{i}", j, letter + x) for j, x in enumerate(found)]
            own = [w + (wrong and chance.random() < 0.5) for w in weights]
            tables["weight"] += [(f"{letter}{i}", w) for w in dict.fromkeys(own)]
            tables["bound"].append((f"{letter}{i}", chance.randint(1, 3) + 9 * (side == "base")))
        values.append(str(i))
    if chance.random() < 0.3:  # a loop gives back what comes later, or itself
        loops = [o for o, _, kind in tables["op"] if kind == "loop" and o[0] == "d"]
        for o in loops:
            back = chance.choice(values)
            tables["arg"] = [(p, j, p[0] + back if p[1:] == o[1:] and j == 1 else x) for p, j, x in tables["arg"]]
    wanted = values[-chance.randint(1, 2) :]
    tables["expect"] = [(f"d{v}", f"t{v}", "") for v in wanted]
    return {name: list(dict.fromkeys(rows)) for name, rows in tables.items()}


def neighbour(chance: random.Random, tables: Tables) -> Tables:
    """The same facts but for a row or two: a number, a kind or an operand is another, or the row is missing."""
    out = {name: list(rows) for name, rows in tables.items()}
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice([name for name in ("weight", "weight", "op", "arg", "given", "bound") if out[name]])
        at = chance.randrange(len(out[name]))
        row = list(out[name][at])
        column = len(row) - 1
        found = [r[column] for r in out[name]]
        row[column] = row[column] + chance.choice((-1, 1)) if isinstance(row[column], int) else chance.choice(found)
        out[name][at : at + 1] = [tuple(row)] if chance.random() < 0.8 else []
        out[name] = list(dict.fromkeys(out[name]))
    return out
