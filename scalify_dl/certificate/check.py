"""The checker: replays a certificate against facts and rule files that the user names.

It trusts nothing in the certificate. Facts and rules are read again and must have the stated hashes. Every step of the
recursion of `holds` must be a ground instance of its clause with the stated bindings; each atom of its body is an
earlier line, or a row of a relation that the checker computes itself from the facts (`closed`), as is all that the
clause denies or counts. Claims of arithmetic are decided anew (`decide`).

What is concluded (outputs, assumptions, contradictions) is concluded from *all* that follows from the facts, with the
claims and choices that were accepted: after the last step the checker computes the recursion itself, so nothing that an
assumption, a broken supposition or a contradiction rests on can be left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.facts import Facts

from .closed import Closed
from .decide import Decider
from .files import CertificateError, own_rules, read_lines, rule_names, table_hash
from .plans import Check, Functions, Row, Rows, derive, instance
from .rules import read_rules
from .structure import CLAIMED, DECIDED, DEMAND, OPEN, Structure
from .terms import Clause, Const, RuleError, RuleSet, Value, cell

if TYPE_CHECKING:
    from .formulas.claims import Part


Told = Callable[[str, Row, tuple[str, int] | None, Sequence[int]], None]
"""Told a step: its relation and row, file and line of its rule (None: a fact), and the numbers, from 0 on, of the steps
that it follows from."""


@dataclass(frozen=True)
class Checked:
    """What an accepted certificate proves."""

    outputs: list[tuple[str, str, str]]
    """(distributed tensor, baseline value, layout text)"""
    assumptions: list[tuple[str, str, str]]
    steps: int
    claims: tuple[tuple[str, str], ...] = ()
    """What was found by formulas: distributed tensor, baseline value."""


class Checker:
    """Rules, read once, by which certificates are replayed."""

    def __init__(self, rules: Iterable[Path], shipped: Path) -> None:
        """`shipped`: the folder of the rules that come with the package; other files are somebody's own."""
        with _refusing():
            self.rules = read_rules(rules)
            names = rule_names(self.rules.files, shipped)
            self.hashes = {names[file]: digest for file, digest in self.rules.files.items()}
            self.clauses: dict[tuple[str, str, int, str], list[Clause]] = defaultdict(list)
            for clause in self.rules.clauses:
                self.clauses[clause.head.relation, names[Path(clause.file)], clause.line, clause.text].append(clause)
            self.structure = Structure(self.rules)
            _one_head(self.clauses, self.structure)
            self.own = own_rules(self.rules.files, shipped)
            _only_add(self.rules, shipped.resolve())

    def replay(self, certificate: Path, facts: Facts, told: Told | None = None) -> Checked:
        """Accept a certificate over facts, which were loaded from a directory and are valid; CertificateError says
        which line is not accepted and why. `told` is told each step that holds."""
        with _refusing():
            return self.accept(read_lines(certificate), facts.tables, told)

    def accept(
        self, lines: Iterable[Any], tables: Mapping[str, Iterable[Row]], told: Told | None = None
    ) -> Checked:
        """Accept the lines of a certificate after the first, over fact tables; CertificateError where they do not
        hold."""
        with _refusing():
            lines = iter(lines)
            header = next(lines, None)
            if not isinstance(header, dict):
                raise CertificateError("it does not say what it proves")
            rows, hashes = _facts(self.structure.deciding, tables)
            _same("rules", header.get("rules"), self.hashes)
            _same("facts", header.get("facts"), hashes)
            _equalities(header, rows, tables)
            parts = _parts(header, rows)
            replay = _Replay(self, rows, header)
            replay.told = told
            if parts:
                from .formulas.claims import decide_parts  # where there are any

                decide_parts(tables, parts, replay.real_numbers())
            for number, line in enumerate(lines, 3):
                replay.line(number, line)
            return replay.conclude()


def _only_add(rules: RuleSet, shipped: Path) -> None:
    """RuleError where a file that is not shipped has a rule for a relation of the shipped ones that is not declared
    open, or reads facts."""
    ours = {file for file in rules.files if file.is_relative_to(shipped)}
    shown = {clause.head.args for clause in rules.clauses if clause.head.relation == OPEN and Path(clause.file) in ours}
    closed = {r for r, file in rules.declared.items() if Path(file) in ours and (Const(r),) not in shown}
    for clause in rules.clauses:
        relation = clause.head.relation
        if Path(clause.file) not in ours and relation in closed and not DEMAND.fullmatch(relation):
            raise RuleError(f"{clause.file}:{clause.line}: a rule for `{relation}`, which is not open to such files")
    for relation in rules.inputs:
        if Path(rules.declared[relation]) not in ours:
            raise RuleError(f"`{relation}` is read from the facts, though no shipped rule reads it")


