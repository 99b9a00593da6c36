"""Pairs of one device or several ranks, of functions of tensors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import scalify_dl

Function = Callable[..., Any]
Cut = int | Callable[[Any, int, int], Any] | None
"""Along which dim an argument is cut, or what a rank has of it (argument, rank, ranks)."""


def library(name: str, why: str) -> Any:
    """The module of a library, or the tests that ask for it are skipped."""
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")  # read once, by whatever library imports vLLM first
    folders = [x for x in os.environ.get("SCALIFY_LIBRARIES", "").split(os.pathsep) if x and x not in sys.path]
    sys.path[:0] = folders
    return pytest.importorskip(name, reason=why, exc_type=ImportError)


def named(names: str, function: Function) -> Function:
    """The function with a name for each result."""

    def called(*values: Any) -> dict[str, Any]:
        results = function(*values)
        return dict(zip(names.split(), results if isinstance(results, tuple | list) else [results], strict=True))

    return called


def with_gradients(function: Function, count: int = 0) -> Function:
    """Result and gradients of the first arguments (or all); the last one is the cotangent."""
    import torch

    def called(*values: Any) -> dict[str, Any]:
        *given, cotangent = values
        among = count or len(given)
        given = [x.detach().requires_grad_() if n < among else x for n, x in enumerate(given)]
        result = function(*given)
        gradients = torch.autograd.grad(result, given[:among], cotangent)
        return {"result": result.detach(), **{f"gradient of {n}": x for n, x in enumerate(gradients)}}

    return called


@contextmanager
def at_once() -> Iterator[None]:
    """What asks to be compiled runs as it is written."""
    import torch

    torch.compiler.set_stance("force_eager")
    try:
        yield
    finally:
        torch.compiler.set_stance("default")


def verdict(
    base: Function,
    other: Function,
    values: Callable[[], Sequence[Any]],
    cuts: Sequence[Cut] | None = None,
    ranks: int = 1,
    ready: Callable[[int, int], Any] = lambda rank, ranks: None,
) -> str:
    """What is said of two functions of tensors, the second of which each rank runs on its part of them.

    `ready` is called for each rank (rank, number of ranks) before it runs.
    """
    import torch

    def build(mesh: Any = None) -> Any:
        torch.manual_seed(0)
        given = list(values())
        if mesh is None:
            return torch.nn.Identity(), tuple(given), lambda _, *args: base(*args)
        rank = mesh.get_local_rank("tp")
        for n, cut in enumerate(cuts or []):
            if callable(cut):
                given[n] = cut(given[n], rank, ranks)
            elif cut is not None:
                given[n] = given[n].chunk(ranks, cut)[rank].contiguous()
        ready(rank, ranks)
        return torch.nn.Identity(), tuple(given), lambda _, *args: other(*args)

    with at_once():
        return str(scalify_dl.verify(build, mesh={"tp": ranks}).verdict)
