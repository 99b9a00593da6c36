"""Whatever verifies a pair gives the same kind of report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from torch import nn  # noqa: E402

import scalify_dl  # noqa: E402
from scalify_dl.capture import jax as of_jax  # noqa: E402

ROOT = Path(__file__).parents[2]


def torch_step(mesh: Any) -> Any:
    torch.manual_seed(0)
    return nn.Linear(4, 4), (torch.ones(2, 4),), lambda model, x: {"y": model(x)}


def added(x: Any) -> dict[str, Any]:
    return {"y": x + 1.0}


def jax_step(mesh: Any) -> Any:
    whole = jax.sharding.PartitionSpec()
    step = added if mesh is None else jax.shard_map(added, mesh=mesh, in_specs=whole, out_specs=whole)
    return jax.jit(step), (jnp.ones((2, 4)),)


def assert_shown(report: Any) -> None:
    assert isinstance(report, scalify_dl.Report)
    assert report.verdict == "PROVED"
    assert report.text().startswith("PROVED")
    assert "<iframe" in report._repr_html_()
    assert report.rows("output_verdict")


def test_a_captured_step_of_torch(tmp_path: Path) -> None:
    assert_shown(scalify_dl.capture_step(torch_step, {"tp": 2}, tmp_path / "step").verify())


def test_a_captured_step_of_jax(tmp_path: Path) -> None:
    assert_shown(of_jax.capture_step(jax_step, {"tp": 2}, tmp_path / "step").verify())


def test_functions_of_jax() -> None:
    mesh = jax.sharding.AbstractMesh((2,), ("tp",))
    whole = jax.sharding.PartitionSpec()
    dist = jax.shard_map(lambda x: x + 1.0, mesh=mesh, in_specs=whole, out_specs=whole)
    assert_shown(of_jax.verify(lambda x: x + 1.0, dist, (jnp.ones((2, 4)),), mesh))


def test_a_reader_that_stops_early_is_no_error() -> None:
    code = "import scalify_dl, sys; report = scalify_dl.verify(sys.argv[1]); report.print(); report.print()"
    facts = ROOT / "facts" / "row_parallel_linear"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(facts)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0