def _one_head(clauses: Mapping[tuple[str, str, int, str], list[Clause]], structure: Structure) -> None:
    """RuleError where a rule has two heads of one relation whose rows are shown: steps say which rule, not which
    head."""
    for (relation, file, line, _), alternatives in clauses.items():
        if relation not in structure.computed and len({clause.head for clause in alternatives}) > 1:
            raise RuleError(f"{file}:{line}: a rule with two heads of `{relation}`, which would be two rules")


@contextmanager
def _refusing() -> Iterator[None]:
    """What is not understood is not accepted."""
    try:
        yield
    except RuleError as error:
        raise CertificateError(f"the rules are not understood: {error}") from None
    except RecursionError:
        raise CertificateError("its terms are nested too deep") from None
    except CertificateError:
        raise
    except Exception as error:  # nor what the checker stumbles over
        raise CertificateError(f"cannot be checked: {type(error).__name__}: {error}") from None


def _same(what: str, stated: Any, found: dict[str, str]) -> None:
    if stated != found:
        stated = stated if isinstance(stated, dict) else {}
        wrong = [name for name in sorted(stated.keys() | found.keys()) if stated.get(name) != found.get(name)]
        hint = " (exported with the same --relate?)" if what == "facts" else ""
        if what == "rules" and any(name not in found for name in stated):
            hint = " (rules of somebody's own are named with --rules F)"
        raise CertificateError(f"it is about other {what}: {', '.join(wrong[:5])}{hint}")


def _facts(
    deciding: Mapping[str, str], tables: Mapping[str, Iterable[Row]]
) -> tuple[dict[str, Rows], dict[str, str]]:
    """The rows of every relation that rules read from the facts, and the hash of its table: of these very rows."""
    rows: dict[str, Rows] = {}
    hashes: dict[str, str] = {}
    for relation, name in deciding.items():
        table = [*tables.get(Path(name).stem, ())]
        rows[relation] = dict.fromkeys(table if relation != DECIDED else ())
        hashes[name] = table_hash(table)
    return rows, hashes


def _equalities(header: dict[str, Any], rows: dict[str, Rows], tables: Mapping[str, Iterable[Row]]) -> None:
    """Enters the stated rows that were found by formulas, which are decided anew."""
    claims, assumed = (header.get(name, []) for name in ("equalities", "equality_assumptions"))
    if not _rows(claims) or not _rows(assumed) or any(len(row) != 3 for row in (*claims, *assumed)):
        raise CertificateError("its list of equal formulas is malformed")
    if claims:
        from .formulas.claims import decide_claims  # where there are any

        decide_claims(tables, claims, assumed)
        rows["proved_equal"] = dict.fromkeys(map(tuple, claims))
    elif assumed and not header.get("parts"):
        raise CertificateError("it assumes something for equal formulas, and states none")
    if assumed:
        rows["assumed_equality"] = dict.fromkeys(map(tuple, assumed))


def _parts(header: dict[str, Any], rows: dict[str, Rows]) -> list[Part]:
    """The stated parts that are equal on condition, which are to be decided; their rows are entered."""
    stated = header.get("parts", [])
    if not stated:
        return []
    from .formulas.claims import Part

    parts = [Part(*part) for part in stated]
    for part in parts:
        if not (type(part.number) is int and _rows([[*part[1:4]]]) and _rows(part.given) and _rows(part.needs)) or any(
            len(row) != 3 for row in (*part.given, *part.needs)
        ):
            raise CertificateError("its list of parts with equal formulas is malformed")
    if len({part.number for part in parts}) != len(parts):
        raise CertificateError("it gives two parts one number")
    for part in parts:
        for relation, found in part.tables().items():
            rows[relation] = {**rows.get(relation, {}), **dict.fromkeys(found)}
    return parts


