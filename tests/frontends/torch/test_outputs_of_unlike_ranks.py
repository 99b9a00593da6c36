"""Ranks that do something else each, and return a block each of one output."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import scalify_dl  # noqa: E402


def builder(*, sign: float = 1.0) -> Any:
    """Each half of a vector, the first one added to the second: the first rank sends it, the second one adds it."""

    def build(mesh: Any = None) -> Any:
        x = torch.arange(8.0)
        if mesh is None:
            return torch.nn.Identity(), (x,), lambda m, x: {"out": torch.cat((x[:4], x[4:] + x[:4].sin()))}
        rank = mesh.get_local_rank("sp")

        def step(m: Any, x: Any) -> Any:
            if rank == 0:
                dist.send(x, 1)
                return {"out": x}
            got = torch.empty_like(x)
            dist.recv(got, 0)
            return {"out": x + sign * got.sin()}

        return torch.nn.Identity(), (x.chunk(2)[rank],), step

    return build


def test_blocks_of_unlike_programs_are_one_output() -> None:
    report = scalify_dl.verify(builder(), mesh={"sp": 2})
    assert report.verdict == "PROVED"
    assert len(report.outputs) == 1


def test_a_block_that_is_wrong_is_refuted() -> None:
    assert scalify_dl.verify(builder(sign=-1.0), mesh={"sp": 2}).verdict == "REFUTED"
