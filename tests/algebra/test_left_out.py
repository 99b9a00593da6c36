"""Conditions that would leave out what the baseline was written for, and casts that would leave out large numbers: no
proof rests on either."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

import scalify_dl
from scalify_dl.audit.pair import Pair
from scalify_dl.facts import Facts
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.oracle.erased import Limits
from scalify_dl.oracle.finiteness import asks
from scalify_dl.refute.provided import _what_asks

from .programs import Make, alone, decided, iota, number, over, report, scaled, two, verdict, wide


def compared(g: Graph, x: Tensor, direction: str, value: float = 0) -> Tensor:
    return g.emit("compare", [x, number(g, value, x)], direction=direction)


def guarded(g: Graph, condition: Tensor, otherwise: float, x: Tensor) -> Tensor:
    return g.emit("select", [condition, number(g, otherwise, x), x])


def reciprocal(g: Graph, x: Tensor) -> Tensor:
    return two(g, "divide", number(g, 1, x), x)


def ratio(g: Graph, x: Tensor) -> Tensor:
    return two(g, "divide", x, x)


def reciprocal_beyond(bound: float, factor: float) -> Make:
    """1 over factor · x less a number."""

    def make(g: Graph, x: Tensor) -> Tensor:
        return reciprocal(g, two(g, "subtract", two(g, "multiply", x, number(g, factor, x)), number(g, bound, x)))

    return make


def entropy(g: Graph, x: Tensor) -> Tensor:
    return two(g, "multiply", x, g.emit("log", [g.emit("abs", [x])]))


def is_not_a_number(g: Graph, x: Tensor) -> Tensor:
    return g.emit("compare", [x, x], direction="NE")


def is_the_larger(g: Graph, x: Tensor) -> Tensor:
    """What derivatives ask of `max(x, -inf)`, as JAX writes a softmax."""
    return g.emit("compare", [x, two(g, "maximum", x, number(g, -inf, x))], direction="EQ")


def is_infinite(g: Graph, x: Tensor) -> Tensor:
    return compared(g, g.emit("abs", [x]), "EQ", inf)


def is_finite(g: Graph, x: Tensor) -> Tensor:
    return g.emit("is-finite", [x])


def whole(g: Graph, x: Tensor, reducer: str) -> Tensor:
    return wide(g, over(g, x, reducer), x)


def log_sum_exp(g: Graph, x: Tensor, shift: Tensor) -> Tensor:
    total = whole(g, g.emit("exponential", [two(g, "subtract", x, shift)]), "sum")
    return two(g, "add", g.emit("log", [total]), shift)


def finite_top(g: Graph, x: Tensor) -> Tensor:
    top = whole(g, x, "max")
    return g.emit("select", [is_finite(g, top), top, number(g, 0, x)])


def largest(g: Graph, x: Tensor) -> Tensor:
    return whole(g, g.emit("abs", [x]), "max")


def nothing(g: Graph, x: Tensor) -> Tensor:
    return two(g, "multiply", x, number(g, 0, x))


def masked_softmax(g: Graph, x: Tensor) -> Tensor:
    """Over what is not above zero."""
    kept = guarded(g, compared(g, x, "GT"), -inf, x)
    shifted = g.emit("exponential", [two(g, "subtract", kept, whole(g, kept, "max"))])
    return two(g, "divide", shifted, whole(g, shifted, "sum"))


SILENT_TESTS: dict[str, Make] = {
    "x - x == 0": lambda g, x: compared(g, two(g, "subtract", x, x), "EQ"),
    "0 x == 0": lambda g, x: compared(g, nothing(g, x), "EQ"),
    "x = a copy of it": lambda g, x: g.emit("compare", [g.emit("negate", [g.emit("negate", [x])]), x], direction="EQ"),
    "x <= 0 or x > 0": lambda g, x: g.emit("or", [compared(g, x, "LE"), compared(g, x, "GT")]),
    "1 / (0 x + 1) > 0": lambda g, x: compared(g, reciprocal(g, two(g, "add", nothing(g, x), number(g, 1, x))), "GT"),
}
"""Truth values that are so of every finite number, and of no other."""
WRONG: dict[str, tuple[Make, Make]] = {
    "a division that was guarded": (
        lambda g, x: guarded(g, compared(g, x, "EQ"), 0, reciprocal(g, x)),
        reciprocal,
    ),
    "x over x for a flag": (lambda g, x: guarded(g, compared(g, x, "EQ"), 0, number(g, 1, x)), ratio),
    "x log x, of which a value on the way is equal": (
        lambda g, x: guarded(g, compared(g, x, "EQ"), 0, entropy(g, x)),
        entropy,
    ),
    "a logarithm that was guarded": (
        lambda g, x: guarded(g, compared(g, x, "LE"), 0, g.emit("log", [x])),
        lambda g, x: g.emit("log", [x]),
    ),
    "a division that was guarded at a number of the program's": (
        lambda g, x: guarded(g, compared(g, x, "EQ", 7.25), 0, reciprocal_beyond(7.25, 1)(g, x)),
        reciprocal_beyond(7.25, 1),
    ),
    "a division that was guarded at a quotient of such numbers": (
        lambda g, x: guarded(g, compared(g, x, "EQ", 1.5), 0, reciprocal_beyond(4.5, 3)(g, x)),
        reciprocal_beyond(4.5, 3),
    ),
    "rows that are masked altogether": (
        lambda g, x: guarded(g, compared(g, whole(g, x, "min"), "GT"), 0, masked_softmax(g, x)),
        lambda g, x: masked_softmax(g, x),
    ),
    "whether a ratio is no number": (
        lambda g, x: is_not_a_number(g, ratio(g, x)),
        lambda g, x: compared(g, g.emit("abs", [x]), "LT"),
    ),
    "infinities against what is no number": (is_infinite, is_not_a_number),
    "whether numbers are finite against whether they are numbers": (
        is_finite,
        lambda g, x: g.emit("not", [is_not_a_number(g, x)]),
    ),
    "numbers that were guarded": (
        lambda g, x: g.emit("select", [is_finite(g, x), x, number(g, 0, x)]),
        lambda g, x: two(g, "add", x, number(g, 0, x)),
    ),
    **{
        f"numbers that were guarded: {name}": (
            lambda g, x, test=test: g.emit("select", [test(g, x), x, number(g, 0, x)]),
            lambda g, x: two(g, "add", x, number(g, 0, x)),
        )
        for name, test in SILENT_TESTS.items()
    },
    "a maximum that was guarded, and scales": (
        lambda g, x: two(g, "multiply", x, finite_top(g, x)),
        lambda g, x: two(g, "multiply", x, whole(g, x, "max")),
    ),
    "a shift that was guarded, and is not added again": (
        lambda g, x: two(g, "subtract", x, finite_top(g, x)),
        lambda g, x: two(g, "subtract", x, whole(g, x, "max")),
    ),
    "a bound of what is finite": (
        lambda g, x: compared(g, g.emit("abs", [x]), "LT", inf),
        lambda g, x: compared(g, g.emit("abs", [x]), "GE"),
    ),
}
RIGHT: dict[str, tuple[Make, Make]] = {
    "both divide": (
        lambda g, x: two(g, "add", reciprocal(g, x), number(g, 1, x)),
        lambda g, x: two(g, "divide", two(g, "add", x, number(g, 1, x)), x),
    ),
    "only the baseline divides": (ratio, lambda g, x: number(g, 1, x)),
    "the divisor is guarded": (
        lambda g, x: guarded(g, compared(g, x, "EQ"), 1, ratio(g, guarded(g, compared(g, x, "EQ"), 1, x))),
        lambda g, x: number(g, 1, x),
    ),
    "a shift that is finite": (
        lambda g, x: log_sum_exp(g, x, finite_top(g, x)),
        lambda g, x: log_sum_exp(g, x, whole(g, x, "max")),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_no_condition_leaves_out_what_the_baseline_provides_for(name: str) -> None:
    assert report(alone(*WRONG[name], 4)).verdict != "PROVED"  # by formulas, or by rules


@pytest.mark.parametrize("name", RIGHT)
def test_conditions_that_the_baseline_has_too_are_listed(name: str) -> None:
    assert verdict(alone(*RIGHT[name], 4)) == "PROVED"


def test_so_it_is_of_large_programs() -> None:
    assert verdict(alone(*WRONG["a division that was guarded"], 300_000)) != "PROVED"


def test_so_it_is_where_only_a_tensor_of_zeros_is_left_out() -> None:
    def scale(g: Graph, x: Tensor) -> Tensor:
        return scaled(g, largest(g, x), 1 / 4)

    def base(g: Graph, x: Tensor) -> Tensor:
        return two(g, "divide", x, guarded(g, compared(g, largest(g, x), "EQ"), 1, scale(g, x)))

    assert verdict(alone(base, lambda g, x: two(g, "divide", x, scale(g, x)), 64)) != "PROVED"


def overflow(*, told: bool) -> Pair:
    """Gradients that are left out where one of them, on any rank, is not finite; or on the rank itself."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((4, 6), {0: "dp"})

    def kept(g: Graph, x: Tensor, everywhere: Callable[[Tensor], Tensor]) -> Tensor:
        bad = g.emit("select", [is_finite(g, x), number(g, 0, x), number(g, 1, x)])
        found = everywhere(over(g, over(g, bad, "max"), "max"))
        flag = g.emit("compare", [found, number(g, 0, found)], direction="GT")
        return g.emit("select", [wide(g, flag, x), number(g, 0, x), x])

    def reduced(found: Tensor) -> Tensor:
        return pair.dist.emit("all-reduce", [found], reducer="max", groups=pair.groups("dp")) if told else found

    pair.outputs(kept(pair.base, x, lambda found: found), kept(pair.dist, dx, reduced))
    return pair


