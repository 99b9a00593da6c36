"""Megatron-core's tensor-parallel layers and losses on ranks, forwards and backwards, against plain ones."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from scalify_dl.audit.schedules.megatron import without_gpu  # noqa: E402

from .pairs import Function, library, verdict, with_gradients  # noqa: E402

library("megatron.core", "megatron-core is not installed (pip install megatron-core)")

from megatron.core import parallel_state  # noqa: E402
from megatron.core.fusions.fused_cross_entropy import fused_vocab_parallel_cross_entropy  # noqa: E402
from megatron.core.model_parallel_config import ModelParallelConfig  # noqa: E402
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding  # noqa: E402
from megatron.core.tensor_parallel.cross_entropy import vocab_parallel_cross_entropy  # noqa: E402
from megatron.core.tensor_parallel.mappings import copy_to_tensor_model_parallel_region  # noqa: E402
from megatron.core.tensor_parallel.utils import VocabUtility  # noqa: E402

call = torch.func.functional_call
random = torch.randn


def ready(rank: int, ranks: int) -> None:
    """Megatron's process groups, on those of the capture."""
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks, create_gloo_process_groups=False)


def on_a_rank(function: Function) -> Function:
    def called(*values: Any) -> Any:
        with without_gpu():
            return function(*values)

    return called


def labels() -> Any:
    return torch.tensor([[0, 7], [3, 4], [5, 1]])


def entropy(x: Any, y: Any, smoothing: float = 0.0) -> Any:
    rows = F.cross_entropy(x.flatten(0, 1), y.flatten(), reduction="none", label_smoothing=smoothing)
    return rows.view(y.shape)


def own_entropy(x: Any, y: Any) -> Any:
    return vocab_parallel_cross_entropy(x.clone(), y)  # it writes the logits that it is given


def labels_off_by_one(x: Any, y: Any) -> Any:
    def classes(size: int, rank: int, ranks: int) -> tuple[int, int]:
        return rank * size + 1, (rank + 1) * size + 1

    with mock.patch.object(VocabUtility, "vocab_range_from_per_partition_vocab_size", classes):
        return own_entropy(x, y)


def sums_of_one_rank(x: Any, y: Any) -> Any:
    reduce = dist.all_reduce

    def only_maxima(tensor: Any, op: Any = None, group: Any = None) -> None:
        if op == dist.ReduceOp.MAX:
            reduce(tensor, op=op, group=group)

    with mock.patch("torch.distributed.all_reduce", only_maxima):
        return own_entropy(x, y)


def loss(function: Function) -> Function:
    """Loss of each token, and the gradient of logits."""
    return on_a_rank(lambda x, y, g: with_gradients(lambda x: function(x, y))(x, g))


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    ("own", "expected"),
    [(own_entropy, "PROVED"), (labels_off_by_one, "REFUTED"), (sums_of_one_rank, "REFUTED")],
)
def test_cross_entropy_over_a_cut_vocabulary(own: Function, expected: str, ranks: int) -> None:
    values = lambda: [random(3, 2, 8), labels(), random(3, 2)]  # noqa: E731
    assert verdict(loss(entropy), loss(own), values, (2, None, None), ranks, ready) == expected


def test_smoothed_labels_are_another_loss_on_each_rank() -> None:
    """Megatron's smoothing counts and adds up the classes of a rank's own block (0.16)."""

    def own(x: Any, y: Any) -> Any:
        return vocab_parallel_cross_entropy(x.clone(), y, 0.1)

    values = lambda: [random(3, 2, 8), labels(), random(3, 2)]  # noqa: E731
    plain = loss(lambda x, y: entropy(x, y, 0.8 / 7))
    assert verdict(plain, loss(own), values, (2, None, None), 2, ready) == "REFUTED"


@pytest.mark.parametrize("summed", [True, False])
def test_the_fused_cross_entropy_of_logits_in_half_precision(summed: bool) -> None:
    """Sums and predicted logits in one message; its gradient is always of bf16."""

    def own(x: Any, y: Any) -> Any:
        return fused_vocab_parallel_cross_entropy(x.clone(), y, parallel_state.get_tensor_model_parallel_group())

    plain = loss(lambda x, y: entropy(x.float(), y))
    values = lambda: [random(3, 2, 8).bfloat16(), labels(), random(3, 2)]  # noqa: E731
    found = verdict(plain, loss(own if summed else sums_of_one_rank), values, (2, None, None), 2, ready)
    assert found == ("PROVED" if summed else "REFUTED")


