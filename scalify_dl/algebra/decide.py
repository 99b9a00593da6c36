"""Does an output hold what the baseline's does? Both sides are computed on formulas and compared element by element.

Unknowns are the inputs, or, nearer to the output, values of which a correspondence is proved already (cuts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout
from scalify_dl.ir.literals import rational
from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.addressing import layout_of, pending_kind, piece_of
from scalify_dl.oracle.compare import check, default_layouts
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS
from scalify_dl.oracle.dtypes import is_float
from scalify_dl.oracle.erased import Limits
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.program import Program, Shard, Tensor, load_program
from scalify_dl.oracle.rewrites import Rewrite
from scalify_dl.oracle.shrink import shrink
from scalify_dl.oracle.shrink.extents import Conflict
from scalify_dl.oracle.trial import Trial, run_trial

from .between import BETWEEN, find_cuts
from .compared import MOST_VALUES, ROUGHLY, Answer, Pair
from .complexes import is_complex
from .effort import EFFORT, now
from .form import Undecided
from .formulas import MOVES, is_outer
from .machine import MOST_ELEMENTS
from .numbers import MASK
from .rewriting import Rewritten
from .rounded import Factors, products
from .spread import Spread, spread
from .thresholds import asked_of

LIGHT = frozenset({"exponential", "logistic", "tanh", "erf", "compare", "is-finite", "attention"})
"""Functions that are small of the largest numbers below zero, too."""
FEW_ELEMENTS = 500
"""Elements of programs that are followed one by one at once; in larger ones variables are tried first."""
MOST_SCALES = 5
"""Of values that are known, up to which others are looked for."""
SUMS = frozenset({"reduce", "all-reduce", "reduce-scatter"})
POWERS = frozenset({"sqrt", "rsqrt", "power"})
LINEAR = frozenset({"add", "subtract", "multiply", "divide", "negate", "convert", "select"})
KEPT_ELEMENTS = 500_000
"""Elements of programs of whose executions all values are kept, to be compared."""
KEPT_SMALL = 4_000_000
"""The same of programs at small sizes, of which few values are compared."""

Way = tuple[str, str, Spread | None]
"""Where formulas begin (`ENDS`); what constants are taken for; with variables in the place of sizes."""


class Found(NamedTuple):
    """Values on the way that are equal, by the distributed one, and pairs of which no law was known."""

    between: dict[str, Answer]
    unlike: set[tuple[str, str]]


@dataclass
class Decider:
    """Decides pairs of one program. `known` are correspondences that are proved (or given)."""

    program: Program
    known: list[Shard]
    seconds: float = 5.0
    """CPU time for all pairs."""
    numbers: frozenset[str] = frozenset()
    """Values that are derived to be numbers, never infinite or NaN: only these, and inputs, are cuts."""
    rewritten: Rewritten | None = None
    """The program, where somebody's own equalities changed it."""
    reasons: list[str] = field(default_factory=list)
    """Why pairs were not decided."""
    spared: float = 3.0
    """CPU time for values between, at least, of the first output for which they are sought."""
    again: bool = False
    """Whether values on the way come first: all else was tried before."""
    until: float | None = None
    """CPU time at which one attempt ends, where that is before the deadline."""
    between: dict[str, Answer] = field(default_factory=dict)
    """Cuts that are no correspondences, and what these rest on."""
    unlike: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of values between of which no law was known."""
    differences: dict[tuple[str, str], str] = field(default_factory=dict)
    """For pairs whose formulas are not known to be one, where they part."""

    def __post_init__(self) -> None:
        self.deadline = now() + self.seconds
        self.makers = self.program.producer()
        tops = [*self.program.top("base"), *self.program.top("dist")]
        types = {t: declared.dtype for t, declared in self.program.tensors.items()}
        sound = {t for t in self.numbers if not is_complex(types.get(t, ""))}.union(*(graph.inputs for graph in tops))
        sound |= {t for t, dtype in types.items() if not (is_float(dtype) or is_complex(dtype))}
        once = {t for graph in tops for t in (*graph.inputs, *(r for op in graph.ops for r in op.results))}
        self.sound = sound
        """Baseline values that are numbers, or if inputs are."""
        self.by_dist: dict[str, list[Shard]] = {}
        self.unsure: dict[str, list[Shard]] = {}
        """Values of which it is not known whether they are numbers: cuts of `local` pairs, on that condition."""
        for shard in self.known:
            values = {shard.dist, shard.base}  # in loops a name has a value for each turn
            whole = not shard.dist_piece and pending_kind(shard.layout) is None
            if whole and values <= once:
                (self.by_dist if shard.base in sound else self.unsure).setdefault(shard.dist, []).append(shard)

    @property
    def found(self) -> Found:
        """What another decider may go on from."""
        return Found(self.between, self.unlike)

    def go_on(self, before: Found) -> None:
        """Values between are taken from an earlier decider: now rules know what follows from them."""
        self.again = True
        self.between.update(before.between)
        self.unlike |= before.unlike
        for t, answer in before.between.items():
            self.by_dist.setdefault(t, []).append(Shard(t, (), answer.base, (), layout_of(answer.layout)))

    @cached_property
    def has_masks(self) -> bool:
        """Whether there are constants that may be masks, below zero and large."""
        return any(map(_is_mask, self.program.tensors.values()))

    @cached_property
    def has_many_ids(self) -> bool:
        """Whether there are ids of more values than a table has: then variables stand for rows."""
        return any(hi - lo > MOST_VALUES for lo, hi in self.program.ranges.values())

    @cached_property
    def heavy(self) -> set[str]:
        """Values that may be as large as a mask: what is made of one, up to functions that make it small."""
        found = {t for t, declared in self.program.tensors.items() if _is_mask(declared)}
        for graph in (*self.program.top("base"), *self.program.top("dist")):
            for op in graph.ops:
                if op.regions or (op.kind not in LIGHT and not found.isdisjoint(op.operands)):
                    found.update(op.results)
        return found

    @cached_property
    def products(self) -> dict[Fraction, Factors]:
        """Constants that are products of powers of others, rounded."""
        return products(self.program)

    @property
    def readings(self) -> list[tuple[str, str]]:
        """Where formulas begin and what constants may be taken for, besides what they are."""
        rounded = [(ends, "rounded") for ends in ("given", "inputs") if self.products]
        left_out = [(ends, "thresholds") for ends in ("given", "inputs") if asked_of(self.program)]
        return [*rounded, *left_out, *([("inputs", "masks")] if self.has_masks else [])]

    @property
    def likeness(self) -> Trial | None:
        """An execution that says which values may be equal."""
        return self.trials[0] if self.elements <= KEPT_ELEMENTS else self.small_trial

    @cached_property
    def scales(self) -> list[Fraction]:
        """At which values may hold others: as they are, or as some are known to."""
        held = [shard for t, found in self.by_dist.items() if t not in self.fixed for shard in found]
        found = Counter(shard.layout.scale for shard in held)
        return [Fraction(1), *(scale for scale, _ in found.most_common(MOST_SCALES) if scale != 1)]

    def decide(self, dist: str, base: str, text: str) -> Answer | None:
        """Whether `dist` holds `base` with the layout of that text (empty: whole dims or blocks over mesh axes)."""
        if not self.spared and now() > self.deadline:  # to begin is not for nothing
            return None
        small = self.elements <= KEPT_ELEMENTS
        if small and not self._agreeing(dist, base, text):  # to run it is less than to follow any formula
            return None
        if self.elements > FEW_ELEMENTS and not (small and self.again):
            tensors = self.program.tensors
            shapes = tensors[base].shape, tensors[dist].shape
            layouts = [layout_of(text)] if text else list(default_layouts(*shapes, self.program.mesh))
            spreads = [parts for parts in self.spreads if parts is not None]
            begun = ("given", "reals", "rows", "inputs")
            ways: list[Way] = [(ends, "", parts) for parts in spreads for ends in begun]
            ways += [(ends, reading, parts) for parts in spreads for ends, reading in self.readings]
            found = None
            if not self.again or small:
                if not small:  # the other half is for values between
                    self.until = now() + max(self.deadline - now(), 0) / 2
                found = self._first(dist, base, layouts, ways)
                self.until = None
            one = len(self.program.ranks) == 1  # layouts at small sizes are not always those at large ones
            if found is None and not small and one and self.small_trial is not None:
                find_cuts(self, self.small_trial, dist, base, local=True)
            if found is not None or self.elements > DIRECT_ELEMENTS:
                return found
        agreeing = self._agreeing(dist, base, text)
        if not agreeing:
            return None
        near: list[Way] = [(ends, "", None) for ends in ("given", "reals", *(BETWEEN if self.between else ()))]
        far: list[Way] = [(ends, reading, None) for ends, reading in (("inputs", ""), *self.readings)]
        if not self.again:
            for ways, share in ((near, 2), (far, 3)):
                self.until = now() + max(self.deadline - now(), 0) / share
                found = self._first(dist, base, agreeing, ways)
                late, self.until = now() > self.until, None
                if found is not None:
                    return found
        trial = self._trial_of(dist, base)
        if self.spared:  # however long formulas took: values between have their time
            self.deadline, self.spared = max(self.deadline, now() + self.spared), 0.0
        if trial and self._is_number(dist, base) and find_cuts(self, trial, dist, base):
            return None
        return self._first(dist, base, agreeing, [*near, *far]) if self.again or late else None

    def _first(self, dist: str, base: str, layouts: list[Layout], ways: Iterable[Way]) -> Answer | None:
        """The first way in which formulas are equal."""
        tried: list[object] = []
        for ends, reading, parts in ways:
            try:
                pair = Pair(self, dist, base, ends, reading=reading, spread=parts)
                begun = (pair.cuts, pair.dist_part.inputs, reading, parts and parts.parts)
                if begun in tried:
                    continue
                tried.append(begun)
                answer = pair.answer(layouts)
                if answer is None and ends in BETWEEN and (parted := pair.difference_in_words()):
                    self.differences.setdefault((dist, base), parted)
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
        for graph in (*self.program.top("base"), *self.program.top("dist")):
            for op in graph.ops:
                plain = op.kind in ELEMENTWISE | MOVES | {"constant", "iota"} or is_outer(op)
                if plain and found.issuperset(op.operands):
                    found.update(op.results)
        return found

    def is_sum(self, tensor: str) -> bool:
        """Whether a value is one of an op that is not elementwise, moved about or not."""
        op = self.makers.get(tensor)
        while op is not None and op.kind in MOVES and op.operands:
            op = self.makers.get(op.operands[0])
        return op is None or op.kind not in ELEMENTWISE | MOVES

    @cached_property
    def made_of_sums(self) -> set[str]:
        """Values that linear ops and powers make of sums of rows, on a rank or over ranks: unknowns for both a mean and
        its row would have nothing to do with one another."""
        found: set[str] = set()
        for op in self.program.top("dist")[0].ops:
            sums = op.kind in SUMS and op.symbol("reducer", "sum") == "sum"
            if sums or (op.kind in LINEAR | MOVES | POWERS and not found.isdisjoint(op.operands)):
                found.update(op.results)
        return found

    def is_sound(self, shard: Shard) -> bool:
        """Whether a cut is known to be a number, or is one if inputs are."""
        return shard.base in self.sound or shard.dist in self.between

    def is_cut(self, t: str, ends: str) -> bool:
        """Whether formulas may begin (`ENDS`) at a value of which a baseline value is known."""
        if ends == "inputs":
            return False
        if ends in ("given", "reals"):
            whole = ends == "reals" and not is_float(self.program.tensors[t].dtype)
            return t not in self.between and not whole
        if t in self.fixed:  # constants are better computed than unknown
            return False
        if ends == "rows":
            return t not in self.made_of_sums
        return ends == "all" or (self.is_sum(t) and (ends == "sums" or t in self.bent))

    @cached_property
    def bent(self) -> set[str]:
        """Values that go, added, multiplied and moved about, into functions that are not linear."""
        found: set[str] = set()
        for op in reversed(self.program.top("dist")[0].ops):
            if op.kind in ELEMENTWISE - LINEAR or (op.kind == "reduce" and op.symbol("reducer", "sum") != "sum"):
                found.update(op.operands)
            elif op.kind == "divide":
                found.update(op.operands[1:])
            if op.kind in LINEAR | MOVES and not found.isdisjoint(op.results):
                found.update(op.operands)
        return found

    @cached_property
    def spreads(self) -> tuple[Spread | None, Spread | None]:
        """The program with variables in the place of sizes: cut by ops, and also where positions are compared."""
        shards = [shard for found in self.by_dist.values() for shard in found]
        loose, tight = (spread(self.program, shards, MOST_ELEMENTS, counted=counted) for counted in (False, True))
        return loose, tight if loose and tight and loose.parts != tight.parts else None

    def _agreeing(self, dist: str, base: str, text: str) -> list[Layout]:
        """Layouts in which the values of one execution agree, of those that may be expected."""
        trial = self._trial_of(dist, base)
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

    def _trial_of(self, dist: str, base: str) -> Trial | None:
        """The execution that says most of an output: on numbers of both signs, or where that gives what is no number,
        on numbers above zero."""
        return next((trial for trial in self.trials if trial and is_number(trial, dist, base)), self.trials[0])

    def _is_number(self, dist: str, base: str) -> bool:
        """Whether an output was a finite number everywhere in an execution: so all that steps need can be so."""
        trial = self._trial_of(dist, base)
        return trial is not None and bool(np.isfinite(trial.baseline[base]).all())

    @cached_property
    def elements(self) -> int:
        """How many elements of all tensors there are on all ranks."""
        return elements(self.program)

    @cached_property
    @EFFORT.aside()
    def trials(self) -> list[Trial | None]:
        """Executions of both sides, which tell what is not worth comparing; the second where the first gave NaN."""
        first = self._run("reals")
        ends = [(dist, base) for dist, base, _ in self.program.expects]
        if first is None or all(is_number(first, *end) for end in ends):
            return [first]
        return [first, self._run("positive")]

    @cached_property
    def near(self) -> dict[str, list[Shard]]:
        """What local pairs may begin with: what is known, and what is known if it is a number, as in an execution."""
        trial = self.small_trial if len(self.program.ranks) == 1 else None
        values = trial.baseline if trial else {}
        more = {t: [s for s in found if s.base in values and np.isfinite(values[s.base]).all()]
                for t, found in self.unsure.items() if t not in self.by_dist}  # fmt: skip
        return {t: found for t, found in more.items() if found}

    @cached_property
    @EFFORT.aside()
    def small_trial(self) -> Trial | None:
        """An execution at small sizes, of programs that are too large to keep all values of; None where no sizes are
        small enough."""
        try:
            program = shrink(self.program).program
            return self._run("reals", program) if elements(program) <= KEPT_SMALL else None
        except (Conflict, InputError, MemoryError):
            return None

    def erased(self, dist: str, base: str) -> bool:
        """Whether what steps need leaves out inputs for which the baseline is a number, and the other side is not.

        Asked of the output itself; of a value on the way of all outputs, which may follow from it."""
        return self._among("erased", dist, base)

    def erased_infinities(self, dist: str, base: str) -> bool:
        """The same of inputs that are not finite, where a program asks whether they are."""
        return self._among("erased_infinities", dist, base)

    def overflows(self, dist: str, base: str) -> bool:
        """Whether the other side is no number for some large inputs for which the baseline is one."""
        return self._among("overflowing", dist, base)

    @EFFORT.aside()
    def _among(self, which: str, dist: str, base: str) -> bool:
        erased: frozenset[tuple[str, str]] = getattr(self.limits, which)
        outputs = {pair[:2] for pair in self.program.expects}
        return not erased.isdisjoint({(dist, base)} & outputs or outputs)

    @cached_property
    def limits(self) -> Limits:
        """Both sides where divisors, roots and logarithms are at their limits."""
        return Limits(self.program, self.known)

    def _run(self, how: str, small: Program | None = None) -> Trial | None:
        program = small or self.program
        values = {role: [t for g in program.top(role) for op in g.ops for t in op.results] for role in ROLES}
        keep = values if small or self.elements <= KEPT_ELEMENTS else {role: [] for role in ROLES}
        expected = [dist for dist, _, _ in program.expects]
        try:
            return run_trial(program, 1, how, keep_base=keep["base"], keep_dist=[*keep["dist"], *expected])
        except (Unsupported, Deadlock, InputError):
            return None


ROLES = ("base", "dist")


def _is_mask(declared: Tensor) -> bool:
    """Whether there is a number in a constant that may be a mask."""
    words = (declared.literal or "").replace("{", "").replace("}", "").split(",")
    values = (rational(word) for word in words if word[:1] == "-" and "/" not in word)
    return any(value is not None and value <= -MASK for value in values)


def elements(program: Program) -> int:
    """How many elements of all tensors there are on all ranks."""
    return sum(prod(t.shape) for t in program.tensors.values()) * len(program.ranks)


def is_number(trial: Trial, dist: str, base: str) -> bool:
    """Whether no element of an output is NaN on any side."""
    values = [trial.baseline.get(base), *trial.distributed.get(dist, {}).values()]
    return not any(value is not None and value.dtype.kind in "fc" and np.isnan(value).any() for value in values)


def decider(
    tables: Mapping[str, Iterable[Sequence[Any]]],
    corr: Iterable[Sequence[str]],
    seconds: float,
    numbers: frozenset[str] = frozenset(),
    rewrites: Sequence[Rewrite] = (),
) -> Decider:
    """A decider for fact tables and rows of `corr`; ops of the form of `rewrites` are rewritten."""
    known = [
        Shard(dist, piece_of(dist_piece), base, piece_of(base_piece), layout_of(layout))
        for dist, dist_piece, base, base_piece, layout, *_ in corr
    ]
    rewritten = Rewritten(load_program(tables), list(rewrites))
    return Decider(rewritten.program, known, seconds, numbers, rewritten)
