"""What dumps only name, and a relations file or the mesh says: process groups, constants that are not printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from math import prod

from scalify_dl.errors import InputError, in_short
from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import GROUPED
from scalify_dl.readers.group_names import GroupNames
from scalify_dl.readers.meetings import check_meetings
from scalify_dl.readers.relations import Relations

SECTIONS = {
    "constants": "unprinted constant", "groups": "process group", "inputs": "distributed input",
    "reductions": "reduction that a dump does not print",
}  # fmt: skip
"""What the entries of sections of a relations file are about."""


def all_ops(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        for region in op.regions:
            yield from all_ops(region)


def check_partners(dists: Sequence[Graph]) -> None:
    """Refuses programs of ranks whose calls do not meet, or meet over groups of other names."""
    check_meetings(dists)
    names = GroupNames()
    for graph in dists:
        for rank in graph.ranks or ():
            names.see(graph, rank)


def one_name(dists: Sequence[Graph], mesh: Mesh, relations: Relations) -> None:
    """Refuses programs that call groups by different names where nobody says who is in these."""
    if sum(size > 1 for _, size in mesh.axes) > 1:
        return  # else such a group is taken for all ranks
    unknown = [
        {op.group_name for op in all_ops(graph) if op.kind in GROUPED and op.groups is None and op.group_name}
        - relations.groups.keys()
        for graph in dists
    ]
    for graph, names in zip(dists, unknown, strict=True):
        if names - unknown[0] and unknown[0] - names:
            ours, theirs = (", ".join(f"`{n}`" for n in sorted(some)) for some in (names, unknown[0]))
            raise InputError(
                f"its collectives are over the groups {ours}, those of {dists[0].file} over {theirs}, and the members"
                " of these are not known",
                file=graph.file, expected="one name for a group on all of its ranks",
                hint="say who is in groups of different names: `groups: {name: [[0, …], …]}`",
            )  # fmt: skip


def name_groups(graph: Graph, mesh: Mesh, relations: Relations, *, is_base: bool) -> set[str]:
    """Members of process groups that a dump only names; returns the names that the relations file settled."""
    used: set[str] = set()
    ops = [op for op in all_ops(graph) if op.group_name or op.kind in GROUPED or op.kind.startswith("unknown:")]
    sized = {op.group_name for op in ops if op.group_name and _ways(op) == mesh.size}
    for op in ops:
        name = op.group_name or ""
        relation = relations.groups.get(name)
        if relation:
            used.add(name)
        elif op.kind.startswith("unknown:"):  # its arguments may be groups
            used |= relations.groups.keys() & {text for texts in op.symbols.values() for text in texts}
        if relation and op.groups is not None and not is_base:
            theirs = {frozenset(group) for group in relation.groups}
            if not {frozenset(group) for group in op.groups} <= theirs:
                said = in_short(op.groups)
                raise relation.place.error(f"groups: {name}: the dump says {said}", expected="the same groups")
        if op.kind not in GROUPED or op.groups is not None or op.along or op.replica_groups_all:
            continue
        if is_base:
            op.groups = [[0]]
        elif relation:
            op.groups = [list(group) for group in relation.groups]
            members = sorted(rank for group in op.groups for rank in group)
            if members != list(range(mesh.size)):
                raise relation.place.error(
                    f"groups: {name}: {in_short(op.groups)} do not hold each of the {mesh.size} ranks of the mesh once",
                    expected="lists of ranks that together are all ranks, such as [[0, 1], [2, 3]]",
                )
        elif sum(size > 1 for _, size in mesh.axes) <= 1:
            op.groups = [list(range(mesh.size))]
            text = f"process group `{name}` is all {mesh.size} ranks"
            graph.assume(op.results[0], text, "group size" if name in sized else "group")
        else:
            why = f'the members of process group "{name}" are not known: say them, `groups: {{"{name}": [[0, …], …]}}`'
            op.kind, op.symbols = f"unknown:{op.kind}", {**op.symbols, "group_name": [name], "reason": [why]}
    return used


def _ways(op: Op) -> int:
    """The size of the group of a collective, as far as its shapes tell; 0 where they do not."""
    if op.kind not in ("all-gather", "reduce-scatter"):
        return 0
    here, there = prod(op.operands[0].shape), prod(op.results[0].shape)
    small, large = sorted((here, there))
    return large // small if small else 0


def name_constants(graph: Graph, relations: Relations, side: str) -> set[str]:
    """Values of unprinted constants that the relations file states; returns the patterns that matched."""
    used: set[str] = set()
    for op in graph.ops:
        if op.kind != "constant" or op.result.literal is None or not op.result.literal.is_elided:
            continue
        said = [r for r in relations.constants if r.side in (None, side) and fnmatchcase(op.result.name, r.pattern)]
        if len(said) > 1:
            raise said[1].place.twice(f"constants: the value of `{op.result.name}` is stated", said[0].place)
        for relation in said:
            used.add(relation.pattern)
            op.result.literal = Literal.scalar(relation.value, op.result.dtype)
            graph.assume(op.result, f"is {op.result.literal.text} everywhere: the dump does not print it", "given")
    return used


def all_used(
    section: str, keys: Sequence[str], used: Sequence[set[str]], relations: Relations, known: Sequence[str]
) -> None:
    """InputError for a relation that matches nothing (a typo would otherwise change the question); `known` are the
    names that there are."""
    for n, key in enumerate(keys):
        if not any(key in names for names in used):
            place = relations.groups[key].place if section == "groups" else getattr(relations, section)[n].place
            from difflib import get_close_matches

            near = get_close_matches(key, {name for name in known if name}, 3)
            hint = f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else None
            raise place.error(f"{section}: no {SECTIONS[section]} matches `{key}`", hint=hint)
