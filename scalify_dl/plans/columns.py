"""Values of the folded program that units take from where the plan takes them.

An operand of a slot is a *column*: for every unit the tensor that its op reads. Mostly that is the result of one slot
on the unit itself. Where a unit reads what another unit or another slot made, the value is moved
(`collective-permute`) and chosen (`select` by a flag of the rank): exact, whatever the plan does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.programs import Program

from .world import Unit, World

Home = tuple[object, int]
"""Who makes a value: a slot's name (or what stands for something given), and which result."""
Column = Mapping[Unit, tuple[Home, Unit] | None]
"""Unit → who makes what it reads, and on which unit; None where nobody does."""


@dataclass
class Columns:
    """Makes columns of values in the folded program."""

    program: Program
    world: World
    lacking: dict[Tensor, tuple[frozenset[Unit], Tensor]] = field(default_factory=dict)
    """What is `empty` on some units, and what it is on the others."""

    def flag(self, units: Iterable[Unit], shape: tuple[int, ...]) -> Tensor:
        """True on some units."""
        p, chosen = self.program, set(map(self.world.virtual, units))
        number = p.rank_constant({v: int(v in chosen) for v in range(self.world.mesh.size)})
        flag = p.compare(number, p.constant(1, "s32"), direction="EQ")
        return p.broadcast(flag, shape, ()) if shape else flag

    def select(self, units: Iterable[Unit], some: Tensor, other: Tensor) -> Tensor:
        """One value on some units, another one elsewhere."""
        units = frozenset(units)
        absent, whole = self.lacking.get(some, (units, some))
        some = some if absent & units else whole  # it is not empty there
        absent, whole = self.lacking.get(other, (frozenset(self.world.units), other))
        other = whole if absent <= units else other  # it is empty nowhere else
        return self.program.select(self.flag(units, tuple(some.shape)), some, other)

    def empty(self, like: Tensor) -> Tensor:
        """What nobody made."""
        return self.program.op("empty", dtype=like.dtype, shape=like.shape).result

    def without(self, units: Iterable[Unit], x: Tensor) -> Tensor:
        """A value that some units do not make."""
        out = self.select(units, self.empty(x), x)
        self.lacking[out] = frozenset(units), x
        return out

    def value(self, column: Column, values: Mapping[Home, Tensor]) -> Tensor:
        """The value of a column; all its parts have one shape."""
        parts: dict[Home | None, dict[Unit, Unit]] = defaultdict(dict)
        for unit, source in column.items():
            parts[source[0] if source else None][unit] = source[1] if source else unit
        missing = parts.pop(None, None)
        out: Tensor | None = None
        for home, sources in sorted(parts.items(), key=lambda part: -len(part[1])):
            x = values[home] if home else None
            assert x is not None
            x = self._moved(x, sources)
            out = x if out is None else self.select(sources, x, out)
        assert out is not None
        return self.select(missing, self.empty(out), out) if missing else out

    def _moved(self, x: Tensor, sources: Mapping[Unit, Unit]) -> Tensor:
        """A value brought to every unit from its source."""
        rounds: list[dict[Unit, Unit]] = []
        for unit, source in sources.items():
            if unit == source:
                continue
            for one in rounds:
                if source not in one.values():
                    one[unit] = source
                    break
            else:
                rounds.append({unit: source})
        out = x
        for one in rounds:
            pairs = [(self.world.virtual(source), self.world.virtual(unit)) for unit, source in one.items()]
            moved = self.program.permute(x, pairs)
            out = moved if len(one) == len(self.world.units) else self.select(one, moved, out)
        return out
