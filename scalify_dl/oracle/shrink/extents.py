"""The factor structure of sizes: which parts of which dims must keep the same size, and which may become small.

Every dim of every tensor (and every integer tensor, as what it counts) is an *extent*. An extent is cut at *boundaries*
1 = b0 | b1 | … | bm = n into atoms, minor to major: dim 256 of [heads, head dim] = 4 × 64 has boundaries 1, 64, 256.
Ops say that intervals of two extents are the same digits (`link`): boundaries inside then are boundaries of both. What
cannot be cut so (offsets, sizes that do not divide) is *opaque*: an interval that keeps its ratio. Atoms that no opaque
interval touches can take any size, so they all become `least`. Everything is exact: an offset q in an opaque interval
from `lo` on is a multiple of `lo` and becomes q / lo · (new size of lo).

Example: slices [0:2048], [2048:2560], [2560:3072] of a fused dim make [512, 3072] opaque: it becomes 6 blocks of a
smaller 512.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd

from scalify_dl.errors import InputError

UNKNOWN = 0


@dataclass(slots=True)
class _Extent:
    size: int
    chain: list[int]
    opaque: list[tuple[int, int]] = field(default_factory=list)
    literals: set[int] = field(default_factory=set)
    frozen: bool = False


class Conflict(InputError):
    """An offset that the structure does not reach: the program cannot be shrunk."""


class Extents:
    """Extents under construction; `solve` closes the constraints and gives the new sizes.

    Extents are numbers from `new`. Size 0 means that it is not known yet (what an integer tensor counts).
    """

    def __init__(self) -> None:
        self._extents: list[_Extent] = []
        self._parent: list[int] = []
        self._links: list[tuple[int, int, int, int, int]] = []
        self._differ: list[tuple[int, int]] = []

    def new(self, size: int = UNKNOWN) -> int:
        """A fresh extent."""
        self._extents.append(_Extent(size, [1, size] if size > 1 else [1]))
        self._parent.append(len(self._parent))
        return len(self._parent) - 1

    def root(self, a: int) -> int:
        """The representative of an extent."""
        while self._parent[a] != a:
            self._parent[a] = self._parent[self._parent[a]]
            a = self._parent[a]
        return a

    def size(self, a: int) -> int:
        """The original size."""
        return self._extents[a].size or self._extents[self.root(a)].size  # extents of known sizes that are one have one

    def same(self, a: int, b: int) -> None:
        """Both count the same things; where sizes differ, in the same unit (their common divisor)."""
        a, b = self.root(a), self.root(b)
        if a == b:
            return
        x, y = self._extents[a], self._extents[b]
        if x.size != y.size and UNKNOWN not in (x.size, y.size):
            if x.size > 1 and y.size > 1:
                self._differ.append((a, b))
            return
        if x.size == UNKNOWN:
            a, b, x, y = b, a, y, x
        self._parent[b] = a
        x.literals |= y.literals
        x.frozen |= y.frozen
        for boundary in y.chain:
            if x.size:
                self._cut(a, boundary)
        for lo, hi in y.opaque:
            self._opaque(a, lo, hi)

    def link(self, a: int, at: int, b: int, bt: int, length: int) -> None:
        """Digits [at, at·length] of a are digits [bt, bt·length] of b."""
        if length <= 1:
            return
        if at == bt == 1 and length == self.size(a) == self.size(b):
            self.same(a, b)
        else:
            self._links.append((a, at, b, bt, length))

    def keep(self, a: int, lo: int = 1, hi: int | None = None) -> None:
        """Digits [lo, hi] keep their ratio (all of it: the size stays)."""
        size = self.size(a)
        if size > 1:
            self._opaque(self.root(a), lo, size if hi is None else hi)

    def freeze(self, a: int) -> None:
        """Values of what the extent counts are used in a way that fixes them, so its size stays."""
        self._extents[self.root(a)].frozen = True

    def units(self, a: int, b: int, *offsets: int) -> None:
        """a and b are made of the same blocks; `offsets` (in elements of either) are multiples of a block."""
        block = gcd(self.size(a), self.size(b), *offsets)
        self.link(a, 1, b, 1, block)
        self.keep(a, block)
        self.keep(b, block)

    def literal(self, a: int, value: int) -> None:
        """`value` is an index or bound in what the extent counts."""
        if -1 <= value < 2**30:
            self._extents[self.root(a)].literals.add(value)

    def _cut(self, a: int, b: int) -> bool:
        x = self._extents[a]
        if b in x.chain or b < 1 or b > x.size:
            return False
        for lo, hi in x.opaque:
            if lo < b < hi:  # inside, everything is a multiple of lo
                return False if b % lo == 0 else self._opaque(a, gcd(b, lo), hi)
        below = max(c for c in x.chain if c < b)
        above = min(c for c in x.chain if c > b)
        if b % below == 0 and above % b == 0:
            x.chain.append(b)
            x.chain.sort()
            return True
        divisor = max(c for c in x.chain if b % c == 0)
        following = x.chain[x.chain.index(divisor) + 1]
        multiples = [c for c in x.chain if c % b == 0]
        return self._opaque(a, gcd(b, following), min(multiples) if multiples else x.size)

    def _opaque(self, a: int, lo: int, hi: int) -> bool:
        x = self._extents[a]
        if lo >= hi or x.size <= 1:
            return False
        for low, high in x.opaque:  # known already, mostly
            if low <= lo and hi <= high and lo % low == hi % low == 0:
                return False
        changed = self._cut(a, lo) | self._cut(a, hi)
        for low, high in x.opaque:
            lo = low if low < lo < high else lo
            hi = high if low < hi < high else hi
        if lo not in x.chain:
            lo = max(c for c in x.chain if c < lo)
        if hi not in x.chain:
            hi = min(c for c in x.chain if c > hi)
        overlapping = [(p, q) for p, q in x.opaque if p < hi and lo < q]
        if any(p <= lo and hi <= q for p, q in overlapping):
            return changed
        lo, hi = min([lo, *(p for p, _ in overlapping)]), max([hi, *(q for _, q in overlapping)])
        x.opaque = [o for o in x.opaque if o not in overlapping] + [(lo, hi)]
        x.chain = [c for c in x.chain if not lo < c < hi]
        return True

    def _carry(self, a: int, at: int, b: int, bt: int, length: int) -> bool:
        """What is known of digits [at, at·length] of a, also of those of b."""
        x, y = self._extents[a], self._extents[b]
        end = at * length
        changed = False
        for boundary in (at, end):
            if boundary not in x.chain:
                changed |= self._cut(a, boundary)
        for lo, hi in list(x.opaque):
            lo, hi = max(lo, at), min(hi, end)
            if lo >= hi:
                continue
            if lo % at or hi % at:
                changed |= self._opaque(b, bt, bt * length)
            else:
                changed |= self._opaque(b, lo // at * bt, hi // at * bt)
        for boundary in list(x.chain):
            if at <= boundary <= end and boundary % at == 0 and (there := boundary // at * bt) not in y.chain:
                changed |= self._cut(b, there)
        return changed

    def _close(self) -> None:
        for a, b in self._differ:
            unit = gcd(self.size(a), self.size(b))
            self._links.append((a, 1, b, 1, unit))
            self.keep(a, unit)
            self.keep(b, unit)
        for a in range(len(self._parent)):
            if self._parent[a] == a and self._extents[a].size > 1:
                if self._extents[a].frozen:
                    self._opaque(a, 1, self._extents[a].size)
                size = self._extents[a].size
                self._opaque(a, grain(self._extents[a].literals, size), size)
        ends = ((self.root(a), at, self.root(b), bt, length) for a, at, b, bt, length in self._links)
        self._links = list(dict.fromkeys(ends))  # layers ask for the same
        touching: dict[int, list[int]] = {}
        for i, (a, _, b, _, _) in enumerate(self._links):
            touching.setdefault(a, []).append(i)
            touching.setdefault(b, []).append(i)
        waiting = deque(range(len(self._links)))
        queued = set(waiting)
        while waiting:
            i = waiting.popleft()
            queued.remove(i)
            a, at, b, bt, length = self._links[i]
            there, back = self._carry(a, at, b, bt, length), self._carry(b, bt, a, at, length)
            for link in (*touching[a], *touching[b]) if there or back else ():
                if link not in queued:
                    waiting.append(link)
                    queued.add(link)

    def solve(self, least: int) -> Sizes:
        """Closes all constraints and shrinks every free atom to `least` elements."""
        self._close()
        atoms: dict[tuple[int, int], tuple[int, int]] = {}

        def find(atom: tuple[int, int]) -> tuple[int, int]:
            while (above := atoms.get(atom, atom)) != atom:
                atoms[atom] = atoms.get(above, above)  # half as long next time
                atom = above
            return atom

        fixed: set[tuple[int, int]] = set()
        sizes: dict[tuple[int, int], int] = {}
        for a, extent in enumerate(self._extents):
            if self._parent[a] == a:
                for lo, hi in zip(extent.chain, extent.chain[1:], strict=False):
                    sizes[a, lo] = hi // lo
                    if (lo, hi) in extent.opaque:
                        fixed.add((a, lo))
        for a, at, b, bt, length in self._links:
            for lo in self._extents[a].chain:
                mate = lo // at * bt
                if at <= lo < at * length and lo % at == 0 and (b, mate) in sizes and (a, lo) in sizes:
                    if sizes[a, lo] == sizes[b, mate]:
                        atoms[find((a, lo))] = find((b, mate))
                    else:
                        fixed |= {(a, lo), (b, mate)}
        roots_fixed = {find(atom) for atom in fixed}
        new = {atom: size if find(atom) in roots_fixed else min(size, least) for atom, size in sizes.items()}
        return Sizes(self, new)

    def structure(self, a: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Boundaries and opaque intervals of an extent."""
        extent = self._extents[self.root(a)]
        return extent.chain, extent.opaque


