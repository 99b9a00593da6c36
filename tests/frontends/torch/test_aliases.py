"""The table of what operators write and share is what the installed torch says of every overload, and what it does."""

from __future__ import annotations

from typing import Any

import pytest

from scalify_dl.readers.fx.aliases import Argument, Share, effect_of


def test_the_table_is_that_of_the_installed_torch() -> None:
    pytest.importorskip("torch", reason="needs torch")
    from importlib.resources import files

    from scalify_dl.capture.torch_aliases import table

    kept = files("scalify_dl.readers.fx").joinpath("aliases.tsv").read_text("utf-8").splitlines()
    ours = {row.split("\t")[0]: row for row in kept}
    theirs = {row.split("\t")[0]: row for row in table().splitlines()}
    differing = {name: (ours[name], row) for name, row in theirs.items() if ours.get(name, row) != row}
    assert not differing, "python -m scalify_dl.capture.torch_aliases scalify_dl/readers/fx/aliases.tsv"
    import torch

    if torch.__version__.startswith("2.13."):
        assert ours.keys() == theirs.keys()


def views() -> list[str]:
    capture = pytest.importorskip("scalify_dl.capture.torch_aliases", reason="needs torch")
    return sorted(capture.VIEWS)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "broadcast_to": ([4, 6],), "chunk": (2,), "diagonal": (), "dsplit": (2,), "hsplit": (2,), "vsplit": (2,),
    "movedim": (0, 1), "moveaxis": (0, 1), "narrow": (0, 1, 2), "split": ([1, 3],), "swapaxes": (0, 1),
    "swapdims": (0, 1), "tensor_split": (2,), "unflatten": (1, [2, 3]),
}  # fmt: skip


def test_operators_that_are_said_to_give_views_do_so_whatever_the_strides() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    for name in views():
        for x in (torch.rand(4, 6), torch.rand(6, 4).t(), torch.rand(8, 12)[::2, ::2]):
            x = x.unsqueeze(-1).expand(4, 6, 2) if name == "dsplit" else x
            x = x.to(torch.complex64) if name == "imag" else x
            more = (x,) if name in ("expand_as", "view_as") else ARGUMENTS.get(name, ())
            result = getattr(torch.ops.aten, name)(x, *more)
            for made in result if isinstance(result, list | tuple) else [result]:
                assert made.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), name


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("aten._foreach_add_.List", ["self"]),
        ("aten._fused_adam_.default", ["self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"]),
        ("aten.add.out", ["out"]),
        ("aten.__ior__.Tensor", ["self"]),
        ("aten.native_batch_norm.default", ["running_mean", "running_var"]),
        ("aten.native_batch_norm_backward.default", []),
        ("_c10d_functional.all_gather_into_tensor_out.default", ["out"]),
        ("c10d.recv_.default", ["tensors"]),
        ("c10d.alltoall_.default", ["output_tensors"]),
        ("c10d.send.default", []),
        ("inductor.resize_storage_bytes_.default", ["variable"]),
        ("inductor.accumulate_grad_.default", ["variable", "variable_grad", "new_grad"]),
        ("aten.__and__.Tensor", []),
    ],
)
def test_what_is_written_is_read_off_the_table(name: str, written: list[str]) -> None:
    effect = effect_of(name)
    assert effect is not None
    assert [argument.name for argument in effect.written] == written


def test_every_overload_of_c10d_that_has_no_annotation_is_decided() -> None:
    torch_aliases = pytest.importorskip("scalify_dl.capture.torch_aliases", reason="needs torch")
    torch = pytest.importorskip("torch")
    names = {name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::")}
    assert names <= torch_aliases.WRITERS.keys() | torch_aliases.SILENT


def test_a_packet_has_the_effect_that_its_overloads_agree_on() -> None:
    assert effect_of("aten.add_") == effect_of("aten.add_.Tensor")._replace(twin="aten.add")  # type: ignore[union-attr]
    assert [a.name for a in effect_of("aten.add", ["out"]).written] == ["out"]  # type: ignore[union-attr]
    assert effect_of("aten.max").results == (Share(None, False),)  # type: ignore[union-attr]
    assert effect_of("mylib.scale_.default") is None
    assert effect_of("aten.split.default").results == (Share(Argument("self", 0), True),)  # type: ignore[union-attr]
