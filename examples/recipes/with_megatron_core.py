"""Megatron-core's tensor-parallel layers against plain ones: `python examples/recipes/with_megatron_core.py [--bug]`.

Needs `torch` and `megatron-core`; no GPU, no launcher. Layers of Megatron ask for a GPU and for process groups of their
own: `without_gpu` and `initialize_model_parallel`, once for each rank that is played, give them both.
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import scalify_dl

try:
    from megatron.core import parallel_state
    from megatron.core.model_parallel_config import ModelParallelConfig
    from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear
except ImportError as error:
    print(f"skipped: {error} (pip install megatron-core)", file=sys.stderr)
    sys.exit(3)

from scalify_dl.audit.schedules.megatron import without_gpu

HIDDEN, INNER = 16, 64


class Plain(nn.Module):
    """The block on one device."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class Parallel(nn.Module):
    """The same block of Megatron's layers; with `bug` the second one's sum over the ranks is forgotten."""

    def __init__(self, config: ModelParallelConfig, bug: bool) -> None:
        super().__init__()
        self.bug = bug
        common = {"config": config, "init_method": nn.init.zeros_, "bias": True, "skip_bias_add": False}
        self.up = ColumnParallelLinear(HIDDEN, INNER, gather_output=False, **common)
        self.down = RowParallelLinear(INNER, HIDDEN, input_is_parallel=True, **common)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner, _ = self.up(x)
        inner = nn.functional.gelu(inner)
        if self.bug:
            return nn.functional.linear(inner, self.down.weight, self.down.bias)
        return self.down(inner)[0]


plain = Plain()


def parallel(mesh: DeviceMesh) -> nn.Module:
    """The parallel block of one rank, with its part of the weights."""
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=mesh.size(), create_gloo_process_groups=False)
    config = ModelParallelConfig(
        tensor_model_parallel_size=mesh.size(), use_cpu_initialization=True, perform_initialization=False
    )
    with without_gpu():
        net = Parallel(config, "--bug" in sys.argv)
    for name, whole in plain.named_parameters():
        part = net.get_parameter(name)
        cut = [dim for dim in range(whole.dim()) if part.shape[dim] != whole.shape[dim]]
        for dim in cut:
            whole = whole.chunk(mesh.size(), dim)[mesh.get_local_rank()]
        part.data.copy_(whole)
    return net


if __name__ == "__main__":
    report = scalify_dl.verify(plain, parallel, mesh={"tp": 2}, args=(torch.randn(8, HIDDEN),))
    report.print()
    sys.exit(report.verdict.exit_code)
