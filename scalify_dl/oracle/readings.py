"""What the values of a trial are of the baseline's: which tensor, times what, in parts of a sum over which axes.

A distributed value *reads* as a baseline value where all ranks together hold its numbers: as they are, times a product
of sizes of mesh axes (a mean for a sum), or as parts that add up over some axes. This is for finding and naming a
fault, never for deciding whether there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations, islice, product
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout, Pending

from .addressing import local_part
from .blocks import Blocks
from .compare import check, default_layouts, interleaved, stands, wrong
from .derived import derived
from .meaning import COLLECTIVES
from .program import Op, Shard
from .trial import Trial

Array = np.ndarray[Any, Any]
MATCH = 1e-9
"""Relative difference up to which numbers are taken for equal."""
_PLACING = {*COLLECTIVES, "slice", "dynamic-slice", "gather", "concatenate"}
"""Kinds of ops that put elements where they belong: what they make is in contiguous blocks, or it is elsewhere."""
_POWERS = (0, 1, -1, 2, -2)
_LAYOUTS = 64
"""So many placements of one value are compared."""
_ENDLESS = 1e12
"""Greater numbers stand for infinities, as those of masks do: beside them no difference would be seen."""
_LARGEST_RATIO = 64
"""Multiples by greater whole numbers are none that a program means."""
_MOST = 6
"""So many baseline values of the same numbers are looked at."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A distributed value as a baseline one: `scale` times it, in parts of a sum over `axes`.

    `placed`: its elements stand where contiguous blocks have them, as far as shapes let one compare.
    """

    base: str
    scale: Fraction = Fraction(1)
    axes: tuple[str, ...] = ()
    placed: bool = True


def _key(arrays: Iterable[Array]) -> tuple[tuple[Any, ...], float] | None:
    """Extremes and means of the numbers, coarse enough to survive rounding, the same however they are split or
    repeated; of reals relative to their mean magnitude, which comes with it. None where nothing can be said."""
    flat = [np.asarray(a) for a in arrays]
    if not flat or not flat[0].size or flat[0].dtype.kind == "c":
        return None
    real = np.concatenate([a.ravel() for a in flat]).astype(np.float64)
    finite = real[np.isfinite(real)]
    if not finite.size or bool(np.isnan(real).any()):
        return None
    endless = finite.size / real.size
    low, high, mean = float(finite.min()), float(finite.max()), float(finite.mean())
    size, square = float(np.abs(finite).mean()), float(np.square(finite).mean())
    if not size:
        return None
    if flat[0].dtype.kind != "f":
        return ("i", *(f"{n:.9e}" for n in (low, high, mean, size, square, endless))), 1.0
    if high - low <= MATCH * size:
        return ("splat", endless), high
    numbers = (low / size, high / size, mean / size, square / size / size)
    return ("f", f"{endless:.6f}", *(f"{0.0 if abs(n) < 1e-10 else n:.6e}" for n in numbers)), size


def _as_seen(value: Array) -> Array:
    """The numbers, infinities where they are but written so."""
    if value.dtype.kind != "f":
        return value
    with np.errstate(invalid="ignore"):
        large = np.abs(value) > _ENDLESS
    return np.where(large, np.copysign(np.inf, value), value) if large.any() else value


def _plain_ratio(size: float, other: float) -> Fraction | None:
    """A whole number, or one over a whole number, that one size is times another; None where it is no such number."""
    if not size or not other or size * other < 0:
        return None
    over = max(size / other, other / size)
    whole = round(over)
    if not 1 < whole <= _LARGEST_RATIO or abs(over - whole) > 1e-7 * whole:
        return None
    return Fraction(whole) if abs(size) > abs(other) else Fraction(1, whole)


def _same_numbers(base: Array, arrays: Iterable[Array], scale: Fraction) -> bool:
    """Whether the arrays together hold the numbers of `scale * base`, each equally often, wherever they stand; True
    where they are not as many times its elements (`_key` has to do)."""
    held = np.concatenate([a.ravel() for a in arrays])
    if not base.size or held.size % base.size:
        return True
    wanted = np.sort(base, axis=None)
    if scale != 1:
        wanted = np.sort(wanted * float(scale))
    held = np.sort(held).reshape(base.size, -1)
    size = np.nanmax(np.abs(wanted), initial=0.0, where=np.isfinite(wanted)) if base.dtype.kind == "f" else 0.0
    return bool(np.isclose(held, wanted[:, None], rtol=MATCH, atol=MATCH * size, equal_nan=True).all())


def _is_plain(layout: Layout) -> bool:
    """Whether no axis is taken in pieces."""
    return all(len(entries) == 1 for _, entries in layout.axes)


def _sources(
    base: Array, value: Mapping[int, Array], layout: Layout, coords: Mapping[int, Mapping[str, int]]
) -> dict[int, int]:
    """The rank that holds what each rank should in a placement, each of them once; empty where there is none."""
    senders = sorted(value)
    found: dict[int, int] = {}
    for rank in sorted(value, key=lambda r: wrong(value[r], local_part(base, layout, coords[r]), MATCH).any()):
        wanted = local_part(base, layout, coords[rank])
        own = sorted(senders, key=lambda sender: sender != rank)
        source = next((s for s in own if not wrong(value[s], wanted, MATCH).any()), None)
        if source is None:
            return {}
        senders.remove(source)
        found[rank] = source
    return found


class Readings:
    """Readings of the values of a trial that kept all of them; `relations` are correspondences that rules derived."""

    def __init__(self, trial: Trial, relations: Iterable[Shard] = ()) -> None:
        self.trial, self.program = trial, trial.program
        self._baseline = {tensor: _as_seen(value) for tensor, value in trial.baseline.items()}
        self._base: dict[tuple[Any, ...], list[tuple[str, float]]] = {}
        for tensor, value in self._baseline.items():
            found = _key([value])
            if found is not None:
                self._base.setdefault(found[0], []).append((tensor, found[1]))
        self._related: dict[str, list[Shard]] = {}
        for row in relations:
            self._related.setdefault(row.dist, []).append(row)
        self._memo: dict[str, list[Reading]] = {}
        self._lost: dict[str, bool] = {}
        self._layouts: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Layout]] = {}

    @cached_property
    def _merging(self) -> set[str]:
        """Distributed tensors whose dims may be merged ones, of which a cut dim is a part."""
        ops = [op for graph in self.program.top("dist") for op in graph.ops]
        return {t for op in ops if op.kind not in _PLACING for t in op.results}

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks(self._baseline.values(), MATCH)

    @cached_property
    def varying(self) -> set[str]:
        """Distributed tensors that depend on inputs or on random draws: what constants make has no reading."""
        return self._varying("dist")

    @cached_property
    def _fixed(self) -> Collection[str]:
        """Baseline tensors that constants make."""
        return self.trial.baseline.keys() - self._varying("base")

    def _varying(self, role: str) -> set[str]:
        found: set[str] = set()
        for graph in self.program.top(role):
            found.update(graph.inputs)
            for op in graph.ops:
                if op.kind == "dropout-mask" or op.kind.startswith("rng") or not found.isdisjoint(op.operands):
                    found.update(op.results)
        return found

    @cached_property
    def scales(self) -> list[tuple[float, Fraction]]:
        """Products of powers of axis sizes, the plain ones first."""
        found = {Fraction(1): 0}
        sizes = [size for size in self.program.mesh.values() if size > 1]
        for powers in product(_POWERS, repeat=min(len(sizes), 3)):
            scale = Fraction(1)
            for size, power in zip(sizes, powers, strict=False):
                scale *= Fraction(size) ** power
            effort = sum(map(abs, powers))
            found[scale] = min(effort, found.get(scale, effort))
        return [(float(scale), scale) for scale in sorted(found, key=lambda s: (found[s], s))]

    def of(self, tensor: str) -> list[Reading]:
        """All readings of a distributed tensor, the plainest first."""
        if tensor not in self._memo:
            value = self._value(tensor)
            self._memo[tensor] = [] if value is None else self._found(tensor, value)
        return self._memo[tensor]

    def deeper(self, wrong: Collection[str]) -> Readings:
        """Readings that also know what the program makes of the baseline's values and the baseline does not make
        itself; none of that for the wrong outputs."""
        found = Readings(self.trial, chain.from_iterable(self._related.values()))
        for op in (op for graph in self.program.top("dist") for op in graph.ops):
            if len(op.results) == 1 and op.results[0] not in wrong:
                found._derive(op)
        found.__dict__.pop("_blocks", None)
        return found

    def _derive(self, op: Op) -> None:
        tensor = op.results[0]
        value = self._value(tensor)
        if value is None or next(iter(value.values())).dtype.kind != "f" or not self.lost(tensor):
            self._lost.pop(tensor, None)
            return
        made = derived(op, self)
        key = None if made is None else _key([made])
        if made is None or key is None:
            return
        name, group = f"values at {op.id}", self._base.setdefault(key[0], [])
        self._baseline[name] = _as_seen(made)
        group.append((name, key[1]))
        self._memo[tensor] = self._found(tensor, value)
        self._lost.pop(tensor)
        if not self._memo[tensor]:
            group.pop()
            del self._baseline[name]

    def share(self, other: Readings) -> None:
        """Takes over what is known of values that are the same in another trial, on the same baseline."""
        theirs = other._baseline
        if any(t not in theirs or not np.array_equal(theirs[t], value) for t, value in self._baseline.items()):
            return
        for tensor, found in other._memo.items():
            before, here = other.trial.distributed.get(tensor), self.trial.distributed.get(tensor)
            if before is None or here is None or before.keys() != here.keys():
                continue
            known = all(reading.base in self._baseline for reading in found)
            if known and all(np.array_equal(before[rank], value) for rank, value in here.items()):
                self._memo[tensor] = found
                if tensor in other._lost:
                    self._lost[tensor] = other._lost[tensor]

    def held(self, tensor: str) -> dict[int, Array]:
        """What each rank holds of it; nothing where nobody kept it."""
        return self._value(tensor) or {}

    def values_of(self, base: str) -> Array:
        """The numbers of a baseline value, or of one that was derived."""
        return self._baseline[base]

    def resent(self, tensor: str, most: int = 8) -> list[dict[int, int]]:
        """Who would have to send its part to whom (a rank to its source) for a value to stand in contiguous blocks;
        every rank sends one part. None of what stands so already."""
        value = self._value(tensor) or {}
        found: list[dict[int, int]] = []
        shapes = {part.shape for part in value.values()}
        for reading in self.of(tensor):
            if reading.scale != 1 or reading.axes or len(shapes) != 1:
                continue
            base = self._baseline[reading.base]
            placements = self._placements(base.shape, next(iter(shapes)))[:most]
            ways = [(layout, _sources(base, value, layout, self.program.coords)) for layout in placements]
            stands = [layout for layout, sources in ways if sources and all(a == b for a, b in sources.items())]
            plainly = any(map(_is_plain, stands))  # an axis in pieces is no likelier
            for layout, sources in ways:
                if layout not in stands and sources and sources not in found and (_is_plain(layout) or not plainly):
                    found.append(sources)
        return found

    def _value(self, tensor: str) -> dict[int, Array] | None:
        value = self.trial.distributed.get(tensor)
        return None if value is None else {rank: _as_seen(part) for rank, part in value.items()}

    def lost(self, tensor: str) -> bool:
        """Whether it has numbers of its own that are nothing of the baseline's; what rules relate has none, nor have
        blocks of its values."""
        if tensor not in self._lost:
            if any(not row.dist_piece and not row.base_piece for row in self._related.get(tensor, ())):
                return self._lost.setdefault(tensor, False)
            value = self._value(tensor)
            says = value is not None and tensor in self.varying and _key(value.values()) is not None
            self._lost[tensor] = says and not self.of(tensor) and not self._blocks.hold(value or {})
        return self._lost[tensor]

    def _found(self, tensor: str, value: Mapping[int, Array]) -> list[Reading]:
        found = self._as_sum(tensor, value, ()) or list(dict.fromkeys(self._confirmed(tensor, value)))
        if found or tensor not in self.varying:
            return found
        axes = [axis for axis, size in self.program.mesh.items() if size > 1]
        if next(iter(value.values())).dtype.kind == "f":
            for count in range(1, len(axes) + 1):
                found = [r for summed in combinations(axes, count) for r in self._as_sum(tensor, value, summed)]
                if found:
                    return found
        return []

    def _confirmed(self, tensor: str, value: Mapping[int, Array]) -> Iterable[Reading]:
        """What rules derived of the whole of it, where the numbers agree."""
        for row in self._related.get(tensor, ()):
            base = self._baseline.get(row.base)
            pending = {e.reducer: axis for axis, entries in row.layout.axes for e in entries if isinstance(e, Pending)}
            if base is None or row.base_piece or row.dist_piece or pending.keys() - {"sum"}:
                continue
            try:
                if check(base, (), value, (), row.layout, self.program.coords, MATCH) is None:
                    axes = tuple(a for a, es in row.layout.axes if any(isinstance(e, Pending) for e in es))
                    placed = bool(axes) or self._placed(tensor, base, value, row.layout.scale) is not False
                    yield Reading(row.base, row.layout.scale, axes, placed)
            except (ValueError, IndexError, InputError):
                continue

    def _as_sum(self, tensor: str, value: Mapping[int, Array], axes: tuple[str, ...]) -> list[Reading]:
        """Baseline values that the sum over these axes is, up to a scale."""
        coords = self.program.coords
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank in value:
            kept = tuple(coords[rank].get(a, 0) for a in self.program.mesh if a not in axes)
            groups.setdefault(kept, []).append(rank)
        sums = {ranks[0]: np.sum([value[r] for r in ranks], axis=0) if axes else value[ranks[0]]
                for ranks in groups.values()}  # fmt: skip
        whole = {rank: sums[ranks[0]] for ranks in groups.values() for rank in ranks}
        fixed = self._fixed if tensor in self.varying else frozenset[str]()
        found = [(base, scale, placed) for base, scale in self._alike(sums.values(), fixed)
                 if (placed := self._placed(tensor, self._baseline[base], whole, scale))
                 or _same_numbers(self._baseline[base], whole.values(), scale)]  # fmt: skip
        stands = {placed for _, _, placed in found}
        if None in stands and False in stands and True not in stands:  # what could be compared is elsewhere
            found = [row for row in found if row[2] is False]
        return sorted((Reading(base, scale, axes, placed is not False) for base, scale, placed in found),
                      key=lambda r: not r.placed)  # fmt: skip

    def _alike(self, arrays: Iterable[Array], fixed: Collection[str]) -> list[tuple[str, Fraction]]:
        """Baseline tensors of the same numbers up to a scale, the plainest scale first; of one number, none of those
        that are fixed, which it may be by chance."""
        arrays = list(arrays)
        found = _key(arrays)
        if found is None:
            return []
        key, size = found
        of_key = [row for row in self._base.get(key, ()) if key[0] != "splat" or row[0] not in fixed]
        out = []
        for rough, scale in self.scales if arrays[0].dtype.kind == "f" else self.scales[:1]:
            same = [t for t, other in of_key if abs(size - rough * other) <= 1e-7 * abs(size)]
            out += [(t, scale) for t in same[:_MOST]]
            if out:
                break
        if arrays[0].dtype.kind == "f" and all(scale != 1 for _, scale in out):  # by another number: of micro-batches
            found_scales = ((t, _plain_ratio(size, other)) for t, other in of_key)
            known = {t for t, _ in out}
            out += [(t, scale) for t, scale in found_scales if scale is not None and t not in known][:_MOST]
        return out

    def _placements(self, base: tuple[int, ...], local: tuple[int, ...]) -> list[Layout]:
        """The default placements between two shapes, which layers of a model share."""
        if (base, local) not in self._layouts:
            self._layouts[base, local] = list(islice(default_layouts(base, local, self.program.mesh), _LAYOUTS))
        return self._layouts[base, local]

    def _placed(self, tensor: str, base: Array, value: Mapping[int, Array], scale: Fraction) -> bool | None:
        """Whether elements stand where some default placement has them, dims merged perhaps; None where shapes are none
        of a placement's."""
        local = next(iter(value.values())).shape
        scaled = value if scale == 1 else {r: x / float(scale) for r, x in value.items()}
        plain = self._placements(base.shape, local)
        merged = (m for layout in plain for m in interleaved(layout, local)) if tensor in self._merging else ()
        for layout in chain(plain, islice(merged, _LAYOUTS)):
            if stands(base, scaled, layout, self.program.coords, MATCH):
                return True
        return False if plain else None
