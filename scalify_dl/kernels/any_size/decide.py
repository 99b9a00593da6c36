"""Whether a kernel computes what is stated for all sizes of some names: one run of each on formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalify_dl.algebra import form as algebra
from scalify_dl.algebra.effort import now
from scalify_dl.algebra.extended import Cell
from scalify_dl.algebra.form import Field, Form
from scalify_dl.algebra.same import same
from scalify_dl.readers.tir.syntax import Buffer, Kernel
from scalify_dl.sizes import Narrower, Untold, narrowed, symbol

from ..domain import Undecided
from .machine import Frame, Machine
from .places import Cut, Key, Mirrored, Place, cut, whole
from .positions import apart, nowhere_below_zero

Stated = Callable[[Machine, list[Buffer], list[list[Place]]], list[Cell]]
"""What is stated of elements of the outputs at places, from the machine that reads the arguments."""
Read = Callable[[Mapping[str, Any]], tuple[Kernel, Stated]]
"""The kernel at sizes, and what is stated of it."""
MOST_TURNS = 60
HELD = "sizes, and places made of them, are numbers that their types hold"
WORDS = {"nonzero": "what is divided by is not zero", "positive": "what a logarithm is taken of is above zero",
         "nonnegative": "what a root is taken of is not below zero"}  # fmt: skip


@dataclass(slots=True)
class Answer:
    """Whether it is so for all sizes; for which ones (each name as a product of numbers above 0); if not, why not."""

    proved: bool
    sizes: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    line: int = 0
    assumptions: list[tuple[str, str]] = field(default_factory=list)
    casts: list[tuple[int, str, str]] = field(default_factory=list)


def for_all_sizes(names: Sequence[str], read: Read, seconds: float, *, reals: bool) -> Answer:
    """The answer. Where one size has to be a multiple of another, it is taken to be, and said."""
    sizes: dict[str, int] = {name: symbol(name) for name in names}
    cuts: dict[Key, tuple[int, ...]] = {}
    deadline = now() + seconds
    kernel: tuple[Kernel, Stated] | None = None
    for _ in range(MOST_TURNS):
        try:
            kernel = kernel or read(sizes)
            return _compared(*kernel, sizes, cuts, deadline, reals=reals)
        except Narrower as error:
            sizes, kernel, cuts = narrowed(sizes, error), None, {}
        except Mirrored as error:
            if error.key in cuts:
                return Answer(False, sizes, "a loop that counts up and down")
            cuts[error.key] = ()
        except Cut as error:
            try:
                cut(cuts, error)
            except Narrower as inner:
                sizes, kernel, cuts = narrowed(sizes, inner), None, {}
            except (Undecided, Untold) as inner:
                return Answer(False, sizes, str(inner))
        except Undecided as error:
            return Answer(False, sizes, str(error), error.line)
        except (Untold, algebra.Undecided) as error:
            return Answer(False, sizes, str(error))
    return Answer(False, sizes, "its places are cut in too many ways")


def _compared(
    kernel: Kernel, stated: Stated, sizes: dict[str, int], cuts: dict[Key, tuple[int, ...]], deadline: float, *,
    reals: bool,
) -> Answer:  # fmt: skip
    basis = Field(most_terms=3000, deadline=deadline)
    basis.nowhere_below_zero = nowhere_below_zero
    machine = Machine(kernel, basis, cuts, deadline, reals=reals)
    machine.run()
    tiles, places = [], []
    for buffer in kernel.outputs:
        tile = machine.memory.get(id(buffer))
        if tile is None:
            return Answer(False, sizes, f"nothing writes `{buffer.name}`")
        tiles.append(tile)
        places.append([whole(dim) for dim in tile.dims])
    wanted = stated(machine, kernel.outputs, places)
    for buffer, tile, cell in zip(kernel.outputs, tiles, wanted, strict=True):
        if not _equal(basis, tile.cell, cell):
            return Answer(False, sizes, f"`{buffer.name}` is computed in another way: the formulas differ")
    needs = dict.fromkeys(need.what for need in basis.needs)
    assumptions = [("all elements of arguments are finite", "finite"), (HELD, "range")]
    assumptions += machine.elements.assumed.items()
    assumptions += [(WORDS.get(what, what), what if what in WORDS else "constant") for what in needs]
    return Answer(True, sizes, assumptions=assumptions, casts=[*machine.elements.casts])


def _equal(basis: Field, one: Cell, other: Cell) -> bool:
    """Whether they are one, as they are or with places compared digit by digit."""
    if same(basis, one, other):
        return True
    if not isinstance(one, Form) or not isinstance(other, Form):
        return False
    return same(basis, apart(basis, one), apart(basis, other))


def of_kernel(other: Kernel, names: Mapping[str, str], *, reals: bool) -> Stated:
    """What another kernel computes; `names` are those of the arguments that its own are."""

    def stated(machine: Machine, outputs: list[Buffer], places: list[list[Place]]) -> list[Cell]:
        found = Machine(other, machine.basis, machine.cuts, machine.deadline, reals=reals, called="spec", names=names)
        found.run()
        machine.elements.assumed |= found.elements.assumed
        cells = []
        for buffer, at in zip(other.outputs, places, strict=True):
            tile = found.memory.get(id(buffer))
            if tile is None:
                raise Undecided(f"nothing writes `{buffer.name}`")
            cells.append(found.held(tile, at, buffer))
        return cells

    return stated


__all__ = ["Answer", "Frame", "Read", "Stated", "for_all_sizes", "of_kernel"]
