"""Programs by hand: shapes, groups, sources, and every kind of the vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.files import load, write
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.vocabulary import ARITY, BITWISE, ELEMENTWISE, KINDS, PREDICATES
from scalify_dl.pairing.builder import Pair, Program


@pytest.fixture
def program() -> Program:
    return Program("p", Mesh.parse("dp=2,tp=4"))


def test_a_row_parallel_layer(tmp_path: Path) -> None:
    pair = Pair("tp=2", title="row-parallel")
    b = pair.base
    b.output(b.matmul(b.input("x", (8, 16)), b.input("w", (16, 32))))
    d = pair.dist
    d.output(d.all_reduce(d.matmul(d.shard("x", {1: "tp"}), d.shard("w", {0: "tp"})), "tp"))
    write(pair.facts(), tmp_path / "facts")
    facts = load(tmp_path / "facts")
    assert facts.meta["title"] == "row-parallel"
    assert {row[5] for row in facts["shard"]} == {"given"}
    assert facts["group"] == [("all-reduce", 0, 0, 0), ("all-reduce", 0, 1, 1)]
    assert facts["source"][-1][2].endswith("test_builder.py")


def test_parts_of_a_fused_weight() -> None:
    pair = Pair("tp=4")
    pair.base.output(pair.base.negate(pair.base.input("w", (4, 16 + 8))))
    w = pair.dist.shard("w", [{1: "tp"}, {1: "tp:2"}], parts=(1, [16, 8]))
    pair.dist.output(pair.dist.negate(w))
    assert w.shape == (4, 4 + 4)
    pieces = [(row[1], row[3], row[4]) for row in pair.facts()["shard"]]
    assert pieces == [
        ("1:0:4", "1:0:16", "[0:1x4][1:1x4]|tp=1:4x4"),
        ("1:4:8", "1:16:24", "[0:1x4][1:1x4]|tp=1:4x2,r2"),
    ]


def test_expected_placements_and_several_programs() -> None:
    pair = Pair("pp=2")
    pair.base.output(pair.base.negate(pair.base.input("x", (4,))))
    for rank in range(2):
        d = pair.program([rank])
        d.output(d.negate(d.shard("x")))
    facts = pair.facts()
    assert facts["runs"] == [("dist0", 0), ("dist1", 1)]
    assert {row[0] for row in facts["op"]} == {"base/negate", "r0/negate", "r1/negate"}
    pair = Pair("tp=2")
    pair.base.output(pair.base.negate(pair.base.input("x", (4,))))
    pair.dist.output(pair.dist.negate(pair.dist.shard("x")))
    pair.expect(0, pending={"tp": "sum"})
    assert pair.facts()["expect"] == [("negate", "base/negate", "[0:1x4]|tp=sum2")]


def test_groups_are_those_of_mesh_axes(program: Program) -> None:
    assert program.groups("tp") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert program.groups("dp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert program.groups(["tp", "dp"]) == [[0, 4, 1, 5, 2, 6, 3, 7]]
    with pytest.raises(InputError, match="no mesh axis `pp`"):
        program.groups("pp")


def test_names_are_numbered_and_scalars_broadcast(program: Program) -> None:
    x = program.input("x", (2, 3))
    first, second = program.add(x, 1.5), program.add(2, x)
    assert (first.name, second.name) == ("add", "add.1")
    assert [op.kind for op in program.graph.ops] == ["constant", "broadcast", "add"] * 2


def test_shapes_that_do_not_fit_are_refused(program: Program) -> None:
    x, y = program.input("x", (8, 16)), program.input("y", (8, 15))
    for wrong in (
        lambda: program.add(x, y),
        lambda: program.matmul(x, y),
        lambda: program.concatenate([x, y], 0),
        lambda: program.slice(x, 1, 0, 17),
        lambda: program.reshape(x, (9, 9)),
        lambda: program.all_to_all(y, "tp", 1, 0),
        lambda: program.reduce(x, 2),
        lambda: program.broadcast(x, (16, 8), (0, 1)),
        lambda: program.add(1, 2),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(AttributeError, match="frobnicate"):
        program.frobnicate(x)


def test_every_kind_of_the_vocabulary_can_be_written(program: Program, tmp_path: Path) -> None:
    p = program
    x, ids = p.input("x", (8, 16)), p.input("ids", (4,), "s32", range=(0, 8))
    i = p.input("i", (8, 16), "s32")
    flag, zero = p.compare(x, 0.0, direction="GT"), p.constant(0, "s32")
    for kind in sorted(
        ELEMENTWISE - PREDICATES - {"select", "clamp", "convert", "bitcast-convert", "complex", "real", "imag"}
    ):
        operand = i if kind in BITWISE else x
        getattr(p, kind.replace("-", "_"))(*[operand] * ARITY[kind])
    p.select(flag, x, x)
    p.clamp(x, x, x)
    p.is_finite(x)
    z = p.complex(x, x)
    assert (z.dtype, p.real(z).dtype, p.imag(z).dtype) == ("c64", "f32", "f32")
    p.convert(x, "bf16")
    p.op("bitcast-convert", x, dtype="s32", attributes={"from": "f32"})
    p.iota((4, 4), 1)
    p.partition_id()
    p.op("replica-id", dtype="u32", shape=())
    p.rank_constant({rank: rank * 2 for rank in range(8)})
    p.transpose(p.reshape(x, (4, 2, 16)), 2, 0, 1)
    p.split(x, 1, [4, 12])
    p.slice(x, 0, {rank: rank % 2 for rank in range(8)}, {rank: rank % 2 + 4 for rank in range(8)})
    p.pad(x, 0.0, [1, 0], [0, 2])
    p.concatenate([x, x], 0)
    p.reverse(x, 0)
    p.reduce(x, [0, 1], "max")
    p.cumulative(x, 1)
    p.op("reduce-window", x, window_size=[2, 2], window_stride=[2, 2], reducer="max")
    p.op(
        "select-and-scatter",
        x,
        p.input("pooled", (4, 8)),
        window_size=[2, 2],
        window_stride=[2, 2],
        reducer="sum",
        select="max",
    )
    p.op(
        "convolution", p.input("image", (1, 6, 6, 3)), p.input("kernel", (2, 2, 3, 5)), input_batch=0, input_feature=3,
        input_spatial=[1, 2], kernel_input_feature=2, kernel_output_feature=3, kernel_spatial=[0, 1], output_batch=0,
        output_feature=3, output_spatial=[1, 2], feature_group_count=1, batch_group_count=1,
    )  # fmt: skip
    rows = p.embedding(x, ids)
    p.op(
        "scatter", x, p.reshape(ids, (4, 1)), rows, update_window_dims=[1], inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0], index_vector_dim=1, reducer="sum",
    )  # fmt: skip
    p.dynamic_update_slice(x, p.dynamic_slice(x, [zero, zero], [2, 3]), [zero, zero])
    p.sort(x, 1, "DESC")
    p.top_k(x, 3)
    p.softmax(x, 1)
    p.matmul(x, p.transpose(x, 1, 0))
    for kind in ("rng", "rng-bit-generator", "rng-uniform", "rng-normal", "empty"):
        p.op(kind, dtype="f32", shape=(2,))
    p.dropout_mask(x, 0.1)
    heads = p.input("heads", (2, 4, 8))
    attended = p.op(
        "attention", heads, heads, heads, scale="0.5", causal=1, types=[("f32", (2, 4, 8)), ("f32", (2, 4))]
    )
    p.op(
        "attention-backward", heads, heads, heads, heads, *attended.results, scale="0.5", causal=1,
        types=[("f32", (2, 4, 8))] * 3,
    )  # fmt: skip
    p.loop(
        [x, zero],
        lambda q, _, n: q.compare(n, 4, direction="LT"),
        lambda q, c, n: [q.negate(c), q.add(n, 1)],
        trip_count=4,
    )
    branch = p.region("branch", [x], lambda q, value: q.negate(value))
    other = p.region("other", [x], lambda q, value: q.custom("mine", [value], [("f32", (8, 16))]))
    p.op("conditional", zero, x, x, regions=[branch, other], branch_operand_count=[1, 1], types=[("f32", (8, 16))])
    p.custom("mine", [x], [("f32", (8,))], eps="1e-5", axis=1)
    p.all_reduce(x, "tp", "max")
    p.all_gather(x, ["dp", "tp"], 0)
    p.reduce_scatter(x, "tp", 1)
    p.all_to_all(x, "tp", 1, 0)
    p.permute(x, [(0, 1), (1, 0)])
    p.op("collective-broadcast", x, groups=p.groups("tp"))
    seen = {op.kind for op in p.graph.ops}
    assert seen >= KINDS - {"send", "recv"}
    p.output(x)
    pair = Pair(p.mesh)
    for port in p.graph.inputs:
        pair.base.input(port.tensor.name, port.tensor.shape, port.tensor.dtype, range=port.range)
    pair.base.output(pair.base.graph.inputs[0].tensor)
    pair.dist.graph = p.graph
    write(pair.facts(), tmp_path / "facts")
    assert {row[2] for row in load(tmp_path / "facts")["op"]} == seen
