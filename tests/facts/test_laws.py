"""Facts that describe no program are refused: shapes, attributes, constants, groups, loops, premises of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.files import load, write
from scalify_dl.facts.model import Facts, Row
from scalify_dl.facts.validate import validate
from scalify_dl.ir.graph import Graph
from scalify_dl.pairing.builder import Pair


def program() -> Facts:
    """Slices, transposes, reductions, constants, a collective: one of each, on two ranks."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    x, dx = b.input("x", (4, 8)), d.shard("x", {0: "tp"})
    i, di = b.input("i", (4,), "s32"), d.shard("i", {0: "tp"})
    for p, v, n in ((b, x, i), (d, dx, di)):
        y = p.transpose(p.slice(v, 1, 0, 4), 1, 0)
        y = p.add(y, p.constant(0.5, "f32", y.shape))
        p.output(
            p.multiply(p.compare(n, p.constant(3, "s32", n.shape), direction="LT"), p.compare(n, 1, direction="GT"))
        )
        p.output(p.exponential(y))
    d.output(d.all_reduce(d.reduce(dx, [0], "sum"), "tp"))
    b.output(b.reduce(x, [0], "sum"))
    d.all_gather(dx, "tp", 0)
    return pair.facts()


def looping(trip_count: int | None = None) -> Facts:
    """Two loops one after the other, on both sides."""
    pair = Pair("tp=2")
    for p, x in ((pair.base, pair.base.input("x", (4,))), (pair.dist, pair.dist.shard("x"))):
        for _ in range(2):
            n = p.constant(0, "s32")
            condition = p.region("cond", [n, x], lambda q, i, v: q.compare(i, 3, direction="LT"))
            body = p.region("body", [n, x], lambda q, i, v: [q.add(i, 1), q.exponential(v)])
            types = [("s32", ()), ("f32", (4,))]
            said = {} if trip_count is None else {"trip_count": trip_count}
            x = p.op("while", n, x, types=types, regions=[condition, body], attributes=said).results[1]
        p.output(x)
    return pair.facts()


Change = Callable[[list[Row]], object]


def put(column: int, value: object, row: int = 0, where: object = None) -> Change:
    """Sets one cell; with `where` that of the row that has this value."""

    def change(rows: list[Row]) -> None:
        at = row if where is None else next(n for n, r in enumerate(rows) if where in r)
        rows[at] = (*rows[at][:column], value, *rows[at][column + 1 :])

    return change


def drop(*values: object) -> Change:
    """Drops the rows that have all of these values."""

    def change(rows: list[Row]) -> None:
        rows[:] = [row for row in rows if not set(values) <= set(row)]

    return change


def more(*rows: Row) -> Change:
    """Adds rows."""
    return lambda found: found.extend(rows)


