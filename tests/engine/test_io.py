"""Facts in, relations out: formats, round trips, and errors with file, line and column."""

from __future__ import annotations

import gzip
import io
import os
import sqlite3
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import Branch, Program, SourceError

TYPES = """
.type Pair = [x: number, y: symbol]
.type List = [head: number, tail: List]
.type Tree = Leaf {v: number} | Node {l: Tree, r: Tree} | Empty {}
.type Colour = Red {} | Green {}
"""


def program(columns: str, parameters: str = "", output: str = "") -> Program:
    source = f"{TYPES}.decl r({columns})\n.decl s({columns})\n.input r({parameters})\n"
    names = ", ".join(c.split(":")[0] for c in columns.split(","))
    source += f"s({names}) :- r({names}).\n.output s({output})\n"
    return Program.from_source(source)


def read(
    tmp_path: Path, columns: str, text: str | bytes, parameters: str = "", file: str = "r.facts"
) -> list[tuple[object, ...]]:
    data = text.encode() if isinstance(text, str) else text
    (tmp_path / file).write_bytes(data)
    return program(columns, parameters).load(tmp_path).run().relation("s")


def test_every_type_is_read(tmp_path: Path) -> None:
    line = "-7\t18446744073709551615\t-1.5e3\ta b\t[1, two]\t[1, [2, nil]]\t$Node($Leaf(1), $Empty)\t$Green\n"
    columns = "a:number,b:unsigned,c:float,d:symbol,e:Pair,f:List,g:Tree,h:Colour"
    tree = Branch("Node", (Branch("Leaf", (1,)), Branch("Empty")))
    assert read(tmp_path, columns, line) == [
        (-7, 2**64 - 1, -1500.0, "a b", (1, "two"), (1, (2, None)), tree, Branch("Green"))
    ]


def test_columns_beyond_the_relation_and_windows_line_ends_are_ignored(tmp_path: Path) -> None:
    assert sorted(read(tmp_path, "a:number,b:symbol", "1\tx\tmore\r\n2\ty\r\n")) == [(1, "x"), (2, "y")]


def test_the_last_line_needs_no_newline(tmp_path: Path) -> None:
    assert sorted(read(tmp_path, "a:number", "1\n2")) == [(1,), (2,)]


def test_delimiters_headers_and_column_maps(tmp_path: Path) -> None:
    assert read(tmp_path, "a:number,b:symbol", "a;b\n1;x\n", 'delimiter=";", headers="true"') == [(1, "x")]
    assert read(tmp_path, "a:number,b:symbol", "1||x\n", 'delimiter="||"') == [(1, "x")]
    assert read(tmp_path, "a:number,b:symbol", "x\tskip\t1\n", 'columns="2:0"') == [(1, "x")]


def test_a_comma_inside_brackets_does_not_separate_columns(tmp_path: Path) -> None:
    assert read(tmp_path, "a:Pair,b:number", "[1, x],2\n", 'delimiter=","') == [((1, "x"), 2)]


def test_rfc4180(tmp_path: Path) -> None:
    text = '"say ""hi"", you",1\nplain,2\n"",3\n'
    assert sorted(read(tmp_path, "a:symbol,b:number", text, 'rfc4180="true"')) == [
        ("", 3),
        ("plain", 2),
        ('say "hi", you', 1),
    ]


def test_gzip_and_file_names(tmp_path: Path) -> None:
    assert read(tmp_path, "a:number", gzip.compress(b"5\n"), 'filename="x.gz"', "x.gz") == [(5,)]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"4\n")))
    assert program("a:number", 'IO="stdin"').load(tmp_path).run().relation("s") == [(4,)]


def test_sqlite_both_ways(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "in.db") as database:
        database.execute("CREATE TABLE r (a INTEGER, b TEXT)")
        database.executemany("INSERT INTO r VALUES (?, ?)", [(1, "x"), (2, "y")])
    built = program("a:number,b:symbol", 'IO="sqlite", dbname="in.db"', 'IO="sqlite", dbname="out.db"')
    built.load(tmp_path).run().write(tmp_path)
    with sqlite3.connect(tmp_path / "out.db") as database:
        assert sorted(database.execute("SELECT * FROM s")) == [(1, "x"), (2, "y")]


