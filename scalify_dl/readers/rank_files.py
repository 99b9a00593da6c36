"""Files of ranks in the order of the ranks.

What a capture wrote beside its text (`"rank": 3, "mesh": {"dp": 2, "tp": 2}`) says which rank a file is of. Files
without are ranks 0 … n-1 as given; numbers in their names that stand in another order than that (a shell lists r10
before r2) are bad input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh


class RankOf(NamedTuple):
    """The rank that a file is of, and the mesh (axis, size) that it is on; axes None where only the number of ranks is
    known."""

    rank: int
    world: int
    axes: tuple[tuple[str, int], ...] | None = None


def in_order(files: Sequence[str | Path], notes: Sequence[RankOf | None], mesh: Mesh) -> list[str | Path]:
    """The files of ranks 0, 1, …; `notes` are what their captures say. One file alone is the program of all ranks.

    Raises InputError where ranks are missing, stand twice, are those of another mesh, or seem to stand in another
    order.
    """
    known = {str(file): note for file, note in zip(files, notes, strict=True) if note is not None}
    for file, note in known.items():
        _of_mesh(file, note, mesh)
    if not known:
        _named_in_order(files, mesh)
        return list(files)
    unknown = next((str(path) for path in files if str(path) not in known), None)
    if unknown is not None:
        raise InputError(
            f"no capture says which rank `{unknown}` is of, as those of other files do",
            file=unknown,
            hint="capture all ranks in one way, or leave `rank` out of every JSON file",
        )
    by_rank: dict[int, str | Path] = {}
    for path in files:
        rank = known[str(path)].rank
        if rank in by_rank:
            raise InputError(f"`{by_rank[rank]}` is of rank {rank}, too", file=path, expected="one file for each rank")
        by_rank[rank] = path
    missing = sorted(set(range(mesh.size)) - set(by_rank))
    if missing:
        some = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
        raise InputError(
            f"the program of rank {min(by_rank)} of {mesh.size} alone: rank {some} is missing"
            if len(files) == 1
            else f"rank {some} of {mesh.size} is missing",
            file=next(iter(by_rank.values())),
            expected=f"the files of all {mesh.size} ranks",
        )
    return [by_rank[rank] for rank in range(mesh.size)]


def _of_mesh(file: str, note: RankOf, mesh: Mesh) -> None:
    """The mesh of a capture is the one that is given."""
    theirs = [(axis, size) for axis, size in note.axes or () if size > 1]
    ours = [(axis, size) for axis, size in mesh.axes if size > 1]
    if note.world == mesh.size and (note.axes is None or [n for _, n in theirs] == [n for _, n in ours]):
        names = [axis for axis, _ in theirs], [axis for axis, _ in ours]
        if names[0] == names[1] or not set(names[0]) & set(names[1]):
            return
    there = ",".join(f"{axis}={size}" for axis, size in note.axes) if note.axes else f"{note.world} ranks"
    message = f"captured as rank {note.rank} of {there}, --mesh is {mesh}"
    raise InputError(message, file=file, expected=f"--mesh {there}")


_NUMBER = re.compile(r"\d+")
_RANK = re.compile(r"(?<![A-Za-z])(?:r|rank|dev|device|gpu|proc|worker)[-_]?(\d+)(?!\d)", re.IGNORECASE)


def _named_in_order(files: Sequence[str | Path], mesh: Mesh) -> None:
    """InputError where a file stands twice, or the numbers in names tell another order, or that a rank is missing."""
    names = [str(file) for file in files]
    for n, name in enumerate(names):
        if name in names[:n]:
            raise InputError(
                f"`{name}` stands twice", file=name, expected="one file for each rank, or one alone for all of them"
            )
    numbers = [[int(n) for n in _NUMBER.findall(name)] for name in names]
    varying: list[int] = []
    if len({_NUMBER.sub("#", name) for name in names}) == 1:
        varying = [k for k in range(len(numbers[0])) if len({row[k] for row in numbers}) > 1]
    elif all(len(_RANK.findall(name)) == 1 for name in names):
        numbers, varying = [[int(_RANK.findall(name)[0])] for name in names], [0]
    if not varying or _tell_order([[row[k] for k in varying] for row in numbers], names[0], varying, mesh):
        return
    ordered = [name for _, name in sorted(zip(numbers, names, strict=True))]
    first = next((name for name, other in zip(names, ordered, strict=True) if name != other), names[0])
    raise InputError(
        "the files are ranks 0, 1, … in the order given, but the numbers in their names tell another order, or that one"
        " is missing",
        file=first,
        expected=" ".join(ordered[:12]) + (" …" if len(ordered) > 12 else ""),
        hint="list the files in the order of the ranks (a shell puts r10 before r2), or capture with"
        " scalify_dl.capture.torch, which writes the rank beside each",
    )


def _tell_order(rows: Sequence[Sequence[int]], name: str, varying: Sequence[int], mesh: Mesh) -> bool:
    """Whether numbers (a row for each file) are those of ranks 0, 1, …: coordinates on named axes, or ascending."""
    axes = _axes_of(name, varying, mesh)
    if axes is not None:
        at = {axis: n for n, (axis, _) in enumerate(mesh.axes)}
        return [list(row) for row in rows] == [[place[at[axis]] for axis in axes] for place in mesh.coordinates]
    if any(_ascend(column) for column in zip(*rows, strict=True)):
        return True
    return len(varying) > 1 and all(a < b for a, b in pairwise(map(tuple, rows)))


def _ascend(column: Sequence[int]) -> bool:
    """Whether numbers ascend; those that begin like ranks (0, or 1) do so in equal steps."""
    steps = {b - a for a, b in pairwise(column)}
    return min(steps) > 0 and (column[0] > 1 or len(steps) == 1)


def _axes_of(name: str, varying: Sequence[int], mesh: Mesh) -> list[str] | None:
    """The mesh axes that stand before the varying numbers of a name (`dp0_tp1`); None where others do."""
    found = []
    axes = sorted((axis for axis, _ in mesh.axes), key=len, reverse=True)
    for k, match in enumerate(_NUMBER.finditer(name)):
        if k in varying:
            before = name[: match.start()].rstrip("-_=.")
            axis = next((a for a in axes if re.search(rf"(?<![A-Za-z]){re.escape(a)}\Z", before)), None)
            if axis is None:
                return None
            found.append(axis)
    return found if len(set(found)) == len(found) else None
