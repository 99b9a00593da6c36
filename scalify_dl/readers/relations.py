"""The relations file (YAML): what inputs, outputs, constants and groups mean, where a dump does not say.

Every key and value is checked as it is read; errors name file, line and column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from scalify_dl.ir.placement import AxisPart
from scalify_dl.yaml_nodes import Nodes, Place, kind

if TYPE_CHECKING:
    import yaml  # most runs read no such file

REDUCERS = ("sum", "max", "min", "prod", "and", "or")


Dims = Mapping[int, Sequence[AxisPart]]


class Parts(NamedTuple):
    """A baseline dim that is a concatenation of parts of the given sizes."""

    dim: int
    sizes: tuple[int, ...]


class InputRelation(NamedTuple):
    """One entry of `inputs:`: `dims` for every part, or for each part; None: to be inferred."""

    key: str
    place: Place
    base: str | None = None
    dims: Dims | tuple[Dims, ...] | None = None
    parts: Parts | None = None
    of: tuple[str, ...] = ()
    """Baseline inputs that it holds in a row along `dim`; `dims` are theirs."""
    dim: int = 0


class ConcatRelation(NamedTuple):
    """One entry of `concat:`: a baseline input along whose dim several distributed inputs follow each other."""

    base: str
    place: Place
    dim: int
    of: tuple[str, ...]


@dataclass(frozen=True)
class OutputRelation:
    """One entry of `outputs:`: the expected placement of a distributed output (`dims` None: the default)."""

    key: str
    place: Place
    base: str | None = None
    dims: Dims | None = None
    pending: Mapping[str, str] = field(default_factory=dict)


class ConstantRelation(NamedTuple):
    """One entry of `constants:`: the value of constants whose name matches, on one side (None: both)."""

    pattern: str
    place: Place
    value: int | float | bool | Fraction
    side: str | None = None


class RangeRelation(NamedTuple):
    """One entry of `ranges:`: lo ≤ x < hi."""

    key: str
    place: Place
    lo: int
    hi: int


class GroupRelation(NamedTuple):
    """One entry of `groups:`: the rank groups that a group name stands for."""

    name: str
    place: Place
    groups: tuple[tuple[int, ...], ...]


class GradientRelation(NamedTuple):
    """One entry of `gradients:` (an output is the gradient of an input) or `cotangents:` (an input, or 1, is that of an
    output)."""

    output: str
    place: Place
    input: str


class HandedRelation(NamedTuple):
    """One entry of `handed:`: an input of a backward that is an output, or an input, of the forward."""

    input: str
    place: Place
    output: str


class TypeRelation(NamedTuple):
    """One entry of `expect:`: the SPMD types of a value along axes of the mesh."""

    key: str
    place: Place
    types: Mapping[str, str]


class ReductionRelation(NamedTuple):
    """One entry of `reductions:`: what collectives whose reduction a dump only names compute."""

    pattern: str
    place: Place
    reducer: str


@dataclass(frozen=True)
class Relations:
    """A relations file."""

    inputs: tuple[InputRelation, ...] = ()
    concat: tuple[ConcatRelation, ...] = ()
    constants: tuple[ConstantRelation, ...] = ()
    groups: Mapping[str, GroupRelation] = field(default_factory=dict)
    reductions: tuple[ReductionRelation, ...] = ()
    ranges: tuple[RangeRelation, ...] = ()
    outputs: tuple[OutputRelation, ...] = ()
    gradients: tuple[GradientRelation, ...] = ()
    cotangents: tuple[GradientRelation, ...] = ()
    handed: tuple[HandedRelation, ...] | Literal["names"] = ()
    """`names`: inputs of a backward are values of the forward that bear their names."""
    expect: tuple[TypeRelation, ...] = ()
    why: str = "given"
    """`given`, or `proposed`: nobody has confirmed it."""


def load_relations(path: str | Path) -> Relations:
    """Reads a relations file."""
    from scalify_dl import yaml_text

    return parse_relations(yaml_text.read(path, "the relations file"), file=str(path))


def parse_relations(text: str, *, file: str | None = None) -> Relations:
    """Reads relations text."""
    from scalify_dl import yaml_text

    root = yaml_text.compose(text, "the relations file", file)
    if root is None:
        return Relations()
    return _Reader(file).relations(root)


class _Reader(Nodes):
    """Turns YAML nodes into relations, strictly."""

    def relations(self, root: yaml.Node) -> Relations:
        found = self.known(
            root,
            "relations file",
            {
                "inputs": self.inputs,
                "concat": self.concat,
                "constants": self.constants,
                "groups": self.groups,
                "reductions": self.reductions,
                "ranges": self.ranges,
                "outputs": self.outputs,
                "gradients": lambda n: self.gradients(n, "gradients"),
                "cotangents": lambda n: self.gradients(n, "cotangents"),
                "handed": self.handed,
                "expect": self.expect,
                "why": self.why,
            },
        )
        return Relations(**found)

    def why(self, node: yaml.Node) -> str:
        text = self.text(node, "why")
        if text not in ("given", "proposed"):
            raise self.place(node).error(f"why: `{text}`", expected="given or proposed")
        return text

    def inputs(self, node: yaml.Node) -> tuple[InputRelation, ...]:
        found = []
        for key, key_node, value in self.mapping(node, "inputs"):
            keys = self.known(
                value,
                f"inputs: {key}",
                {
                    "base": self._name,
                    "dims": self._part_dims,
                    "parts": self.parts,
                    "of": lambda n: tuple(self.text(item, "inputs: of") for item in self.sequence(n, "inputs: of")),
                    "dim": lambda n: self.integer(n, "inputs: dim"),
                },
            )
            relation = InputRelation(key, self.place(key_node), **keys)
            if bool(relation.of) != ("dim" in keys) or (relation.of and ("base" in keys or "parts" in keys)):
                raise relation.place.error(
                    f"inputs: {key}: `of` (baseline inputs in a row) and `dim` go together, without `base` and `parts`",
                    expected="{of: [gate, up], dim: 0, dims: {0: [tp]}}",
                )
            if isinstance(relation.dims, tuple):
                count = len(relation.parts.sizes) if relation.parts else len(relation.of)
                if len(relation.dims) != count:
                    raise relation.place.error(
                        f"inputs: {key}: `dims` lists {len(relation.dims)} placements for {count} parts",
                        expected="one placement for each of `parts: sizes:`, or of `of:`",
                    )
            found.append(relation)
        return tuple(found)

    def gradients(self, node: yaml.Node, what: str) -> tuple[GradientRelation, ...]:
        return tuple(
            GradientRelation(key, self.place(key_node), self.text(value, f"{what}: a name"))
            for key, key_node, value in self.mapping(node, what)
        )

    def handed(self, node: yaml.Node) -> tuple[HandedRelation, ...] | Literal["names"]:
        """Which values they are, or `names`: those that bear the same."""
        if kind(node) == "scalar":
            if self.text(node, "handed") != "names":
                raise self.place(node).error("handed: a mapping was expected", expected="`names`, or `saved: h` lines")
            return "names"
        return tuple(
            HandedRelation(key, self.place(key_node), self.text(value, "handed: a name"))
            for key, key_node, value in self.mapping(node, "handed")
        )

    def expect(self, node: yaml.Node) -> tuple[TypeRelation, ...]:
        found = []
        for key, key_node, value in self.mapping(node, "expect"):
            types = {axis: self._type(word) for axis, _, word in self.mapping(value, f"expect: {key}")}
            if not types:
                raise self.place(value).error(f"expect: {key}: no type is said", expected="{tp: R}")
            found.append(TypeRelation(key, self.place(key_node), types))
        return tuple(found)

    def _type(self, node: yaml.Node) -> str:
        text = self.text(node, "expect: a type")
        match = re.fullmatch(r"[RIPV]|S(\d{1,3})|S\((\d{1,3})\)", text)
        if match is None:
            raise self.place(node).error(f"expect: no SPMD type `{text}`", expected="R, I, P, V or S0, S1, …")
        return f"S{int(match[1] or match[2])}" if text[0] == "S" else text

    def _name(self, node: yaml.Node) -> str:
        return self.text(node, "a name")

    def _part_dims(self, node: yaml.Node) -> Dims | tuple[Dims, ...]:
        if kind(node) == "sequence":
            return tuple(self.dims(part) for part in node.value)
        return self.dims(node)

    def dims(self, node: yaml.Node) -> Dims:
        found: dict[int, list[AxisPart]] = {}
        for key, key_node, value in self.mapping(node, "dims"):
            parts = []
            nodes = value.value if kind(value) == "sequence" else [value]
            for part in nodes:
                try:
                    parts.append(AxisPart.parse(self.text(part, "dims")))
                except ValueError as error:
                    raise self.place(part).error(f"dims: {error}") from None
            found[self.integer(key_node, "dims: a dim")] = parts
            if int(key) < 0:
                raise self.place(key_node).error(f"dims: `{key}` is negative")
        return found

    def parts(self, node: yaml.Node) -> Parts:
        keys = self.known(node, "parts", {"dim": lambda n: self.integer(n, "parts: dim"), "sizes": self._sizes})
        if "dim" not in keys or "sizes" not in keys:
            raise self.place(node).error("parts: needs `dim` and `sizes`", expected="{dim: 1, sizes: [2048, 512, 512]}")
        return Parts(keys["dim"], keys["sizes"])

    def _sizes(self, node: yaml.Node) -> tuple[int, ...]:
        sizes = tuple(self.integer(item, "parts: sizes") for item in self.sequence(node, "parts: sizes"))
        if not sizes or min(sizes) < 1:
            raise self.place(node).error("parts: sizes must be positive")
        return sizes

    def concat(self, node: yaml.Node) -> tuple[ConcatRelation, ...]:
        found = []
        for key, key_node, value in self.mapping(node, "concat"):
            keys = self.known(
                value,
                f"concat: {key}",
                {
                    "dim": lambda n: self.integer(n, "concat: dim"),
                    "of": lambda n: tuple(self.text(item, "concat: of") for item in self.sequence(n, "concat: of")),
                },
            )
            if not keys.get("of") or keys.get("dim", -1) < 0:
                raise self.place(value).error(f"concat: {key}: needs `dim` and `of`", expected="{dim: 0, of: [a, b]}")
            found.append(ConcatRelation(key, self.place(key_node), keys["dim"], keys["of"]))
        return tuple(found)

    def constants(self, node: yaml.Node) -> tuple[ConstantRelation, ...]:
        found: list[ConstantRelation] = []
        for key, key_node, value in self.mapping(node, "constants"):
            if kind(value) == "mapping":
                if key not in ("base", "dist"):
                    raise self.place(key_node).error(f"constants: `{key}` holds a mapping", expected="base or dist")
                for inner, inner_node, inner_value in self.mapping(value, f"constants: {key}"):
                    found.append(ConstantRelation(inner, self.place(inner_node), self.number(inner_value), key))
            else:
                found.append(ConstantRelation(key, self.place(key_node), self.number(value)))
        return tuple(found)

    def number(self, node: yaml.Node) -> int | float | bool | Fraction:
        text = self.text(node, "constants: a value").lower()
        if text in ("true", "false"):
            return text == "true"
        if re.fullmatch(r"[+-]?\d{1,18}", text):
            return int(text)
        if re.fullmatch(r"[+-]?\d{1,9}/[1-9]\d{0,8}", text):
            return Fraction(text)
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?|[+-]?\.?inf|\.?nan", text):
            return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        raise self.place(node).error(f"constants: `{text}` is not a number")

    def groups(self, node: yaml.Node) -> dict[str, GroupRelation]:
        found = {}
        for key, key_node, value in self.mapping(node, "groups"):
            items = self.sequence(value, f"groups: {key}")
            nested = [item for item in items if kind(item) == "sequence"]
            lists = items if nested else [value]
            groups = tuple(
                tuple(self.integer(rank, "groups: a rank") for rank in self.sequence(group, f"groups: {key}"))
                for group in lists
            )
            ranks = [rank for group in groups for rank in group]
            if not ranks or len(set(ranks)) != len(ranks) or min(ranks) < 0:
                raise self.place(value).error(f"groups: {key}: distinct ranks from 0 were expected", expected="[0, 1]")
            found[key] = GroupRelation(key, self.place(key_node), groups)
        return found

    def reductions(self, node: yaml.Node) -> tuple[ReductionRelation, ...]:
        found = []
        for key, key_node, value in self.mapping(node, "reductions"):
            found.append(ReductionRelation(key, self.place(key_node), self.reducer(value, "reductions", "avg")))
        return tuple(found)

    def ranges(self, node: yaml.Node) -> tuple[RangeRelation, ...]:
        found = []
        for key, key_node, value in self.mapping(node, "ranges"):
            bounds = [self.integer(item, "ranges: a bound") for item in self.sequence(value, f"ranges: {key}")]
            if len(bounds) != 2 or bounds[0] >= bounds[1]:
                raise self.place(value).error(
                    f"ranges: {key}: two bounds were expected", expected="[lo, hi] with lo < hi"
                )
            found.append(RangeRelation(key, self.place(key_node), bounds[0], bounds[1]))
        return tuple(found)

    def outputs(self, node: yaml.Node) -> tuple[OutputRelation, ...]:
        found = []
        for key, key_node, value in self.mapping(node, "outputs"):
            keys = self.known(
                value, f"outputs: {key}", {"base": self._name, "dims": self.dims, "pending": self.pending}
            )
            found.append(OutputRelation(key, self.place(key_node), **keys))
        return tuple(found)

    def pending(self, node: yaml.Node) -> dict[str, str]:
        found = {}
        for axis, _, value in self.mapping(node, "pending"):
            found[axis] = self.reducer(value, "pending")
        return found

    def reducer(self, node: yaml.Node, what: str, *more: str) -> str:
        text = self.text(node, what)
        if text not in (*REDUCERS, *more):
            raise self.place(node).error(f"{what}: `{text}`", expected=f"one of {', '.join((*REDUCERS, *more))}")
        return text
