"""A short campaign of random programs: what is read of them is what torch computes. Also what it found."""

from __future__ import annotations

import ast
import inspect
import json
import os
import random
import signal
import textwrap
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from scalify_dl.audit.children import Say  # noqa: E402
from scalify_dl.audit.torch_reader import campaign, one  # noqa: E402
from scalify_dl.audit.torch_reader.captures import CAPTURES  # noqa: E402
from scalify_dl.audit.torch_reader.compare import Outcome, outcome  # noqa: E402
from scalify_dl.audit.torch_reader.ranks import RankProgram, Said  # noqa: E402
from scalify_dl.audit.torch_reader.recipes_ranks import overloads_of_ranks  # noqa: E402
from scalify_dl.audit.torch_reader.report import Found, Report  # noqa: E402
from scalify_dl.audit.torch_reader.world import Program, Step, Var  # noqa: E402
from scalify_dl.cli import app  # noqa: E402
from scalify_dl.readers.fx import read_text  # noqa: E402
from scalify_dl.readers.fx.lowering import LOWERINGS  # noqa: E402

aten = torch.ops.aten


def test_random_programs_are_read_as_torch_computes_them() -> None:
    report = campaign.run(20.0, 1, 150)
    assert report.programs == 150
    assert [(f.capture, f.message, f.program) for f in report.failures] == []
    assert report.checked > 500


def test_the_command_reports_programs_and_what_was_never_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["readers", "check", "torch", "--count", "3", "--seed", "4"]
    with pytest.raises(SystemExit) as stopped:
        app([*arguments, "--json"])
    assert stopped.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["programs"], found["failures"]) == (3, [])
    never = found["never_drawn"]
    assert "dim" in never["aten.sum.dim_IntList"]
    assert never["aten._softmax.default"]["half_to_float"] == "for half input on a GPU"


def test_a_program_that_ends_torch_is_named_and_the_next_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch divides the least integer by -1 with the machine's instruction, which is the end of the process."""
    monkeypatch.setattr(campaign, "programs", _ends_at_every_third)
    report = campaign.run(60.0, 0, 7)
    assert (report.programs, report.checked, report.failures) == (7, 5, [])
    assert report.ended == {2: "SIGFPE at aten.div.Tensor_mode", 5: "SIGFPE at aten.div.Tensor_mode"}


def _ends_at_every_third(say: Say, report: Report, first: int, count: int, writes: bool) -> Iterator[Found]:
    for seed in range(first, first + count):
        if seed % 3 == 2:
            say("aten.div.Tensor_mode")
            os.kill(os.getpid(), signal.SIGFPE)
        yield Found(seed, checked=1)


def _then(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], then: Any, *rest: Any) -> list[Step]:
    return [Step(op, args, kwargs, ((0, ()),)), Step(then, (Var(0), *rest), {}, ((1, ()),))]


WHOLE = {"dtype": torch.int64}
BEYOND = {
    "nan as an integer": ([inf - inf, 1.0], _then(aten._to_copy.default, (Var(-1),), WHOLE, aten.lt.Scalar, 0)),
    "a sum of nan as an integer": ([inf - inf], _then(aten.sum.default, (Var(-1),), WHOLE, aten.lt.Scalar, 0)),
    "sigmoid, where exp(95) leaves f32": ([-95.0] * 9, _then(aten.sigmoid.default, (Var(-1),), {}, aten.log.default)),
    "silu, where exp(90) does": ([-90.0] * 9, _then(aten.silu.default, (Var(-1),), {}, aten.reciprocal.default)),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND)
def test_what_kernels_make_of_numbers_beyond_their_type_is_no_fault_of_the_reader(name: str) -> None:
    numbers, steps = BEYOND[name]
    tried = one.attempt(Program([torch.tensor(numbers)], steps), "written")
    assert not isinstance(tried, str)
    assert (tried[0].failure, tried[0].checked) == (None, 3)


def test_a_mean_that_is_zero_but_for_rounding_is_no_fault_of_the_reader() -> None:
    """The kernel's mean, by Welford's way, is 6e-8; its reciprocal, squared, is of one sign."""
    row = torch.tensor([[1.75, 1.125, 2.875, -3.75, 1.625, -3.625]])
    steps = [
        Step(aten.native_layer_norm.default, (Var(-1), [6], None, None, 0.125), {}, tuple((i, (i,)) for i in range(3))),
        Step(aten.reciprocal.default, (Var(1),), {}, ((3, ()),)),
        Step(aten.pow.Tensor_Scalar, (Var(3), 2.0), {}, ((4, ()),)),
    ]
    tried = one.attempt(Program([row], steps), "written")
    assert not isinstance(tried, str)
    assert tried[0].failure is None


