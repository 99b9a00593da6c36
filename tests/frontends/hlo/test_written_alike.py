"""Instructions and functions that are written alike, as those of layers are, are lowered once and made again."""

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.readers.hlo.again import Again

from .texts import REDUCER, X, read

OTHER = REDUCER.replace("%add ", "%plus ").replace("%a", "%p").replace("%pdd", "%add").replace("%s", "%t")
MAXIMUM = REDUCER.replace("%add ", "%most ").replace(" add(", " maximum(")
LAYER = """\
  %a{n} = f32[8,16]{{1,0}} add({x}, {x}), metadata={{op_name="layer"}}
  %b{n} = f32[8,16]{{1,0}} transpose(%t{m}), dimensions={{1,0}}
  %s{n} = f32[8,16]{{1,0}} select(%c, %a{n}, %b{n})
  %z{n} = f32[] constant(0)
  %r{n} = f32[8]{{0}} reduce(%s{n}, %z{n}), dimensions={{1}}, to_apply=%{f}
  %w{n} = f32[8,16]{{1,0}} broadcast(%r{n}), dimensions={{0}}
  %t{n} = f32[16,8]{{1,0}} transpose(%w{n}), dimensions={{1,0}}
"""
START = X + "  %c = pred[8,16]{1,0} compare(%x, %x), direction=LT\n"
START += "  %t0 = f32[16,8]{1,0} transpose(%x), dimensions={1,0}\n"


def layers(*functions: str) -> str:
    text, x = START, "%x"
    for n, function in enumerate(functions, 1):
        text, x = text + LAYER.format(n=n, m=n - 1, x=x, f=function), f"%w{n}"
    return text + f"  ROOT %o = f32[8,16]{{1,0}} negate({x})"


def rows(graph: Graph) -> list[tuple[object, ...]]:
    return [
        (op.kind, op.name, [t.name for t in op.operands], [(t.name, t.type) for t in op.results], op.numbers,
         op.symbols, op.at, op.rounding, len(op.regions))
        for op in graph.ops
    ]  # fmt: skip


def test_layers_are_read_as_if_each_stood_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = layers("add", "plus", "most", "add"), REDUCER + OTHER + MAXIMUM
    found = rows(read(*text))
    monkeypatch.setattr(Again, "made", lambda *_: None)
    assert found == rows(read(*text))
    reducers = [row[5]["reducer"] for row in found if row[0] == "reduce"]  # type: ignore[index, call-overload]
    assert reducers == [["sum"], ["sum"], ["max"], ["sum"]]


def test_an_operand_of_another_type_is_another_op() -> None:
    text = (
        X
        + "  %h = bf16[8,16]{1,0} convert(%x)\n  %i = s32[8,16]{1,0} convert(%x)\n"
        + "  %a = pred[8,16]{1,0} compare(%i, %i), direction=LT\n  %b = pred[8,16]{1,0} compare(%x, %x), direction=LT\n"
        + "  %p = pred[] constant(true)\n  %q = f32[8,16]{1,0} select(%a, %x, %x)\n"
        + "  %r = f32[8,16]{1,0} select(%p, %x, %x)\n  ROOT %o = f32[8,16]{1,0} select(%b, %q, %r)"
    )
    kinds = [op.kind for op in read(text).ops]
    assert (kinds.count("broadcast"), kinds.count("select")) == (1, 3)


ALL = "replica_groups={{0,1}}, use_global_device_ids=true"
COLLECTIVES = "".join(
    f"  %g{n} = f32[8,16]{{1,0}} all-reduce(%x), channel_id={n}, {ALL}, to_apply=%{f}\n"
    for n, f in enumerate(("add", "plus", "most", "plus"), 1)
)


def test_layers_share_attributes_and_have_channels_of_their_own() -> None:
    graph = read(X + COLLECTIVES + "  ROOT %o = f32[8,16]{1,0} negate(%g4)", REDUCER + OTHER + MAXIMUM, "tp=2")
    found = [op for op in graph.ops if op.kind == "all-reduce"]
    assert [op.channel for op in found] == [1, 2, 3, 4]
    assert [op.symbols["reducer"] for op in found] == [["sum"], ["sum"], ["max"], ["sum"]]
    assert found[1].symbols is found[3].symbols


