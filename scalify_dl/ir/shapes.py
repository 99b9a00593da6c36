"""Result types of every op kind: what front ends infer by, and what dumps are checked against.

`infer(op)` gives the result types of an op from its operands and attributes; `check(graph)` compares them with what the
dump declares. One small rule per kind or family in `RULES`; kinds without a rule (opaque calls, control flow) are
taken as declared. All sizes are in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.registry import registering

from .graph import Graph, Op, Tensor
from .vocabulary import ELEMENTWISE, PREDICATES

Type = tuple[str, tuple[int, ...]]
Rule = Callable[[Op, Type | None], list[Type]]
"""A rule maps an op and the declared type of its first result (None: to be inferred) to its result types."""

RULES: dict[str, Rule] = {}

COMPLEX = {"f32": "c64", "f64": "c128"}
REAL = {"c64": "f32", "c128": "f64"}

rule = registering(RULES)
"""Registers the rule of some kinds."""


def infer(op: Op) -> list[Type]:
    """Result types of an op whose operands determine them; InputError where they do not or do not fit."""
    found = RULES.get(op.kind)
    if found is None:
        raise InputError(f"`{op.kind}` has no shape rule: its result types must be given")
    return found(op, None)


def complete(kind: str, operands: Sequence[Tensor], dtype: str | None, shape: Sequence[int] | None) -> Type:
    """A declared type with what is missing taken from the operands (`select`: from its second)."""
    like = operands[1 if kind == "select" else 0] if operands else None
    if (dtype is None or shape is None) and like is None:
        raise InputError(f"`{kind}` has no operands: give dtype and shape")
    if dtype is None:
        assert like is not None
        dtype = "pred" if kind in PREDICATES else like.dtype
    if shape is None:
        assert like is not None
        shape = like.shape
    return dtype, tuple(shape)


def check(graph: Graph) -> None:
    """Compares declared with inferred result shapes of every op, regions included. Ops that look alike (kind, types,
    attributes) are checked once.

    Raises InputError with the op's place in the dump on the first contradiction.
    """
    seen: set[object] = set()
    said: dict[int, str] = {}
    for op in graph.ops:
        looks = _looks(op, said)
        if looks not in seen:
            try:
                check_op(op)
            except InputError as error:
                raise error.located(graph.file, *op.at) from None
            seen.add(looks)
        for region in op.regions:
            check(region)


def _looks(op: Op, said: dict[int, str]) -> object:
    """What the rules look at, but for groups, regions and numbers of ranks: an op that has these is like no other.
    `said` keeps the text of attributes, which ops share."""
    if op.groups is not None or op.along or op.replica_groups_all or op.pairs or op.regions:
        return op
    if op.rank_numbers or op.strides:
        return op
    numbers, symbols = said.get(id(op.numbers)), said.get(id(op.symbols))
    if numbers is None:
        numbers = said[id(op.numbers)] = repr(op.numbers)
    if symbols is None:
        symbols = said[id(op.symbols)] = repr(op.symbols)
    types = [(t.dtype, t.shape) for t in op.operands], [(t.dtype, t.shape) for t in op.results]
    return op.kind, *map(tuple, types), numbers, symbols


def check_op(op: Op) -> None:
    """InputError where the declared results of an op contradict its operands and attributes."""
    found = RULES.get(op.kind)
    if found is None:
        return
    types = found(op, (op.results[0].dtype, op.results[0].shape) if op.results else None)
    if len(types) != len(op.results):
        raise InputError(f"`{op.kind}` has {len(op.results)} results, not {len(types)}")
    for result, (dtype, shape) in zip(op.results, types, strict=True):
        if result.shape != shape or (op.kind in PREDICATES and result.dtype != dtype):
            raise InputError(
                f"`{op.name}` is declared as {result.type}, but its operands and attributes make it"
                f" {dtype}[{','.join(map(str, shape))}]",
                hint=f"operands: {', '.join(t.type for t in op.operands)}",
            )


def numbers(op: Op, key: str) -> list[int]:
    """A list attribute; rank-dependent entries as on the lowest rank (their sizes agree on all ranks)."""
    values = list(op.numbers.get(key, ()))
    for (name, pos), by_rank in op.rank_numbers.items():
        if name == key:
            while len(values) <= pos:
                values.append(0)
            values[pos] = by_rank[min(by_rank)]
    return values


def number(op: Op, key: str) -> int:
    """A scalar attribute."""
    values = numbers(op, key)
    require(len(values) == 1, f"`{op.name}` ({op.kind}) needs the attribute `{key}`")
    return values[0]


def require(condition: bool, message: str) -> None:
    """InputError unless the condition holds."""
    if not condition:
        raise InputError(message)


def operands(op: Op, count: int, more: bool = False) -> list[Tensor]:
    """The operands, checked to be `count` (or at least that many)."""
    have = len(op.operands)
    require(have >= count if more else have == count, f"`{op.name}` ({op.kind}) has {have} operands, expected {count}")
    return op.operands


def dims(op: Op, key: str, rank: int) -> list[int]:
    """A list of distinct dims, each within the rank."""
    values = numbers(op, key)
    require(
        all(0 <= d < rank for d in values) and len(set(values)) == len(values),
        f"`{op.name}` ({op.kind}): {key}={values} are not distinct dims of a tensor with {rank} dims",
    )
    return values


def dim(op: Op, key: str, rank: int) -> int:
    """A dim within the rank."""
    value = number(op, key)
    require(0 <= value < rank, f"`{op.name}` ({op.kind}): {key}={value} is no dim of a tensor with {rank} dims")
    return value


def family(dtype: str) -> str:
    """Which dtypes mix: booleans, integers, reals, complex numbers."""
    return {"p": "boolean", "s": "integer", "u": "integer", "c": "complex"}.get(dtype[0], "real")


def elementwise(op: Op, declared: Type | None) -> list[Type]:
    """Operands and result have one shape."""
    x = operands(op, 1, more=True)[1 if op.kind == "select" and len(op.operands) > 1 else 0]
    if any(other.shape != x.shape for other in op.operands):
        found = " and ".join(t.type for t in op.operands)
        raise InputError(f"`{op.name}` ({op.kind}) takes operands of one shape, not {found}")
    if op.kind in PREDICATES:
        return [("pred", x.shape)]
    if op.kind in ("convert", "bitcast-convert"):
        return [(declared[0] if declared else x.dtype, x.shape)]
    if op.kind == "complex":
        return [(COMPLEX.get(x.dtype, x.dtype), x.shape)]
    if op.kind in ("real", "imag", "abs"):
        return [(REAL.get(x.dtype, x.dtype), x.shape)]
    values = op.operands[1:] if op.kind == "select" else op.operands
    if not values or (len({t.dtype for t in values}) > 1 and len({family(t.dtype) for t in values}) > 1):
        raise InputError(f"`{op.name}` ({op.kind}) mixes {' and '.join(t.type for t in values)}")
    return [(x.dtype, x.shape)]


for _kind in ELEMENTWISE:
    RULES[_kind] = elementwise


def declared_type(op: Op, declared: Type | None) -> Type:
    """The declared type of an op whose operands do not determine it."""
    if declared is None:
        raise InputError(f"`{op.name}` ({op.kind}): give the result's shape")
    return declared


@rule("constant", "empty", "iota", "partition-id", "replica-id")
def nullary(op: Op, declared: Type | None) -> list[Type]:
    """No operands, any type."""
    operands(op, 0)
    if op.kind in ("partition-id", "replica-id"):
        return [(declared[0] if declared else "u32", ())]
    dtype, shape = declared_type(op, declared)
    if op.kind == "iota":
        dim(op, "dimension", len(shape))
    return [(dtype, shape)]


@rule("broadcast")
def broadcast(op: Op, declared: Type | None) -> list[Type]:
    """Operand dim i becomes result dim `dimensions[i]`."""
    (x,) = operands(op, 1)
    _, shape = declared_type(op, declared)
    where = dims(op, "dimensions", len(shape))
    require(
        len(where) == len(x.shape) and all(shape[d] == n for d, n in zip(where, x.shape, strict=True)),
        f"`{op.name}`: {x.type} with dimensions={where} does not broadcast to {list(shape)}",
    )
    require(where == sorted(where), f"`{op.name}`: broadcast dimensions={where} must ascend (transpose first)")
    return [(x.dtype, shape)]


@rule("reshape")
def reshape(op: Op, declared: Type | None) -> list[Type]:
    """Row-major, the same number of elements."""
    (x,) = operands(op, 1)
    _, shape = declared_type(op, declared)
    require(prod(shape) == prod(x.shape), f"`{op.name}`: {x.type} cannot be reshaped to {list(shape)}")
    return [(x.dtype, shape)]


@rule("transpose")
def transpose(op: Op, declared: Type | None) -> list[Type]:
    """Result dim j is operand dim `dimensions[j]`."""
    (x,) = operands(op, 1)
    order = dims(op, "dimensions", len(x.shape))
    require(len(order) == len(x.shape), f"`{op.name}`: dimensions={order} do not permute the dims of {x.type}")
    return [(x.dtype, tuple(x.shape[d] for d in order))]


@rule("reverse")
def reverse(op: Op, declared: Type | None) -> list[Type]:
    """The same shape."""
    (x,) = operands(op, 1)
    dims(op, "dimensions", len(x.shape))
    return [(x.dtype, x.shape)]


@rule("slice")
def slice_(op: Op, declared: Type | None) -> list[Type]:
    """`ceil((limit - start) / stride)` per dim."""
    (x,) = operands(op, 1)
    start, limit = numbers(op, "start"), numbers(op, "limit")
    stride = numbers(op, "stride") or [1] * len(x.shape)
    require(
        len(start) == len(limit) == len(stride) == len(x.shape),
        f"`{op.name}`: slice bounds for {len(start)} dims of {x.type}",
    )
    for lo, hi, step, n in zip(start, limit, stride, x.shape, strict=True):
        require(
            0 <= lo <= hi <= n and step > 0, f"`{op.name}`: slice [{lo}:{hi}:{step}] is outside of a dim of size {n}"
        )
    return [(x.dtype, tuple(-(-(hi - lo) // step) for lo, hi, step in zip(start, limit, stride, strict=True)))]


@rule("pad")
def pad(op: Op, declared: Type | None) -> list[Type]:
    """`low + n + (n - 1) * interior + high` per dim."""
    x, value = operands(op, 2)
    require(value.shape == (), f"`{op.name}`: the padding value is a scalar, not {value.type}")
    low, high = numbers(op, "low"), numbers(op, "high")
    interior = numbers(op, "interior") or [0] * len(low)
    require(
        len(low) == len(high) == len(interior) == len(x.shape), f"`{op.name}`: padding for {len(low)} dims of {x.type}"
    )
    require(all(i >= 0 for i in interior), f"`{op.name}`: interior padding {interior} below zero")
    shape = tuple(a + n + max(n - 1, 0) * i + b for a, n, i, b in zip(low, x.shape, interior, high, strict=True))
    require(all(n >= 0 for n in shape), f"`{op.name}`: padding makes negative sizes {list(shape)}")
    return [(x.dtype, shape)]


@rule("concatenate")
def concatenate(op: Op, declared: Type | None) -> list[Type]:
    """Sizes add along `dimension`, all others agree."""
    x, *others = operands(op, 1, more=True)
    along = dim(op, "dimension", len(x.shape))
    for other in others:
        require(
            len(other.shape) == len(x.shape)
            and all(a == b for d, (a, b) in enumerate(zip(x.shape, other.shape, strict=True)) if d != along),
            f"`{op.name}`: cannot concatenate {x.type} and {other.type} along dim {along}",
        )
    total = sum(t.shape[along] for t in op.operands)
    return [(x.dtype, (*x.shape[:along], total, *x.shape[along + 1 :]))]


@rule("reduce")
def reduce(op: Op, declared: Type | None) -> list[Type]:
    """The reduced dims go; index reductions give integers."""
    x = operands(op, 1, more=True)[0]
    gone = set(dims(op, "dimensions", len(x.shape)))
    shape = tuple(n for d, n in enumerate(x.shape) if d not in gone)
    if op.symbols.get("reducer", [""])[0] in ("argmax", "argmin"):
        require(len(gone) == 1, f"`{op.name}`: an index is one along one dim, not along dimensions={sorted(gone)}")
        return [(declared[0] if declared else "s32", shape)]
    # an opaque function comes with the initial values behind the operands
    values = op.operands[: len(op.operands) // 2] if op.regions else op.operands
    require(all(t.shape == x.shape for t in values), f"`{op.name}`: operands of one reduce differ in shape")
    return [(t.dtype, shape) for t in values]


@rule("cumulative")
def cumulative(op: Op, declared: Type | None) -> list[Type]:
    """The same shape."""
    (x,) = operands(op, 1)
    dim(op, "dimension", len(x.shape))
    return [(x.dtype, x.shape)]


@rule("sort")
def sort(op: Op, declared: Type | None) -> list[Type]:
    """All operands sorted alike."""
    x = operands(op, 1, more=True)[0]
    dim(op, "dimension", len(x.shape))
    require(all(t.shape == x.shape for t in op.operands), f"`{op.name}`: operands of one sort differ in shape")
    return [(t.dtype, t.shape) for t in op.operands]


@rule("top-k")
def top_k(op: Op, declared: Type | None) -> list[Type]:
    """Values and indices, `k` along the last dim."""
    (x,) = operands(op, 1)
    k = number(op, "k")
    require(bool(x.shape) and 0 <= k <= x.shape[-1], f"`{op.name}`: no top {k} of {x.type}")
    shape = (*x.shape[:-1], k)
    index = op.results[1].dtype if len(op.results) > 1 else "s32"
    return [(x.dtype, shape), (index, shape)]


@rule("dropout-mask")
def dropout_mask(op: Op, declared: Type | None) -> list[Type]:
    """One boolean per element."""
    (x,) = operands(op, 1)
    return [(declared[0] if declared else "pred", x.shape)]


@rule("dynamic-slice")
def dynamic_slice(op: Op, declared: Type | None) -> list[Type]:
    """A window of `sizes`."""
    x, *starts = operands(op, 1, more=True)
    sizes = numbers(op, "sizes")
    require(
        len(starts) == len(sizes) == len(x.shape) and all(0 <= s <= n for s, n in zip(sizes, x.shape, strict=True)),
        f"`{op.name}`: no window of sizes {sizes} in {x.type} from {len(starts)} starts",
    )
    require(all(s.shape == () for s in starts), f"`{op.name}`: starts are scalars")
    return [(x.dtype, tuple(sizes))]


@rule("dynamic-update-slice")
def dynamic_update_slice(op: Op, declared: Type | None) -> list[Type]:
    """The operand's shape."""
    x, update, *starts = operands(op, 2, more=True)
    require(
        len(x.shape) == len(update.shape) == len(starts)
        and all(u <= n for u, n in zip(update.shape, x.shape, strict=True)),
        f"`{op.name}`: update {update.type} does not fit {x.type}",
    )
    return [(x.dtype, x.shape)]


from . import shapes_indexed  # noqa: E402,F401  (registers dot, gather, scatter, windows, collectives)
