"""SPMD types that somebody said, carried through a program and checked (`datalog/lift/typing.dl`).

    found = check_types(graph, mesh)
    found.findings                    # values whose types do not go together, each confirmed by a run of that op
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scalify_dl.adjoint.derive import FLAT
from scalify_dl.finding import Finding, Happening
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import COLLECTIVES

from .grid import Grid
from .lines import lines
from .rules import lint_rules
from .typed_run import allowed

Row = tuple[object, ...]
SORTS = {
    "sum": """add subtract negate convert reshape broadcast transpose slice concatenate reverse dynamic-slice
    dynamic-update-slice gather""",
    "product": "multiply dot convolution",
    "quotient": "divide",
}
"""Kinds by what they are in their real operands; all others are in none linear."""
_SORT = {kind: sort for sort, kinds in SORTS.items() for kind in kinds.split()}
VALUES = {"gather": (0,), "scatter": (0, 2), "dynamic-slice": (0,), "dynamic-update-slice": (0, 1)}
"""Operands that are values, of kinds whose others say places."""
EVERY = ("R", "I", "P", "V", "A")
MAKES = {
    "all-reduce": {"P": "A", "V": "A"}, "all-gather": {"V": "A"}, "reduce-scatter": {"P": "V", "V": "V"},
    "all-to-all": {"V": "V"}, "collective-permute": {word: word for word in EVERY},
}  # fmt: skip
"""What a collective that nobody marked makes of a type along its axes: of R or I is not said (`A`)."""
OF_INVARIANT = "`convert(I, R)` in front of it sums its gradient over the axis"
OF_PARTS = "reduce it first (`all_reduce`, `reduce_scatter`), or take parts of the other one, too (`convert(R, P)`)"


@dataclass
class Typed:
    """What is known of types: by value and axis; errors; `open` are findings that no run confirms."""

    types: dict[Tensor, dict[str, str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    open: list[Finding] = field(default_factory=list)


def check_types(dist: Graph, mesh: Mesh, held: Mapping[Tensor, Mapping[str, str]] | None = None) -> Typed:
    """The types of a program's values, as far as they follow from those that are said; empty where none is. `held` are
    types of values alone, which are proved: then types that are said have to be these."""
    if not dist.types and not dist.transitions:
        return Typed()
    tables = _Tables(dist, mesh, held or {})
    program = lint_rules().fresh()
    for relation, rows in tables.rows().items():
        program.insert(relation, list(dict.fromkeys(rows)))
    program.run()
    found = Typed()
    values, ops = tables.values, {f"o{n}": op for n, op in enumerate(dist.ops)}
    for value, axis, word in sorted(program.relation("typed")):
        known = found.types.setdefault(values[str(value)], {}) if str(value) in values else {}
        if known.get(str(axis), "A") == "A":
            known[str(axis)] = str(word)
    told = {(str(row[0]), str(row[1])) for row in program.relation("mixed_types")}
    for name, axis in sorted(told, key=lambda at: (int(at[0][1:]), at[1])):
        op = ops[name]
        words = [found.types.get(t, {}).get(axis, "A") for t in op.operands]
        confirmed = allowed(op, words, mesh.axis_size(axis)) == []
        (found.findings if confirmed else found.open).append(_mixed(op, axis, words))
    maker = {t: op for op in dist.ops for t in op.results}
    for name, axis, said, word in sorted(program.relation("other_type")):
        value = values[str(name)]
        mine: Mapping[str, str] = (held or {}).get(value, {})
        if value in dist.types and word not in ("R", "I") and str(axis) in mine and fits(str(said), mine[str(axis)]):
            if said == "I":  # the values are proved alike, and what their gradient is does not follow
                found.open.append(_other(value, maker, str(axis), str(said), str(word)))
            continue
        of_gradient = said in ("R", "I") and word in ("R", "I")
        seen = str(word) if of_gradient else mine.get(str(axis), str(word))
        found.findings.append(_other(value, maker, str(axis), str(said), seen))
    if held is not None:
        _in_values(found, dist, held, maker)
    return found


def fits(said: str, held: str) -> bool:
    """Whether a type that is said goes with one of values (`R`, `P`, `P(max)`, `S(0)`, `V`), as which it is proved."""
    if said[0] == "S":
        return held == f"S({said[1:]})"
    return held == {"I": "R"}.get(said, said) if said != "V" else held != "R"


def _in_values(
    found: Typed, dist: Graph, held: Mapping[Tensor, Mapping[str, str]], maker: Mapping[Tensor, Op]
) -> None:
    """What is said against what the values are proved to be; open where neither rules of types nor proofs say it."""
    told = {(f.name, f.op) for f in found.findings}
    made = {port.tensor for port in dist.inputs} | maker.keys()
    for value, types in dist.types.items():
        op = maker.get(value)
        for axis, word in types.items() if value in made else ():
            mine = held.get(value, {}).get(axis)
            if mine is not None and not fits(word, mine) and (value.name, op.name if op else None) not in told:
                found.findings.append(_other(value, maker, axis, word, mine))
            elif mine is None and (word[0] == "S" or axis not in found.types.get(value, {})):
                text = f"it is said to be {word}@{axis}, and nothing says what it is"
                found.open.append(Finding("other-type", "error", text, name=value.name))


def _mixed(op: Op, axis: str, words: Sequence[str]) -> Finding:
    each = ", ".join(f"`{t.name}` is {word}@{axis}" for t, word in zip(op.operands, words, strict=True))
    if "I" in words and len(set(words) - {"A"}) > 1:
        why, advice = "the gradient of what is invariant would be another one on every rank", OF_INVARIANT
    else:
        why, advice = f"the result of `{op.kind}` is parts of no sum, and no value that ranks have alike", OF_PARTS
    text = f"operands whose SPMD types do not go together: {each}: {why}"
    return Finding("mixed-types", "error", text, (Happening(None, op.name, (lines(op) or ("",))[0]),), op=op.name,
                   name=op.name, source=lines(op), suggestion=advice)  # fmt: skip


def _other(value: Tensor, maker: Mapping[Tensor, Op], axis: str, said: str, word: str) -> Finding:
    op = maker.get(value)
    places = lines(op) if op is not None else ()
    text = f"`{value.name}` is said to be {said}@{axis}, and is {word}@{axis}"
    happened = (Happening(None, value.name, (places or ("",))[0]),)
    return Finding("other-type", "error", text, happened, op=op.name if op else None, name=value.name, source=places)


class _Tables:
    """A program as the tables of the rules."""

    def __init__(self, dist: Graph, mesh: Mesh, held: Mapping[Tensor, Mapping[str, str]]) -> None:
        self.dist, self.mesh, self.grid, self.held = dist, mesh, Grid(mesh), held
        self.axes = [axis for axis, _ in mesh.axes]
        tensors = [p.tensor for p in dist.inputs] + [t for op in dist.ops for t in op.results]
        self.ids = {t: f"v{n}" for n, t in enumerate(tensors)}
        self.values = {name: t for t, name in self.ids.items()}
        self.inside = {op for t in dist.transitions for op in t.ops}
        self.table: dict[str, list[Row]] = {}

    def add(self, relation: str, *row: object) -> None:
        """One row."""
        self.table.setdefault(relation, []).append(row)

    def rows(self) -> dict[str, list[Row]]:
        """All of them."""
        given = {p.tensor for p in self.dist.inputs}
        for value, types in self.dist.types.items():
            for axis, word in types.items() if value in self.ids else ():  # an edit may have left it out
                self.add("said_type" if value in given else "asked_type", self.ids[value], axis, _word(word))
        for port in self.dist.inputs:
            self._input(port.tensor)
        for one in self.dist.transitions:
            self.add("changes", self.ids[one.y], self.ids[one.x], one.axis, _word(one.src), _word(one.dst))
        moved = self._own()
        for n, op in enumerate(self.dist.ops):
            if op in self.inside:
                continue
            if op.kind in COLLECTIVES:
                self._collective(f"o{n}", op)
            else:
                self._local(f"o{n}", op, moved)
        return self.table

    def _input(self, value: Tensor) -> None:
        """What a placement says of an input of which no type is said."""
        said = self.dist.types.get(value, {})
        port = next(p for p in self.dist.inputs if p.tensor is value)
        split = _split_axes(port.placement)
        if split is None and value in self.held:
            split = {a: "P" if word == "P" else "V" for a, word in self.held[value].items() if word != "R"}
        for axis in self.axes:
            if axis not in said and split is not None:
                self.add("said_type", self.ids[value], axis, split.get(axis, "A"))

    def _own(self) -> set[Tensor]:
        """Integers, and truth values, that are each rank's own."""
        found = {t for t, types in self.dist.types.items() if any(_word(w) == "V" for w in types.values())}
        found |= {p.tensor for p in self.dist.inputs if "V" in (_split_axes(p.placement) or {}).values()}
        for op in self.dist.ops:
            alike = op.kind in ("all-reduce", "all-gather")
            if not alike and (_of_rank(op) or not found.isdisjoint(op.operands)):
                found.update(op.results)
        return found

    def _collective(self, name: str, op: Op) -> None:
        groups = op.groups or ([list(range(self.mesh.size))] if op.replica_groups_all else None)
        if op.along:
            moved = {axis for axis, _ in op.along}
        elif op.kind == "collective-permute" or groups is None:
            moved = set(self.axes)
        else:
            positions = self.grid.along(groups)
            moved = set(self.grid.axes_of(positions)) if positions is not None else set(self.axes)
        self.add("reads", name, 0, self.ids[op.operands[0]])
        self.add("makes", name, self.ids[op.results[0]])
        for axis in self.axes:
            makes = MAKES.get(op.kind, {}) if axis in moved else {word: word for word in EVERY}
            for word, made in makes.items():
                self.add("collective_makes", name, axis, word, made)

    def _local(self, name: str, op: Op, own: set[Tensor]) -> None:
        for result in op.results:
            if op.kind in ("partition-id", "replica-id"):
                self._of_itself(self.ids[result], self.axes)
            elif not op.operands:
                self._of_itself(self.ids[result], self._varies(op))
        if not op.operands:
            return
        read = [self.ids[t] for t in op.operands if t.dtype[0] in "fbc" or t in own]
        if not any(t.dtype[0] in "fbc" for t in op.operands):
            values = VALUES.get(op.kind, range(len(op.operands)))
            read = [self.ids[t] for n, t in enumerate(op.operands) if n in values or t in own]
        if _of_rank(op):
            self._of_itself(f"{name}#", self._varies(op))
            read.append(f"{name}#")
        sort = _sort(op)
        self.add("local_op", name, sort, len(read))
        if op.kind in FLAT or not any(t.dtype[0] in "fbc" for t in op.results):
            self.add("stops_gradients", name)
        for n, value in enumerate(read):
            self.add("typed_operand", name, n, value)
        for result in op.results:
            self.add("local_makes", name, self.ids[result])

    def _of_itself(self, value: str, varies: Iterable[str]) -> None:
        for axis in self.axes:
            self.add("of_itself", value, axis, "V" if axis in varies else "A")

    def _varies(self, op: Op) -> list[str]:
        """The axes along which what an op does depends on the rank."""
        found = [axis for by_axis in op.strides.values() for axis, step in by_axis.items() if step]
        for by_rank in op.rank_numbers.values():
            for at, axis in enumerate(self.axes):
                others = {(c[:at], c[at + 1 :]): set[int]() for c in self.mesh.coordinates}
                for rank, c in enumerate(self.mesh.coordinates):
                    others[c[:at], c[at + 1 :]].add(by_rank.get(rank, 0))
                if any(len(values) > 1 for values in others.values()):
                    found.append(axis)
        return found


