"""Pairs that are written differently: right ones are PROVED by their formulas, their wrong twins are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scalify_dl.audit.fuzz.halo_steps import Window
from scalify_dl.audit.pair import Pair
from scalify_dl.commands.run import conclude_facts
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import Analysis, analyse
from scalify_dl.prove.verdict import Verdict


def analysed(pair: Pair) -> Analysis:
    return analyse(Facts({name: list(rows) for name, rows in pair.tables().items()}), Options())


def proved(pair: Pair) -> bool:
    verdicts = [row[2] for row in analysed(pair).rows("output_verdict")]
    return bool(verdicts) and set(verdicts) == {"PROVED"}


def matmul(g: Graph, x: Tensor, w: Tensor) -> Tensor:
    return g.emit("dot", [x, w], lhs_contracting_dims=[1], rhs_contracting_dims=[0])


def reduced(g: Graph, x: Tensor, reducer: str) -> Tensor:
    """Over dim 1, and spread over it again."""
    row = g.emit("reduce", [x], dimensions=[1], reducer=reducer)
    return g.emit("broadcast", [row], shape=x.shape, dimensions=[0])


def softmax(g: Graph, x: Tensor, *, shift: bool, forgotten: bool = False) -> Tensor:
    moved = g.emit("subtract", [x, reduced(g, x, "max")]) if shift else x
    weights = g.emit("exponential", [moved])
    other = g.emit("exponential", [x]) if forgotten else weights
    return g.emit("divide", [weights, reduced(g, other, "sum")])


def softmaxes(*, forgotten: bool = False) -> Pair:
    pair = Pair({"tp": 1})
    x, dx = pair.input((2, 4))
    pair.outputs(softmax(pair.base, x, shift=False), softmax(pair.dist, dx, shift=True, forgotten=forgotten))
    return pair


def vocabulary(*, reducer: str = "max") -> Pair:
    """A softmax over a dim that is spread: the distributed one takes a maximum out, the baseline does not."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((2, 6), {1: "tp"})
    g, groups = pair.dist, pair.groups("tp")
    top = g.emit("reduce", [dx], dimensions=[1], reducer="max")
    top = g.emit("all-reduce", [top], reducer=reducer, groups=groups)
    weights = g.emit(
        "exponential", [g.emit("subtract", [dx, g.emit("broadcast", [top], shape=dx.shape, dimensions=[0])])]
    )
    total = g.emit("reduce", [weights], dimensions=[1], reducer="sum")
    total = g.emit("all-reduce", [total], reducer="sum", groups=groups if reducer == "max" else pair.groups())
    found = g.emit("divide", [weights, g.emit("broadcast", [total], shape=dx.shape, dimensions=[0])])
    pair.outputs(softmax(pair.base, x, shift=False), found)
    return pair


def low_rank(*, twice: bool = False) -> Pair:
    """x(W + AB) against xW + (xA)B, the low rank over tp."""
    pair = Pair({"tp": 2})
    (x, dx), (w, dw) = pair.input((2, 3)), pair.input((3, 4))
    (a, da), (b, db) = pair.input((3, 2), {1: "tp"}), pair.input((2, 4), {0: "tp"})
    whole = pair.base.emit("add", [w, matmul(pair.base, a, b)])
    g = pair.dist
    part = matmul(g, matmul(g, dx, da), db)
    if twice:
        part = g.emit("add", [part, part])
    part = g.emit("all-reduce", [part], reducer="sum", groups=pair.groups("tp"))
    pair.outputs(matmul(pair.base, x, whole), g.emit("add", [matmul(g, dx, dw), part]))
    return pair


def norm(g: Graph, x: Tensor, gain: Tensor, *, early: bool, eps: float = 1e-3) -> Tensor:
    square = reduced(g, g.emit("multiply", [x, x]), "sum")
    mean = g.emit("multiply", [square, g.splat(0.25, "f32", x.shape)])
    root = g.emit("rsqrt", [g.emit("add", [mean, g.splat(eps, "f32", x.shape)])])
    if early:
        return g.emit("multiply", [g.emit("multiply", [x, gain]), root])
    return g.emit("divide", [g.emit("multiply", [x, gain]), g.emit("divide", [g.splat(1.0, "f32", x.shape), root])])


