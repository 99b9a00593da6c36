"""Shrinking keeps the factor structure, is exact about offsets, and bugs survive it."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz import random_pair
from scalify_dl.audit.pair import Pair, matmul
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import find_counterexample, load_program, relations, run_trial, shrink
from scalify_dl.oracle.shrink.constraints import RULES, Shapes
from scalify_dl.oracle.shrink.extents import Conflict, Extents, grain
from scalify_dl.pairing import builder as facts_of

from .small import program, row_parallel


def cut(g: Graph, x: Tensor, dim: int, lo: int, hi: int) -> Tensor:
    start, limit = [0] * len(x.shape), list(x.shape)
    start[dim], limit[dim] = lo, hi
    return g.emit("slice", [x], start=start, limit=limit, stride=[1] * len(x.shape))


def fused(q: int, kv: int, head: int, key: tuple[int, int] | None = None) -> Pair:
    """x · [q|k|v] in one matrix, heads split over tp=2; `key` overrides where the distributed side takes the keys."""
    from scalify_dl.ir.layout import Layout

    pair = Pair({"tp": 2})
    x, dx = pair.input((8, 64))
    parts = [(q, 0), (kv, q), (kv, q + kv)]
    whole = q + 2 * kv
    w = pair.base.input("w", "f32", (64, whole))
    dw = pair.dist.input("w", "f32", (64, whole // 2))
    tables_rows = []
    for size, at in parts:
        layout = Layout.parse(f"[0:1x64][1:1x{size // 2}]|tp=1:{size // 2}x2")
        tables_rows.append((dw, f"1:{at // 2}:{(at + size) // 2}", w, f"1:{at}:{at + size}", str(layout)))
    pair._pieces = tables_rows  # type: ignore[attr-defined]
    results = []
    for g, y, scale in ((pair.base, matmul(pair.base, x, w), 1), (pair.dist, matmul(pair.dist, dx, dw), 2)):
        spans = [(at // scale, (at + size) // scale) for size, at in parts]
        if key and g is pair.dist:
            spans[1] = key
        heads = [
            g.emit("reshape", [cut(g, y, 1, *span)], shape=(8, (span[1] - span[0]) // head, head)) for span in spans
        ]
        scores = g.emit("multiply", [heads[1], heads[2]])
        results.append(g.emit("reduce", [scores], dimensions=[2], reducer="sum"))
    pair.outputs(*results)
    return pair


def fused_program(key: tuple[int, int] | None = None):  # type: ignore[no-untyped-def]
    pair = fused(2048, 512, 64, key)
    tables = pair.tables()
    rows = [("w", piece, "base/w", base_piece, layout, "given") for _, piece, _, base_piece, layout in pair._pieces]  # type: ignore[attr-defined]
    tables["shard"] += rows
    return load_program(tables)


def test_a_fused_weight_keeps_its_blocks_and_offsets() -> None:
    small = shrink(fused_program()).program
    starts = [op.numbers["start"][1] for op in small.top("dist")[0].ops if op.kind == "slice"]
    block = starts[1] // 4  # q is four times as wide as k and v
    assert starts == [0, 4 * block, 5 * block]
    assert run_trial(small, 1, "reals").distributed


def test_a_fused_weight_agrees_and_a_wrong_key_slice_is_found_at_small_sizes() -> None:
    good, bad = shrink(fused_program()).program, shrink(fused_program((0, 256))).program
    assert find_counterexample(good).status == "agrees"
    assert find_counterexample(bad).status == "refuted"


@given(st.integers(0, 1024))
@settings(max_examples=40, deadline=None)
def test_any_other_offset_of_the_keys_is_found(start: int) -> None:
    search = find_counterexample(shrink(fused_program((start, start + 256))).program)
    assert search.status == ("agrees" if start == 1024 else "refuted")


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_contraction_shrinks_to_two_elements_per_rank(ranks: int) -> None:
    small = shrink(program(row_parallel(ranks, inner=96 * ranks))).program
    assert small.tensors["x0"].shape == (2, 2)
    assert small.tensors["base/x0"].shape == (2, 2 * ranks)
    assert find_counterexample(small).status == "agrees"


def test_a_mean_over_a_count_of_labels_is_the_mean_by_the_number_that_the_count_is() -> None:
    """Labels are never -100, so the baseline divides by the number of rows; the distributed side by that number."""
    pair, rows = Pair({"dp": 2}), 4096
    x, dx = pair.input((rows, 64), {0: "dp"})
    labels, _ = pair.input((rows,), dtype="s32", range=(0, 64))
    kept = pair.base.emit("compare", [labels, pair.base.splat(-100, "s32", (rows,))], direction="NE")
    count = pair.base.emit("reduce", [pair.base.emit("convert", [kept], dtype="f32")], dimensions=[0], reducer="sum")
    mean = pair.base.emit("divide", [pair.base.emit("reduce", [x], dimensions=[0, 1], reducer="sum"), count])
    part = pair.dist.emit("reduce", [dx], dimensions=[0, 1], reducer="sum")
    whole = pair.dist.emit("all-reduce", [part], reducer="sum", groups=pair.groups("dp"))
    pair.outputs(mean, pair.dist.emit("divide", [whole, pair.dist.splat(rows, "f32", ())]))
    assert find_counterexample(shrink(program(pair)).program).status == "agrees"


@given(st.integers(0, 400))
@example(8)  # tokens in slots: as many slots as tokens
@settings(max_examples=60, deadline=None)
def test_random_pairs_keep_their_truth_at_small_sizes(seed: int) -> None:
    """What the rules derive at full size is true of the shrunk program, and every derived layout translates."""
    tables = random_pair(random.Random(seed), wrong=0.0).tables()
    assume(all(size for *_, size in tables["dim"]))  # programs with empty tensors run at their own size
    corr = derive(tables).corr
    whole = load_program(tables)
    small = shrink(whole, relations(corr))
    rows = [small.relation(row) for row in relations(corr)]
    assert all(rows)
    texts = [(r.dist, _piece(r.dist_piece), r.base, _piece(r.base_piece), str(r.layout)) for r in rows if r]
    assert audit(small.program, texts).false == []


def _piece(windows) -> str:  # type: ignore[no-untyped-def]
    return ",".join(f"{w.dim}:{w.lo}:{w.hi}" for w in windows)


@pytest.mark.parametrize(
    ("values", "size", "block"),
    [
        ({0, 3, 6, 9}, 12, 3),
        ({63}, 64, 64),
        ({0, 32, 64}, 64, 32),
        ({1, 31, 33}, 64, 32),
        ({5}, 64, 4),
        (set(), 6, 6),
        ({2, 3}, 4, 1),
    ],
)
def test_bounds_are_whole_blocks_or_one_off(values: set[int], size: int, block: int) -> None:
    assert grain(values, size) == block


def test_boundaries_that_do_not_divide_make_an_extent_opaque() -> None:
    extents = Extents()
    x, three, four = extents.new(12), extents.new(4), extents.new(6)
    extents.link(x, 1, three, 1, 4)  # 12 = 3 × 4
    extents.link(x, 1, four, 1, 6)  # 12 = 2 × 6: 4 and 6 share only 2
    sizes = extents.solve(1)
    assert sizes.size(x) == 6 * sizes.size(three) // 2
    assert sizes.size(x) % sizes.size(three) == 0
    assert sizes.size(x) % sizes.size(four) == 0


def test_a_printed_array_keeps_its_size() -> None:
    from scalify_dl.ir.literals import Literal

    pair = Pair({"tp": 2})
    x, dx = pair.input((64, 4))
    values = Literal("{" + ",".join("{" + ",".join(str(4 * i + j) for j in range(4)) + "}" for i in range(64)) + "}")
    pair.outputs(
        *(g.emit("add", [v, g.constant(values, "f32", (64, 4))]) for g, v in ((pair.base, x), (pair.dist, dx)))
    )
    small = shrink(program(pair)).program
    assert small.tensors["base/x0"].shape == (64, 4)
    assert find_counterexample(small).status == "agrees"


def test_masks_by_position_keep_their_bounds() -> None:
    """iota < 48 on 64 positions becomes 3 of 4 blocks."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((64, 6), {1: "tp"})
    results = []
    for g, v in ((pair.base, x), (pair.dist, dx)):
        index = g.emit("iota", [], dtype="s32", shape=v.shape, dimension=0)
        keep = g.emit("compare", [index, g.splat(48, "s32", v.shape)], direction="LT")
        results.append(g.emit("select", [keep, v, g.splat(0.0, "f32", v.shape)]))
    pair.outputs(*results)
    small = shrink(program(pair)).program
    rows = small.tensors["base/x0"].shape[0]
    bound = next(int(t.literal) for t in small.tensors.values() if t.dtype == "s32" and t.literal)
    assert (rows, bound) == (rows, 3 * rows // 4)
    assert rows < 64
    assert find_counterexample(small).status == "agrees"


def test_a_program_with_an_empty_tensor_runs_at_its_own_size() -> None:
    """Dims without elements have no factors (strides of a placement are 0)."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((0, 8), {1: "tp"})
    pair.outputs(*(g.emit("negate", [v]) for g, v in ((pair.base, x), (pair.dist, dx))))
    with pytest.raises(Conflict, match="no elements"):
        shrink(program(pair))
    assert find_counterexample(program(pair)).status == "agrees"


def test_a_one_hot_row_shrinks_with_what_it_is_compared_with() -> None:
    mesh, rows, classes = Mesh((("tp", 4),)), 2**12, 2**16
    pair = facts_of.Pair(mesh)
    for side in (pair.base, pair.dist):
        labels = side.input("labels", (rows,), "s32", range=(0, classes))
        row = side.compare(side.broadcast(labels, (rows, classes), [0]), side.iota((rows, classes), 1), direction="EQ")
        side.output(side.reduce(side.convert(row, "f32"), 1))
    assert max(max(t.shape, default=1) for t in shrink(load_program(pair.facts().tables)).program.tensors.values()) == 2


def test_ops_of_layers_share_what_they_say_of_sizes_not_the_sizes() -> None:
    pair = Pair({"tp": 2})
    (x, dx), (w, dw), (v, dv) = pair.input((8, 24)), pair.input((24, 6)), pair.input((6, 40))
    (b, db) = pair.input((40,))

    def layers(g: Graph, x: Tensor, w: Tensor, v: Tensor, b: Tensor) -> Tensor:
        y = matmul(g, matmul(g, x, w), v)
        z = g.add("broadcast", [b], [("f32", (8, 40))], numbers={"dimensions": [1]}).result
        return g.emit("add", [y, z])

    pair.outputs(layers(pair.base, x, w, v, b), layers(pair.dist, dx, dw, dv, db))
    small = Shapes(program(pair))
    for graph in small.program.graphs.values():
        for op in graph.ops:
            RULES[op.kind](small, op)

    def extents(tensor: str) -> list[int]:
        return [small.extents.root(n) for n in small.dims(tensor)]

    (first, second, spread, _) = small.program.top("base")[0].ops
    rows, inner = extents(first.operands[0])
    assert extents(first.operands[1])[0] == inner
    assert extents(first.results[0]) == [rows, extents(second.operands[1])[0]]
    assert extents(second.results[0]) == [rows, extents(spread.operands[0])[0]] == extents(spread.results[0])
    assert len({rows, inner, *extents(second.operands[1])}) == 4
    assert [small.extents.size(n) for n in small.dims(second.results[0])] == [8, 40]
