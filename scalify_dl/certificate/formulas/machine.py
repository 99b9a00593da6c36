"""Programs run on formulas, rank by rank, element by element. What is not known here ends the run (`Unknown`)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod
from operator import add
from typing import Any

import numpy as np

from .accesses import gathered, scattered
from .constants import constant
from .convolutions import convolved
from .elementwise import HIDDEN, HIGH, LOW, NAN, Element, Elementwise
from .forms import Atoms, Form, Many, Unknown
from .integers import Table, Whole, as_real, combined, compared, where
from .jumps import JUMPS, surely
from .order import Ordered, place_of_greatest
from .programs import Op, Program
from .types import REALS, WIDTHS

Array = np.ndarray[Any, Any]
PerRank = dict[int, Array]
MOST_ELEMENTS = 60_000
MOST_TURNS = 64
LARGE = -10_000
"""Masks are at most so."""
TRUTHS = ("and", "or", "xor", "not")


class Machine:
    """Runs the graphs of one program."""

    def __init__(self, program: Program, atoms: Atoms) -> None:
        self.program, self.atoms, self.of = program, atoms, Elementwise(atoms)
        self.ordered = Ordered(self.of)
        self.left = MOST_ELEMENTS
        self.masks: frozenset[str] = frozenset()
        """Constants of which those that are large count as −∞."""

    def value(self, tensor: str, known: dict[str, PerRank], ranks: list[int]) -> PerRank:
        """A tensor on these ranks; `known` are values of its graph, to which what is computed is added."""
        stack = [tensor]
        while stack:
            at = stack[-1]
            op = self.program.makers.get(at)
            if at in known:
                stack.pop()
                continue
            if op is None:
                raise Unknown(f"nothing is known of {at}")
            waiting = [t for t in op.operands.values() if t not in known]
            if waiting:
                stack += waiting
                continue
            operands = [known[op.operands[i]] for i in range(len(op.operands))]
            for pos, found in enumerate(self._fitting(op, operands, ranks)):
                result = op.results[pos]
                for array in found.values():
                    if array.shape != self.program.shapes[result]:
                        raise Unknown(f"{op.kind} of another shape")
                known[result] = found
                self.left -= sum(array.size for array in found.values())
            if self.left < 0:
                raise Many("a program of many elements")
        return known[tensor]

    def _fitting(self, op: Op, operands: list[PerRank], ranks: list[int]) -> list[PerRank]:
        try:
            return self._op(op, operands, ranks)
        except (IndexError, KeyError, ValueError):
            raise Unknown(f"{op.kind} with numbers that do not fit its operands") from None

    def _op(self, op: Op, operands: list[PerRank], ranks: list[int]) -> list[PerRank]:
        kind = op.kind
        if kind == "while":
            return self._loop(op, operands, ranks)
        if op.regions:
            raise Unknown(f"{kind} with a region")
        if kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"):
            return [self._together(op, operands[0], ranks)]
        found: list[dict[int, Array]] = [{} for _ in op.results]
        before: dict[tuple[int, ...], list[Array]] = {}
        for rank in ranks:
            alone = op.by_rank or kind in ("partition-id", "replica-id")
            key = (rank,) if alone else tuple(id(x[rank]) for x in operands)
            if key not in before:
                before[key] = self._local(op, [x[rank] for x in operands], rank)
            for pos, array in enumerate(before[key]):
                found[pos][rank] = array
        return found

    def _loop(self, op: Op, carried: list[PerRank], ranks: list[int]) -> list[PerRank]:
        condition, body = op.regions[0], op.regions[1]
        for _ in range(MOST_TURNS):
            names = self.program.inputs[condition]
            known = {names[i]: value for i, value in enumerate(carried)}
            going = {x.item() for x in self.value(self.program.outputs[condition][0], known, ranks).values()}
            if len(going) != 1 or not isinstance(one := going.pop(), int):
                raise Unknown("a loop whose end depends on its values")
            if not one:
                return carried
            names = self.program.inputs[body]
            known = {names[i]: value for i, value in enumerate(carried)}
            ends = self.program.outputs[body]
            carried = [self.value(ends[i], known, ranks) for i in range(len(carried))]
        raise Unknown("a long loop")

    def _together(self, op: Op, x: PerRank, ranks: list[int]) -> PerRank:
        kind, zero = op.kind, self.atoms.number(0)
        if kind == "collective-permute":
            nothing = np.full(self.program.shapes[op.results[0]], zero, dtype=object)
            return {rank: x[op.pairs[rank]] if rank in op.pairs else nothing for rank in ranks}
        groups = [[members[i] for i in range(len(members))] for members in op.groups.values()] or [ranks]
        if sorted(rank for group in groups for rank in group) != sorted(ranks):
            raise Unknown("groups without some ranks")
        found: PerRank = {}
        for group in groups:
            parts = [x[rank] for rank in group]
            if kind in ("all-reduce", "reduce-scatter"):
                whole = self._reduced(op, np.stack(parts), (0,))
                if kind == "reduce-scatter":
                    found |= zip(group, np.split(whole, len(group), op.number("dimension", group[0], 0)), strict=True)
                else:
                    found |= dict.fromkeys(group, whole)
            elif kind == "all-gather":
                found |= dict.fromkeys(group, np.concatenate(parts, op.number("dimension", group[0], 0)))
            else:
                split, joined = op.number("split_dimension", group[0]), op.number("concat_dimension", group[0])
                cut = [np.split(part, len(group), split) for part in parts]
                found |= {rank: np.concatenate([c[i] for c in cut], joined) for i, rank in enumerate(group)}
        return found

    # ---- one rank ----
    def _local(self, op: Op, xs: list[Array], rank: int) -> list[Array]:
        kind, result = op.kind, op.results[0]
        shape, dtype = self.program.shapes[result], self.program.types[result]
        if kind == "constant":
            return [self._constant(op, rank, shape, dtype)]
        if kind == "iota":
            index = np.indices(shape, dtype=object)[op.number("dimension", rank, 0)] if shape else np.zeros((), object)
            return [self._typed(index, dtype)]
        if kind in ("partition-id", "replica-id"):
            return [np.array(rank, dtype=object)]
        if kind == "broadcast":
            dims = op.numbers("dimensions", rank, [])
            placed = [1] * len(shape)
            for size, dim in zip(xs[0].shape, dims, strict=True):
                placed[dim] = size
            return [np.broadcast_to(xs[0].transpose(np.argsort(dims)).reshape(placed), shape)]
        if kind == "reshape":
            return [xs[0].reshape(shape)]
        if kind == "transpose":
            return [xs[0].transpose(op.numbers("dimensions", rank, []))]
        if kind == "reverse":
            return [np.flip(xs[0], tuple(op.numbers("dimensions", rank, [])))]
        if kind == "slice":
            start, limit = op.numbers("start", rank, []), op.numbers("limit", rank, [])
            bounds = zip(start, limit, op.numbers("stride", rank, [1] * len(start)), strict=True)
            return [xs[0][tuple(slice(*bound) for bound in bounds)]]
        if kind == "concatenate":
            return [np.concatenate(xs, op.number("dimension", rank))]
        if kind == "pad":
            return [self._padded(op, xs, rank, shape)]
        if kind in ("dynamic-slice", "dynamic-update-slice"):
            sizes = op.numbers("sizes", rank, []) if kind == "dynamic-slice" else [*xs[1].shape]
            starts = xs[1:] if kind == "dynamic-slice" else xs[2:]
            fits = zip(starts, xs[0].shape, sizes, strict=True)
            lows = [min(max(self._whole(s.item()), 0), n - k) for s, n, k in fits]
            window = tuple(slice(lo, lo + k) for lo, k in zip(lows, sizes, strict=True))
            if kind == "dynamic-slice":
                return [xs[0][window]]
            out = np.array(xs[0])
            out[window] = xs[1]
            return [out]
        if kind == "gather" and dtype != "pred":
            return [gathered(self.of, op, rank, xs[0], xs[1], shape)]
        adds = dtype in REALS or (dtype in WIDTHS and op.text("reducer", "replace") == "replace")
        if kind == "scatter" and len(xs) == 3 and adds:
            return [scattered(self.of, op, rank, *xs)]
        if kind == "top-k" and dtype in REALS:
            return self.ordered.top(op, xs[0], op.number("k", rank), rank)
        if kind == "sort" and "pred" not in [self.program.types[t] for t in op.operands.values()]:
            return self.ordered.sort(op, xs, rank)
        if kind == "reduce" and len(xs) == 1:
            return [self._reduced(op, xs[0], tuple(op.numbers("dimensions", rank, [])))]
        if kind == "cumulative" and len(xs) == 1:
            return [self._running(op, xs[0], rank)]
        if kind == "dot":
            return [self._dot(op, xs, rank, dtype)]
        if kind == "convolution" and dtype in REALS:
            return [convolved(op, rank, xs[0], xs[1], lambda pairs: self._products(pairs, dtype))]
        if kind == "convert":
            return [self._converted(xs[0], self.program.types[op.operands[0]], dtype)]
        return [self._elementwise(op, xs, dtype)]

    def _elementwise(self, op: Op, xs: list[Array], dtype: str) -> Array:
        kind, of = op.kind, self.of
        if any(x.shape != xs[0].shape for x in xs) and kind not in ("clamp", "select"):
            raise Unknown(f"{kind} of other shapes")
        before = self.program.types[op.operands[0]]
        if kind in JUMPS and before in REALS:
            self._over(lambda *cells: surely(self.program, op, cells, REALS[before]), xs)
        if kind == "compare":
            if op.text("order") == "total" or (before not in REALS and before not in WIDTHS and before != "pred"):
                raise Unknown("a comparison by total order")
            direction = op.text("direction")
            if before in WIDTHS:
                return self._over(lambda x, y: compared(of, direction, x, y), xs)
            return self._over(lambda x, y: of.compare(direction, x, y), xs)
        if kind != "select" and any(x is NAN for array in xs for x in array.reshape(-1)):
            raise Unknown("what is no number")
        if kind == "select":
            if dtype in WIDTHS:
                return self._over(lambda *ys: where(self.atoms, *ys), xs)
            return self._over(of.select, xs)
        if kind == "is-finite":
            return self._over(lambda x: int(x is not LOW and x is not HIGH), xs)
        if dtype == "pred" and kind in TRUTHS:
            return self._over(lambda *ys: of.truth(kind, list(ys)), xs)
        if dtype in REALS:
            return self._over(lambda *ys: of.real(kind, list(ys)), xs)
        if dtype in WIDTHS:
            whole = self._over(lambda *ys: combined(self.atoms, lambda *n: self._integer(kind, [*n]), ys), xs)
            return self._typed(whole, dtype)
        raise Unknown(f"{kind} of {dtype}")

    @staticmethod
    def _over(function: Any, xs: list[Array]) -> Array:
        arrays = np.broadcast_arrays(*xs)
        out = np.empty(arrays[0].shape, dtype=object)
        for at in np.ndindex(*out.shape):
            out[at] = function(*(x[at] for x in arrays))
        return out

    @staticmethod
    def _whole(x: Element) -> int:
        if not isinstance(x, int):
            raise Unknown("integers that depend on inputs")
        return x

    @staticmethod
    def _integer(kind: str, xs: list[int]) -> int:
        if kind == "add":
            return xs[0] + xs[1]
        if kind == "subtract":
            return xs[0] - xs[1]
        if kind == "multiply":
            return xs[0] * xs[1]
        if kind in ("maximum", "minimum"):
            return (max if kind == "maximum" else min)(xs)
        if kind in ("divide", "remainder") and xs[1] > 0 and xs[0] >= 0:
            return xs[0] // xs[1] if kind == "divide" else xs[0] % xs[1]
        if kind in ("negate", "abs"):
            return abs(xs[0]) if kind == "abs" else -xs[0]
        raise Unknown(f"{kind} of integers")

    def _typed(self, x: Array, dtype: str) -> Array:
        """Whole numbers of that type; Unknown where they wrap round."""
        if dtype in REALS:
            return self._counted(x, dtype)
        low, high = WIDTHS.get(dtype, (None, None))
        if low is None or high is None:
            raise Unknown(f"numbers of type {dtype}")
        bottom = -(1 << low) if low else 0
        out = self._over(lambda y: y if isinstance(y, Table | Whole) else self._whole(y), [x])
        for y in out.reshape(-1):
            ends = [y.low, y.high] if isinstance(y, Whole) else [*y.cases] if isinstance(y, Table) else [y]
            if not (bottom <= min(ends) and max(ends) < 1 << high):
                raise Unknown("integers that wrap round")
        return out

    def _counted(self, x: Array, dtype: str) -> Array:
        """Whole numbers, or truths, as real numbers of a type; Unknown where it rounds them."""
        most = 1 << REALS[dtype]
        if any(isinstance(y, int) and abs(y) > most for y in x.reshape(-1)):
            raise Unknown(f"integers that {dtype} rounds")

        def real(y: Element) -> Element:
            return as_real(self.atoms, y, most) if isinstance(y, Table | Whole) else self.of.form(y)

        return self._over(real, [x])

    def _constant(self, op: Op, rank: int, shape: tuple[int, ...], dtype: str) -> Array:
        result = op.results[0]
        if "value" in op.attributes or any(key == "value" for key, _, _ in op.by_rank):
            words = [str(op.number("value", rank))]
        elif result in self.program.literals and self.program.literals[result] != "{...}":
            words = str(self.program.literals[result]).replace("{", "").replace("}", "").split(",")
        elif result in self.program.items:
            words = [str(self.program.items[result][i]) for i in range(prod(shape))]
        else:
            raise Unknown("a constant that is not printed")
        cells = np.empty(len(words), dtype=object)
        for i, word in enumerate(words):
            cells[i] = self._number(word.strip(), dtype)
            if result in self.masks and isinstance(cells[i], Form) and cells[i].value is not None:
                cells[i] = HIDDEN if cells[i].value <= LARGE else cells[i]
        return np.broadcast_to(cells.reshape(()), shape) if len(words) == 1 else cells.reshape(shape)

    def _number(self, word: str, dtype: str) -> Element:
        if dtype == "pred":
            return {"1": 1, "0": 0, "true": 1, "false": 0}[word]
        if dtype not in REALS:
            if dtype not in WIDTHS:
                raise Unknown(f"constants of type {dtype}")
            return int(word)
        if word == "-inf":
            return LOW
        if word == "nan":
            return NAN
        if word == "inf":
            return HIGH
        if "x" in word:
            raise Unknown("a number in hexadecimal digits")
        return constant(self.atoms, word, dtype)

    def _converted(self, x: Array, before: str, after: str) -> Array:
        if before in REALS and after in REALS:
            wide = {"bf16": ("f32", "f64"), "f16": ("f32", "f64"), "f32": ("f64",)}
            if before == after or after in wide.get(before, ()):
                return x
            return self._over(lambda y: y if y is LOW else self.atoms.function("round", after, self.of.form(y)), [x])
        if before in (*WIDTHS, "pred") and (after in REALS or after in WIDTHS):
            if after in REALS:
                return self._counted(x, after)
            whole = self._over(lambda y: where(self.atoms, y, 1, 0), [x]) if before == "pred" else x
            return self._typed(whole, after)
        raise Unknown(f"a cast of {before} to {after}")

    def _padded(self, op: Op, xs: list[Array], rank: int, shape: tuple[int, ...]) -> Array:
        x, low, high = xs[0], op.numbers("low", rank, []), op.numbers("high", rank, [])
        apart = [*zip(low, high, op.numbers("interior", rank, [0] * x.ndim), x.shape, strict=True)]
        if [a + n + max(n - 1, 0) * between + b for a, b, between, n in apart] != [*shape]:
            raise Unknown("a pad of another shape")
        places = [[a + i * (between + 1) for i in range(n)] for a, _, between, n in apart]
        kept = [[i for i, at in enumerate(dim) if 0 <= at < n] for dim, n in zip(places, shape, strict=True)]
        out = np.empty(shape, dtype=object)
        out[...] = xs[1].item()
        for at in product(*kept):
            out[tuple(dim[i] for dim, i in zip(places, at, strict=True))] = x[at]
        return out

    def _reduced(self, op: Op, x: Array, dims: tuple[int, ...]) -> Array:
        reducer, dtype = op.text("reducer", "sum"), self.program.types[op.results[0]]
        kept = [d for d in range(x.ndim) if d not in dims]
        rows = x.transpose([*kept, *dims]).reshape([*(x.shape[d] for d in kept), -1])
        out = np.empty(rows.shape[:-1], dtype=object)
        for at in np.ndindex(*out.shape):
            if reducer in ("argmax", "argmin") and len(dims) == 1:
                out[at] = place_of_greatest(self.of, list(rows[at]), least=reducer == "argmin")
            else:
                out[at] = self._row(reducer, list(rows[at]), dtype)
        return self._typed(out, dtype) if dtype in WIDTHS else out

    def _running(self, op: Op, x: Array, rank: int) -> Array:
        """At each place what a reduction makes of that before and this one; by log-sum-exp the logarithm of a sum."""
        name, dtype, at = op.text("reducer"), self.program.types[op.results[0]], op.number("dimension", rank)
        turn = -1 if op.number("reverse", rank, 0) else 1
        logarithmic = name == "logsumexp" and dtype in REALS
        x = self._over(lambda y: self.of.real("exponential", [y]), [x]) if logarithmic else x
        rows = np.moveaxis(x, at, -1)[..., ::turn]
        out = np.empty(rows.shape, dtype=object)
        for place in np.ndindex(*rows.shape):
            before = [out[(*place[:-1], place[-1] - 1)]] if place[-1] else []
            out[place] = self._row("sum" if logarithmic else name, [*before, rows[place]], dtype)
        out = self._over(lambda y: self.of.real("log", [y]), [out]) if logarithmic else out
        out = np.moveaxis(out[..., ::turn], -1, at)
        return self._typed(out, dtype) if dtype in WIDTHS else out

    def _row(self, reducer: str, row: list[Element], dtype: str) -> Element:
        if dtype in WIDTHS:
            if row and reducer in ("sum", "max", "min"):
                function: Any = {"sum": add, "max": max, "min": min}[reducer]
                whole: Element = row[0]
                for x in row[1:]:
                    whole = combined(self.atoms, function, [whole, x])
                return whole
        elif dtype in REALS and row and not any(x is NAN for x in row):
            if reducer == "sum":
                total: Element = self.atoms.number(0)
                for x in row:
                    total = self.of.add(total, x)
                return total
            if reducer == "max":
                return self.of.most(row)
            if reducer == "min":
                return self.of.real("minimum", row)
            if reducer == "prod":
                whole_product: Element = self.atoms.number(1)
                for x in row:
                    whole_product = self.of.multiply(whole_product, x)
                return whole_product
        elif dtype == "pred" and reducer in ("and", "or") and row:
            result = row[0]
            for x in row[1:]:
                result = self.of.truth(reducer, [result, x])
            return result
        raise Unknown(f"a reduction by {reducer} of {dtype}")

    def _dot(self, op: Op, xs: list[Array], rank: int, dtype: str) -> Array:
        if dtype not in REALS:
            raise Unknown("a product of integers")
        sides = []
        for x, side in zip(xs, ("lhs", "rhs"), strict=True):
            batch = op.numbers(f"{side}_batch_dims", rank, [])
            inner = op.numbers(f"{side}_contracting_dims", rank, [])
            free = [d for d in range(x.ndim) if d not in (*batch, *inner)]
            turned = x.transpose([*batch, *free, *inner])
            n, m = prod(x.shape[d] for d in batch), prod(x.shape[d] for d in free)
            sides.append((turned.reshape([n, m, -1]), [x.shape[d] for d in batch], [x.shape[d] for d in free]))
        (left, batch_sizes, rows), (right, _, columns) = sides
        out = np.empty((left.shape[0], left.shape[1], right.shape[1]), dtype=object)
        for b, i, j in product(*map(range, out.shape)):
            out[b, i, j] = self._products(zip(left[b, i], right[b, j], strict=True), dtype)
        return out.reshape([*batch_sizes, *rows, *columns])

    def _products(self, pairs: Iterable[tuple[Any, Any]], dtype: str) -> Any:
        """The sum of the products of pairs."""
        terms = [self.of.multiply(x, y) for x, y in pairs]
        return self._row("sum", terms, dtype) if terms else self.atoms.number(0)
