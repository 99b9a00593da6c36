"""Explanations: why a tuple is there (`Proof`), why it is not (`Obstacle`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from scalify_dl.pysouffle.atoms import format_atom, format_value
from scalify_dl.pysouffle.values import Row, Value


@dataclass(eq=False)
class Proof:
    """Why a tuple holds: a tree of least height, down to facts. Equal sub-proofs are one object.

    `kind`: "fact" (given, or a fact of the program), "rule" (follows by `rule` under `bindings` from `premises`),
    "equivalence" (the relation is an eqrel: follows from `premises` by reflexivity, symmetry and transitivity),
    "unknown" (what it followed from has since been removed by subsumption or choice).
    """

    kind: str
    relation: str
    row: Row
    rule: str | None  # the rule's text
    rule_index: int  # position in `Program.rules`; -1: none
    file: str
    line: int
    bindings: dict[str, Value]
    premises: list[Proof]
    conditions: list[str] = field(default_factory=list)  # negations, comparisons and aggregates that held

    @property
    def atom(self) -> str:
        """The tuple as it is written: `path("a", "b")`."""
        return format_atom(self.relation, self.row)

    def nodes(self) -> Iterator[Proof]:
        """Every sub-proof once, premises before what follows from them."""
        seen: set[int] = set()
        stack: list[tuple[Proof, bool]] = [(self, False)]
        while stack:
            node, done = stack.pop()
            if done:
                yield node
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((p, False) for p in reversed(node.premises) if id(p) not in seen)

    @property
    def height(self) -> int:
        """0 for what has no premises, else one more than the highest premise."""
        heights: dict[int, int] = {}
        for node in self.nodes():
            heights[id(node)] = 1 + max((heights[id(p)] for p in node.premises), default=-1)
        return heights[id(self)]

    def __str__(self) -> str:
        """The tree as indented text; a sub-proof that was shown before is only named."""
        lines: list[str] = []
        shown: set[int] = set()
        stack = [(self, 0)]
        while stack:
            node, depth = stack.pop()
            pad = "  " * depth
            if node.kind == "fact":
                where = f"  ({node.file}:{node.line})" if node.file else ""
                lines.append(f"{pad}{node.atom}  fact{where}")
            elif id(node) in shown:
                lines.append(f"{pad}{node.atom}  (shown above)")
            else:
                shown.add(id(node))
                why = {
                    "rule": f"by {node.file}:{node.line}: {node.rule}",
                    "equivalence": "by equivalence",
                    "unknown": "(its premises were removed)",
                }[node.kind]
                lines.append(f"{pad}{node.atom}  {why}")
                if node.bindings:
                    lines.append(
                        f"{pad}  with {', '.join(f'{n} = {format_value(v)}' for n, v in node.bindings.items())}"
                    )
                lines.extend(f"{pad}  {condition}  holds" for condition in node.conditions)
                stack.extend((p, depth + 1) for p in reversed(node.premises))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Proof of {self.atom}, height {self.height}>"


@dataclass(frozen=True)
class Derivation:
    """One proof of many rows, flat: each row and each value once, by number. What `Proof` is for large questions.

    `values`: numbers, texts, None for nil, and a record as the list of its fields' numbers; a value of an algebraic
    data type as the pair of its branch's name and the record of its fields. Parts come before what they are part of.
    `steps`, one for each row, premises first: relation, number of its rule, the rows of its premises and the values of
    the rule's variables; a fact has rule -1, no premises, and its row as values.
    `rules`: relation, file, line and variables of the rules that are used.
    """

    values: list[int | float | str | list[int] | None]
    steps: list[tuple[str, int, list[int], list[int]]]
    rules: dict[int, tuple[str, str, int, list[str]]]


@dataclass(frozen=True)
class Obstacle:
    """Why one rule does not derive a tuple: the first literal that no binding satisfies, under the binding that comes
    closest. `literal` is empty where already the head does not fit. `nearest` are rows of the literal's relation that
    agree with it in most columns.
    """

    rule: str
    file: str
    line: int
    literal: str
    reason: str
    bindings: dict[str, Value]
    relation: str | None
    nearest: list[Row]

    def __str__(self) -> str:
        lines = [f"{self.file}:{self.line}: {self.rule}"]
        if self.bindings:
            lines.append(f"  with {', '.join(f'{n} = {format_value(v)}' for n, v in self.bindings.items())}")
        lines.append(f"  fails at {self.literal}: {self.reason}" if self.literal else f"  {self.reason}")
        if self.relation is not None:
            near = [format_atom(self.relation, row) for row in self.nearest]
            lines.append(f"  nearest: {', '.join(near)}" if near else f"  {self.relation} is empty")
        return "\n".join(lines)


@dataclass(frozen=True)
class WhyNot:
    """Why a tuple does not hold: an obstacle per rule that could derive it."""

    relation: str
    row: Row
    obstacles: list[Obstacle]

    def __str__(self) -> str:
        head = f"{format_atom(self.relation, self.row)} does not hold"
        if not self.obstacles:
            return f"{head}: no rule derives {self.relation}, and it is not among the facts"
        return "\n".join([head + ":", *map(str, self.obstacles)])


def build_proofs(
    nodes: list[tuple[Any, ...]], relations: list[str], rules: list[tuple[int, str, str, int]]
) -> list[Proof]:
    """The proofs from the engine's node table, one per node."""
    proofs = []
    for kind, relation, row, rule, bindings, _, conditions in nodes:
        text, file, line = rules[rule][1:4] if rule >= 0 else (None, "", 0)
        proofs.append(
            Proof(kind, relations[relation], row, text, rule, file, line, dict(bindings), [], list(conditions))
        )
    for proof, node in zip(proofs, nodes, strict=True):
        proof.premises = [proofs[p] for p in node[5]]
    return proofs


def build_obstacles(found: list[tuple[Any, ...]], relations: list[str], rules: list[tuple[Any, ...]]) -> list[Obstacle]:
    """The obstacles from the engine's tuples."""
    out = []
    for rule, literal, reason, bindings, relation, nearest in found:
        text, file, line = rules[rule][1:4]
        out.append(
            Obstacle(
                text,
                file,
                line,
                literal,
                reason,
                dict(bindings),
                relations[relation] if relation >= 0 else None,
                list(nearest),
            )
        )
    return out
