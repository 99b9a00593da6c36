"""DeepSpeed's tensor-parallel layers (AutoTP) against plain ones: `python examples/recipes/with_deepspeed.py [--bug]`.

Needs `torch` and `deepspeed` (`DS_BUILD_OPS=0 pip install deepspeed`); no GPU, no launcher.
"""

from __future__ import annotations

import copy
import sys
from unittest import mock

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import scalify_dl

try:
    from deepspeed import comm
    from deepspeed.module_inject.layers import LinearAllreduce, LinearLayer
except ImportError as error:
    print(f"skipped: {error} (pip install deepspeed)", file=sys.stderr)
    sys.exit(3)

HIDDEN, INNER = 16, 64


class MLP(nn.Module):
    """The block, on one device; and, with DeepSpeed's layers in place of its own, on several."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


plain = MLP()


def parallel(mesh: DeviceMesh) -> nn.Module:
    """The block of one rank, which DeepSpeed cuts; with --bug the second layer is cut as the first one is."""
    with mock.patch("deepspeed.comm.torch.build_shm_op", return_value=None):  # else it compiles one
        comm.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)  # takes the process group that there is
    group, net = mesh.get_group("tp"), copy.deepcopy(plain)
    net.up = LinearLayer(net.up, group)
    net.down = LinearAllreduce(net.down, group)
    if "--bug" in sys.argv:
        net.down.forward = lambda x: nn.functional.linear(x, net.down.weight, net.down.bias)  # the sum is forgotten
    return net


if __name__ == "__main__":
    report = scalify_dl.verify(plain, parallel, mesh={"tp": 2}, args=(torch.randn(8, HIDDEN),))
    report.print()
    sys.exit(report.verdict.exit_code)
