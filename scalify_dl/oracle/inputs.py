"""Inputs of a run: random baseline values, and what every rank must hold of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout

from .addressing import digit_coordinates, local_part, pending_coordinates, pending_kind, piece_index
from .dtypes import integer_limits, is_float, is_integer, largest, storage, wrapped, wrapped_number
from .indices import position_inputs
from .literals import scalar, seeded
from .program import Program, Shard, Tensor

Array = np.ndarray[Any, Any]
DRAWS = (
    "reals", "integers", "positive", "ends", "infinite", "crowded", "singular", "wide", "large", "not finite",
    "thresholds", "small",
)  # fmt: skip
"""How inputs are drawn. Reals: `reals` in [-1, 1], `integers` -3 … 3 (sums of products are exact), `positive` in [0.1,
1.1]. Integers are small, but in `ends` (whose reals are those of `reals`): there they are at the ends of their type, or
of their range, and anywhere between. `infinite`: as `reals`, with an infinity here and there in inputs that no proof
took for finite (`Program.finite`). `crowded`: as `reals`, but rows are nearly alike: all tokens choose one expert.
`singular`: zeros, all of a tensor at times (of integers the least of their range), and few other numbers of both signs,
among them the program's constants and their quotients: divisors, roots and logarithms are at their limits. `wide`: as
`reals`, all of a tensor times a power of ten; `large`: times a number whose exponential, or square, is infinite. `not
finite`: as `reals` of the same seed, with infinities and what is no number in some inputs, be they taken for finite or
not: for programs that ask. `thresholds`: half of the numbers are on either side of those that the program compares
with; integers are these, too (those that become positions: what the baseline asks of them whether it is that, a label
that is ignored). `small`: as `positive`, a thousandth: sums of many are below what they are compared
with (norms that are clipped)."""
SINGULAR = (0.0, 0.0, 1.0, -1.0, 2.0, -0.5)
FEW_CONSTANTS = 6
COMPARING = frozenset({"compare", "clamp", "maximum", "minimum", "remainder"})
"""Kinds of ops that do something else on either side of a number."""
SAME_NUMBER = frozenset({"broadcast", "reshape", "convert"})
"""Kinds of ops by which a number reaches them."""
FAR = 1 << 20
"""What is compared with greater numbers is not drawn near them: masks, ends of types."""
LARGE, SHORT = (1e4, 1e200), 1e6
"""How large numbers are that are large: but for a part of their type's range, so that sums do not leave it, a smaller
part where it has less than the second number."""

TRIALS_AT_ENDS = 4


def draw(
    tensor: Tensor,
    bounds: tuple[int, int] | None,
    how: str,
    seed: int,
    special: Sequence[float] = (),
    limits: tuple[int, int] | None = None,
) -> Array:
    """A random value of the tensor's type. Integer inputs lie in `bounds`, else in [0, 4), or anywhere in their type
    (or its `limits`) if drawn at the `ends`; `special` are among them, or among `singular` and `thresholds` reals."""
    rng = seeded("input", tensor.id, seed)
    dtype = storage(tensor.dtype)
    if how == "singular" and dtype.kind in "biu" and rng.integers(0, 2):
        return np.full(tensor.shape, bounds[0] if bounds else 0, dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, tensor.shape).astype(bool)
    if dtype.kind in "iu":
        least, most = integer_limits(tensor.dtype)
        if how == "ends":
            least, most = limits or (least, most)
            lo, hi = bounds or (least, most + 1)
            numbers = _at_ends(rng, max(lo, least), min(hi - 1, most), tensor.shape, dtype)
        else:
            lo, hi = bounds or (0, min(4, most + 1))
            numbers = rng.integers(lo, max(hi, lo + 1), tensor.shape).astype(dtype)
        tried = [int(v) for v in special if least <= v <= most and (bounds is None or lo <= v < hi)]
        if tried and not seed % 2:  # every other element: each rank gets some
            numbers.flat[::2] = np.resize(tried, numbers.flat[::2].size)
        elif tried:  # … and not equally many
            numbers = np.where(rng.random(tensor.shape) < 0.5, rng.choice(tried, tensor.shape), numbers).astype(dtype)
        return numbers
    if how == "integers":
        value = rng.integers(-3, 4, tensor.shape).astype(np.float64)
    elif how in ("positive", "small"):
        value = rng.uniform(0.1, 1.1, tensor.shape) * (1e-3 if how == "small" else 1)
    elif how == "singular":
        value = rng.choice(SINGULAR, tensor.shape)
        if len(special):
            value = np.where(rng.random(tensor.shape) < 0.4, rng.choice(special, tensor.shape), value)
        if not rng.integers(0, 3):
            value = np.zeros(tensor.shape)
    else:
        value = rng.uniform(-1, 1, tensor.shape)
    if how == "thresholds" and len(special):
        value = np.where(rng.random(tensor.shape) < 0.5, rng.choice(special, tensor.shape), value)
    if how == "wide":
        value = value * 10.0 ** rng.integers(-6, 7)
    if how == "large":
        end = largest(tensor.dtype) if is_float(tensor.dtype) else max(LARGE)
        value = value * min(LARGE[seed % len(LARGE)], end / (8 if end < SHORT else 1024))
    if how == "crowded" and value.ndim > 1 and value.size:
        value = 0.95 * value[(0,) * (value.ndim - 1)] + 0.05 * value
    return value if is_float(tensor.dtype) else value + 1j * rng.uniform(-1, 1, tensor.shape)


def constants(program: Program) -> list[float]:
    """Real numbers that a program is written with (the first few), of either sign, and their quotients."""
    found: dict[float, None] = {}
    for graph in program.graphs.values():
        for op in graph.ops:
            tensor = program.tensors[op.results[0]] if op.kind == "constant" else None
            if tensor is None or not is_float(tensor.dtype) or tensor.literal is None or tensor.literal[0] in "({":
                continue
            value = abs(float(scalar(tensor.literal).real))
            if value and np.isfinite(value):
                found[value] = None
    few = list(found)[:FEW_CONSTANTS]
    quotients = [a / b for a in few for b in few if a != b]
    return [sign * value for value in dict.fromkeys([*few, *quotients]) for sign in (1, -1)]


def thresholds(program: Program) -> tuple[list[int], list[float]]:
    """Integers near those that the program compares with, and reals between and beyond the reals that it does."""
    whole: dict[int, None] = {}
    real: dict[float, None] = {}
    for graph in program.graphs.values():
        numbers: dict[str, float] = {}
        for op in graph.ops:
            tensor = program.tensors[op.results[0]] if op.results else None
            if tensor is None:
                continue
            if op.kind == "constant" and tensor.literal is not None and tensor.literal[0] not in "({":
                numbers[tensor.id] = scalar(tensor.literal).real
            elif op.kind in SAME_NUMBER and op.operands[0] in numbers:
                numbers[tensor.id] = numbers[op.operands[0]]
            elif op.kind in COMPARING:
                for operand in (t for t in op.operands if t in numbers and abs(numbers[t]) < FAR):
                    if is_integer(program.tensors[operand].dtype):
                        whole[int(numbers[operand])] = None
                    elif is_float(program.tensors[operand].dtype) and numbers[operand]:
                        real[numbers[operand]] = None
    few = sorted({0.0, *list(real)[:FEW_CONSTANTS]}) if real else []
    between = [(a + b) / 2 for a, b in itertools.pairwise(few)]
    near = [number + step for number in list(whole)[:FEW_CONSTANTS] for step in (0, 1, -1)]
    return list(dict.fromkeys(near)), [few[0] - 1, *between, few[-1] + 1] if few else []


def provided_for(program: Program) -> dict[str, list[int]]:
    """Inputs that the baseline asks whether they are some number, and these numbers: it provides for them."""
    found: dict[str, list[int]] = {}
    for graph in program.top("base"):
        source = {tensor: tensor for tensor in graph.inputs}
        numbers: dict[str, int] = {}
        for op in graph.ops:
            tensor = program.tensors[op.results[0]] if op.results else None
            if tensor is None:
                continue
            if op.kind == "constant" and is_integer(tensor.dtype) and tensor.literal and tensor.literal[0] not in "({":
                numbers[tensor.id] = int(scalar(tensor.literal).real)
            elif op.kind in SAME_NUMBER:
                if op.operands[0] in numbers:
                    numbers[tensor.id] = numbers[op.operands[0]]
                elif op.operands[0] in source:
                    source[tensor.id] = source[op.operands[0]]
            elif op.kind == "compare" and op.symbol("direction") in ("EQ", "NE"):
                for one, other in itertools.permutations(op.operands):
                    if one in source and other in numbers:
                        found.setdefault(source[one], []).append(numbers[other])
    return found


def ends(program: Program) -> int:
    """How many trials at the ends of types are worth while: sums wrap round in some draws only."""
    positions = position_inputs(program)
    inputs = (tensor for graph in program.top("base") for tensor in graph.inputs)
    drawn = [t for t in inputs if is_integer(program.tensors[t].dtype) and (t in program.ranges or t not in positions)]
    return TRIALS_AT_ENDS if drawn else 0


CROWDED = frozenset({"cumulative", "sort", "top-k"})
"""Kinds of ops by which programs find places among tokens that have chosen alike."""


def crowded(program: Program) -> int:
    """How many crowded trials are worth while: places that are too few are too few where many choose alike."""
    return int(any(op.kind in CROWDED for graph in program.graphs.values() for op in graph.ops))


def infinite(program: Program) -> bool:
    """Whether some input may be infinite: none where it is not known what is taken for finite."""
    return any(_may_be_infinite(program, tensor) for graph in program.top("base") for tensor in graph.inputs)


def _may_be_infinite(program: Program, tensor: str) -> bool:
    return program.finite is not None and tensor not in program.finite and is_float(program.tensors[tensor].dtype)


def _with_infinities(value: Array, tensor: str, seed: int, kinds: Sequence[float] = (-np.inf, np.inf)) -> Array:
    """The value, or two times out of three the value with one element in eight infinite, or only one."""
    rng = seeded("infinities", tensor, seed)
    if not value.size or rng.random() < 1 / 3:
        return value
    value = np.array(value)
    value.flat[rng.integers(0, value.size, rng.choice([1, max(1, value.size // 8)]))] = rng.choice(kinds)
    return value


def _at_ends(rng: np.random.Generator, lo: int, hi: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Half of the numbers at either end of lo … hi, or next to it, some around zero, the others anywhere."""
    hi = max(hi, lo)
    anywhere = rng.integers(lo, hi, shape, dtype=dtype.type, endpoint=True)
    marks = [v for v in (lo, hi, lo + 1, hi - 1, lo, hi, -1, 0, 1, 2) if lo <= v <= hi]
    marked = np.array(marks, dtype=dtype)[rng.integers(0, len(marks), shape)]
    return np.asarray(np.where(rng.random(shape) < 0.8, marked, anywhere), dtype=dtype)


