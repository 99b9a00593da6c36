"""`capture_step`: a whole training step as its user writes it, recorded on every rank."""

from __future__ import annotations

import ctypes
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("torch.distributed.tensor", reason="needs torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from scalify_dl import capture_step  # noqa: E402
from scalify_dl.capture.torch.layouts import layout_entry  # noqa: E402
from scalify_dl.errors import InputError  # noqa: E402
from scalify_dl.ir.mesh import Mesh  # noqa: E402
from scalify_dl.lint.judge import lint  # noqa: E402


class Net(nn.Module):
    """Two linear layers and a mean loss."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Any, y: Any) -> Any:
        return nn.functional.mse_loss(self.down(torch.relu(self.up(x))), y)


def sgd(model: Any, x: Any, y: Any) -> dict[str, Any]:
    loss = model(x, y)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).step()
    return {"loss": loss}


def base() -> Any:
    torch.manual_seed(0)
    return Net(), (torch.randn(8, 4), torch.randn(8, 4)), sgd


def average(p: Any) -> None:
    dist.all_reduce(p.grad)
    p.grad.div_(dist.get_world_size())


def hooked(mesh: Any) -> Any:
    model, (x, y), _ = base()
    rank = mesh.get_local_rank("dp")

    def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(average)
        loss = sgd(model, x, y)["loss"].detach().clone()
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        return {"loss": loss}

    return model, (x.chunk(2)[rank], y.chunk(2)[rank]), step


def unhooked(mesh: Any) -> Any:
    model, args, _ = hooked(mesh)
    return model, args, sgd


def test_a_step_with_hooks_and_optimiser(tmp_path: Path) -> None:
    captured = capture_step(hooked, {"dp": 2}, tmp_path / "right", baseline=base)
    assert captured.verify().verdict == "PROVED"
    note = json.loads((tmp_path / "right.r1.json").read_text())
    assert note["groups"] == {"dp": [0, 1]}
    assert (note["rank"], note["mesh"]) == (1, {"dp": 2})
    outputs = [what for _, what in note["outputs"]]
    assert outputs[:2] == ["output loss", "written up.weight"]
    assert "state momentum_buffer of up.weight" in outputs
    assert note["placements"]["input 0"] == ["(Shard(dim=0),)", [8, 4], [4, 4], ["dp"]]
    assert note["placements"]["up.weight"] == ["(Replicate(),)", [8, 4], [8, 4], ["dp"]]


def test_a_backward_op_has_the_line_of_its_forward_op(tmp_path: Path) -> None:
    captured = capture_step(hooked, {"dp": 2}, tmp_path / "right", baseline=base)
    lines = captured.dist[0].read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if "mse_loss_backward" in line)
    comment = next(line for line in reversed(lines[:at]) if "# File" in line)
    assert "in forward, backward, code: return nn.functional.mse_loss" in comment
    forward = next(n for n, line in enumerate(lines) if "mse_loss.default" in line)
    assert "in forward, code: return" in next(line for line in reversed(lines[:forward]) if "# File" in line)
    assert any("in average, code: p.grad.div_(dist.get_world_size())" in line for line in lines)


def test_a_step_without_its_reduction(tmp_path: Path) -> None:
    assert capture_step(unhooked, {"dp": 2}, tmp_path / "wrong", baseline=base).verify().verdict != "PROVED"


def test_values_that_are_no_cut_of_the_baselines(tmp_path: Path) -> None:
    """Both ranks train on the first half of the batch: no layout explains it, and none is guessed from shapes."""

    def stale(mesh: Any) -> Any:
        model, _, step = hooked(mesh)
        _, (x, y), _ = base()
        return model, (x.chunk(2)[0], y.chunk(2)[0]), step

    captured = capture_step(stale, {"dp": 2}, tmp_path / "stale", baseline=base)
    report = captured.verify()
    assert report.verdict == "REFUTED"
    told = json.loads((tmp_path / "stale.r0.json").read_text())["placements"]["input 0"][0]
    assert told == "unplaced: rank 1 holds block 0 of 2 of dim 0, not block 1"
    assert (report.frontier[0].called, report.frontier[0].found) == ("input 0", (told.removeprefix("unplaced: "),))


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        ([(0, 0), (0, 1), (1, 0), (1, 1)], "(Shard(dim=0), Shard(dim=1),)"),
        (
            [(1, 1), (0, 1), (1, 0), (0, 0)],
            "unplaced: rank 0 holds block 1 of 2 of dim 0, not block 0, and block 1 of 2 of dim 1, not block 0",
        ),
        ([(0, 1), (0, 0), (1, 1), (1, 0)], "unplaced: rank 0 holds block 1 of 2 of dim 1, not block 0"),
    ],
)
def test_a_block_of_another_rank_is_told(blocks: list[tuple[int, int]], told: str) -> None:
    whole = torch.arange(16.0).reshape(4, 4)
    parts = {r: whole.chunk(2)[i].chunk(2, 1)[j] for r, (i, j) in enumerate(blocks)}
    entry = layout_entry(whole, parts, Mesh.parse("a=2,b=2"))
    assert entry is not None
    assert entry[0] == told
    noise = layout_entry(whole, {r: torch.full((2, 2), float(-r - 1)) for r in range(4)}, Mesh.parse("a=2,b=2"))
    assert noise is not None
    assert noise[0] == "unplaced"


@pytest.mark.parametrize(
    ("blocks", "cuts"),
    [
        ((0, 0, 1, 1), "(Shard(dim=0), Replicate(),)"), ((0, 1, 0, 1), "(Replicate(), Shard(dim=0),)"),
        ((0, 1, 1, 0), None),
    ],
)  # fmt: skip
def test_blocks_that_several_ranks_share_are_told(blocks: tuple[int, ...], cuts: str | None) -> None:
    """Two heads of keys over four ranks."""
    whole = torch.arange(16.0).reshape(4, 4)
    entry = layout_entry(whole, {r: whole.chunk(2)[block] for r, block in enumerate(blocks)}, Mesh.parse("tp=4"))
    assert entry is not None
    assert (entry[0], entry[3]) == ((cuts, ["tp=2", "tp=2"]) if cuts else ("unplaced", ["tp"]))


@pytest.mark.parametrize("sizes", [(3, 3, 1), (3, 2, 2)])
@pytest.mark.parametrize("over", [7, 9])
def test_rows_that_ranks_do_not_share_equally_are_read(tmp_path: Path, sizes: tuple[int, ...], over: int) -> None:
    """A mean over all rows is a sum of the ranks' sums, over the number of all rows and no other."""

    def whole() -> Any:
        model, (x, y), _ = base()
        return model, (x[:7], y[:7]), sgd

    def summed(model: Any, x: Any, y: Any) -> dict[str, Any]:
        loss = nn.functional.mse_loss(model.down(torch.relu(model.up(x))), y, reduction="sum") / (over * 4)
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9).step()
        loss = loss.detach()
        dist.all_reduce(loss)
        return {"loss": loss}

    def parted(mesh: Any) -> Any:
        model, args, _ = whole()
        return model, tuple(a.split(sizes)[mesh.get_local_rank("dp")] for a in args), summed

    captured = capture_step(parted, {"dp": 3}, tmp_path / "step", baseline=whole)
    assert captured.verify().verdict == ("PROVED" if over == 7 else "REFUTED")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda loss: loss.item() > 1, "value of a tensor that depends on its inputs"),
        (lambda loss: ctypes.memset(loss.data_ptr(), 1, 4), "gives something else"),
        (lambda loss: loss.detach().numpy(), "value of a tensor that depends on its inputs"),
    ],
)
def test_what_cannot_be_said_stops(tmp_path: Path, read: Any, message: str) -> None:
    from scalify_dl.capture.torch import record_step

    def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
        loss = model(x, y)
        read(loss)
        return {"loss": loss}

    model, args, _ = base()
    with pytest.raises(InputError, match=message):
        record_step(model, args, step, tmp_path / "x")


