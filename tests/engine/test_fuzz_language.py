"""No text makes the front end crash or hang: it is accepted, or refused with a place."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.pysouffle import EvaluationError, Program, SourceError
from tests.engine.test_language_errors import cases

MANY = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))

VOCABULARY = """
.decl .type .input .output .printsize .limitsize .comp .init .override .functor .pragma .plan .include .number_type
.symbol_type .lattice #include #define #undef #if #ifdef #ifndef #elif #else #endif #error #line #pragma #
a b c r x y z T U A _ _x ?x @f $ $A $B nil true false as autoinc range cat ord strlen substr match contains
count sum min max mean to_number to_string to_float to_unsigned itou itof ftoi band bor bxor bnot bshl bshr bshru
land lor lxor lnot eqrel inline no_inline choice-domain btree_delete overridable stateful number symbol float unsigned
( ( ( ) ) ) [ [ ] ] { } , , , . . :- :- ; : :: <: <= >= < > = != ! + - * / % ^ | -> @ @@ ## \\ " // /* */
0 1 2 1.5 3u 0x1F 0b1 1.2.3.4 99999999999999999999 "a" "b" "\\q" "x: number" __LINE__ __FILE__ defined
"""
WORDS = VOCABULARY.split()

PROGRAM = """
.type N <: number
.type L = [h: N, t: L]
.type E = Leaf {} | Node { l: E, v: number }
.decl e(x: number, y: number)
e(1, 2). e(2, 3).
.decl p(x: number, y: number) choice-domain x
p(x, y) :- e(x, y), x < y ; p(x, z), e(z, y), !q(z, _).
.decl q(x: number, n: number)
q(x, n) :- e(x, _), n = count : { e(x, z), z > 1 }, x = min z : { e(z, _) }.
.decl l(x: L, e: E) l([1, [2, nil]], $Node($Leaf(), 3)).
.decl i(x: number) inline
i(x) :- e(x, y), y = max(x, 1) + range(0, 2).
.comp C<T> { .decl r(x: T) overridable r(x) :- s(x). .decl s(x: T) }
.comp D : C<number> { .override r r(as(x, number)) :- s(x), i(x). }
.init d = D
d.s(x) :- l([x, _], $Node(_, y)), x <= y.
p(x, y) <= p(x, z) :- y < z.
#define F(x) x
.output p, d.r
"""


def survives(text: str) -> None:
    try:
        program = Program.from_source(text)
        program.run(timeout=2, max_tuples=20_000)
    except (SourceError, EvaluationError) as error:
        for diagnostic in getattr(error, "diagnostics", []):
            assert diagnostic.message
            assert diagnostic.line >= 1
            assert diagnostic.column >= 1


@MANY
@given(st.text(max_size=300))
def test_any_text(text: str) -> None:
    survives(text)


@MANY
@given(st.lists(st.sampled_from([*WORDS, "\n"]), max_size=80), st.sampled_from(["", " "]))
def test_any_words_of_the_language(words: list[str], between: str) -> None:
    survives(between.join(words))


@MANY
@given(st.data())
def test_programs_with_pieces_moved_dropped_and_replaced(data: st.DataObject) -> None:
    lines = PROGRAM.split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        tokens = lines[at].split(" ")
        k = data.draw(st.integers(0, len(tokens) - 1))
        match data.draw(st.sampled_from(["drop", "replace", "insert", "swap", "cut", "move"])):
            case "drop":
                del tokens[k]
            case "replace":
                tokens[k] = data.draw(st.sampled_from(WORDS))
            case "insert":
                tokens.insert(k, data.draw(st.sampled_from(WORDS)))
            case "swap":
                j = data.draw(st.integers(0, len(tokens) - 1))
                tokens[k], tokens[j] = tokens[j], tokens[k]
            case "cut":
                tokens[k] = tokens[k][: len(tokens[k]) // 2]
            case "move":
                lines.insert(data.draw(st.integers(0, len(lines) - 1)), lines[at])
        lines[at] = " ".join(tokens)
    survives("\n".join(lines))


@MANY
@given(st.sampled_from([program for _, program, _ in cases()]), st.sampled_from([p for _, p, _ in cases()]))
def test_wrong_programs_together(first: str, second: str) -> None:
    survives(first + "\n" + second)


def test_the_program_that_is_broken_here_is_a_good_one() -> None:
    program = Program.from_source(PROGRAM).run(timeout=2)
    assert program.relation("p")
    assert program.relation("d.r")
