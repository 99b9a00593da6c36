"""Which relations of a rule set a certificate shows, and which the checker computes."""

from __future__ import annotations

import re

import networkx

from .terms import RuleError, RuleSet, atoms

RECURSION = "holds"
"""The relation whose recursion a certificate shows."""
DECIDED = "proved"
"""Claims of arithmetic: no fact and no step, the checker decides them (decide.py)."""

CLAIMED = "obligation"
"""Claims that the rules leave to a solver, those that are not decided."""

OPEN = "open_to_users"
"""Relations of the shipped rules that other files may have rules for."""
DEMAND = re.compile("want_.*", re.DOTALL)
"""The names of relations that only ask: they are open, too. What is wanted of a value that fits many layouts (`wanted`)
is a judgement."""


class Structure:
    """The correspondences are one big recursion without negation, the component of `holds` (`recursion`). It is shown,
    and so is what rules conclude from it (`late`). All below it is computed (`computed`): no step shows it.
    `deciding` are the relations that are read from the facts, and their files, without those that no rule reads, as how
    the dumps are called: a certificate does not depend on them.
    """

    def __init__(self, rules: RuleSet) -> None:
        self.reads: dict[str, set[str]] = {r: set() for r in rules.relations}
        for clause in rules.clauses:
            self.reads[clause.head.relation].update([atom.relation for atom in atoms(clause.body)])
        self.components = _components(self.reads)
        self.recursion = self.components[RECURSION][1] if RECURSION in self.components else frozenset()
        above: set[str] = set(self.recursion)
        for relation in sorted(self.reads, key=lambda r: self.components[r][0]):
            if not above.isdisjoint(self.reads[relation]):
                above |= self.components[relation][1]
        if not self.recursion.issuperset(rules.choices):  # else a choice could support itself
            raise RuleError("only relations of the recursion of `holds` may have a choice domain")
        self.late = frozenset(above - self.recursion)
        read = {relation for others in self.reads.values() for relation in others}
        self.deciding = {relation: file for relation, file in rules.inputs.items() if relation in read}
        self.computed = frozenset(self.reads.keys() - above - {DECIDED})


def _components(reads: dict[str, set[str]]) -> dict[str, tuple[int, frozenset[str]]]:
    """Every relation's strongly connected component, numbered so that what is read comes first."""
    graph = networkx.DiGraph((relation, other) for relation, others in reads.items() for other in sorted(others))
    graph.add_nodes_from(reads)
    condensed = networkx.condensation(graph)
    out: dict[str, tuple[int, frozenset[str]]] = {}
    for number, component in enumerate(reversed(list(networkx.topological_sort(condensed)))):
        members = frozenset(condensed.nodes[component]["members"])
        out.update(dict.fromkeys(members, (number, members)))
    return out