@pytest.mark.parametrize("told", [True, False])
def test_an_overflow_that_one_rank_keeps_to_itself(told: bool) -> None:
    pair = overflow(told=told)
    assert (verdict(pair) == "PROVED") == told
    search = find_counterexample(load_program(pair.tables()))
    assert search.status == ("agrees" if told else "refuted")
    assert told or (search.best is not None and search.best.draw == "not finite")


def told_by_one_rank(made: Make) -> Pair:
    """What one rank has, by a product with its flag and a sum; and something made of it."""
    pair = Pair({"pp": 2})
    x, dx = pair.input((4, 6))
    rank = pair.dist.emit("partition-id", [], shape=(), dtype="s32")
    mine = pair.dist.emit("compare", [rank, pair.dist.splat(1, "s32", ())], direction="EQ")
    flag = pair.dist.emit("convert", [mine], dtype="f32")
    told = two(pair.dist, "multiply", dx, wide(pair.dist, flag, dx))
    told = pair.dist.emit("all-reduce", [told], reducer="sum", groups=pair.groups("pp"))
    pair.outputs(made(pair.base, x), made(pair.dist, told))
    return pair


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (is_not_a_number, "REFUTED"),
        (is_infinite, "REFUTED"),
        (lambda g, x: guarded(g, compared(g, x, "GT", 1e30), 0, x), "UNKNOWN"),
        (lambda g, x: guarded(g, is_the_larger(g, x), 0, x), "UNKNOWN"),
        (lambda g, x: g.emit("select", [is_the_larger(g, x), number(g, 1, x), number(g, 0, x)]), "PROVED"),
        (is_finite, "PROVED"),
        (lambda g, x: guarded(g, compared(g, x, "GT"), 0, x), "PROVED"),
        (lambda g, x: scaled(g, x, 2), "PROVED"),
    ],
)  # fmt: skip
def test_lemmas_assume_no_finite_numbers_where_a_program_asks(made: Make, verdict: str) -> None:
    assert report(told_by_one_rank(made)).verdict == verdict


