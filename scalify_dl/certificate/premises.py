"""Certificates of training plans: the premises under which the plan is the folded program that the rest of the
certificate is about.

The second line has besides (docs/plans.md says what the premises mean):

    "plan": {"tables": {file: sha256}, "rules": {file: sha256}, "outputs": {name: [[dist, base]]},
             "premises": {"L0": {"states": text, "told": number}}, "findings": rows, "delivered": rows}

`told` is how many findings are about a premise: differences, which are folded as they are. An error has no place in a
certificate. The checker computes what follows from the tables that the user names, and compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .closed import Closed
from .files import CertificateError, read_lines, text_hash
from .rules import read_rules
from .structure import Structure
from .terms import RuleError

KEY = "plan"
PREMISES: dict[str, tuple[str, frozenset[str]]] = {
    "L0": (
        "programs of all ranks and micro-batches of a stage are equal up to coordinates",
        frozenset({"segment", "extra", "kind", "attribute", "constant", "shape", "operand", "peers", "declared"}),
    ),
    "L1": (
        "the k-th message sent on a channel is the k-th received, the k-th calls of a communicator are one op, and no"
        " rank waits for ever",
        frozenset({"message", "group", "gather order", "deadlock"}),
    ),
    "L3": ("a gradient is summed over all micro-batches, each once", frozenset({"accumulation"})),
    "L4": ("a reducer is over all copies and stages that have its slice of the weight", frozenset({"reducer"})),
    "L6": (
        "every tensor is made once, before it is read; what is given is not written; nothing but sums passes between"
        " micro-batches; no table denies another one",
        frozenset({"undefined", "order", "state", "contradiction"}),
    ),
}
"""What the rules of `plans.dl` test, and the kinds of findings that are about it."""

FINDINGS, ABSENT, DELIVERED = "raw", "absent", "delivered"
Rows = Iterable[Sequence[Any]]


def stated(certificate: Path) -> dict[str, Any] | None:
    """What a certificate says of a plan; None for one that is of none. CertificateError where it is damaged."""
    header = next(read_lines(certificate), None)
    found = header.get(KEY) if isinstance(header, dict) else None
    return found if isinstance(found, dict) else None


def hashes(rules: Path, shipped: Path, tables: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Hashes of table files by their texts, and of the rule files."""
    read = read_rules([rules])
    files = {file.relative_to(shipped.resolve()).as_posix(): digest for file, digest in read.files.items()}
    return {name: text_hash(text) for name, text in sorted(tables.items())}, files


def premises(findings: Rows, absent: Rows) -> dict[str, dict[str, Any]]:
    """Every premise: what it states, and how many findings are about it."""
    kinds = [str(row[1]) for row in findings] + ["segment" for _ in absent]
    return {
        name: {"states": text, "told": sum(kind in about for kind in kinds)} for name, (text, about) in PREMISES.items()
    }


def follows(rules: Path, facts: Mapping[str, Rows]) -> Iterator[tuple[str, list[list[Any]]]]:
    """What follows from a plan's facts by the checker's own evaluation: findings, absent ops, messages."""
    read = read_rules([rules])
    given = {relation: dict.fromkeys(map(tuple, facts.get(relation, ()))) for relation in read.inputs}
    closed = Closed(read, Structure(read), given, {}, {})
    for relation in (FINDINGS, ABSENT, DELIVERED):
        yield relation, sorted([list(row) for row in closed.rows(relation)])


def test(
    said: Mapping[str, Any], rules: Path, shipped: Path, tables: Mapping[str, str], facts: Mapping[str, Rows]
) -> dict[str, dict[str, Any]]:
    """The premises of a certificate, tested on the plan of these tables (texts by file) and facts; CertificateError
    says why it is not accepted."""
    try:
        for what, found in zip(("tables", "rules"), hashes(rules, shipped, tables), strict=True):
            stated = said.get(what)
            if stated != found:
                stated = stated if isinstance(stated, dict) else {}
                wrong = [name for name in sorted(stated.keys() | found.keys()) if stated.get(name) != found.get(name)]
                raise CertificateError(f"it is about other {what} of a plan: {', '.join(wrong[:5])}")
        derived = dict(follows(rules, facts))
    except RuleError as error:
        raise CertificateError(f"the rules are not understood: {error}") from None
    for relation, rows in derived.items():
        if said.get(relation) != rows:
            raise CertificateError(f"the rows of {relation} are not those that follow from the tables")
    for op, kind, level, text, _ in derived[FINDINGS]:
        if level == "error":
            raise CertificateError(f"the plan cannot run: {op} ({kind}): {text}")
    tested = premises(derived[FINDINGS], derived[ABSENT])
    if said.get("premises") != tested:
        raise CertificateError("its premises are not those that the rules test")
    return tested
