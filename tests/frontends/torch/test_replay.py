"""A recorded text, run again: what it does not give is told, but for what rounding makes of numbers that cancel."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from scalify_dl.capture.torch.replay import differing  # noqa: E402

TEXT = """class M(torch.nn.Module):
    def forward(self, x: "f32[4]"):
        sum_1: "f32[]" = torch.ops.aten.sum.default(x)
        mul: "f32[4]" = torch.ops.aten.mul_.Tensor(x, 2.0)
        return (sum_1, mul)
"""


@pytest.mark.parametrize(("first", "second", "told"), [(0.0, 2.0, []), (1.0, 2.0, [0]), (0.0, 2.5, [1])])
def test_what_a_text_does_not_give_is_told(first: float, second: float, told: list[int]) -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert differing(TEXT, {"x": x.clone()}, {}, {}, {}, [x.sum() + first, x * second]) == told


def test_what_rounding_leaves_of_numbers_that_cancel_is_not() -> None:
    x = torch.tensor([1e8, 3.0, -1e8, 1.0])
    assert differing(TEXT, {"x": x.clone()}, {}, {}, {}, [x.double().sum().float(), x * 2]) == []
    assert differing(TEXT, {"x": x.clone()}, {}, {}, {}, [x.sum() + 1e6, x * 2]) == [0]