WRONG: dict[str, tuple[str, Change, str]] = {
    "result of another shape": ("dim", put(2, 3, where="slice"), r"op\.facts:\d+:1: .*`slice` \(slice\) has results"),
    "result of another type": ("tensor", put(2, "s32", where="exponential"), "has results s32"),
    "a slice beyond its operand": ("attr_number", put(3, 9, where="limit"), "outside of a dim"),
    "a slice without limits": ("attr_number", drop("limit", "slice"), "slice bounds"),
    "a transpose without dimensions": ("attr_number", drop("dimensions", "transpose"), "do not permute"),
    "a transpose by no permutation": ("attr_number", put(3, 0, where="transpose"), "not distinct dims"),
    "numbers behind a gap": ("attr_number", put(2, 2, row=-1), "has position"),
    "numbers before the first": ("attr_number", put(2, -1, row=-1), "has position"),
    "a number that is a text, too": ("attr_symbol", more(("slice", "start", 0, "0")), "both a number and a text"),
    "a number by rank where ranks do not differ": (
        "rank_number", more(("transpose", "dimensions", 2, 0, 0), ("transpose", "dimensions", 2, 1, 1)),
        "`dimensions` depends on the rank",
    ),
    "a number on some ranks": ("rank_number", more(("slice", "start", 0, 0, 0)), "has position|numbers on the ranks"),
    "no direction": ("attr_symbol", drop("direction", "compare"), "has the direction"),
    "an unknown direction": ("attr_symbol", put(3, "XX", where="direction"), "has the direction"),
    "no reducer": ("attr_symbol", drop("reducer", "all-reduce"), "has the reducer"),
    "an operand too many": ("operand", more(("exponential", 1, "add")), "has 2 operands"),
    "operands of two types": ("tensor", put(2, "bf16", where="broadcast"), "has results|takes operands of one element"),
    "the bits of reals": ("op", put(2, "and", where="add"), "combines the bits"),
    "a region where none is read": ("region", more(("exponential", 0, "dist")), "no single baseline"),
    "pairs of what is no permutation": ("permute_pair", more(("all-reduce", 0, 1)), "is no collective-permute"),
    "an input that is elided": ("shard", put(5, "elided"), "is placed because of `elided`"),
    "a check of what is no output": ("expect", put(0, "slice"), "`slice` is no output"),
    "groups from position 1": ("group", put(2, 2), "not numbered from 0"),
    "groups before position 0": ("group", put(2, -1), "not numbered from 0"),
    "groups numbered from 1": ("group", lambda rows: rows.__setitem__(slice(None), [
        (o, g + 1, p, r) for o, g, p, r in rows]), "not numbered from 0"),
    "a ratio that is not the text": ("literal_rational", put(1, 3), "here and `"),
    "a ratio over 0": ("literal_rational", put(2, 0), r"literal_rational\.facts:1:3"),
    "a ratio not in lowest terms": ("literal_rational", lambda rows: rows.__setitem__(0, (
        rows[0][0], 2 * rows[0][1], 2 * rows[0][2])), "lowest terms"),
    "a text that is no number": ("literal", put(1, "half"), "is no value of"),
    "a text that the type does not hold": ("literal", put(1, "4294967299", where="3"), "is no value of s32"),
    "a text that the type makes infinite": ("literal", put(1, "1e39", where="0.5"), "is no value of f32"),
    "a text that is beyond all types": ("literal", put(1, "1e999999999", where="0.5"), "is no value of f32"),
    "a text without end": ("literal", put(1, "9" * 5000, where="0.5"), "is no value of f32"),
    "a text in other digits": ("literal", put(1, "\u0663", where="3"), "is no value of s32"),
    "a ratio in a text that is not in lowest terms": ("literal", put(1, "2/4", where="0.5"), "is no value of f32"),
    "a scale beyond all numbers": ("shard", put(4, "[0:1x2][1:1x8]|tp=0:2x2 *1e999999999"), "is not a scale"),
    "a scale of large numbers": ("shard", put(4, "[0:1x2][1:1x8]|tp=0:2x2 *9999999999/1"), "is not a scale"),
    "a piece in other digits": ("shard", put(1, "0:0:\u0662"), "is no window"),
    "a piece in other words": ("shard", put(1, "0:00:2"), "is no window"),
    "a byte order mark": ("op", put(0, "\ufeffbase/slice"), "byte order mark"),
    "a group with a rank that runs nothing": ("runs", more(("dist", 0)), "waits for rank 1, which runs no program"),
    "a hash beside a text": ("literal_hash", lambda rows: rows.append((CONSTANT, "ab")), "has a hash and the text"),
    "items that are not the text": ("literal_item", put(2, 4, where=3), "other items than its text"),
    "items that lack one": ("literal_item", lambda rows: rows.remove(next(r for r in rows if r[1] == 1)), "items of"),
    "the value of what is computed": ("literal", more(("slice", "1")), "`slice` is no constant"),
    "a premise about what is computed": (
        "shard", more(("exponential", "", "base/exponential", "", "[0:1x4][1:1x2]|tp=1:2x2", "given")), "is computed",
    ),
    "a premise about a known constant": (
        "shard",
        lambda rows: rows.append((CONSTANT, "", f"base/{CONSTANT}", "", "[0:1x4][1:1x2]|tp=1:2x2", "given")),
        "is computed",
    ),
    "a program on no rank": ("runs", more(("base", 0)), "distributed programs"),
    "an axis that layouts cannot name": ("mesh_axis", put(0, "t p"), "axis `t p`|is no mesh_axis"),
}  # fmt: skip
CONSTANT = "constant"