def test_relations_without_columns(tmp_path: Path) -> None:
    source = ".decl yes()\n.decl no()\n.decl out()\n.input yes\n.input no\nout() :- yes().\n.output out\n.output no\n"
    (tmp_path / "yes.facts").write_text("()\n")
    (tmp_path / "no.facts").write_text("")
    Program.from_source(source).load(tmp_path).run().write(tmp_path)
    assert ((tmp_path / "out.csv").read_text(), (tmp_path / "no.csv").read_text()) == ("()\n", "")


def test_a_table_of_another_name_in_a_database(tmp_path: Path) -> None:
    source = '.decl r(a:number)\n.{} r(IO="sqlite", filename="file:./one.db", name="t")\n'
    Program.from_source(source.format("output") + "r(3).").run().write(tmp_path)
    again = Program.from_source(source.format("input").replace("file:./", "")).load(tmp_path)
    assert again.run().relation("r") == [(3,)]


# ---- errors


@pytest.mark.parametrize(
    ("columns", "text", "line", "column", "message"),
    [
        ("a:number,b:symbol", "1\tx\nzwei\tx\n", 2, 1, 'expected a number, found "zwei"'),
        ("a:symbol,b:number", "x\t1\näö\t1x\n", 2, 4, 'expected a number, found "1x"'),
        ("a:number", "\n", 1, 1, 'expected a number, found ""'),
        ("a:unsigned", "-1\n", 1, 1, "expected an unsigned number"),
        ("a:float", "1.5\nx\n", 2, 1, "expected a float"),
        ("a:number", "99999999999999999999\n", 1, 1, "does not fit into 64 bits"),
        ("a:number,b:symbol,c:symbol", "1\tx\ty\n2\tx\n", 2, 4, "too few columns: relation r has 3, this line has 2"),
        ("a:Pair", "[1 x]\n", 1, 4, "expected ',', found 'x'"),
        ("a:Pair", "[1, x\n", 1, 6, "expected ']' before the end of the column"),
        ("a:Tree", "$Twig(1)\n", 1, 2, 'type Tree has no branch "Twig"'),
        ("a:Tree", "Leaf(1)\n", 1, 1, "expected a branch"),
        ("a:List", "[1, nil] x\n", 1, 10, "expected the end of the column"),
    ],
)
def test_bad_facts_are_told_with_their_place(
    tmp_path: Path, columns: str, text: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(SourceError) as caught:
        read(tmp_path, columns, text)
    (found,) = caught.value.diagnostics
    assert found.file == str(tmp_path / "r.facts")
    assert (found.line, found.column) == (line, column)
    assert message in found.message
    assert found.source_line == text.split("\n")[line - 1]


def test_facts_that_are_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        read(tmp_path, "a:symbol,b:symbol", b"x\ty\nab\tc\xffd\n")
    (found,) = caught.value.diagnostics
    assert (found.line, found.column, found.message) == (2, 5, "this is not UTF-8")


def test_numbers_beyond_the_word_size(tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_text("2147483648\n")
    source = ".decl r(a: number)\n.input r\n"
    assert Program.from_source(source).load(tmp_path).run().relation("r") == [(2**31,)]
    with pytest.raises(SourceError, match="32 bits"):
        Program.from_source(source, word_size=32).load(tmp_path)


def test_a_file_with_an_error_adds_no_row(tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_text("1\n2\nx\n")
    built = program("a:number")
    with pytest.raises(SourceError):
        built.load(tmp_path)
    assert built.run().relation("s") == []


def test_unbalanced_quotes(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="closing quote"):
        read(tmp_path, "a:symbol", '"abc\n', 'rfc4180="true"')
    with pytest.raises(SourceError, match="after a quoted field"):
        read(tmp_path, "a:symbol,b:symbol", '"abc"x,y\n', 'rfc4180="true"')


def test_a_missing_facts_file_is_an_error_unless_it_may_be_missing(tmp_path: Path) -> None:
    built = program("a:number")
    with pytest.raises(SourceError, match=r"r\.facts: error: cannot read the facts of relation r: No such file"):
        built.load(tmp_path)
    assert built.load(tmp_path, missing="empty").run().relation("s") == []


def test_a_missing_or_damaged_database_or_archive(tmp_path: Path) -> None:
    for parameters in ('IO="sqlite", dbname="no.db"', 'filename="no.gz"'):
        with pytest.raises(InputError, match="cannot read the facts of relation r"):
            program("a:number", parameters).load(tmp_path)
    (tmp_path / "bad.gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match="cannot read the facts of relation r"):
        program("a:number", 'filename="bad.gz"').load(tmp_path)


def test_unsupported_io_is_refused_by_name() -> None:
    with pytest.raises(InputError, match='unsupported IO="xml"'):
        program("a:number", 'IO="xml"')


def test_a_parameter_that_nothing_reads_is_warned_of() -> None:
    (warning,) = program("a:number", 'filemname="red.csv"').warnings
    assert warning.message == 'unknown IO parameter "filemname" of .input r does nothing'
    assert warning.hint == 'did you mean "filename"?'
    assert "<program>:8:8: warning: unknown" in warning.text


def test_an_output_folder_that_is_missing_or_not_writable(tmp_path: Path) -> None:
    built = program("a:number").insert("r", [(1,)]).run()
    with pytest.raises(InputError, match="does not exist"):
        built.write(tmp_path / "nowhere")
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(InputError, match="not writable"):
        built.write(locked)


def test_an_output_that_cannot_be_written_leaves_nothing_half(tmp_path: Path) -> None:
    built = program("a:number").insert("r", [(1,)]).run()
    (tmp_path / "s.csv").mkdir()  # a folder is where the file should go
    with pytest.raises(InputError, match=r"cannot write .*s\.csv"):
        built.write(tmp_path)
    assert os.listdir(tmp_path) == ["s.csv"]


# ---- output


def test_output_is_sorted_as_numbers_and_written_as_souffle_writes(tmp_path: Path) -> None:
    built = program("a:number,b:Tree").insert(
        "r", [(10, Branch("Empty")), (-2, Branch("Leaf", (3,))), (9, Branch("Empty"))]
    )
    built.run().write(tmp_path)
    assert (tmp_path / "s.csv").read_text() == "-2\t$Leaf(3)\n9\t$Empty\n10\t$Empty\n"


def test_unsigned_and_float_sort_by_value(tmp_path: Path) -> None:
    built = program("a:unsigned").insert("r", [(2**63,), (1,)])
    built.run().write(tmp_path)
    assert (tmp_path / "s.csv").read_text() == f"1\n{2**63}\n"
    built = program("a:float").insert("r", [(2.5,), (-1.0,), (-2.0,), (0.1,)])
    built.run().write(tmp_path)
    assert (tmp_path / "s.csv").read_text() == "-2\n-1\n0.10000000000000001\n2.5\n"


def test_many_rows_are_sorted(tmp_path: Path) -> None:
    rows = [((i * 7919) % 100_003 - 50_000, (i * 31) % 97) for i in range(100_003)]
    built = program("a:number,b:number").insert("r", rows)
    built.run().write(tmp_path)
    written = [tuple(map(int, line.split("\t"))) for line in (tmp_path / "s.csv").read_text().splitlines()]
    assert written == sorted(rows)


def test_output_parameters(tmp_path: Path) -> None:
    built = program("a:number,b:symbol", output='filename="x.txt", delimiter=";", headers="true"').insert(
        "r", [(1, "x")]
    )
    built.run().write(tmp_path)
    assert (tmp_path / "x.txt").read_text() == "a;b\n1;x\n"
    built = program("a:symbol", output='rfc4180="true"').insert("r", [('a "b"',)])
    built.run().write(tmp_path)
    assert (tmp_path / "s.csv").read_text() == '"a ""b"""\n'
    built = program("a:symbol", output='compress="true"').insert("r", [("x",)])
    built.run().write(tmp_path)
    assert gzip.decompress((tmp_path / "s.csv.gz").read_bytes()) == b"x\n"


def test_packed_facts_are_told_by_how_they_begin(tmp_path: Path) -> None:
    packed = gzip.compress(b"x\n")
    for data, rows in ((packed, [("x",)]), (packed[:10] + b"\xff" * 9, None)):
        (tmp_path / "r.facts").write_bytes(data)
        built = program("a:symbol")
        if rows is None:
            with pytest.raises(SourceError, match="this is not UTF-8"):
                built.load(tmp_path)
        else:
            assert built.load(tmp_path).run().relation("s") == rows


def test_quoted_fields_go_on_in_the_next_line(tmp_path: Path) -> None:
    (tmp_path / "r.facts").write_bytes(b'"a\r\nb","c"\n"d","e\n\n"\n')
    built = program("a:symbol,b:symbol", 'rfc4180="true"').load(tmp_path).run()
    assert built.relation("s") == [("a\r\nb", "c"), ("d", "e\n\n")]
    (tmp_path / "r.facts").write_bytes(b'"a\nb","c"\n"d"\n')
    with pytest.raises(SourceError, match=r"r.facts:3:4: error: too few columns"):
        program("a:symbol,b:symbol", 'rfc4180="true"').load(tmp_path)


def test_printing_frames_relations_and_counts() -> None:
    source = '.decl a(x: number)\na(2). a(1).\n.output a(IO="stdout", headers="true")\n.printsize a\n'
    out = io.BytesIO()
    Program.from_source(source).run().write(None, out=out)
    rule, end = "-" * 15, "=" * 15
    assert out.getvalue().decode() == f"{rule}\na\nx\n{end}\n1\n2\n{end}\na\t2\n"


# ---- round trips

_symbols = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), max_size=6)
_inner = st.text(st.characters(codec="utf-8", exclude_characters='\t\n\r,[]()"\\ '), min_size=1, max_size=4)
_trees = st.recursive(
    st.one_of(st.builds(lambda n: Branch("Leaf", (n,)), st.integers(-9, 9)), st.just(Branch("Empty"))),
    lambda t: st.builds(lambda a, b: Branch("Node", (a, b)), t, t),
    max_leaves=6,
)
_lists = st.recursive(st.none(), lambda rest: st.tuples(st.integers(-5, 5), rest), max_leaves=5)
_rows = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1),
    st.floats(allow_nan=False),
    _symbols,
    st.one_of(st.none(), st.tuples(st.integers(), _inner).filter(lambda p: -(2**63) <= p[0] < 2**63)),
    _lists,
    _trees,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sets(_rows, max_size=8))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: set[tuple[object, ...]]) -> None:
    folder = tmp_path_factory.mktemp("round")
    columns = "a:number,b:unsigned,c:float,d:symbol,e:Pair,f:List,g:Tree"
    built = program(columns, output='filename="r.facts"').insert("r", rows)
    built.run().write(folder)
    assert set(program(columns).load(folder).run().relation("s")) == set(built.relation("s")) == rows


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.binary(max_size=60),
    st.sampled_from(["a:number,b:symbol", "a:Pair,b:float", "a:Tree", "a:List,b:Colour", "a:unsigned"]),
    st.booleans(),
)
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, columns: str, rfc4180: bool
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "r.facts").write_bytes(data)
    built = program(columns, 'rfc4180="true"' if rfc4180 else "")
    try:
        built.load(folder)
    except SourceError as refused:
        (first, *_) = refused.diagnostics
        place = first.line
        rows = 0
    else:
        place, rows = 1, data.count(b"\n") + 1
    assert place >= 1
    assert built.run().size("s") <= rows
