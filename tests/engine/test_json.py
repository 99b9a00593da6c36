"""Relations as JSON files and on the standard streams."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Program

TYPES = ".type Pair = [x: number, y: Pair]\n.type Tree = Leaf {v: number} | Empty {}\n"


def program(columns: str, parameters: str = "", output: str = "") -> Program:
    names = ", ".join(c.split(":")[0] for c in columns.split(","))
    return Program.from_source(
        f"{TYPES}.decl r({columns})\n.decl s({columns})\n.input r(IO=jsonfile{parameters})\n"
        f"s({names}) :- r({names}).\n.output s(IO=jsonfile{output})\n"
    )


@pytest.mark.parametrize(
    ("columns", "given", "written", "form"),
    [
        ("a:number,b:symbol", '[[1, "x"]]', '[[1, "x"]]\n', ""),
        ("a:number,b:symbol", '[[2, "ä\\"\\n"]]', '[[2, "ä\\"\\n"]]\n', ""),
        ("a:number,b:symbol", '[{"b": "x", "a": 1}]', '[{"a": 1, "b": "x"}]\n', ", format=object"),
        ("a:float,b:unsigned", "[[2, 18446744073709551615], [0.1, 0]]", "[[2, 18446744073709551615],\n[0.1, 0]]\n", ""),
        ("a:Pair", "[[[1, [2, null]]], [null]]", "[[[1, [2, null]]],\n[null]]\n", ""),
        ("a:Pair", "[[[1, [2, null]]]]", '[{"a": {"x": 1, "y": {"x": 2, "y": null}}}]\n', ", format=object"),
        ("a:Pair", '[{"a": {"y": {"x": 2, "y": null}, "x": 1}}, {"a": null}]', "[[[1, [2, null]]],\n[null]]\n", ""),
        ("a:number", "[]", "[]\n", ""),
    ],
)
def test_both_ways(tmp_path: Path, columns: str, given: str, written: str, form: str) -> None:
    (tmp_path / "r.json").write_text(given)
    program(columns, output=form).load(tmp_path).run().write(tmp_path)
    assert (tmp_path / "s.json").read_text() == written


def test_standard_streams(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = ".decl a(x: number)\n.input a(IO=json)\n.output a(IO=json)\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[[4]]")))
    out = io.BytesIO()
    Program.from_source(source).load(tmp_path).run().write(tmp_path, out=out)
    assert out.getvalue() == b"[[4]]\n"


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ("a:number", "[[1", "cannot read the facts of relation r"),
        ("a:number", '{"a": 1}', "expected an array of arrays"),
        ("a:number", '[[1], {"a": 1}]', "expected an array of arrays"),
        ("a:number", "[[1, 2]]", "row 1 of relation r has other columns than a"),
        ("a:number", '[{"b": 2}]', "row 1 of relation r has other columns than a"),
        ("a:number", '[["x"]]', "a row of relation r"),
        ("a:number", "[[1.5]]", "a row of relation r"),
        ("a:unsigned", "[[-1]]", "a row of relation r"),
        ("a:Tree", "[[1]]", "column a has an adt type"),
        ("a:Pair", '[{"a": {"x": 1}}]', "a record of type Pair has other fields than x, y"),
        ("a:Pair", "[[[1, null, 2]]]", "a record of type Pair has other fields than x, y"),
    ],
)
def test_bad_rows(tmp_path: Path, columns: str, given: str, message: str) -> None:
    (tmp_path / "r.json").write_text(given)
    built = program(columns)
    with pytest.raises(InputError, match=message):
        built.load(tmp_path)
    assert built.size("r") == 0


def test_what_has_no_form_is_refused(tmp_path: Path) -> None:
    built = Program.from_source(f"{TYPES}.decl a(x: Tree)\na($Empty()).\n.output a(IO=jsonfile)\n").run()
    with pytest.raises(InputError, match="relation a cannot be in JSON"):
        built.write(tmp_path)
    assert not list(tmp_path.iterdir())
    built = Program.from_source(".decl a(x: number)\na(1).\n.output a(IO=jsonfile, format=lines)\n").run()
    with pytest.raises(InputError, match='unsupported format="lines"'):
        built.write(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        program("a:number").load(tmp_path)
    assert program("a:number").load(tmp_path, missing="empty").run().size("s") == 0
