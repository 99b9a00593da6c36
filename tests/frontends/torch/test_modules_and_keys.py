"""Names that say what is what: keywords of sub-modules, what these hold, keys of what is returned."""

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.readers.fx import read_text
from scalify_dl.readers.fx.annotation import Annotations

LINEAR = """
    class {name}(torch.nn.Module):
        def forward(self, x: "f32[4]", y: "f32[4]"):
            w: "f32[4]" = self.{held}
            s: "f32[4]" = torch.ops.aten.mul.Tensor(x, w)
            d: "f32[4]" = torch.ops.aten.sub.Tensor(s, y)
            return d
"""


def graph(
    *lines: str, returned: str = "(z,)", held: str = "weight", constants: dict[str, object] | None = None
) -> Graph:
    body = "".join(f"        {line}\n" for line in lines)
    modules = LINEAR.format(name="one", held=held) + LINEAR.format(name="two", held=held)
    text = f'class G(torch.nn.Module):\n    def forward(self, a: "f32[4]", b: "f32[4]"):\n{body}'
    text += f"        return {returned}\n"
    return read_text(text + modules, file="g.fx.txt", annotations=Annotations(constants=constants or {}))


def operands(found: Graph) -> list[list[str]]:
    return [[x.name for x in op.operands] for op in found.ops]


def test_keywords_of_a_sub_module_are_taken_by_name() -> None:
    plain = graph('z: "f32[4]" = self.one(a, b)')
    assert operands(graph('z: "f32[4]" = self.one(y = b, x = a)')) == operands(plain)
    assert operands(graph('z: "f32[4]" = self.one(y = a, x = b)')) != operands(plain)
    for line in ("self.one(a)", "self.one(a, b, a)", "self.one(a, z = b)", "self.one(a, b, y = b)"):
        with pytest.raises(InputError, match="takes 2 arguments"):
            graph(f'z: "f32[4]" = {line}')


def test_sub_modules_hold_weights_of_their_own_and_one_called_twice_holds_one() -> None:
    found = graph('k: "f32[4]" = self.two(a, b)', 'l: "f32[4]" = self.one(k, b)', 'z: "f32[4]" = self.two(l, b)')
    assert [port.path for port in found.inputs[2:]] == ["two.weight", "one.weight"]
    assert len({port.tensor.name for port in found.inputs}) == 4


def test_a_constant_of_a_sub_module_has_not_the_value_of_one_outside() -> None:
    values = {"_tensor_constant0": [1, 2, 3, 4], "two._tensor_constant0": [5, 6, 7, 8]}
    lines = ['c: "f32[4]" = self._tensor_constant0', 'k: "f32[4]" = self.one(a, c)', 'z: "f32[4]" = self.two(k, b)']
    found = graph(*lines, held="_tensor_constant0", constants=values)
    literals = [op.result.literal for op in found.ops if op.kind == "constant"]
    assert [None if x is None or x.is_elided else x.text for x in literals] == ["{1,2,3,4}", None, "{5,6,7,8}"]


def test_returned_values_are_told_by_their_keys() -> None:
    lines = ['y: "f32[4]" = torch.ops.aten.sin.default(a)', 'z: "f32[4]" = torch.ops.aten.cos.default(b)']
    found = graph(*lines, returned="{'loss': y, 'more': [z, a]}")
    assert [port.path for port in found.outputs] == ["output ['loss']", "output ['more'][0]", "output ['more'][1]"]
    assert [port.path for port in graph(*lines, returned="(y, [z])").outputs] == [None, None]
