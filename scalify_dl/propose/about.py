"""Whether drafted rules speak of one kind of op alone: of it by name, or of ops that are shown to be of it."""

from __future__ import annotations

from pathlib import Path

from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.structure import DEMAND
from scalify_dl.certificate.terms import Atom, Clause, Compare, Const, RuleError, Var
from scalify_dl.pysouffle import rules_dir

from .reply import Rejected


def about_one_kind(file: Path, kind: str) -> None:
    """Rejected where a rule for a relation that is not the file's own says something of another kind of op.

    The first argument says of what: the name of the kind, or an op. An op is of the kind if the body asks for
    `op(o, …, "kind")`, or for a relation of the file all of whose rules do.
    """
    try:
        found = read_rules([rules_dir() / "verify.dl", file])
    except RuleError as error:
        raise Rejected(str(error).replace(str(file), "draft")) from None
    clauses = [clause for clause in found.clauses if Path(clause.file).resolve() == file.resolve()]
    mine = {name for name, where in found.declared.items() if Path(where).resolve() == file.resolve()}
    of_it: set[str] = set()
    while True:
        more = {
            name for name in mine - of_it
            if all(_said(c, kind, of_it) for c in clauses if c.head.relation == name)
        }  # fmt: skip
        if not more:
            break
        of_it |= more
    for clause in clauses:
        name = clause.head.relation
        if name in mine or DEMAND.fullmatch(name):
            continue
        if name in ("holds", "rewrite"):
            raise Rejected(f"a meaning has no rules for `{name}`: it says factors, or `renaming`")
        if not _said(clause, kind, of_it):
            raise Rejected(
                f'the rule `{clause.text}` may speak of other ops than "{kind}": its first argument is to be "{kind}",'
                f' or an op `o` of which the rule asks op(o, _, "{kind}")'
            )


def _said(clause: Clause, kind: str, of_it: set[str]) -> bool:
    """Whether the first argument of what is concluded is the kind, or an op of it."""
    first = clause.head.args[0] if clause.head.args else None
    if isinstance(first, Const):
        return first.value == kind
    if not isinstance(first, Var):
        return False
    kinds = {
        side.name for c in clause.body if isinstance(c, Compare) and c.op == "="
        for side, other in ((c.left, c.right), (c.right, c.left))
        if isinstance(side, Var) and isinstance(other, Const) and other.value == kind
    }  # fmt: skip
    for atom in clause.body:
        if not isinstance(atom, Atom) or atom.negated or not atom.args or atom.args[0] != first:
            continue
        last = atom.args[-1]
        named = (isinstance(last, Const) and last.value == kind) or (isinstance(last, Var) and last.name in kinds)
        if (atom.relation == "op" and len(atom.args) == 3 and named) or atom.relation in of_it:
            return True
    return first.name in kinds