def baseline_inputs(program: Program, how: str, seed: int) -> dict[str, dict[int, Array]]:
    """A random value for every input of the baseline; one without bounds that becomes a position is always small."""
    positions = position_inputs(program) if how in ("ends", "thresholds") else frozenset()
    integers, numbers = thresholds(program) if how == "thresholds" else ([], [])
    numbers = constants(program) if how == "singular" else numbers
    provided = provided_for(program) if how == "thresholds" else {}
    values: dict[str, dict[int, Array]] = {}
    for tensor in (tensor for graph in program.top("base") for tensor in graph.inputs):
        bounds = program.ranges.get(tensor)
        small = bounds is None and tensor in positions
        drawn = "reals" if small else how
        whole = [*program.special.get(tensor, ()), *(provided.get(tensor, ()) if small else integers)]
        special = numbers if is_float(program.tensors[tensor].dtype) else whole
        ignored = bounds if bounds is not None and bounds[0] < 0 < bounds[1] else None
        if tensor in program.seen:
            lo, hi = program.seen[tensor]
            bounds, special = bounds or (lo, hi), []
            ignored = (lo, lo + 1) if lo < 0 < min(hi, bounds[1]) else None
        within = bounds if bounds is None or ignored is None else (0, bounds[1])
        value = draw(program.tensors[tensor], within, drawn, seed, special, program.limits.get(tensor))
        if ignored is not None and value.size:
            some = 1 if how == "singular" and seed % 2 else 1 / 3  # of ranks' parts not equally many
            chosen, below = seeded("ignored", tensor, seed), (ignored[0], min(ignored[1], 0))
            mask = chosen.random(value.shape) < some
            value[mask] = draw(program.tensors[tensor], below, drawn, seed, special)[mask]
        if how == "infinite" and _may_be_infinite(program, tensor):
            value = _with_infinities(value, tensor, seed)
        elif how == "not finite" and is_float(program.tensors[tensor].dtype):
            value = _with_infinities(value, tensor, seed, (np.inf, -np.inf, np.nan))
        for dim in program.alike.get(tensor, ()):
            value = np.broadcast_to(value.take([0] if value.shape[dim] else [], dim), value.shape)
        values[tensor] = {0: value}
    return values