class _Header:
    """What the second line states, well-formed."""

    def __init__(self, header: dict[str, Any], rules: RuleSet) -> None:
        self.outputs: list[list[Any]] = header.get("outputs")  # type: ignore[assignment]
        self.assumptions = header.get("assumptions")
        self.order: dict[str, int] = header.get("order")  # type: ignore[assignment]
        """Numbers of texts for `ord`, which may be any numbers but must tell all texts apart."""
        self.choices: dict[str, Rows] = {}
        """The rows that were chosen in relations with a choice domain, which must keep to their keys."""
        self.clauses: list[list[Any]] = header.get("clauses")  # type: ignore[assignment]
        """Relation, file, line, text and variables of the clauses that steps name by number."""
        if not _rows(self.outputs) or any(len(row) != 3 for row in self.outputs):
            raise CertificateError("it does not say which outputs are proved")
        if not isinstance(self.order, dict) or any(type(n) is not int for n in self.order.values()):
            raise CertificateError("it states no order of texts")
        if len(set(self.order.values())) != len(self.order):
            raise CertificateError("its order of texts gives one number twice")
        choices = header.get("choices")
        if (
            not isinstance(choices, dict)
            or choices.keys() != rules.choices.keys()
            or not all(map(_rows, choices.values()))
        ):
            raise CertificateError("it does not state the choices that the rules leave open")
        for relation, rows in choices.items():
            self.choices[relation] = chosen = dict.fromkeys(map(tuple, rows))
            if any(len(row) != len(rules.relations[relation]) for row in chosen):
                raise CertificateError(f"a choice of {relation} has not the columns of the relation")
            for key in rules.choices[relation]:
                if len({tuple(row[i] for i in key) for row in chosen}) != len(chosen):
                    raise CertificateError(f"the choices of {relation} give one key two rows")
        if not isinstance(self.clauses, list) or not all(
            isinstance(clause, list)
            and [type(item) for item in clause] == [str, str, int, str, list]
            and all(type(name) is str for name in clause[4])
            for clause in self.clauses
        ):
            raise CertificateError("its list of clauses is malformed")


def _flaw(error: Exception) -> str:
    """What is wrong with a line that cannot be read, from what reading it ended with."""
    if isinstance(error, IndexError):
        return "it speaks of a value, a clause or a line that none before it has"
    if isinstance(error, KeyError):
        return f"it names {error}, which the rules or the file do not have"
    return "it is neither values, a step, a given row nor a claim to decide"


def _rows(rows: Any) -> bool:
    """Whether this is a list of rows without records."""
    return isinstance(rows, list) and all(
        isinstance(row, list) and all(type(value) in (int, str) for value in row) for row in rows
    )


