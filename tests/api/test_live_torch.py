"""`scalify_dl.verify` on live torch: modules, functions, losses with gradients, whole steps."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.tensor import Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

import scalify_dl  # noqa: E402
from scalify_dl.errors import InputError  # noqa: E402


class MLP(nn.Module):
    """Up, activation, down."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))


def parallel(model: Any, **plan: Any) -> Any:
    return lambda mesh: parallelize_module(copy.deepcopy(model), mesh, plan)


def test_a_module_and_its_parallel_twin() -> None:
    torch.manual_seed(0)
    model, x = MLP(), torch.randn(2, 4)
    good = parallel(model, up=ColwiseParallel(), down=RowwiseParallel())
    report = scalify_dl.verify(model, good, mesh={"tp": 2}, args=(x,))
    assert report.verdict == "PROVED"


class Renamed(nn.Module):
    """The twin by hand, whose parameters have other names, in another order."""

    def __init__(self, model: Any, mesh: Any) -> None:
        super().__init__()
        rank, size = mesh.get_local_rank("tp"), mesh.size()
        self.b, self.a = (nn.Parameter(w.detach().chunk(size)[rank].clone()) for w in (model.b.weight, model.a.weight))
        self.group = mesh.get_group("tp")

    def forward(self, x: Any) -> Any:
        y = (nn.functional.linear(x, self.a).tanh() * nn.functional.linear(x, self.b)).sum()
        dist.all_reduce(y, group=self.group)
        return y


class Gated(nn.Module):
    """Two weights of one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 8, bias=False), nn.Linear(4, 8, bias=False)

    def forward(self, x: Any) -> Any:
        return (self.a(x).tanh() * self.b(x)).sum()


def test_parameters_of_other_names_are_told_by_their_values() -> None:
    model = Gated()
    report = scalify_dl.verify(model, lambda mesh: Renamed(model, mesh), mesh={"tp": 2}, args=(torch.randn(2, 4),))
    assert report.verdict == "PROVED"
    assert {a.why for a in report.assumptions} <= {"annotation", "schedule"}
    assert ("b after the step", "b.weight after the step") in {(o.name, o.base) for o in report.outputs}


def test_a_mesh_of_one_rank_places_nothing() -> None:
    report = scalify_dl.verify(torch.relu, lambda mesh: torch.relu, mesh={"tp": 1}, args=(torch.ones(2),))
    assert report.verdict == "PROVED"


@pytest.mark.parametrize(
    ("base", "other", "whys", "told"),
    [
        (lambda x: {"a": x + 1}, lambda x: {"b": x + 1}, ["order"], ""),
        (lambda x: (x + 1, None, x), lambda x: (x + 1, x, None), ["order"], ""),
        (lambda x: (x + 1, 3), lambda x: (x + 1, 4), [], "output 1, which is no tensor (3)"),
    ],
)
def test_outputs_of_another_name_or_place_are_listed_and_what_is_no_tensor_is_told(
    base: Any, other: Any, whys: list[str], told: str
) -> None:
    report = scalify_dl.verify(base, lambda mesh: other, mesh={"tp": 1}, args=(torch.ones(2),))
    assert report.verdict == "PROVED"
    assert [a.why for a in report.found.assumptions if a.why == "order"] == whys
    assert told in report.text()


def test_a_function_that_makes_its_own_mesh_and_a_wrapped_module_with_a_bug() -> None:
    from torch.distributed.device_mesh import init_device_mesh

    torch.manual_seed(0)
    model, x = MLP(), torch.randn(2, 4)

    def own() -> Any:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        return parallel(model, up=ColwiseParallel(), down=RowwiseParallel())(mesh)

    assert scalify_dl.verify(model, own, mesh={"tp": 2}, args=(x,), rules=None).verdict == "PROVED"

    class Twice(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x) * 2

    wrong = scalify_dl.verify(model, lambda mesh: Twice(own()), mesh={"tp": 2}, args=(x,))
    assert wrong.verdict == "REFUTED"  # parameters are called `inner.up.weight` there


def test_a_function_and_what_ranks_do_instead(tmp_path: Path) -> None:
    def whole(x: Any, w: Any) -> Any:
        return x @ w

    def sharded(reduce: bool) -> Any:
        def on(mesh: Any) -> Any:
            rank, n = mesh.get_local_rank("tp"), mesh.size()

            def local(x: Any, w: Any) -> Any:
                out = x @ w
                if reduce:
                    dist.all_reduce(out, group=mesh.get_group("tp"))
                return out

            return local, (x.chunk(n, 1)[rank].clone(), w.chunk(n, 0)[rank].clone())

        return on

    x, w = torch.randn(2, 4), torch.randn(4, 3)
    assert scalify_dl.assert_equivalent(whole, sharded(True), mesh={"tp": 2}, args=(x, w)).verdict == "PROVED"
    with pytest.raises(scalify_dl.NotEquivalent, match="REFUTED"):
        scalify_dl.assert_equivalent(whole, sharded(False), mesh="tp=2", args=(x, w), keep=tmp_path / "dumps")
    assert len([*(tmp_path / "dumps").glob("*.fx.txt")]) == 3


def test_gradients_of_a_loss() -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = MLP()

        def forward(self, x: Any) -> Any:
            return self.net(x).square().mean()

    model, x = Loss(), torch.randn(2, 4)
    good = parallel(model, **{"net.up": ColwiseParallel(), "net.down": RowwiseParallel()})
    report = scalify_dl.verify(model, good, mesh={"tp": 2}, args=(x,), gradients=True)
    assert report.verdict == "PROVED"
    assert any("gradient of net.up.weight" in o.name for o in report.outputs)


def test_gradients_of_what_is_no_loss_are_refused() -> None:
    with pytest.raises(InputError, match=r"gradients=True: the program returns a tensor of shape \[2, 4\]"):
        scalify_dl.verify(MLP(), parallel(MLP()), mesh={"tp": 2}, args=(torch.randn(2, 4),), gradients=True)


def test_a_builder_of_a_step() -> None:
    def build(mesh: Any = None) -> Any:
        torch.manual_seed(0)
        model, x = nn.Linear(4, 4), torch.randn(4, 4)
        if mesh is not None:
            x = x.chunk(2)[mesh.get_local_rank("dp")].clone()

        def step(model: Any, x: Any) -> Any:
            loss = model(x).square().mean()
            if mesh is not None:
                dist.all_reduce(loss, op=dist.ReduceOp.AVG)
            return {"loss": loss}

        return model, (x,), step

    assert scalify_dl.verify(build, mesh={"dp": 2}).verdict == "PROVED"


@pytest.mark.parametrize(("dist", "said"), [(None, "no distributed program"), (nn.Linear(2, 2), "`dist` is a Linear")])
def test_what_is_no_distributed_module_is_refused(dist: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        scalify_dl.verify(nn.Linear(2, 2), dist, mesh={"tp": 2}, args=(torch.ones(2, 2),))


def test_a_function_that_looks_its_module_up() -> None:
    """Its parameters are inputs, and shards that the first rank scatters are there on all ranks."""
    torch.manual_seed(0)
    model, x = MLP(), torch.randn(2, 4)

    def calls(mesh: Any) -> Any:
        net = parallel(model, up=ColwiseParallel(), down=RowwiseParallel())(mesh)
        return lambda x: 2 * net(x)

    for factor, verdict in ((2, "PROVED"), (3, "REFUTED")):
        report = scalify_dl.verify(lambda x, factor=factor: factor * model(x), calls, mesh={"tp": 2}, args=(x,))
        assert report.verdict == verdict


def test_keywords_and_what_is_distributed_within_the_program() -> None:
    torch.manual_seed(0)
    whole, x = nn.Linear(4, 4), torch.randn(4, 4)

    class Rows(nn.Module):
        """Scatters the rows of its argument, and keeps its own."""

        def __init__(self, mesh: Any) -> None:
            super().__init__()
            self.linear, self.mesh = copy.deepcopy(whole), mesh

        def forward(self, *, x: Any) -> Any:
            return self.linear(distribute_tensor(x, self.mesh, [Shard(0)]).to_local())

    class Whole(nn.Module):
        """The same on one device."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = whole

        def forward(self, *, x: Any) -> Any:
            return self.linear(x)

    report = scalify_dl.verify(Whole(), Rows, mesh={"dp": 2}, args=(), kwargs={"x": x})
    assert report.verdict == "PROVED"
    assert report.outputs[0].layout != "", "rows are cut over dp"


