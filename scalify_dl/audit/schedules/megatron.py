"""`python -m scalify_dl.audit.schedules.megatron OUT [--ranks 4 --batches 8 --chunks 2 --overlap]`: Megatron-LM's own
schedules, recorded rank by rank on a CPU (there has to be a `megatron.core`), for `dlverify schedule OUT/run_*.json`.

The functions that run are `megatron.core.pipeline_parallel.schedules` and its `P2PCommunicator`, on the fake process
group; stages are one linear layer. What they ask of a GPU is given by the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from scalify_dl.capture.torch.timeline import recording

HIDDEN = 4


class _OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """Tensors asked for on a GPU are made on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if str(named.get("device", "")).startswith("cuda"):
            named["device"] = "cpu"
        return func(*args, **named)


@contextlib.contextmanager
def without_gpu() -> Iterator[None]:
    """What asks for a GPU gets the CPU."""
    with (
        mock.patch("torch.cuda.current_device", return_value="cpu"),
        mock.patch("torch.cuda.synchronize"),
        _OnCpu(),
    ):
        yield


def _stage(config: Any, chunk: int | None) -> Any:
    from megatron.core.enums import ModelType

    class Stage(torch.nn.Module):  # type: ignore[misc]
        """One linear layer, which takes its input as Megatron's models do."""

        model_type = ModelType.encoder_or_decoder

        def __init__(self) -> None:
            super().__init__()
            self.config, self.vp_stage, self.received = config, chunk, None
            self.linear = torch.nn.Linear(HIDDEN, HIDDEN)

        def set_input_tensor(self, tensors: Any) -> None:
            """What the stage before has sent, or None."""
            self.received = tensors[0]

        def forward(self, x: Any) -> Any:
            """Of what was received, else of the data."""
            return torch.tanh(self.linear(x if self.received is None else self.received))

    return Stage()


def _train_step(ranks: int, batches: int, chunks: int, options: dict[str, Any]) -> None:
    from megatron.core import parallel_state
    from megatron.core.model_parallel_config import ModelParallelConfig
    from megatron.core.pipeline_parallel.schedules import get_forward_backward_func

    virtual = chunks if chunks > 1 else None
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=ranks,
        virtual_pipeline_model_parallel_size=virtual,
        create_gloo_process_groups=False,
    )
    try:
        config = ModelParallelConfig(
            pipeline_model_parallel_size=ranks,
            virtual_pipeline_model_parallel_size=virtual,
            pipeline_dtype=torch.float32,
            **options,
        )
        config.hidden_size = HIDDEN
        config.fine_grained_activation_offloading = False
        get_forward_backward_func(ranks, virtual)(
            forward_step_func=lambda data, stage: (stage(next(data)), lambda y: (y.sum(), y.detach())),
            data_iterator=[iter([torch.ones(2, 1, HIDDEN)] * batches) for _ in range(chunks)],
            model=[_stage(config, chunk if virtual else None) for chunk in range(chunks)],
            num_microbatches=batches,
            seq_length=2,
            micro_batch_size=1,
        )
    finally:
        parallel_state.destroy_model_parallel()


def record(out: Path, ranks: int, batches: int, chunks: int = 1, **options: Any) -> list[Path]:
    """The runs of all ranks, as files; `options` are of Megatron's ModelParallelConfig."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for rank in range(ranks):
        with without_gpu(), recording(rank, ranks) as run:
            _train_step(ranks, batches, chunks, options)
        files.append(out / f"run_{rank}.json")
        run.write(files[-1])
    return files


def main() -> int:
    """Prints what was written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--chunks", type=int, default=1, help="model chunks of a rank: more than one interleaves")
    parser.add_argument("--overlap", action="store_true", help="messages go on while a rank computes (chunks > 1)")
    given = parser.parse_args()
    options = {"batch_p2p_comm": False, "overlap_p2p_comm": True} if given.overlap else {}
    print("\n".join(map(str, record(given.out, given.ranks, given.batches, given.chunks, **options))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