class _Replay:
    """What was accepted so far."""

    def __init__(self, checker: Checker, facts: dict[str, Rows], header: dict[str, Any]) -> None:
        self.checker = checker
        self.facts = facts
        self.structure = checker.structure
        self.header = _Header(header, checker.rules)
        self.closed = Closed(checker.rules, self.structure, facts, self.header.order, self.header.choices)
        self.decider = Decider(self.closed)
        self.values: list[Value] = []
        self.relations: list[str] = []
        self.rows: list[Row] = []
        """The rows that are shown, and their relations."""
        self.given: dict[str, Rows] = {}
        self.concluding = False
        self.told: Told | None = None
        self.checks: dict[int, list[Check]] = {}
        """By number of the clause; several where its text has alternatives."""
        self.compile(late=False)

    def compile(self, *, late: bool) -> None:
        """The checks of the clauses of conclusions, or of those of the recursion and below."""
        functions = Functions(self.closed)
        numbers = []
        for number, (*place, names) in enumerate(self.header.clauses):
            if (place[0] in self.structure.late) is late:
                self.checks[number] = []
                for clause in self.checker.clauses.get(tuple(place), ()):
                    if instance(functions, clause, names, self.structure.computed):
                        numbers.append(number)
        for number, check in zip(numbers, functions.compiled(), strict=True):
            self.checks[number].append(check)

    def real_numbers(self) -> set[str]:
        """Values that are never infinite or NaN, by the rules."""
        endless = {value for value, sort in self.closed.rows("may_be") if sort in ("inf", "-inf", "nan")}
        return {str(value) for (value,) in self.closed.rows("needed_tensor") if value not in endless}

    def line(self, number: int, line: Any) -> None:
        """Accept one line, or raise."""
        try:
            if isinstance(line, dict) and "values" in line:
                for value in line["values"]:
                    self.values.append(self.value(value))
                return
            relation, row = self.step(line)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            text = json.dumps(line, ensure_ascii=False)
            shown = text if len(text) <= 60 else f"{text[:60]}…"
            raise CertificateError(f"line {number} is malformed: {_flaw(error)}: `{shown}`") from None
        if row is None:
            what = "this claim of arithmetic is not decided" if relation == DECIDED else f"no row of {relation} follows"
            raise CertificateError(f"line {number} does not hold: {what}")
        if self.concluding and relation not in self.structure.late:  # conclusions rest on what is not shown, too
            raise CertificateError(f"line {number}: a row of {relation} comes after conclusions")
        if self.told is not None:
            by, premises = (self.header.clauses[line[0]], line[1]) if len(line) == 3 else (None, [])
            self.told(relation, row, (str(by[1]), int(by[2])) if by else None, premises)
        self.relations.append(relation)
        self.rows.append(row)

    def value(self, value: Any) -> Value:
        """A value as it is stated."""
        if isinstance(value, list):
            return cell(self.row(value))
        if value is None or type(value) in (int, str):
            return value  # type: ignore[no-any-return]
        raise TypeError(f"{value!r} is no value")

    def row(self, items: Sequence[int]) -> Row:
        """Values by number."""
        if items and min(items) < 0:
            raise IndexError("a negative number")
        values = self.values
        return tuple([values[i] for i in items])

    def step(self, line: Any) -> tuple[str, Row | None]:
        """A relation, and the row of it that a line shows, if it does."""
        if isinstance(line, dict):
            row = self.row(line["decide"])
            return DECIDED, row if self.decider.decide(*row) else None
        if len(line) == 2:
            relation, items = line
            row = self.row(items)
            return relation, row if row in self.givens(relation) else None
        clause, premises, bindings = line
        relation = self.header.clauses[clause][0]
        if relation in self.structure.late and not self.concluding:
            self.begin_to_conclude()
        values = self.row(bindings)
        for check in self.checks[clause]:
            found = check(self.relations, self.rows, premises, values)
            if found is not None:
                chosen = self.header.choices.get(relation)
                return relation, found if chosen is None or found in chosen else None
        return relation, None

    def givens(self, relation: str) -> Rows:
        """Rows of the facts, and facts of the rules."""
        if relation not in self.given:
            functions = Functions(self.closed)
            for clause in self.checker.rules.clauses:
                if clause.head.relation == relation and not clause.body:
                    derive(functions, clause, None)
            self.given[relation] = dict(self.facts.get(relation, {}))
            for function in functions.compiled():
                function((), self.given[relation])
        return self.given[relation]

    def begin_to_conclude(self) -> None:
        """The recursion ends here."""
        self.concluding = True
        self.closed.conclude(self.shown()[DECIDED])
        self.compile(late=True)

    def shown(self) -> dict[str, Rows]:
        out: dict[str, Rows] = defaultdict(dict)
        for relation, row in zip(self.relations, self.rows, strict=True):
            out[relation][row] = None
        return out

    def conclude(self) -> Checked:
        """The whole: every expected output is proved as stated, every assumption listed, no premises contradict."""
        if not self.concluding:
            self.begin_to_conclude()
        shown = self.shown()
        for relation, rows in self.header.choices.items():
            if not rows.keys() <= shown[relation].keys():
                raise CertificateError(f"a choice of {relation} is not derived")
        for relation, rows in shown.items():
            if relation != DECIDED and not rows.keys() <= self.closed.rows(relation).keys():
                raise CertificateError(f"a row of {relation} is shown that does not follow from the facts")
        self.nothing_left_out()
        outputs = [tuple(map(str, row)) for row in self.header.outputs]
        for row in outputs:
            if (row[0], row[1], "PROVED", row[2]) not in shown["output_verdict"]:
                raise CertificateError(f"the output {row} is claimed, and not proved")
        missing = {row[:2] for row in self.facts["expect"]} - {row[:2] for row in outputs}
        if missing or not outputs:
            names = ", ".join(" = ".join(map(str, pair)) for pair in sorted(missing))
            raise CertificateError(f"no proof of {names or 'anything'}")
        assumptions = sorted([*(tuple(map(str, row)) for row in self.concluded("assumption")), *self.checker.own])
        if [list(row) for row in assumptions] != self.header.assumptions:
            raise CertificateError("the assumptions are not those that the rules list")
        if self.concluded("inconsistent"):
            raise CertificateError("the premises contradict each other")
        claims = tuple((dist, base) for dist, base, _ in self.facts.get("proved_equal", ()))
        claims += tuple((dist, base) for _, dist, base, _ in self.facts.get("equal_if", ()))
        return Checked(outputs, assumptions, len(self.rows), claims)  # type: ignore[arg-type]

    def nothing_left_out(self) -> None:
        """Choices that could be made and claims that hold are there: of less, fewer assumptions would follow."""
        for relation, chosen in self.header.choices.items():
            functions, found = Functions(self.closed), dict[Row, None]()
            for clause in self.checker.rules.clauses:
                if clause.head.relation == relation:
                    derive(functions, clause, None)
            for function in functions.compiled():
                function((), found)
            for key in self.checker.rules.choices[relation]:
                taken = {tuple(row[i] for i in key) for row in chosen}
                found = {row: None for row in found if tuple(row[i] for i in key) not in taken}
            if found:
                raise CertificateError(f"a choice of {relation} is left out: {next(iter(found))}")
        if any(self.decider.decide(*row) for row in self.concluded(CLAIMED)):
            raise CertificateError("a claim of arithmetic that holds is left out")

    def concluded(self, relation: str) -> Rows:
        """All that follows for a relation; nothing where the rules have none of this name."""
        return self.closed.rows(relation) if relation in self.structure.components else {}
