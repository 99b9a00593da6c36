"""A compiled program that is kept in a file is what its text says now, or is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.pysouffle import Program, SourceError

MAIN = """
.type Pair = [a: number, b: symbol]
.type Shape = Circle { r: number } | Point {}
#include "paths.dl"
#ifdef WIDE
label(x, "wide") :- node(x).
#endif
.decl label(x: number, text: symbol)
label(x, cat("n", to_string(x))) :- node(x), !path(x, x).
.decl pairs(p: Pair)
pairs([n, "all"]) :- n = count : { path(_, _) }.
pairs([n, "most"]) :- n = max x : { node(x) }.
.decl shapes(s: Shape)
shapes($Circle(x * -3)) :- node(x), x > 1.
shapes($Point()).
.decl worst(x: number) choice-domain x
worst(x) :- node(x).
.decl low(x: number)
low(x) :- node(x).
low(x) <= low(y) :- y < x.
"""
PATHS = """
.decl edge(a: number, b: number)
.input edge
.decl node(x: number)
node(a), node(b) :- edge(a, b).
.decl path(a: number, b: number)
path(a, b) :- edge(a, b).
path(a, c) :- path(a, b), edge(b, c).
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "paths.dl").write_text(PATHS, "utf-8")
    return tmp_path


def program(folder: Path, text: str = MAIN, **options: object) -> Program:
    return Program.from_source(text, name="main", include_dirs=[folder], kept=folder / "kept" / "program", **options)


def results(made: Program) -> dict[str, list[tuple[object, ...]]]:
    made.insert("edge", [(1, 2), (2, 3), (3, 2)]).run()
    return {name: sorted(made.relation(name), key=str) for name in made.relations}


def plain(folder: Path, text: str = MAIN, **options: object) -> dict[str, list[tuple[object, ...]]]:
    return results(Program.from_source(text, name="main", include_dirs=[folder], **options))


def kept(folder: Path) -> bytes:
    return (folder / "kept" / "program").read_bytes()


def test_the_program_that_is_kept_gives_what_the_text_gives(folder: Path) -> None:
    first, second = program(folder), program(folder)
    assert results(second.fresh()) == results(first) == results(second) == plain(folder)
    assert second.rules == first.rules
    assert second.directives == first.directives
    assert [w.text for w in second.warnings] == [w.text for w in first.warnings]
    assert str(second.explain("path", (1, 2))) == str(first.explain("path", (1, 2)))
    assert str(second.why_not("path", (3, 1))) == str(first.why_not("path", (3, 1)))


def test_it_is_read_and_not_written_again(folder: Path) -> None:
    program(folder)
    before = (folder / "kept" / "program").stat().st_ino
    program(folder)
    assert (folder / "kept" / "program").stat().st_ino == before


def test_a_changed_text_is_compiled_anew(folder: Path) -> None:
    program(folder)
    changed = MAIN.replace("x > 1", "x > 2")
    assert results(program(folder, changed)) == plain(folder, changed) != plain(folder)


def test_a_changed_included_file_is_compiled_anew(folder: Path) -> None:
    program(folder)
    (folder / "paths.dl").write_text(PATHS.replace("edge(b, c)", "edge(c, b)"), "utf-8")
    assert results(program(folder)) == plain(folder)


def test_an_included_file_that_is_gone_is_missed(folder: Path) -> None:
    program(folder)
    (folder / "paths.dl").unlink()
    with pytest.raises(SourceError, match=r"paths\.dl"):
        program(folder)


def test_a_file_that_now_comes_first_is_the_one_that_is_included(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)  # what is included is looked for beside the program first
    program(folder)
    (here / "paths.dl").write_text(PATHS.replace("edge(b, c)", "edge(c, b)"), "utf-8")
    expected = results(Program.from_source(MAIN, name="main", include_dirs=[folder]))
    assert results(program(folder)) == expected
    assert (1, 1) in expected["path"]


def test_other_options_are_another_program(folder: Path) -> None:
    program(folder)
    wide = {"defines": {"WIDE": "1"}}
    assert results(program(folder, **wide)) == plain(folder, **wide) != plain(folder)
    with pytest.raises(SourceError):
        program(folder, MAIN + "low(3000000000).", word_size=32)


def test_what_is_truncated_is_not_used(folder: Path) -> None:
    program(folder)
    whole = kept(folder)
    for length in (0, 10, 28, 36, 100, len(whole) // 2, len(whole) - 1):
        (folder / "kept" / "program").write_bytes(whole[:length])
        assert results(program(folder)) == plain(folder)
        assert kept(folder) == whole


def test_what_is_altered_is_not_used(folder: Path) -> None:
    program(folder)
    whole = kept(folder)
    for at in range(0, len(whole), 37):
        (folder / "kept" / "program").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        program(folder)
        assert kept(folder) == whole


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    (folder / "kept").write_text("a file", "utf-8")
    assert results(program(folder)) == plain(folder)


def test_a_wrong_program_is_not_kept(folder: Path) -> None:
    with pytest.raises(SourceError):
        program(folder, MAIN + "low(y) :- node(x).")
    assert not (folder / "kept").exists()
