"""What is there before the step: weights by their slices, batches by their place, the gradient of the loss.

Lemma L2: weights are alike on all dp copies, and over micro-batches, since nothing writes them before the last backward
(L6); the placements are listed as assumptions. Lemma L7: copy d reads for micro-batch m the (d · nm + m)-th block of
the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from scalify_dl.ir.graph import Tensor
from scalify_dl.pairing.builder import Distributed

from .meanings import dtype
from .model import Part, Side
from .world import BLOCK, MB, TP, Unit, World

_CUTS = ((TP,), (BLOCK,), (BLOCK, TP), (TP, BLOCK))
"""Mesh axes over which a dim of a weight may be cut."""


class NotFolded(Exception):
    """The fold does not cover something; the text names it. `op` is the op to blame."""

    def __init__(self, text: str, op: str = "") -> None:
        super().__init__(text)
        self.op = op


class Given:
    """Given values of the folded program, each placed once."""

    def __init__(self, base: Side, plan: Side, world: World, dist: Distributed, inputs: Mapping[str, Tensor]) -> None:
        self.base, self.plan, self.world, self.dist, self.inputs = base, plan, world, dist, inputs
        self._made: dict[object, Tensor] = {}
        self._first: dict[str, tuple[Mapping[int, tuple[str, ...]], Mapping[Unit, Part], Tensor]] = {}
        """Of every weight, how it was placed first, and what every unit has of it: other slices are cut out of that."""

    def value(self, tensors: Mapping[Unit, str]) -> Tensor:
        """A given value: what every unit has of one tensor of the model."""
        some = next(iter(tensors.values()))
        full = self.plan.full(some)
        if full.loss and full.gradient:
            return self._once(
                ("loss", full.shape), lambda: self.dist.full(1, self.plan.part(some).shape, dtype(full.dtype))
            )
        parts = {unit: self.plan.part(tensor) for unit, tensor in tensors.items()}
        return self.weight(full.name, full.shape, full.dtype, parts)

    def weight(self, name: str, shape: Sequence[int], kind: str, parts: Mapping[Unit, Part]) -> Tensor:
        """A weight by the slices that the units have."""
        base = self.inputs.get(name)
        if base is None:
            return self._once(
                ("unknown", name), lambda: self.dist.graph.input(name, dtype(kind), next(iter(parts.values())).shape)
            )
        if tuple(base.shape) != tuple(shape):
            raise NotFolded(f"`{name}` is {list(shape)} in the plan and {list(base.shape)} in the single-device step")
        placed = self.placement(shape, parts)
        first = self._first.get(name)
        if first is None and placed is not None:
            self._first[name] = placed, dict(parts), self.dist.shard(name, placed)
        elif first is None:
            whole = Part(next(iter(parts.values())).full, tuple((0, n) for n in shape))
            self._first[name] = {}, dict.fromkeys(self.world.units, whole), self.dist.shard(name, {})
        axes, held, tensor = self._first[name]
        if placed == axes:
            return tensor
        if len({part.shape for part in parts.values()}) > 1:
            raise NotFolded(f"ranks have slices of `{name}` of different sizes")
        if not all(unit in held and _inside(part, held[unit]) for unit, part in parts.items()):
            raise NotFolded(f"ranks have slices of `{name}` in several ways")
        key = (name, *sorted((u, p.spans) for u, p in parts.items()))
        return self._once(key, lambda: self._cut(tensor, parts, held))

    def placement(self, shape: Sequence[int], parts: Mapping[Unit, Part]) -> dict[int, tuple[str, ...]] | None:
        """Dims that are cut in blocks over tp, over the copies of a block, or both; None where slices lie otherwise."""
        dims: dict[int, tuple[str, ...]] = {}
        for dim, size in enumerate(shape):
            spans = {unit: part.spans[dim] for unit, part in parts.items()}
            if all(span == (0, size) for span in spans.values()):
                continue
            found = next((axes for axes in _CUTS if self._blocks(axes, size, spans)), None)
            if found is None or any(axis in axes for axes in dims.values() for axis in found):
                return None
            dims[dim] = found
        return dims

    def _blocks(self, axes: tuple[str, ...], size: int, spans: Mapping[Unit, tuple[int, int]]) -> bool:
        """Whether every unit has its block, in the order of these axes."""
        count = {TP: self.world.tp, BLOCK: self.world.period}
        block, rest = divmod(size, prod(count[axis] for axis in axes))
        if rest:
            return False
        for (d, _, t), span in spans.items():
            at, place = 0, {TP: t, BLOCK: d % self.world.period}
            for axis in axes:
                at = at * count[axis] + place[axis]
            if span != (at * block, (at + 1) * block):
                return False
        return True

    def _cut(self, x: Tensor, parts: Mapping[Unit, Part], held: Mapping[Unit, Part]) -> Tensor:
        """Slices that lie anywhere, out of what the ranks have of the weight."""
        for dim in range(len(x.shape)):
            bounds = []
            for side in (0, 1):
                found = {unit: part.spans[dim][side] - held[unit].spans[dim][0] for unit, part in parts.items()}
                numbers = dict.fromkeys(range(self.world.mesh.size), next(iter(found.values())))
                bounds.append(numbers | {self.world.virtual(unit): number for unit, number in found.items()})
            if any(set(numbers.values()) != {edge} for numbers, edge in zip(bounds, (0, x.shape[dim]), strict=True)):
                x = self.dist.slice(x, dim, *bounds)
        return x

    def batch(self, tensors: Mapping[Unit, str]) -> Tensor:
        """A block of the batch for every copy and micro-batch."""
        some = next(iter(tensors.values()))
        full, part = self.plan.full(some), self.plan.part(some)
        base = self.inputs.get(full.name)
        blocks = self.world.dp * self.world.micro_batches
        if base is None:
            raise NotFolded(f"the single-device step loads no `{full.name}`")
        if any(self.plan.part(tensor).spans != part.spans for tensor in tensors.values()):
            raise NotFolded(f"ranks load different parts of `{full.name}`")
        cut = [d for d, (n, m) in enumerate(zip(base.shape, part.shape, strict=True)) if n != m]
        if not cut and blocks == 1:
            return self._once((full.name, "batch"), lambda: self.dist.shard(full.name, {}))
        if len(cut) != 1 or base.shape[cut[0]] != blocks * part.shape[cut[0]]:
            raise NotFolded(
                f"`{full.name}` is {list(part.shape)} of {list(base.shape)}: {blocks} even micro-batches are expected"
            )
        axes = [*self.world.copy_axes, MB]
        return self._once((full.name, "batch"), lambda: self.dist.shard(full.name, {cut[0]: axes}))

    def _once(self, key: object, make: object) -> Tensor:
        if key not in self._made:
            self._made[key] = make()  # type: ignore[operator]
        return self._made[key]


def _inside(part: Part, held: Part) -> bool:
    return all(lo >= a and hi <= b for (lo, hi), (a, b) in zip(part.spans, held.spans, strict=True))
