"""StableHLO text, bytecode and portable artifacts; names, source rows; hostile and truncated modules."""

from __future__ import annotations

import contextlib
import io
import random
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.readers.stablehlo import is_mlir, read_baseline, read_program
from scalify_dl.readers.stablehlo.parse import parse

X = jax.ShapeDtypeStruct((8, 16), jnp.float32)
W = jax.ShapeDtypeStruct((16, 32), jnp.float32)
MESH = AbstractMesh((2, 4), ("dp", "tp"))


def helper(x, w):
    return jnp.tanh(x @ w)


def body(x, w):
    return lax.psum(helper(x, w), "tp")


def module(debug: bool = True) -> str:
    mapped = jax.shard_map(body, mesh=MESH, in_specs=(P("dp", "tp"), P("tp")), out_specs=P("dp"))
    return jax.jit(mapped).trace(X, W).lower(lowering_platforms=("cpu",)).as_text(debug_info=debug)


def bytecode(text: str) -> bytes:
    stream = io.BytesIO()
    parse(text.encode()).operation.write_bytecode(stream)
    return stream.getvalue()


def described(graph):
    return [
        (op.kind, op.name, [t.type for t in op.operands + op.results], op.numbers, op.symbols, op.groups)
        for op in graph.ops
    ]


def test_text_and_bytecode_give_the_same_program():
    text = module()
    graph, mesh = read_program(text.encode())
    again, _ = read_program(bytecode(text))
    assert described(graph) == described(again)
    assert [op.source for op in graph.ops] == [op.source for op in again.ops]
    assert mesh == Mesh((("dp", 2), ("tp", 4)))


def test_a_portable_artifact_of_jax_export_is_read():
    from jax import export

    artifact = export.export(jax.jit(helper))(X, W).mlir_module_serialized
    assert is_mlir(artifact)
    graph = read_baseline(artifact)
    assert [op.kind for op in graph.ops] == ["dot", "tanh"]


def test_shards_enter_and_leave_without_a_slice_or_gather():
    graph, _ = read_program(module().encode())
    assert [op.kind for op in graph.ops] == ["dot", "tanh", "all-reduce"]
    assert [port.tensor.type for port in graph.inputs] == ["f32[4,4]", "f32[4,32]"]
    assert [port.path for port in graph.inputs] == ["x", "w"]
    assert graph.ops[-1].groups == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert graph.ops[-1].symbols == {"reducer": ["sum"]}


def test_inputs_and_outputs_carry_their_placement():
    graph, mesh = read_program(module().encode())
    x, w = graph.inputs
    (y,) = graph.outputs
    assert str(x.placement.layout((8, 16), mesh)) == "[0:1x4][1:1x4]|dp=0:4x2|tp=1:4x4"
    assert str(w.placement.layout((16, 32), mesh)) == "[0:1x4][1:1x32]|dp=r2|tp=0:4x4"
    assert str(y.placement.layout((8, 32), mesh)) == "[0:1x4][1:1x32]|dp=0:4x2|tp=r4"


