"""Which relations of a rule set a certificate shows, and which the checker computes."""

from __future__ import annotations

from .terms import Aggregate, Atom, Clause, RuleSet, atoms, parts

RECURSION = "holds"
"""The relation whose recursion a certificate shows."""
GOALS = ("output_verdict", "assumption", "inconsistent")
"""What the checker looks at in the end."""
DECIDED = "proved"
"""Claims of arithmetic: no fact and no step, the checker decides them (decide.py)."""


class Structure:
    """The correspondences are one big recursion without negation, the component of `holds`. Below it, relations that
    some rule denies or counts are computed, with all that they need, and so are mere lists of facts (`computed`). The
    rest below it, the recursion itself (`recursion`) and what rules conclude from it (`late`) is shown.
    """

    def __init__(self, rules: RuleSet) -> None:
        self.reads: dict[str, set[str]] = {r: set() for r in rules.relations}
        denied: dict[str, set[str]] = {r: set() for r in rules.relations}
        bodies = set()
        for clause in rules.clauses:
            if clause.body:
                bodies.add(clause.head.relation)
                self.reads[clause.head.relation].update([atom.relation for atom in atoms(clause.body)])
                denied[clause.head.relation] |= _denied(clause)
        self.components = _components(self.reads)
        self.recursion = self.components[RECURSION][1] if RECURSION in self.components else frozenset()
        above: set[str] = set(self.recursion)
        for relation in sorted(self.reads, key=lambda r: self.components[r][0]):
            if not above.isdisjoint(self.reads[relation]):
                above |= self.components[relation][1]
        self.late = frozenset(above - self.recursion)
        goals = self._below(set(GOALS) & self.reads.keys())
        needed = set().union(*(denied[r] for r in goals)) - above
        given = self.reads.keys() - bodies
        self.computed = frozenset((self._below(needed) | given) - above - {DECIDED})
        self.supports = frozenset(set().union(*(denied[r] for r in goals & self.late)) & above)
        """Relations of the recursion or above it whose absence is concluded from: all their rows are shown."""

    def _below(self, relations: set[str]) -> set[str]:
        """These relations and all that they depend on."""
        seen, todo = set(relations), list(relations)
        while todo:
            fresh = self.reads[todo.pop()] - seen
            seen |= fresh
            todo += fresh
        return seen


def _denied(clause: Clause) -> set[str]:
    """Relations that a clause denies or counts."""
    found = parts(clause.body)
    denying = [part for part in found if isinstance(part, Aggregate) or (isinstance(part, Atom) and part.negated)]
    return {atom.relation for part in denying for atom in atoms(part)}


def _components(reads: dict[str, set[str]]) -> dict[str, tuple[int, frozenset[str]]]:
    """Every relation's strongly connected component (Tarjan's algorithm), numbered so that reads come first."""
    low: dict[str, int] = {}
    stack: list[str] = []
    out: dict[str, tuple[int, frozenset[str]]] = {}

    def visit(relation: str) -> None:
        place = len(stack)
        number = low[relation] = len(low)
        stack.append(relation)
        for other in sorted(reads[relation]):
            if other not in low:
                visit(other)
            if other not in out:
                low[relation] = min(low[relation], low[other])
        if low[relation] == number:
            members = frozenset(stack[place:])
            del stack[place:]
            out.update(dict.fromkeys(members, (len(out), members)))

    for relation in reads:
        if relation not in low:
            visit(relation)
    return out
