"""The checker: replays a certificate against facts and rule files that the user names.

It trusts nothing in the certificate. Facts and rules are read again and must have the stated hashes. Every step of the
recursion of `holds` must be a ground instance of its clause with the stated bindings; each atom of its body is an
earlier line, or a row of a relation that the checker computes itself from the facts (`closed`), as is all that the
clause denies or counts. Claims of arithmetic are decided anew (`decide`).

What is concluded from the recursion (outputs, assumptions, contradictions) is concluded from what was shown of it: no
assumption, broken supposition or contradiction that the shown rows lead to can be left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .closed import DECIDED, Closed, Structure
from .decide import Decider
from .files import CertificateError, facts_hash, file_hash, read_lines, rule_name
from .plans import Check, OtherVariables, Row, instance
from .rules import read_rules
from .terms import Clause, RuleError, RuleSet, Value, cell


@dataclass(frozen=True)
class Checked:
    """What an accepted certificate proves."""

    outputs: list[tuple[str, str, str]]
    """(distributed tensor, baseline value, layout text)"""
    assumptions: list[tuple[str, str, str]]
    steps: int


class Checker:
    """Facts and rules, read once, against which certificates are replayed."""

    def __init__(self, directory: Path, rules: Iterable[Path], shipped: Path) -> None:
        """`shipped` is the folder of the rules that come with the package: it only shortens names of files."""
        with _refusing():
            self.rules = read_rules(rules)
            self.shipped = shipped
            self.rule_hashes = {rule_name(file, shipped): file_hash(file) for file in self.rules.files}
            self.facts, self.fact_hashes = _read_facts(self.rules, directory)
            names = {str(file): rule_name(file, shipped) for file in self.rules.files}
            self.clauses: dict[tuple[str, str, int, str], list[Clause]] = defaultdict(list)
            for clause in self.rules.clauses:
                self.clauses[clause.head.relation, names[clause.file], clause.line, clause.text].append(clause)
            self.structure = Structure(self.rules)

    def replay(self, certificate: Path) -> Checked:
        """Accept a certificate; CertificateError says which line is not accepted and why."""
        with _refusing():
            lines = read_lines(certificate)
            header = next(lines, None)
            if not isinstance(header, dict):
                raise CertificateError("it does not say what it proves")
            _same(header, "rules", self.rule_hashes)
            _same(header, "facts", self.fact_hashes)
            replay = _Replay(self, header)
            for number, line in enumerate(lines, 3):
                replay.line(number, line)
            return replay.conclude()


@contextmanager
def _refusing() -> Iterator[None]:
    """What is not understood is not accepted."""
    try:
        yield
    except RuleError as error:
        raise CertificateError(f"the rules are not understood: {error}") from None
    except RecursionError:
        raise CertificateError("its terms are nested too deep") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CertificateError(f"cannot be checked: {error}") from None


def _same(header: dict[str, Any], what: str, found: dict[str, str]) -> None:
    stated = header.get(what)
    if stated != found:
        both = stated.keys() | found.keys() if isinstance(stated, dict) else found.keys()
        wrong = [name for name in sorted(both) if not isinstance(stated, dict) or stated.get(name) != found.get(name)]
        raise CertificateError(f"it is about other {what}: {', '.join(wrong[:5])}")


def _read_facts(rules: RuleSet, directory: Path) -> tuple[dict[str, set[Row]], dict[str, str]]:
    """The rows of every relation that is read from the facts, and the hash of its file."""
    facts: dict[str, set[Row]] = {}
    hashes: dict[str, str] = {}
    for relation, name in rules.inputs.items():
        file = directory / name
        text = file.read_text("utf-8") if file.exists() else ""
        lines = text.removesuffix("\n").split("\n") if text else []
        hashes[name] = facts_hash(text)
        numbers = [i for i, kind in enumerate(rules.relations[relation]) if kind == "number"]
        rows = set()
        for number, line in enumerate(lines, 1):
            row: list[Any] = line.split("\t")
            if len(row) != len(rules.relations[relation]):
                raise CertificateError(f"{file}:{number}: a row with {len(row)} columns")
            for i in numbers:
                try:
                    row[i] = int(row[i])
                except ValueError:
                    raise CertificateError(f"{file}:{number}: {row[i]!r} is not a number") from None
            rows.add(tuple(row))
        facts[relation] = rows
    return facts, hashes


def _order(header: dict[str, Any]) -> dict[str, int]:
    """Numbers of texts for `ord`, which may be any numbers but must tell all texts apart."""
    order = header.get("order")
    if not isinstance(order, dict) or any(type(n) is not int for n in order.values()):
        raise CertificateError("it states no order of texts")
    if len(set(order.values())) != len(order):
        raise CertificateError("its order of texts gives one number twice")
    return order


def _chosen(header: dict[str, Any], rules: RuleSet) -> dict[str, set[Row]]:
    """The rows that were chosen in relations with a choice domain, which must keep to their keys."""
    stated = header.get("choices")
    if not isinstance(stated, dict) or stated.keys() != rules.choices.keys():
        raise CertificateError("it does not state the choices that the rules leave open")
    chosen: dict[str, set[Row]] = {}
    for relation, rows in stated.items():
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and all(type(v) in (int, str) for v in row) for row in rows
        ):
            raise CertificateError(f"the choices of {relation} are malformed")
        chosen[relation] = {tuple(row) for row in rows}
        for key in rules.choices[relation]:
            if len({tuple(row[i] for i in key) for row in chosen[relation]}) != len(chosen[relation]):
                raise CertificateError(f"the choices of {relation} give one key two rows")
    return chosen


class _Replay:
    """What was accepted so far."""

    def __init__(self, checker: Checker, header: dict[str, Any]) -> None:
        self.header = header
        self.checker = checker
        self.structure = checker.structure
        chosen = _chosen(header, checker.rules)
        self.closed = Closed(checker.rules, self.structure, checker.facts, _order(header), chosen)
        self.chosen = chosen
        self.decider = Decider(self.closed)
        self.values: list[Value] = []
        self.relations: list[str] = []
        self.rows: list[Row] = []
        """The rows that are shown, and their relations."""
        self.checks: dict[int, list[Check]] = {}
        self.concluding = False

    def line(self, number: int, line: Any) -> None:
        """Accept one line, or raise."""
        try:
            if isinstance(line, dict):
                ((kind, items),) = line.items()
                if kind == "values":
                    for item in items:
                        self.values.append(self.new_value(item))
                    return
                relation, row = (DECIDED, self.row(items)) if kind == "decide" else ("", None)
                good = row is not None and self.decider.decide(*row)
            elif len(line) == 3:
                clause, premises, bindings = line
                relation = self.stated(clause)[0]
                row = self.follows(clause, premises, bindings)
                good = row is not None
            else:
                relation, items = line
                row = self.row(items)
                good = self.is_given(relation, row)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CertificateError(f"line {number} is malformed: {error!r}") from None
        if not good or row is None:
            raise CertificateError(f"line {number} does not hold: {self.words(line)}")
        if self.concluding and relation not in self.structure.late:  # conclusions rest on what is not shown, too
            raise CertificateError(f"line {number}: a row of {relation} comes after conclusions")
        self.relations.append(relation)
        self.rows.append(row)

    def words(self, line: Any) -> str:
        """What a line claims, as far as it can be said."""
        if isinstance(line, list) and len(line) == 3:
            relation, file, at, *_ = self.stated(line[0])
            return f"no step of {relation} by {file}:{at} has these premises and bindings"
        if isinstance(line, list):
            return f"{line[0]} is not given with this row"
        return "this claim of arithmetic is not decided" if "decide" in line else "no such kind of line"

    def new_value(self, value: Any) -> Value:
        """A value as it is stated first."""
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

    def is_given(self, relation: str, row: Row) -> bool:
        """A row of the facts, or a fact of the rules."""
        if row in self.checker.facts.get(relation, ()):
            return True
        return any(
            not clause.body and instance(clause, [], self.looked_up, self.closed)([], [], [], []) == row
            for clause in self.checker.rules.clauses
            if clause.head.relation == relation
        )

    def looked_up(self, relation: str) -> bool:
        """Whether premises of a relation are not steps, but rows that the checker computes."""
        return relation in self.structure.computed

    def stated(self, clause: Any) -> list[Any]:
        """Relation, file, line, text and variables of a clause."""
        if type(clause) is not int or clause < 0:
            raise TypeError(f"{clause!r} is no clause")
        found = self.header["clauses"][clause]
        if not isinstance(found, list) or len(found) != 5 or not isinstance(found[4], list):
            raise TypeError(f"clause {clause} is malformed")
        return found

    def follows(self, clause: int, premises: list[int], bindings: list[int]) -> Row | None:
        """The row that a clause derives from these earlier lines under these bindings, if it does."""
        checks = self.checks.get(clause)
        if checks is None:
            checks = self.checks[clause] = self.compiled(*self.stated(clause))
        values = list(self.row(bindings))
        for check in checks:
            row = check(self.relations, self.rows, premises, values)
            if row is not None:
                relation = self.header["clauses"][clause][0]
                return None if row not in self.chosen.get(relation, (row,)) else row
        return None

    def compiled(self, relation: str, file: str, line: int, text: str, names: list[str]) -> list[Check]:
        """The checks of a clause: several where its text has alternatives."""
        if relation in self.structure.late:
            self.begin_to_conclude()
        checks = []
        for clause in self.checker.clauses.get((relation, file, line, text), ()):
            with suppress(OtherVariables):
                checks.append(instance(clause, names, self.looked_up, self.closed))
        return checks

    def begin_to_conclude(self) -> None:
        """The recursion ends here."""
        if not self.concluding:
            self.concluding = True
            self.closed.conclude(self.shown())

    def shown(self) -> dict[str, set[Row]]:
        out: dict[str, set[Row]] = defaultdict(set)
        for relation, row in zip(self.relations, self.rows, strict=True):
            out[relation].add(row)
        return out

    def conclude(self) -> Checked:
        """The whole: every expected output is proved as stated, every assumption listed, no premises contradict."""
        self.begin_to_conclude()
        shown = self.shown()
        stated = self.header.get("outputs")
        if not isinstance(stated, list) or not all(isinstance(row, list) and len(row) == 3 for row in stated):
            raise CertificateError("it does not say which outputs are proved")
        outputs = [tuple(map(str, row)) for row in stated]
        for row in outputs:
            if (row[0], row[1], "PROVED", row[2]) not in shown["output_verdict"]:
                raise CertificateError(f"the output {row} is claimed, and not proved")
        missing = {row[:2] for row in self.checker.facts["expect"]} - {row[:2] for row in outputs}
        if missing or not outputs:
            names = ", ".join(" = ".join(map(str, pair)) for pair in sorted(missing))
            raise CertificateError(f"no proof of {names or 'anything'}")
        for relation, rows in self.chosen.items():
            if not rows <= shown[relation]:
                raise CertificateError(f"a choice of {relation} is not derived")
        assumptions = sorted(tuple(map(str, row)) for row in self.concluded("assumption"))
        if [list(row) for row in assumptions] != self.header.get("assumptions"):
            raise CertificateError("the assumptions are not those that the rules list")
        if self.concluded("inconsistent"):
            raise CertificateError("the premises contradict each other")
        return Checked(outputs, assumptions, len(self.rows))  # type: ignore[arg-type]

    def concluded(self, relation: str) -> set[Row]:
        """All that follows for a relation; nothing where the rules have none of this name."""
        return self.closed.rows(relation) if relation in self.structure.components else set()
