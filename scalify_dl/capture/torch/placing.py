"""Where the plain inputs and outputs of captured ranks lie: placements of what the values of a run tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers.fx.annotation import UNPLACED

from .layouts import layout_entries, layout_entry
from .packed import Packing, packing_of
from .written import Dump

__all__ = ["place_by_values"]

Values = Mapping[str, torch.Tensor]


def place_by_values(folder: Path, path: str, mesh: Mesh) -> None:
    """Adds placements of plain inputs to the dumps of all ranks, as the values of baseline and ranks tell them, which
    lie in a folder; inputs that are several in a row, each cut by itself, are several inputs then."""
    whole = torch.load(folder / "base")
    parts = [torch.load(folder / f"r{rank}") for rank in range(mesh.size)]
    base, ranks = Dump.read(f"{path}.base"), [Dump.read(f"{path}.r{rank}") for rank in range(mesh.size)]
    packed: dict[str, Packing] = {}
    for what, value in whole.items():
        held = {r: values[what] for r, values in enumerate(parts) if what in values}
        if not held or any(what in ranks[r].note["placements"] for r in held):
            continue
        entries = layout_entries(value, held, mesh)
        if any(str(entry[0]).startswith(UNPLACED) for entry in entries.values()):
            packing = packing_of(value, held, mesh)
            if packing is not None:
                packed[what] = packing
        for r, entry in entries.items():
            ranks[r].note["placements"][what] = entry
    for what, (of, entry) in _of_other_names(whole, parts, mesh).items():
        for r in range(mesh.size):
            ranks[r].note["placements"].setdefault(what, [*entry, *[None] * (5 - len(entry)), of])
    packed |= dict(_siblings(packed, whole, parts, mesh))
    for what, packing in packed.items():
        _packed(what, packing, whole[what].shape, base, ranks, mesh)
    for dump in ranks:
        placements = dump.note["placements"]
        placed = {name: placements.get(what) for name, what in dump.note["inputs"]}
        for name, what in dump.note["outputs"]:  # what an input holds in the end lies as the input does
            if placed.get(name) is not None:
                placements.setdefault(what, placed[name])
    for rank, dump in enumerate(ranks):
        dump.write(f"{path}.r{rank}")
    if packed:
        base.write(f"{path}.base")


def _of_other_names(
    whole: Values, parts: Sequence[Values], mesh: Mesh
) -> dict[str, tuple[str, list[Any]]]:
    """Inputs whose name the baseline does not have, and that are cuts of just one that the ranks do not have."""
    everywhere = set.intersection(*(set(values) for values in parts)) - whole.keys()
    free = [what for what in whole if not any(what in values for values in parts)]
    found: dict[str, tuple[str, list[Any]]] = {}
    for what in sorted(everywhere):
        held = {r: values[what] for r, values in enumerate(parts)}
        if held[0].unique().numel() < 2:  # one number is no sign of anything
            continue
        entries = [(of, layout_entry(whole[of], held, mesh)) for of in free]
        fits = [(of, entry) for of, entry in entries if entry is not None and not entry[0].startswith(UNPLACED)]
        if len(fits) == 1:
            found[what] = fits[0]
    taken = [of for of, _ in found.values()]
    return {what: fit for what, fit in found.items() if taken.count(fit[0]) == 1}


def _siblings(
    packed: Mapping[str, Packing], whole: Values, parts: Sequence[Values], mesh: Mesh
) -> list[tuple[str, Packing]]:
    """Tensors whose equal numbers fit any cut (a bias of zeros), and that lie in the module of one that is packed."""
    found = []
    for what, value in whole.items():
        held = {r: values[what] for r, values in enumerate(parts) if what in values}
        near = {packing for other, packing in packed.items() if _module(other) == _module(what)}
        fits = [packing for packing in near if what not in packed and packing.fits(value, held, mesh)]
        if len(fits) == 1:
            found.append((what, fits[0]))
    return found


def _module(path: str) -> str:
    return path.rpartition(".")[0]


def _packed(
    what: str, packing: Packing, shape: Sequence[int], base: Dump, ranks: Sequence[Dump], mesh: Mesh
) -> None:
    """Places an input that is packed, and the outputs that lie as it does."""
    outputs = set.intersection(*(dump.alike(what) for dump in (base, *ranks)))
    entry = packing.entry(shape, mesh)
    if entry is not None:
        for dump in ranks:
            dump.note["placements"] |= dict.fromkeys([what, *outputs], entry)
        return
    names = packing.names(what)
    base.take_apart(what, packing.dim, packing.whole, names, outputs)
    for dump in ranks:
        dump.take_apart(what, packing.dim, packing.local, names, outputs)
        placements = dump.note["placements"]
        del placements[what]
        for n, name in enumerate(names):
            of = [name, *(path + name.removeprefix(what) for path in outputs)]
            placements |= dict.fromkeys(of, packing.entry_of(n, shape, mesh))