def test_arguments_that_share_memory(tmp_path: Path) -> None:
    """A batch and the same batch shifted."""

    def build(mesh: Any) -> Any:
        torch.manual_seed(0)
        tokens = torch.randn(4, 5)
        return Net(), (tokens[:, :-1], tokens[:, 1:]), sgd

    assert capture_step(build, {"dp": 2}, tmp_path / "x").verify().verdict == "PROVED"


def test_a_view_by_strides_says_where_it_looks(tmp_path: Path) -> None:
    def step(model: Any, x: Any) -> dict[str, Any]:
        row = torch.cat([x, 2 * x])
        return {"part": torch.as_strided(row, (2, 3), (3, 1), 4) + 1}

    torch.manual_seed(0)
    captured = capture_step(lambda: (nn.Identity(), (torch.randn(6),), step), {"dp": 2}, tmp_path / "net")
    assert "torch.ops.aten.as_strided" not in captured.base.read_text("utf-8")
    assert captured.verify().verdict == "PROVED"


def test_collectives_of_memory_in_another_order_stop(tmp_path: Path) -> None:
    """`empty_like` of a transposed tensor is transposed: backends fill its memory, not its elements, in order."""

    def build(mesh: Any) -> Any:
        def step(model: Any, x: Any) -> dict[str, Any]:
            if mesh is None:
                return {"y": model(x)}
            out = torch.empty_like(x.t())
            dist.all_to_all_single(out, x.t().contiguous())
            return {"y": model(out)}

        return nn.Identity(), (torch.randn(2, 4),), step

    with pytest.raises(InputError, match="not contiguous"):
        capture_step(build, {"dp": 2}, tmp_path / "x")


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_a_parameter_that_an_optimiser_keeps_as_its_state_is_returned_twice(tmp_path: Path, rate: float) -> None:
    """The first average of the parameters is the parameters: a value that is placed, and given once more without."""

    def step_of(rate: float) -> Any:
        def step(model: Any, x: Any, y: Any) -> dict[str, Any]:
            model(x, y).backward()
            for p in model.parameters():
                if dist.is_initialized():
                    average(p)
            torch.optim.ASGD(model.parameters(), lr=rate).step()
            return {}

        return step

    def build(mesh: Any) -> Any:
        model, args, _ = base()
        if mesh is None:
            return model, args, step_of(0.1)
        return model, tuple(x.chunk(2)[mesh.get_local_rank("dp")] for x in args), step_of(rate)

    verdict = capture_step(build, {"dp": 2}, tmp_path / "x").verify().verdict
    assert verdict == ("PROVED" if rate == 0.1 else "REFUTED")