def test_a_whole_value_is_sliced_on_entry_and_gathered_on_exit():
    def program(x, w):
        y = jax.shard_map(body, mesh=MESH, in_specs=(P("dp", "tp"), P("tp")), out_specs=P("dp"))(x * 2, w)
        return y + 1

    text = jax.jit(program).trace(X, W).lower(lowering_platforms=("cpu",)).as_text()
    graph, _ = read_program(text.encode())
    kinds = [op.kind for op in graph.ops if op.kind not in ("constant", "broadcast")]
    assert kinds == ["multiply", "slice", "slice", "dot", "tanh", "all-reduce", "all-gather", "add"]
    rows, columns = (op for op in graph.ops if op.kind == "slice")
    assert rows.rank_numbers["start", 0] == {rank: rank // 4 * 4 for rank in range(8)}
    assert columns.rank_numbers["start", 1] == {rank: rank % 4 * 4 for rank in range(8)}
    gather = next(op for op in graph.ops if op.kind == "all-gather")
    assert gather.groups == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_sources_are_the_user_frames_innermost_first():
    graph, _ = read_program(module().encode())
    dot = graph.ops[0]
    assert dot.source[0].file == __file__
    assert dot.source[0].function == "helper"
    assert dot.source[1].function == "body"


def test_without_locations_the_place_in_the_dump_is_known():
    text = module(debug=False)
    graph, _ = read_program(text.encode(), "model.mlir")
    dot = graph.ops[0]
    assert "dot_general" in text.splitlines()[dot.at[0] - 1]


def test_ops_of_a_function_called_twice_carry_their_own_call():
    def twice(x, w):
        f = jax.jit(helper)
        return (
            f(x, w),
            f(x + 1, w),
        )

    graph = read_baseline(jax.jit(twice).lower(X, W).as_text(debug_info=True).encode())
    first, second = (op for op in graph.ops if op.kind == "dot")
    outer = [[frame.line for frame in op.source if frame.function.endswith("twice")] for op in (first, second)]
    assert all(outer)
    assert outer[0][0] + 1 == outer[1][0]


def test_result_paths_and_ignored_arguments():
    def program(p, x):
        return {"loss": (x * p["scale"]).sum(), "x": x}

    text = jax.jit(program).lower({"scale": jax.ShapeDtypeStruct((), jnp.float32)}, X).as_text(debug_info=True)
    graph = read_baseline(text.encode())
    assert [port.path for port in graph.inputs] == ["p['scale']", "x"]
    assert [port.path for port in graph.outputs] == ["result['loss']", "result['x']"]


def test_pmap_style_modules_use_replicas_as_ranks():
    text = """
    module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32} {
      func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<ui32>) {
        %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<4xf32>) -> tensor<4xf32>
        %1 = stablehlo.replica_id : tensor<ui32>
        return %0, %1 : tensor<4xf32>, tensor<ui32>
      }
    }"""
    graph, mesh = read_program(text.encode())
    reduce, own = graph.ops
    assert mesh.size == 4
    assert reduce.groups == [[0, 2], [1, 3]]
    assert own.rank_numbers["value", 0] == {0: 0, 1: 0, 2: 1, 3: 1}


def test_groups_by_mesh_axes():
    text = """
    module attributes {mhlo.num_partitions = 8 : i32} {
      sdy.mesh @mesh = <["a"=2, "b"=4]>
      func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
        %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}]>] out_shardings=[<@mesh, [{"a"}]>]
            manual_axes={"a", "b"} (%y: tensor<4xf32>) {
          %1 = "stablehlo.all_reduce"(%y) <{
            replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh,
              axes = [#stablehlo.axis_ref<name = "b", sub_axis_info = (1)2>]>,
            channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %s = stablehlo.maximum %p, %q : tensor<f32>
            stablehlo.return %s : tensor<f32>
          }) : (tensor<4xf32>) -> tensor<4xf32>
          sdy.return %1 : tensor<4xf32>
        } : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32>
      }
    }"""
    graph, _ = read_program(text.encode())
    (op,) = graph.ops
    assert sorted(op.groups) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert op.symbols == {"reducer": ["max"]}


# --- bad input -------------------------------------------------------------------------------------------------------


def recursive(visibility: str, name: str) -> str:
    type_ = "tensor<4xf32>"
    call = f"%0 = func.call @f(%x) : ({type_}) -> {type_} return %0 : {type_}"
    return f"func.func {visibility} @{name}(%x: {type_}) -> {type_} {{ {call} }}"


PLAIN = "module { func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> } }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module { foo.bar }", "unknown dialect `foo`"),
        (PLAIN[:-10], "model.mlir:1:"),
        (
            PLAIN.replace("4xf32> {", "?xf32> {")
            .replace("%x: tensor<4x", "%x: tensor<?x")
            .replace("return %x : tensor<4x", "return %x : tensor<?x"),
            "sizes of the program are open: input0_dim0",
        ),
        ("module { }", "0 public functions"),
        ("module { func.func private @main(%x: tensor<4xf32>) -> tensor<4xf32> }", "0 public functions"),
        ("(" * 5000, "brackets are open"),
        ('module { func.func public @main(%x: tensor<4xf32> loc("a\\FF")) { return } }', "cannot be read"),
        ('module { func.func public @"a\\FF"(%x: tensor<4xf32>) { return } }', "cannot be read"),
        (
            f"module {{ {recursive('public', 'main')} {recursive('private', 'f')} }}",
            "calls itself",
        ),
    ],
)
def test_bad_modules_are_told(text, message):
    with pytest.raises(InputError) as error:
        read_baseline(text.encode(), "model.mlir")
    assert message in str(error.value)


