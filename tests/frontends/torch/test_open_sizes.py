"""FX text with dynamic shapes, as `torch.export` prints it: read at given sizes, proved for all; without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl import cli
from scalify_dl.commands.family import symbolic
from scalify_dl.errors import InputError
from scalify_dl.families.capture import Capture
from scalify_dl.prove.options import Options
from scalify_dl.readers.fx import read_text
from scalify_dl.readers.sizes import Sizes, resolved

HEAD = """ExportedProgram:
    class GraphModule(torch.nn.Module):
        def forward(self, {weights}, x: "f32[{rows}, s27, 8]"):
            size: "Sym({rows})" = torch.ops.aten.sym_size.int(x, 0)
            size_1: "Sym(s27)" = torch.ops.aten.sym_size.int(x, 1)
"""
TAIL = """
Graph signature:
    # inputs
    p_up: PARAMETER target='up'
    x: USER_INPUT

Range constraints: {{{ranges}}}
"""

BLOCK = """            tokens: "Sym(s27*s77)" = size * size_1
            view: "f32[s27*s77, 8]" = torch.ops.aten.view.default(x, [tokens, 8])
            mm: "f32[s27*s77, {inner}]" = torch.ops.aten.mm.default(view, p_up)
            relu: "f32[s27*s77, {inner}]" = torch.ops.aten.relu.default(mm)
            mm_1: "f32[s27*s77, 8]" = torch.ops.aten.mm.default(relu, p_down)
{reduce}            view_1: "f32[s77, s27, 8]" = torch.ops.aten.view.default({last}, [size, size_1, 8])
            return (view_1,)
"""
REDUCE = """            all: "f32[s27*s77, 8]" = torch.ops._c10d_functional.all_reduce.default(mm_1, 'sum', '0')
            wait: "f32[s27*s77, 8]" = torch.ops._c10d_functional.wait_tensor.default(all)
"""


def text(rows: str, body: str, weights: str, ranges: str = "s77: VR[2, 64], s27: VR[0, int_oo]") -> str:
    return HEAD.format(rows=rows, weights=weights) + body + TAIL.format(ranges=ranges)


def block(inner: int, reduce: bool) -> str:
    body = BLOCK.format(inner=inner, reduce=REDUCE if reduce else "", last="wait" if reduce else "mm_1")
    return text("s77", body, f'p_up: "f32[8, {inner}]", p_down: "f32[{inner}, 8]"')


def mean(rows: str, divisor: str) -> str:
    body = f"""            mul: "f32[{rows}, s27, 8]" = torch.ops.aten.mul.Tensor(x, p_up)
            sum_1: "f32[]" = torch.ops.aten.sum.default(mul)
            {divisor}
            return (wait,)