def norms(*, eps: float = 1e-3) -> Pair:
    pair = Pair({"tp": 1})
    (x, dx), (w, dw) = pair.input((2, 4)), pair.input((2, 4))
    pair.outputs(norm(pair.base, x, w, early=True), norm(pair.dist, dx, dw, early=False, eps=eps))
    return pair


def two_blocks(*, rescaled: bool = True) -> Pair:
    """Attention of one query over keys, in two blocks with a running maximum and sum."""
    pair = Pair({"tp": 1})
    (s, ds), (v, dv) = pair.input((2, 6)), pair.input((6, 3))
    pair.outputs(matmul(pair.base, softmax(pair.base, s, shift=True), v), blocks(pair.dist, ds, dv, rescaled=rescaled))
    return pair


def blocks(g: Graph, s: Tensor, v: Tensor, *, rescaled: bool) -> Tensor:
    def part(x: Tensor, dim: int, lo: int, hi: int) -> Tensor:
        start, limit = [0] * len(x.shape), list(x.shape)
        start[dim], limit[dim] = lo, hi
        return g.emit("slice", [x], start=start, limit=limit, stride=[1] * len(x.shape))

    def row(x: Tensor, reducer: str) -> Tensor:
        return g.emit("reduce", [x], dimensions=[1], reducer=reducer)

    def wide(x: Tensor, columns: int) -> Tensor:
        return g.emit("broadcast", [x], shape=(x.shape[0], columns), dimensions=[0])

    top = g.splat(float("-inf"), "f32", (2,))
    total, out = g.splat(0.0, "f32", (2,)), g.splat(0.0, "f32", (2, 3))
    for lo, hi in ((0, 2), (2, 6)):
        scores = part(s, 1, lo, hi)
        higher = g.emit("maximum", [top, row(scores, "max")])
        weights = g.emit("exponential", [g.emit("subtract", [scores, wide(higher, hi - lo)])])
        old = g.emit("exponential", [g.emit("subtract", [top, higher])])
        total = g.emit("add", [g.emit("multiply", [total, old]), row(weights, "sum")])
        kept = g.emit("multiply", [out, wide(old, 3)]) if rescaled else out
        out = g.emit("add", [kept, matmul(g, weights, part(v, 0, lo, hi))])
        top = higher
    return g.emit("divide", [out, wide(total, 3)])


