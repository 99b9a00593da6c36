"""Live capture: every rank's joint graph, with names, placements, groups and constants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

from torch import nn  # noqa: E402
from torch.distributed.tensor import Replicate, Shard  # noqa: E402
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from scalify_dl.capture.torch import capture, capture_exported, capture_pair  # noqa: E402
from scalify_dl.errors import InputError  # noqa: E402
from scalify_dl.oracle import find_counterexample, load_program  # noqa: E402
from scalify_dl.pairing.export import export  # noqa: E402
from scalify_dl.prove.options import Options  # noqa: E402
from scalify_dl.prove.pipeline import analyse  # noqa: E402
from scalify_dl.report.conclude import conclude  # noqa: E402


class Net(nn.Module):
    """Embedding, norm, two linear layers, cross entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 16)
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 32)

    def forward(self, ids: Any, labels: Any) -> Any:
        x = self.down(nn.functional.silu(self.up(self.norm(self.table(ids)))))
        return nn.functional.cross_entropy(x.flatten(0, 1), labels.flatten())


def build(mesh: Any) -> Any:
    model = Net()
    if mesh is not None:
        plan = {
            "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(),
        }
        parallelize_module(model, mesh["tp"], plan)
    return model, (torch.randint(0, 32, (2, 8)), torch.randint(0, 32, (2, 8))), {}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    return capture_pair(build, {"dp": 2, "tp": 2}, tmp_path_factory.mktemp("capture") / "net")


def test_every_rank_is_written_with_its_annotation(captured: tuple[Path, list[Path]]) -> None:
    _, ranks = captured
    assert [path.name for path in ranks] == [f"net.r{rank}.fx.txt" for rank in range(4)]
    last = json.loads(Path(str(ranks[3]).replace(".fx.txt", ".json")).read_text())
    assert last["placements"]["up.weight"] == ["(Shard(dim=0),)", [32, 16], [16, 16], ["tp"]]
    assert last["gradients"]["down.weight"][0] == "(Shard(dim=1),)"
    assert [2, 3] in last["groups"].values()
    assert (last["rank"], last["mesh"]) == (3, {"dp": 2, "tp": 2})
    assert last["constants"] == {"_tensor_constant0": 0, "_tensor_constant1": 0.0}


def test_the_captured_pair_agrees_in_numbers(captured: tuple[Path, list[Path]]) -> None:
    base, ranks = captured
    facts = export(base, [ranks[n] for n in (2, 0, 3, 1)], "dp=2,tp=2")
    assert len(facts.tables["graph"]) == 2
    assert {row[5] for row in facts.tables["shard"]} == {"annotation", "name"}
    assert find_counterexample(load_program(facts.tables)).status == "agrees"


def test_paths_in_the_text_say_nothing_of_the_machine(captured: tuple[Path, list[Path]]) -> None:
    base, _ = captured
    assert str(Path.home()) not in base.read_text()
    assert "# File: tests/" in base.read_text() or "# File: site-packages/" in base.read_text()


class Minus(nn.Module):
    """a - b, or b - a, times a weight."""

    def __init__(self, swapped: bool) -> None:
        super().__init__()
        self.swapped = swapped
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, a: Any, b: Any) -> Any:
        return (((b - a) if self.swapped else (a - b)) * self.w).sum()


X, Y = torch.randn(4), torch.randn(4)


@pytest.mark.parametrize("same", [True, False])
def test_arguments_pair_whatever_the_order_of_keywords_and_though_they_are_one_tensor(
    tmp_path: Path, same: bool
) -> None:
    """`a - b` is not `b - a`: not where keywords stand in another order, nor where both are one tensor."""
    values = {"a": X, "b": X if same else Y}
    turned = dict(reversed(values.items()))
    for swapped, verdict in ((False, "PROVED"), (True, "REFUTED")):
        base = capture(Minus(False), (), values, tmp_path / "base")
        dist = capture(Minus(swapped), (), turned, tmp_path / "dist")
        assert conclude(analyse(export(base, dist, "tp=2"), Options())).verdict == verdict
        base = capture_exported(Minus(False), (), tmp_path / "base", values)
        dist = capture_exported(Minus(swapped), (), tmp_path / "dist", turned)
        assert conclude(analyse(export(base, dist, "tp=2"), Options())).verdict == verdict


def test_constants_of_sub_modules_stand_under_their_path() -> None:
    from scalify_dl.capture.torch.graphs import _constants

    def module(held: Any, inner: Any = None) -> Any:
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        root = torch.nn.Module()
        root.held, root.inner = held, inner
        y = graph.call_function(torch.ops.aten.add.Tensor, (x, graph.get_attr("held")))
        graph.output(graph.call_module("inner", (y,)) if inner else y)
        return torch.fx.GraphModule(root, graph)

    assert _constants(module(torch.tensor([1.0]), module(torch.tensor([2.0])))) == {"held": [1.0], "inner.held": [2.0]}


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_gradient_that_a_hook_changes_is_not_in_this_graph(tmp_path: Path, register: str) -> None:
    net = nn.Linear(4, 4)
    getattr(net.weight, register)(lambda _: None)
    with pytest.raises(InputError, match="a hook is to change the gradient of `weight`"):
        capture(net, (torch.ones(2, 4),), {}, tmp_path / "net")