def refused(facts: Facts, directory: Path, message: str) -> InputError:
    """The error on loading."""
    write(facts, directory)
    with pytest.raises(InputError, match=message) as caught:
        load(directory)
    assert caught.value.file
    assert caught.value.line
    return caught.value


def test_the_programs_are_valid(tmp_path: Path) -> None:
    for n, facts in enumerate((program(), looping())):
        write(facts, tmp_path / str(n))
        assert load(tmp_path / str(n)).tables == facts.tables


@pytest.mark.parametrize("case", WRONG)
def test_facts_that_describe_no_program_are_refused_with_their_place(tmp_path: Path, case: str) -> None:
    table, change, message = WRONG[case]
    facts = program()
    change(facts.tables[table])
    refused(facts, tmp_path / "facts", message)


def test_loops_that_share_a_body_are_refused(tmp_path: Path) -> None:
    facts = looping()
    (op, _, body), (other, _, _) = (row for row in facts["region"] if row[1] == 1 and not row[0].startswith("base/"))
    facts.tables["region"] = [(o, p, body if (o, p) == (other, 1) else g) for o, p, g in facts["region"]]
    refused(facts, tmp_path / "facts", f"is a region of `{op}` and of `{other}`")


@pytest.mark.parametrize(
    ("graph", "message"),
    [("body", "gives back other types"), ("cond", "no single truth value")],
)
def test_loops_hand_on_what_they_are_given(tmp_path: Path, graph: str, message: str) -> None:
    facts = looping()
    at = next(n for n, row in enumerate(facts["output"]) if graph in row[0])
    mine = facts["output"][at][0]
    other = next(row[2] for row in facts["input"] if row[0] == mine and row[1] == 1)
    facts.tables["output"][at] = (mine, 0, other)
    refused(facts, tmp_path / "facts", message)


@pytest.mark.parametrize(("count", "fits"), [(3, True), (2, False), (4, False), (0, False)])
def test_a_trip_count_agrees_with_its_condition(tmp_path: Path, count: int, fits: bool) -> None:
    facts = looping(trip_count=count)
    if fits:
        write(facts, tmp_path / "facts")
        assert load(tmp_path / "facts").tables == facts.tables
    else:
        refused(facts, tmp_path / "facts", f"the trip_count {count}, which its condition contradicts")


def counting(step: int, last: int, dtype: str, squared: bool = False) -> Facts:
    """A loop that says it runs three times, on both sides."""
    pair = Pair("tp=2")
    for p, x in ((pair.base, pair.base.input("x", (4,))), (pair.dist, pair.dist.shard("x"))):
        n = p.constant(0, dtype)
        regions = [
            p.region(
                "cond", [n, x], lambda q, i, v: q.compare(q.multiply(i, i) if squared else i, last, direction="LT")
            ),
            p.region("body", [n, x], lambda q, i, v: [q.add(i, step), q.exponential(v)]),
        ]
        types = [(dtype, ()), ("f32", (4,))]
        p.output(p.op("while", n, x, types=types, regions=regions, attributes={"trip_count": 3}).results[1])
    return pair.facts()


def test_a_counter_that_wraps_round_counts_nothing(tmp_path: Path) -> None:
    """0, 100, 200, 44: the fourth is below 250 again."""
    refused(counting(100, 250, "u8"), tmp_path / "facts", "the trip_count 3, which its condition contradicts")
    write(counting(100, 250, "u16"), tmp_path / "right")
    load(tmp_path / "right")


def test_a_trip_count_that_nobody_can_count_is_an_assumption_or_refused(tmp_path: Path) -> None:
    facts = counting(1, 9, "s32", squared=True)
    refused(facts, tmp_path / "facts", "the trip_count 3, and a condition that cannot be counted")
    loops = [t for o, p, t in facts["result"] if (p, "while" in o) == (0, True)]
    facts.tables["assume"] += [(t, "the loop runs 4 times", "given") for t in loops]
    refused(facts, tmp_path / "other", "the trip_count 3, and a condition that cannot be counted")
    facts.tables["assume"] += [(t, "the loop runs 3 times", "given") for t in loops]
    write(facts, tmp_path / "stated")
    load(tmp_path / "stated")