def _exchanged(how: str, rank: int) -> Any:
    def step(model: Any, x: Any) -> dict[str, Any]:
        flat = torch.cat([x, x])
        own, other = flat[2 * rank : 2 * rank + 2], flat[2 - 2 * rank : 4 - 2 * rank]
        if how == "to all":
            dist.all_to_all_single(flat, flat)
        elif how == "gathered":
            dist.all_gather_into_tensor(flat, own)
        elif how == "from another place":
            dist.all_gather_into_tensor(flat, other)
        elif how == "scattered":
            dist.reduce_scatter_tensor(own, flat)
        elif how == "to another place":
            dist.reduce_scatter_tensor(other, flat)
        elif how == "in a list":
            dist.all_gather([flat[:2], flat[2:]], own)
        elif how == "crossed in a list":
            dist.reduce_scatter(other, [flat[:2], flat[2:]])
        elif how == "one twice":
            dist.distributed_c10d.all_reduce_coalesced([flat, flat[1:]])
        return {"y": model(flat)}

    return step


@pytest.mark.parametrize("how", ["to all", "from another place", "to another place", "crossed in a list", "one twice"])
def test_collectives_that_write_what_they_still_read_stop(tmp_path: Path, how: str) -> None:
    """Backends write while they read: gloo's all-to-all in one buffer gives other numbers, NCCL's whatever comes."""

    def build(mesh: Any) -> Any:
        return nn.Identity(), (torch.randn(2),), _exchanged(how if mesh is not None else "", rank_of(mesh))

    with pytest.raises(InputError, match="share memory"):
        capture_step(build, {"dp": 2}, tmp_path / "x")


