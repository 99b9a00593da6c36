"""In which types of real numbers two programs compute: where these differ, so does what is rounded. And whether they
jump (compare, sort, round to whole numbers) where a computed number decides: over the reals exp(x) is above zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from scalify_dl.ir.literals import rational
from scalify_dl.ir.vocabulary import words

from .dtypes import holds_all, is_float, precision
from .jumping import is_jump
from .literals import ELIDED
from .program import Op, Program, Tensor

EXACT = words(
    """abs bitcast-convert ceil clamp compare convert floor is-finite maximum minimum negate reduce-precision relu
    round-nearest-afz round-nearest-even select sign trunc real imag complex constant iota broadcast reshape transpose
    slice pad concatenate reverse gather dynamic-slice dynamic-update-slice sort top-k empty select-and-scatter
    all-gather all-to-all collective-broadcast collective-permute send recv while conditional"""
)
"""Kinds that round nothing: they move numbers, choose among them, or make whole ones. Casts are compared op by op."""
CHOOSES = words("max min argmax argmin replace and or xor")
"""Reducers that do not either."""
HANDED_ON = words(
    """abs all-gather all-to-all broadcast clamp collective-broadcast collective-permute concatenate constant
    dynamic-slice dynamic-update-slice gather maximum minimum negate pad relu reshape reverse select slice transpose"""
)
"""Kinds whose results are numbers that there were before, or their negatives."""
MOST_NUMBERS = 1000
"""Numbers of a constant that are looked at."""


def rounds_differently(base: Iterable[Op], dist: Iterable[Op], tensor: Callable[[str], Tensor], end: str) -> bool:
    """Whether ops of both sides, in an order that can run, compute in other types: any at all, or those of one kind.

    What depends on no input is left aside: it is computed exactly. But a constant (0.1) is rounded to its type.
    `end`: the baseline's value, whose type both have.
    """
    left, right = (_types(ops, tensor) for ops in (base, dist))
    alike = all(left[kind] == right[kind] for kind in left.keys() & right.keys())
    both = {*filter(is_float, [tensor(end).dtype])}
    return not alike or both.union(*left.values()) != both.union(*right.values())


def _types(ops: Iterable[Op], tensor: Callable[[str], Tensor]) -> dict[str, set[str]]:
    fixed: set[str] = set()
    found: dict[str, set[str]] = {}
    for op in ops:
        if op.kind == "constant" and _is_rounded(tensor(op.results[0])):
            found.setdefault(op.kind, set()).add(tensor(op.results[0]).dtype)
        if op.kind not in ("partition-id", "replica-id") and fixed.issuperset(op.operands):
            fixed.update(op.results)
        elif op.kind not in EXACT and op.symbols.get("reducer", [""])[0] not in CHOOSES:
            types = {*filter(is_float, (tensor(t).dtype for t in op.results))}
            if types:
                found.setdefault(op.kind, set()).update(types)
    return found


def _is_rounded(constant: Tensor) -> bool:
    """Whether a number of a constant has more digits than its type."""
    if constant.literal is None or constant.literal == ELIDED or not is_float(constant.dtype):
        return False
    words = constant.literal.replace("{", "").replace("}", "").split(",")[:MOST_NUMBERS]
    return any(not _holds(number, constant.dtype) for number in map(rational, {*words}) if number is not None)


def _holds(number: Fraction, dtype: str) -> bool:
    below = number.denominator
    digits = abs(number.numerator)
    digits //= digits & -digits or 1  # zeros at the end are none
    return below & (below - 1) == 0 and digits.bit_length() <= precision(dtype)


def rounded_differently(program: Program) -> set[tuple[str, str]]:
    """Outputs of which that may be so, back to the inputs of both programs."""
    tensor = program.tensors.__getitem__
    everything = (op for role in ("base", "dist") for graph in program.top(role) for op in graph.ops)
    ends = {tensor(base).dtype for _, base, _ in program.expects}
    if all(map(is_float, ends)) and len(ends.union(*_types(everything, tensor).values())) < 2:
        return set()  # of what is no real number one side may be made without rounding, and the other with
    return {
        (dist, base) for dist, base, _ in program.expects
        if rounds_differently(_made_of(program, "base", base), _made_of(program, "dist", dist), tensor, base)
    }  # fmt: skip


def _made_of(program: Program, role: str, target: str) -> list[Op]:
    """The ops that a value is made of, back to the inputs of its graph, in an order that can run."""
    found: list[Op] = []
    for graph in program.top(role):
        needed = {target}
        for op in reversed(graph.ops):
            if not needed.isdisjoint(op.results):
                needed.update(op.operands)
                found.append(op)
    return found[::-1]


def decided_by_computed(program: Program) -> set[tuple[str, str]]:
    """Outputs of which either side jumps where a real number decides that is computed of inputs, and so is rounded, and
    0 or infinite where it is too small or too large for its type."""
    base_jumps, dist_jumps = (_of_jumps(program, role) for role in ("base", "dist"))
    return {(dist, base) for dist, base, _ in program.expects if base in base_jumps or dist in dist_jumps}


def _of_jumps(program: Program, role: str) -> set[str]:
    """Values that are made by ops of which one jumps where other numbers decide than those that are written (in inputs
    and constants), or computed of constants alone."""
    written = {t for graph in program.top(role) for t in graph.inputs}
    fixed: set[str] = set()
    found: set[str] = set()
    for op in (op for graph in program.top(role) for op in graph.ops):
        reals = [t for t in op.operands if is_float(program.tensors[t].dtype)]
        computed = not written.issuperset(reals)
        jumps = any(is_jump(program, each) for each in _inside(program, op)) or (computed and is_jump(program, op))
        if jumps or not found.isdisjoint(op.operands):
            found.update(op.results)
        if op.kind not in ("partition-id", "replica-id") and fixed.issuperset(op.operands):
            fixed.update(op.results)
        if not computed and (not reals or _hands_on(program, op) or fixed.issuperset(reals)):
            written.update(op.results)
    return found


def _inside(program: Program, op: Op) -> Iterator[Op]:
    """The ops of its regions."""
    for graph in op.regions:
        for each in program.graphs[graph].ops:
            yield each
            yield from _inside(program, each)


def _hands_on(program: Program, op: Op) -> bool:
    if op.kind in HANDED_ON or op.symbols.get("reducer", [""])[0] in ("max", "min"):
        return True
    before, after = (program.tensors[t[0]].dtype if t else "" for t in (op.operands, op.results))
    return op.kind == "convert" and is_float(after) and holds_all(after, before)