@pytest.mark.parametrize(
    ("key", "position", "value"),
    [("window_stride", 2, 1), ("kernel_output_feature", 0, 1), ("output_batch", 0, 9), ("window_size", 0, 2)],
)
def test_windows_and_labels_fit(tmp_path: Path, key: str, position: int, value: int) -> None:
    pair = Pair("tp=2")
    spatial = {"input_spatial": [2, 3], "kernel_spatial": [2, 3], "output_spatial": [2, 3]}
    labels = {
        "input_batch": 0, "input_feature": 1, "kernel_output_feature": 0, "kernel_input_feature": 1,
        "output_batch": 0, "output_feature": 1,
    }  # fmt: skip
    for p, x, w in (
        (pair.base, pair.base.input("x", (4, 2, 5, 5)), pair.base.input("w", (3, 2, 3, 3))),
        (pair.dist, pair.dist.shard("x", {0: "tp"}), pair.dist.shard("w")),
    ):
        window = {"window_stride": [1, 1], "window_size": [3, 3]}
        p.output(p.op("convolution", x, w, attributes={**labels, **spatial, **window}).result)
    facts = pair.facts()
    write(facts, tmp_path / "right")
    load(tmp_path / "right")
    kept = [row for row in facts["attr_number"] if row[:3] != ("convolution", key, position)]
    facts.tables["attr_number"] = [*kept, ("convolution", key, position, value)]
    refused(facts, tmp_path / "wrong", "convolution")


def test_huge_numbers_are_refused_at_once(tmp_path: Path) -> None:
    for table, column in (("mesh_axis", 2), ("tensor", 3), ("graph", 0)):
        facts = program()
        put(column, 2**31 - 1 if column else "other")(facts.tables[table])
        refused(facts, tmp_path / table, ".")


def test_branches_fit_their_op(tmp_path: Path) -> None:
    facts = looping()
    facts.tables["op"] = [(o, g, "conditional" if o == "while" else k) for o, g, k in facts["op"]]
    refused(facts, tmp_path / "facts", "branches that give other types")
    loops = {o for o, _, k in facts["op"] if k == "conditional"}
    facts.tables["operand"] = [row for row in facts["operand"] if row[0] not in loops]
    refused(facts, tmp_path / "none", "no scalar index")


def test_a_program_without_ops_is_one(tmp_path: Path) -> None:
    pair = Pair("tp=2")
    pair.base.output(pair.base.input("x", (4,)))
    pair.dist.output(pair.dist.shard("x", {0: "tp"}))
    write(pair.facts(), tmp_path / "facts")
    assert load(tmp_path / "facts")["op"] == []


def called(kind: str, results: list[tuple[str, tuple[int, ...]]], operands: int = 1, **attributes: object) -> Facts:
    """One op of a kind on both sides."""
    pair = Pair("tp=2")
    for p, x in ((pair.base, pair.base.input("x", (2, 4, 8))), (pair.dist, pair.dist.shard("x"))):
        p.output(p.op(kind, *[x] * operands, types=results, attributes=attributes).results[0])
    return pair.facts()


X = ("f32", (2, 4, 8))


@pytest.mark.parametrize(
    ("right", "table", "column", "value", "message"),
    [
        (called("attention", [X], 3, scale="0.5", causal=0), "attr_symbol", 3, "half", "has the scale `half`"),
        (called("attention", [X], 3, scale="0.5", causal=0), "attr_symbol", 1, "scales", r"has the scale \[\]"),
        (called("attention", [X], 3, scale="0.5", causal=1), "attr_number", 3, 2, r"has causal \[2\]"),
        (called("dropout-mask", [("pred", X[1])], probability="0.1"), "attr_symbol", 3, "p", "has the probability `p`"),
        (called("cumulative", [X], dimension=1, reducer="sum", reverse=1), "attr_number", 3, 7, "reverse|no dim of"),
        (called("bitcast-convert", [("s32", X[1])], **{"from": "f32"}), "attr_symbol", 3, "u32", "reads the bits of"),
        (
            called("bitcast-convert", [("s32", X[1])], **{"from": "f32"}),
            "tensor",
            2,
            "s16",
            "reads the bits of|has res",
        ),
        (called("top-k", [("f32", (2, 4, 3)), ("s32", (2, 4, 3))], k=3), "tensor", 2, "f32", "counts in f32|has res"),
        (called("reduce", [("s32", (2, 4))], dimensions=[2], reducer="argmax"), "tensor", 2, "f32", "counts in f32"),
    ],
)
def test_attributes_say_what_the_kind_can_do(
    tmp_path: Path, right: Facts, table: str, column: int, value: object, message: str
) -> None:
    write(right, tmp_path / "right")
    load(tmp_path / "right")
    changed = {"tensor": {"s32"}}.get(table, set())
    rows = [(*row[:column], value, *row[column + 1 :]) if changed <= set(row) else row for row in right[table]]
    facts = Facts({**right.tables, table: rows})
    refused(facts, tmp_path / "wrong", message)


