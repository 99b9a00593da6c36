"""One pair of values, with one choice of cuts: both sides computed on formulas, and compared element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from scalify_dl.ir.dtypes import is_integer
from scalify_dl.ir.layout import Layout
from scalify_dl.oracle.addressing import addresses, digit_coordinates, pending_kind, piece_index
from scalify_dl.oracle.arithmetic import rounds_differently
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS
from scalify_dl.oracle.dtypes import integer_limits, is_float, storage
from scalify_dl.oracle.erased import CONDITIONS
from scalify_dl.oracle.program import Graph, Op, Shard

from . import accesses, contracting, convolving  # noqa: F401  (they register their rules)
from .cells import Array, mapped
from .complexes import Complex, is_complex
from .effort import now
from .extended import Cell, finite, multiply
from .finite import Leaf, leaf_table
from .form import Field, Form, Undecided
from .formulas import MOVES, wrapped
from .huge import settled_cell
from .indexing import SpreadMachine
from .machine import MOST_ELEMENTS, SymbolicMachine, no_random
from .same import same
from .spread import Spread, of_parts, variables
from .text import element_name, written
from .variables import Renamed
from .worth import met_somewhere

if TYPE_CHECKING:
    from .decide import Decider

ROUGHLY = 1e-6
"""How far apart values of an execution may be that are worth comparing as formulas."""
ENDS = ("given", "reals", "inputs", "all", "rows", "sums", "bent")
"""Where formulas begin: at correspondences, at those of real numbers (of a place in a row it is known then what row it
is of), or the inputs; also at values between that are equal; or among all these only at values between and what is no
sum of a row, over ranks or not (so a mean is known to be that of its row); or only at sums and the like (elementwise
ops are looked through); or only at those sums that go into a function that is not linear."""
MOST_OPS = 160
"""Ops of both sides of a pair of a large program."""
MOST_VALUES = 64
"""Integer inputs with more values than these are unknowns, not tables."""


@dataclass(frozen=True)
class Answer:
    """A pair that is equal: the layout, the values taken as unknowns, of these the inputs, and what must be so (op,
    what)."""

    dist: str
    base: str
    layout: str
    cuts: tuple[str, ...]
    inputs: tuple[str, ...]
    needs: tuple[tuple[str, str], ...]
    positive: bool = False
    """Whether all elements are known to be above zero."""
    nonnegative: bool = False
    """Whether all are known to be at least zero."""


class Pair:
    """One pair with one choice of cuts, one of `ENDS`."""

    def __init__(
        self,
        decider: Decider,
        dist: str,
        base: str,
        ends: str,
        *,
        reading: str = "",
        spread: Spread | None = None,
        local: Layout | None = None,
    ) -> None:
        """`reading`: what constants are taken for, "masks" (large numbers), "rounded" (`rounded.py`) or what they are;
        "thresholds" of what rounding leaves out (`thresholds.py`).

        `local`: with variables in the place of sizes of those ops alone that make the pair, in that layout."""
        self.decider, self.dist, self.base, self.spread = decider, dist, base, spread
        self.program = spread.program if spread else decider.program
        deadline = decider.deadline if decider.until is None else decider.until
        if spread and decider.elements <= DIRECT_ELEMENTS:  # else elements are followed
            deadline -= max(deadline - now(), 0) / 2
        self.basis = Field(deadline=deadline)
        self.basis.huge = set() if reading == "masks" else None
        self.basis.products = decider.products if reading == "rounded" else {}
        self.basis.leaves_out = reading == "thresholds"
        graphs = self.program.top("dist")
        if len(graphs) != 1 or graphs[0].ranks != self.program.ranks:
            raise Undecided("several distributed programs")
        (self.base_graph,), self.dist_graph = self.program.top("base"), graphs[0]
        inputs = {*self.dist_graph.inputs}
        known = decider.by_dist
        if local:
            known = {**decider.near, **known}
        if spread or local:  # a variable stands for all of a dim, not for a piece of it
            known = {t: [s for s in known[t] if not s.base_piece] for t in known.keys() - decider.fixed}
            # nor one element for all of them: what is repeated is followed to what it repeats
            known = {t: [s for s in found if all(digit.stride for dim in s.layout.dims for digit in dim)]
                     for t, found in known.items()}  # fmt: skip
            known = {t: found for t, found in known.items() if found}
        if reading == "masks":  # what stands beside a mask is small
            known = {t: [s for s in found if decider.heavy.isdisjoint((t, s.base))] for t, found in known.items()}
            known = {t: found for t, found in known.items() if found}
        stops = {t for t in known if t != dist and (t in inputs or decider.is_cut(t, ends))}
        self.dist_part = self._slice(self.dist_graph, dist, stops)
        given = {*self.base_graph.inputs}

        read = {t for op in self._slice(self.base_graph, base, ()).ops for t in op.operands}

        def later(shard: Shard) -> tuple[bool, ...]:
            """Of several that a value holds one that the baseline's side reads, and the plainest: an integer of known
            range, not one that is only moved; dims in their order where it holds them (x·xᵀ) in any."""
            made = decider.makers.get(shard.base)
            far = shard.base not in given and ends == "inputs"
            open_ = is_integer(self.program.tensors[shard.base].dtype) and self._range(shard.base) is None
            moved = made is not None and made.kind in MOVES
            order = [digit.dim for dim in shard.layout.dims for digit in dim]
            return far, shard.base not in read, shard.layout.scale != 1, open_, moved, order != sorted(order)

        self.shards = {t: min(known[t], key=later) for t in self.dist_part.inputs if t in known}
        missing = [t for t in self.dist_part.inputs if t not in self.shards]
        if missing:
            raise Undecided(f"nothing is known of {self.program.name(missing[0])}")
        wanted = {shard.base for shard in self.shards.values()}
        self.alike = {} if local is not None else self._alike(known)
        self.base_part = self._slice(self.base_graph, base, {*wanted, *self.alike} - {base})
        if local is not None:
            if len(self.dist_part.ops) + len(self.base_part.ops) > MOST_OPS:
                raise Undecided(f"more than {MOST_OPS} ops")
            row = Shard(dist, (), base, (), local)
            self.spread = of_parts(self.program, [self.dist_part, self.base_part], self.shards.values(), row,
                                   MOST_ELEMENTS)  # fmt: skip
            if self.spread is None:
                raise Undecided("ops whose sizes cannot be variables")
            self.program = self.spread.program
        self.cuts = tuple(sorted(wanted))
        proved = [decider.between[t] for t in self.shards if t in decider.between]
        self.positive = {answer.base for answer in proved if answer.positive}
        self.nonnegative = {answer.base for answer in proved if answer.nonnegative}
        self.cells: dict[str, Array] = {}
        self.rows: list[set[Form]] = [set(), set()]
        """What is to be shown of either side: sums over rows, and flags."""
        self.difference: tuple[Any, Any] | None = None
        """The last elements that were compared and have not one formula."""

    def _alike(self, known: Mapping[str, list[Shard]]) -> dict[str, str]:
        """Baseline values that are another one, which is a cut: one distributed value holds all of both, alike."""
        tensors, found = self.decider.program.tensors, {shard.base: shard.base for shard in self.shards.values()}

        def shape(t: str) -> object:
            return tensors[t].dtype, tensors[t].shape, self.spread and self.spread.parts[t]

        for t, cut in self.shards.items():
            for shard in known[t]:
                whole = not (cut.base_piece or shard.base_piece) and shard.layout == cut.layout
                if whole and shape(shard.base) == shape(cut.base) and not cut.layout.gaps(tensors[cut.base].shape):
                    found.setdefault(shard.base, cut.base)
        return found

    def _slice(self, graph: Graph, target: str, stops: Iterable[str]) -> Graph:
        """The ops that a value is made by, back to where the walk stops."""
        stops, makers = set(stops), self.decider.makers
        mine = {op.id for op in graph.ops}
        needed: dict[str, Op] = {}
        inputs: dict[str, None] = {}
        seen: set[str] = set()
        stack = [target]
        while stack:
            tensor = stack.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            op = makers.get(tensor)
            if tensor in stops or op is None or op.id not in mine:
                inputs[tensor] = None
                continue
            needed[op.id] = op
            stack += op.operands
        return Graph(
            graph.id, graph.role, list(inputs), [target], [op for op in graph.ops if op.id in needed], graph.ranks
        )

    def unknowns(self, tensor: str) -> Array:
        """The elements of a baseline value that is not looked into."""
        tensor = self.alike.get(tensor, tensor)
        if tensor in self.cells:
            return self.cells[tensor]
        declared, basis = self.program.tensors[tensor], self.basis
        if prod(declared.shape) > MOST_ELEMENTS:
            raise Undecided(f"{tensor} has more than {MOST_ELEMENTS:,} elements")
        out = np.empty(declared.shape, dtype=object)
        bounds = self._range(tensor)
        along = tuple(variables(self.spread.parts[tensor])) if self.spread else ()
        for i, at in enumerate(np.ndindex(*declared.shape)):
            if is_float(declared.dtype):
                signs = {"positive": tensor in self.positive, "nonnegative": tensor in self.nonnegative}
                out[at] = basis.of(basis.element("input", (tensor, i, *along), **signs))
            elif along and is_complex(declared.dtype):
                raise Undecided(f"unknowns of type {declared.dtype}")
            elif is_complex(declared.dtype):
                parts = (basis.of(basis.element("input", (tensor, i, part))) for part in ("real", "imaginary"))
                out[at] = Complex(*parts)
            elif declared.dtype == "pred":
                out[at] = basis.of(basis.element("flag", ("input", tensor, i, *along), nonnegative=True))
            elif along and bounds is not None and bounds[1] - bounds[0] == 1 and is_integer(declared.dtype):
                out[at] = basis.constant(bounds[0])
            elif not along and bounds is not None and 0 < bounds[1] - bounds[0] <= MOST_VALUES:
                out[at] = leaf_table(Leaf((tensor, i), *bounds), storage(declared.dtype))
            elif along and bounds is not None and bounds[1] - bounds[0] == 2 and is_integer(declared.dtype):
                truth = basis.of(basis.element("flag", ("input", tensor, i, *along), nonnegative=True))
                out[at] = truth + basis.constant(bounds[0])
            elif is_integer(declared.dtype):
                least, most = (bounds[0], bounds[1] - 1) if bounds else integer_limits(declared.dtype)
                out[at] = basis.of(basis.element("integer", ((tensor, i, *along), declared.dtype, least, most)))
            else:
                raise Undecided(f"unknowns of type {declared.dtype}")
        self.cells[tensor] = out
        return out

    def _range(self, tensor: str) -> tuple[int, int] | None:
        """The range of an integer that a value is, moved about or not."""
        ranges, op = self.program.ranges, self.decider.makers.get(tensor)
        while tensor not in ranges and op is not None and op.kind in MOVES and len(op.operands) == 1:
            (tensor,) = op.operands
            op = self.decider.makers.get(tensor)
        return ranges.get(tensor)

    def held(self, shard: Shard) -> dict[int, Array]:
        """What each rank holds of a cut."""
        base = self.unknowns(shard.base)
        base = base[piece_index(shard.base_piece, base.ndim)] if shard.base_piece else base
        layout, names = self._spread_layout(shard.dist, shard.base, shard.layout)
        parts: dict[Any, Array] = {}
        found: dict[int, Array] = {}
        for rank, at in self.program.coords.items():
            key = digit_coordinates(layout, at)
            if key not in parts:
                part = base[addresses(layout, base.ndim, at)] if base.ndim else base
                part = np.broadcast_to(part, layout.local_shape)
                if layout.scale != 1:
                    part = mapped(self._scaled(layout.scale, self.program.tensors[shard.dist].dtype), part)
                parts[key] = mapped(names.cell, part) if names else part
            found[rank] = parts[key]
        return found

    def _scaled(self, scale: Fraction, dtype: str) -> Callable[[Cell], Cell]:
        """What is held of an element at a scale: of integers what their type holds of it, modulo 2ⁿ."""
        factor = self.basis.constant(scale)
        if not is_integer(dtype):
            return lambda cell: multiply(cell, factor)
        if scale.denominator != 1:
            raise Undecided("a part of integers")
        return lambda cell: wrapped(finite(multiply(cell, factor), "integers"), dtype)

    def _spread_layout(self, dist: str, base: str, layout: Layout) -> tuple[Layout, Renamed | None]:
        """A layout at the sizes of the program, and what variables become by it."""
        found, names = self.spread.layout(dist, base, layout) if self.spread else (layout, None)
        return found, Renamed(self.basis, names) if names is not None else None

    def answer(self, layouts: Iterable[Layout], *, numbers: bool = False) -> Answer | None:
        """The layout in which the output is the baseline's (and, if so asked, finite); None where it is in none.

        Twice, where roots were taken: then it is known of both sides of what.
        """
        layouts = list(layouts)
        found = self._answer(layouts, numbers)
        if found is None and self.basis.rooted:
            self.basis.needs = {}
            found = self._answer(layouts, numbers)
        return found

    def needs_of(self, layout: Layout) -> set[tuple[str, str]] | None:
        """What must be so (op, what) for the output to hold the baseline's in a layout; None where it does not."""
        for _ in range(2 if self.basis.rooted is not None else 1):
            self.basis.needs = {}
            machine, base, found = self._followed()
            if self._fits(base, found, layout):
                self._are_shown(layout)
                return {(machine.where.get(need, self.dist), need.what) for need in self.basis.needs}
            if not self.basis.rooted:
                break
        return None

    def _followed(self) -> tuple[SymbolicMachine, Array, dict[int, Array]]:
        """Both sides on formulas: what the baseline's value is, and what ranks hold."""
        values = [[r for op in part.ops for r in op.results] for part in (self.dist_part, self.base_part)]
        keep = frozenset().union(*values)
        machine = (
            SpreadMachine(self.program, no_random, basis=self.basis, keep=keep, spread=self.spread)
            if self.spread
            else SymbolicMachine(self.program, no_random, basis=self.basis, keep=keep)
        )
        inputs = {t: self.held(shard) for t, shard in self.shards.items()}
        found = {**inputs, **machine.run([self.dist_part], inputs)}[self.dist]
        ours = {id(x): self._settled(x) for x in found.values()}
        others, self.basis.needs = self.basis.needs, {}
        base_inputs = {t: {0: self.unknowns(t)} for t in self.base_part.inputs}
        base = self._settled({**base_inputs, **machine.run([self.base_part], base_inputs)}[self.base][0])
        self.rows = [{need.form for need in needs if need.what == "shown"} for needs in (others, self.basis.needs)]
        self.basis.needs |= others
        return machine, base, {rank: ours[id(x)] for rank, x in found.items()}

    def _are_shown(self, layout: Layout) -> None:
        """Undecided where a row is to be shown of which the baseline needs nothing."""
        ours, theirs = self.rows
        names = self._spread_layout(self.dist, self.base, layout)[1] if ours else None
        theirs = {names.form(form) for form in theirs} if names else theirs
        if not all(form in theirs or any(same(self.basis, form, other) for other in theirs) for form in ours):
            raise Undecided("a part of a row that may be masked altogether, where the baseline's row is not")

    def _settled(self, x: Array) -> Array:
        """Without what is nothing beside what is not masked, where that is known."""
        return mapped(settled_cell, x) if self.basis.huge else x

    def _answer(self, layouts: list[Layout], numbers: bool) -> Answer | None:
        machine, base, found = self._followed()
        if numbers and not all(isinstance(cell, Form) for cell in base.reshape(-1)):
            return None
        for layout in layouts:
            if self._fits(base, found, layout):
                self._are_shown(layout)
                if not met_somewhere(self.basis):
                    raise Undecided("no inputs were found that meet all that the steps need")
                needs = {(machine.where.get(need, self.dist), need.what) for need in self.basis.needs}
                used = self.decider.rewritten.used if self.decider.rewritten else {}
                ops = (op.id for part in (self.dist_part, self.base_part) for op in part.ops)
                needs |= {(op, "rewrite") for op in ops if op in used}
                given = {t for t in self.base_part.inputs if t in self.base_graph.inputs}
                needs |= {(t, "finite") for t, shard in self.shards.items() if not self.decider.is_sound(shard)}
                for before in (self.decider.between[t] for t in self.shards if t in self.decider.between):
                    needs |= {*before.needs}
                    given |= {*before.inputs}
                limited = any(what in CONDITIONS or what == "finite" for _, what in needs)
                if limited and self.decider.erased(self.dist, self.base):
                    raise Undecided("the baseline is a number where what a step needs is not so")
                if self.decider.overflows(self.dist, self.base):
                    needs.add((self.dist, "range"))
                parts, tensor = (self.base_part.ops, self.dist_part.ops), self.program.tensors.__getitem__
                if rounds_differently(*parts, tensor, self.base):
                    needs.add((self.dist, "types"))
                if self.decider.erased_infinities(self.dist, self.base):
                    raise Undecided("it asks whether numbers are finite, and the sides differ where some are not")
                ends = self.dist, self.base, str(layout), self.cuts
                cells = [cell for cell in base.reshape(-1) if numbers]
                signs = numbers and all(cell.is_positive() for cell in cells), all(c.is_nonnegative() for c in cells)
                return Answer(*ends, tuple(sorted(given)), tuple(sorted(needs)), signs[0], numbers and signs[1])
        return None

    def difference_in_words(self) -> str | None:
        """That two elements have not one formula, as far as is known; None where formulas are not what is missing."""
        if self.difference is None or self.spread is not None:
            return None
        names = element_name(lambda t: self.program.tensors[t].shape, self.program.name)
        left, right = (written(self.basis, cell, names) for cell in self.difference)
        return (
            f"`{self.program.name(self.dist)}` should be the baseline's `{self.program.name(self.base)}`, and no law is"
            f" known by which {left} is {right}"
        )

    def _fits(self, base: Array, found: Mapping[int, Array], layout: Layout) -> bool:
        if pending_kind(layout) is not None:
            return False
        layout, names = self._spread_layout(self.dist, self.base, layout)
        if layout.gaps(base.shape) is not None:
            return False
        if names:
            base = mapped(names.cell, base)
        checked: set[Any] = set()
        for rank, at in self.program.coords.items():
            key = (digit_coordinates(layout, at), id(found[rank]))
            if key in checked:
                continue
            checked.add(key)
            try:
                part = base[addresses(layout, base.ndim, at)] if base.ndim else base
            except IndexError:
                return False
            part = np.broadcast_to(part, layout.local_shape)
            if part.shape != found[rank].shape:
                return False
            scale = self.basis.constant(layout.scale)
            for ours, theirs in zip(part.reshape(-1), found[rank].reshape(-1), strict=True):
                wanted = ours if layout.scale == 1 else multiply(ours, scale)
                if not same(self.basis, theirs, wanted):
                    self.difference = theirs, wanted
                    return False
        return True
