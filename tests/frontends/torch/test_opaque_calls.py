"""Opaque calls are the same only if every argument is, and where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from scalify_dl.readers.fx import read_text

SIGNATURE = 'x: "f32[4]", w: "f32[4]", n'


def identity(arguments: str, before: str = "", modules: str = "") -> list[tuple[Any, ...]]:
    """What tells the calls of a graph apart."""
    lines = "".join(f"        {line}\n" for line in [*before.splitlines(), f'y: "f32[4]" = torch.ops.{arguments}'])
    text = f"class G(torch.nn.Module):\n    def forward(self, {SIGNATURE}):\n{lines}        return (y,)\n{modules}"
    return [(op.kind, op.numbers, op.symbols, [x.name for x in op.operands]) for op in read_text(text).ops]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x, None, w", "x, w, None"),
        ("x, weight = w", "x, bias = w"),
        ("[x, w], []", "[x], [w]"),
        ("[x, w]", "[x, [w]]"),
        ("x, '1'", "x, 1"),
        ("x, '1.5'", "x, 1.5"),
        ("x, 1", "x, True"),
        ("x, 1", "x, 1.0"),
        ("x, 1", "x, [1]"),
        ("x, [1, 2], [3]", "x, [1], [2, 3]"),
        ("x, []", "x, None"),
        ("x, []", "x"),
        ("x, None", "x"),
        ("x, 'torch.float32'", "x, torch.float32"),
        ("x, 'a\\tb'", "x, 'a b'"),
        ("x, 'a\\\\tb'", "x, 'a\\tb'"),
        ("x, 1", "x, arg0 = 1"),
        ("x, 2, arg1 = 1", "x, 1, arg1 = 2"),
        ("x, form = 'a'", "x, form = 'b'"),
        ("x, ['1', '2']", "x, ['1, 2']"),
        ("x, mode = 'a;b=2'", "x, mode = 'a', b = '2'"),
        ("x, 4294967296", "x, '4294967296'"),
    ],
)
@pytest.mark.parametrize("op", ["mine.kernel.default", "aten.mystery.default"])
def test_calls_with_other_arguments_are_other_calls(op: str, one: str, other: str) -> None:
    assert identity(f"{op}({one})") != identity(f"{op}({other})")
    assert identity(f"{op}({one})") == identity(f"{op}({one})")


def test_the_order_of_keywords_does_not_matter() -> None:
    assert identity("mine.f.default(x, a = w, b = x)") == identity("mine.f.default(x, b = x, a = w)")


def test_numbers_of_a_call_that_the_text_does_not_show_are_told_apart() -> None:
    call = "mine.f.default(x, m)"
    one = identity(call, "m = torch.ops.aten.item.default(x)")
    assert one != identity(call, "m = torch.ops.aten.item.default(w)")
    assert one != identity(call, "k = torch.ops.aten.item.default(x)\nm = k + 1")


def test_a_value_that_nothing_shows_is_an_assumption() -> None:
    text = f"class G(torch.nn.Module):\n    def forward(self, {SIGNATURE}):\n"
    text += '        y: "f32[4]" = torch.ops.mine.f.default(x, n)\n        return (y,)\n'
    assert "the value `n` is the same on both sides" in [what for _, what, _ in read_text(text).assumptions]


def test_other_items_of_a_call_are_other_results() -> None:
    def call(item: int) -> Any:
        text = f"class G(torch.nn.Module):\n    def forward(self, {SIGNATURE}):\n"
        text += f'        k = torch.ops.mine.f.default(x)\n        y: "f32[4]" = k[{item}]\n        return (y,)\n'
        return [op.symbols for op in read_text(text).ops]

    assert call(0) != call(1)


def test_other_branches_are_other_calls() -> None:
    def call(function: str) -> Any:
        inner = '    class body_0(torch.nn.Module):\n        def forward(self, a: "f32[4]"):\n'
        inner += f'            z: "f32[4]" = torch.ops.aten.{function}.default(a)\n            return (z,)\n'
        before = "body_0 = self.body_0"
        return identity("higher_order.strange(body_0, x)", before, modules=inner)

    assert call("sin") != call("cos")


def test_results_may_be_lists_of_lists() -> None:
    lines = [
        "f = torch.ops.aten.mystery.default([x], [w])",
        "a = f[0]",
        'b: "f32[4]" = a[0];  a = None',
        "c = f[1]",
        'd: "f32[4]" = c[1];  c = None',
        'y: "f32[4]" = torch.ops.aten.sub.Tensor(b, d)',
    ]
    body = "".join(f"        {line}\n" for line in lines)
    found = read_text(f"class G(torch.nn.Module):\n    def forward(self, {SIGNATURE}):\n{body}        return (y,)\n")
    assert [op.kind for op in found.ops] == ["unknown:aten.mystery.default", "subtract"]
    assert found.ops[1].operands == found.ops[0].results


def test_keys_of_dicts_are_arguments_too() -> None:
    for one, other in [
        ("{'a': x, 'b': w}", "{'b': x, 'a': w}"),
        ("{'a': x}", "[x]"),
        ("{'a': 1}", "{'b': 1}"),
        ("{'a': {'b': x}}", "{'a': x}"),
    ]:
        assert identity(f"mine.f.default({one})") != identity(f"mine.f.default({other})")
    assert identity("mine.f.default({'a': x, 'b': w})") == identity("mine.f.default({'b': w, 'a': x})")
