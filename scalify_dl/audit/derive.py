"""Runs the rules over fact tables, for everything that audits what they derive."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalify_dl.facts import Facts
from scalify_dl.oracle.meaning import is_opaque
from scalify_dl.oracle.meaning.declared import RELATIONS, Structure, structure
from scalify_dl.prove.ahead import claims_of_parts
from scalify_dl.prove.normal_forms import equalities
from scalify_dl.prove.own_rules import check_own, read_own
from scalify_dl.prove.pipeline import fact_relations
from scalify_dl.pysouffle import Program, rules_dir

Tables = Mapping[str, Iterable[Sequence[Any]]]
SIGNS = ("nonzero", "positive", "nonnegative")
"""Assumptions about the numbers of a value, which are true of it or not."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What the rules concluded: correspondences, the layout of each proved output, and each output that is not
    proved."""

    corr: list[tuple[str, str, str, str, str]]
    proved: dict[tuple[str, str], str]
    unproved: list[tuple[str, str]]
    precision: bool
    """Whether a proof listed rounding that differs between the sides."""
    finite: frozenset[str]
    """Inputs that a derivation takes for finite."""
    assumed: frozenset[tuple[str, str]]
    """Values of which a derivation takes something for granted, and what; see `taken_for_granted`."""
    program: Program

    @property
    def claims(self) -> list[tuple[str, str, str, str, str]]:
        """All correspondences, those of proved outputs among them."""
        return list(dict.fromkeys([*self.corr, *((d, "", b, "", layout) for (d, b), layout in self.proved.items())]))

    def declared(self) -> dict[str, Structure]:
        """Structures that the rules declare of opaque calls, by op."""
        return declared_structures(self.program)


def taken_for_granted(program: Program) -> frozenset[tuple[str, str]]:
    """Values of which a derivation takes something for granted, and what: of `SIGNS`, that they are `finite`, or by
    their `zero sign` that they have no zero of another sign than the baseline's."""
    listed = ((str(row[0]), str(row[2])) for row in program.relation("assumption"))
    zeros = ((str(value), "zero sign") for (value,) in program.relation("zero_of_one_sign"))
    return frozenset([*((value, why) for value, why in listed if why in ("finite", *SIGNS)), *zeros])


def declared_structures(program: Program, kinds: Container[str] | None = None) -> dict[str, Structure]:
    """Structures that rules declare of calls, by op, after a run: of opaque calls, or of some kinds."""
    calls = [
        (str(op), str(kind)) for op, _, kind in program.relation("op")
        if (is_opaque(str(kind)) if kinds is None else kind in kinds)
    ]  # fmt: skip
    if not calls:
        return {}
    relations: dict[str, Any] = {name: program.relation(name) for name in RELATIONS}
    ranks = {str(t): int(n) for t, _, _, n in program.relation("tensor")}
    operands: dict[str, dict[int, int]] = {}
    for op, i, t in program.relation("operand"):
        operands.setdefault(str(op), {})[int(i)] = ranks[str(t)]
    found = {}
    for op, kind in calls:
        dims = operands.get(op, {})
        shape = structure(op, kind, [dims[i] for i in sorted(dims)], relations)
        if shape is not None:
            found[op] = shape
    return found


def load_rules(rules: Iterable[Path] = (), main: Path | None = None) -> Program:
    """The rules, ready for facts; `rules` are further files, `main` replaces the shipped `verify.dl`."""
    main = main or rules_dir() / "verify.dl"
    rules = [*rules]
    own = read_own(rules, main.parent)
    files = [main, *(Path(f).resolve() for f in rules)]
    source = "".join(f'#include "{file}"\n' for file in files)
    program = Program.from_source(source, name="rules", include_dirs=[main.parent])
    check_own(program, own, main.parent)
    return program


def derive(
    tables: Tables, rules: Iterable[Path] = (), *, main: Path | None = None, timeout: float | None = 120,
    formulas: float = 0,
) -> Derived:  # fmt: skip
    """Derives correspondences and verdicts, with the rules that `load_rules` gives."""
    return derive_with(load_rules(rules, main), tables, timeout, formulas)


def derive_with(program: Program, tables: Tables, timeout: float | None = 120, formulas: float = 0) -> Derived:
    """Derives with rules that have seen no facts yet. `formulas`: CPU seconds in which what no rule proves is compared
    by its formulas, as `verify` does."""
    for relation, table in fact_relations(program).items():
        program.insert(relation, [tuple(row) for row in tables.get(table, ())])
    program.run(timeout=timeout)
    _discharge(program, timeout)
    ways = [_compare_parts, _compare] if formulas else []
    for compare in ways[:: 1 if len([*tables.get("op", ())]) % 2 else -1]:  # each comes first for half of all pairs
        if compare(program, tables, formulas):
            program.run(timeout=timeout)
            _discharge(program, timeout)
    verdicts, assumed = program.relation("output_verdict"), program.relation("assumption")
    return Derived(
        [tuple(map(str, row)) for row in program.relation("corr")],  # type: ignore[misc]
        {(str(d), str(b)): str(layout) for d, b, verdict, layout in verdicts if verdict == "PROVED"},
        [(str(d), str(b)) for d, b, verdict, _ in verdicts if verdict != "PROVED"],
        any(row[2] == "precision" for row in assumed),
        frozenset(str(row[0]) for row in assumed if row[2] == "finite"),
        taken_for_granted(program),
        program,
    )


def _compare(program: Program, tables: Tables, seconds: float) -> bool:
    """Hands equal formulas to the rules, if they hold on conditions that a trial can see to be met."""
    found = equalities(_facts(tables), _rows(program), seconds)
    if not found.proved or not _seen(found.needs):
        return False
    program.insert("proved_equal", found.proved)
    program.insert("assumed_equality", found.needs)
    return True


def _compare_parts(program: Program, tables: Tables, seconds: float) -> bool:
    """The same of parts of outputs, each on condition of what it is made of."""
    found = claims_of_parts(_facts(tables), _rows(program), small=True)
    if not found or not _seen([row[1:] for row in found["equal_needs"]] + found["assumed_equality"]):
        return False
    for relation, rows in found.items():
        program.insert(relation, rows)
    return True


def _facts(tables: Tables) -> Facts:
    return Facts({name: [tuple(row) for row in rows] for name, rows in tables.items()})


def _rows(program: Program) -> Callable[[str], Iterable[Any]]:
    return lambda name: program.relation(name) if name in program.relations else []


def _seen(needs: Iterable[tuple[Any, ...]]) -> bool:
    """Whether a trial can see that what steps need is so."""
    return {why for *_, why in needs} <= {"finite", *SIGNS}


def _discharge(program: Program, timeout: float | None) -> None:
    """Arithmetic obligations: what a solver proves goes back in, and the rules go on."""
    asked: set[Any] = set()
    solver = None
    while True:
        rows = program.relation("obligation") if "obligation" in program.relations else []
        fresh = [row for row in rows if row not in asked]
        if not fresh:
            return
        if solver is None:
            from scalify_dl.obligations import Discharger, default_folder

            solver = Discharger(default_folder())
        asked.update(fresh)
        decided = solver(fresh, lambda name: program.relation(name) if name in program.relations else [])
        for relation, answers in zip(("proved", "refuted"), decided, strict=True):
            if answers and relation in program.relations:
                program.insert(relation, answers)
        if not any(decided):
            return
        program.run(timeout=timeout)
