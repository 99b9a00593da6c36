"""What ops make of tensors in which variables stand for whole dims: each checks that it treats all of them alike.

Cells of a tensor have the variables of its own dims, by place (`spread.variables`). So an op says which variables of
its result those of its operands are, sums or takes the maximum over those that it reduces, and does the rest to the
cells as at small sizes. Where an op cuts what is whole, or nothing is said of its kind, the pair is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scalify_dl.ir.vocabulary import ELEMENTWISE
from scalify_dl.oracle.dtypes import is_float, is_integer
from scalify_dl.oracle.execute import PerRank
from scalify_dl.oracle.meaning import Call
from scalify_dl.oracle.program import Op
from scalify_dl.registry import registering
from scalify_dl.sizes import Size, above, greatest, least, quotient

from . import extended, laws
from .cells import Array, as_cell, is_symbolic, mapped
from .elementwise import compared
from .extended import Cell
from .finite import Table
from .form import Field, Form, Undecided
from .formulas import bounded, constants, counted, over_tables
from .machine import SymbolicMachine
from .sized import size_in, worth
from .spread import Parts, Spread, merged, of_dim, size, small, tail, variables
from .variables import Renamed, Variable
from .whole import integer_bounds

COMPARED = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
Dims = tuple[Parts, ...]
Names = Mapping[Variable, Variable]


@dataclass(frozen=True)
class Site:
    """An op where it is met: the machine, the call, its operands, and the parts of operands and results."""

    machine: SpreadMachine
    call: Call
    xs: list[Array]
    ins: list[Dims]
    outs: list[Dims]

    def number(self, key: str) -> int:
        """A number of the op."""
        return self.call.number(key)

    def numbers(self, key: str) -> list[int]:
        """Numbers of the op; none where it has none."""
        return self.call.numbers(key, [])

    def at_small_sizes(self, xs: list[Array], **numbers: list[int]) -> list[Array]:
        """The op on small tensors, with other numbers where they are given."""
        op = self.call.op
        if numbers:
            kept = {key: op.number(key, self.call.rank) for key in {*op.numbers, *op.by_rank}}
            op = replace(op, numbers={**kept, **numbers}, by_rank={})
        return self.machine.plain(replace(self.call, op=op), xs)


Rule = Callable[[Site], list[Array]]
RULES: dict[str, Rule] = {}
rule = registering(RULES)
"""Registers what some kinds make of variables."""


def demand(condition: object, what: str) -> None:
    """Undecided where an op does not treat all of a dim alike."""
    if not condition:
        raise Undecided(f"{what} cuts a dim that is whole")


@dataclass
class SpreadMachine(SymbolicMachine):
    """Runs graphs on arrays of formulas with variables."""

    spread: Spread = field(default_factory=lambda: _none())
    renamers: dict[frozenset[tuple[Variable, Variable]], Renamed] = field(default_factory=dict)

    def parts(self, tensors: Iterable[str]) -> list[Dims]:
        """The parts of the dims of tensors."""
        return [self.spread.parts[t] for t in tensors]

    def plain(self, call: Call, xs: list[Array]) -> list[Array]:
        """An op in which no variable plays a part, nor a size that is a symbol."""
        if call.op.kind == "constant" and (sized := self.of_sizes(call)) is not None:
            return [sized]
        for key in {*call.op.numbers, *call.op.by_rank}:
            if any(isinstance(value, Size) for value in call.op.number(key, call.rank)):
                raise Undecided(f"`{call.op.kind}` with a size that is a symbol")
        return super()._meant(call, xs)

    def of_sizes(self, call: Call) -> Array | None:
        """A constant that is a size, or one over another; None for others."""
        tensor, told = call.results[0], "value" in {*call.op.numbers, *call.op.by_rank}
        values = (call.number("value"), 1) if told else self.spread.literals.get(call.op.results[0], (0, 1))
        if not any(isinstance(value, Size) for value in values):
            return None
        num, den = (worth(self.basis, value) for value in values)
        cell = num * laws.power(den, -1)
        if not is_float(tensor.dtype):
            cell = bounded(cell, tensor.dtype)
        return np.broadcast_to(np.array(cell, dtype=object), tensor.shape)

    def _meant(self, call: Call, xs: list[Array]) -> list[Array]:
        ins, outs = self.parts(call.op.operands), self.parts(call.op.results)
        if not any(variables(dims) for dims in (*ins, *outs)):
            return self.plain(call, xs)
        found = RULES.get(call.op.kind)
        if found is None:
            raise Undecided(f"nothing is known of what `{call.op.kind}` makes of large dims")
        return found(Site(self, call, xs, ins, outs))

    def renamed(self, x: Array, names: Names) -> Array:
        """A tensor with other variables."""
        names = {old: new for old, new in names.items() if old != new}
        if not names or not is_symbolic(x):
            return x
        key = frozenset(names.items())
        renamer = self.renamers.setdefault(key, Renamed(self.basis, names))
        return mapped(renamer.cell, x)

    def _met(self, op: Op, values: PerRank) -> PerRank:
        (ins,), (outs,) = self.parts(op.operands[:1]), self.parts(op.results)
        if variables(ins) or variables(outs):
            moved = {key for key in ("dimension", "split_dimension", "concat_dimension") if key in op.numbers}
            along = {op.number(key, 0)[0] for key in moved} if op.kind != "all-reduce" else set()
            alike(op.kind, ins, outs, along)
        return super()._met(op, values)

    def _while(self, op: Op, *rest: Any) -> Any:
        condition, body = (self.program.graphs[g] for g in op.regions)
        for group in zip(op.operands, op.results, condition.inputs, body.inputs, body.outputs, strict=True):
            one_shape(op.kind, self.parts(group))
        return super()._while(op, *rest)

    def _conditional(self, op: Op, *rest: Any) -> Any:
        left = op.operands[1:]
        for region in op.regions:
            branch = self.program.graphs[region]
            mine, left = left[: len(branch.inputs)], left[len(branch.inputs) :]
            for pair in [*zip(mine, branch.inputs, strict=True), *zip(op.results, branch.outputs, strict=True)]:
                one_shape(op.kind, self.parts(pair))
        return super()._conditional(op, *rest)


def _none() -> Spread:
    raise TypeError("a machine needs the parts of dims")


# ---- what is checked ----
def one_shape(what: str, shapes: Sequence[Dims]) -> None:
    """All have the same parts (a scalar may stand where a tensor may)."""
    for dims in shapes:
        demand(not dims or dims == shapes[-1], what)


def alike(what: str, left: Dims, right: Dims, along: Iterable[int] = ()) -> None:
    """All dims have the same parts; along some, blocks of the same parts are counted."""
    demand(len(left) == len(right), what)
    for d, (a, b) in enumerate(zip(left, right, strict=True)):
        demand(a == b or (d in along and tail(a) == tail(b)), what)


def blocks(what: str, parts: Parts, value: int) -> int:
    """An offset along a dim as one at the small size: it is a number of blocks."""
    count = quotient(value, size(tail(parts)) if tail(parts) else 1)
    demand(count is not None and not isinstance(count, Size), what)
    assert count is not None
    return count * small(tail(parts))


# ---- elementwise ops and moves ----
@rule(*ELEMENTWISE)
def elementwise(site: Site) -> list[Array]:
    """One shape: element by element."""
    one_shape(site.call.op.kind, [*site.ins, site.outs[0]])
    kind = site.call.op.kind
    if kind in ("bitcast-convert", "complex", "real", "imag", "rng-bit-generator"):
        raise Undecided(f"nothing is known of what `{kind}` makes of large dims")
    tensors = site.machine.program.tensors
    if kind == "compare" and is_integer(tensors[site.call.op.operands[0]].dtype):
        direction, basis = site.call.symbol("direction"), site.machine.basis
        return [mapped(lambda a, b: compared_values(direction, as_plain(basis, a), as_plain(basis, b)), *site.xs)]
    return site.at_small_sizes(site.xs)


def as_plain(basis: Field, element: Any) -> Any:
    """An integer as a formula or a table."""
    return element if isinstance(element, Table) else as_cell(basis, element)


def compared_values(direction: str, left: Any, right: Any) -> Any:
    """A comparison of integers, by tables where these say all that there is to know."""
    plain = [cell.value if isinstance(cell, Form) else cell for cell in (left, right)]
    if None in plain or not any(isinstance(cell, Table) for cell in plain):
        basis = next(cell for cell in (left, right) if isinstance(cell, Form)).field
        return compared_integers(direction, as_cell(basis, left), as_cell(basis, right))
    return over_tables(COMPARED[direction], tuple(plain))


def compared_integers(direction: str, left: Cell, right: Cell) -> Form:
    """A comparison of integers; decided where the values that they may have decide it."""
    low, high = integer_bounds(extended.finite(left, "integers") - extended.finite(right, "integers"))
    one = extended.finite(left, "integers").field.one
    if above(low) or above(-high):
        return one if direction in (("NE", "GT", "GE") if above(low) else ("NE", "LT", "LE")) else one.scaled(0)
    if above(low + 1) and direction in ("GE", "LT"):
        return one if direction == "GE" else one.scaled(0)
    if above(1 - high) and direction in ("LE", "GT"):
        return one if direction == "LE" else one.scaled(0)
    return compared(direction, left, right)


@rule("broadcast")
def broadcast(site: Site) -> list[Array]:
    """The variables of operand dims are those of the dims that they become."""
    names: dict[Variable, Variable] = {}
    (ins,), (outs,) = site.ins, site.outs
    for d, there in enumerate(site.numbers("dimensions")):
        demand(not ins[d] or ins[d] == outs[there], "a broadcast")
        names.update(zip(of_dim(ins, d), of_dim(outs, there), strict=False))
    return site.at_small_sizes([site.machine.renamed(site.xs[0], names)])


@rule("transpose")
def transpose(site: Site) -> list[Array]:
    """Dims in another order."""
    names: dict[Variable, Variable] = {}
    (ins,), (outs,) = site.ins, site.outs
    for there, d in enumerate(site.numbers("dimensions")):
        demand(ins[d] == outs[there], "a transposition")
        names.update(zip(of_dim(ins, d), of_dim(outs, there), strict=True))
    return site.at_small_sizes([site.machine.renamed(site.xs[0], names)])


@rule("reshape")
def reshape(site: Site) -> list[Array]:
    """The same parts in the same order."""
    (ins,), (outs,) = site.ins, site.outs
    demand(merged(p for dim in ins for p in dim) == merged(p for dim in outs for p in dim), "a reshape")
    names = dict(zip(variables(ins), variables(outs), strict=True))
    return site.at_small_sizes([site.machine.renamed(site.xs[0], names)])


@rule("reverse")
def reverse(site: Site) -> list[Array]:
    """Dims that are turned round are followed element by element."""
    alike("a reversal", site.ins[0], site.outs[0])
    demand(not any(of_dim(site.ins[0], d) for d in site.numbers("dimensions")), "a reversal")
    return site.at_small_sizes(site.xs)


@rule("slice")
def slice_(site: Site) -> list[Array]:
    """Whole dims, runs of blocks, or, with a stride, one value of the lowest part."""
    (ins,), (outs,) = site.ins, site.outs
    start, limit, stride = (list(site.numbers(key)) for key in ("start", "limit", "stride"))
    stride = stride or [1] * len(ins)
    for d, parts in enumerate(ins):
        if not tail(parts):
            continue
        if stride[d] == 1:
            demand(tail(parts) == tail(outs[d]), "a slice")
            start[d], limit[d] = (blocks("a slice", parts, value) for value in (start[d], limit[d]))
            continue
        lowest, whole = parts[-1], size(parts)
        demand(not lowest.whole and lowest.size % stride[d] == 0, "a slice")
        demand(start[d] < stride[d] and -(-(limit[d] - start[d]) // stride[d]) * stride[d] == whole, "a slice")
        demand(merged([*parts[:-1], lowest._replace(size=lowest.size // stride[d])]) == outs[d], "a slice")
        limit[d] = start[d] + (small(parts) // stride[d] - 1) * stride[d] + 1
    names = _by_place(ins, outs)
    return site.at_small_sizes([site.machine.renamed(site.xs[0], names)], start=start, limit=limit, stride=stride)


def _by_place(ins: Dims, outs: Dims) -> dict[Variable, Variable]:
    """The variables of dims that are the same dims."""
    pairs = ((of_dim(ins, d), of_dim(outs, d)) for d in range(len(ins)))
    return {a: b for mine, others in pairs for a, b in zip(mine, others, strict=True)}


@rule("concatenate")
def concatenate(site: Site) -> list[Array]:
    """Runs of blocks one after the other."""
    for dims in site.ins:
        alike("a concatenation", dims, site.outs[0], [site.number("dimension")])
    return site.at_small_sizes(site.xs)


@rule("pad")
def pad(site: Site) -> list[Array]:
    """Whole blocks of padding."""
    (ins, _), (outs,) = site.ins, site.outs
    low, high = list(site.numbers("low")), list(site.numbers("high"))
    interior = site.numbers("interior") or [0] * len(low)
    for d, parts in enumerate(ins):
        if parts == outs[d] and not (low[d] or high[d] or interior[d]):
            continue
        demand(tail(parts) == tail(outs[d]) and not (tail(parts) and interior[d]), "padding")
        low[d], high[d] = (blocks("padding", parts, value) for value in (low[d], high[d]))
    return site.at_small_sizes(site.xs, low=low, high=high, interior=interior)


@rule("dynamic-slice", "dynamic-update-slice")
def dynamic(site: Site) -> list[Array]:
    """A window that begins at a known block."""
    what, ins = site.call.op.kind, site.ins[0]
    part = site.outs[0] if what == "dynamic-slice" else site.ins[1]
    alike(what, ins, part, range(len(ins)))
    alike(what, ins, site.outs[0], range(len(ins)) if what == "dynamic-slice" else ())
    first = 1 if what == "dynamic-slice" else 2
    starts = []
    for d, start in enumerate(site.xs[first:]):
        if tail(ins[d]):
            if ins[d] == part[d]:
                start = np.asarray(0)  # clamped to what fits
            at = as_cell(site.machine.basis, start[()])
            value = size_in(at) if isinstance(at, Form) else None
            demand(value is not None, what)
            assert value is not None
            start = np.asarray(blocks(what, ins[d], least(greatest(value, 0), size(ins[d]) - size(part[d]))))
        starts.append(start)
    xs = [*site.xs[:first], *starts]
    if what == "dynamic-slice":
        return site.at_small_sizes(xs, sizes=[small(dim) for dim in part])
    return site.at_small_sizes(xs)


# ---- what has no operands ----
@rule("constant")
def constant(site: Site) -> list[Array]:
    """One number everywhere, or, where it is elided, an unknown that equal hashes share."""
    tensor, basis = site.call.results[0], site.machine.basis
    if (sized := site.machine.of_sizes(site.call)) is not None:
        return [sized]
    if tensor.sha256 is None or tensor.items is not None or "value" in site.call.op.numbers:
        demand(not (tensor.literal or "").startswith("{") and tensor.items is None, "a printed constant")
        return [constants(basis, site.call)]
    demand(is_float(tensor.dtype), "a constant")
    out, at = np.empty(tensor.shape, dtype=object), tuple(variables(site.outs[0]))
    whole = tuple(size(dim) for dim in site.outs[0])
    if any(isinstance(extent, Size) for extent in whole):
        raise Undecided("a constant whose numbers are not told, of other sizes")
    for i, place in enumerate(np.ndindex(*tensor.shape)):
        element = basis.of(basis.element("constant", (tensor.sha256, whole, site.outs[0], i, *at)))
        basis.need("finite", element)
        out[place] = element
    return [out]


@rule("iota")
def iota(site: Site) -> list[Array]:
    """The sum of the values of the parts, each times the size of what is below."""
    dim, (outs,), basis = site.number("dimension"), site.outs, site.machine.basis
    cells, dtype = positions(basis, outs[dim], of_dim(outs, dim)), site.call.results[0].dtype
    index = np.empty(len(cells), dtype=object)
    index[:] = cells if is_float(dtype) else [bounded(cell, dtype) for cell in cells]
    if is_float(dtype):
        index = counted(index, dtype)
    shape = [len(cells) if d == dim else 1 for d in range(len(outs))]
    return [np.broadcast_to(index.reshape(shape), site.call.results[0].shape)]


def positions(basis: Field, parts: Parts, names: Sequence[Variable]) -> list[Form]:
    """What an index is at each of the elements of a dim that are followed."""
    names, below, cells = list(names), 1, [basis.zero]
    for part in reversed(parts):
        if part.whole:
            variable = basis.of(basis.element("position", (names.pop(),), nonnegative=True)) * worth(basis, below)
            cells = [cell + variable for cell in cells]
        else:
            cells = [cell + worth(basis, n * below) for n in range(part.size) for cell in cells]
        below = below * part.size
    return cells
