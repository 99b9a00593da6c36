"""Programs run on blocks: what each op makes of all places of a block at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..elementwise import LOW, NAN, Element, Low
from ..forms import Form, Unknown
from ..integers import compared
from ..jumps import JUMPS, surely
from ..machine import TRUTHS, Machine
from ..programs import Op, Program
from ..types import REALS, WIDTHS
from .atoms import Spread
from .blocks import (
    MOST_ALONE,
    MOST_BLOCKS,
    Blocks,
    Count,
    Masked,
    Peak,
    aligned,
    broadcast,
    common,
    counted,
    joined,
    made,
    put,
    refined,
    reshaped,
    sliced,
    transposed,
    whole,
)
from .elementwise import Wide
from .places import FREE, OTHER, Place, Variable, alone, of_dim

PerRank = dict[int, Any]


class Large(Machine):
    """Runs the graphs of one program on blocks."""

    atoms: Spread
    of: Wide

    def __init__(self, program: Program, atoms: Spread) -> None:
        super().__init__(program, atoms)
        self.of = Wide(atoms)

    def _together(self, op: Op, x: PerRank, ranks: list[int]) -> PerRank:
        kind = op.kind
        if kind == "collective-permute":
            shape, dtype = self.program.shapes[op.results[0]], self.program.types[op.results[0]]
            nothing = self._splat(shape, self.atoms.number(0) if dtype in REALS else 0)
            return {rank: x[op.pairs[rank]] if rank in op.pairs else nothing for rank in ranks}
        groups = [[members[i] for i in range(len(members))] for members in op.groups.values()] or [ranks]
        if sorted(rank for group in groups for rank in group) != sorted(ranks):
            raise Unknown("groups without some ranks")
        found: PerRank = {}
        for group in groups:
            parts = [x[rank] for rank in group]
            if kind in ("all-reduce", "reduce-scatter"):
                total = self._each(lambda *row: self._row_of(op, row), parts)
                if kind == "reduce-scatter":
                    pieces = self._pieces(total, op.number("dimension", group[0], 0), len(group))
                    found |= zip(group, pieces, strict=True)
                else:
                    found |= dict.fromkeys(group, total)
            elif kind == "all-gather":
                found |= dict.fromkeys(group, joined(self.atoms, parts, op.number("dimension", group[0], 0)))
            else:
                split, onto = op.number("split_dimension", group[0]), op.number("concat_dimension", group[0])
                cut = [self._pieces(part, split, len(group)) for part in parts]
                found |= {rank: joined(self.atoms, [c[i] for c in cut], onto) for i, rank in enumerate(group)}
        return found

    def _row_of(self, op: Op, row: Sequence[Element]) -> Element:
        dtype = self.program.types[op.results[0]]
        if dtype in WIDTHS:
            raise Unknown("sums of integers over ranks")
        return self._row(op.text("reducer", "sum"), list(row), dtype)

    def _pieces(self, x: Blocks, dim: int, count: int) -> list[Blocks]:
        size, rest = divmod(x.shape[dim], count)
        if rest:
            raise Unknown("pieces of other sizes")
        return [sliced(self.atoms, x, dim, n * size, (n + 1) * size) for n in range(count)]

    @staticmethod
    def _splat(shape: Sequence[int], element: Element) -> Blocks:
        return made([whole(size) for size in shape], lambda _: element)

    def _each(self, function: Callable[..., Element], xs: Sequence[Blocks]) -> Blocks:
        """A function of the elements at each place."""
        xs = aligned(self.atoms, xs)
        known: dict[tuple[int, ...], Element] = {}

        def element(at: tuple[int, ...]) -> Element:
            cells = [x.cells[at] for x in xs]
            key = tuple(map(id, cells))
            if key not in known:
                known[key] = function(*cells)
            return known[key]

        return made(xs[0].parts, element)

    # ---- one rank ----
    def _local(self, op: Op, xs: list[Any], rank: int) -> list[Any]:
        return [self._one(op, xs, rank)]

    def _one(self, op: Op, xs: list[Blocks], rank: int) -> Blocks:
        kind, atoms, result = op.kind, self.atoms, op.results[0]
        shape, dtype = self.program.shapes[result], self.program.types[result]
        if kind == "constant":
            return self._literal(op, rank, shape, dtype)
        if kind == "iota":
            dim = op.number("dimension", rank, 0)
            found = made([whole(size) for size in shape], lambda _: counted(of_dim(dim, whole(shape[dim])[0])))
            return self._limited(found, dtype)
        if kind in ("partition-id", "replica-id"):
            return self._splat((), rank)
        if kind == "broadcast":
            return broadcast(atoms, xs[0], shape, op.numbers("dimensions", rank, []))
        if kind == "reshape":
            return reshaped(atoms, xs[0], shape)
        if kind == "transpose":
            return transposed(atoms, xs[0], op.numbers("dimensions", rank, []))
        if kind == "slice":
            start, limit = op.numbers("start", rank, []), op.numbers("limit", rank, [])
            bounds = zip(start, limit, op.numbers("stride", rank, [1] * len(start)), strict=True)
            for dim, bound in enumerate(bounds):
                xs[0] = sliced(atoms, xs[0], dim, *bound)
            return xs[0]
        if kind == "concatenate":
            return joined(atoms, xs, op.number("dimension", rank))
        if kind == "pad":
            return self._widened(op, xs, rank)
        if kind in ("dynamic-slice", "dynamic-update-slice"):
            return self._window(op, xs, rank)
        if kind == "reduce" and len(xs) == 1:
            return self._reduction(op, xs[0], op.numbers("dimensions", rank, []))
        if kind == "dot":
            return self._product(op, xs, rank, dtype)
        if kind == "convert":
            return self._cast(xs[0], self.program.types[op.operands[0]], dtype)
        if kind in ("gather", "convolution", "reverse", "sort", "scatter"):
            raise Unknown(f"{kind} of large dims")
        return self._pointwise(op, xs, dtype)

    def _literal(self, op: Op, rank: int, shape: tuple[int, ...], dtype: str) -> Blocks:
        if op.results[0] in self.program.items and prod(shape) > MOST_BLOCKS:
            raise Unknown("a constant of many numbers")
        cells = super()._constant(op, rank, shape, dtype)
        if cells.strides and not any(cells.strides):  # one number everywhere
            return self._splat(shape, cells[(0,) * len(shape)])
        if any(size > MOST_ALONE for size in shape):
            raise Unknown("a constant of many numbers")
        return made([((),) * size for size in shape], lambda at: cells[at])

    def _widened(self, op: Op, xs: list[Blocks], rank: int) -> Blocks:
        low, high = op.numbers("low", rank, []), op.numbers("high", rank, [])
        if min([*low, *high], default=0) < 0 or any(op.numbers("interior", rank, [])):
            raise Unknown("a pad that crops, or between elements")
        x, outside = xs[0], xs[1].item()
        for dim, ends in enumerate(zip(low, high, strict=True)):
            around = [self._splat((*x.shape[:dim], n, *x.shape[dim + 1 :]), outside) if n else None for n in ends]
            x = joined(self.atoms, [y for y in (around[0], x, around[1]) if y is not None], dim)
        return x

    def _window(self, op: Op, xs: list[Blocks], rank: int) -> Blocks:
        update = op.kind == "dynamic-update-slice"
        sizes = [*xs[1].shape] if update else op.numbers("sizes", rank, [])
        fits = zip(xs[2:] if update else xs[1:], xs[0].shape, sizes, strict=True)
        lows = [min(max(self._whole(s.item()), 0), n - k) for s, n, k in fits]
        if not update:
            x = xs[0]
            for dim, (low, size) in enumerate(zip(lows, sizes, strict=True)):
                x = sliced(self.atoms, x, dim, low, low + size)
            return x
        return self._written(xs[0], xs[1], lows, 0)

    def _written(self, x: Blocks, new: Blocks, lows: list[int], dim: int) -> Blocks:
        """A tensor in which a window is another."""
        if dim == x.ndim:
            return new
        low, high = lows[dim], lows[dim] + new.shape[dim]
        inside = sliced(self.atoms, x, dim, low, high)
        pieces = [self._written(inside, new, [*lows[:dim], 0, *lows[dim + 1 :]], dim + 1)]
        if low:
            pieces.insert(0, sliced(self.atoms, x, dim, 0, low))
        if high < x.shape[dim]:
            pieces.append(sliced(self.atoms, x, dim, high, x.shape[dim]))
        return joined(self.atoms, pieces, dim)

    def _pointwise(self, op: Op, xs: list[Blocks], dtype: str) -> Blocks:
        kind, of = op.kind, self.of
        if kind in ("clamp", "select"):
            shape = max((x.shape for x in xs), key=prod)
            xs = [x if x.shape == shape else broadcast(self.atoms, x, shape, []) for x in xs]
        before = self.program.types[op.operands[0]]
        if kind in JUMPS and before in REALS:
            self._each(lambda *cells: surely(self.program, op, cells, REALS[before]), xs)
        if kind == "compare":
            if op.text("order") == "total" or (before not in REALS and before not in WIDTHS and before != "pred"):
                raise Unknown("a comparison by total order")
            direction = op.text("direction")

            def told(x: Element, y: Element) -> Element:
                places = isinstance(x, Count) or isinstance(y, Count)
                return compared(of, direction, x, y) if before in WIDTHS and not places else of.compare(direction, x, y)

            return self._each(told, xs)
        if kind != "select" and any(x is NAN for array in xs for x in array.cells.reshape(-1)):
            raise Unknown("what is no number")
        if kind == "select":
            if dtype in WIDTHS:
                return self._each(self._chosen, xs)
            return self._each(of.select, xs)
        if dtype == "pred" and kind in TRUTHS:
            return self._each(lambda *ys: of.truth(kind, list(ys)), xs)
        if dtype in REALS:
            return self._each(lambda *ys: of.real(kind, list(ys)), xs)
        if dtype in WIDTHS:
            found = self._each(lambda *ys: self._counts(kind, list(ys)), xs)
            return self._limited(found, dtype)
        raise Unknown(f"{kind} of {dtype}")

    def _counts(self, kind: str, xs: list[Element]) -> Element:
        if all(type(x) is int for x in xs):
            return self._integer(kind, xs)
        return self.of.whole(kind, xs)

    @staticmethod
    def _chosen(which: Element, yes: Element, no: Element) -> Element:
        if not isinstance(which, int):
            raise Unknown("integers that depend on inputs")
        return yes if which else no

    def _limited(self, x: Blocks, dtype: str) -> Blocks:
        """Whole numbers of that type; Unknown where they wrap round."""
        if dtype in REALS:
            return self._numbers(x, dtype)
        low, high = WIDTHS.get(dtype, (None, None))
        if low is None or high is None:
            raise Unknown(f"numbers of type {dtype}")
        for y in x.cells.reshape(-1):
            ends = [y.place.least, y.place.most] if isinstance(y, Count) else [self._whole(y)]
            if not (-(1 << low if low else 0) <= min(ends) and max(ends) < 1 << high):
                raise Unknown("integers that wrap round")
        return x

    def _numbers(self, x: Blocks, dtype: str) -> Blocks:
        """Whole numbers, or truths, as real numbers of a type; Unknown where it rounds them."""
        most = 1 << REALS[dtype]

        def real(y: Element) -> Element:
            ends = [y.place.least, y.place.most] if isinstance(y, Count) else [y] if isinstance(y, int) else []
            if any(abs(end) > most for end in ends):
                raise Unknown(f"integers that {dtype} rounds")
            return self.atoms.position(y.place) if isinstance(y, Count) else self.of.form(y)

        return self._each(real, [x])

    def _cast(self, x: Blocks, before: str, after: str) -> Blocks:
        if before in REALS and after in REALS:
            wide = {"bf16": ("f32", "f64"), "f16": ("f32", "f64"), "f32": ("f64",)}
            if before == after or after in wide.get(before, ()):
                return x
            return self._each(lambda y: y if y is LOW else self.atoms.function("round", after, self.of.form(y)), [x])
        if before in (*WIDTHS, "pred") and after in REALS:
            return self._numbers(x, after)
        if before in WIDTHS and after in WIDTHS:
            return self._limited(x, after)
        if before == "pred" and after in WIDTHS:
            return self._limited(self._each(self._whole, [x]), after)
        raise Unknown(f"a cast of {before} to {after}")

    # ---- over variables ----
    def _reduction(self, op: Op, x: Blocks, dims: list[int]) -> Blocks:
        reducer, dtype = op.text("reducer", "sum"), self.program.types[op.results[0]]
        if dtype not in REALS or reducer not in ("sum", "max", "min"):
            raise Unknown(f"a reduction by {reducer} of {dtype} over large dims")
        kept = [d for d in range(x.ndim) if d not in dims]
        x = transposed(self.atoms, x, [*kept, *dims])
        inner = range(len(kept), x.ndim)

        def element(at: tuple[int, ...]) -> Element:
            row = []
            for rest in np.ndindex(*x.cells.shape[len(kept) :]):
                over = [(FREE, d, n, size) for d, i in zip(inner, rest, strict=True)
                        for n, size in enumerate(x.parts[d][i])]  # fmt: skip
                row.append(self._over_variables(reducer, x.cells[(*at, *rest)], over))
            return self._row(reducer, row, dtype)

        return made(x.parts[: len(kept)], element)

    def _over_variables(self, reducer: str, x: Element, over: list[Variable]) -> Element:
        if not over or isinstance(x, Low):
            if isinstance(x, Low) and reducer != "max":
                raise Unknown("a reduction of infinity")
            return x
        if reducer == "sum":
            return self.atoms.total(self.of.form(x), over)
        if reducer == "min":
            return -self.of.form(self._over_variables("max", -self.of.form(x), over))
        if isinstance(x, int):
            return x
        first = 1 + max((v[1] for v in self._variables(x) if v[0] == OTHER), default=0)
        new = [(OTHER, first + n, 0, v[3]) for n, v in enumerate(over)]
        named = put(self.atoms, x, {v: alone(w) for v, w in zip(over, new, strict=True)})
        members = [((*names, *new), shown, value) for names, shown, value in self.of.members(named)]
        return self.of.greatest(members)

    def _variables(self, x: Element) -> set[Variable]:
        forms = [x] if isinstance(x, Form) else [x.shown, x.value] if isinstance(x, Masked) else []
        forms += [f for m in x.members for f in m[1:]] if isinstance(x, Peak) else []
        return {v for form in forms for v in self.atoms.variables(form)}

    def _product(self, op: Op, xs: list[Blocks], rank: int, dtype: str) -> Blocks:
        if dtype not in REALS:
            raise Unknown("a product of integers")
        sides, counts = [], []
        for x, side in zip(xs, ("lhs", "rhs"), strict=True):
            batch = op.numbers(f"{side}_batch_dims", rank, [])
            inner = op.numbers(f"{side}_contracting_dims", rank, [])
            free = [d for d in range(x.ndim) if d not in (*batch, *inner)]
            sides.append(transposed(self.atoms, x, [*batch, *inner, *free]))
            counts.append((len(batch), len(inner)))
        if counts[0] != counts[1]:
            raise Unknown("a product of other dims")
        batches, inners = counts[0]
        for d in range(batches + inners):
            if sides[0].shape[d] != sides[1].shape[d]:
                raise Unknown("a product of other dims")
            parts = common(sides[0].parts[d], sides[1].parts[d])
            sides = [refined(self.atoms, x, d, parts) for x in sides]
        left, right = sides
        shared = batches + inners
        rows = left.ndim - shared
        made_of = [*left.parts[:batches], *left.parts[shared:], *right.parts[shared:]]

        def values(x: Blocks, at: tuple[int, ...], first: int) -> dict[Variable, Place]:
            """Of a block its own dims as those of the result, those that are summed over as other variables."""
            found: dict[Variable, Place] = {}
            for d, digits in enumerate(x.block(at)):
                for n, size in enumerate(digits):
                    inside = batches <= d < shared
                    new = d if d < batches else first + d - shared
                    found[FREE, d, n, size] = alone((OTHER, 1 + d, n, size) if inside else (FREE, new, n, size))
            return found

        def element(at: tuple[int, ...]) -> Element:
            batch, row, column = at[:batches], at[batches : batches + rows], at[batches + rows :]
            terms = []
            for inner in np.ndindex(*left.cells.shape[batches:shared]):
                one, two = (*batch, *inner, *row), (*batch, *inner, *column)
                a = put(self.atoms, left.cells[one], values(left, one, batches))
                b = put(self.atoms, right.cells[two], values(right, two, batches + rows))
                over = [(OTHER, 1 + d, n, size) for d in range(batches, shared)
                        for n, size in enumerate(left.parts[d][inner[d - batches]])]  # fmt: skip
                terms.append(self.atoms.total(self.of.form(self.of.multiply(a, b)), over))
            return self._row("sum", terms, dtype)

        return made(made_of, element)