@pytest.mark.parametrize("how", ["gathered", "scattered", "in a list"])
def test_collectives_may_leave_a_ranks_own_part_where_it_is(tmp_path: Path, how: str) -> None:
    def build(mesh: Any) -> Any:
        return nn.Identity(), (torch.randn(2),), _exchanged(how if mesh is not None else "", rank_of(mesh))

    capture_step(build, {"dp": 2}, tmp_path / "x")


def rank_of(mesh: Any) -> int:
    return 0 if mesh is None else int(mesh.get_local_rank("dp"))


def test_a_pipeline_is_recorded_on_real_ranks(tmp_path: Path) -> None:
    """Stages tell each other shapes before the first step: ranks run at once; that exchange is not recorded."""
    program = importlib.import_module("tests.steps.programs.07_pp_1f1b")
    captured = capture_step(program.build_right, program.MESH, tmp_path / "x", baseline=program.build_base)
    first, last = (file.read_text() for file in captured.dist)
    assert first.count("_c10d_functional.isend.default") == last.count("_c10d_functional.irecv.default") == 4
    assert first.count("_c10d_functional.irecv.default") == last.count("_c10d_functional.isend.default") == 4
    assert "layers_0_up_weight" in first
    assert "layers_0_up_weight" not in last


def test_a_text_alone_does_not_race(tmp_path: Path) -> None:
    """Collectives of c10d work in place; the text waits for each where it is issued."""
    captured = capture_step(hooked, {"dp": 2}, tmp_path / "x", baseline=base)
    for file in [captured.base, *captured.dist]:
        note = file.with_name(file.name.replace(".fx.txt", ".json"))
        note.write_text(json.dumps({k: v for k, v in json.loads(note.read_text()).items() if k != "outside"}))
    report = captured.verify()
    assert report.verdict == "PROVED"
    assert not report.findings


def test_lines_that_called_an_op(tmp_path: Path) -> None:
    """The innermost line of the program, and those outside of it, not those of who captures."""
    report = capture_step(unhooked, {"dp": 2}, tmp_path / "wrong", baseline=base).verify()
    functions = [frame.function for frame in report.frontier[0].source]
    assert functions[:2] == ["forward", "sgd"]
    assert not {"play", "test_lines_that_called_an_op"} & {*functions}


def row_parallel(mesh: Any) -> Any:
    from scalify_dl.capture.torch import assert_type

    torch.manual_seed(0)
    model, x = nn.Linear(4, 8, bias=False), torch.randn(8, 4)
    if mesh is not None:
        at = 2 * mesh.get_local_rank("tp")
        model.weight, x = nn.Parameter(model.weight.detach()[:, at : at + 2].clone()), x[:, at : at + 2].clone()

    def step(model: Any, x: Any) -> Any:
        y = (x @ model.weight.detach().t()) * 2
        assert_type(y, {"tp": "P"})
        if mesh is not None:
            dist.all_reduce(y)
        return assert_type(y, {"tp": "R"})

    return model, (x,), step


def test_types_that_a_step_says_are_checked(tmp_path: Path) -> None:
    captured = capture_step(row_parallel, {"tp": 2}, tmp_path / "step", baseline=lambda: row_parallel(None))
    assert lint(captured.dist, captured.mesh).verdict == "PROVED"
    for file in tmp_path.glob("step.r*.json"):
        file.write_text(file.read_text().replace('"tp": "P"', '"tp": "S(0)"'))
    (found,) = lint(captured.dist, captured.mesh).findings
    assert (found.kind, found.text) == ("other-type", "`mul` is said to be S0@tp, and is P@tp")
