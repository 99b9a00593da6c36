"""A place in the user's files says whether the op computes what stands there, or differentiates it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402
from torch import nn  # noqa: E402

import scalify_dl  # noqa: E402
from scalify_dl.capture import jax as of_jax  # noqa: E402
from scalify_dl.readers.fx import read  # noqa: E402
from scalify_dl.report import junit, sarif  # noqa: E402


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.up(x)).square().sum()


def steps(mesh: Any) -> Any:
    torch.manual_seed(0)

    def step(model: Any, x: Any) -> dict[str, Any]:
        model(x).backward()
        return {"grad": model.up.weight.grad}

    return Plain(), (torch.ones(2, 4),), step


def test_ops_of_the_backward_are_told_from_those_of_the_forward(tmp_path: Path) -> None:
    captured = scalify_dl.capture_step(steps, {"tp": 2}, tmp_path / "step")
    functions = {op.kind: op.source[0].function for op in read(captured.base).ops if op.source}
    text = captured.base.read_text()
    assert "in forward, code: return torch.tanh" in text
    assert "in forward, backward, code: return torch.tanh" in text
    assert functions["tanh"] == "forward"
    assert "the backward of forward" in functions.values()


def test_a_joint_graph_says_it_too(tmp_path: Path) -> None:
    from scalify_dl.capture.torch import capture_pair

    def build(mesh: Any) -> Any:
        return Plain(), (torch.ones(2, 4),), {}

    base = capture_pair(build, {"tp": 2}, tmp_path / "joint")[0]
    functions = [op.source[0].function for op in read(base).ops if op.source]
    assert "forward" in functions
    assert "the backward of forward" in functions


def loss(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w))


def summed(w: Any, x: Any) -> Any:
    return jax.lax.psum(loss(w, x), "dp")


def test_jax_says_it_in_all_formats(tmp_path: Path) -> None:
    mesh = jax.sharding.AbstractMesh((2,), ("dp",))

    def grad(w: Any, x: Any) -> Any:
        return jax.grad(loss)(w, x)

    def wrong(w: Any, x: Any) -> Any:
        body = jax.shard_map(grad, mesh=mesh, in_specs=(P(), P("dp")), out_specs=P(), check_vma=False)
        return body(w, x)

    report = of_jax.verify(grad, wrong, (jnp.ones((4, 8)), jnp.ones((2, 4))), mesh)
    assert report.verdict == "REFUTED"
    cause = report.frontier[0]
    assert cause.source[0].backward
    assert "in the backward of" in report.text()
    assert report.to_dict()["frontier"][0]["backward"] is True
    assert "in the backward of" in junit.render([("pair", report.found)])
    assert "backward" in sarif.render(report.found)
