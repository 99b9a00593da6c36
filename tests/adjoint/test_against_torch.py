"""Derived backwards against `torch.autograd`, op by op: the cases of the lowering's own test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from scalify_dl.audit.adjoints.executed import gradients  # noqa: E402

from ..frontends.torch.test_lowering_against_torch import CASES, Case  # noqa: E402
from ..frontends.torch.torch_eager import flat, lowered  # noqa: E402


def compared(case: Case) -> tuple[int, dict[str, str]]:
    """How many gradients were compared, and what has none."""
    _, function, make = case
    torch.manual_seed(0)
    args = make()
    reals = [n for n, x in enumerate(args) if isinstance(x, torch.Tensor) and x.dtype == torch.float64]
    try:
        wanting = [x.clone().requires_grad_(n in reals) if n in reals else x for n, x in enumerate(args)]
        results = flat(function(*[x.clone() if n in reals else x for n, x in enumerate(wanting)]))
    except RuntimeError:
        return 0, {"torch": "takes no gradient"}
    cotangents = {
        n: torch.randn_like(y) for n, y in enumerate(results) if y.dtype == torch.float64 and y.requires_grad
    }
    if not cotangents or not reals:
        return 0, {"torch": "no real result"}
    graph = lowered(function, args)
    tensors = [n for n, x in enumerate(args) if isinstance(x, torch.Tensor)]
    numbers = [args[n].numpy() for n in tensors]
    found, why, left = gradients(graph, numbers, {n: g.numpy() for n, g in cotangents.items()})
    if not left:
        return 0, why
    kept = sorted(left)
    try:
        wanted = torch.autograd.grad([results[n] for n in kept], [wanting[n] for n in reals],
                                     [cotangents[n] for n in kept], allow_unused=True)  # fmt: skip
    except (RuntimeError, NotImplementedError) as error:
        return 0, {"torch": str(error)[:80]}
    for n, want in zip(reals, wanted, strict=True):
        x: Any = np.zeros(args[n].shape) if want is None else want.numpy()
        np.testing.assert_allclose(found.get(tensors.index(n), np.zeros(x.shape)), x, rtol=1e-7, atol=1e-7)
    return len(kept), why


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_derived_gradient_is_that_of_torch(case: Case) -> None:
    count, why = compared(case)
    if not count:
        pytest.skip(str(why))
