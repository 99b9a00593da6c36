"""JAX shape polymorphism: modules that leave sizes open, read at given sizes and proved for all of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import export, lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import capture, capture_family
from scalify_dl.commands.family import family, symbolic
from scalify_dl.errors import InputError
from scalify_dl.families.capture import Capture
from scalify_dl.ir.shapes import check
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.export import export as facts_of
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers.read import read
from scalify_dl.readers.sizes import Sizes


def real(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def all_ranks(x, bug):
    return x if bug == "no reduction" else lax.psum(x, "tp")


def mlp(b, s):
    def block(x, w1, w2):
        return jax.nn.gelu(x @ w1) @ w2

    def dist(bug):
        return lambda *args: all_ranks(block(*args), bug)

    return block, dist, (P(), P(None, "tp"), P("tp")), [real(b, s, 8), real(8, 64), real(64, 8)]


def attention(b, s):
    def block(x, wq, wk, wv, wo, bug=""):
        q, k, v = (jnp.einsum("bsd,dhk->bhsk", x, w) for w in (wq, wk, wv))
        scores = jnp.einsum("bhsk,bhtk->bhst", q, k) * 8**-0.5
        positions = jnp.arange(x.shape[1])
        causal = positions[:, None] >= positions[None] - (bug == "mask")
        weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
        return jnp.einsum("bhst,bhtk,hkd->bsd", weights, v, wo)

    def dist(bug):
        return lambda *args: all_ranks(block(*args, bug=bug), bug)

    heads = [real(16, 4, 8)] * 3
    return block, dist, (P(), *[P(None, "tp")] * 3, P("tp")), [real(b, s, 16), *heads, real(4, 8, 16)]


def embedding(b, s):
    def base(ids, table):
        return table[ids]

    def dist(bug):
        def body(ids, table):
            rows = table.shape[0]
            local = ids - lax.axis_index("tp") * rows
            mine = (local >= 0) & (local < rows + (bug == "bound"))
            out = jnp.where(mine[..., None], table[jnp.clip(local, 0, rows - 1)], 0)
            return all_ranks(out, bug)

        return body

    return base, dist, (P(), P("tp")), [jax.ShapeDtypeStruct((b, s), jnp.int32), real(40, 16)]


def mean(b, s):
    def base(x, w):
        return ((x @ w) ** 2).mean()

    def dist(bug):
        def body(x, w):
            squares = (x @ w) ** 2
            if bug == "local":
                return squares.mean()
            if bug == "frozen":  # right where a rank has 6 samples of 5
                return lax.psum(squares.sum() / (6 * 5 * 32 * lax.axis_size("tp")), "tp")
            return lax.psum(squares.sum() / (4 * b * s * 32), "tp")

        return body

    return base, dist, (P("tp"), P()), [real(4 * b, s, 8), real(8, 32)]


def row(b, s):
    """The fourth row, or the last one where there are fewer: a slice's start is clamped."""

    def block(x, w):
        return lax.dynamic_slice_in_dim(x, 3, 1, 0) @ w

    def dist(bug):
        at = 0 if bug == "another row" else 3
        return lambda x, w: lax.psum(lax.dynamic_slice_in_dim(x, at, 1, 0) @ w, "tp")

    return block, dist, (P(None, "tp"), P("tp")), [real(b, 4 * s), real(4 * s, 8)]


PROGRAMS = {"mlp": mlp, "attention": attention, "embedding": embedding, "mean": mean, "row": row}
SIZES = dict.fromkeys(PROGRAMS, "b,s") | {"mean": "batch=x:0,s", "row": "b,inner=x:1"}


def write(name, folder, tp=2, bug="", constraints=()):
    b, s = export.symbolic_shape("b, s", constraints=constraints)
    base, dist, specs, args = PROGRAMS[name](b, s)
    mesh = AbstractMesh((tp,), ("tp",))
    whole = jax.shard_map(dist(bug), mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)
    return capture(base, whole, args, mesh, directory=folder, name=f"{name}{tp}")


def verdict(capsys, found, sizes, *samples):
    words = [f"{one.base} {one.dist} {one.mesh}" for one in samples]
    symbolic(Capture(found.base, (found.dist,), str(found.mesh)), sizes, words, Options())
    return capsys.readouterr().out


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_module_is_proved_for_every_batch_and_sequence(name, tmp_path, capsys):
    out = verdict(capsys, write(name, tmp_path), SIZES[name])
    assert out.startswith("PROVED  for all"), out
    assert ("4 divides batch" in out) == (name == "mean")
    assert name != "row" or "b >= 1" in out


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("mlp", "no reduction"),
        ("attention", "mask"),
        ("embedding", "bound"),
        ("embedding", "no reduction"),
        ("mean", "local"),
        ("mean", "frozen"),
        ("row", "another row"),
    ],
)
def test_a_wrong_module_is_refuted(name, bug, tmp_path, capsys):
    assert verdict(capsys, write(name, tmp_path, bug=bug), SIZES[name]).startswith("REFUTED  at b")


