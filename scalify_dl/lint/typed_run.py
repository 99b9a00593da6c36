"""One op on numbers of ranks along an axis: which SPMD types its result may have, by its values and its backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scalify_dl.adjoint import NoAdjoint, backward
from scalify_dl.adjoint.run import ONE, executed
from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.programs import Program
from scalify_dl.oracle.meaning import Unsupported

Array = np.ndarray[Any, Any]
GRADIENT = {"R": "P", "P": "R", "I": "I", "V": "V"}
LIMIT = 1 << 16
"""Elements of an operand or result; larger ops are not run."""


def allowed(op: Op, words: Sequence[str], ways: int) -> list[str] | None:
    """The types that the result could have, given those of operands (`A`: constant); None where it cannot be run."""
    if len(op.results) != 1 or op.rank_numbers or op.strides or op.regions or op.result.dtype[0] not in "fb":
        return None
    if any(np.prod(t.shape, dtype=int) > LIMIT for t in (*op.operands, *op.results)) or ways < 2:
        return None
    rng = np.random.default_rng(0)
    try:
        return [w for w in (("V",) if "V" in words else "RIPV") if _fits(op, words, w, min(ways, 3), rng)]
    except (NoAdjoint, Unsupported, InputError):
        return None


def _fits(op: Op, words: Sequence[str], word: str, ways: int, rng: np.random.Generator) -> bool:
    forward, back = _one_op(op, words)
    given = [[_drawn(rng, t.dtype, t.shape) for _ in range(ways)] for t in op.operands]
    xs = [[x if w in "PV" else mine[0] for x in mine] for w, mine in zip(words, given, strict=True)]
    meant = [[sum(mine[1:], mine[0])] * ways if w == "P" else mine for w, mine in zip(words, xs, strict=True)]
    ys = [forward([x[r] for x in xs]) for r in range(ways)]
    wanted = [forward([x[r] for x in meant]) for r in range(ways)]
    if not all(np.isfinite(y).all() for y in (*ys, *wanted)) or not _is(ys, word, wanted):
        return False
    seeds = [rng.normal(size=op.result.shape) for _ in range(ways)]
    gs = seeds if GRADIENT[word] in "PV" else [seeds[0]] * ways
    whole = gs if word == "V" else [sum(gs[1:], gs[0]) if word == "R" else gs[0]] * ways
    mine = [back([x[r] for x in xs], gs[r]) for r in range(ways)]
    true = [back([x[r] for x in meant], whole[r]) for r in range(ways)]
    for k, its in enumerate(w for w in words if w != "A"):
        theirs = [found[k] for found in true]
        if word == "V" and its != "V":
            theirs = [sum(theirs[1:], theirs[0])] * ways
        if not _is([found[k] for found in mine], GRADIENT[its], theirs):
            return False
    return True


def _is(values: Sequence[Array], word: str, wanted: Sequence[Array]) -> bool:
    """Whether values by rank stand for what is wanted, in a type."""
    if word == "P":
        return bool(np.allclose(sum(values[1:], values[0]), wanted[0]))
    return all(np.allclose(v, w) for v, w in zip(values, wanted, strict=True))


def _one_op(op: Op, words: Sequence[str]) -> tuple[Callable[[list[Array]], Array], Callable[..., list[Array]]]:
    """The op as a function, and its backward by the operands that are no constants."""

    def fresh() -> tuple[Program, list[Any], Any]:
        p = Program("one", ONE, Graph("one"))
        xs = [p.graph.input(f"x{n}", t.dtype, t.shape) for n, t in enumerate(op.operands)]
        types = [(t.dtype, t.shape) for t in op.results]
        return p, xs, p.graph.add(op.kind, xs, types, numbers=op.numbers, symbols=op.symbols).result

    plain, _, y = fresh()
    plain.graph.output(y)
    both, xs, z = fresh()
    g = both.graph.input("g", z.dtype, z.shape)
    asked = [x for x, word in zip(xs, words, strict=True) if word != "A"]
    for x, found in zip(asked, backward(both, {z: g}, asked), strict=True):
        both.graph.output(found if found is not None else both.full(0, x.shape, x.dtype))

    def forward(values: list[Array]) -> Array:
        return executed(plain.graph, values)[0]

    def back(values: list[Array], gradient: Array) -> list[Array]:
        return executed(both.graph, [*values, gradient])

    return forward, back


def _drawn(rng: np.random.Generator, dtype: str, shape: Sequence[int]) -> Array:
    if dtype[0] in "fb":
        return rng.uniform(0.5, 2, size=tuple(shape))
    return np.zeros(tuple(shape), dtype=bool if dtype == "pred" else np.int64)
