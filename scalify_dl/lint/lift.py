"""The lift: from a distributed program to the single-device program that it is supposed to compute.

Op by op: where it is known what the operands hold, an op of the same kind and attributes on the values that they hold
joins the baseline; collectives and reshapes of blocks only change the placement. What is supposed here is proved, or
not, by the rules, which are run on the program and what was lifted (`judge`). Where an op has no counterpart (a maximum
of the parts of a sum, a sum of operands in different placements), a `Stop` says what is in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.layout import Digit, Layout, Pending, Repl
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.vocabulary import COLLECTIVES, ELEMENTWISE, RANDOM
from scalify_dl.registry import registering

from .grid import Grid
from .held import Held

if TYPE_CHECKING:
    import numpy as np

    from .factors import Factors

    Numbers = dict[int, np.ndarray[Any, Any]]

T = TypeVar("T")
Lifting = Callable[["Lifter", Op], Sequence[Held | None]]

LIFTING: dict[str, Lifting] = {}
lifting = registering(LIFTING)
"""Enters how ops of some kinds are lifted."""

MOVING = frozenset("reshape broadcast transpose all-gather all-to-all slice convert".split())  # noqa: SIM905
"""Kinds that move elements and change none."""

NUMBERS_LIMIT = 1 << 16
"""So many elements of a value that depends on nothing but the rank are computed."""


class Stop(Exception):
    """An op that is not lifted. `kind` names a violation, or is `lemma` where nothing is known of it, `unclear` where
    it can be meant in two ways; `text` says what is in the way; `probe` is an op of the baseline that it should
    compute, if there is one."""

    def __init__(self, kind: str, text: str, probe: Op | None = None) -> None:
        super().__init__(text)
        self.kind, self.text, self.probe = kind, text, probe


@dataclass(frozen=True)
class Stopped:
    """An op that was not lifted, and why."""

    op: Op
    kind: str
    text: str
    probe: Op | None = None


@dataclass(frozen=True)
class Noted:
    """Something legal but odd, at an op."""

    op: Op
    kind: str
    text: str


@dataclass(frozen=True)
class Counted:
    """How many times a sum over ranks counts what they have alike, along which positions, whether that was summed over
    them before, and why it may be a mean (`means`)."""

    times: Fraction
    again: tuple[int, ...]
    repeated: bool
    doubt: str


@dataclass
class Lifted:
    """What came of it: the baseline, what every value holds, where it stopped."""

    base: Graph
    held: dict[Tensor, Held]
    stops: list[Stopped] = field(default_factory=list)
    notes: list[Noted] = field(default_factory=list)
    ranked: set[Tensor] = field(default_factory=set)
    """Values that depend on the rank and on no input."""
    mixed: dict[Tensor, Held | None] = field(default_factory=dict)
    """Values of the rank and of an input together, which are nothing of one device's by themselves; with the integers
    that they are made of, moved as they were (`masked`)."""
    one_way: set[Tensor] = field(default_factory=set)
    """Values that were read in one of several ways: numbers of the ranks as blocks of one device's."""
    reads: dict[Tensor, Held] = field(default_factory=dict)
    """Reads of blocks of a table before they are masked; and the parts of a sum that they are once they are."""
    masks: dict[Op, Tensor] = field(default_factory=dict)
    """Ops that mask such reads, and what they mask."""
    block_of: dict[Tensor, tuple[Tensor, int]] = field(default_factory=dict)
    """Slices that are one of the blocks that a gather has put one after the other: of which value, which."""
    dealt: set[Op] = field(default_factory=set)
    """Slices by which every rank takes a block of its own of what all have alike."""
    other_blocks: dict[Op, str] = field(default_factory=dict)
    """Those of them by which ranks take blocks of each other, and which these are."""
    rolled: set[Op] = field(default_factory=set)
    """Those by which every rank takes the block as many places on as the others do."""
    kept: dict[Tensor, Held] = field(default_factory=dict)
    """Values that are masked by the rank's numbers, and what they are where the mask keeps them; zero elsewhere."""
    single: dict[Tensor, Tensor] = field(default_factory=dict)
    """Parts of a sum of which, element by element, one at most is not zero; with the value that is so since."""
    fixed: set[Tensor] = field(default_factory=set)
    """Values that depend on no input."""
    sums: dict[Op, tuple[int, ...]] = field(default_factory=dict)
    """Sums over ranks, and the positions of the mesh that they run along."""
    counted: dict[Op, Counted] = field(default_factory=dict)
    """Sums of what ranks have alike that are no means by what stands in front of them."""
    open_choices: dict[object, int] = field(default_factory=dict)
    """Sorts of ops that may be read in several ways, and how many these are."""


