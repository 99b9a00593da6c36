"""One run of the rules on a family with symbols: what is proved, and under which conditions on the sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scalify_dl.pysouffle import Symbol
from scalify_dl.verify.localisation import root_causes
from scalify_dl.verify.options import Options
from scalify_dl.verify.pipeline import Analysis, fact_relations, rules_program

from .conditions import Condition
from .domain import FIRST_GENERIC
from .family import SymbolicFacts


@dataclass(frozen=True)
class Derivation:
    """What a run with symbols derived. Without `proved`, `stops` names the ops at which it stopped."""

    proved: bool
    conditions: tuple[Condition, ...] = ()
    assumptions: tuple[tuple[str, str, str], ...] = ()
    """(tensor, text, why), as in a verdict."""
    stops: tuple[str, ...] = ()


def derive(facts: SymbolicFacts, point: Mapping[str, int], options: Options) -> Derivation:
    """Runs the rules; `point` has the sizes by which comparisons are decided that no bound decides."""
    left = [symbol.name for symbol in facts.family.symbols if symbol.name not in facts.values]
    symbols = [Symbol(name, value=point[name], minimum=1) for name in left]
    symbols += [
        Symbol(name, value=FIRST_GENERIC, minimum=FIRST_GENERIC, below=axis) for axis, name in facts.coordinates.items()
    ]
    program = rules_program(options.rules, symbols=symbols)
    for relation, table in fact_relations(program).items():
        program.insert(relation, facts.facts[table])
    for table in ("whole_axis", "group_along", "written_number"):
        program.insert(table, facts.facts.tables.get(table, []))
    memory = None if options.max_memory is None else options.max_memory * 1_000_000
    program.run(timeout=options.timeout, max_memory=memory)
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for row in sorted(program.relation("output_verdict")):
        if row[2] == "PROVED":
            found.setdefault((row[0], row[1]), row)
    expected = {(dist, base) for dist, base, _ in facts.facts["expect"]}
    if found.keys() != expected or list(program.relation("inconsistent")):
        view = Analysis(facts.facts, program, options).view
        return Derivation(False, stops=tuple(f"{cause.name} ({cause.kind})" for cause in root_causes(view)[:3]))
    conditions = program.conditions({"output_verdict": list(found.values())})
    return Derivation(
        True,
        tuple(Condition(c.kind, str(c.left), str(c.right or "")) for c in conditions),
        tuple(sorted(program.relation("assumption"))),
    )
