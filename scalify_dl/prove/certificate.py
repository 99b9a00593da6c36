"""Writes the derivation of every proved output as a certificate.

Of the engine's derivation only what is above the relations that the checker computes first (`Structure`) is written:
the recursion of `holds` and what is concluded from it, as far as outputs need it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.certificate.files import CertificateError, own_rules, rule_names, table_hash, write_lines
from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.structure import DECIDED, Structure
from scalify_dl.certificate.terms import Apply, RuleError, RuleSet, atoms, parts
from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Derivation, Program, rules_dir

from .normal_forms import real_numbers
from .pipeline import Analysis, fact_relations, rule_files
from .verdict import Report

if TYPE_CHECKING:
    from scalify_dl.certificate.formulas.claims import Part

_MANY = 1000
"""Values a line."""


def write(analysis: Analysis, report: Report, path: Path, more: Mapping[str, Any] | None = None) -> None:
    """Write the certificate of a PROVED report; the file appears whole or not at all. `more` is said besides, in its
    second line. InputError where the checker would not understand the rules."""
    program = analysis.program
    tables = {table: analysis.facts.tables.get(table, ()) for table in fact_relations(program).values()}
    outputs = [(o.tensor, o.base_tensor, o.layout) for o in report.outputs]
    try:
        rules = read_rules(rule_files(analysis.options.rules))
        lines = lines_of(program, rules, rules_dir(), tables, outputs)
        write_lines(path, chain([next(lines) | dict(more or {})], lines))
    except RuleError as error:
        raise InputError(
            f"no certificate can be written, for the checker does not understand the rules: {error}",
            hint="it knows no components, macros, functors of the host, eqrel or subsumption",
        ) from None


def not_replayed(analysis: Analysis) -> str:
    """Why the checker would not accept what was found by formulas; empty where it would."""
    claims, on_condition = list(analysis.rows("proved_equal")), _on_condition(analysis.rows)
    if on_condition:
        from scalify_dl.certificate.formulas.claims import decide_parts

        try:
            decide_parts(analysis.facts.tables, on_condition, real_numbers(analysis.rows))
        except (CertificateError, RecursionError) as error:
            return f"outputs rest on equal formulas of parts, which the checker cannot follow ({error})"
    if claims:
        from scalify_dl.certificate.formulas.claims import decide_claims, finite_inputs  # where there are any

        try:
            finite = finite_inputs(analysis.facts.tables, claims)
            decide_claims(analysis.facts.tables, claims, [*analysis.rows("assumed_equality"), *finite])
        except (CertificateError, RecursionError) as error:
            return f"outputs rest on equal formulas, which the checker cannot follow ({error})"
    return ""


def lines_of(
    program: Program,
    rules: RuleSet,
    shipped: Path,
    tables: Mapping[str, Iterable[Sequence[Any]]],
    outputs: list[tuple[str, str, str]],
) -> Iterator[Any]:
    """The lines after the first, of a finished run of these rules on these tables, in which the outputs (distributed
    tensor, baseline value, layout) were proved. `shipped`: the folder of the rules that are nobody's own."""
    structure = Structure(rules)
    proved = [(dist, base, "PROVED", layout) for dist, base, layout in outputs]
    choices = {relation: sorted(program.relation(relation)) for relation in rules.choices}
    names = rule_names(rules.files, shipped)
    shown = choices | {DECIDED: sorted(program.relation(DECIDED), key=repr), "output_verdict": proved}
    derived = program.derivation(shown, structure.computed & program.relations.keys())
    clauses, numbers = _clauses(derived, rules, names)
    header: dict[str, Any] = {
        "facts": {name: table_hash(tables.get(Path(name).stem, ())) for name in structure.deciding.values()},
        "rules": {names[file]: digest for file, digest in rules.files.items()},
        "outputs": outputs,
        "assumptions": sorted([*program.relation("assumption"), *own_rules(rules.files, shipped)]),
        "clauses": clauses,
        "order": order_of_texts(program, rules),
        "choices": choices,
    }
    claims = sorted(map(list, program.relation("proved_equal"))) if "proved_equal" in program.relations else []
    parts = _on_condition(lambda name: program.relation(name) if name in program.relations else [])
    if claims or parts:
        from scalify_dl.certificate.formulas.claims import finite_inputs  # where there are any

        finite = finite_inputs(tables, claims) if claims else []
        assumed = sorted({*program.relation("assumed_equality"), *finite})
        listed = sorted({*header["assumptions"], *finite})
        header |= {"equality_assumptions": assumed, "assumptions": listed}
    if claims:
        header["equalities"] = claims
    if parts:
        header["parts"] = parts
    yield from _lines(header, derived, numbers, structure.late)


def _on_condition(rows: Callable[[str], Iterable[Any]]) -> list[Part]:
    """Parts whose formulas are equal, with what each rests on."""
    claims = sorted(rows("equal_if"))
    if not claims:
        return []
    from scalify_dl.certificate.formulas.claims import Part  # where there are any

    given: dict[int, list[Any]] = defaultdict(list)
    needs: dict[int, list[Any]] = defaultdict(list)
    for number, _, *row in sorted(rows("equal_given")):
        given[number].append(row)
    for number, *row in sorted(rows("equal_needs")):
        needs[number].append(row)
    return [Part(number, dist, base, layout, given[number], needs[number]) for number, dist, base, layout in claims]


def _clauses(derived: Derivation, rules: RuleSet, names: dict[Path, str]) -> tuple[list[list[Any]], dict[int, int]]:
    """The clauses that are used, and for rules of the engine their numbers: alternatives of one clause are several."""
    texts = {(clause.head.relation, clause.file, clause.line): clause.text for clause in rules.clauses}
    clauses: list[list[Any]] = []
    numbers = {}
    for rule, (relation, name, line, variables) in derived.rules.items():
        file = Path(name).resolve()
        clause = [relation, names[file], line, texts[relation, str(file), line], variables]
        if clause not in clauses:
            clauses.append(clause)
        numbers[rule] = clauses.index(clause)
    return clauses, numbers


def _lines(header: dict[str, Any], derived: Derivation, numbers: dict[int, int], late: frozenset[str]) -> Iterator[Any]:
    """The lines after the first: conclusions come last."""
    yield header
    for at in range(0, len(derived.values), _MANY):
        yield {"values": derived.values[at : at + _MANY]}
    place = [0] * len(derived.steps)
    count = 0
    for concluding in (False, True):
        for at, (relation, rule, premises, values) in enumerate(derived.steps):
            if (relation in late) is not concluding:
                continue
            if rule >= 0:
                yield [numbers[rule], [place[p] for p in premises], values]
            else:
                yield {"decide": values} if relation == DECIDED else [relation, values]
            place[at] = count
            count += 1


def order_of_texts(program: Program, rules: RuleSet) -> dict[str, int]:
    """What `ord` gave to the texts that clauses ask it about: the columns where its argument stands in their bodies."""
    columns: set[tuple[str, int]] = set()
    for clause in rules.clauses:
        found = parts((clause.head, clause.body))
        asked = {arg for part in found if isinstance(part, Apply) and part.name == "ord" for arg in part.args}
        for atom in atoms(clause.body) if asked else ():
            columns |= {(atom.relation, i) for i, term in enumerate(atom.args) if term in asked}
    numbers = {n for relation, i in columns for n in program.array(relation)[:, i].tolist()}
    return {program.symbol(n): n for n in sorted(numbers)}
