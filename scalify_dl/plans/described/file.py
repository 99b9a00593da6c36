"""The file itself: keys, paths and axes, each checked where it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from scalify_dl import yaml_text
from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.yaml_nodes import Nodes, Place

WHAT = "the plan file"
REDUCTIONS = ("mean", "sum")


@dataclass(frozen=True)
class Optimiser:
    """The graph of what a stage does with its gradients when they are reduced, once a step. `gradients` are inputs, by
    what the stage calls the gradients; `updates` outputs, by what the baseline calls them. `reduces`: gradients are
    those of the rank's own copy, which it reduces over copies itself."""

    program: Path
    place: Place
    gradients: Mapping[str, str]
    updates: Mapping[str, str]
    reduces: bool = False


@dataclass(frozen=True)
class Stage:
    """A stage: the graph of forward and backward of one micro-batch, and what its inputs and outputs are, by name.

    Outputs `to_next` are, in this order, inputs `from_previous` of the next stage; outputs `to_previous` inputs
    `from_next` of the stage before. `batch` are inputs that hold a micro-batch; what is none of these is a parameter.
    `gradients` and `losses` are outputs, by what the baseline calls them; it may have no output of gradients that an
    `optimiser` takes.
    """

    program: Path
    place: Place
    from_previous: tuple[str, ...] = ()
    to_next: tuple[str, ...] = ()
    from_next: tuple[str, ...] = ()
    to_previous: tuple[str, ...] = ()
    batch: tuple[str, ...] = ()
    gradients: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, str] = field(default_factory=dict)
    optimiser: Optimiser | None = None


@dataclass(frozen=True)
class Described:
    """A plan file. `ranks` are recorded programs; without them there are `stages` and a schedule."""

    file: Path
    place: Place
    baseline: Path
    mesh: Mesh
    relations: Path | None = None
    ranks: tuple[Path, ...] = ()
    schedule: Path | None = None
    pipeline: str = "pp"
    copies: str | None = None
    """The axis of data parallel copies, whose gradients are reduced."""
    micro_batches: str = "mean"
    over_copies: str = "mean"
    tied: tuple[str, ...] = ()
    """Gradients that stages add up, by what the baseline calls them."""
    stages: tuple[Stage, ...] = ()


def read_described(path: Path) -> Described:
    """The plan that a file describes; InputError with file and line."""
    root = yaml_text.compose(yaml_text.read(path, WHAT), WHAT, path)
    reader = _Reader(path)
    if root is None:
        raise Place(str(path), 1, 1).error("the plan file is empty", expected="`baseline:`, `mesh:` and `ranks:`")
    return reader.described(root)


