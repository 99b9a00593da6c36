"""Layers as `torch.export` prints them before any decomposition: each computes what torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from scalify_dl.readers.fx import read_text  # noqa: E402

from .torch_eager import run  # noqa: E402

F = torch.nn.functional


def real(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64)


class Layer(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


IMAGES = 2, 4, 6, 6
SPECIAL = torch.tensor([1.0, float("nan"), float("inf"), -float("inf")], dtype=torch.float64)
CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "max pool of rows": (lambda x: F.max_pool1d(x, 2), [real(2, 3, 7)]),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [real(*IMAGES)]),
    "max pool of volumes": (lambda x: F.max_pool3d(x, 2, dilation=2), [real(1, 2, 5, 5, 5)]),
    "average of rows": (lambda x: F.avg_pool1d(x, 3, 2, 1), [real(2, 3, 7)]),
    "average of all": (lambda x: F.adaptive_avg_pool2d(x, 1), [real(*IMAGES)]),
    "averages of blocks": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), [real(*IMAGES)]),
    "averages of blocks of rows": (lambda x: F.adaptive_avg_pool1d(x, 2), [real(2, 3, 8)]),
    "transposed convolution of rows": (
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1), [real(2, 4, 5), real(4, 3, 3), real(3)],
    ),
    "transposed convolution": (
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, groups=2), [real(*IMAGES), real(4, 3, 3, 3)],
    ),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [real(*IMAGES), real(4), real(4)]),
    "instance norm": (lambda x, w: F.instance_norm(x, weight=w), [real(*IMAGES), real(4)]),
    "batch norm in training": (lambda x: F.batch_norm(x, None, None, training=True), [real(*IMAGES)]),
    "batch norm": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), [real(*IMAGES), real(4), real(4).abs(), real(4), real(4)],
    ),
    "selu": (F.selu, [real(3, 4)]),
    "one slope": (F.prelu, [real(3, 4), real(1)]),
    "a slope for each channel": (F.prelu, [real(*IMAGES), real(4)]),
    "the greater number": (lambda x: torch.fmax(x, x.flip(0)), [SPECIAL]),
    "the less number": (lambda x: torch.fmin(x, x.flip(0)), [SPECIAL]),
    "numbers in place of none": (torch.nan_to_num, [SPECIAL]),
    "given numbers in place of none": (lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), [SPECIAL]),
    "what is not zero": (lambda x: torch.count_nonzero(x.relu(), 1), [real(3, 4)]),
    "product over dims": (lambda x, y: torch.tensordot(x, y, ([2, 0], [1, 0])), [real(3, 2, 4), real(3, 4, 5)]),
    "outer product added": (lambda x, a, b: torch.addr(x, a, b, beta=2, alpha=3), [real(2, 3), real(2), real(3)]),
    "a quarter turn": (lambda x: torch.rot90(x, 3, (2, 0)), [real(2, 3, 4)]),
    "pieces of unlike sizes": (lambda x: torch.cat(torch.tensor_split(x, 3)[::-1]), [real(5, 2)]),
    "reflected": (lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"), [real(*IMAGES)]),
    "edges again": (lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"), [real(*IMAGES)]),
    "round again": (lambda x: F.pad(x, (1, 2, 3, 0), mode="circular"), [real(*IMAGES)]),
}  # fmt: skip


def text(function: Callable[..., Any], args: list[Any]) -> str:
    program = torch.export.export(Layer(function), tuple(args))
    return str(program.graph_module.print_readable(print_output=False))


@pytest.mark.parametrize(("function", "args"), CASES.values(), ids=CASES)
def test_it_computes_what_torch_computes(function: Callable[..., Any], args: list[Any]) -> None:
    graph = read_text(text(function, args))
    assert not [op.kind for op in graph.ops if op.kind.startswith(("unknown:", "custom:"))]
    (found,) = run(graph, args)
    torch.testing.assert_close(torch.tensor(found.copy()), function(*args))


@pytest.mark.parametrize("where", [3, [1, -2], [4, 1]])
def test_writes_to_pieces_reach_what_they_are_pieces_of(where: Any) -> None:
    def step(x: Any) -> Any:
        whole = x * 1
        first, *_, last = torch.tensor_split(whole, where)
        first.mul_(2)
        last.add_(1)
        return whole

    x = real(5, 2)
    (found,) = run(read_text(text(step, [x])), [x])
    torch.testing.assert_close(torch.tensor(found), step(x))


def test_statistics_that_a_batch_norm_keeps_are_written() -> None:
    x, mean, variance = real(*IMAGES), torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)

    def step(x: Any, mean: Any, variance: Any) -> Any:
        out = F.batch_norm(x, mean, variance, training=True, momentum=0.25)
        return out, mean * 1, variance * 1

    graph = read_text(text(step, [x, mean, variance]))
    found = run(graph, [x, mean, variance])
    for have, want in zip(found, (*step(x, mean, variance), mean, variance), strict=True):
        torch.testing.assert_close(torch.tensor(have), want)


def test_padding_of_more_than_there_is_is_refused() -> None:
    good = text(lambda x: F.pad(x, (1, 1), mode="reflect"), [real(2, 3, 4)])
    with pytest.raises(Exception, match="padding of 4 by `reflect` of a dim of 4"):
        read_text(good.replace("[1, 1]", "[4, 1]"))
