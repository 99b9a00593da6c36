"""`opaque=`: an op of a library that torch has in Python stays one call, and what such a call may not do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

import numpy as np  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import scalify_dl  # noqa: E402
from scalify_dl.errors import InputError  # noqa: E402
from scalify_dl.prove.verdict import Verdict  # noqa: E402

Body = Callable[[torch.Tensor], torch.Tensor]
TABLE = torch.arange(8.0)


def op(name: str, body: Body, like: Body = torch.empty_like) -> Any:
    made = torch.library.custom_op(f"dlverify_opaque::{name}", body, mutates_args=(), schema="(Tensor x) -> Tensor")
    made.register_fake(like)
    return made


gate = op("gate", lambda x: x * torch.sigmoid(x) * 1.5)
gate_backward = op("gate_backward", lambda x: torch.sigmoid(x) * 2.0)
gate.register_autograd(
    lambda ctx, grad: grad * gate_backward(*ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class Block(nn.Module):
    """Two linear layers with the gate between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(gate(self.up(x)))


class Parallel(Block):
    """A rank's part of it; `sums` says over whether the products are added up."""

    def __init__(self, whole: Block, mesh: Any, sums: bool) -> None:
        super().__init__()
        n, rank = mesh.size(), mesh.get_local_rank("tp")
        for part, of, dim in ((self.up, whole.up, 0), (self.down, whole.down, 1)):
            part.weight = nn.Parameter(of.weight.detach().chunk(n, dim)[rank].clone())
        self.up.bias = nn.Parameter(whole.up.bias.detach().chunk(n)[rank].clone())
        self.sums = sums

    def forward(self, x: Any) -> Any:
        out = super().forward(x)
        if self.sums:
            dist.all_reduce(out)
        return out


RULES = 'opaque("custom:dlverify_opaque.gate", "a gate").\nelementwise("custom:dlverify_opaque.gate").\n'


def verified(rules: Path | None, sums: bool = True, **more: Any) -> scalify_dl.Report:
    whole = Block()
    return scalify_dl.verify(
        whole, lambda mesh: Parallel(whole, mesh, sums), mesh={"tp": 2}, args=(torch.randn(4, 8),),
        rules=[rules] if rules else None, **more,
    )  # fmt: skip


def test_it_is_proved_by_rules_and_listed(tmp_path: Path) -> None:
    rules = tmp_path / "gate.dl"
    rules.write_text(RULES)
    report = verified(rules, opaque=["dlverify_opaque::gate"])
    assert report.verdict is Verdict.PROVED
    why = {(a.why, a.text) for a in report.found.assumptions}
    assert ("opaque", "custom:dlverify_opaque.gate a gate") in why
    assert any(w == "effects of a custom op" and "follow from them alone" in text for w, text in why)
    assert verified(rules, sums=False, opaque=["dlverify_opaque.*"]).verdict is not Verdict.PROVED


def test_nothing_is_proved_of_it_without_rules() -> None:
    assert verified(None, opaque=["dlverify_opaque.gate"]).verdict is Verdict.UNKNOWN


def test_what_is_not_named_is_what_it_calls() -> None:
    report = verified(None)
    assert report.verdict is Verdict.PROVED
    assert not any("custom" in a.why for a in report.found.assumptions)


def test_its_backward_is_recorded(tmp_path: Path) -> None:
    rules = tmp_path / "gate.dl"
    rules.write_text(RULES + RULES.replace(".gate", ".gate_backward"))
    whole, given = Block(), torch.randn(4, 8)

    def build(mesh: Any = None) -> Any:
        model = whole if mesh is None else Parallel(whole, mesh, True)

        def step(model: Any, x: Any) -> Any:
            model(x).square().sum().backward()
            return {f"grad {name}": p.grad for name, p in model.named_parameters()}

        return model, (given,), step

    report = scalify_dl.verify(build, mesh={"tp": 2}, opaque=["dlverify_opaque.gate*"], rules=[rules])
    assert report.verdict is Verdict.PROVED
    assert {a.why for a in report.found.assumptions} > {"opaque", "rules", "effects of a custom op"}


def adds(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    dist.all_reduce(out)
    return out


inner = op("inner", lambda x: x * TABLE)
OTHERS = {
    "table": (lambda x: x * TABLE, "reads a tensor that it is not given"),
    "table_by_numpy": (lambda x: torch.from_numpy(x.detach().numpy() * TABLE.numpy()), "that it is not given"),
    "inside": (lambda x: inner(x), "reads a tensor that it is not given"),
    "random": (lambda x: x + torch.rand_like(x), "draws random numbers"),
    "writes": (lambda x: x.add_(1.0) * 2.0, "writes its argument"),
    "communicates": (adds, "communicates"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_function_of_its_arguments_stops_the_capture(name: str) -> None:
    body, told = OTHERS[name]
    made = op(name, body)

    def build(mesh: Any = None) -> Any:
        return nn.Identity(), (torch.randn(4, 8),), lambda _, x: {"y": made(x) if mesh is not None else x + 1.0}

    with pytest.raises(InputError, match=told):
        scalify_dl.verify(build, mesh={"tp": 2}, opaque=[f"dlverify_opaque.{name}"])


@pytest.mark.parametrize(
    "body",
    [
        lambda x: torch.from_numpy(np.tanh(x.detach().numpy())),
        lambda x: x * torch.tensor([2.0]) + torch.arange(8),
        lambda x: x * float(x.sum()),
    ],
)
def test_values_of_its_arguments_are_its_own(body: Body) -> None:
    made = op(f"function_{id(body)}", body)
    report = scalify_dl.verify(
        lambda x: made(x) + 1.0, lambda: lambda x: made(x) + 1.0, mesh={"tp": 2}, args=(torch.randn(4, 8),),
        opaque=["dlverify_opaque.function_*"],
    )  # fmt: skip
    assert report.verdict is Verdict.UNKNOWN


def test_a_name_that_no_program_runs_is_told() -> None:
    with pytest.raises(InputError, match=r"(?s)no op `dlverify_opaque.gat` ran.*did you mean dlverify_opaque.gate"):
        verified(None, opaque=["dlverify_opaque.gat"])
