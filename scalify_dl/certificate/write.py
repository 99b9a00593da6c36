"""Writes the derivation of every proved output as a certificate."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scalify_dl.pysouffle import Program, Proof, rules_dir
from scalify_dl.verify.pipeline import Analysis, fact_relations, rule_files
from scalify_dl.verify.verdict import Report

from .files import FORMAT, VERSION, CertificateError, facts_hash, file_hash, rule_name
from .rules import read_rules
from .terms import Aggregate, Apply, Atom, Clause, Literal, Record, RuleSet, Term, atoms

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Lines:
    """The lines of a certificate: every tuple and every record once."""

    def __init__(self, clause_of: Callable[[Proof], int]) -> None:
        self.lines: list[str] = []
        self.steps: dict[int, int] = {}
        """Proofs that are written, by identity, with the number of their line."""
        self.terms: dict[int, list[int]] = {}
        """Records that are written, by identity: they share parts, and hashing them by content would take forever."""
        self.kept: list[Proof] = []
        """They must live on while identities count."""
        self.clause_of = clause_of

    def value(self, value: Any) -> Any:
        """A value as it stands in a row; records get a line of their own first."""
        if not isinstance(value, tuple):
            return value
        known = self.terms.get(id(value))
        if known is None:
            items = [self.value(item) for item in value]
            known = self.terms[id(value)] = [len(self.terms)]
            self.lines.append(_dumps({"term": items}))
        return known

    def proof(self, proof: Proof) -> None:
        """A proof with all its premises, premises first; what is written already is not written again."""
        self.kept.append(proof)
        stack = [proof]
        while stack:
            node = stack[-1]
            missing = [p for p in node.premises if id(p) not in self.steps]
            if missing:
                stack += missing
                continue
            stack.pop()
            if id(node) not in self.steps:
                self.steps[id(node)] = len(self.steps)
                self.step(node)

    def step(self, node: Proof) -> None:
        """One line."""
        row = [self.value(v) for v in node.row]
        entry: list[Any] = [node.relation, row]
        if node.kind == "rule":
            premises = [self.steps[id(p)] for p in node.premises]
            bindings = {name: self.value(v) for name, v in node.bindings.items()}
            entry += [self.clause_of(node), premises, bindings]
        elif node.kind != "fact":
            raise CertificateError(f"a certificate cannot say why {node.atom} holds ({node.kind})")
        self.lines.append(_dumps(entry))


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


def write(analysis: Analysis, report: Report, path: Path) -> None:
    """Write the certificate of a PROVED report; the file appears whole or not at all."""
    program, shipped = analysis.program, rules_dir()
    given = fact_relations(program)
    rules = read_rules(rule_files(analysis.options.rules))
    numbers: dict[tuple[str, int], int] = {}
    clauses: list[list[Any]] = []
    texts = {(clause.file, clause.line): clause.text for clause in rules.clauses}

    def clause_of(proof: Proof) -> int:
        place = (str(Path(proof.file).resolve()), proof.line)
        if place not in numbers:
            numbers[place] = len(clauses)
            clauses.append([rule_name(Path(place[0]), shipped), place[1], texts[place]])
        return numbers[place]

    out = _Lines(clause_of)
    outputs = []
    rows = [(o.tensor, o.base_tensor, "PROVED", o.layout) for o in report.outputs]
    for (dist, base, _, layout), proof in zip(rows, program.explain_all("output_verdict", rows), strict=True):
        if proof is None:
            raise CertificateError(f"{dist} = {base} is not proved")
        out.proof(proof)
        outputs.append([dist, base, layout])
    choices = {relation: sorted(program.relation(relation)) for relation in rules.choices}
    for relation, chosen in choices.items():
        for proof in program.explain_all(relation, chosen):
            if proof is not None:
                out.proof(proof)
    header = {
        "certificate": FORMAT,
        "version": VERSION,
        "facts": {
            directive.parameters.get("filename", f"{directive.name}.facts"): facts_hash(
                "\t".join(map(str, row)) for row in analysis.facts.tables.get(given.get(directive.name, ""), ())
            )
            for directive in program.directives
            if directive.kind == "input"
        },
        "rules": {rule_name(file, shipped): file_hash(file) for file in rules.files},
        "outputs": outputs,
        "assumptions": sorted(map(list, analysis.rows("assumption"))),
        "clauses": clauses,
        "order": _order(program, rules),
        "choices": choices,
    }
    temporary = path.with_name(path.name + ".part")
    try:
        with gzip.open(temporary, "wt", encoding="utf-8", compresslevel=3) as file:
            file.write(json.dumps(header, ensure_ascii=False) + "\n")
            file.writelines(line + "\n" for line in out.lines)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