"""
    return text(rows, body, 'p_up: "f32[8]"', "s77: VR[2, 64], s27: VR[0, int_oo]")


WHOLE = """n: "Sym(s27*s77)" = size * size_1
            wait: "f32[]" = torch.ops.aten.div.Tensor(sum_1, n)"""
PER_RANK = """n: "Sym(2*s27*s77)" = size * size_1 * 2
            div: "f32[]" = torch.ops.aten.div.Tensor(sum_1, n)
            all: "f32[]" = torch.ops._c10d_functional.all_reduce.default(div, 'sum', '0')
            wait: "f32[]" = torch.ops._c10d_functional.wait_tensor.default(all)"""
FROZEN = PER_RANK.replace('"Sym(2*s27*s77)" = size * size_1 * 2', '"Sym(60)" = 60')


def graph(source: str, *sizes: str):
    return read_text(source, file="g.fx.txt", resolve=lambda dump: resolved(Sizes.parse(sizes), dump))


def verdict(folder: Path, base: str, dist: str, sizes: str, relate: str = "", samples: tuple[str, ...] = ()) -> int:
    capture = []
    for name, content in (("base", base), ("dist", dist), *((f"more{n}", more) for n, more in enumerate(samples))):
        file = folder / f"{name}.fx.txt"
        file.write_text(content)
        capture.append(file)
    relations = None
    if relate:
        relations = folder / "relate.yaml"
        relations.write_text(relate)
    words = [f"{capture[0]} {file} dp={4 << n}" for n, file in enumerate(capture[2:])]
    return symbolic(Capture(capture[0], (capture[1],), "dp=2", relations), sizes, words, Options())


def test_at_given_sizes_every_type_is_a_number() -> None:
    found = graph(block(32, False), "x:0=6", "s27=5")
    assert [port.tensor.type for port in found.inputs] == ["f32[8,32]", "f32[32,8]", "f32[6,5,8]"]
    assert [port.tensor.type for port in found.outputs] == ["f32[6,5,8]"]


def test_a_size_follows_from_a_dim_that_is_a_multiple_of_it() -> None:
    source = mean("2*s77", WHOLE.replace("s27*s77", "2*s27*s77"))
    assert graph(source, "x:0=6", "x:1=5").inputs[-1].tensor.shape == (6, 5, 8)
    with pytest.raises(InputError, match=r"dim 0 of x is 2\*s77: it cannot be 7"):
        graph(source, "x:0=7", "x:1=5")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((), "sizes of the program are open: s77 (in x:0), s27 (in x:1)"),
        (("x:0=6",), "s27 (in x:1)"),
        (("x:0=65", "x:1=5"), "s77=65 violates `s77 <= 64`"),
        (("x:0=1", "x:1=5"), "s77=1 violates `s77 >= 2`"),
    ],
)
def test_sizes_that_are_open_or_out_of_bounds_are_told(sizes: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        graph(block(32, False), *sizes)
    assert message in str(error.value)


def test_a_printed_size_that_is_not_the_computed_one_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match="`tokens` is printed as 11, but its operands make it 30") as error:
        graph(block(32, False).replace('"Sym(s27*s77)" = size', '"Sym(s27 + s77)" = size'), "x:0=6", "x:1=5")
    assert error.value.line == 6


def test_asserted_conditions_bound_the_sizes() -> None:
    asserted = (
        '            eq: "Sym(Eq(Mod(s77, 4), 0))" = torch.ops.aten.eq.Scalar(size, 0)\n'
        "            assert_1 = torch.ops.aten._assert_scalar.default(eq, 'failed')\n"
    )
    source = block(32, False)
    where = source.index("            tokens")
    source = source[:where] + asserted.replace("torch.ops.aten.eq.Scalar(size, 0)", "size % 4 == 0") + source[where:]
    assert graph(source, "x:0=8", "x:1=5").inputs[-1].tensor.shape == (8, 5, 8)
    with pytest.raises(InputError, match="violates"):
        graph(source, "x:0=6", "x:1=5")


def test_a_tensor_parallel_block_is_proved_for_all_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(tmp_path, block(32, False), block(16, True), "batch=x:0,seq=x:1") == 0
    out = capsys.readouterr().out
    assert "for all batch, seq" in out
    assert "batch <= 64" in out
    assert verdict(tmp_path, block(32, False), block(16, False), "batch=x:0,seq=x:1") == 1


def test_a_data_parallel_mean_is_proved_where_ranks_divide_the_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    relate = "inputs: {x: {dims: {0: dp}}}\n"
    base, dist = mean("s77", WHOLE), mean("s77", PER_RANK)
    assert verdict(tmp_path, base, dist, "batch=x:0,seq=x:1", relate) == 0
    assert "2 divides batch" in capsys.readouterr().out
    more = dist.replace("2*s27", "4*s27").replace("size_1 * 2", "size_1 * 4")
    assert verdict(tmp_path, base, dist, "dp,batch=x:0,seq=x:1", relate, (more,)) == 0
    assert "dp divides batch" in capsys.readouterr().out
    assert verdict(tmp_path, base, mean("s77", FROZEN), "batch=x:0,seq=x:1", relate) == 1


def test_a_bound_inside_of_the_text_is_not_taken_for_a_formula(tmp_path: Path) -> None:
    body = """            sym_min: "Sym(Min(1000, s27))" = torch.sym_min(size_1, 1000)
            slice_1: "f32[s77, Min(1000, s27), 8]" = torch.ops.aten.slice.Tensor(x, 1, 0, sym_min)
            return (slice_1,)
"""
    source = text("s77", body, 'p_up: "f32[8]"')
    assert graph(source, "x:0=4", "x:1=2000").outputs[0].tensor.shape == (4, 1000, 8)
    with pytest.raises(InputError, match="the text is not what the formulas"):
        verdict(tmp_path, source, source, "batch=x:0,seq=x:1")


def test_sizes_are_given_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "base.fx.txt").write_text(block(32, False))
    (tmp_path / "dist.fx.txt").write_text(block(16, True))
    pair = [str(tmp_path / "base.fx.txt"), str(tmp_path / "dist.fx.txt"), "--mesh", "tp=2"]

    def status(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["dlverify", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return int(exit_.value.code or 0)

    assert status("verify", *pair, "--size", "x:0=6,x:1=5") == 0
    assert status("export", *pair, "--size", "x:0=6", "--size", "s27=5", "-o", str(tmp_path / "facts")) == 0
    assert status("relate", *pair, "--size", "x:0=6,x:1=5") == 0
    assert "# x f32[6,5,8]" in capsys.readouterr().out
    assert status("verify", *pair) == 2
    assert "sizes of the program are open" in capsys.readouterr().err
    family = tmp_path / "family.yaml"
    family.write_text(
        "symbols: {batch: 'x:0', seq: 'x:1'}\ncaptures: [{base: base.fx.txt, dist: dist.fx.txt, mesh: tp=2}]\n"
    )
    assert status("family", str(family)) == 0


def test_a_symbol_that_is_not_named_is_told_with_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        verdict(tmp_path, block(32, False), block(16, True), "batch=x:0")
    assert "open: s27 (in x:1)" in str(error.value)
    assert "--size x:1=8" in str(error.value)
