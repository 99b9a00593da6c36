"""One run of the rules on a family with symbols: what is proved, and under which conditions on the sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalify_dl.facts.model import Row
from scalify_dl.facts.schema import SYMBOLIC
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, fact_relations
from scalify_dl.pysouffle import EvaluationError, Program, Symbol

from .conditions import Condition
from .differently import Differently
from .family import SymbolicFacts

MEMORY = 3000
"""Most megabytes of one run: with symbols, formulas of a wrong program may grow without end (products of scales)."""


@dataclass(frozen=True)
class Derivation:
    """What a run with symbols derived. Without `proved`, `stops` names the ops at which it stopped."""

    proved: bool
    conditions: tuple[Condition, ...] = ()
    assumptions: tuple[tuple[str, str, str], ...] = ()
    """(tensor, text, why), as in a verdict."""
    stops: tuple[str, ...] = ()


def derive(
    rules: Program, options: Options, differently: Differently, facts: SymbolicFacts, point: Mapping[str, int]
) -> Derivation:
    """Runs the rules (a program without facts); `point` has the sizes by which comparisons are decided that no bound
    decides. Outputs that are not proved are asked of the algebra."""
    left = [symbol.name for symbol in facts.family.symbols if symbol.name not in facts.values]
    names = _Names([*left, *facts.coordinates.values()])
    symbols = [Symbol(names.inside(name), value=point[name], minimum=1) for name in left]
    first, last = facts.family.ends
    symbols += [  # a coordinate in the middle: at the first one more numbers coincide
        Symbol(names.inside(name), max(first, (first + point[axis] - last - 1) // 2), first, names.inside(axis))
        for axis, name in facts.coordinates.items()
    ]
    program = rules.fresh(symbols=symbols)
    for relation, table in (fact_relations(program) | {name: name for name in SYMBOLIC}).items():
        numbers = [i for i, a in enumerate(program.relations[relation].attributes) if a.kind == "number"]
        program.insert(relation, [names.row(row, numbers) for row in facts.facts.tables.get(table, [])])
    memory = min(options.max_memory or MEMORY, MEMORY) * 1_000_000
    try:
        program.run(timeout=options.timeout, max_memory=memory)
    except EvaluationError as error:
        return _stopped(error)
    found = _found(program)
    expected = {(dist, base) for dist, base, _ in facts.facts["expect"]}
    more: Sequence[Condition] = ()
    by_rules = {*expected}
    if left and found.keys() != expected:
        equal = differently.equalities(facts, point, expected - found.keys())
        if equal is not None:
            program.insert("proved_equal", equal.proved)
            program.insert("assumed_equality", equal.needs)
            program.insert("written_number", [names.row(row, (1,)) for row in equal.words])
            more = equal.conditions
            by_rules -= {(dist, base) for dist, base, _ in equal.proved}
            try:
                program.run(timeout=options.timeout, max_memory=memory)
            except EvaluationError as error:
                return _stopped(error)
            found = _found(program)
    if found.keys() != expected or list(program.relation("inconsistent")):
        view = Analysis(facts.facts, program, options).view
        ops = view.ops({op for (op,) in program.relation("frontier")})
        return Derivation(False, stops=tuple(sorted(f"{op.name} ({op.kind})" for op in ops.values())[:3]))
    try:
        # formulas were followed from the inputs on, for all sizes: there rules need no proof that theirs goes as here
        left_to_rules = {pair: row for pair, row in found.items() if pair in by_rules}
        conditions = program.conditions(_proofs(program, facts, left_to_rules)) if left_to_rules else []
    except EvaluationError as error:
        if "not available" not in error.message:
            raise
        return Derivation(False, stops=(error.message.splitlines()[0],))  # a proof whose conditions cannot be told
    return Derivation(
        True,
        (*(Condition(c.kind, names.outside(c.left), names.outside(c.right)) for c in conditions), *more),
        tuple(sorted((tensor, names.outside(text), why) for tensor, text, why in program.relation("assumption"))),
    )


def _stopped(error: EvaluationError) -> Derivation:
    """Nothing, for a guard that stopped the rules."""
    if not error.message.startswith(("timeout:", "max_memory:", "symbols:")):
        raise error
    return Derivation(False, stops=(error.message.splitlines()[0],))


def _found(program: Program) -> dict[tuple[str, str], Row]:
    """The outputs that are proved."""
    found: dict[tuple[str, str], Row] = {}
    for row in sorted(program.relation("output_verdict")):
        if row[2] == "PROVED":
            found.setdefault((row[0], row[1]), row)
    return found


def _proofs(program: Program, facts: SymbolicFacts, found: Mapping[tuple[str, str], Row]) -> dict[str, list[Row]]:
    """The rows whose proofs count: the verdicts, or, where no op is a loop or a random draw, what they rest on besides
    (no sizes make such ops, and to ask which would compare everything with everything)."""
    if any(kind in ("while", "dropout-mask") for _, _, kind in facts.facts["op"]):
        return {"output_verdict": list(found.values())}
    rows: dict[tuple[str, str], Row] = {}
    for row in program.relation("as_expected"):
        if row[:2] in found:
            rows.setdefault((row[0], row[1]), row)
    return {"as_expected": list(rows.values())}


class _Names:
    """Names of symbols inside the engine: unlike any text of the facts, with which rules compare texts of numbers."""

    SUFFIX = "__size"

    def __init__(self, names: Sequence[str]) -> None:
        self._names = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b") if names else None

    def inside(self, text: str) -> str:
        """The text of a formula, as the engine reads it."""
        return self._names.sub(lambda match: match[0] + self.SUFFIX, text) if self._names else text

    def outside(self, text: str) -> str:
        """A text of the engine, as people know it."""
        text = text.replace(self.SUFFIX, "")
        return re.sub(r"\{([^{} ]*)\}", lambda word: word[0].replace(".", "*"), text)  # words of layout texts

    def row(self, row: Row, numbers: Sequence[int]) -> Row:
        """A row of facts; `numbers` are its number columns."""
        if not any(isinstance(row[i], str) for i in numbers):
            return row
        return tuple(self.inside(c) if i in numbers and isinstance(c, str) else c for i, c in enumerate(row))
