"""What is wrong with a program is said with its place, and the engine never gives up on hostile text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scalify_dl.pysouffle import Program, SourceError
from tests.engine.language import error, errors, warnings

A = ".decl a(x: number)\n"
S = ".decl s(x: symbol)\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # text
        (S + 's("abc).', "2:3 this string does not end on its line"),
        (S + r's("a\q").', r"2:6 unknown escape sequence \q"),
        ("/* never closed", "1:1 this comment does not end"),
        (A + "a(1\0).", "2:4 a NUL byte does not belong here"),
        (A + "a(0x).", "2:3 digits are missing after 0x"),
        (A + "a(1).\na(2)", "3:5 syntax error: '.' or ':-' is expected, the end of the program found"),
        (A + "a(1) :- a(2) a(3).", "2:14 syntax error: ',' or ';' or '.' is expected, 'a' found"),
        (".decl count(x: number)", "1:7 'count' is a keyword of the language, not a name; the name of a relation is expected"),
        (A + "a(x) :- a(y), x = a(y).", "2:19 'a' is no functor, and an atom cannot be an argument"),
        (A + "a(x) :- x = 1, x.", "2:17 syntax error: a comparison (= != < <= > >=) is expected, '.' found"),
        # names
        (A + "b(1).", "2:1 undefined relation 'b'"),
        (".input b", "1:8 undefined relation 'b'"),
        (A + "a(1, 2).", "2:1 mismatching arity of relation 'a': 1 expected, 2 given"),
        (".decl a(x: Node)", "1:12 undefined type 'Node' of attribute 'x'"),
        (A + A, "2:7 redefinition of relation 'a'"),
        (".decl a(x: number, x: number)", "1:23 doubly defined attribute name 'x' in relation 'a'"),
        (".type T <: number\n.type T <: symbol", "2:7 redefinition of type 'T'"),
        (".type number <: symbol", "1:7 redefinition of the predefined type 'number'"),
        (".type A <: B\n.type B <: A", "2:7 infinite descent in the definition of type 'B'"),
        (".type U = number | symbol", "1:7 union type 'U' is defined over several primitive types"),
        (".type R = [x: number]\n.type S <: R", "2:7 subtype 'S' cannot be derived from the record type 'R'"),
        (".type A = X {} | X {}", "1:18 branch 'X' is defined multiple times"),
        (A + "a(@f(1)).", "2:3 undefined user-defined functor 'f'"),
        (".functor f(x: number): number\n" + A + "a(@f(1, 2)).", "3:3 functor arity mismatch: 'f' takes 1 arguments, 2 given"),
        (A + "a(strlen()).", "2:3 strlen takes 1 arguments, 0 given"),
        # types
        (A + 'a("x").', "2:3 type mismatch: a symbol cannot be used here"),
        (S + "s(1).", "2:3 type mismatch: a number cannot be used here"),
        (A + "a(1.5).", "2:3 type mismatch: a float cannot be used here"),
        (A + S + "a(x) :- a(x), s(x).", "3:3 unable to deduce a type for variable 'x'"),
        (
            ".type E <: number\n.decl e(x: E)\n" + A + "e(x) :- a(x).",
            "4:3 type mismatch: the argument is of type 'number', which is not a subtype of the declared type 'E' of attribute 'x'",
        ),
        (A + S + "a(cat(x, x)) :- s(x).", "3:3 type mismatch: this functor has no version for the types of its arguments and result"),
        (A + "a(nil).", "2:3 nil is used where no record is expected"),
        (".type R = [x: number]\n.decl r(x: R)\nr([1, 2]).", "3:3 type mismatch: a record with 2 fields cannot be used here"),
        (A + "a(x) :- a(x), [x] != [1].", None),
        (".type T = L {}\n.decl t(x: T)\nt($M()).", "3:3 undeclared branch 'M'"),
        (".type T = L {}\n.decl t(x: T)\nt($L(1)).", "3:3 invalid arity: branch 'L' has 0 fields, 1 given"),
        (A + "a(as(1, Node)).", "2:3 cast to the undeclared type 'Node'"),
        (".type R = [x: number]\n.decl r(x: R)\nr(x) :- r(x), r(y), x < y.", "3:23 there is no order on records"),
        (A + "a(99999999999999999999).", "2:3 99999999999999999999 is out of range for the type number of 64 bits"),
        # variables
        (A + "a(x) :- a(y).", "2:3 ungrounded variable 'x'"),
        (A + "a(x) :- a(y), x > y.", "2:3 ungrounded variable 'x'"),
        (A + S + "s(\"a\") :- a(y), !a(x).", "3:20 ungrounded variable 'x'"),
        (A + "a(x) :- a(y), y = x + 1.", "2:3 ungrounded variable 'x'"),
        (A + ".decl b(x: number)\na(n) :- n = sum x : { b(y) }, b(y).", "3:17 ungrounded variable 'x'"),
        (".decl a(x: number, n: number)\na(x, n) :- n = count : { a2(x) }.\n.decl a2(x: number)", None),
        (A + "a(x).", "2:3 argument in fact is not constant: variable 'x'"),
        (A + "a(autoinc()).", "2:3 argument in fact is not constant"),
        (A + "a(_) :- a(1).", "2:3 underscore in the head of a rule"),
        (A + "a(x) :- a(x), x > _.", "2:19 underscore in a comparison"),
        # strata
        (A + "a(x) :- a(x), !a(x + 1).", "2:16 unable to stratify: relation 'a' depends on itself through negation: a -> !a"),
        (
            ".decl a, b, c(x: number)\na(x) :- b(x).\nb(x) :- c(x).\nc(x) :- b(x), !a(x).",
            "4:16 unable to stratify: relation 'c' depends on itself through negation: c -> !a -> b -> c",
        ),
        (
            A + "a(n) :- n = count : { a(_) }.",
            "2:23 unable to stratify: relation 'a' depends on itself through aggregation: a -> aggregate of a",
        ),
        (A + "a(autoinc()) :- a(_).", "2:3 auto-increment functor in a recursive rule"),
        # relations
        (".decl a(x: number) eqrel", "1:7 equivalence relation 'a' is not binary"),
        (".decl a(x: number, y: symbol) eqrel", "1:7 the domains of equivalence relation 'a' are different"),
        (".decl a(x: number) choice-domain y", "1:34 attribute 'y' is not in relation 'a'"),
        (".decl a() btree_delete", "1:7 subsumptive relation 'a' must not be nullary"),
        (".decl a, b(x: number)\na(x) <= b(x) :- x > 1.", "2:1 subsumption must compare tuples of the same relation"),
        (".decl a(x: number) btree_max", "1:20 unknown qualifier 'btree_max' of a relation"),
        (A + ".limitsize a", "2:12 limitsize directive of relation 'a' has no limit"),
        (A + "a(x) :- a(x), a(1). .plan 0:(1,1)", "2:1 invalid execution order in .plan"),
        # inlining
        (".decl a(x: number) inline\na(x) :- b(x).\n.decl b(x: number) inline\nb(x) :- a(x).", None),
        (".decl i(x: number) inline\ni(1).\n.output i", "3:9 relation 'i' is inlined, so it cannot be read or written"),
        (".decl i(x: number) inline\ni(1).\n" + A + "a(n) :- n = count : { i(_) }.", "4:23 cannot inline relation 'i' in an aggregate"),
        (
            ".decl i(x: number) inline\ni(x) :- a(x), a(y), y > x.\n" + A + S + "s(\"a\") :- a(x), !i(x).",
            "5:18 cannot inline negated relation 'i', whose rules have variables of their own",
        ),
        # components
        (".init c = C", "1:11 referencing undefined component 'C'"),
        (".comp C<T> {}\n.init c = C", "2:11 invalid number of type parameters for component 'C': 1 expected, 0 given"),
        (".comp C : C {}", "1:7 invalid cycle in the inheritance of component 'C'"),
        (".comp B { .decl r(x: number) }\n.comp C : B { .override r r(1). }", "2:15 override of the non-overridable relation 'r' in component 'C'"),
        (".comp C { .init x = C }\n.init c = C", "1:17 components are instantiated more than 400 levels deep"),
        (".override r", "1:1 syntax error: .override belongs inside a component"),
        # not supported, said by name
        (".lattice L<> { Bottom -> 1 }", "1:1 .lattice is not supported"),
        (A + "a(x) :- a(x), x = @@f 1 : 2, { a(_) }.", "2:19 user-defined aggregates (@@name) are not supported"),
        (A + "a(x) :- a(x), __ITERATION__() < 3.", None),
        (".decl d = debug_delta(a)", "1:11 debug_delta relations are not supported"),
        (A + "a(n) :- n = count : { a(1) ; a(2) }.", "2:13 a disjunction in the body of an aggregate is not supported"),
    ],
)
def test_errors_name_the_place_and_what_is_wrong(source: str, expected: str | None) -> None:
    if expected is None:
        assert errors(source)
    else:
        assert error(source) == expected


def test_several_errors_are_reported_in_one_run() -> None:
    source = A + "b(1).\na(1, 2).\na(x) :- a(y).\na(\"x\").\n"
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
    assert "witness problem" in error(".decl a(x: number, n: number)\n.decl b(x: number)\na(x, n) :- n = count : { b(x) }, n > 0.")


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
    "a chain of rules": "".join(f".decl r{i}(x: number)\n" for i in range(20_001)) + "".join(f"r{i}(x) :- r{i + 1}(x).\n" for i in range(20_000)),
    "doubling records": A + "a(1) :- r0 = [1, 1], " + ", ".join(f"r{i + 1} = [r{i}, r{i}]" for i in range(60)) + ".",
    "doubling inlining": ".decl i0(x: number) inline\ni0(1). i0(2).\n"
    + "".join(f".decl i{i + 1}(x: number) inline\ni{i + 1}(x) :- i{i}(x), i{i}(x).\n" for i in range(30))
    + A
    + "a(x) :- i30(x).",
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
    start = time.process_time()
    errors(HOSTILE[name])
    assert time.process_time() - start < 5


def test_invalid_utf8_is_an_error_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.dl"
    file.write_bytes(b'.decl s(x: symbol)\ns("\xff").')
    with pytest.raises(SourceError) as caught:
        Program.from_file(file)
    diagnostic = caught.value.diagnostics[0]
    assert (diagnostic.line, diagnostic.column, diagnostic.message) == (2, 4, "invalid UTF-8 in the program")
