"""Facts directories: writing, reading, and every way in which they can be wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.audit.pair import Pair as EmittedPair
from scalify_dl.errors import InputError
from scalify_dl.facts.files import load, write
from scalify_dl.facts.model import Facts
from scalify_dl.facts.schema import TABLES
from scalify_dl.facts.summary import summarise
from scalify_dl.facts.validate import validate
from scalify_dl.pairing.builder import Pair

ROOT = Path(__file__).parents[2]
symbols = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="¦\u2028\u2029"), min_size=1, max_size=8
)
numbers = st.integers(-(2**31) + 1, 2**31 - 1)


def small() -> Facts:
    pair = Pair("dp=2,tp=2", title="small")
    b = pair.base
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    d = pair.dist
    d.output(d.all_reduce(d.matmul(d.shard("x", {0: "dp", 1: "tp"}), d.shard("w", {0: "tp"})), "tp"))
    return pair.facts()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write(small(), tmp_path / "facts")
    return tmp_path / "facts"


def test_what_is_written_is_read_back(directory: Path) -> None:
    assert load(directory).tables == small().tables


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_rows_round_trip(tmp_path: Path, data: st.DataObject) -> None:
    facts = Facts()
    for name, table in TABLES.items():
        row = st.tuples(*(numbers if column.number else symbols for column in table.columns))
        facts.tables[name] = data.draw(st.lists(row, max_size=3))
    write(facts, tmp_path / "any")
    assert load(tmp_path / "any", validate=False).tables == facts.tables


def test_writing_replaces_old_tables_and_keeps_other_files(directory: Path) -> None:
    (directory / "README.md").write_text("mine")
    (directory / "layer.facts").write_text("dot\t1\n")
    write(small(), directory)
    assert (directory / "README.md").read_text() == "mine"
    assert (directory / "layer.facts").read_text() == ""


def test_nothing_is_written_where_an_error_occurs(tmp_path: Path) -> None:
    facts = small()
    facts.tables["layer"] = [("op", None)] * 3
    facts.tables["source"] = [("\ud800", 0, "", 0, "")]  # cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        write(facts, tmp_path / "facts")
    assert list(tmp_path.iterdir()) == []


def test_summary_names_what_matters(directory: Path) -> None:
    text = summarise(load(directory))
    for expected in (
        "dp=2, tp=2 (4 ranks)",
        "all-reduce 1",
        "x = x [0:1x4][1:1x8]|dp=0:4x2|tp=1:8x2 (given)",
        "outputs to check: 1",
    ):
        assert expected in text


def edited(directory: Path, table: str, change: Callable[[list[list[str]]], object]) -> InputError:
    """The error after the rows of a table were changed."""
    path = directory / f"{table}.facts"
    text = path.read_text() if path.exists() else ""
    rows = [line.split("\t") for line in text.splitlines()]
    change(rows)
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    with pytest.raises(InputError) as caught:
        load(directory)
    assert str(caught.value).startswith(f"{directory}/")
    return caught.value


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such facts directory"):
        load(tmp_path / "none")


def test_unknown_table(directory: Path) -> None:
    (directory / "opp.facts").write_text("")
    with pytest.raises(InputError, match=r"opp\.facts: unknown table `opp`"):
        load(directory)


def test_answers_of_a_solver_are_no_facts(directory: Path) -> None:
    (directory / "proved.facts").write_text("x\t0\t1\n")
    with pytest.raises(InputError, match=r"proved\.facts: table `proved` holds what a solver says"):
        load(directory)


def test_every_input_of_the_rules_has_a_file(directory: Path) -> None:
    """Stock Soufflé refuses to run without."""
    files = [ROOT / "datalog" / "verify.dl"]
    for file in files:  # it grows
        files += [ROOT / "datalog" / name for name in re.findall('^#include "(.+)"', file.read_text("utf-8"), re.M)]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    inputs = re.findall(r'^\.input (\w+)(?:\(filename="([^"]+)"\))?', text, re.MULTILINE)
    assert len(inputs) > 20
    for name, file in inputs:
        assert (directory / (file or f"{name}.facts")).exists(), name


def test_reserved_table(directory: Path) -> None:
    (directory / "send.facts").write_text("")
    with pytest.raises(InputError, match="reserved"):
        load(directory)


@pytest.mark.parametrize("table", [name for name, table in TABLES.items() if table.required])
def test_missing_table(directory: Path, table: str) -> None:
    (directory / f"{table}.facts").unlink()
    with pytest.raises(InputError, match=rf"{table}\.facts: missing table `{table}`"):
        load(directory)


def test_wrong_column_count_names_line_and_columns(directory: Path) -> None:
    error = edited(directory, "operand", lambda rows: rows[2].append("more"))
    assert error.line == 3
    assert "4 columns" in error.message
    assert "op:symbol, pos:number, tensor:symbol" in (error.expected or "")


ODD = ["x", "", "1.5", "2147483648", "-2147483648", "+8", "08", "8 ", " 8", "-0", "1_0", "٣"]


@pytest.mark.parametrize("value", ODD)
def test_non_numbers_name_line_and_column(directory: Path, value: str) -> None:
    error = edited(directory, "dim", lambda rows: rows[1].__setitem__(2, value))
    assert (error.line, error.column) == (2, 3)
    assert "2^31" in (error.expected or "")


def test_a_last_line_without_its_end_is_a_line(directory: Path) -> None:
    facts = load(directory)
    path = directory / "dim.facts"
    path.write_text(path.read_text().removesuffix("\n"))
    assert load(directory)["dim"] == facts["dim"]


@pytest.mark.parametrize("character", ["\r", "\x00", "\x1b", "\x7f"])
def test_control_characters_are_refused_with_their_place(directory: Path, character: str) -> None:
    error = edited(directory, "result", lambda rows: rows[1].__setitem__(2, f"y{character}z"))
    assert (error.line, error.column) == (2, 3)
    assert "control characters" in error.message


def test_windows_line_ends_are_refused(directory: Path) -> None:
    path = directory / "op.facts"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(InputError, match=r"op\.facts:1:3: .*control characters"):
        load(directory)


@pytest.mark.parametrize("table", ["op", "proved", "send", "other"])
def test_what_is_no_file_is_no_table(directory: Path, table: str) -> None:
    path = directory / f"{table}.facts"
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(InputError, match=rf"{table}\.facts: this is no file"):
        load(directory)
    path.rmdir()
    path.symlink_to(directory / "nowhere")
    with pytest.raises(InputError, match=rf"{table}\.facts: this is no file"):
        load(directory)


def test_not_utf8(directory: Path) -> None:
    (directory / "op.facts").write_bytes(b"a\tbase\tdot\n\xff\xfe\n")
    with pytest.raises(InputError, match=r"op\.facts:2: not UTF-8"):
        load(directory)


BROKEN: dict[str, tuple[str, Callable[[list[list[str]]], object], str]] = {
    "duplicate key": ("op", lambda rows: rows.append(list(rows[0])), "duplicate key"),
    "dangling operand": ("operand", lambda rows: rows[0].__setitem__(2, "nowhere"), "`nowhere` is no tensor"),
    "dangling op": ("attr_number", lambda rows: rows[0].__setitem__(0, "nop"), "`nop` is no op"),
    "dangling graph": ("op", lambda rows: rows[0].__setitem__(1, "g"), "`g` is no graph"),
    "dangling axis": ("rank_coord", lambda rows: rows[0].__setitem__(1, "pp"), "`pp` is no mesh_axis"),
    "schema version": ("meta", lambda rows: rows[0].__setitem__(1, "9"), "schema version `9`"),
    "axis size": ("mesh_axis", lambda rows: rows[0].__setitem__(2, "4"), "the axes make 8"),
    "axis order": ("mesh_axis", lambda rows: rows[1].__setitem__(1, "5"), "axis `tp` has pos 5"),
    "coordinate": ("rank_coord", lambda rows: rows[0].__setitem__(2, "7"), "coordinate 7 on axis `dp`"),
    "two ranks at one place": ("rank_coord", lambda rows: rows[1].__setitem__(2, "1"), "share a place"),
    "role": ("graph", lambda rows: rows[0].__setitem__(1, "both"), "role `both`"),
    "two baselines": ("graph", lambda rows: rows[1].__setitem__(1, "base"), "no single baseline"),
    "op kind": ("op", lambda rows: rows[0].__setitem__(2, "frobnicate"), "unknown op kind `frobnicate`"),
    "dtype": ("tensor", lambda rows: rows[0].__setitem__(2, "float"), "dtype `float`"),
    "rank": ("tensor", lambda rows: rows[0].__setitem__(3, "3"), "has rank 3"),
    "negative size": ("dim", lambda rows: rows[0].__setitem__(2, "-1"), "size -1"),
    "gap in operands": ("operand", lambda rows: rows[1].__setitem__(1, "2"), "have gaps"),
    "tensor without origin": ("result", lambda rows: rows.pop(0), "has no origin"),
    "layout text": ("shard", lambda rows: rows[0].__setitem__(4, "[0:1x4"), "is not a list of"),
    "layout of another mesh": ("shard", lambda rows: rows[0].__setitem__(4, "[0:1x4][1:1x8]|tp=r2"), "other axes"),
    "layout of the wrong axis size": (
        "shard", lambda rows: rows[0].__setitem__(4, "[0:1x4][1:1x8]|dp=0:4x2|tp=r4"), "multiply to 4",
    ),
    "layout not canonical": (
        "shard", lambda rows: rows[0].__setitem__(4, "[0:1x4][1:2x4,1:1x2]|dp=0:4x2|tp=1:8x2"), "is not canonical",
    ),
    "layout with two kinds of reductions": (
        "shard", lambda rows: rows[0].__setitem__(4, "[0:1x8][1:1x16]|dp=max2|tp=sum2"), "several kinds of pending",
    ),
    "layout against the local shape": (
        "shard", lambda rows: rows[0].__setitem__(4, "[0:1x8][1:1x8]|dp=r2|tp=1:8x2"), "makes [8, 8] on every rank",
    ),
    "layout against the baseline": (
        "shard", lambda rows: rows[0].__setitem__(4, "[0:1x4][1:1x8]|dp=r2|tp=1:8x2"), "does not fit the baseline",
    ),
    "piece": ("shard", lambda rows: rows[0].__setitem__(1, "0:0:99"), "does not fit shape"),
    "why": ("shard", lambda rows: rows[0].__setitem__(5, "gven"), "did you mean `given`?"),
    "base and dist swapped": (
        "shard", lambda rows: rows.__setitem__(0, [rows[0][2], "", rows[0][0], "", *rows[0][4:]]), "swapped",
    ),
    "no output to check": ("expect", lambda rows: rows.clear(), "no output is to be checked"),
    "rank outside of the mesh": ("group", lambda rows: rows[0].__setitem__(3, "9"), "rank 9 is not on the mesh"),
    "groups without a rank": ("group", lambda rows: rows.pop(), "hold the ranks [0, 1, 2]"),
    "groups of another op": (
        "group", lambda rows: [row.__setitem__(0, "dot") for row in rows], "no collective with groups",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_facts_are_refused_with_their_place(directory: Path, case: str) -> None:
    table, change, message = BROKEN[case]
    error = edited(directory, table, change)
    assert message in str(error)


def test_cycles_are_refused(directory: Path) -> None:
    facts = load(directory)
    last = next(row[2] for row in facts["result"] if row[0] == "all-reduce")
    error = edited(directory, "operand", lambda rows: [row.__setitem__(2, last) for row in rows if row[0] == "dot"])
    assert "depends on itself" in error.message


def test_shipped_sets_are_valid_and_say_what_they_are() -> None:
    sets = [path for path in (ROOT / "facts").iterdir() if path.is_dir()]
    assert len(sets) >= 6
    for path in sets:
        load(path)
        assert "Expected verdict" in (path / "README.md").read_text()


def test_documentation_lists_every_table_with_its_columns() -> None:
    lines = (ROOT / "docs" / "facts.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("|")[1].split("`")[1]: line.split("|")[2] for line in lines if line.startswith("| `")}
    for name, table in TABLES.items():
        documented = [word.split(":")[0].strip() for word in rows[name].split(",")]
        assert documented == [column.name for column in table.columns], name


def test_a_rank_that_sends_twice_is_refused() -> None:
    pair = EmittedPair({"tp": 4})
    x, dx = pair.input((8,), {0: "tp"})
    pair.outputs(x, pair.dist.emit("collective-permute", [dx], pairs=[(0, 1), (0, 2)]))
    with pytest.raises(InputError, match="rank 0 is twice a source"):
        validate(Facts(pair.tables()))


def test_a_gather_in_an_unknown_mode_is_refused() -> None:
    pair = EmittedPair({"tp": 2})
    (x, dx), (ids, di) = pair.input((8, 2)), pair.input((4,), dtype="s32", range=(0, 7))
    attributes = {
        "offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1, 2],
        "index_vector_dim": 1, "mode": "nearest",
    }  # fmt: skip
    pair.outputs(*(g.emit("gather", [t, i], **attributes) for g, t, i in ((pair.base, x, ids), (pair.dist, dx, di))))
    with pytest.raises(InputError, match="mode `nearest`"):
        validate(Facts(pair.tables()))