def test_sparse_gradients_are_not_compared() -> None:
    step = Step(aten.embedding.default, (Var(-1), Var(-2), -1, False, True), {}, ((0, ()),))
    program = Program([torch.randn(4, 3), torch.tensor([1, 2])], [step])
    assert one.attempt(program, "gradients") == "a sparse gradient, which text does not show"


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_wrong_lowering_is_noticed(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(c: Any, x: Any, y: Any, *, alpha: Any = 1) -> Any:
        return c.add(x, y)

    monkeypatch.setitem(LOWERINGS, "aten.add", wrong)
    inputs = [torch.randn(2, 3), torch.randn(3)]
    step = Step(aten.add.Tensor, (Var(-1), Var(-2)), {"alpha": 2}, ((0, ()),))
    program = Program(inputs, [step])
    tried = one.attempt(program, capture)
    assert not isinstance(tried, str)
    assert tried[0].failure is not None


NOTHING = torch.zeros(0, dtype=torch.int64)
LOGS, PLACES = torch.linspace(-2, -0.5, 12).view(1, 3, 2, 2), torch.tensor([[[0, 1], [2, 1]]])
HALF = torch.tensor([0.25, 0.5], dtype=torch.float16)
CALLS: dict[str, tuple[Any, ...]] = {
    "scalar": (aten.max.dim, [torch.tensor(2.5), 0]),
    "scalar argmax": (aten.argmax.default, [torch.tensor(2.5), 0, True]),
    "scalar softmax": (aten._softmax.default, [torch.tensor(2.5), 0, False]),
    "scalar cumsum": (aten.cumsum.default, [torch.tensor(3), 0]),
    "flip no dims": (aten.flip.default, [torch.arange(3.0), []]),
    "adjoint": (aten.adjoint.default, [torch.tensor([[1 + 2j, 3j], [2, 1 - 1j]])]),
    "vdot": (aten.vdot.default, [torch.tensor([1 + 2j, 3j]), torch.tensor([2j, 1 - 1j])]),
    "split by sizes": (aten.split.default, [torch.arange(5.0), [2, 0, 3]]),
    "chunk nothing": (aten.chunk.default, [torch.zeros(0), 3]),
    "square of booleans": (aten.square.default, [torch.tensor([True, False])]),
    "booleans added by a factor": (aten.add.Tensor, [torch.tensor([False]), torch.tensor([True])], {"alpha": False}),
    "log of a sum of bytes": (aten.logsumexp.default, [torch.tensor([0, 255, 1], dtype=torch.uint8), [0]]),
    "whole factors": (aten.addcmul.default, [torch.arange(3), torch.arange(3), torch.arange(3)], {"value": 0.5}),
    "factor in the wider type": (aten.rsub.Scalar, [torch.tensor([2**62]), 0.5, 4]),
    "threshold": (aten.threshold_backward.default, [torch.tensor([3]), torch.tensor([0.5]), 0]),
    "bounds of integers": (aten.hardtanh.default, [torch.tensor([3, -3]), -1.0, 1.0]),
    "all in bytes": (aten.all.dim, [torch.tensor([3, 1], dtype=torch.uint8), 0]),
    "no difference": (aten.diff.default, [torch.arange(3.0), 0]),
    "differences of nothing": (aten.diff.default, [torch.zeros(2), 4]),
    "bounds in integers": (aten.arange.start_step, [-2, 7.5, 1.5], {"dtype": torch.int32}),
    "to": (aten.to.device, [torch.tensor([1.5]), torch.device("cpu"), torch.int32]),
    "nothing by several indices": (aten.index.Tensor, [torch.zeros(0, 3), [NOTHING, NOTHING]]),
    "nothing by indices that are apart": (aten.index.Tensor, [torch.zeros(2, 3, 0), [NOTHING, None, NOTHING]]),
    "integers cropped, an infinity added nowhere": (aten.constant_pad_nd.default, [torch.arange(3), [-1, 0], inf]),
    "cropped on both sides": (aten.pad.default, [torch.arange(12).view(3, 4), [-1, -1, 0, -1], "constant", 2]),
    "cropped and padded": (aten.constant_pad_nd.default, [torch.arange(12).view(3, 4), [-1, 2, 1, -1], 7]),
    "variance of nothing": (aten.var.correction, [torch.zeros(0, 3), [0]], {"correction": -1}),
    "deviation of nothing": (aten.std.correction, [torch.zeros(2, 0)], {"correction": -0.5}),
    "losses of places by weighed classes": (
        aten.nll_loss2d_forward.default, [LOGS, PLACES, torch.tensor([1.0, 0.5, -2.0]), 1, 0]
    ),
    "gradients of places by weighed classes": (
        aten.nll_loss2d_backward.default,
        [torch.tensor(3.0), LOGS, PLACES, torch.tensor([1.0, 0.5, -2.0]), 1, 0, torch.tensor(2.0)],
    ),
    "cross entropy that is smoothed": (aten.cross_entropy_loss.default, [LOGS, PLACES, None, 1, 2, 0.25]),
    "cross entropy of probabilities": (aten.cross_entropy_loss.default, [LOGS, LOGS.exp(), None, 1, -100, 0.5]),
    "binary losses by weights": (
        aten.binary_cross_entropy_with_logits.default,
        [torch.tensor([1.0, -2.0]), torch.tensor([0.25, 1.0]), torch.tensor([3.0, 2.0]), torch.tensor(2.5)],
    ),
    "factors that are a tensor": (
        aten._foreach_addcmul.Tensor, [[torch.arange(3)], [torch.arange(3)], [torch.arange(3)], torch.tensor([2.75])]
    ),
    "start that is a tensor": (aten.narrow.Tensor, [torch.arange(6).view(2, 3), 1, torch.tensor(-2), 2]),
    "bits of integers": (aten.view.dtype, [torch.tensor([1, -2], dtype=torch.int8), torch.uint8]),
    "written behind other dims": (
        aten.index_put.default,
        [torch.zeros(2, 3, 4), [None, torch.tensor([2, 0])], torch.arange(16.0).view(2, 2, 4), True],
    ),
    "written at dims that are apart": (
        aten.index_put.default,
        [torch.zeros(2, 3, 4), [torch.tensor([1, 0]), None, torch.tensor([3, -1])], torch.arange(6.0).view(2, 3)],
    ),
    "threshold below numbers that become real": (
        aten.threshold_backward.default, [torch.tensor([1.5, 2.5]), torch.tensor([False, True]), -0.75]
    ),
    "weights of another type": (
        aten._foreach_lerp.List, [[torch.tensor(1.0)], [torch.tensor(4.0)], [torch.tensor(3, dtype=torch.uint8)]]
    ),
    "a gradient that is weighted in place": (
        aten.binary_cross_entropy_backward.default,
        [HALF[:, None], HALF[:, None], HALF[:, None], HALF.bfloat16()[:, None]],
    ),
    "the greatest truth that is written, without what was there": (
        aten.scatter_reduce.two,
        [torch.tensor([False, True]), 0, torch.tensor([0]), torch.tensor([False]), "amax"],
        {"include_self": False},
    ),
    "a loss that is weighted in place": (
        aten.binary_cross_entropy.default, [torch.tensor(0.5), torch.tensor(0.5), torch.tensor(2.0).double()]
    ),
    "variance and mean of nothing": (aten.var_mean.correction, [torch.zeros(2, 0), [1]], {"correction": -2}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_the_programs_found(name: str) -> None:
    found = _read(*CALLS[name])
    assert (found.failure, found.refused, found.unknown) == (None, None, {})


def _read(function: Any, arguments: list[Any], keywords: dict[str, Any] | None = None) -> Outcome:
    """What becomes of a program of one call."""
    keywords = keywords or {}
    flat = [x for value in [*arguments, *keywords.values()] for x in (value if isinstance(value, list) else [value])]
    tensors = list({id(x): x for x in flat if isinstance(x, torch.Tensor)}.values())
    numbers = {id(x): Var(-1 - i) for i, x in enumerate(tensors)}

    def named(value: Any) -> Any:
        return [named(x) for x in value] if isinstance(value, list) else numbers.get(id(value), value)

    shown = {key: named(value) for key, value in keywords.items()}
    inputs = [x.clone() for x in tensors]
    out = function(*arguments, **keywords)
    results = tuple((i, (i,)) for i in range(len(out))) if isinstance(out, list | tuple) else ((0, ()),)
    program = Program(inputs, [Step(function, tuple(map(named, arguments)), shown, results)])
    text, want, _ = CAPTURES["written"](program)
    return outcome(text, inputs, want)


UNKNOWN: dict[str, tuple[Any, ...]] = {
    "a kernel that keeps another shape than the product": (
        aten.addmv.default, [torch.tensor(2.0), torch.zeros(0, 3), torch.zeros(3)]
    ),
    "an infinite factor of integers that is not used": (
        aten.addmm.default,
        [NOTHING[None], torch.ones(1, 2, dtype=torch.int64), NOTHING.expand(2, 0)],
        {"alpha": inf},
    ),
    "an infinity in the place of integers that is written nowhere": (
        aten.scatter.value, [torch.arange(0), 0, torch.arange(0), -inf]
    ),
    "weights of a norm that are not one for each channel": (
        aten._native_batch_norm_legit.no_stats, [torch.ones(3, 3), torch.ones(3, 3), None, True, 0.1, 1e-5]
    ),
    "a gradient of a norm of another shape": (
        aten.native_batch_norm_backward.default,
        [torch.ones(4, 5), torch.ones(4, 1), None, *[torch.ones(1)] * 4, False, 3.0, [True, True, True]],
    ),
    "an `out` of a norm that keeps no statistics, resized": (
        aten.native_batch_norm.out,
        [torch.ones(3, 2, 6), None, torch.ones(1, 6), None, None, True, 1.0, 3.0],
        {"out": torch.ones(2, 6), "save_mean": torch.ones(6), "save_invstd": torch.ones(2, 3)},
    ),
    "statistics of a norm, beside an `out` that is resized": (
        aten.native_batch_norm.out,
        [torch.ones(5, 1, 2), None, torch.ones(5, 1, 2), torch.ones(2), torch.ones(1), True, 0.125, 0.5],
        {"out": torch.ones(5), "save_mean": torch.ones(2, 1), "save_invstd": torch.ones(1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_has_no_meaning_is_unknown_and_no_bad_input(name: str) -> None:
    found = _read(*UNKNOWN[name])
    assert (found.failure, found.refused, len(found.unknown)) == (None, None, 1)


def test_what_is_written_into_what_is_read_has_the_size_that_it_is_turned_to() -> None:
    """A list of tensors to write into, of other sizes than the parts, one of them what is split."""
    lines = [
        "s = torch.ops.aten.unsafe_split_with_sizes.out(x, [0, 2], out = [y, x])",
        'z: "f32[0, 3]" = torch.ops.aten.mul_.Scalar(y, 0.5)',
    ]
    head = 'class G(torch.nn.Module):\n    def forward(self, x: "f32[2, 3]", y: "f32[2, 3]"):\n'
    graph = read_text(head + "".join(f"        {line}\n" for line in lines) + "        return (z, x)\n")
    assert [op.kind.partition(":")[0] for op in graph.ops if op.kind != "constant"][::2] == ["unknown", "multiply"]
    assert [port.tensor.shape for port in graph.outputs[:2]] == [(0, 3), (2, 3)]


def test_arguments_that_no_lowering_knows_make_an_op_unknown() -> None:
    lines = [
        "torch.ops.aten.mm.dtype(x, x, torch.float32)",
        "torch.ops.aten.zeros.default([2, 2], strange = 1)",
        "torch.ops.aten.ones_like.default(x, layout = torch.sparse_coo)",
        "torch.ops.aten.clone.default(x, 7)",
        "torch.ops.aten.conv1d.default(x, x, None, [1], 'same')",
    ]
    for line in lines:
        text = f'class G(torch.nn.Module):\n    def forward(self, x: "f32[2, 2]"):\n        y: "f32[2, 2]" = {line}\n'
        assert [op.kind.partition(":")[0] for op in read_text(text + "        return (y,)\n").ops] == ["unknown"]


WITHOUT_EFFECT = {
    "dropout_p", "copy", "non_blocking", "cudnn_enable", "sparse_grad", "sorted", "implicit", "compute_log_sumexp",
    "return_debug_mask", "padding_idx", "scale_grad_by_freq", "sparse", "memory_efficient", "out", "result",
    "cudnn_enabled", "output_padding", "path", "output_size", "kv_cache_dummy_dep", "bias_sizes",
    "unsafe", "offset2bag", "bag_size", "maximum_indices",
}  # fmt: skip
"""Parameters that lowerings may leave unread: they change how, not what (or only in forms that are refused)."""


def test_gradients_of_a_norm_have_the_types_of_what_they_are_gradients_of() -> None:
    inputs = [torch.randn(3, 4).bfloat16(), torch.randn(4), torch.randn(4)]
    step = Step(aten.layer_norm.default, (Var(-1), [4], Var(-2), Var(-3)), {}, ((0, ()),))
    tried = one.attempt(Program(inputs, [step]), "gradients")
    assert not isinstance(tried, str)
    assert (tried[0].failure, tried[0].refused, tried[0].unknown) == (None, None, {})


def test_every_argument_of_a_lowering_is_read() -> None:
    unread = set()
    for name, function in LOWERINGS.items():
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        body = tree.body[0]
        assert isinstance(body, ast.FunctionDef)
        if isinstance(body.body[-1], ast.Raise):
            continue
        read = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
        for parameter in inspect.signature(function).parameters:
            if parameter not in read and not parameter.startswith("_") and parameter not in WITHOUT_EFFECT | {"c"}:
                unread.add((name, parameter))
    assert unread == set()


def test_a_tensor_that_is_perhaps_one_whose_view_changed_has_no_known_type() -> None:
    """`contiguous` hands back its operand, which `t_` turns: the other name sees it turned."""
    steps = [
        Step(aten.contiguous.default, (Var(-1),), {}, ((0, ()),)),
        Step(aten.t_.default, (Var(-1),), {}, ((1, ()),)),
        Step(aten.exp.default, (Var(0),), {}, ((2, ()),)),
    ]
    program = Program([torch.ones(2, 3)], steps)
    text, want, _ = CAPTURES["written"](program)
    found = outcome(text, program.fresh(), want)
    assert (found.failure, found.refused, "aten.exp.default" in found.unknown) == (None, None, True)


@pytest.mark.parametrize(("second", "wrong"), [(aten.sgn.default, None), (aten.neg.default, "1 of 4 elements differ")])
def test_what_a_kernel_cancels_counts_as_rounding(second: Any, wrong: str | None, monkeypatch: Any) -> None:
    """gelu of -7 is -9e-12, or 0 where 1 + erf(-7 / √2) is rounded; a number that is wrong by more is told."""
    steps = [Step(aten.gelu.default, (Var(-1),), {}, ((0, ()),)), Step(second, (Var(0),), {}, ((1, ()),))]
    program = Program([torch.tensor([-4.0, -0.875, -7.0, 2.75])], steps)
    text, want, _ = CAPTURES["written"](program)
    if wrong is not None:
        want[1] = want[1] + torch.tensor([0.0, 0.001, 0.0, 0.0])
    found = outcome(text, program.fresh(), want)
    assert found.failure is None if wrong is None else wrong in str(found.failure)


def _of_ranks(seeds: range) -> list[Found]:
    allowed = overloads_of_ranks()[0]
    missing = {o.name: {""} for o in allowed}
    return [one.of_ranks(lambda text: None, Report(missing), random.Random(n), Found(n)) for n in seeds]


def test_programs_of_several_ranks_are_read_as_ranks_compute_them() -> None:
    found = _of_ranks(range(12))
    assert [f.failure for f in found if f.failure is not None] == []
    assert sum(f.checked for f in found) > 100


def test_a_wrong_lowering_of_a_collective_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(c: Any, x: Any, src: int, *group: object) -> Any:
        return LOWERINGS["c10d_functional.all_reduce"](c, x, "max", *group)

    monkeypatch.setitem(LOWERINGS, "_c10d_functional.broadcast", wrong)
    program = RankProgram(
        Program(
            [torch.tensor([1.0, 5.0])],
            [Step(torch.ops._c10d_functional.broadcast.default, (Var(-1), 1, Said("group")), {}, ((0, ()),))],
        ),
        [[0, 2], [1, 3]],
        [[torch.full((2,), float(n))] for n in (2, 3, 4)],
    )
    tried = one.attempt(program, one.RANKS)
    assert not isinstance(tried, str)
    assert tried[0].failure is not None
    monkeypatch.undo()
    tried = one.attempt(program, one.RANKS)
    assert not isinstance(tried, str)
    assert (tried[0].failure, tried[0].refused, tried[0].unknown) == (None, None, {})