class Lifter:
    """One lift of a program from what its inputs hold; `choices` says which way sorts of ops are read."""

    def __init__(
        self, grid: Grid, base: Graph, inputs: Mapping[Tensor, Held], choices: Mapping[object, int] | None = None,
        factors: Mapping[Op, Factors] | None = None, borne: Mapping[Tensor, Layout] | None = None,
    ) -> None:
        self.grid = grid
        self.out = Lifted(base, dict(inputs))
        self.choices = dict(choices or {})
        self.factors = dict(factors or {})
        self.borne = dict(borne or {})
        """Where a run says that results are what their ops make of one device's values, though no lemma does."""
        self.maker: dict[Tensor, Op] = {}
        self.readers: dict[Tensor, list[Op]] = {}
        self._numbers: dict[Tensor, Numbers | None] = {}
        self._refitted: dict[object, Held | None] = {}
        self._fixed = self.out.fixed
        self._cones: dict[Tensor, set[Tensor]] = {}
        self._alike: dict[object, Tensor] = {}

    @property
    def base(self) -> Graph:
        """The baseline that grows."""
        return self.out.base

    def run(self, graph: Graph) -> Lifted:
        """Lifts all ops of a program."""
        from .means import in_doubt
        from .refit import one_value

        for op in graph.ops:
            for t in op.operands:
                self.readers.setdefault(t, []).append(op)
        for op in graph.ops:
            self.maker.update(dict.fromkeys(op.results, op))
            if op.kind not in COLLECTIVES | RANDOM and self._fixed.issuperset(op.operands) and not op.regions:
                self._fixed.update(op.results)
                chosen = op.kind == "select" and self.out.ranked.isdisjoint(op.operands[1:]) and one_value(self, op)
                if _of_rank(op) or not (chosen or self.out.ranked.isdisjoint(op.operands)):
                    self.out.ranked.update(op.results)
                    continue
            if any(t not in self.out.held and t not in self.out.ranked and t not in self.out.mixed
                   for t in op.operands):  # fmt: skip
                continue  # what stopped before is told once
            try:
                self._op(op)
            except Stop as stop:
                probe = stop.probe or self._probe(op)
                if probe is not None and op.results[0] in self.borne:
                    held = Held.placed(probe.results[0], op.results[0].shape, self.borne[op.results[0]], self.grid)
                    if held is not None:
                        self.out.held[op.results[0]] = held
                        continue
                self.out.stops.append(Stopped(op, stop.kind, stop.text, probe))
            except (InputError, ValueError, KeyError, IndexError) as error:
                self.out.stops.append(Stopped(op, "lemma", f"it is not lifted: {error}"))
        for port in graph.outputs:
            held = self.out.held.get(port.tensor)
            if held is not None and held.scale != 1 and in_doubt(self, held.scale):
                self.out.one_way.add(port.tensor)
        return self.out

    def _op(self, op: Op) -> None:
        if len(op.operands) == 1 and op.kind in MOVING and self._moved(op):
            return
        if op.kind not in ELEMENTWISE:
            self._unmasked(op)
        for result, held in zip(op.results, self._results(op), strict=True):
            if held is None:
                self.out.mixed[result] = self.integers(op) if op.kind in ELEMENTWISE else None
                continue
            local = tuple(prod(digit.size for digit in digits) for digits in held.local)
            if held.along is None and local != result.shape:
                raise Stop("lemma", f"it is {result.type}, what was lifted is {list(local)} on every rank")
            twice = {p for piece in held.parts for p in piece.cut if not isinstance(held.mesh[p], Repl)}
            if twice:
                axes = ", ".join(self.grid.axes_of(twice))
                raise Stop("placed-differently", f"over {axes} its operands differ in two ways")
            self.out.held[result] = held
            if op.kind in (*MOVING, "all-reduce") and op.operands[0] in self.out.single and held.pending:
                self.out.single[result] = self.out.single[op.operands[0]]

    def _results(self, op: Op) -> Sequence[Held | None]:
        handle = LIFTING.get(op.kind)
        if op.kind == "scatter" and len(op.operands) == 3 and self.is_odd(op.operands[1]):
            from .masked_writes import masked_write

            return [masked_write(self, op)]
        if handle is not None:
            return handle(self, op)
        if op in self.factors:
            from .factors import by_factors

            return by_factors(self, op, self.factors[op])
        return as_it_is(self, op)

    def _unmasked(self, op: Op) -> None:
        from .masked import unmasked

        unmasked(self, op)

    def _probe(self, op: Op) -> Op | None:
        """The op on what the operands hold, where their shapes allow it."""
        helds = [self.out.held.get(t) for t in op.operands]
        if op.kind in COLLECTIVES or not all(helds):
            return None
        try:
            self.emit(op, [h.base for h in helds if h is not None])
        except (Stop, InputError, ValueError, KeyError, IndexError):
            return None
        return self.base.ops[-1]

    def _moved(self, op: Op) -> bool:
        """Whether a value is moved of which is known what stands behind it; then it stands behind the result, too."""
        (operand,) = op.operands
        for table in (self.out.reads, self.out.kept, self.out.mixed):
            behind = table.get(operand)
            if behind is None or (op.kind == "convert" and table is self.out.mixed):
                continue
            self.out.held[operand] = behind
            try:
                (found,) = LIFTING[op.kind](self, op)
            except (Stop, InputError):
                found = None
            finally:
                del self.out.held[operand]
            self.out.mixed[op.result] = None
            if found is not None:
                table[op.result] = found
            return True
        return False

    def integers(self, op: Op) -> Held | None:
        """The one value of integers that operands are made of, the rank's numbers aside; None where there are more."""
        found: dict[Tensor, Held] = {}  # what others are made of comes first
        for t in op.operands:
            behind = self.out.mixed.get(t)
            held = self.out.held.get(t)
            if behind is not None:
                found[behind.base] = behind
            elif held is not None and t not in self.out.fixed and t.dtype[0] in "su" and held.calm:
                found[held.base] = held
        roots = [base for base in found if all(base in self._cone(other) for other in found)]
        return found[roots[0]] if roots else None

    def _cone(self, tensor: Tensor) -> set[Tensor]:
        """What a value of the baseline is made of, itself included."""
        if tensor not in self._cones:
            maker = {t: op for op in self.base.ops for t in op.results}
            seen: set[Tensor] = set()
            stack = [tensor]
            while stack:
                one = stack.pop()
                if one not in seen:
                    seen.add(one)
                    stack += maker[one].operands if one in maker else []
            self._cones[tensor] = seen
        return self._cones[tensor]

    def choose(self, sort: object, ways: Sequence[T]) -> T:
        """One of the ways to read an op; all of one sort are read alike."""
        if len(ways) > 1:
            self.out.open_choices[sort] = len(ways)
        return ways[min(self.choices.get(sort, 0), len(ways) - 1)]

    # what is known of operands

    def held(self, tensor: Tensor) -> Held:
        """What an operand holds; Stop where it is nothing of one device's."""
        found = self.out.held.get(tensor)
        if found is None:
            raise Stop("rank-dependent", f"`{tensor.name}` depends on the rank, and is no block of one device's value")
        return found

    def is_odd(self, tensor: Tensor) -> bool:
        """Whether a value depends on the rank, so that it is nothing of one device's by itself."""
        return tensor not in self.out.held

    def numbers(self, tensor: Tensor) -> Numbers | None:
        """The numbers, by rank, of a value that depends on no input; None where it does or is large."""
        if tensor not in self._numbers:
            self._numbers[tensor] = self._computed(tensor)
        return self._numbers[tensor]

    def _computed(self, tensor: Tensor) -> Numbers | None:
        op = self.maker.get(tensor)
        if op is None or tensor not in self._fixed or prod(tensor.shape) > NUMBERS_LIMIT or len(op.results) != 1:
            return None
        operands = [self.numbers(t) for t in op.operands]
        known = [x for x in operands if x is not None]
        if len(known) < len(operands):
            return None
        import numpy as np  # most programs are proved without

        from scalify_dl.oracle.meaning import MEANINGS, Call
        from scalify_dl.oracle.program import Op as NumericOp
        from scalify_dl.oracle.program import Tensor as NumericTensor

        meaning = MEANINGS.get(op.kind)
        if meaning is None:
            return None
        literal = tensor.literal
        if literal is not None and literal.is_elided:
            return None
        numeric = NumericOp(op.name, op.kind, ["" for _ in operands], [tensor.name], op.numbers, op.symbols)
        for (key, pos), by_rank in op.rank_numbers.items():
            numeric.by_rank.setdefault(key, {})[pos] = by_rank
        declared = NumericTensor(tensor.name, tensor.dtype, tensor.shape, literal.text if literal else None,
                                 literal.items if literal and literal.text.startswith("{") else None)  # fmt: skip
        found: Numbers = {}
        try:
            for rank in range(self.grid.mesh.size):
                call = Call(numeric, rank, [declared], False, 0)
                found[rank] = np.asarray(meaning(call, [x[rank] for x in known])[0])
        except Exception:
            return None
        return found

    # making ops

    def emit(self, op: Op, operands: Sequence[Tensor], types: Sequence[tuple[str, tuple[int, ...]]] | None = None,
             **numbers: Sequence[int]) -> list[Tensor]:  # fmt: skip
        """An op of the baseline like `op`, with some numbers changed."""
        merged = {**op.numbers, **numbers}
        made = self.base.add(op.kind, operands, types or self._types(op, operands, merged), name=op.name,
                             numbers=merged, symbols=op.symbols, source=op.source, at=op.at,
                             regions=op.regions)  # fmt: skip
        return made.results

    def _types(self, op: Op, operands: Sequence[Tensor], numbers: Mapping[str, Sequence[int]]) -> Any:
        from scalify_dl.ir.shapes import RULES

        draft = Op(op.kind, list(operands), [], op.name, {k: list(v) for k, v in numbers.items()}, dict(op.symbols))
        found = RULES.get(op.kind)
        if found is None:
            raise Stop("lemma", f"nothing is known of the shape of `{op.kind}`")
        inferred = found(draft, (op.results[0].dtype, op.results[0].shape) if _typed(op) else None)
        return [(r.dtype, shape) for r, (_, shape) in zip(op.results, inferred, strict=True)]

    def splat(self, literal: Literal, dtype: str, shape: Sequence[int], like: Op) -> Tensor:
        """A constant of one number everywhere."""
        key = (literal.text, literal.rational, dtype, tuple(shape))
        if key not in self._alike:
            self._alike[key] = self.base.splat(literal, dtype, shape, source=like.source)
        return self._alike[key]

    # values that fit many placements

    def refit(self, tensor: Tensor, want: Held) -> Held | None:
        """What a value holds in the placement of another one; None where it does not fit it."""
        plain = replace(
            want,
            scale=Fraction(1),
            mesh=tuple(Repl(e.size) if isinstance(e, Pending) else e for e in want.mesh),
            free=frozenset(),
        )
        key = (tensor, plain.base.shape, plain.local, plain.mesh, plain.parts)
        if key not in self._refitted:
            self._refitted[key] = None
            self._refitted[key] = self._refit(tensor, plain)
        return self._refitted[key]

    def _refit(self, tensor: Tensor, want: Held) -> Held | None:
        from .refit import refit

        return refit(self, tensor, want)


def as_it_is(lifter: Lifter, op: Op) -> Sequence[Held | None]:
    """An op of which nothing is known but that it does the same on all ranks with the same values."""
    helds = [lifter.held(t) for t in op.operands]
    for tensor, held in zip(op.operands, helds, strict=True):
        if held.pending:
            raise Stop("non-linear", f"`{tensor.name}` is still to be reduced")
        if not held.calm or held.along is not None or tuple(held.base.shape) != tuple(tensor.shape) or any(
            isinstance(entry, Digit) for entry in held.mesh
        ):
            raise Stop("lemma", f"nothing is known of what `{op.kind}` does to dims that are split over ranks")
    types = [(t.dtype, t.shape) for t in op.results]
    if op.rank_numbers or op.strides:
        raise Stop("lemma", f"`{op.kind}` does something else on every rank")
    return [Held.whole(t, lifter.grid) for t in lifter.emit(op, [h.base for h in helds], types)]


def _of_rank(op: Op) -> bool:
    return bool(op.rank_numbers or op.strides) or op.kind in ("partition-id", "replica-id")


def _typed(op: Op) -> bool:
    return op.kind in ("convert", "bitcast-convert", "dot", "convolution", "reduce", "dropout-mask", "top-k")