def test_padding_between_elements_takes_none_away(tmp_path: Path) -> None:
    pair = Pair("tp=2")
    for p, x in ((pair.base, pair.base.input("x", (4,))), (pair.dist, pair.dist.shard("x"))):
        p.output(p.op("pad", x, p.constant(0.0), low=[0], high=[0], interior=[1]).result)
    facts = pair.facts()
    facts.tables["attr_number"] = [(*row[:3], -1) if row[1] == "interior" else row for row in facts["attr_number"]]
    facts.tables["dim"] = [(*row[:2], 1) if "pad" in row[0] else row for row in facts["dim"]]
    refused(facts, tmp_path / "facts", "below zero")


def test_what_a_front_end_writes_is_held_to_the_same_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scalify_dl.pairing import export

    text = "HloModule m\n\nENTRY %e (x: f32[4,8]) -> f32[4,8] {\n  ROOT %x = f32[4,8] parameter(0)\n}\n"
    for name in ("base", "dist"):
        (tmp_path / f"{name}.hlo").write_text(text)
    files = tmp_path / "base.hlo", tmp_path / "dist.hlo", "tp=2"
    export.export(*files)
    made = [("f32", (2, 4, 9)), ("s32", (2, 4, 9))]
    monkeypatch.setattr(export, "tables", lambda *rest, **more: called("top-k", made, k=9))
    with pytest.raises(InputError, match="no top 9 of"):
        export.export(*files)


def test_an_index_reduction_is_along_one_dim() -> None:
    graph = Graph()
    x = graph.input("x", "f32", (4, 3, 2))
    with pytest.raises(InputError, match="along one dim"):
        graph.emit("reduce", [x], dimensions=[0, 1], reducer="argmax")


def test_dims_may_have_rows_in_any_order() -> None:
    pair = Pair("tp=2")
    pair.base.output(pair.base.tanh(pair.base.input("x", (4, 6))))
    pair.dist.output(pair.dist.tanh(pair.dist.shard("x", {0: "tp"})))
    facts = pair.facts()
    validate(facts)
    facts.tables["dim"].reverse()
    validate(facts)
    facts.tables["dim"] = [(t, 2 * position, size) for t, position, size in facts["dim"]]
    with pytest.raises(InputError, match="has rank 2 and dims"):
        validate(facts)


@pytest.mark.parametrize(
    "changed",
    [{"scatter_dims_to_operand_dims": [2]}, {"scatter_dims_to_operand_dims": [0, 1]}, {"input_batching_dims": [1]},
     {"scatter_indices_batching_dims": [0]}, {"input_batching_dims": [0], "scatter_indices_batching_dims": [0]}],
)  # fmt: skip
def test_dims_of_a_scatter_are_those_of_its_operands(changed: dict[str, list[int]]) -> None:
    graph = Graph("base")
    x, i, u = graph.input("x", "f32", (5, 8)), graph.input("i", "s32", (4, 1)), graph.input("u", "f32", (4, 8))
    dims = {"update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
            "input_batching_dims": [], "scatter_indices_batching_dims": []}  # fmt: skip
    graph.emit("scatter", [x, i, u], index_vector_dim=1, reducer="sum", **dims)
    with pytest.raises(InputError):
        graph.emit("scatter", [x, i, u], index_vector_dim=1, reducer="sum", **(dims | changed))