def _beyond(kind: str, whole: Array, steps: Array, dtype: str) -> Array:
    """What is no greater than the whole (no less, for a minimum), by so many steps where the type has them."""
    moved = whole - steps if kind == "max" else whole + steps
    bounded = (np.minimum if kind == "max" else np.maximum)(whole, moved)
    return np.asarray(np.where(bounded == wrapped(bounded, dtype), bounded, whole))


def _pending_parts(
    program: Program, part: dict[int, Array], layout: Layout, how: str, seed: int, key: str
) -> dict[int, Array]:
    """Values on each rank whose reduction over the pending positions is `part`."""
    kind, dtype = pending_kind(layout), program.tensors[key].dtype
    if kind is None:
        return part
    if kind not in ("sum", "max", "min"):
        raise InputError(f"input {key} is placed as pending {kind}: the oracle cannot draw such parts")
    held: dict[tuple[Any, ...], dict[tuple[int, ...], list[int]]] = {}
    for rank in part:
        at = program.coords[rank]
        held.setdefault(digit_coordinates(layout, at), {}).setdefault(pending_coordinates(layout, at), []).append(rank)
    result: dict[int, Array] = {}
    for number, terms in enumerate(held.values()):
        rng = seeded("parts", key, number, seed)
        first, *others = terms.values()
        whole = part[first[0]] if not is_integer(dtype) else part[first[0]].astype(storage(dtype))

        def numbers(lo: int, hi: int, whole: Array = whole, rng: np.random.Generator = rng) -> Array:
            if how == "ends" and whole.dtype.kind in "iu":
                return _at_ends(rng, *integer_limits(dtype), whole.shape, whole.dtype)
            return np.asarray(rng.integers(lo, hi, whole.shape), dtype=whole.dtype)

        if kind == "sum":
            rest = [numbers(-3, 4) if whole.dtype.kind != "u" else numbers(0, 4) for _ in others]
            parts = [wrapped(whole - sum(rest), dtype), *rest]
        else:  # element by element, another one is the greatest, or least
            decides = rng.integers(0, len(others) + 1, whole.shape)
            beside = [_beyond(kind, whole, numbers(0, 4), dtype) for _ in terms]
            parts = [np.where(decides == i, whole, b) for i, b in enumerate(beside)]
        for ranks, values in zip(terms.values(), parts, strict=True):
            result.update(dict.fromkeys(ranks, values))
    return result


