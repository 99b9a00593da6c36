"""What libraries compute on one device, against other ways to compute it on several ranks: captured, PROVED, and with a
planted bug not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
llama = pytest.importorskip("transformers.models.llama.modeling_llama")

import torch.distributed as dist  # noqa: E402
from torch.distributed import _functional_collectives as functional  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.optim.adamw import adamw as library_adamw  # noqa: E402

import scalify_dl  # noqa: E402


class Grouped(torch.nn.Module):
    num_key_value_groups = 1


def attention_pair(ranks: int, *, rescaled: bool = True) -> Any:
    """Hugging Face's eager attention, against a ring with a running maximum and sum."""

    def build(mesh: Any = None) -> Any:
        torch.manual_seed(0)
        qkv = [torch.randn(1, 1, 4, 2) for _ in range(3)]
        if mesh is None:

            def whole(m: Any, q: Any, k: Any, v: Any) -> Any:
                return {"out": llama.eager_attention_forward(Grouped().eval(), q, k, v, None, 0.5)[0].transpose(1, 2)}

            return torch.nn.Identity(), tuple(qkv), whole
        rank = mesh.get_local_rank("sp")

        def handed(*blocks: Any) -> list[Any]:
            """Blocks of keys and values, each rank's to the next one."""
            got = [torch.empty_like(x) for x in blocks]
            sent = [dist.P2POp(dist.isend, x.contiguous(), (rank + 1) % ranks) for x in blocks]
            received = [dist.P2POp(dist.irecv, x, (rank - 1) % ranks) for x in got]
            for work in dist.batch_isend_irecv([*sent, *received]):
                work.wait()
            return got

        def ring(m: Any, q: Any, k: Any, v: Any) -> Any:
            top = total = out = None
            for n in range(ranks):
                scores = q @ k.transpose(2, 3) * 0.5
                here = scores.amax(-1, keepdim=True)
                higher = here if top is None else torch.maximum(top, here)
                weights = torch.exp(scores - higher)
                if top is None:
                    total, out = weights.sum(-1, keepdim=True), weights @ v
                else:
                    old = torch.exp(top - higher) if rescaled else 1.0
                    total, out = total * old + weights.sum(-1, keepdim=True), out * old + weights @ v
                top = higher
                if n < ranks - 1:
                    k, v = handed(k, v)
            return {"out": out / total}

        return torch.nn.Identity(), tuple(x.chunk(ranks, 2)[rank] for x in qkv), ring

    return build


OPTIONS = {"amsgrad": False, "beta1": 0.9, "beta2": 0.999, "lr": 1e-3, "eps": 1e-8, "maximize": False}


def optimiser_pair(*, decay: float = 0.01) -> Any:
    """The library's AdamW, against one whose state is sharded."""

    def build(mesh: Any = None) -> Any:
        torch.manual_seed(0)
        p, g, m, v = torch.randn(4, 2), torch.randn(4, 2), torch.randn(4, 2), torch.rand(4, 2)
        if mesh is None:

            def whole(_: Any, p: Any, g: Any, m: Any, v: Any) -> Any:
                p, m, v = p.clone(), m.clone(), v.clone()
                library_adamw([p], [g], [m], [v], [], [torch.tensor(2.0)], weight_decay=0.01, foreach=False, **OPTIONS)
                return {"p": p, "m": m, "v": v}

            return torch.nn.Identity(), (p, g, m, v), whole
        rank = mesh.get_local_rank("dp")

        def sharded(_: Any, p: Any, g: Any, m: Any, v: Any) -> Any:
            p, g = (x.chunk(2)[rank] for x in (p, g))
            m, v = torch.lerp(m, g, 0.1), v * 0.999 + g * g * 0.001
            root = (1 - 0.999**3) ** 0.5
            p = p * (1 - 1e-3 * decay) - 1e-3 / (1 - 0.9**3) * m / (v.sqrt() / root + 1e-8)
            out = torch.empty(4, 2)
            dist.all_gather_into_tensor(out, p)
            return {"p": out, "m": m, "v": v}

        return torch.nn.Identity(), (p, g, m.chunk(2)[rank], v.chunk(2)[rank]), sharded

    return build


def entropy_pair(*, whole_rows: bool = True) -> Any:
    """The library's cross entropy and its gradient, against a vocabulary over ranks."""

    def build(mesh: Any = None) -> Any:
        torch.manual_seed(0)
        x, y = torch.randn(3, 4), torch.tensor([0, 3, 1])
        if mesh is None:

            def whole(_: Any, x: Any, y: Any) -> Any:
                x = x.requires_grad_()
                loss = F.cross_entropy(x, y)
                return {"loss": loss.detach(), "gradient": torch.autograd.grad(loss, x)[0]}

            return torch.nn.Identity(), (x, y), whole
        rank = mesh.get_local_rank("tp")

        def parallel(_: Any, x: Any, y: Any) -> Any:
            world = dist.group.WORLD
            weights = torch.exp(x - functional.all_reduce(x.amax(-1, keepdim=True), "max", world))
            total = weights.sum(-1, keepdim=True)
            p = weights / (functional.all_reduce(total, "sum", world) if whole_rows else total)
            hit = (y[:, None] == torch.arange(2) + 2 * rank).float()
            loss = -torch.log(functional.all_reduce((p * hit).sum(-1), "sum", world)).mean()
            return {"loss": loss, "gradient": (p - hit) / 3}

        return torch.nn.Identity(), (x.chunk(2, 1)[rank], y), parallel

    return build


PAIRS: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, int]]] = {
    "a ring of two": (lambda **bug: attention_pair(2, **bug), {"rescaled": False}, {"sp": 2}),
    "a ring of four": (lambda **bug: attention_pair(4, **bug), {"rescaled": False}, {"sp": 4}),
    "a sharded optimiser": (optimiser_pair, {"decay": 0.1}, {"dp": 2}),
    "a vocabulary over ranks": (entropy_pair, {"whole_rows": False}, {"tp": 2}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_equal_is_proved_and_a_planted_bug_is_refuted(name: str) -> None:
    build, bug, mesh = PAIRS[name]
    assert scalify_dl.verify(build(), mesh=mesh).verdict == "PROVED"
    assert scalify_dl.verify(build(**bug), mesh=mesh).verdict == "REFUTED"
