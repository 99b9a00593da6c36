"""The JSON beside an FX dump: what its inputs and outputs are called, how they are placed, who is in a process group.

    {"inputs": [["primals_1", "ParamAOTInput(target='fc.weight')"], …],      graph name, descriptor
     "outputs": [["t_3", "GradAOTOutput(grad_of=ParamAOTInput(target='fc.weight'))"], …],
     "placements": {"fc.weight": ["(Shard(dim=0),)", [1024, 512], [256, 512], ["tp"]], …},
     "gradients": {"fc.weight": …},                                          as placements, where they differ from those
     "constants": {"_tensor_constant0": 0},                                 values that the text does not print
     "groups": {"0": [0, 1, 2, 3]},
     "reductions": {"_torchbind_obj1": "sum"},                              of collectives, where the text names them
     "seen": {"input 1": [0, 32000]},                                       lo ≤ x < hi of integer inputs in that run
     "types": {"mm_1": {"tp": "P"}},                                        SPMD types that the program says of values
     "outside": ["the optimiser"],                                          what the program does and the dump does not
     "posted": {"rank": 0, "world": 2, "groups": {…}, "events": […]},       messages and waits for them, in order
     "rank": 3, "mesh": {"dp": 2, "tp": 2}}                                 or "world": 4, the number of ranks;
                                                                            "rank": "all": every rank runs it

A placement holds the DTensor placements, global and local shape and, optionally, the mesh axes that the placements
stand for, in their order (left out: the axes of the mesh; `"tp=2", "tp=2"` are the major and the minor part of an
axis of four ranks). `["local", shape]` is a plain tensor, `["unplaced", global shape, local shape]` one that is no cut
of the baseline's; `"unplaced: …"` says why, and where every rank has the same block, `[dim, start, limit]` behind the
axes is that block (or null). Of a dim in unequal parts it is `[dim, 0, start of the second part, …, size]`. Behind
that is the baseline's input that it is of, where that has another name. Other keys are ignored.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Digit, Entry, Layout, Pending, Repl, Window
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible, Misplaced, Rearranged

from ..rank_files import RankOf

__all__ = ["UNPLACED", "UNTIMED", "Annotations", "DTensorPlacement", "beside", "descriptor_path", "load_annotations"]

MAX_DESCRIPTOR = 20_000
UNTIMED = "when a collective is waited for: each takes effect where it is issued"
"""Outside of dumps whose text has no waits, though what they recorded may have."""
UNPLACED = "unplaced"
"""The placement of an input that lies in no layout: it corresponds to nothing."""
_ITEM = re.compile(
    r"\s*(?:(Replicate\(\)|R)|_?StridedShard\((?:dim=)?(\d+),\s*(?:sf|split_factor)=(\d+)\)|(?:Shard\((?:dim=)?|S\()(\d+)\)|(?:_?\w*Partial|P)\(?(?:reduce_op=)?'?(\w*)'?[^()]*\)?)\s*(?:,|\Z)"
)
_TYPE = re.compile(r"[RIPV]|S\((\d{1,3})\)")
_REDUCERS = {
    "": "sum",
    "sum": "sum",
    "avg": "avg",
    "max": "max",
    "min": "min",
    "product": "prod",
    "band": "and",
    "bor": "or",
}


@dataclass(frozen=True)
class DTensorPlacement:
    """DTensor placements of one tensor, one per mesh dim; `axes` are those mesh dims by name, if known."""

    text: str
    global_shape: tuple[int, ...]
    local_shape: tuple[int, ...]
    axes: tuple[str, ...] | None = None
    file: str | None = None
    same: Window | None = None
    """The block that every rank has, where that is no cut."""
    cuts: tuple[int, ...] = ()
    """Where parts of unequal sizes begin along the dim that is sharded, and its size."""
    of: str | None = None
    """The baseline's input that it is a cut of, where that has another name."""

    def layout(self, base_shape: Sequence[int], mesh: Mesh) -> Layout:
        """The layout on a mesh; InputError where placement, shapes and mesh contradict each other.

        Mesh dims claim digits of the tensor in their order: `Shard(d)` the major positions of what is left of dim d,
        `_StridedShard(d, sf)` those below the first `sf` (which a later mesh dim will claim).
        """
        if self.text.startswith(UNPLACED):
            where = self.text.removeprefix(UNPLACED).removeprefix(": ")
            raise Misplaced(where or "what the ranks hold is no cut of the baseline's")
        if tuple(base_shape) != self.global_shape:
            raise self.error(f"is of a tensor {list(self.global_shape)}, but the baseline's is {list(base_shape)}")
        if self.cuts:
            raise Inexpressible(f"the placement {self.text} cuts {list(self.global_shape)} into unequal parts")
        items = self.items()
        entries: dict[str, list[Entry]] = {axis: [] for axis, _ in mesh.axes}
        left = [[Digit(d, 1, n)] for d, n in enumerate(base_shape)]
        for part, (kind, dim, factor) in zip(self._axes(mesh, len(items)), items, strict=True):
            axis, size = self._part(part, mesh)
            if kind == "shard":
                if not 0 <= dim < len(base_shape):
                    raise self.error(f"shards dim {dim} of a tensor with {len(base_shape)} dims")
                left[dim], claimed = self._claim(left[dim], factor, size)
                entries[axis] += claimed
            elif kind == "avg":
                raise Rearranged(f"the placement {self.text} is a pending average, which no layout describes")
            else:
                entries[axis].append(Repl(size) if kind == "replicate" else Pending(kind, size))
        for axis, size in mesh.axes:
            if prod(entry.size for entry in entries[axis]) != (size if entries[axis] else 1):
                raise self.error(f"speaks of another number of ranks than the {size} of axis {axis}")
        layout = Layout.of(left, [(axis, entries[axis] or [Repl(size)]) for axis, size in mesh.axes])
        if layout.local_shape != self.local_shape:
            raise self.error(f"makes {list(layout.local_shape)} of it, but the local shape is {list(self.local_shape)}")
        return layout

    def _part(self, name: str, mesh: Mesh) -> tuple[str, int]:
        """The axis that a name stands for, and how many positions of it: all of them, or a part."""
        axis, _, size = name.partition("=")
        if size and not size.isdecimal():
            raise self.error(f"names {name}", expected="an axis, or so many positions of one, as in tp=2")
        whole = mesh.axis_size(axis)
        return axis, int(size) if size else whole

    def window(self, rank: int, mesh: Mesh) -> Window | None:
        """What one rank has of a dim that its only sharded mesh dim does not divide: the parts that are listed, or
        blocks as `torch.chunk` cuts them; None where the placement says something else."""
        items = self.items()
        cut = [(axis, dim) for axis, (kind, dim, skip) in zip(self._axes(mesh, len(items)), items, strict=True)
               if kind == "shard" and skip == 1]  # fmt: skip
        if len(cut) != 1 or any(kind != "replicate" for kind, _, _ in items if kind != "shard"):
            return None
        ((axis, dim),) = cut
        if "=" in axis:
            return None
        if not 0 <= dim < len(self.global_shape) or len([kind for kind, _, _ in items if kind == "shard"]) != 1:
            return None
        extent, size = self.global_shape[dim], mesh.axis_size(axis)
        block = -(-extent // size)
        at = mesh.coordinates[rank][[name for name, _ in mesh.axes].index(axis)]
        lo, hi = min(at * block, extent), min((at + 1) * block, extent)
        if self.cuts:
            if len(self.cuts) != size + 1:
                raise self.error(f"has {len(self.cuts) - 1} parts for {size} ranks")
            lo, hi = self.cuts[at : at + 2]
        wanted = (*self.global_shape[:dim], hi - lo, *self.global_shape[dim + 1 :])
        return Window(dim, lo, hi) if wanted == self.local_shape and hi > lo else None

    def items(self) -> list[tuple[str, int, int]]:
        """(replicate | shard | a pending reducer, dim, positions to skip) of every mesh dim."""
        text = self.text.strip()
        text = text[1:-1] if text[:1] in "([" and text[-1:] in ")]" else text
        found: list[tuple[str, int, int]] = []
        at = 0
        while text[at:].strip():
            match = _ITEM.match(text, at)
            if not match or match.end() == at:
                raise self.error(
                    "is not understood", expected="Replicate(), Shard(dim=0), Partial(sum), _StridedShard(dim=0, sf=2)"
                )
            replicate, strided, skip, shard, reducer = match.groups()
            if replicate:
                found.append(("replicate", 0, 1))
            elif strided is not None:
                found.append(("shard", int(strided), int(skip)))
            elif shard is not None:
                found.append(("shard", int(shard), 1))
            elif reducer in _REDUCERS:
                found.append((_REDUCERS[reducer], 0, 1))
            else:
                raise self.error(f"has a pending `{reducer}`, which is not understood")
            at = match.end()
        return found

    def _axes(self, mesh: Mesh, count: int) -> Sequence[str]:
        """The mesh axis of every placement."""
        if self.axes is not None and len(self.axes) == count:
            return self.axes
        names = [axis for axis, _ in mesh.axes]
        if count == len(names):
            return names
        sized = [axis for axis, size in mesh.axes if size > 1]
        if count == len(sized):
            return sized
        raise self.error(
            f"has {count} placements, but the mesh {mesh} has {len(names)} axes",
            hint="name the mesh dims as a fourth entry of the placement in the JSON beside the dump",
        )

    def _claim(self, digits: list[Digit], skip: int, size: int) -> tuple[list[Digit], list[Digit]]:
        """Takes `size` positions below the `skip` major ones: (what is left, what is claimed)."""
        head, rest = self._cut(digits, skip)
        claimed, tail = self._cut(rest, size)
        return head + tail, claimed

    def _cut(self, digits: list[Digit], count: int) -> tuple[list[Digit], list[Digit]]:
        """The `count` major positions of digits, and the rest."""
        major: list[Digit] = []
        for i, (dim, stride, size) in enumerate(digits):
            if count == 1:
                return major, digits[i:]
            if count % size == 0:
                major.append(Digit(dim, stride, size))
                count //= size
            elif size % count == 0:
                inner = size // count
                return [*major, Digit(dim, stride * inner, count)], [Digit(dim, stride, inner), *digits[i + 1 :]]
            else:
                break
        if count != 1:
            raise Inexpressible(f"the placement {self.text} does not divide {list(self.global_shape)} evenly")
        return major, []

    def error(self, message: str, *, expected: str | None = None, hint: str | None = None) -> InputError:
        return InputError(f"the placement {self.text} {message}", file=self.file, expected=expected, hint=hint)


@dataclass(frozen=True)
class Annotations:
    """What the JSON says. `inputs` maps graph names to descriptors; `outputs` lists descriptors in order, or None."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[str] | None = None
    placements: Mapping[str, DTensorPlacement] = field(default_factory=dict)
    gradients: Mapping[str, DTensorPlacement] = field(default_factory=dict)
    groups: Mapping[str, list[int]] = field(default_factory=dict)
    reductions: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    rank: RankOf | None = None
    for_all: bool = False
    """Whether every rank runs it."""
    seen: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    outside: Sequence[str] = ()
    posted: Mapping[str, Any] = field(default_factory=dict)

    def placement(self, path: str, local_shape: Sequence[int]) -> DTensorPlacement | None:
        """The placement of a parameter, or of a gradient (`grad fc.weight`) of that shape on every rank.

        A gradient that the JSON does not place lies as its parameter does if it has its local shape: that is how an
        optimiser will add them.
        """
        of_gradient = path.startswith("grad ")
        name = path.removeprefix("grad ")
        while name:
            found = self.gradients.get(name) if of_gradient else None
            found = found or self.placements.get(name)
            if found is not None:
                return found if not of_gradient or found.local_shape == tuple(local_shape) else None
            if " " in name:  # an output, or what an input holds in the end: its name is whole
                return None
            _, _, name = name.partition(".")  # a module that wraps the model may have put its name in front
        return None


def beside(path: Path) -> Path:
    """`graph.fx.txt` → `graph.json`"""
    name = path.name
    for suffix in (".fx.txt", ".txt"):
        if name.endswith(suffix):
            return path.with_name(name.removesuffix(suffix) + ".json")
    return path.with_suffix(".json") if name else path  # `.` has no name, and is no dump


def load_annotations(path: Path) -> Annotations:
    """Reads the JSON beside a dump; empty where there is none. InputError where it is malformed."""
    if not path.is_file():
        return Annotations()
    try:
        root = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        raise InputError(f"not JSON: {getattr(error, 'msg', error)}", file=path, line=line, column=column) from None
    return _Reader(str(path)).annotations(root)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file

    def annotations(self, root: Any) -> Annotations:
        if not isinstance(root, dict):
            raise self.error("an object was expected", '{"inputs": …, "outputs": …, "placements": …, "groups": …}')
        outputs = self.pairs(root, "outputs") if "outputs" in root else None
        return Annotations(
            inputs=dict(self.pairs(root, "inputs")),
            outputs=None if outputs is None else [descriptor for _, descriptor in outputs],
            placements=self.placements(root, "placements"),
            gradients=self.placements(root, "gradients"),
            constants=self.object(root, "constants"),
            groups={name: self.ints(value, f"groups: {name}") for name, value in self.object(root, "groups").items()},
            reductions={name: self.reduction(value) for name, value in self.object(root, "reductions").items()},
            rank=self.rank(root),
            for_all=root.get("rank") == "all",
            seen={name: self.span(name, value) for name, value in self.object(root, "seen").items()},
            types={name: self.types(name, value) for name, value in self.object(root, "types").items()},
            outside=self.texts(root, "outside"),
            posted=self.object(root, "posted"),
        )

    def texts(self, root: dict[str, Any], key: str) -> list[str]:
        """A list of texts."""
        found = root.get(key, [])
        if not (isinstance(found, list) and all(isinstance(text, str) for text in found)):
            raise self.error(f"{key}: a list of texts was expected", f'"{key}": ["the optimiser"]')
        return found

    def types(self, name: str, value: Any) -> dict[str, str]:
        """SPMD types by axis."""
        words = list(value.values()) if isinstance(value, dict) else [None]
        if not all(isinstance(word, str) and _TYPE.fullmatch(word) for word in words):
            raise self.error(f"types: {name}: types by axis were expected", '"types": {"mm_1": {"tp": "S(1)"}}')
        return {axis: word.replace("(", "").replace(")", "") for axis, word in value.items()}

    def span(self, name: str, value: Any) -> tuple[int, int]:
        """Bounds lo ≤ x < hi."""
        if not (isinstance(value, list) and len(value) == 2 and all(type(n) is int for n in value)):
            raise self.error(f"seen: {name}: bounds were expected", '"seen": {"input 1": [0, 32000]}')
        return value[0], value[1]

    def reduction(self, value: Any) -> str:
        if value not in _REDUCERS:
            raise self.error(f"reductions: {str(value)[:80]}", ", ".join(filter(None, _REDUCERS)))
        return str(value)

    def rank(self, root: dict[str, Any]) -> RankOf | None:
        if root.get("rank", "all") == "all":
            return None
        axes = self.object(root, "mesh")
        sizes = self.ints(list(axes.values()), "mesh")
        rank, world = self.ints([root["rank"], root.get("world", prod(sizes))], "rank, world")
        if not 0 <= rank < world or (axes and world != prod(sizes)):
            raise self.error(f"rank {rank} of {world} on a mesh {axes}", '"rank": 3, "mesh": {"dp": 2, "tp": 2}')
        return RankOf(rank, world, tuple(axes.items()) or None)

    def error(self, message: str, expected: str | None = None) -> InputError:
        return InputError(message, file=self.file, expected=expected)

    def object(self, root: dict[str, Any], key: str) -> dict[str, Any]:
        value = root.get(key, {})
        if not isinstance(value, dict):
            raise self.error(f"`{key}` is not an object")
        return value

    def pairs(self, root: dict[str, Any], key: str) -> list[tuple[str, str]]:
        value = root.get(key, [])
        items = list(value.items()) if isinstance(value, dict) else value
        if not isinstance(items, list):
            raise self.error(f"`{key}` is not a list of pairs")
        for item in items:
            if not (isinstance(item, list | tuple) and len(item) == 2 and all(isinstance(part, str) for part in item)):
                raise self.error(f"`{key}`: {str(item)[:80]} is not a pair of graph name and descriptor")
        return [(name, descriptor) for name, descriptor in items]

    def ints(self, value: Any, what: str) -> list[int]:
        if not isinstance(value, list) or any(not isinstance(n, int) or not 0 <= n < 2**31 for n in value):
            raise self.error(f"{what} is not a list of numbers")
        return value

    def placements(self, root: dict[str, Any], key: str) -> dict[str, DTensorPlacement]:
        found = {name: self.placement(f"{key}: {name}", value) for name, value in self.object(root, key).items()}
        return {name: placement for name, placement in found.items() if placement is not None}

    def placement(self, name: str, value: Any) -> DTensorPlacement | None:
        if not isinstance(value, list) or not value or not isinstance(value[0], str):
            raise self.error(name, '["(Shard(dim=0),)", [global shape], [local shape]]')
        if value[0] == "local":
            return None
        if len(value) < 3:
            raise self.error(name, '["(Shard(dim=0),)", [global shape], [local shape]]')
        shapes = [tuple(self.ints(part, name)) for part in value[1:3]]
        axes = value[3] if len(value) > 3 else None
        if axes is not None and not (isinstance(axes, list) and all(isinstance(axis, str) for axis in axes)):
            raise self.error(f"{name}: mesh axes are not a list of names")
        same, cuts = None, tuple[int, ...]()
        if len(value) > 4 and value[4] is not None:
            dim, lo, hi, *more = [*self.ints(value[4], name), 0, 0, 0][: max(3, len(value[4]))]
            cut = (*shapes[0][:dim], hi - lo, *shapes[0][dim + 1 :])
            if more:
                cuts = (lo, hi, *more)
                if dim >= len(shapes[0]) or lo != 0 or more[-1] != shapes[0][dim] or list(cuts) != sorted(cuts):
                    raise self.error(f"{name}: no parts of dim {dim}", "[dim, 0, start of the second part, …, size]")
            elif len(value[4]) != 3 or cut != shapes[1] or hi > shapes[0][dim]:
                raise self.error(f"{name}: no block of the shapes", "[dim, start, limit]")
            same = Window(dim, lo, hi) if not more else None
        names = None if axes is None else tuple(axes)
        of = str(value[5]) if len(value) > 5 else None
        return DTensorPlacement(value[0], shapes[0], shapes[1], names, self.file, same, cuts, of)


def descriptor_path(text: str) -> str | None:
    """A stable name of an input or output from its AOT descriptor; None where it is no tensor.

    `ParamAOTInput(target='fc.weight')` → `fc.weight`, its gradient → `grad fc.weight`, the tensor inside of a DTensor →
    the same, `PlainAOTInput(idx=0)` → `input 0`. Descriptors of other kinds are their own name.
    """
    if text == "None" or len(text) > MAX_DESCRIPTOR:
        return None
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    return _path(node)


def exported_paths(outputs: Sequence[tuple[str, str]], inputs: Sequence[str]) -> list[str | None]:
    """Stable names of what an exported program returns, from its signature: kind and target of each output; `inputs`
    are the names of inputs, in order. What is written into a buffer or an argument is an output like others."""
    found: list[str | None] = []
    for kind, target in outputs:
        if kind == "USER_INPUT_MUTATION" and target in inputs:
            found.append(f"written input {inputs.index(target)}")
        elif kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            found.append(f"written {target}")
        else:
            found.append(f"grad {target}" if kind == "GRADIENT_TO_PARAMETER" else None)
    return found


def _path(node: ast.expr) -> str | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return ast.unparse(node)
    kind = node.func.id
    fields = {keyword.arg: keyword.value for keyword in node.keywords}
    if kind.startswith("SubclassGetAttr"):
        attribute = fields.get("attr")
        inner = isinstance(attribute, ast.Constant) and attribute.value in ("_local_tensor", "elem", "_elem")
        return _path(fields["base"]) if inner and "base" in fields else None
    if kind in ("SubclassSizeAOTInput", "SubclassStrideAOTInput", "SubclassSizeAOTOutput", "SubclassStrideAOTOutput"):
        return None
    target, index = fields.get("target"), fields.get("idx")
    if kind in ("ParamAOTInput", "BufferAOTInput") and isinstance(target, ast.Constant):
        return str(target.value)
    if kind == "GradAOTOutput" and "grad_of" in fields:
        return f"grad {_path(fields['grad_of'])}"
    if kind == "InputMutationAOTOutput" and "mutated_input" in fields:
        return f"written {_path(fields['mutated_input'])}"
    if kind == "TangentAOTInput" and "output" in fields:
        return f"tangent {_path(fields['output'])}"
    if kind in ("PlainAOTInput", "PlainAOTOutput") and isinstance(index, ast.Constant):
        return f"{'input' if kind == 'PlainAOTInput' else 'output'} {index.value!r}"
    return ast.unparse(node)
