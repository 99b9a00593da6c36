"""A program whose products are calls of a kernel is followed as one whose products are ops."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.cli import main

from .test_tilelang import GEMM

ROWS, HIDDEN, INNER = 32, 64, 128


def fx(inner: int, gemm: str, dtype: str, *, reduced: bool = False) -> str:
    """A Megatron MLP on one rank."""
    x, h = f'"{dtype}[{ROWS}, {HIDDEN}]"', f'"{dtype}[{ROWS}, {inner}]"'
    more = (
        f"        r: {x} = torch.ops._c10d_functional.all_reduce.default(y, 'sum', '0')\n"
        f"        z: {x} = torch.ops._c10d_functional.wait_tensor.default(r)\n"
    )
    return (
        "class GraphModule(torch.nn.Module):\n"
        f'    def forward(self, x: {x}, up: "{dtype}[{HIDDEN}, {inner}]", down: "{dtype}[{inner}, {HIDDEN}]"):\n'
        f"        h: {h} = {gemm}(x, up)\n"
        f"        a: {h} = torch.ops.aten.silu.default(h)\n"
        f"        y: {x} = {gemm}(a, down)\n"
        f"{more if reduced else ''}        return ({'z' if reduced else 'y'},)\n"
    )


def hlo(inner: int, target: str, *, reduced: bool) -> str:
    """The same, without the nonlinearity, as XLA prints it."""

    def product(a: str, b: str, shape: str) -> str:
        if target:
            return f'{shape} custom-call({a}, {b}), custom_call_target="{target}", backend_config="stages=3"'
        return f"{shape} dot({a}, {b}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"

    last = (
        "z = f32[32,64] all-reduce(y), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add"
        if reduced else "z = f32[32,64] copy(y)"
    )  # fmt: skip
    return f"""HloModule m{", num_partitions=2" if target else ""}
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  x = f32[32,64] parameter(0)
  up = f32[64,{inner}] parameter(1)
  down = f32[{inner},64] parameter(2)
  h = {product("x", "up", f"f32[32,{inner}]")}
  y = {product("h", "down", "f32[32,64]")}
  ROOT {last}
}}
"""


class Verify:
    """Exit status and JSON (or what is said of bad input) of `dlverify verify` on two texts and a kernel."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys

    def __call__(self, base: str, dist: str, use: str, tp: int = 2, kernel: str = GEMM) -> tuple[int, Any]:
        for name, text in (("base", base), ("dist", dist), ("gemm.py", kernel)):
            (self.folder / name).write_text(text)
        self.monkeypatch.chdir(self.folder)
        words = ["dlverify", "verify", "base", "dist", "--mesh", f"tp={tp}", "--kernel", use, "--json"]
        self.monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as exit:
            main()
        said = self.capsys.readouterr()
        assert isinstance(exit.value.code, int)
        assert "Traceback" not in said.err
        return exit.value.code, json.loads(said.out) if said.out else said.err


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Verify:
    return Verify(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("tp", [2, 4])
def test_an_mlp_whose_products_are_a_kernel_is_the_mlp(verify: Verify, tp: int, dtype: str) -> None:
    base = fx(INNER, "torch.ops.aten.mm.default", dtype)
    call = "torch.ops.mylib.gemm.default"
    status, found = verify(base, fx(INNER // tp, call, dtype, reduced=True), "mylib.gemm=gemm.py,as=matmul", tp)
    assert (status, found["verdict"]) == (0, "PROVED")
    said = [a["text"] for a in found["assumptions"] if a["why"] == "kernel"]
    assert "`custom:mylib.gemm` runs the kernel `gemm` of gemm.py, which is matmul" in said
    status, found = verify(base, fx(INNER // tp, call, dtype), "custom:mylib.gemm=gemm.py", tp)
    assert (status, found["verdict"]) == (1, "REFUTED")


def test_a_call_in_hlo_is_followed_and_its_configuration_is_an_assumption(verify: Verify) -> None:
    base = hlo(128, "", reduced=False)
    status, found = verify(base, hlo(64, "my_gemm", reduced=True), "my_gemm=gemm.py")
    assert status == 0, found
    assert "the configuration of `custom:my_gemm` changes no value" in [a["text"] for a in found["assumptions"]]
    status, _ = verify(base, hlo(64, "my_gemm", reduced=False), "my_gemm=gemm.py")
    assert status == 1


@pytest.mark.parametrize(
    ("edit", "use", "said"),
    [
        (("            T.clear(C_local)\n", ""), "mylib.gemm=gemm.py,as=matmul", "is REFUTED"),
        (("k * block_K, bx", "bx * block_K, bx"), "mylib.gemm=gemm.py,as=matmul", "is REFUTED"),
        (("k * block_K, bx", "bx * block_K, bx"), "mylib.gemm=gemm.py", "not proved to be any op"),
        (("", ""), "mylib.gemm=gemm.py,as=softmax", "are no softmax"),
        (("", ""), "mylib.gemm=gemm.py,as=nothing", "no op `nothing`"),
        (("", ""), "mylib.gemmm=gemm.py", "no call of `custom:mylib.gemmm`"),
        (("", ""), "mylib.gemm", "OP=FILE"),
        (("", ""), "mylib.gemm=absent.py", "cannot read the file"),
        (("", ""), "mylib.gemm=gemm.py,as=matmul,spec=base", "one of them"),
        (("", ""), "mylib.gemm=gemm.py,M=16", "the kernel"),
        (("A: T.Tensor((M, K)", "A: T.Tensor((K, M)"), "mylib.gemm=gemm.py", "`K` would be 32 and 64"),
    ],
)  # fmt: skip
def test_what_is_no_such_kernel_is_bad_input(verify: Verify, edit: tuple[str, str], use: str, said: str) -> None:
    base = fx(INNER, "torch.ops.aten.mm.default", "f32")
    dist = fx(INNER // 2, "torch.ops.mylib.gemm.default", "f32", reduced=True)
    status, message = verify(base, dist, use, kernel=GEMM.replace(*edit) if edit[0] else GEMM)
    assert status == 2
    assert said in message


def test_arguments_that_are_no_tensors_are_sizes_by_name(verify: Verify) -> None:
    base = fx(INNER, "torch.ops.aten.mm.default", "f32")
    dist = fx(INNER // 2, "torch.ops.mylib.gemm.default", "f32", reduced=True)
    by_name = dist.replace("(x, up)", "(x, up, block_M = 8)").replace("(a, down)", "(a, down, block_M = 32)")
    status, found = verify(base, by_name, "mylib.gemm=gemm.py")
    assert status == 0, found
    said = "arguments of calls of `custom:mylib.gemm` are what gemm.py calls so: block_M = 8"
    assert said in [a["text"] for a in found["assumptions"] if a["why"] == "kernel"]
    by_place = dist.replace("(x, up)", "(x, up, 8)").replace("(a, down)", "(a, down, 32)")
    assert verify(base, by_place, "mylib.gemm=gemm.py,arg2=block_M")[0] == 0
    status, message = verify(base, by_place, "mylib.gemm=gemm.py")
    assert status == 2
    assert "has the argument arg2 = 8" in message
    status, message = verify(base, by_name.replace("block_M", "scale"), "mylib.gemm=gemm.py")
    assert status == 2
    assert "has the argument scale = 8" in message
    in_list = dist.replace("(x, up)", "([x, up])")
    status, message = verify(base, in_list, "mylib.gemm=gemm.py")
    assert status == 2
    assert "no call of a kernel with tensors in order" in message


def test_without_a_baseline_calls_of_kernels_are_placed_and_mended_as_ops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gemm.py").write_text(GEMM)
    Path("placed.yaml").write_text("inputs:\n  x: {dims: {}}\n  up: {dims: {1: [tp]}}\n  down: {dims: {0: [tp]}}\n")

    def said(command: str, *, reduced: bool) -> tuple[int, Any]:
        Path("dist").write_text(fx(INNER // 2, "torch.ops.mylib.gemm.default", "f32", reduced=reduced))
        words = ["--mesh", "tp=2", "--relate", "placed.yaml", "--kernel", "mylib.gemm=gemm.py,as=matmul", "--json"]
        monkeypatch.setattr(sys, "argv", ["dlverify", command, "dist", *words])
        with pytest.raises(SystemExit) as exit:
            main()
        assert isinstance(exit.value.code, int)
        return exit.value.code, json.loads(capsys.readouterr().out)

    status, found = said("lint", reduced=True)
    assert status == 0, found
    assert "kernel" in {a["why"] for a in found["assumptions"]}
    status, found = said("fix", reduced=False)
    assert status == 1
    assert "reduce `y` over tp" in found["fixes"][0]["edits"][0]["text"]