def _scaled(source: Array, row: Shard) -> Array:
    top, bottom = row.layout.scale.numerator, row.layout.scale.denominator
    if source.dtype.kind not in "iu":
        return np.asarray(source * top / bottom)
    if bottom != 1:
        raise InputError(f"shard row of {row.dist}: {top}/{bottom} of an integer", expected="a whole scale")
    return np.asarray(source * wrapped_number(top, source.dtype))


def distributed_inputs(
    program: Program, baseline: dict[str, dict[int, Array]], how: str, seed: int
) -> tuple[dict[str, dict[int, Array]], set[str]]:
    """What every rank holds of each distributed input, from `shard` rows; and the inputs that no row places.

    Those are drawn on their own: nothing that depends on them refutes anything.
    """
    values: dict[str, dict[int, Array]] = {}
    covered: dict[str, dict[int, Array]] = {}
    programs = program.top("dist")
    ranks_of: dict[str, list[int]] = {}
    for graph in programs:
        for tensor in graph.inputs:
            ranks_of.setdefault(tensor, []).extend(graph.ranks)
    rows = [row for row in program.shards if row.base in baseline]
    placed = {row.dist for row in rows if not row.dist_piece} - {row.dist for row in rows if row.dist_piece}
    for tensor, ranks in ranks_of.items():  # what a row places whole is not drawn
        declared = program.tensors[tensor]
        own = np.empty(0) if tensor in placed else draw(declared, program.ranges.get(tensor), how, seed)
        values[tensor] = dict.fromkeys(ranks, own)
    for row in rows:
        if row.dist not in values:
            continue
        source = baseline[row.base][0]
        source = source[piece_index(row.base_piece, source.ndim)]
        if row.layout.scale != 1:
            source = _scaled(source, row)
        shared: dict[tuple[tuple[int, ...], ...], Array] = {}
        parts = {}
        try:
            for rank in values[row.dist]:
                key = digit_coordinates(row.layout, program.coords[rank])
                if key not in shared:
                    shared[key] = local_part(source, row.layout, program.coords[rank])
                parts[rank] = shared[key]
        except IndexError:
            raise InputError(
                f"shard row of {row.dist}: the layout `{row.layout}` addresses elements outside of {row.base}",
                expected=f"a layout within shape {list(source.shape)}",
            ) from None
        parts = _pending_parts(program, parts, row.layout, how, seed, row.dist)
        if not row.dist_piece:
            values[row.dist] = parts
            covered[row.dist] = {}
            continue
        shape = program.tensors[row.dist].shape
        if row.dist not in covered:
            covered[row.dist] = {rank: np.zeros(shape, dtype=bool) for rank in parts}
            values[row.dist] = {rank: np.array(value) for rank, value in values[row.dist].items()}
        for rank, part in parts.items():
            values[row.dist][rank][piece_index(row.dist_piece, len(shape))] = part
            covered[row.dist][rank][piece_index(row.dist_piece, len(shape))] = True
    unplaced = {t for t in values if t not in covered or not all(bool(m.all()) for m in covered[t].values())}
    for tensor, by_rank in values.items():
        expected = program.tensors[tensor].shape
        for value in by_rank.values():
            if value.shape != expected:
                raise InputError(
                    f"shard rows give {tensor} the local shape {list(value.shape)}, it has {list(expected)}"
                )
    return values, unplaced