def grain(values: Iterable[int], size: int) -> int:
    """The largest divisor of `size` of which all values are multiples, or one off (bounds often are: `i <= n - 1`)."""
    values = list(values)
    for block in (b for b in range(size, 0, -1) if size % b == 0):
        near = {0, 1, block - 1} if block > 2 else {0}
        if all(value % block in near for value in values):
            return block
    return 1


@dataclass(frozen=True, slots=True)
class Sizes:
    """The solution: what every size and offset becomes."""

    extents: Extents
    atoms: dict[tuple[int, int], int]
    known: dict[tuple[int, int], int] = field(default_factory=dict)
    """What offsets became, by the representative of the extent: layers ask for the same ones."""

    def offset(self, a: int, value: int) -> int:
        """The new value of an offset, stride or size (in elements) within an extent."""
        root = self.extents.root(a)
        if (root, value) not in self.known:
            self.known[root, value] = self._offset(root, value)
        return self.known[root, value]

    def _offset(self, root: int, value: int) -> int:
        chain, _ = self.extents.structure(root)
        if value == 0 or self.extents.size(root) <= 1:
            return value
        unit = max(c for c in chain if value % c == 0)
        above = next((c for c in chain if c > unit), None)
        if unit != abs(value) and above is not None and self.atoms[root, unit] != above // unit:
            raise Conflict(f"{value} is no multiple of {above} (boundaries {chain} of {self.extents.size(root)})")
        new = abs(value) // unit
        for lo in chain:
            if lo < unit:
                new *= self.atoms[root, lo]
        return new if value > 0 else -new

    def size(self, a: int) -> int:
        """The new size."""
        return self.offset(a, self.extents.size(a))

    def value(self, a: int, value: int) -> int:
        """The new value of an index or bound that counts what the extent counts."""
        size = self.extents.size(a)
        if size <= 1 or not -1 <= value < 2**30:
            return value
        for off in (0, -1, 1):
            try:
                return self.offset(a, value - off) + off
            except Conflict:
                continue
        raise Conflict(f"{value} is near no multiple of a block of {self.extents.structure(a)[0]}")
