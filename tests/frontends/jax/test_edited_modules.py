"""StableHLO modules with something edited that changes what they compute are never proved equal."""
# ruff: noqa: E501 (tables of module text)

from __future__ import annotations

import pytest

pytest.importorskip("jaxlib", reason="jaxlib parses StableHLO; the `jax` extra is not installed")

from scalify_dl.errors import InputError
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers.stablehlo import read_baseline, read_program
from scalify_dl.report.conclude import conclude

MATRIX = "tensor<4x6xf32>"
TOP = "(tensor<4x2xf32>, tensor<4x2xi32>)"


def module(body: str, result: str = MATRIX, taken: str = f"%x: {MATRIX}, %k: {MATRIX}", more: str = "") -> str:
    """A module with a function."""
    return f"module @m {{\n  func.func public @main({taken}) -> {result} {{\n{body}\n  }}\n{more}}}\n"


def one(op: str, result: str = MATRIX, taken: str = f"%x: {MATRIX}, %k: {MATRIX}") -> str:
    """A function of one op."""
    return module(f"    %0 = {op}\n    return %0 : {result}", result, taken)


def reduced(body: str) -> str:
    """Rows reduced by a function of %a and %b that gives %r."""
    return module(
        f"""    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %c) across dimensions = [1] : ({MATRIX}, tensor<f32>) -> tensor<4xf32>
      reducer(%a: tensor<f32>, %b: tensor<f32>) {{
        {body}
        stablehlo.return %r : tensor<f32>
      }}
    return %0 : tensor<4xf32>""",
        "tensor<4xf32>",
    )


def composed(prelude: str, name: str = "chlo.top_k") -> str:
    """A composite of a name, made of the largest two of something."""
    call = f'"{name}" %x {{composite_attributes = {{k = 2 : i64}}, decomposition = @d}} : ({MATRIX}) -> {TOP}'
    parts = f"""  func.func private @d(%a: {MATRIX}) -> {TOP} {{
    {prelude}
    %v, %i = chlo.top_k(%n, k = 2) : {MATRIX} -> {TOP}
    return %v, %i : tensor<4x2xf32>, tensor<4x2xi32>
  }}
"""
    body = f"    %v:2 = stablehlo.composite {call}\n    return %v#0, %v#1 : tensor<4x2xf32>, tensor<4x2xi32>"
    return module(body, TOP, more=parts)


TEST, DOTTED = "tensor<4x6xi1>", "tensor<4x4xf32>"
LESS = f"stablehlo.compare LT, %x, %k{{}} : ({MATRIX}, {MATRIX}) -> {TEST}"
DOT = f"stablehlo.dot_general %x, %k, contracting_dims = [1] x [1]{{}} : ({MATRIX}, {MATRIX}) -> {DOTTED}"
IN_BF16 = (
    "algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, "
    "rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>"
)
PLAIN = f"%n = stablehlo.reshape %a : ({MATRIX}) -> {MATRIX}"
LARGEST = module(
    f"    %v, %i = chlo.top_k(%x, k = 2) : {MATRIX} -> {TOP}\n    return %v, %i : tensor<4x2xf32>, tensor<4x2xi32>", TOP
)
SUM = reduced("%r = stablehlo.add %a, %b : tensor<f32>")
NARROW = """%1 = stablehlo.convert %a : (tensor<f32>) -> tensor<bf16>
        %2 = stablehlo.convert %b : (tensor<f32>) -> tensor<bf16>
        %3 = stablehlo.add %1, %2 : tensor<bf16>
        %r = stablehlo.convert %3 : (tensor<bf16>) -> tensor<f32>"""
TWICE = one(f"stablehlo.add %x, %x : {MATRIX}")
CASE = f"""    %i = stablehlo.constant dense<-1> : tensor<i32>
    %0 = "stablehlo.case"(%i) ({{
      %1 = stablehlo.add %x, %x : {MATRIX}
      stablehlo.return %1 : {MATRIX}
    }}, {{
      %1 = stablehlo.multiply %x, %x : {MATRIX}
      stablehlo.return %1 : {MATRIX}
    }}) : (tensor<i32>) -> {MATRIX}
    return %0 : {MATRIX}"""
PAIRS = "stablehlo.bitcast_convert %{} : (tensor<4x2xi8>) -> tensor<4xi16>"