def test_calls_that_multiply_without_end_are_stopped(monkeypatch):
    from scalify_dl.readers.stablehlo import scope

    monkeypatch.setattr(scope, "OPS_LIMIT", 10_000)
    type_ = "tensor<4xf32>"
    functions = [
        f"func.func private @f{i}(%x: {type_}) -> {type_} {{ %0 = func.call @f{i + 1}(%x) : ({type_}) -> {type_}"
        f" %1 = func.call @f{i + 1}(%0) : ({type_}) -> {type_} return %1 : {type_} }}"
        for i in range(30)
    ]
    functions.append(f"func.func private @f30(%x: {type_}) -> {type_} {{ return %x : {type_} }}")
    call = f"%0 = func.call @f0(%x) : ({type_}) -> {type_} return %0 : {type_}"
    main = f"func.func public @main(%x: {type_}) -> {type_} {{ {call} }}"
    with pytest.raises(InputError, match="ops after inlining"):
        read_baseline(f"module {{ {main} {' '.join(functions)} }}".encode())


def test_a_global_program_is_no_distributed_program():
    text = """
    module attributes {mhlo.num_partitions = 8 : i32} {
      sdy.mesh @mesh = <["a"=8]>
      func.func public @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> tensor<8xf32> {
        return %x : tensor<8xf32>
      }
    }"""
    with pytest.raises(InputError, match="after_spmd-partitioning"):
        read_program(text.encode())
    assert len(read_baseline(text.encode()).inputs) == 1


def test_a_shard_map_program_is_no_baseline():
    with pytest.raises(InputError, match="swapped"):
        read_baseline(module().encode())


def test_groups_that_do_not_fit_the_mesh_are_told_with_their_place():
    text = module(debug=False).replace("[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4", "[[0, 1, 2, 3]]> : tensor<1x4")
    with pytest.raises(InputError, match="rank 4 is in no group") as error:
        read_program(text.encode(), "model.mlir")
    assert error.value.line


def test_shardings_of_unknown_meshes_and_axes_are_told():
    for wrong in ("@other, ", '@mesh, [{"zz"'):
        text = module(debug=False).replace("@mesh, " if wrong.startswith("@other") else '@mesh, [{"dp"', wrong)
        with pytest.raises(InputError):
            read_program(text.encode())


@pytest.mark.parametrize("cut", [5, 100, 400, 900])
def test_truncated_bytecode_is_told(cut):
    with pytest.raises(InputError, match="cut off"):
        read_program(bytecode(module())[:cut], "model.mlirbc")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_text_never_crashes(data):
    text = bytearray(MODULE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        what = data.draw(st.sampled_from(["cut", "replace", "insert"]))
        if what == "cut":
            del text[at : at + data.draw(st.integers(1, 40))]
        elif what == "replace":
            text[at] = data.draw(st.integers(32, 126))
        else:
            text[at:at] = data.draw(
                st.sampled_from([b'"', b"{", b"}", b"<", b">", b"%0", b"\\FF", b"4294967296", b"-1"])
            )
    with contextlib.suppress(InputError):
        read_program(bytes(text))


MODULE = module().encode()


def test_without_jaxlib_the_error_says_which_extra_to_install():
    code = (
        "import sys; sys.modules['jaxlib'] = None\n"
        "from scalify_dl.errors import InputError\n"
        "from scalify_dl.readers.stablehlo import read_baseline\n"
        "try: read_baseline(b'module {}', 'm.mlir')\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "scalify-dl[jax]" in done.stdout


def test_reading_does_not_import_jax():
    code = (
        "import sys\n"
        "from scalify_dl.readers.stablehlo import read_baseline\n"
        f"read_baseline({PLAIN.encode()!r})\n"
        "print('jax' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_text_nests_as_deep_as_its_innermost_bracket_whatever_its_kind(monkeypatch):
    from scalify_dl.readers.stablehlo import parse

    monkeypatch.setattr(parse, "NESTING_LIMIT", 3)
    draw = random.Random(24)
    for _ in range(2000):
        text = "".join(draw.choices("()[]{}ab(", k=draw.randrange(24)))
        depth = deepest = 0
        for letter in text:
            depth += (letter in "([{") - (letter in ")]}")
            deepest = max(deepest, depth)
        with contextlib.nullcontext() if deepest <= 3 else pytest.raises(InputError, match="brackets are open"):
            parse._check_nesting(text.encode(), None)
