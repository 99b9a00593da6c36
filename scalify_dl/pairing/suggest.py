"""What inputs without a partner may be: those of the baseline whose sizes fit, one each or several in a row. A guess by
sizes alone, for people to confirm (`dlverify relate`); no verdict rests on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Port
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Placement, inferred

from .pairing import Finder, by_name
from .patterns import NAME, Entry, plain, starred

LONGEST = 8
"""Inputs of the baseline that one distributed input may hold."""
_MANY = 400


@dataclass(frozen=True)
class Holds:
    """Positions of the baseline whose inputs a distributed input may hold, along a dim if they are several, and how
    they are placed."""

    base: tuple[int, ...]
    dim: int
    placement: Placement


def in_order(base: Sequence[Port], dist: Sequence[Port], mesh: Mesh) -> tuple[list[Holds], bool]:
    """What each distributed input may hold, so that all of the baseline are held, in their order; and whether this is
    the only way. Empty if there is none. Positions are those of these sequences."""
    if not dist or len(base) > _MANY:
        return [], False
    ways: dict[tuple[int, int], int] = {(len(dist), len(base)): 1}
    first: dict[tuple[int, int], Holds] = {}
    for d in reversed(range(len(dist))):
        for b in reversed(range(d, len(base))):
            for n in range(1, min(LONGEST, len(base) - b) + 1):
                after = ways.get((d + 1, b + n), 0)
                held = _held(base, range(b, b + n), dist[d], mesh) if after else []
                for one in held:
                    first.setdefault((d, b), one)
                ways[d, b] = min(2, ways.get((d, b), 0) + after * len(held))
    if not ways.get((0, 0)):
        return [], False
    found: list[Holds] = []
    for d in range(len(dist)):
        found.append(first[d, found[-1].base[-1] + 1 if found else 0])
    return found, ways[0, 0] == 1


def alone(base: Sequence[Port], dist: Port, mesh: Mesh) -> list[int]:
    """Positions of the inputs of the baseline that this one may be."""
    return [n for n in range(len(base)) if _held(base, range(n, n + 1), dist, mesh)]


def _held(base: Sequence[Port], run: range, dist: Port, mesh: Mesh) -> list[Holds]:
    """How a distributed input may hold these of the baseline: by no dim, one or several."""
    shapes = [base[n].tensor.shape for n in run]
    if any(base[n].tensor.dtype != dist.tensor.dtype for n in run) or len({len(shape) for shape in shapes}) > 1:
        return []
    if len(shapes) == 1:
        placement = _placed(shapes[0], dist, mesh)
        return [] if placement is None else [Holds(tuple(run), 0, placement)]
    found = []
    for dim in range(len(shapes[0])):
        whole = [sum(shape[dim] for shape in shapes) if d == dim else n for d, n in enumerate(shapes[0])]
        placement = inferred(whole, dist.tensor.shape, mesh)
        if placement is not None and all(_divides(shape, whole, dim, placement, mesh) for shape in shapes):
            found.append(Holds(tuple(run), dim, placement))
    return found


def _placed(shape: Sequence[int], dist: Port, mesh: Mesh) -> Placement | None:
    """How one input of this shape is placed, as far as its dump or its shape says; the dump's own word stays there."""
    if dist.placement is None:
        return inferred(shape, dist.tensor.shape, mesh)
    try:
        fits = dist.placement.layout(shape, mesh).local_shape == dist.tensor.shape
    except InputError:
        return None
    return Placement() if fits else None


def _divides(shape: Sequence[int], whole: Sequence[int], dim: int, placement: Placement, mesh: Mesh) -> bool:
    """Whether a part may stand beside others of the whole, and is placed as they are."""
    if any(a != b for d, (a, b) in enumerate(zip(shape, whole, strict=True)) if d != dim):
        return False
    try:
        placement.layout(shape, mesh)
    except InputError:
        return False
    return True


def called(ports: Sequence[Port], position: int) -> str:
    """What names a port in a relations file: its path, if nothing else is called so, else its position."""
    path = ports[position].path
    return f"#{position}" if path is None or Finder(ports).find(path) != [position] else path


def key(ports: Sequence[Port], position: int) -> str:
    """The same, as YAML has it."""
    return plain(called(ports, position))


def dims_of(placement: Placement) -> str:
    return "{" + ", ".join(f"{d}: [{', '.join(map(str, parts))}]" for d, parts in placement.dims.items()) + "}"


@dataclass(frozen=True)
class Pairs:
    """Distributed position → position of the baseline and how that is known (values, name, position); positions that
    are left over on both sides."""

    found: dict[int, tuple[int, str]]
    dist: list[int]
    base: list[int]


def pairs_of(base: Sequence[Port], dist: Sequence[Port], given: Mapping[int, int], why: str, what: str) -> Pairs:
    """Pairs that are given, by path, and by position where none is left over and all have as many dims."""
    found = {d: (b, why) for d, b in given.items()}
    found |= {d: (b, "name") for d, b in by_name(base, dist, given, ()).items()}
    taken = {b for b, _ in found.values()}
    rest = [n for n in range(len(dist)) if n not in found], [n for n in range(len(base)) if n not in taken]
    fit = len(rest[0]) == len(rest[1]) and all(
        len(dist[d].tensor.shape) == len(base[b].tensor.shape) for d, b in zip(*rest, strict=True)
    )
    if fit:
        found |= {d: (b, "position") for d, b in zip(*rest, strict=True)}
        rest = [], []
    elif what == "input" and not rest[0]:
        rest = [], []  # what is left, the distributed program does not use
    return Pairs(found, *rest)


def entry(
    held: Holds, base: Sequence[Port], positions: Sequence[int], dist: Sequence[Port], position: int, about: str = ""
) -> Entry:
    """What a relations file says of an input that holds these of the baseline."""
    names = tuple(called(base, positions[b]) for b in held.base)
    if len(names) > 1:
        text = f"{{of: [{', '.join([NAME] * len(names))}], dim: {held.dim}, dims: {dims_of(held.placement)}}}"
    else:
        text = f"{{base: {NAME}{f', dims: {dims_of(held.placement)}' if held.placement.dims else ''}}}"
    return Entry(called(dist, position), names, text + about)


def fitting(base: Sequence[Port], dist: Sequence[Port], given: Mapping[int, int], mesh: Mesh) -> str:
    """Lines of a relations file for inputs that have no partner, as their sizes suggest; empty where they do not."""
    pairs = pairs_of(base, dist, given, "given", "input")
    held, only = in_order([base[n] for n in pairs.base], [dist[n] for n in pairs.dist], mesh)
    entries = [entry(one, base, pairs.base, dist, d) for d, one in zip(pairs.dist, held, strict=False)]
    lines = [f"  {one.written()}" for one in starred(entries, dist)]
    return "\n".join(["inputs:" + ("" if only else "  # one way that sizes fit"), *lines]) if lines else ""