def _sort(op: Op) -> str:
    """What it is in its operands. Integers that are divided or widened, truth values and casts to integers are linear
    in none: 3 / 2 and 3 / 2 are no 6 / 2."""
    sort = _SORT.get(op.kind, "other")
    added_up = op.symbols.get("reducer", ["replace"])[0] in ("sum", "replace")
    if op.kind in ("reduce", "cumulative", "scatter") and added_up:
        sort = "sum"
    of = [t.dtype for t in (*op.operands[:1], *op.results)]
    reals = all(dtype[0] in "fbc" for dtype in of)
    if not reals and (sort == "quotient" or len({*of}) > 1 or "pred" in of):
        return "other"
    return sort


def _of_rank(op: Op) -> bool:
    return bool(op.rank_numbers or op.strides)


def _word(word: str) -> str:
    return "V" if word[:1] == "S" else word


def _split_axes(placement: object) -> dict[str, str] | None:
    """Axis → `V` or `P`, of a placement in blocks; None where nothing of it is said."""
    dims, pending = getattr(placement, "dims", None), getattr(placement, "pending", None)
    if not isinstance(dims, Mapping):
        return None
    found = {part.axis: "V" for parts in dims.values() for part in parts}
    return found | {axis: "P" if how == "sum" else "V" for axis, how in (pending or {}).items()}