def test_errors_of_the_program_are_told_at_their_line() -> None:
    def broken(mesh: Any) -> Any:
        raise LookupError("no such plan")

    with pytest.raises(
        InputError, match=r"test_live_torch.py:\d+: the distributed program on rank 0 raises LookupError"
    ) as raised:
        scalify_dl.verify(MLP(), broken, mesh={"tp": 2}, args=(torch.randn(2, 4),))
    assert [entry.name for entry in raised.traceback][-1:] == ["verify"], "no functions of ours below"
    with pytest.raises(InputError, match="the baseline raises RuntimeError: mat1 and mat2"):
        scalify_dl.verify(MLP(), parallel(MLP()), mesh={"tp": 2}, args=(torch.randn(2, 5),))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"args": torch.zeros(2, 4)}, "`args` is a Tensor"), ({}, "no arguments are given")],
)
def test_arguments_that_are_none(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        scalify_dl.verify(MLP(), parallel(MLP()), mesh={"tp": 2}, **arguments)


class Handed(nn.Module):
    """The MLP by hand; every rank is handed the block of `down` that is said."""

    def __init__(self, whole: MLP, mesh: Any, block: Any) -> None:
        super().__init__()
        n, rank = mesh.size(), mesh.get_local_rank("tp")
        self.up, self.down = nn.Linear(4, 8 // n), nn.Linear(8 // n, 4, bias=False)
        self.up.weight = nn.Parameter(whole.up.weight.detach().chunk(n, 0)[rank].clone())
        self.up.bias = nn.Parameter(whole.up.bias.detach().chunk(n)[rank].clone())
        self.down.weight = nn.Parameter(whole.down.weight.detach().chunk(n, 1)[block(rank)].clone())
        self.bias = nn.Parameter(whole.down.bias.detach().clone())

    def forward(self, x: Any) -> Any:
        out = self.down(torch.relu(self.up(x)))
        dist.all_reduce(out)
        return out + self.bias


def test_a_rank_that_is_handed_another_ranks_block_is_the_one_cause() -> None:
    """At the line that reads it first, with what to do; what follows from it is no cause besides."""
    torch.manual_seed(0)
    whole, x = MLP(), torch.randn(2, 4)
    report = scalify_dl.verify(whole, lambda mesh: Handed(whole, mesh, lambda _: 0), mesh={"tp": 2}, args=(x,))
    assert report.verdict == "REFUTED"
    (cause,) = report.frontier
    assert cause.found == ("rank 1 holds block 0 of 2 of dim 1, not block 1",)
    assert cause.called == "down.weight"
    assert cause.source[0].file.endswith("test_live_torch.py")
    assert cause.suggestion[0].startswith("give every rank its own block of down.weight")
    assert cause.outcome == ("untested",)
    right = scalify_dl.verify(whole, lambda mesh: Handed(whole, mesh, lambda rank: rank), mesh={"tp": 2}, args=(x,))
    assert right.verdict == "PROVED"
