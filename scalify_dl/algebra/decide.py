"""Does an output hold what the baseline's does? Both sides are computed on formulas and compared element by element.

Unknowns are the inputs, or, nearer to the output, values of which a correspondence is proved already (cuts).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout
from scalify_dl.ir.literals import rational
from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.addressing import addresses, digit_coordinates, layout_of, pending_kind, piece_index, piece_of
from scalify_dl.oracle.compare import check, default_layouts
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS
from scalify_dl.oracle.dtypes import is_float, storage
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.program import Graph, Op, Program, Shard, load_program
from scalify_dl.oracle.trial import Trial, run_trial

from . import contracting  # noqa: F401  (registers its rules)
from .cells import Array, mapped
from .complexes import Complex, is_complex
from .diagnosis import first_difference
from .extended import multiply
from .finite import Leaf, leaf_table
from .form import Field, Undecided
from .formulas import MOVES
from .indexing import SpreadMachine
from .machine import MOST_ELEMENTS, SymbolicMachine, no_random
from .numbers import MASK
from .same import same
from .spread import Spread, spread, variables
from .text import element_name, written
from .variables import Renamed
from .worth import met_somewhere

ROUGHLY = 1e-6
"""How far apart values of an execution may be that are worth comparing as formulas."""
FEW_ELEMENTS = 20_000
"""Elements of programs that are followed one by one at once; in larger ones variables are tried first."""
MOST_VALUES = 64
"""Integer inputs with more values than these are unknowns, not tables."""


Way = tuple[bool, bool, Spread | None]
"""From the inputs on; large numbers as masks; with variables in the place of sizes."""


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


@dataclass
class Decider:
    """Decides pairs of one program. `known` are correspondences that are proved (or given)."""

    program: Program
    known: list[Shard]
    seconds: float = 5.0
    """CPU time for all pairs."""
    numbers: frozenset[str] = frozenset()
    """Values that are derived to be numbers, never infinite or NaN: only these, and inputs, are cuts."""
    reasons: list[str] = field(default_factory=list)
    """Why pairs were not decided."""
    differences: dict[tuple[str, str], str] = field(default_factory=dict)
    """For pairs whose formulas are not known to be one, where they part."""

    def __post_init__(self) -> None:
        self.deadline = time.process_time() + self.seconds
        self.makers = self.program.producer()
        tops = [*self.program.top("base"), *self.program.top("dist")]
        sound = self.numbers.union(*(graph.inputs for graph in tops))
        sound |= {t for t, declared in self.program.tensors.items() if not is_float(declared.dtype)}
        once = {t for graph in tops for t in (*graph.inputs, *(r for op in graph.ops for r in op.results))}
        self.by_dist: dict[str, list[Shard]] = {}
        for shard in self.known:
            values = {shard.dist, shard.base}  # in loops a name has a value for each turn
            whole = not shard.dist_piece and pending_kind(shard.layout) is None
            if whole and values <= once and values <= sound:
                self.by_dist.setdefault(shard.dist, []).append(shard)

    @cached_property
    def has_masks(self) -> bool:
        """Whether there are constants that may be masks, below zero and large."""
        texts = {tensor.literal for tensor in self.program.tensors.values() if tensor.literal}
        words = {word for text in texts for word in text.replace("{", "").replace("}", "").split(",")}
        values = (rational(word) for word in words if word[:1] == "-" and "/" not in word)
        return any(value is not None and value <= -MASK for value in values)

    def decide(self, dist: str, base: str, text: str) -> Answer | None:
        """Whether `dist` holds `base` with the layout of that text (empty: whole dims or blocks over mesh axes)."""
        if self.elements > FEW_ELEMENTS:
            tensors = self.program.tensors
            shapes = tensors[base].shape, tensors[dist].shape
            layouts = [layout_of(text)] if text else list(default_layouts(*shapes, self.program.mesh))
            spreads = [parts for parts in self.spreads if parts is not None]
            found = self._first(
                dist, base, layouts, [(whole, False, parts) for parts in spreads for whole in (False, True)]
            )
            if found is not None or self.elements > DIRECT_ELEMENTS:
                return found
        agreeing = self._agreeing(dist, base, text)
        ways = [
            (False, False, None),
            (True, False, None),
            *([(True, True, None)] if agreeing and self.has_masks else []),
        ]
        return self._first(dist, base, agreeing, ways) if agreeing else None

    def _first(self, dist: str, base: str, layouts: list[Layout], ways: Iterable[Way]) -> Answer | None:
        """The first way in which formulas are equal."""
        tried: list[object] = []
        for whole, masks, parts in ways:
            try:
                pair = _Pair(self, dist, base, whole, masks=masks, spread=parts)
                ends = (pair.cuts, pair.dist_part.inputs, masks, parts and parts.parts)
                if ends in tried:
                    continue
                tried.append(ends)
                answer = pair.answer(layouts)
            except (Undecided, Unsupported, Deadlock) as error:
                self.reasons.append(str(error))
                continue
            if answer is not None:
                self.differences.pop((dist, base), None)
                return answer
            self.reasons.append(f"the formulas of {self.program.name(dist)} differ")
        return None

    @cached_property
    def fixed(self) -> set[str]:
        """Values that depend on no input: they are better computed than unknown."""
        found: set[str] = set()
        for graph in self.program.top("dist"):
            for op in graph.ops:
                if op.kind in ELEMENTWISE | MOVES | {"constant", "iota"} and found.issuperset(op.operands):
                    found.update(op.results)
        return found

    @cached_property
    def spreads(self) -> tuple[Spread | None, Spread | None]:
        """The program with variables in the place of sizes: cut by ops, and also where positions are compared."""
        shards = [shard for found in self.by_dist.values() for shard in found]
        loose, tight = (spread(self.program, shards, MOST_ELEMENTS, counted=counted) for counted in (False, True))
        return loose, tight if loose and tight and loose.parts != tight.parts else None

    def _agreeing(self, dist: str, base: str, text: str) -> list[Layout]:
        """Layouts in which the values of one execution agree, of those that may be expected."""
        trial = self.trial
        if trial is None or dist not in trial.distributed or base not in trial.baseline:
            return []
        values, expected = trial.distributed[dist], trial.baseline[base]
        local = next(iter(values.values())).shape
        found = [layout_of(text)] if text else default_layouts(expected.shape, local, self.program.mesh)
        kept = []
        for layout in found:
            try:
                if check(expected, (), values, (), layout, self.program.coords, ROUGHLY) is None:
                    kept.append(layout)
            except (IndexError, ValueError):
                continue
        return kept

    @cached_property
    def elements(self) -> int:
        """How many elements of all tensors there are on all ranks."""
        return sum(prod(t.shape) for t in self.program.tensors.values()) * len(self.program.ranks)

    @cached_property
    def trial(self) -> Trial | None:
        """One execution of both sides, which tells what is not worth comparing; None where there is none."""
        try:
            return run_trial(self.program, 1, "reals", keep_dist=[dist for dist, _, _ in self.program.expects])
        except (Unsupported, Deadlock, InputError):
            return None


class _Pair:
    """One pair with one choice of cuts: as near as possible, or (`whole`) the inputs."""

    def __init__(
        self, decider: Decider, dist: str, base: str, whole: bool, *, masks: bool, spread: Spread | None = None
    ) -> None:
        self.decider, self.dist, self.base, self.spread = decider, dist, base, spread
        self.program = spread.program if spread else decider.program
        deadline = decider.deadline
        if spread and decider.elements <= DIRECT_ELEMENTS:  # else elements are followed
            deadline -= max(deadline - time.process_time(), 0) / 2
        self.basis = Field(deadline=deadline)
        self.basis.huge = set() if masks else None
        graphs = self.program.top("dist")
        if len(graphs) != 1 or graphs[0].ranks != self.program.ranks:
            raise Undecided("several distributed programs")
        (self.base_graph,), self.dist_graph = self.program.top("base"), graphs[0]
        inputs = {*self.dist_graph.inputs}
        known = decider.by_dist
        if spread:  # a variable stands for all of a dim, not for a piece of it
            known = {t: [s for s in known[t] if not s.base_piece] for t in known.keys() - decider.fixed}
            known = {t: found for t, found in known.items() if found}
        stops = {t for t in known if t != dist and (not whole or t in inputs)}
        self.dist_part = self._slice(self.dist_graph, dist, stops)
        given = {*self.base_graph.inputs}
        self.shards = {
            t: min(known[t], key=lambda shard: (shard.base not in given and whole, shard.layout.scale != 1))
            for t in self.dist_part.inputs
            if t in known
        }
        missing = [t for t in self.dist_part.inputs if t not in self.shards]
        if missing:
            raise Undecided(f"nothing is known of {self.program.name(missing[0])}")
        wanted = {shard.base for shard in self.shards.values()}
        self.base_part = self._slice(self.base_graph, base, wanted - {base})
        self.cuts = tuple(sorted(wanted))
        self.cells: dict[str, Array] = {}
        self.difference: tuple[Any, Any] | None = None
        """The last elements that were compared and have not one formula."""

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
        if tensor in self.cells:
            return self.cells[tensor]
        declared, basis = self.program.tensors[tensor], self.basis
        if prod(declared.shape) > MOST_ELEMENTS:
            raise Undecided(f"{tensor} has more than {MOST_ELEMENTS:,} elements")
        out = np.empty(declared.shape, dtype=object)
        bounds = self.program.ranges.get(tensor)
        along = tuple(variables(self.spread.parts[tensor])) if self.spread else ()
        for i, at in enumerate(np.ndindex(*declared.shape)):
            if is_float(declared.dtype):
                out[at] = basis.of(basis.element("input", (tensor, i, *along)))
            elif along and is_complex(declared.dtype):
                raise Undecided(f"unknowns of type {declared.dtype}")
            elif is_complex(declared.dtype):
                parts = (basis.of(basis.element("input", (tensor, i, part))) for part in ("real", "imaginary"))
                out[at] = Complex(*parts)
            elif declared.dtype == "pred":
                out[at] = basis.of(basis.element("flag", ("input", tensor, i, *along), nonnegative=True))
            elif not along and bounds is not None and 0 < bounds[1] - bounds[0] <= MOST_VALUES:
                out[at] = leaf_table(Leaf((tensor, i), *bounds), storage(declared.dtype))
            elif declared.dtype[0] in "su" and declared.dtype[1:].isdigit():
                out[at] = basis.of(basis.element("integer", ((tensor, i, *along), declared.dtype)))
            else:
                raise Undecided(f"unknowns of type {declared.dtype}")
        self.cells[tensor] = out
        return out

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
                    scale = self.basis.constant(layout.scale)
                    part = mapped(lambda cell, scale=scale: multiply(cell, scale), part)
                parts[key] = mapped(names.cell, part) if names else part
            found[rank] = parts[key]
        return found

    def _spread_layout(self, dist: str, base: str, layout: Layout) -> tuple[Layout, Renamed | None]:
        """A layout at the sizes of the program, and what variables become by it."""
        found, names = self.spread.layout(dist, base, layout) if self.spread else (layout, None)
        return found, Renamed(self.basis, names) if names is not None else None

    def answer(self, layouts: Iterable[Layout]) -> Answer | None:
        """The layout in which the output is the baseline's; None where it is in none of these."""
        values = [[r for op in part.ops for r in op.results] for part in (self.dist_part, self.base_part)]
        keep = frozenset().union(*values)
        machine = (
            SpreadMachine(self.program, no_random, basis=self.basis, keep=keep, spread=self.spread)
            if self.spread
            else SymbolicMachine(self.program, no_random, basis=self.basis, keep=keep)
        )
        inputs = {t: self.held(shard) for t, shard in self.shards.items()}
        found = {**inputs, **machine.run([self.dist_part], inputs)}
        others, self.basis.needs = self.basis.needs, {}
        base_inputs = {t: {0: self.unknowns(t)} for t in self.base_part.inputs}
        base = {**base_inputs, **machine.run([self.base_part], base_inputs)}
        if any(need.what == "shown" and need not in self.basis.needs for need in others):
            raise Undecided("a part of a row that may be masked altogether, where the baseline's row is not")
        self.basis.needs |= others
        for layout in layouts:
            if self._fits(base[self.base][0], found[self.dist], layout):
                if not met_somewhere(self.basis):
                    raise Undecided("no inputs were found that meet all that the steps need")
                needs = sorted({(machine.where[need], need.what) for need in self.basis.needs})
                given = tuple(t for t in self.base_part.inputs if t in self.base_graph.inputs)
                return Answer(self.dist, self.base, str(layout), self.cuts, given, tuple(needs))
        if self.spread is None:
            self._diagnose(found, base, values)
        return None

    def _diagnose(self, found: Mapping[str, Any], base: Mapping[str, Any], values: list[list[str]]) -> None:
        """Notes the first values of both sides that agree when run and have not one formula."""
        ours, theirs = ([t for t in part if t in kept] for part, kept in zip(values, (found, base), strict=True))

        def fits(t: str, b: str, layout: Layout) -> bool:
            return self._fits(base[b][0], found[t], layout)

        parted = first_difference(self.program, ours, [*self.base_part.inputs, *theirs], fits, ROUGHLY)
        if parted is None or self.difference is None:
            return
        t, b, _ = parted
        names = element_name(lambda t: self.program.tensors[t].shape, self.program.name)
        left, right = (written(self.basis, cell, names) for cell in self.difference)
        self.decider.differences[self.dist, self.base] = (
            f"`{self.program.name(t)}` should be the baseline's `{self.program.name(b)}`, and no law is known by which"
            f" {left} is {right}"
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


def decider(
    tables: Mapping[str, Iterable[Sequence[Any]]],
    corr: Iterable[Sequence[str]],
    seconds: float,
    numbers: frozenset[str] = frozenset(),
) -> Decider:
    """A decider for fact tables and rows of `corr`."""
    known = [
        Shard(dist, piece_of(dist_piece), base, piece_of(base_piece), layout_of(layout))
        for dist, dist_piece, base, base_piece, layout, *_ in corr
    ]
    return Decider(load_program(tables), known, seconds, numbers)