def head(x: Any, w: Any, y: Any) -> Any:
    return entropy(F.linear(x, w), y)


def own_head(x: Any, w: Any, y: Any) -> Any:
    return vocab_parallel_cross_entropy(F.linear(copy_to_tensor_model_parallel_region(x), w), y)


def head_without_a_sum(x: Any, w: Any, y: Any) -> Any:
    return vocab_parallel_cross_entropy(F.linear(x, w), y)


@pytest.mark.parametrize(("own", "expected"), [(own_head, "PROVED"), (head_without_a_sum, "REFUTED")])
def test_a_head_with_its_loss(own: Function, expected: str) -> None:
    def of(function: Function) -> Function:
        return on_a_rank(lambda x, w, y, g: with_gradients(lambda x, w: function(x, w, y))(x, w, g))

    values = lambda: [random(3, 2, 4), random(8, 4), labels(), random(3, 2)]  # noqa: E731
    assert verdict(of(head), of(own), values, (None, 0, None, None), 2, ready) == expected


def block(x: Any, up: Any, up_bias: Any, down: Any, down_bias: Any) -> Any:
    return F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias)


def own_block(
    x: Any, up: Any, up_bias: Any, down: Any, down_bias: Any, *, cut: bool = False, summed: bool = True
) -> Any:
    config = ModelParallelConfig(
        tensor_model_parallel_size=2, use_cpu_initialization=True, perform_initialization=False, sequence_parallel=cut
    )
    options = {"config": config, "init_method": torch.nn.init.zeros_, "bias": True, "skip_bias_add": False}
    first = ColumnParallelLinear(8, 16, gather_output=False, **options)
    second = RowParallelLinear(16, 8, input_is_parallel=True, **options)
    inner = F.gelu(call(first, {"weight": up, "bias": up_bias}, (x,))[0])
    if not summed:
        return F.linear(inner, down, down_bias)
    return call(second, {"weight": down, "bias": down_bias}, (inner,))[0]


SHAPES = [(4, 2, 8), (16, 8), (16,), (8, 16), (8,), (4, 2, 8)]


@pytest.mark.parametrize(("summed", "expected"), [(True, "PROVED"), (False, "REFUTED")])
def test_a_column_and_a_row_parallel_layer(summed: bool, expected: str) -> None:
    own = on_a_rank(with_gradients(lambda *a: own_block(*a, summed=summed)))
    values = lambda: map(random, SHAPES)  # noqa: E731
    assert verdict(with_gradients(block), own, values, (None, 0, 0, 1, None, None), 2, ready) == expected


@pytest.mark.parametrize(("summed", "expected"), [(True, "PROVED"), (False, "REFUTED")])
def test_the_same_with_a_cut_sequence(summed: bool, expected: str) -> None:
    """The bias after the sum is replicated, so its gradient is summed over the ranks after the step."""

    def own(*values: Any) -> Any:
        out = on_a_rank(with_gradients(lambda *a: own_block(*a, cut=True)))(*values)
        if summed:
            dist.all_reduce(out["gradient of 4"], group=parallel_state.get_tensor_model_parallel_group())
        return out

    values = lambda: map(random, SHAPES)  # noqa: E731
    assert verdict(with_gradients(block), own, values, (0, 0, 0, 1, None, 0), 2, ready) == expected


@pytest.mark.parametrize(("first", "expected"), [(0, "PROVED"), (1, "REFUTED")])
def test_an_embedding_over_a_cut_vocabulary(first: int, expected: str) -> None:
    def own(ids: Any, w: Any, g: Any) -> Any:
        config = ModelParallelConfig(tensor_model_parallel_size=2, use_cpu_initialization=True)
        with without_gpu():
            table = VocabParallelEmbedding(8, 4, init_method=torch.nn.init.zeros_, config=config)
            table.vocab_start_index += first
            return with_gradients(lambda w: call(table, {"weight": w}, (ids,)))(w, g)

    def plain(ids: Any, w: Any, g: Any) -> Any:
        return with_gradients(lambda w: F.embedding(ids, w))(w, g)

    values = lambda: [labels(), random(8, 4), random(3, 2, 4)]  # noqa: E731
    assert verdict(plain, own, values, (None, 0, None), 2, ready) == expected
