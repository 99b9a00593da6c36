"""vLLM's tensor-parallel layers against plain ones: `python examples/recipes/with_vllm.py [--bug]`.

Needs `torch` and `vllm`; no GPU, no engine, no launcher. Layers of vLLM ask for a configuration and for a group of
ranks, which an engine sets up: here both are made of the mesh. Each op is taken in the way that it has for any device.
"""

from __future__ import annotations

import sys
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import scalify_dl

try:
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.model_executor.layers.activation import SiluAndMul
    from vllm.model_executor.layers.linear import MergedColumnParallelLinear, RowParallelLinear
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
except ImportError as error:
    print(f"skipped: {error} (pip install vllm)", file=sys.stderr)
    sys.exit(3)

HIDDEN, INNER = 16, 64


class Plain(nn.Module):
    """The block on one device."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(HIDDEN, INNER, bias=False), nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Parallel(nn.Module):
    """The same block of vLLM's layers; with `bug` the second one's sum over the ranks is forgotten."""

    def __init__(self, bug: bool) -> None:
        super().__init__()
        self.gate_up = MergedColumnParallelLinear(HIDDEN, [INNER, INNER], bias=False, prefix="gate_up")
        self.down = RowParallelLinear(INNER, HIDDEN, bias=False, prefix="down", reduce_results=not bug)
        self.act = SiluAndMul()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner, _ = self.gate_up(x)
        return self.down(self.act.forward_native(inner))[0]


plain = Plain()


def parallel(mesh: DeviceMesh) -> nn.Module:
    """The parallel block of one rank, with its part of the weights: of the gate, below it of the other one."""
    new, ranks, mine = dist.new_group, mesh.size(), mesh.get_local_rank()
    with (
        mock.patch("torch.distributed.new_group", lambda ranks=None, **options: new(ranks)),  # no GPU's backend
        set_current_vllm_config(VllmConfig(device_config=DeviceConfig("cpu"))),
    ):
        parallel_state._TP = parallel_state.GroupCoordinator([list(range(ranks))], 0, "fake", True, group_name="tp")
        net = Parallel("--bug" in sys.argv)
    gate, up = (layer.weight.detach().chunk(ranks)[mine] for layer in (plain.gate, plain.up))
    net.gate_up.weight = nn.Parameter(torch.cat((gate, up)))
    net.down.weight = nn.Parameter(plain.down.weight.detach().chunk(ranks, 1)[mine].clone())
    for layer in (net.gate_up, net.down):
        dispatch_cpu_unquantized_gemm(layer, remove_weight=False)  # what vLLM does once weights are loaded
    return net


FUSED = {"of": ["gate.weight", "up.weight"], "dim": 0, "dims": {0: ["tp"]}}  # two weights in a row, each in blocks

if __name__ == "__main__":
    report = scalify_dl.verify(
        plain, parallel, mesh={"tp": 2}, args=(torch.randn(8, HIDDEN),), relate={"inputs": {"gate_up.weight": FUSED}}
    )
    report.print()
    sys.exit(report.verdict.exit_code)