EDITED = {
    "zeros of both signs": (one(LESS.format(", FLOAT"), TEST), one(LESS.format(", TOTALORDER"), TEST)),
    "a dot in a narrower type": (one(DOT.format(""), DOTTED), one(DOT.format(f", {IN_BF16}"), DOTTED)),
    "another decomposition": (LARGEST, composed(f"%n = stablehlo.negate %a : {MATRIX}")),
    "a reducer in a narrower type": (SUM, reduced(NARROW)),
    "an attribute nobody knows": (TWICE, one(f"stablehlo.add %x, %x {{saturate}} : {MATRIX}")),
    "a branch before the first": (TWICE, module(CASE)),
    "bytes turned round": (
        one(PAIRS.format("x"), "tensor<4xi16>", "%x: tensor<4x2xi8>"),
        module(f"    %r = stablehlo.reverse %x, dims = [1] : tensor<4x2xi8>\n    %0 = {PAIRS.format('r')}\n    return %0 : tensor<4xi16>", "tensor<4xi16>", "%x: tensor<4x2xi8>"),
    ),
}  # fmt: skip

RIGHT = {
    "how exactly": (one(DOT.format(""), DOTTED), one(DOT.format(", precision = [HIGHEST, HIGHEST]"), DOTTED)),
    "the order of the type": (one(LESS.format(", FLOAT"), TEST), one(LESS.format(""), TEST)),
    "a composite is what it is made of": (LARGEST, composed(PLAIN)),
    "whatever it is called": (LARGEST, composed(PLAIN, "my.part")),
}


def verdict(base: str, dist: str) -> str:
    """The verdict, or `refused`."""
    try:
        program, mesh = read_program(dist.encode(), "dist.mlir")
        facts = tables(read_baseline(base.encode(), "base.mlir"), [program], mesh)
    except InputError:
        return "refused"
    return conclude(analyse(facts, Options())).verdict.name


@pytest.mark.parametrize("name", EDITED)
def test_an_edit_that_changes_numbers_is_not_proved(name: str) -> None:
    assert verdict(*EDITED[name]) in ("REFUTED", "UNKNOWN")


@pytest.mark.parametrize("name", RIGHT)
def test_another_spelling_is_proved(name: str) -> None:
    assert verdict(*RIGHT[name]) == "PROVED"


@pytest.mark.parametrize(
    ("effect", "line"),
    [
        ("stablehlo.outfeed", f'"stablehlo.outfeed"(%x, %t) {{outfeed_config = ""}} : ({MATRIX}, !stablehlo.token) -> !stablehlo.token'),
        ("custom:f", f"stablehlo.custom_call @f(%x) {{has_side_effect = true}} : ({MATRIX}) -> {MATRIX}"),
    ],
)  # fmt: skip
def test_values_that_are_sent_elsewhere_are_listed(effect: str, line: str) -> None:
    body = f"""    %t = stablehlo.create_token : !stablehlo.token
    %o = {line}
    %0 = stablehlo.add %x, %x : {MATRIX}
    return %0 : {MATRIX}"""
    graph = read_baseline(module(body).encode(), "m.mlir")
    assert [a.text for a in graph.assumptions] == [f"what `{effect}` does besides giving results is not compared"]


def test_shards_put_together_for_an_op_nobody_understands_are_there_for_others() -> None:
    body = f"""    %h = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"tp"}}, {{}}]>] out_shardings=[<@mesh, [{{"tp"}}, {{}}]>]
        manual_axes={{"tp"}} (%a: tensor<2x6xf32>) {{
      sdy.return %a : tensor<2x6xf32>
    }} : ({MATRIX}) -> {MATRIX}
    %g = stablehlo.add %h, %k {{saturate}} : {MATRIX}
    %0 = stablehlo.add %h, %k : {MATRIX}
    return %0 : {MATRIX}"""
    dist = module(body, more='  sdy.mesh @mesh = <["tp"=2]>\n')
    assert verdict(one(f"stablehlo.add %x, %k : {MATRIX}"), dist) == "PROVED"


@pytest.mark.parametrize("flag", ["unique_indices", "indices_are_sorted"])
def test_what_a_scatter_promises_of_its_indices_is_listed(flag: str) -> None:
    """Where it is not so, XLA may give anything."""
    scattered = one(
        f"""\"stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, {flag} = true}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %r = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %r : tensor<f32>
    }}) : ({MATRIX}, tensor<2x1xi32>, tensor<2x6xf32>) -> {MATRIX}""",
        taken=f"%x: {MATRIX}, %i: tensor<2x1xi32>, %u: tensor<2x6xf32>",
    )
    assumed = read_baseline(scattered.encode(), "base.mlir").assumptions
    assert [(flag in a.text, a.why) for a in assumed] == [(True, "annotation")]
    one_index = scattered.replace("2x1xi32", "1x1xi32").replace("2x6xf32", "1x6xf32")
    assert not read_baseline(one_index.encode(), "base.mlir").assumptions
