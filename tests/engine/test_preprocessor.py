"""#include, macros and conditions, and places in messages through all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pysouffle import Program, SourceError
from tests.engine.language import error, errors, rows

R = ".decl r(x: number)\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("#define N 3\nr(N).", {3}),
        ("#define N 3\n#undef N\n#define N 4\nr(N).", {4}),
        ("#define P(x, y) x + y\nr(P(1, P(2, 3))).", {6}),
        ("#define PAIR(a) r(a##1). r(1##a).\nPAIR(2)", {21, 12}),
        ("#define F(x, ...) r(x). r(max(__VA_ARGS__)).\nF(1, 2, 3)", {1, 3}),
        ("#define STR(x) strlen(#x)\nr(STR(a b)).", {3}),
        ("#define TWO \\\n  r(1). \\\n  r(2).\nTWO", {1, 2}),
        ("#define N N\n.decl N(x: number)\nN(1).\nr(x) :- N(x).", {1}),
        ('#define N 3\nr(strlen("N")). // N\n/* N */', {1}),
        ("#define F(x) x\nr(F) :- F = F (3).", {3}),
        ("#ifdef A\nr(1).\n#else\nr(2).\n#endif", {2}),
        ("#define A\n#ifdef A\nr(1).\n#else\nr(2).\n#endif", {1}),
        ("#ifndef A\n#define A 5\n#endif\n#if A > 4 && defined(A) && !defined B\nr(A).\n#endif", {5}),
        ("#if 0\nr(1).\n#elif 2 * 3 == 6\nr(2).\n#elif 1\nr(3).\n#else\nr(4).\n#endif", {2}),
        ('#if 0\n#if 1\nr(1).\n#endif\n"unbalanced\n#else\nr(2).\n#endif', {2}),
        ("#if (1 ? 0 : 1) || ~0 < 0\nr(1).\n#endif", {1}),
        ("r(__LINE__).\nr(__LINE__).", {2, 3}),
        ("#line 100\nr(__LINE__).", {100}),
        ("#define L __LINE__\n\nr(L).", {4}),
        ("r(strlen(__FILE__)).", {len("test.dl")}),
        ("r(RAM_DOMAIN_SIZE).", {64}),
        ("r(1 \\\n + 1).", {2}),
        ("/* # not a directive\n#error no\n*/ r(1).", {1}),
    ],
)
def test_macros_and_conditions(source: str, expected: set[int]) -> None:
    assert rows(R + source) == expected


def test_macros_given_by_the_host() -> None:
    assert rows(R + "#if LIMIT > 2\nr(LIMIT).\n#endif", defines={"LIMIT": "7"}) == {7}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("#if 1\n", "1:1 #if without #endif"),
        ("#endif", "1:1 #endif without #if"),
        ("#else", "1:1 #else without #if"),
        ("#if 1\n#else\n#else\n#endif", "3:1 #else after #else"),
        ("#if 1 +\n#endif", "1:1 bad #if expression: an operand is missing"),
        ("#if 1 / 0\n#endif", "1:1 bad #if expression: division by zero"),
        ("#define", "1:1 #define needs a name"),
        ("#define F(x x\nr(1).", "1:1 the parameter list of macro F does not end"),
        ("#define F(x) x\nr(F(1, 2)).", "2:3 the macro takes 1 arguments, 2 given"),
        ("#define F(x) x\nr(F(1.", "2:3 the arguments of a macro do not end: ')' is missing"),
        ("#error stop here", "1:1 #error stop here"),
        ("  #frobnicate", "1:3 unknown preprocessor directive #frobnicate"),
        ('#include "nowhere.dl"', '1:1 cannot find the included file "nowhere.dl"'),
        ("#include nowhere", "1:1 #include needs a file name in quotes"),
    ],
)
def test_errors_of_directives(source: str, expected: str) -> None:
    assert error(source) == expected


def test_places_survive_macros_and_conditions() -> None:
    assert error(R + "#define BAD nope(1).\n#if 1\n\nr(1). BAD\n#endif\n") == "5:7 undefined relation 'nope'"
    assert error(R + "#define TWO(a) r(a). r(a).\nTWO(\n1) nope(2).") == "4:4 undefined relation 'nope'"
    assert error(R + "r(1 \\\n). nope(2).") == "3:4 undefined relation 'nope'"


def test_line_directives_rename_places() -> None:
    with pytest.raises(SourceError) as caught:
        Program.from_source(R + '#line 70 "rules.in"\nnope(1).\n')
    assert (caught.value.diagnostics[0].file, caught.value.diagnostics[0].line) == ("rules.in", 70)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "deep.dl").write_text("#pragma once\n.decl r(x: number)\nr(1).")
    (tmp_path / "lib" / "top.dl").write_text('#include "deep.dl"\n#include "deep.dl"\nr(2).\n')
    return tmp_path


def test_includes_are_found_beside_the_file_and_in_the_given_folders(folder: Path) -> None:
    main = folder / "main.dl"
    main.write_text('#include "lib/top.dl"\n.include "top.dl"\nr(3).\n')
    assert set(Program.from_file(main, include_dirs=[folder / "lib"]).run().relation("r")) == {(1,), (2,), (3,)}


def test_errors_in_included_files_name_them(folder: Path) -> None:
    (folder / "lib" / "deep.dl").write_text(".decl r(x: number)\n\nr(1)  r(2).")
    main = folder / "main.dl"
    main.write_text('\n\n#include "lib/deep.dl"\nnope(1).\n')
    with pytest.raises(SourceError) as caught:
        Program.from_file(main)
    diagnostic = caught.value.diagnostics[0]
    assert (Path(diagnostic.file).name, diagnostic.line, diagnostic.column) == ("deep.dl", 3, 7)


def test_a_file_that_includes_itself_ends_in_an_error(folder: Path) -> None:
    main = folder / "main.dl"
    main.write_text('#include "main.dl"\n')
    with pytest.raises(SourceError, match="nested more than 100 deep"):
        Program.from_file(main)
    main.write_text('#include "main.dl"\n' * 3)
    with pytest.raises(SourceError, match="nested more than 100 deep"):
        Program.from_file(main)


def test_carriage_returns_are_white_space() -> None:
    assert errors(".decl r(x: number)\r\n#define N 1\r\nr(N).\r\n#ifdef N\r\nr(2).\r\n#endif\r\n") == []