def rows_of(*, shifted: int = 0) -> Pair:
    """Rows of a table by a gather, against a product with a one-hot matrix."""
    pair = Pair({"tp": 1})
    (t, dt), (i, di) = pair.input((4, 2)), pair.input((3,), dtype="s32", range=(0, 4))
    read = pair.base.emit(
        "gather", [t, i], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1,
        slice_sizes=[1, 2], operand_batching_dims=[], start_indices_batching_dims=[],
    )  # fmt: skip
    g = pair.dist
    wide = g.emit("broadcast", [di], shape=(3, 4), dimensions=[0])
    columns = g.emit("iota", [], shape=(3, 4), dtype="s32", dimension=1)
    if shifted:
        columns = g.emit("add", [columns, g.splat(shifted, "s32", (3, 4))])
    hot = g.emit("convert", [g.emit("compare", [wide, columns], direction="EQ")], dtype="f32")
    pair.outputs(read, matmul(g, hot, dt))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {
    "softmax": softmaxes, "vocabulary": vocabulary, "low rank": low_rank, "norm": norms, "blocks": two_blocks,
    "one-hot": rows_of,
}  # fmt: skip
WRONG: dict[str, Callable[[], Pair]] = {
    "softmax": lambda: softmaxes(forgotten=True),
    "vocabulary": lambda: vocabulary(reducer="min"),
    "low rank": lambda: low_rank(twice=True),
    "norm": lambda: norms(eps=1e-2),
    "blocks": lambda: two_blocks(rescaled=False),
    "one-hot": lambda: rows_of(shifted=1),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_one_is_proved(name: str) -> None:
    assert proved(RIGHT[name]())


@pytest.mark.parametrize("name", WRONG)
def test_the_wrong_twin_is_not(name: str) -> None:
    assert not proved(WRONG[name]())


def unary(kinds: list[str]) -> Callable[[Graph, Tensor], Tensor]:
    def apply(g: Graph, x: Tensor) -> Tensor:
        for kind in kinds:
            x = g.emit(kind, [x])
        return x

    return apply


def scaled(g: Graph, x: Tensor, factor: float) -> Tensor:
    return g.emit("multiply", [x, g.splat(factor, x.dtype, x.shape)])

Make = Callable[[Graph, Tensor], Tensor]


def alone(base: Callable[[Graph, Tensor], Tensor], dist: Callable[[Graph, Tensor], Tensor], **options: Any) -> Pair:
    pair = Pair({"tp": 1})
    x, dx = pair.input((2, 3), **options)
    pair.outputs(base(pair.base, x), dist(pair.dist, dx))
    return pair


def cast(*dtypes: str) -> Callable[[Graph, Tensor], Tensor]:
    def apply(g: Graph, x: Tensor) -> Tensor:
        for dtype in dtypes:
            x = g.emit("convert", [x], dtype=dtype)
        return x

    return apply


def added_at(dtype: str) -> Make:
    """All rows added to one of zeros of a type."""

    def build(g: Graph, x: Tensor) -> Tensor:
        cast = x if dtype == x.dtype else g.emit("convert", [x], dtype=dtype)
        first = g.splat(0, "s32", (x.shape[0], 1))
        sums = g.emit(
            "scatter", [g.splat(0, dtype, x.shape), first, cast], update_window_dims=[1], inserted_window_dims=[0],
            scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer="sum",
        )  # fmt: skip
        return g.emit("convert", [sums], dtype="f32")

    return build


def convolved(dtype: str) -> Make:
    """Sums of products of integers with threes, in a type."""

    def build(g: Graph, x: Tensor) -> Tensor:
        rows = g.emit("reshape", [x], shape=(1, x.shape[0], x.shape[1]))
        found = Window(kind="convolution").apply(g, rows, g.splat(3, x.dtype, (3, x.shape[1], 2)), 1, 1)
        found.dtype = dtype
        return g.emit("convert", [found], dtype="f32")

    return build


def ring(dtype: str, *, spread: bool) -> Make:
    """x (x + 3) − 3 x in a type, or x²."""

    def build(g: Graph, x: Tensor) -> Tensor:
        x = g.emit("convert", [x], dtype=dtype) if dtype != x.dtype else x
        if not spread:
            return g.emit("convert", [g.emit("multiply", [x, x])], dtype="s8")
        more = g.emit("multiply", [g.emit("add", [x, g.splat(3, dtype, x.shape)]), x])
        return g.emit("convert", [g.emit("subtract", [more, scaled(g, x, 3)])], dtype="s8")

    return build


WRAPPED: dict[str, Pair] = {
    "of one type": alone(ring("s32", spread=False), ring("s32", spread=True), dtype="s32"),
    "of a wider type": alone(ring("s8", spread=False), ring("u32", spread=True), dtype="s8"),
    "there and back": alone(
        lambda g, x: g.emit("add", [x, g.splat(0, "u8", x.shape)]),
        lambda g, x: g.emit("subtract", [g.emit("add", [x, g.splat(200, "u8", x.shape)]), g.splat(200, "u8", x.shape)]),
        dtype="u8",
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_sums_of_products_of_integers_are_equal_modulo_what_their_type_holds(name: str) -> None:
    assert proved(WRAPPED[name])


DIFFERENT: dict[str, Pair] = {
    "integers that wrap in a narrower type on the way": alone(
        lambda g, x: g.emit("multiply", [x, x]),
        lambda g, x: g.emit("convert", [g.emit("multiply", [g.emit("convert", [x], dtype="s8")] * 2)], dtype="s32"),
        dtype="s32",
    ),
    "maxima of integers that wrap": alone(
        lambda g, x: g.emit("maximum", [g.emit("add", [x, x]), x]),
        lambda g, x: g.emit("add", [g.emit("maximum", [x, scaled(g, x, 0)]), x]),
        dtype="s8",
    ),
    "the root of a square": alone(
        lambda g, x: g.emit("sqrt", [g.emit("multiply", [x, x])]),
        lambda g, x: g.emit("negate", [g.emit("negate", [x])]),
    ),
    "a cast to fewer digits": alone(cast("bf16", "f32"), lambda g, x: scaled(g, scaled(g, x, 2.0), 0.5)),
    "a cast to whole numbers": alone(cast("s32", "f32"), lambda g, x: scaled(g, scaled(g, x, 2.0), 0.5)),
    "integers that wrap": alone(
        lambda g, x: g.emit("convert", [g.emit("add", [x, x])], dtype="f32"),
        lambda g, x: scaled(g, g.emit("convert", [x], dtype="f32"), 2.0),
        dtype="s8",
    ),
    "integers that wrap where they are added to": alone(added_at("s8"), added_at("s32"), dtype="s8"),
    "integers that wrap in windows": alone(convolved("s8"), convolved("s32"), dtype="s8"),
    "truths added up": alone(added_at("pred"), added_at("s32"), dtype="pred"),
    "x over x": alone(
        lambda g, x: g.emit("divide", [x, scaled(g, x, 0.0)]),
        lambda g, x: g.emit("divide", [scaled(g, x, 2.0), scaled(g, x, 0.0)]),
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_only_looks_alike_is_not_proved(name: str) -> None:
    assert not proved(DIFFERENT[name])


def test_what_a_step_needs_is_listed() -> None:
    pair = Pair({"tp": 1})
    (x, dx), (y, dy) = pair.input((2, 3)), pair.input((2, 3))
    g = pair.dist
    found = g.emit("divide", [g.emit("add", [dx, dx]), g.emit("add", [dy, dy])])
    pair.outputs(pair.base.emit("divide", [x, y]), found)
    analysis = analysed(pair)
    assert {row[2] for row in analysis.rows("output_verdict")} == {"PROVED"}
    assert {"nonzero"} <= {row[2] for row in analysis.rows("assumption")}


def test_inputs_are_assumed_to_be_finite() -> None:
    analysis = analysed(softmaxes())
    assert "finite" in {row[2] for row in analysis.rows("assumption")}


def masked(*, early: bool) -> Pair:
    """y + s − s against y + exp(s) − exp(s), where s is −∞ behind a mask: the first is no number there."""
    pair = Pair({"tp": 1})
    (x, dx), (y, dy), (m, dm) = pair.input((2, 3)), pair.input((2, 3)), pair.input((2, 3), dtype="pred")
    made = []
    for g, *given in ((pair.base, x, y, m), (pair.dist, dx, dy, dm)):
        a, b, shown = given
        s = a if early else g.emit("select", [shown, a, g.splat(float("-inf"), "f32", a.shape)])
        part = s if g is pair.base else g.emit("exponential", [s])
        made.append(g.emit("subtract", [g.emit("add", [b, part]), part]))
    pair.outputs(*made)
    return pair


def test_what_may_be_infinite_is_no_unknown() -> None:
    assert proved(masked(early=True))
    assert not proved(masked(early=False))


def test_a_value_in_a_loop_is_no_unknown() -> None:
    """A name in a loop has a value for each turn: the sum of x over two turns is not twice the first one's."""
    from scalify_dl.algebra.decide import Decider
    from scalify_dl.oracle import load_program
    from scalify_dl.oracle.program import Shard

    pair = softmaxes()
    program = load_program(pair.tables())
    inside = Shard(program.top("dist")[0].outputs[0], (), "of a loop", (), program.shards[0].layout)
    assert "of a loop" not in {s.base for found in Decider(program, [inside]).by_dist.values() for s in found}


def test_where_no_law_is_known_both_formulas_are_shown() -> None:
    """The first value that is the baseline's when run and not by a law, not what is made of it."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((2,))
    made = []
    for g, y in ((pair.base, x), (pair.dist, dx)):
        if g is pair.base:
            steep = g.emit("tan", [y])
        else:
            steep = g.emit("divide", [g.emit("sine", [y]), g.emit("cosine", [y])])
        made.append(g.emit("exponential", [g.emit("add", [steep, y])]))
    pair.outputs(*made)
    analysis = analysed(pair)
    assert {row[2] for row in analysis.rows("output_verdict")} == {"UNKNOWN"}
    (note,) = [note for note in analysis.notes if "no law is known" in note]
    assert "tan(" in note
    assert "exp" not in note


def test_formulas_of_a_large_program_are_compared_after_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts({name: list(rows) for name, rows in softmaxes().tables().items()})
    at_once = conclude_facts(facts, Options())
    monkeypatch.setattr("scalify_dl.commands.run.LARGE", 0)
    monkeypatch.setattr("scalify_dl.report.conclude.LARGE", 0)
    after = conclude_facts(facts, Options())
    assert after.verdict is Verdict.PROVED
    assert after.notes == at_once.notes
    assert after.assumptions == at_once.assumptions
    assert after.outputs == at_once.outputs
    assert after.counterexample is None
    assert not after.frontier