def test_what_looks_like_a_channel_in_a_string_is_none() -> None:
    said = f'{ALL}, to_apply=%add, backend_config=", channel_id=9"'
    lines = [f"  %g{n} = f32[8,16]{{1,0}} all-reduce(%x), channel_id={n}, {said}\n" for n in (1, 2)]
    graph = read(X + "".join(lines) + "  ROOT %o = f32[8,16]{1,0} add(%g1, %g2)", REDUCER, "tp=2")
    assert [op.channel for op in graph.ops if op.kind == "all-reduce"] == [1, 2]


def test_reductions_from_other_numbers_or_of_other_sizes_are_others() -> None:
    text = X + "  %z = f32[] constant(0)\n  %i = f32[] constant(1)\n"
    text += "  %h = f32[8,32]{1,0} concatenate(%x, %x), dimensions={1}\n"
    for n, (x, start) in enumerate((("x", "z"), ("x", "i"), ("h", "z"), ("x", "z"), ("h", "z"))):
        text += f"  %r{n} = f32[8]{{0}} reduce(%{x}, %{start}), dimensions={{1}}, to_apply=%add\n"
    graph = read(text + "  ROOT %o = f32[8]{0} add(%r1, %r4)", REDUCER)
    kinds = [(op.kind, op.operands[0].shape) for op in graph.ops if op.kind in ("reduce", "add")]
    assert kinds == [
        ("reduce", (8, 16)), ("reduce", (8, 16)), ("add", (8,)), ("reduce", (8, 32)), ("reduce", (8, 16)),
        ("reduce", (8, 32)), ("add", (8,)),
    ]  # fmt: skip


def test_functions_that_are_kept_are_each_kept() -> None:
    odd = "%odd (p: f32[], q: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n  %q = f32[] parameter(1)\n"
    odd += "  ROOT %u = f32[] subtract(%p, %q)\n}\n"
    text = X + "  %z = f32[] constant(0)\n"
    for n in range(2):
        text += f"  %r{n} = f32[8]{{0}} reduce(%x, %z), dimensions={{1}}, to_apply=%odd\n"
    graph = read(text + "  ROOT %o = f32[8]{0} add(%r0, %r1)", odd)
    first, second = (op for op in graph.ops if op.kind == "reduce")
    (one,), (other,) = first.regions, second.regions
    assert one is not other


@pytest.mark.parametrize(
    ("line", "operands"),
    [
        ("%b2 = f32[8,16]{1,0} transpose(%w1), dimensions={1,0}", ["w1"]),
        ("%a2 = f32[8,16]{1,0} add(%x, %x, %x)", ["x", "x", "x"]),
    ],
)
def test_a_later_layer_that_is_wrong_is_read_as_it_is(line: str, operands: list[str]) -> None:
    name = line.split(" = ")[0]
    right = layers("add", "add").split("\n")
    lines = [f"  {line}" if old.strip().startswith(f"{name} =") else old for old in right]
    (op,) = (op for op in read("\n".join(lines), REDUCER).ops if op.name == name.removeprefix("%"))
    assert [t.name for t in op.operands] == operands


def test_a_name_given_twice_in_a_function_is_told_though_one_alike_was_met() -> None:
    sums = "%t = f32[] add(%p, %b)"
    twice = OTHER.replace(f"ROOT {sums}", f"{sums}\n  ROOT {sums}")
    with pytest.raises(InputError, match="is defined twice"):
        read(layers("add", "plus"), REDUCER + twice)


def test_a_function_that_is_none_known_is_kept_with_each_op() -> None:
    odd = REDUCER.replace("add(%a, %b)", "subtract(%a, %b)").replace("%add ", "%odd ")
    graph = read(layers("odd", "odd"), odd)
    kept = [op.regions for op in graph.ops if op.kind == "reduce"]
    assert [len(regions) for regions in kept] == [1, 1]
    assert kept[0][0] is not kept[1][0]