def test_samples_on_other_meshes_make_the_degree_a_symbol_as_well(tmp_path, capsys):
    out = verdict(capsys, write("mlp", tmp_path), "tp,b,s", write("mlp", tmp_path, tp=4))
    assert out.startswith("PROVED  for all tp, b, s with tp divides 64"), out


@pytest.mark.parametrize(("name", "tp"), [("mlp", 8), ("attention", 2)])
def test_one_module_of_one_mesh_is_proved_for_every_degree(name, tp, tmp_path, capsys):
    out = verdict(capsys, write(name, tmp_path, tp), "tp,b,s")
    assert out.startswith("PROVED  for all tp, b, s with tp divides"), out
    assert f"the formulas are those of the text at tp={tp}, s=2, b=9973" in out
    assert verdict(capsys, write(name, tmp_path, tp, bug="no reduction"), "tp,b,s").startswith("REFUTED")


def test_one_module_of_one_mesh_does_not_tell_a_half_from_one_over_the_degree(tmp_path, capsys):
    out = verdict(capsys, write("mlp", tmp_path), "tp,b,s")  # gelu has a half
    assert out.startswith("UNKNOWN"), out
    assert "(0.5) may be a number, or 1/tp" in out


def test_constraints_of_the_export_bound_the_sizes(tmp_path, capsys):
    out = verdict(capsys, write("mlp", tmp_path, constraints=("b <= 64", "mod(s, 4) == 0")), "b,s")
    assert out.startswith("PROVED  for all b, s with 4 divides s"), out
    assert "b <= 64" in out


def test_at_given_sizes_a_module_is_an_ordinary_program(tmp_path):
    found = write("attention", tmp_path)
    facts = facts_of(found.base, found.dist, found.mesh, sizes=Sizes.parse(["b=3", "s=5"]))
    assert [row[2] for row in analyse(facts, Options()).rows("output_verdict")] == ["PROVED"]
    assert {row[2] for row in facts["op"]}.isdisjoint({"unknown:stablehlo.dynamic_broadcast_in_dim"})
    base, *_ = PROGRAMS["attention"](3, 5)
    static = tmp_path / "static.mlir"
    args = PROGRAMS["attention"](3, 5)[3]
    static.write_text(jax.jit(base).trace(*args).lower(lowering_platforms=("cpu",)).as_text())
    same = facts_of(static, found.dist, found.mesh, sizes=Sizes())
    assert [row[2] for row in analyse(same, Options()).rows("output_verdict")] == ["PROVED"]


def many_forms(x, w):
    """Ops whose polymorphic form takes shapes as operands (not top-k: its form is a sort by the total order)."""
    y = jnp.cumsum(x @ w, axis=1)
    best = jnp.argmax(y, -1)
    shifted = jnp.pad(y, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    last = lax.dynamic_slice_in_dim(y, x.shape[1] - 1, 1, 1)
    at = lax.dynamic_slice_in_dim(x, best[0, 0] % 2, x.shape[1] - 1, 1)
    summed, _ = lax.scan(lambda c, t: (c + t, None), jnp.zeros(x.shape[0]), x.sum(-1).T)
    chosen = jnp.take_along_axis(y, best[..., None], -1)
    return (
        y.reshape(-1, 32).sum(0), best, shifted, last, at, summed, chosen, jnp.flip(y, 1), y.mean(1), jnp.var(y),
        y[:, ::2], jnp.sort(y, -1), jax.nn.one_hot(best, 32), jnp.concatenate([x, x], 1), jnp.arange(x.shape[1]) * 2,
    )  # fmt: skip


def test_at_given_sizes_a_module_computes_what_the_static_one_does(tmp_path):
    b, s = export.symbolic_shape("b, s")
    static, opened = tmp_path / "static.mlir", tmp_path / "open.mlir"
    lowered = jax.jit(many_forms).trace(real(3, 5, 8), real(8, 32)).lower(lowering_platforms=("cpu",))
    static.write_text(lowered.as_text())
    exported = export.export(jax.jit(many_forms), platforms=("cpu",))(real(b, s, 8), real(8, 32))
    opened.write_text(str(exported.mlir_module()))
    facts = facts_of(opened, static, "tp=1", sizes=Sizes.parse(["b=3", "s=5"]))
    assert find_counterexample(load_program(facts.tables)).status == "agrees"
    assert not [row for row in facts["op"] if row[2].startswith(("unknown:", "custom:"))]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], "sizes of the program are open: b (in x:0), s (in x:1)"),
        (["b=3"], "open: s (in x:1)"),
        (["b=3", "s=5", "z=2"], "no such size is open"),
        (["b=3", "s=six"], "--size: `s=six`"),
        (["x:2=9", "b=3", "s=5"], "dim 2 of x is 8, not 9"),
    ],
)
def test_sizes_that_are_open_or_contradict_are_told(sizes, message, tmp_path):
    found = write("mlp", tmp_path)
    with pytest.raises(InputError) as error:
        facts_of(found.base, found.dist, found.mesh, sizes=Sizes.parse(sizes))
    assert message in str(error.value)


