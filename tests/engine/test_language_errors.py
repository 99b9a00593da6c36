"""What is wrong with a program is said with its place, and the engine never gives up on hostile text."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pysouffle import Program, SourceError
from tests.engine.language import error, errors, warnings

A = ".decl a(x: number)\n"
S = ".decl s(x: symbol)\n"


def cases() -> list[tuple[str, str, list[str]]]:
    text = (Path(__file__).parent / "language_errors.txt").read_text()
    found = []
    for case in text.split("\n=== ")[1:]:
        name, _, rest = case.partition("\n")
        program, *said = rest.rstrip("\n").split("\n>>> ")
        found.append((name, program, said))
    return found


@pytest.mark.parametrize(("source", "expected"), [pytest.param(c[1], c[2], id=c[0]) for c in cases()])
def test_errors_name_the_place_and_what_is_wrong(source: str, expected: list[str]) -> None:
    assert [f"{line}:{column} {message}" for line, column, message in errors(source)] == expected


def test_nul_bytes_are_refused() -> None:
    assert error(A + "a(1\0).") == "2:4 a NUL byte does not belong here"


def test_several_errors_are_reported_in_one_run() -> None:
    source = A + 'b(1).\na(1, 2).\na(x) :- a(y).\na("x").\n'
    assert [line for line, _, _ in errors(source)] == [2, 3, 4, 5]
    assert [line for line, _, _ in errors(A + "a(1.\na(2).\na(.\n")] == [2, 4]


def test_the_message_shows_the_line_a_caret_and_a_hint() -> None:
    with pytest.raises(SourceError) as caught:
        Program.from_source(".decl node(x: number)\n\tnode(1) :- nodes(1).\n", name="graph.dl")
    assert caught.value.diagnostics[0].text == (
        "graph.dl:2:13: error: undefined relation 'nodes'\n"
        "  \tnode(1) :- nodes(1).\n"
        "  \t           ^\n"
        "  hint: is 'node' meant?"
    )


def test_columns_count_characters() -> None:
    assert error(S + 's("äöü") :- s(1).') == "2:15 type mismatch: a number cannot be used here"
    assert error(A + S + 'a(x) :- s("→"), a(y).') == "3:3 ungrounded variable 'x'"


def test_witnesses_cannot_leave_a_count_or_sum() -> None:
    source = A + ".decl r(x: number, n: number)\nr(x, n) :- n = count : { a(x) }, n > 0."
    assert error(source) == "3:3 ungrounded variable 'x' (witness problem)"


def test_numbers_of_32_bits() -> None:
    assert error(A + "a(2147483648).", word_size=32) == "2:3 2147483648 is out of range for the type number of 32 bits"
    assert errors(A + "a(-2147483648). a(0xffffffff).", word_size=32) == []


def test_warnings_do_not_stop_a_program() -> None:
    source = A + "a(1).\n.decl b(x: number)\n.decl c(x: number, y: number)\nc(1, 2) :- a(y), b(_z), a(_z)."
    assert sorted(warnings(source)) == [
        (3, "no rules or facts are defined for relation 'b'"),
        (5, "variable '_z' is marked as singleton but occurs more than once"),
        (5, "variable 'y' only occurs once"),
    ]


HOSTILE = {
    "a line of a million characters": A + "a(x) :- " + ", ".join(["a(x)"] * 160_000) + ".",
    "nested brackets": ".type L = [t: L]\n.decl l(x: L)\nl(" + "[" * 100_000 + "]" * 100_000 + ").",
    "open brackets": A + "a(" + "[" * 100_000,
    "nested parentheses": A + "a(x) :- " + "(" * 100_000 + "a(x)" + ")" * 100_000 + ".",
    "negations": A + "a(x) :- a(x), " + "!" * 100_000 + "a(x).",
    "signs": A + "a(" + "-" * 100_000 + "1).",
    "a long sum": A + "a(" + "+".join(["1"] * 100_000) + ").",
    "nested components": ".comp A {" * 100_000,
    "nested aggregates": A + "a(x) :- x = " + "sum y : { y = " * 5_000 + "1" + "}" * 5_000 + ".",
    "disjunctions": A + "a(x) :- " + ", ".join(["(a(x) ; a(1))"] * 60) + ".",
    "a chain of equations": A + "a(x0) :- " + ", ".join(f"x{i} = x{i + 1}" for i in range(50_000)) + ", a(x50000).",
    "a chain of types": ".type T0 <: number\n" + "".join(f".type T{i + 1} <: T{i}\n" for i in range(50_000)),
    "a chain of rules": "".join(f".decl r{i}(x: number)\n" for i in range(20_001))
    + "".join(f"r{i}(x) :- r{i + 1}(x).\n" for i in range(20_000)),
    "doubling records": A + "a(1) :- r0 = [1, 1], " + ", ".join(f"r{i + 1} = [r{i}, r{i}]" for i in range(60)) + ".",
    "doubling inlining": ".decl i0(x: number) inline\ni0(1). i0(2).\n"
    + "".join(f".decl i{i + 1}(x: number) inline\ni{i + 1}(x) :- i{i}(x), i{i}(x).\n" for i in range(30))
    + A
    + "a(x) :- i30(x).",
    "doubling inlined terms": ".decl i0(x: number) inline\ni0(x) :- a(x).\n"
    + "".join(f".decl i{i + 1}(x: number) inline\ni{i + 1}(x) :- i{i}(x * x).\n" for i in range(60))
    + A
    + "a(1). a(x) :- i60(x).",
    "inlined terms that nest": ".decl i0(x: number) inline\ni0(x) :- a(x).\n"
    + "".join(f".decl i{i + 1}(x: number) inline\ni{i + 1}(x) :- i{i}(x + 1).\n" for i in range(3000))
    + A
    + "a(1). a(x) :- i3000(x).",
    "doubling macros": "#define A0 a\n" + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(60)) + "A60",
    "doubling empty macros": "#define A0\n" + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(60)) + "A60",
    "doubling components": ".comp C0 { .decl r(x: number) }\n"
    + "".join(f".comp C{i + 1} {{ .init a = C{i} .init b = C{i} }}\n" for i in range(40))
    + ".init z = C40",
    "thousands of errors": "".join(f"z{i}(x) :- y{i}(x).\n" for i in range(20_000)),
    "noise": "".join(chr(33 + (i * 7919) % 90) for i in range(300_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends_in_a_program_or_in_errors(name: str) -> None:
    for line, column, message in errors(HOSTILE[name]):
        assert line >= 1
        assert column >= 1
        assert message


def test_invalid_utf8_is_an_error_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.dl"
    file.write_bytes(b'.decl s(x: symbol)\ns("\xff").')
    with pytest.raises(SourceError) as caught:
        Program.from_file(file)
    diagnostic = caught.value.diagnostics[0]
    assert (diagnostic.line, diagnostic.column, diagnostic.message) == (2, 4, "invalid UTF-8 in the program")