@pytest.mark.parametrize("beside", [False, True])
def test_what_a_program_asks_elsewhere_decides_nothing_of_an_output(beside: bool) -> None:
    """A logsumexp asks whether the greatest of a row is finite (places beside one were REFUTED)."""
    jax = pytest.importorskip("jax")
    everywhere = jax.sharding.PartitionSpec()
    mesh = jax.sharding.AbstractMesh((2,), ("tp",))

    def found(made: Callable[..., object]) -> Callable[..., object]:
        def f(x: Any) -> object:
            rest = jax.numpy.exp(x - jax.nn.logsumexp(x, -1, keepdims=True)) if beside else x
            return jax.lax.top_k(made(x), 2)[1], rest

        return f

    dist = jax.shard_map(found(lambda x: x), mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
    args = [jax.ShapeDtypeStruct((4, 8), "float32")]
    report = scalify_dl.verify(found(jax.nn.softmax), dist, mesh=mesh, args=args)
    assert report.verdict.value == "PROVED"
    assert "finite" in {assumed.why for assumed in report.assumptions}


def test_the_guards_of_a_logsumexp_look_for_no_infinities_where_its_gradient_is_asked_for() -> None:
    """The gradient of JAX's is 0 for rows with an infinity, and that of `log(sum(exp(x - max)))` no number."""
    jax = pytest.importorskip("jax")
    everywhere = jax.sharding.PartitionSpec()
    mesh = jax.sharding.AbstractMesh((2,), ("tp",))

    def written_out(x: Any) -> Any:
        exponentials = jax.numpy.exp(x - x.max(-1, keepdims=True))
        return exponentials / exponentials.sum(-1, keepdims=True)

    dist = jax.shard_map(written_out, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
    args = [jax.ShapeDtypeStruct((4, 8), "float32")]
    base = jax.grad(lambda x: jax.nn.logsumexp(x, -1).sum())
    report = scalify_dl.verify(base, dist, mesh=mesh, args=args)
    assert report.verdict.value == "PROVED"
    assert "finite" in {assumed.why for assumed in report.assumptions}


def test_a_guard_is_provided_for_in_large_programs_whose_outputs_have_layouts() -> None:
    """These are executed at small sizes, at which layouts are others (such a pair was PROVED)."""
    jax = pytest.importorskip("jax")
    rows = jax.sharding.PartitionSpec("tp")
    mesh = jax.sharding.AbstractMesh((2,), ("tp",))

    def verified(base: Callable[..., object]) -> str:
        dist = jax.shard_map(lambda x, y: x / y * x + x / y, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)
        args = [jax.ShapeDtypeStruct((512, 512), "float32")] * 2
        return str(scalify_dl.verify(base, dist, mesh=mesh, args=args).verdict.value)

    assert verified(lambda x, y: jax.numpy.where(y == 0, 0, x / y) * (x + 1)) != "PROVED"
    assert verified(lambda x, y: x / y * (x + 1)) == "PROVED"


def there_and_back(dtype: str, between: str) -> Pair:
    """Integers as reals of a type and back, against the integers."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((4,), dtype=dtype)
    reals = pair.base.emit("convert", [x], dtype=between)
    pair.outputs(pair.base.emit("convert", [reals], dtype=dtype), dx)
    return pair


@pytest.mark.parametrize(("dtype", "between"), [("s32", "f32"), ("s32", "bf16"), ("u16", "f16"), ("s64", "f64")])
def test_integers_that_a_real_type_rounds_do_not_come_back(dtype: str, between: str) -> None:
    assert verdict(there_and_back(dtype, between)) != "PROVED"


@pytest.mark.parametrize(("dtype", "between"), [("s8", "bf16"), ("u16", "f32"), ("s32", "f64")])
def test_integers_that_a_real_type_holds_come_back(dtype: str, between: str) -> None:
    assert verdict(there_and_back(dtype, between)) == "PROVED"


@pytest.mark.parametrize(("dtype", "size"), [("bf16", 256), ("bf16", 300), ("f16", 2048), ("f16", 2100)])
def test_positions_are_numbers_as_far_as_their_type_holds_them(dtype: str, size: int) -> None:
    """`arange(300)` in bf16 has 256 twice."""

    def turned(g: Graph, x: Tensor, dtype: str) -> Tensor:
        return two(g, "multiply", x, g.emit("convert", [iota(g, x, dtype=dtype)], dtype="f32"))

    pair = alone(lambda g, x: two(g, "multiply", x, iota(g, x, dtype="f32")), lambda g, x: turned(g, x, dtype), size)
    assert decided(pair) == (size in (256, 2048))
    if size == 300:
        assert verdict(pair) != "PROVED"


def in_type(dtype: str) -> Make:
    def made(g: Graph, x: Tensor) -> Tensor:
        wide = x if dtype == x.dtype else g.emit("convert", [x], dtype=dtype)
        made = two(g, "add", g.emit("exponential", [wide]), number(g, 1, wide))
        return made if made.dtype == "f32" else g.emit("convert", [made], dtype="f32")

    return made


@pytest.mark.parametrize(
    ("base", "dist", "listed"), [("f32", "bf16", True), ("bf16", "f32", True), ("f32", "f32", False)]
)
def test_what_one_side_computes_in_another_type_is_listed(base: str, dist: str, listed: bool) -> None:
    """A softmax whose cast to f32 stands behind it was PROVED to be one in f32, with nothing listed."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((4,), dtype="bf16")
    made = in_type(dist)(pair.dist, dx)
    pair.outputs(in_type(base)(pair.base, x), two(pair.dist, "multiply", made, number(pair.dist, 1, made)))
    found = report(pair)
    assert found.verdict.value == "PROVED"
    assert ("precision" in {a.why for a in found.assumptions}) == listed


@pytest.mark.parametrize(("bound", "listed"), [(0.1, True), (0.5, False)])
def test_a_bound_that_one_side_has_in_another_type_is_listed(bound: float, listed: bool) -> None:
    """x > 0.1 in bf16 was PROVED to be so in f32, with nothing listed: 0.1 of bf16 is 0.10009765625."""
    pair = Pair({"tp": 1})
    x, dx = pair.input((4,), dtype="bf16")
    wide = pair.dist.emit("convert", [dx], dtype="f32")
    sides = ((pair.base, x), (pair.dist, wide))
    pair.outputs(*(g.emit("compare", [y, number(g, bound, y)], direction="GT") for g, y in sides))
    found = report(pair)
    assert found.verdict.value == "PROVED"
    assert ("precision" in {a.why for a in found.assumptions}) == listed


def test_that_a_value_between_is_a_number_rests_on_the_inputs_that_it_is_made_of() -> None:
    """A sum less itself is no number on any rank, or on the one alone whose rows are infinite."""
    pair = Pair({"dp": 2})
    (x, dx), (y, dy) = pair.input((4,), {0: "dp"}), pair.input((4,), {0: "dp"})

    def difference(g: Graph, x: Tensor, y: Tensor) -> Tensor:
        total = over(g, two(g, "subtract", x, y), "sum")
        return two(g, "subtract", total, total)

    pair.outputs(difference(pair.base, x, y), difference(pair.dist, dx, dy))
    found = report(pair)
    assert found.verdict == "PROVED"
    assert {a.tensor for a in found.assumptions if a.why == "finite"} == {"x0", "x1"}


def moved_infinity(g: Graph, x: Tensor) -> Tensor:
    """A comparison with an infinity that was negated and cast on the way."""
    bound = g.emit("convert", [g.emit("negate", [number(g, -inf, x)])], dtype="f64")
    return g.emit("compare", [g.emit("convert", [x], dtype="f64"), bound], direction="LT")


def chosen_by_a_tie(g: Graph, x: Tensor) -> Tensor:
    return g.emit("select", [tie(g, x), number(g, 1, x), number(g, 0, x)])


def tie(g: Graph, x: Tensor) -> Tensor:
    bound = number(g, -inf, x)
    return g.emit("compare", [bound, two(g, "maximum", over_all(g, x), bound)], direction="EQ")


def over_all(g: Graph, x: Tensor) -> Tensor:
    return whole(g, x, "max")


def added_by_a_tie(g: Graph, x: Tensor) -> Tensor:
    """A tie that says more than which of two numbers is chosen."""
    return two(g, "add", x, g.emit("convert", [tie(g, x)], dtype="f32"))


LOOKED_FOR: dict[str, tuple[Make, bool]] = {
    "is-finite": (is_finite, True), "itself": (is_not_a_number, True), "an infinity": (is_infinite, True),
    "a moved infinity": (moved_infinity, True), "a number": (lambda g, x: compared(g, x, "LT", 3), False),
    "a tie": (chosen_by_a_tie, False), "a tie that is given": (tie, True),
    "a tie that is added": (added_by_a_tie, True),
    "an infinity that nothing compares": (masked_softmax, False),
}  # fmt: skip


@pytest.mark.parametrize("what", LOOKED_FOR)
def test_of_long_programs_only_ops_are_looked_at_that_may_tell_infinities_apart(what: str) -> None:
    make, looked_for = LOOKED_FOR[what]
    facts = Facts(alone(make, make, 4, 3).tables())
    asked = _what_asks(facts)
    assert asks(load_program(asked)) == asks(load_program(facts.tables)) == looked_for


def test_what_a_program_with_loops_asks_is_seen_without_its_other_ops() -> None:
    """The ops that have regions are kept with them (a long program with loops could not be loaded)."""
    pair = Pair({"tp": 2})
    x, shard = pair.input((4,), {0: "tp"})
    for graph, value in ((pair.base, x), (pair.dist, shard)):
        body, cond = Graph(f"{graph.name} body"), Graph(f"{graph.name} cond")
        y = body.input("y", "f32", value.shape)
        body.output(body.emit("select", [body.emit("is-finite", [y]), y, number(body, 0, y)]))
        z = cond.input("z", "f32", value.shape)
        cond.output(cond.emit("reduce", [compared(cond, z, "LT", 4)], dimensions=[0], reducer="and"))
        loop = graph.add("while", [two(graph, "add", value, value)], [("f32", value.shape)])
        loop.regions = [cond, body]
    pair.outputs(pair.base.ops[-1].result, pair.dist.ops[-1].result)
    assert asks(load_program(_what_asks(Facts({name: list(rows) for name, rows in pair.tables().items()}))))


@pytest.mark.parametrize(("dtype", "same"), [("f8e4m3fn", False), ("f8e5m2fnuz", False), ("f8e5m2", True)])
def test_an_infinity_is_no_number_in_a_type_without_one(dtype: str, same: bool) -> None:
    def added(g: Graph, x: Tensor) -> Tensor:
        return two(g, "add", x, number(g, inf, x))

    def cast(g: Graph, x: Tensor) -> Tensor:
        infinite = g.emit("convert", [number(g, inf, x)], dtype=dtype)
        return two(g, "add", x, g.emit("convert", [infinite], dtype="f32"))

    assert (verdict(alone(added, cast, 4)) == "PROVED") is same


def test_what_rounding_moves_is_no_difference_at_a_limit() -> None:
    """Nothing but what rounding leaves, multiplied where a divisor is small: neither side says what it is."""

    def rest(g: Graph, x: Tensor, y: Tensor, *, late: bool) -> Tensor:
        a, b, c = (scaled(g, x, factor) for factor in (0.1, 0.2, 0.3))
        left = two(g, "subtract", two(g, "add", a, b), c) if late else two(g, "add", a, two(g, "subtract", b, c))
        return two(g, "divide", left, two(g, "add", two(g, "multiply", y, y), number(g, 1e-20, y)))

    pair = Pair({"tp": 1})
    (x, dx), (y, dy) = pair.input((8, 8)), pair.input((8, 8))
    pair.outputs(rest(pair.base, x, y, late=True), rest(pair.dist, dx, dy, late=False))
    limits = Limits(load_program(pair.tables()), [])
    assert not limits.erased
    assert any(trial.measured for trial in limits.trials)
