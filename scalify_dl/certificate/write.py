"""Writes the derivation of every proved output as a certificate.

Of the engine's proofs only what the checker cannot compute is written (`Structure`): the recursion of `holds`, what is
concluded from it, and the little below that nothing denies or counts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scalify_dl.pysouffle import Program, Proof, rules_dir
from scalify_dl.verify.pipeline import Analysis, fact_relations, rule_files
from scalify_dl.verify.verdict import Report

from .closed import DECIDED, Structure, denials, enter
from .files import CertificateError, facts_hash, file_hash, rule_name, write_lines
from .plans import Row, derive
from .rules import read_rules
from .terms import Aggregate, Apply, Atom, Clause, Literal, Record, RuleError, RuleSet, Term, atoms

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Lines:
    """The lines of the derivation: every row and every value once; conclusions after the recursion."""

    def __init__(self, rules: RuleSet, structure: Structure) -> None:
        self.rules = rules
        self.structure = structure
        self.texts = {(clause.file, clause.line): clause.text for clause in rules.clauses}
        self.clauses: list[list[Any]] = []
        self.lines: list[str] = []
        self.count = 0
        """Rows that are written."""
        self.late: list[Proof] = []
        """Conclusions that wait."""
        self._rows: dict[tuple[str, tuple[int, ...]], int] = {}
        self._steps: dict[int, int] = {}
        """Proofs that are written, by identity, with the number of their row."""
        self._numbers: dict[int, int] = {}
        """Clauses that are written, by their place among the engine's rules."""
        self._kept: list[Any] = []
        """What must live on while identities count."""
        self._scalars: dict[Any, int] = {}
        self._records: dict[int, int] = {}
        """Records by identity: they share parts, and hashing them by content would take forever."""
        self._contents: dict[tuple[int, ...], int] = {}
        self._values: list[Any] = []
        """Values by number: scalars, and records as the numbers of their items."""
        self._stated: dict[int, int] = {}
        """Values that are written, by number, with their number in the file."""
        self._fresh: list[Any] = []
        """Values that wait for their line."""

    def value(self, value: Any) -> int:
        """The number of a value."""
        if not isinstance(value, tuple):
            known = self._scalars.get(value)
            if known is None:
                known = self._scalars[value] = len(self._values)
                self._values.append(value)
            return known
        known = self._records.get(id(value))
        if known is None:
            items = tuple([self.value(item) for item in value])
            known = self._contents.get(items)
            if known is None:
                known = self._contents[items] = len(self._values)
                self._values.append(items)
            self._records[id(value)] = known
            self._kept.append(value)
        return known

    def stated(self, number: int) -> int:
        """The number of a value in the file; what is new waits for its line."""
        known = self._stated.get(number)
        if known is None:
            value = self._values[number]
            content = [self.stated(item) for item in value] if isinstance(value, tuple) else value
            known = self._stated[number] = len(self._stated)
            self._fresh.append(content)
        return known

    def proofs(self, program: Program, relation: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Proofs of rows, with all premises that the checker does not compute; conclusions wait for `conclude`."""
        asked = [row for row in rows if (relation, tuple([self.value(v) for v in row])) not in self._rows]
        for proof in program.explain_all(relation, asked) if asked else ():
            if proof is None:
                raise CertificateError(f"a row of {relation} is there without a proof")
            self._kept.append(proof)
            self.late += self._walk(proof)

    def denied(self) -> set[str]:
        """Relations that the conclusions so far deny."""
        places = {(str(Path(node.file).resolve()), node.line) for node in self.late}
        return set().union(*(denials(c) for c in self.rules.clauses if (c.file, c.line) in places))

    def _walk(self, proof: Proof) -> Iterator[Proof]:
        """Write what is no conclusion; yields the conclusions, premises first."""
        computed, late, seen = self.structure.computed, self.structure.late, self._steps
        stack = [proof]
        while stack:
            node = stack[-1]
            if id(node) in seen:
                stack.pop()
                continue
            missing = [p for p in node.premises if id(p) not in seen and p.relation not in computed]
            if missing:
                stack += missing
                continue
            stack.pop()
            if node.relation in late:
                seen[id(node)] = -1
                yield node
            else:
                seen[id(node)] = self._step(node)

    def conclude(self) -> None:
        """Write the conclusions."""
        for node in self.late:
            self._steps[id(node)] = self._step(node)

    def _step(self, node: Proof) -> int:
        """Write one row; its number."""
        row = tuple([self.value(v) for v in node.row])
        known = self._rows.get((node.relation, row))
        if known is not None:
            return known
        line: Any
        if node.kind == "rule":
            computed = self.structure.computed
            premises = [self._steps[id(p)] for p in node.premises if p.relation not in computed]
            clause = self._clause(node)
            bound = [self.stated(self.value(node.bindings[name])) for name in self.clauses[clause][4]]
            line = [clause, premises, bound]
        elif node.kind == "fact":
            given = [self.stated(number) for number in row]
            line = {"decide": given} if node.relation == DECIDED else [node.relation, given]
        else:
            raise CertificateError(f"a certificate cannot say why {node.atom} holds ({node.kind})")
        if self._fresh:
            self.lines.append(_dumps({"values": self._fresh}))
            self._fresh.clear()
        self.lines.append(_dumps(line))
        self._rows[node.relation, row] = self.count
        self.count += 1
        return self.count - 1

    def _clause(self, node: Proof) -> int:
        number = self._numbers.get(node.rule_index)
        if number is None:  # alternatives of one clause are several rules of the engine
            file = Path(node.file).resolve()
            text = self.texts[str(file), node.line]
            clause = [node.relation, rule_name(file, rules_dir()), node.line, text, sorted(node.bindings)]
            if clause not in self.clauses:
                self.clauses.append(clause)
            number = self._numbers[node.rule_index] = self.clauses.index(clause)
        return number


def _order(program: Program, rules: RuleSet) -> dict[str, int]:
    """What `ord` gave to the texts that clauses ask it about: the columns where its argument stands in their bodies."""
    columns: set[tuple[str, int]] = set()
    for clause in rules.clauses:
        asked = {arg for term in _terms(clause) if isinstance(term, Apply) and term.name == "ord" for arg in term.args}
        for atom in atoms(clause.body):
            columns |= {(atom.relation, i) for i, term in enumerate(atom.args) if term in asked}
    order: dict[str, int] = {}
    for relation, i in columns:
        texts = (row[i] for row in program.relation(relation))
        order.update(zip(texts, program.array(relation)[:, i].tolist(), strict=True))
    return order


def _terms(clause: Clause) -> Iterator[Term]:
    """All terms of a clause, those inside others too."""
    todo: list[Term] = list(clause.head.args)
    literals: list[Literal] = list(clause.body)
    while literals or todo:
        if literals:
            literal = literals.pop()
            todo += literal.args if isinstance(literal, Atom) else (literal.left, literal.right)
            continue
        term = todo.pop()
        yield term
        if isinstance(term, Aggregate):
            literals += term.body
        elif isinstance(term, Apply | Record):
            todo += term.args if isinstance(term, Apply) else term.items


class _Found:
    """The engine's rows, as plans look them up."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def rows(self, relation: str) -> set[Row]:
        return set(self.program.relation(relation))

    def index(self, relation: str, positions: tuple[int, ...]) -> dict[Any, list[Row]]:
        out: defaultdict[Any, list[Row]] = defaultdict(list)
        enter(out, positions, self.rows(relation))
        return out

    def fitting(self, relation: str, known: list[int]) -> float:
        return float(len(self.rows(relation)) / 10 ** len(known))

    def order(self, text: str) -> int:
        raise RuleError("conclusions do not depend on the order of texts")


def _plain(program: Program, rules: RuleSet, structure: Structure, relation: str) -> set[Row]:
    """Rows of a conclusion that follow from computed relations alone, so that the checker needs no proof of them."""
    out: list[Row] = []
    for clause in rules.clauses:
        if clause.head.relation == relation and all(a.relation in structure.computed for a in atoms(clause.body)):
            derive(clause, None, _Found(program))((None,), out.append)
    return set(out)


def write(analysis: Analysis, report: Report, path: Path) -> None:
    """Write the certificate of a PROVED report; the file appears whole or not at all."""
    program = analysis.program
    given = fact_relations(program)
    rules = read_rules(rule_files(analysis.options.rules))
    structure = Structure(rules)
    out = _Lines(rules, structure)
    proved = [(o.tensor, o.base_tensor, "PROVED", o.layout) for o in report.outputs]
    choices = {relation: sorted(program.relation(relation)) for relation in rules.choices}
    assumptions = set(program.relation("assumption"))
    out.proofs(program, "output_verdict", proved)
    for relation in [*choices, *structure.supports(out.denied())]:
        out.proofs(program, relation, program.relation(relation))
    out.proofs(program, "assumption", assumptions - _plain(program, rules, structure, "assumption"))
    out.conclude()
    header = {
        "facts": {
            directive.parameters.get("filename", f"{directive.name}.facts"): facts_hash(
                "\t".join(map(str, row)) for row in analysis.facts.tables.get(given.get(directive.name, ""), ())
            )
            for directive in program.directives
            if directive.kind == "input"
        },
        "rules": {rule_name(file, rules_dir()): file_hash(file) for file in rules.files},
        "outputs": [[dist, base, layout] for dist, base, _, layout in proved],
        "assumptions": sorted(map(list, assumptions)),
        "clauses": out.clauses,
        "order": _order(program, rules),
        "choices": choices,
    }
    write_lines(path, [_dumps(header), *out.lines])
