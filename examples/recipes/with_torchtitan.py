"""torchtitan's feed-forward block, cut as its own Llama says: `python examples/recipes/with_torchtitan.py [--bug]`.

Needs `torch` and `torchtitan` with what it imports (triton, tyro, spmd_types); no GPU, no launcher.
"""

from __future__ import annotations

import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import scalify_dl

try:
    from torchtitan.distributed import ParallelDims, parallel_dims
    from torchtitan.models.llama3 import llama3_configs
    from torchtitan.models.llama3.sharding import set_llama3_sharding_config
except ImportError as error:
    print(f"skipped: {error} (pip install torchtitan)", file=sys.stderr)
    sys.exit(3)

parallel_dims.device_type = "cpu"  # torchtitan looks for an accelerator, and takes a GPU for granted

config = llama3_configs["debugmodel"](attn_backend="flex")
config.layers = config.layers[:1]
set_llama3_sharding_config(config, enable_sp=False)
plain = next(iter(config.build().layers.values())).feed_forward
for parameter in plain.parameters():
    nn.init.normal_(parameter)


def parallel(mesh: DeviceMesh) -> nn.Module:
    """The block of one rank; with --bug somebody sums over the ranks what torchtitan has summed already."""
    net, ranks, group = copy.deepcopy(plain), mesh.size(), mesh.get_group("tp")
    dims = ParallelDims(1, 1, cp=1, tp=ranks, pp=1, ep=1, world_size=ranks, spmd_backend="partial_dtensor")
    dims.build_mesh()
    net.parallelize(dims)
    if "--bug" in sys.argv:
        summed = net.forward

        def again(x: torch.Tensor) -> torch.Tensor:
            out = summed(x)
            out = out.to_local() if hasattr(out, "to_local") else out
            dist.all_reduce(out, group=group)
            return out

        net.forward = again
    return net


if __name__ == "__main__":
    report = scalify_dl.verify(plain, parallel, mesh={"tp": 2}, args=(torch.randn(2, 8, 256),))
    report.print()
    sys.exit(report.verdict.exit_code)