class _Reader(Nodes):
    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path, self.folder = path, path.parent

    def described(self, root: yaml.Node) -> Described:
        found = self.known(root, "plan file", {
            "baseline": self.existing, "mesh": self.mesh, "relations": self.existing, "ranks": self.several,
            "schedule": self.existing, "pipeline": partial(self.text, what="pipeline"), "reduction": self.reduction,
            "stages": self.stages,
        })  # fmt: skip
        place = self.place(root)
        for key in ("baseline", "mesh"):
            if key not in found:
                raise place.error(f"the plan file has no `{key}`", expected="`baseline: FILE` and `mesh: {pp: 2, …}`")
        if ("ranks" in found) == ("stages" in found):
            raise place.error(
                "the plan file says " + ("both `ranks` and `stages`" if "ranks" in found else "what no rank runs"),
                expected="`ranks:` (recorded programs), or `stages:` with `schedule:`",
            )
        if "stages" in found and "schedule" not in found:
            raise place.error("the plan file has `stages`, but no `schedule`", expected="a CSV file as torch writes it")
        out = Described(self.path, place, **(found.pop("reduction", {}) | found))
        axes = [name for name, _ in out.mesh.axes]
        wanted = [("pipeline", out.pipeline)] * bool(out.stages) + [("copies", out.copies)] * bool(out.copies)
        for key, axis in wanted:
            if axis not in axes:
                raise place.error(f"{key}: the mesh has no axis `{axis}`", expected=f"one of {', '.join(axes)}")
        return out

    def existing(self, node: yaml.Node) -> Path:
        path = self.folder / self.text(node, "a file")
        if not path.is_file():
            raise self.place(node).error(f"no such file: {path}", expected="a path relative to the plan file")
        return path

    def several(self, node: yaml.Node) -> tuple[Path, ...]:
        if isinstance(node, yaml.SequenceNode):
            return tuple(map(self.existing, node.value))
        pattern = self.text(node, "ranks")
        found = sorted(self.folder.glob(pattern), key=_in_words)
        if not found:
            raise self.place(node).error(f"ranks: no file is named `{pattern}`", expected="a list of files, or a glob")
        return tuple(found)

    def mesh(self, node: yaml.Node) -> Mesh:
        axes = [f"{name}={self.integer(value, f'mesh: {name}')}" for name, _, value in self.mapping(node, "mesh")]
        try:
            return Mesh.parse(",".join(axes))
        except InputError as problem:
            place = self.place(node)
            raise place.error(problem.message.removeprefix("--"), expected="such as {pp: 2, dp: 2, tp: 2}") from None

    def reduction(self, node: yaml.Node) -> dict[str, Any]:
        return self.known(node, "reduction", {
            "micro_batches": self.way, "over_copies": self.way, "copies": partial(self.text, what="copies"),
            "tied": self.names,
        })  # fmt: skip

    def way(self, node: yaml.Node) -> str:
        text = self.text(node, "reduction")
        if text not in REDUCTIONS:
            raise self.place(node).error(f"reduction: `{text}`", expected=" or ".join(REDUCTIONS))
        return text

    def names(self, node: yaml.Node) -> tuple[str, ...]:
        if isinstance(node, yaml.ScalarNode):
            return (self.text(node, "a name"),)
        return tuple(self.text(each, "a name") for each in self.sequence(node, "names"))

    def called(self, node: yaml.Node) -> dict[str, str]:
        return {name: self.text(value, name) for name, _, value in self.mapping(node, "outputs")}

    def optimiser(self, node: yaml.Node) -> Optimiser:
        found = self.known(node, "optimiser", {
            "program": self.existing, "gradients": self.called, "updates": self.called, "reduces": self.yes,
        })  # fmt: skip
        for key in ("program", "gradients", "updates"):
            if not found.get(key):
                raise self.place(node).error(
                    f"the optimiser has no `{key}`",
                    expected="`program: FILE`, `gradients: {INPUT: GRADIENT}` and `updates: {OUTPUT: NAME}`",
                )
        return Optimiser(place=self.place(node), **found)

    def yes(self, node: yaml.Node) -> bool:
        text = self.text(node, "yes or no")
        if text not in ("true", "false"):
            raise self.place(node).error(f"`{text}`", expected="true or false")
        return text == "true"

    def stages(self, node: yaml.Node) -> tuple[Stage, ...]:
        out = []
        for n, each in enumerate(self.sequence(node, "stages")):
            found = self.known(each, f"stage {n}", {
                "program": self.existing, "from_previous": self.names, "to_next": self.names, "from_next": self.names,
                "to_previous": self.names, "batch": self.names, "gradients": self.called, "losses": self.called,
                "optimiser": self.optimiser,
            })  # fmt: skip
            if "program" not in found:
                raise self.place(each).error(f"stage {n} has no `program`", expected="`program: FILE`")
            out.append(Stage(found.pop("program"), self.place(each), **found))
        for stage, where, some in (
            (
                (out[0], "before the first", (*out[0].from_previous, *out[0].to_previous)),
                (out[-1], "behind the last", (*out[-1].to_next, *out[-1].from_next)),
            )
            if out
            else ()
        ):
            if some:
                raise stage.place.error(
                    f"`{some[0]}`: there is no stage {where}", expected="a neighbour for every value"
                )
        for n, (one, other) in enumerate(pairwise(out)):
            for what, here, there in (
                ("to_next", one.to_next, other.from_previous), ("from_next", one.from_next, other.to_previous),
            ):  # fmt: skip
                if len(here) != len(there):
                    raise other.place.error(
                        f"stages {n} and {n + 1}: `{what}` has {len(here)} values, and the other side {len(there)}",
                        expected="as many sent as received",
                    )
        return tuple(out)


def _in_words(path: Path) -> list[tuple[int, str]]:
    """Names in the order of the numbers in them."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in re.split(r"(\d+)", str(path))]
