"""The checker: replays a certificate against facts and rule files that the user names.

It trusts nothing in the certificate. Facts and rules are read again and must have the stated hashes; every step must
be a ground instance of its clause with the stated bindings and premises, each premise an earlier line; what a clause
denies or counts is looked up in relations that the checker computes itself (`closed`); the outputs must be all those
that the facts expect, and the assumptions all those that the rules list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .closed import Closed
from .files import FORMAT, VERSION, CertificateError, facts_hash, file_hash, read_lines, rule_name
from .instance import Instance, Row
from .rules import read_rules
from .terms import Cell, Clause, RuleError, RuleSet, cell


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
            self.clauses: dict[tuple[str, int, str], list[Clause]] = defaultdict(list)
            names = {str(file): rule_name(file, shipped) for file in self.rules.files}
            for clause in self.rules.clauses:
                self.clauses[names[clause.file], clause.line, clause.text].append(clause)
        self.closed = Closed(self.rules, self.facts, {}, {})

    def replay(self, certificate: Path) -> Checked:
        """Accept a certificate; CertificateError says which line is not accepted and why."""
        with _refusing():
            lines = read_lines(certificate)
            header = next(lines, None)
            if not isinstance(header, dict) or header.get("certificate") != FORMAT or header.get("version") != VERSION:
                raise CertificateError(f"not a certificate of format {FORMAT} {VERSION}")
            _same(header, "rules", self.rule_hashes)
            _same(header, "facts", self.fact_hashes)
            order, chosen = _order(header), _chosen(header, self.rules)
            if order != self.closed.numbers or chosen != self.closed.chosen:
                self.closed = Closed(self.rules, self.facts, order, chosen)
            replay = _Replay(self, header.get("clauses"))
            for number, line in enumerate(lines):
                replay.line(number, line)
            return replay.conclude(header)


@contextmanager
def _refusing() -> Iterator[None]:
    """What is not understood is not accepted."""
    try:
        yield
    except RuleError as error:
        raise CertificateError(f"the rules are not understood: {error}") from None
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
        lines = file.read_text("utf-8").split("\n") if file.exists() else []
        if lines and lines[-1] == "":
            lines.pop()
        hashes[name] = facts_hash(lines)
        numbers = [i for i, kind in enumerate(rules.relations[relation]) if kind == "number"]
        rows = set()
        for line in lines:
            row: list[Any] = line.split("\t")
            if len(row) != len(rules.relations[relation]):
                raise CertificateError(f"{file}: a row with {len(row)} columns")
            for i in numbers:
                row[i] = int(row[i])
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
    """The tuples that were accepted so far."""

    def __init__(self, checker: Checker, clauses: Any) -> None:
        self.facts = checker.facts
        self.closed = checker.closed
        self.shown: list[tuple[str, Row]] = []
        self.terms: list[Cell] = []
        self.axioms: dict[str, set[Row]] = defaultdict(set)
        for clause in checker.rules.clauses:
            if not clause.body:
                head = Instance(clause, self.closed).head
                self.axioms[clause.head.relation].add(tuple([part([]) for part in head]))
        self.clauses: list[dict[str, list[Instance]]] = []
        for stated in clauses if isinstance(clauses, list) else ():
            place = tuple(stated) if isinstance(stated, list) else ()
            instances: dict[str, list[Instance]] = defaultdict(list)
            for clause in checker.clauses.get(place, ()):
                instances[clause.head.relation].append(Instance(clause, self.closed))
            self.clauses.append(instances)

    def line(self, number: int, line: Any) -> None:
        """Accept one line after the header, or raise."""
        try:
            if isinstance(line, dict):
                self.terms.append(cell(tuple([self.value(v) for v in line["term"]])))
                return
            relation, row = line[0], tuple([self.value(v) for v in line[1]])
            good = self.is_fact(relation, row) if len(line) == 2 else self.follows(relation, row, *line[2:])
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise CertificateError(f"line {number + 2} is malformed: {error!r}") from None
        if not good:
            raise CertificateError(f"line {number + 2} does not hold: {relation}{row}")
        self.shown.append((relation, row))

    def value(self, value: Any) -> Any:
        """A value of a row."""
        if isinstance(value, list):
            (number,) = value
            return self.terms[_index(number)]
        if value is None or type(value) in (int, str):
            return value
        raise TypeError(f"{value!r} is no value")

    def is_fact(self, relation: str, row: Row) -> bool:
        """Given in the facts, or a fact of the rules."""
        return row in self.facts.get(relation, ()) or row in self.axioms.get(relation, ())

    def follows(self, relation: str, row: Row, clause: int, premises: list[int], bindings: dict[str, Any]) -> bool:
        """Whether the clause derives the row from these earlier lines, under these bindings."""
        if relation in self.closed.chosen and row not in self.closed.chosen[relation]:
            return False
        earlier = [self.shown[_index(p)] for p in premises]
        values = {name: self.value(v) for name, v in bindings.items()}
        names, rows = [r for r, _ in earlier], [r for _, r in earlier]
        return any(
            instance.relations == names and instance.check(row, rows, values)
            for instance in self.clauses[_index(clause)].get(relation, ())
        )

    def conclude(self, header: dict[str, Any]) -> Checked:
        """The whole: every expected output is proved as stated, every assumption listed, no premises contradict."""
        outputs = [tuple(map(str, row)) for row in header.get("outputs", ())]
        proved = {row for relation, row in self.shown if relation == "output_verdict"}
        for row in outputs:
            if len(row) != 3 or (row[0], row[1], "PROVED", row[2]) not in proved:
                raise CertificateError(f"the output {row} is claimed, and not proved")
        missing = {row[:2] for row in self.facts["expect"]} - {row[:2] for row in outputs}
        if missing or not outputs:
            names = ", ".join(" = ".join(map(str, pair)) for pair in sorted(missing))
            raise CertificateError(f"no proof of {names or 'anything'}")
        shown = set(self.shown)
        for relation, rows in self.closed.chosen.items():
            if not all((relation, row) in shown for row in rows):
                raise CertificateError(f"a choice of {relation} is not derived")
        assumptions = sorted(self.rows("assumption"))
        if [list(row) for row in assumptions] != header.get("assumptions"):
            raise CertificateError("the assumptions are not those that the rules list")
        if self.rows("inconsistent"):
            raise CertificateError("the premises contradict each other")
        return Checked(outputs, assumptions, len(self.shown))  # type: ignore[arg-type]

    def rows(self, relation: str) -> list[tuple[str, ...]]:
        """A complete relation of texts; empty where the rules have none of this name."""
        if relation not in self.closed.components:
            return []
        return [tuple(map(str, row)) for row in self.closed.lookup(relation, (), ())]


def _index(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise TypeError(f"{number!r} is no line number")
    return number
