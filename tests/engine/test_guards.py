"""Runs that must not go on forever, or silently wrong: guards, overflow, division by zero, Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest

from scalify_dl.pysouffle import EvaluationError, Program

ENDLESS = ".decl a(x: number)\na(0).\na(x + 1) :- a(x).\n"
PAIRS = ".decl n(x: number)\n.decl p(x: number, y: number)\nn(x) :- x = range(0, 3000).\np(x, y) :- n(x), n(y).\n"


@pytest.mark.parametrize(
    ("guard", "name"),
    [({"timeout": 0.2}, "timeout"), ({"max_tuples": 10_000}, "max_tuples"), ({"max_memory": 2_000_000}, "max_memory")],
)
@pytest.mark.parametrize("source", [ENDLESS, PAIRS], ids=["endless", "product"])
def test_a_guard_ends_a_run_that_would_take_the_machine_down(source: str, guard: dict[str, float], name: str) -> None:
    if source is PAIRS and name == "timeout":
        guard = {"timeout": 1e-6}
    program = Program.from_source(source)
    begin = time.monotonic()
    with pytest.raises(EvaluationError, match=name):
        program.run(**guard)  # type: ignore[arg-type]
    assert time.monotonic() - begin < 5


def test_after_a_guard_the_next_run_gives_what_a_fresh_run_gives() -> None:
    program = Program.from_source(PAIRS)
    with pytest.raises(EvaluationError):
        program.run(max_tuples=100_000)
    program.run()
    assert (program.size("n"), program.size("p")) == (3000, 9_000_000)


def test_the_tuple_guard_is_close_to_its_limit() -> None:
    program = Program.from_source(ENDLESS)
    with pytest.raises(EvaluationError):
        program.run(max_tuples=100_000)
    assert 100_000 < program.size("a") + 1 < 150_000


def test_an_endless_range_is_ended() -> None:
    program = Program.from_source(".decl a(x: number)\na(1) :- x = range(0, 1000000000000), x < 0.")
    with pytest.raises(EvaluationError, match="timeout"):
        program.run(timeout=0.2)


def test_ctrl_c_works_inside_a_run() -> None:
    program = Program.from_source(ENDLESS)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        program.run(timeout=20)
    timer.join()
    signal.signal(signal.SIGINT, before)


def test_other_threads_run_meanwhile() -> None:
    program = Program.from_source(ENDLESS)
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.01):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    with pytest.raises(EvaluationError):
        program.run(timeout=0.4)
    done.set()
    thread.join()
    assert ticks >= 5


def test_relations_cannot_be_used_while_the_program_runs() -> None:
    program = Program.from_source(ENDLESS)
    seen: list[str] = []

    def look() -> None:
        time.sleep(0.2)
        for use in (program.run, lambda: program.relation("a"), lambda: program.insert("a", [(7,)])):
            with pytest.raises(EvaluationError) as caught:
                use()
            seen.append(str(caught.value))

    thread = threading.Thread(target=look)
    thread.start()
    with pytest.raises(EvaluationError, match="timeout"):
        program.run(timeout=2)
    thread.join()
    assert len(seen) == 3
    assert all("is running" in text for text in seen)


def result(expression: str, type_: str = "number", **options: object) -> object:
    program = Program.from_source(f".decl r(x: {type_})\n.decl one(x: number)\nr({expression}) :- one(x).\n", **options)
    program.insert("one", [(1,)]).run()
    ((value,),) = program.relation("r")
    return value


BIG = 2**63 - 1


@pytest.mark.parametrize(
    ("expression", "wrapped64", "wrapped32"),
    [
        (f"{BIG} + x", -(2**63), None),
        (f"-{BIG} - x - x", BIG, None),
        (f"{2**62} * (x + x)", -(2**63), None),
        ("2147483647 + x", 2**31, -(2**31)),
        ("65536 * (x * 65536)", 2**32, 0),
        ("2 ^ (x + 30)", 2**31, -(2**31)),
        ("x bshl 31", 2**31, -(2**31)),
    ],
)
def test_arithmetic_wraps_at_the_word_size(expression: str, wrapped64: int, wrapped32: int | None) -> None:
    assert result(expression) == wrapped64
    if wrapped32 is not None:
        assert result(expression, word_size=32) == wrapped32


def test_unsigned_arithmetic_wraps() -> None:
    assert result("itou(x) - 2u", "unsigned") == 2**64 - 1
    assert result("itou(x) - 2u", "unsigned", word_size=32) == 2**32 - 1
    assert result("itou(0 - x)", "unsigned") == 2**64 - 1


@pytest.mark.parametrize(
    "expression", [f"{BIG} + x", f"-{BIG} - x - x", f"{2**62} * (x + x)", "2 ^ (x + 62)", f"-(-{BIG} - x)"]
)
def test_checked_arithmetic_names_the_rule_that_overflows(expression: str) -> None:
    with pytest.raises(EvaluationError, match=r"overflow[^\n]*\n  in the rule <program>:3: r\("):
        result(expression, overflow="error")


def test_checked_sums_overflow_too() -> None:
    source = (
        f".decl a(i: number, x: number)\n.decl s(x: number)\na(1, {BIG}). a(2, 1).\ns(t) :- t = sum x : {{ a(_, x) }}."
    )
    assert Program.from_source(source).run().relation("s") == [(-(2**63),)]
    with pytest.raises(EvaluationError, match="overflow"):
        Program.from_source(source, overflow="error").run()


@pytest.mark.parametrize("expression", ["1 / (x - 1)", "1 % (x - 1)"])
def test_division_by_zero_is_an_error_that_names_the_rule(expression: str) -> None:
    with pytest.raises(EvaluationError, match=r"division by zero[^\n]*\n  in the rule <program>:3"):
        result(expression)


def test_a_condition_in_the_body_keeps_a_division_from_zero() -> None:
    program = Program.from_source("""
        .decl p(a: number, b: number)
        .decl q(c: number)
        p(6, 3). p(1, 0).
        q(c) :- c = a / b, p(a, b), b != 0.
        q(a / b) :- p(a, b), b > 0.
    """)
    assert program.run().relation("q") == [(2,)]


def test_float_division_by_zero_is_infinite() -> None:
    assert result("to_float(x) / 0.0", "float") == float("inf")


def test_text_that_is_no_number_is_an_error() -> None:
    with pytest.raises(EvaluationError, match='"abc" is not a number'):
        result('to_number("abc") + x')


def test_the_most_negative_number_divided_by_minus_one_does_not_crash() -> None:
    assert result(f"(-{BIG} - x) / (0 - x)") == -(2**63)


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(EvaluationError) as caught:
        call()
    return str(caught.value)


def test_an_error_shows_where_the_rule_is_written() -> None:
    program = Program.from_source(".decl a(x: number)\n\n  a(1 / x) :- x = 0.", name="rules.dl")
    assert "rules.dl:3: a(1 / x) :- x = 0." in error_of(program.run)