def test_sizes_that_the_export_rules_out_are_told(tmp_path):
    found = write("mean", tmp_path)
    with pytest.raises(InputError, match=r"dim 0 of x is 4\*b: it cannot be 6"):
        facts_of(found.base, found.dist, found.mesh, sizes=Sizes.parse(["x:0=6", "s=5"]))
    bounded = write("mlp", tmp_path, constraints=("b <= 64",))
    with pytest.raises(InputError, match="violates"):
        facts_of(bounded.base, bounded.dist, bounded.mesh, sizes=Sizes.parse(["b=65", "s=5"]))


SHAPES = """
func.func public @main(%x: tensor<?x8xf32>, %y: tensor<?xf32>) -> (tensor<?x8xf32>, tensor<?x16xf32>, tensor<?xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %c0 = stablehlo.constant dense<0> : tensor<1xi32>
  %c1 = stablehlo.constant dense<1> : tensor<1xi32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %c8 = stablehlo.constant dense<8> : tensor<1xi32>
  %c16 = stablehlo.constant dense<16> : tensor<1xi32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %half = stablehlo.divide %n, %c2 : tensor<i32>
  %h = stablehlo.reshape %half : (tensor<i32>) -> tensor<1xi32>
  %m = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %limit = stablehlo.concatenate %h, %c8, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %start = stablehlo.concatenate %c0, %c0, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %step = stablehlo.concatenate %c1, %c1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %first = stablehlo.real_dynamic_slice %x, %start, %limit, %step
    : (tensor<?x8xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x8xf32>
  %rest = stablehlo.subtract %m, %h : tensor<1xi32>
  %high = stablehlo.concatenate %rest, %c0, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %padded = stablehlo.dynamic_pad %first, %zero, %start, %high, %start
    : (tensor<?x8xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x8xf32>
  %shape = stablehlo.concatenate %h, %c16, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %wide = stablehlo.dynamic_reshape %x, %shape : (tensor<?x8xf32>, tensor<2xi32>) -> tensor<?x16xf32>
  %steps = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %padded, %wide, %steps : tensor<?x8xf32>, tensor<?x16xf32>, tensor<?xf32>
}
"""


def at(text, tmp_path, **sizes):
    file = tmp_path / "shapes.mlir"
    file.write_text(text)
    return read(file, None, lambda dump: sizes or pytest.fail(str(dump.symbols)))


def test_shape_operands_become_attributes(tmp_path):
    graph = at(SHAPES, tmp_path, input0_dim0=6, input1_dim0=7)
    ops = {op.kind: op for op in graph.ops}
    assert ops["slice"].numbers == {"start": [0, 0], "limit": [3, 8], "stride": [1, 1]}
    assert ops["pad"].numbers["high"] == [3, 0]
    assert [port.tensor.shape for port in graph.outputs] == [(6, 8), (3, 16), (6,)]
    assert [port.tensor.shape for port in graph.inputs] == [(6, 8), (7,)]


def test_shapes_that_do_not_fit_are_refused(tmp_path):
    odd = at(SHAPES, tmp_path, input0_dim0=7, input1_dim0=7)
    with pytest.raises(InputError, match="cannot be reshaped"):
        check(odd)
    depends = SHAPES.replace(
        "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>", ""
    ).replace("%y: tensor<?xf32>", "%n: tensor<i32>")
    with pytest.raises(InputError, match="depends on data"):
        at(depends, tmp_path, input0_dim0=6)


def test_captures_at_several_sizes_are_a_family(tmp_path, capsys):
    def program(sizes):
        base, dist, specs, args = mlp(sizes["batch"], sizes["seq"])
        mesh = AbstractMesh((sizes["tp"],), ("tp",))
        return base, jax.shard_map(dist(""), mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False), args, mesh

    points = [{"tp": 2, "batch": 2, "seq": 5}, {"tp": 4, "batch": 6, "seq": 25}]
    file = capture_family(program, points, {"tp": None, "batch": "0:0", "seq": "0:1"}, tmp_path / "family")
    assert family(file, Options()) == 0
    assert capsys.readouterr().out.startswith("PROVED  for all tp, batch, seq with tp divides 64")
