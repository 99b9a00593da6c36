"""SPMD types that the relations file says of values (`expect:`): which values are meant, and what no value can be.

An entry that names nothing, an axis of one rank (along which all types are one), and two entries that reach the same
value are bad input, as is a type of an input that is placed otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers.relations import Relations, TypeRelation

from .given import GRADIENT

NAMES = 12
"""So many names are told where one fits nothing."""


def annotate(dist: Graph, mesh: Mesh, relations: Relations) -> None:
    """Writes the types that are said into a program. InputError where an entry says nothing, or twice."""
    backward = bool(relations.gradients) or any((port.path or "").startswith(GRADIENT) for port in dist.outputs)
    _check(dist, mesh, backward)
    known = _names(dist) if relations.expect else {}
    by: dict[Tensor, TypeRelation] = {}
    for relation in relations.expect:
        for axis in relation.types:
            if axis not in dict(mesh.axes):
                raise relation.place.error(f"expect: {relation.key}: no axis `{axis}`", expected=f"one of {mesh}")
            if mesh.axis_size(axis) == 1:
                raise relation.place.error(f"expect: {relation.key}: `{axis}` has one rank: every type is the same")
        found = list(_meant(known, relation.key))
        if not found:
            some = ", ".join(list(known)[-NAMES:])
            raise relation.place.error(f"expect: no value `{relation.key}`", expected=f"a name such as {some}")
        for value in found:
            if value in by:
                raise relation.place.twice(f"expect: `{value.name}` is spoken of", by[value].place)
            by[value] = relation
            _write(dist, value, relation, backward)


def _check(dist: Graph, mesh: Mesh, backward: bool) -> None:
    """Types that the dump says: of axes and dims that are there; where gradients are values, `I` is `R`."""
    for value, types in dist.types.items():
        for axis, word in types.items():
            if axis not in dict(mesh.axes) or (word[0] == "S" and int(word[1:]) >= len(value.shape)):
                said = f"the dump says that {value.type} `{value.name}` is {word}@{axis}"
                raise InputError(said, file=dist.file, expected=f"an axis of {mesh}, and a dim of the value")
            if word == "I" and backward:
                types[axis] = "R"


def check_inputs(dist: Graph, relations: Relations, held: Mapping[Tensor, Mapping[str, str]]) -> None:
    """InputError where an input is said to be of one type, and is placed as another."""
    from .typed import fits

    known = _names(dist) if relations.expect else {}
    inputs = {port.tensor for port in dist.inputs}
    for relation in relations.expect:
        for value in _meant(known, relation.key):
            for axis, word in relation.types.items() if value in inputs and value in held else ():
                placed = held[value][axis]
                if not fits(word, placed):
                    text = f"`{value.name}` is said to be {word}@{axis}, and is placed as {placed}@{axis}"
                    raise relation.place.error(f"expect: {text}")


def _write(dist: Graph, value: Tensor, relation: TypeRelation, backward: bool) -> None:
    mine = dist.types.setdefault(value, {})
    for axis, word in relation.types.items():
        if word == "I" and backward:
            raise relation.place.error(f"expect: `{value.name}`: I is said of a program whose backward is in it",
                                       expected="R: gradients are values there, with types of their own")  # fmt: skip
        if mine.get(axis, word) != word:
            raise relation.place.error(f"expect: the program says that `{value.name}` is {mine[axis]}@{axis}")
        if word[0] == "S" and int(word[1:]) >= len(value.shape):
            raise relation.place.error(f"expect: no dim {word[1:]} in {value.type} `{value.name}`")
        mine[axis] = word


def _names(dist: Graph) -> dict[str, list[Tensor]]:
    """Values by names and paths."""
    found: dict[str, list[Tensor]] = {}
    for port in (*dist.inputs, *dist.outputs):
        for name in {port.path, port.alias} - {None}:
            found.setdefault(str(name), []).append(port.tensor)
    for tensor in (*(p.tensor for p in dist.inputs), *(t for op in dist.ops for t in op.results)):
        found.setdefault(tensor.name, []).append(tensor)
    for name, tensor in dist.aliases.items():
        found.setdefault(name, []).append(tensor)
    return found


def _meant(known: Mapping[str, list[Tensor]], key: str) -> Iterator[Tensor]:
    if key in known:
        yield from dict.fromkeys(known[key])
    else:
        yield from dict.fromkeys(t for name, some in known.items() if fnmatchcase(name, key) for t in some)
