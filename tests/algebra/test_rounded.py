"""Constants that are rounded products of powers of others are taken for them, and this is listed; others are not."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalify_dl.algebra.rounded import explained, is_plain, products
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import load_program
from scalify_dl.pairing.builder import Pair

WRITTEN = [Fraction("0.001"), Fraction("0.271"), Fraction("1e-8")]
CORRECTION = Fraction("0.002997001")


def step(ulps: int = 0) -> Fraction:
    """0.001·√0.002997001/0.271 in f32, or a number near it."""
    value = np.float32(0.001 * 0.002997001**0.5 / 0.271)
    for _ in range(ulps):
        value = np.nextafter(value, np.float32(1))
    return Fraction(str(value))


def test_a_rounded_product_of_powers_is_found() -> None:
    found = explained(dict.fromkeys([*WRITTEN, CORRECTION, step()], 24))
    assert dict(found[step()]) == {WRITTEN[0]: 1, WRITTEN[1]: -1, CORRECTION: Fraction(1, 2)}
    assert list(found) == [step()]


def test_the_number_next_to_it_is_what_it_is() -> None:
    assert explained(dict.fromkeys([*WRITTEN, CORRECTION, step(1)], 24)) == {}


def test_multiples_and_numbers_with_a_name_are_factors_too() -> None:
    """The slope of the gelu by tanh has 3·0.044715·√(2/π), which code has as two numbers."""
    cubic, root, slope = (Fraction(text) for text in ("0.044715", "0.79788456", "0.1070322243"))
    assert dict(explained(dict.fromkeys([slope, cubic, root], 24))[slope]) == {cubic: 1, root: 1, Fraction(3): 1}
    beside = Fraction(str(np.nextafter(np.float32(slope), np.float32(1))))
    assert explained(dict.fromkeys([beside, cubic, root], 24)) == {}


@pytest.mark.parametrize(("slope", "expected"), [(0.1070322243, "PROVED"), (0.10703224, "UNKNOWN"), (0.11, "REFUTED")])
def test_a_slope_that_is_written_in_numbers_is_the_librarys(slope: float, expected: str) -> None:
    torch = pytest.importorskip("torch")
    import scalify_dl

    def build(mesh: Any = None) -> Any:
        def whole(_: Any, x: Any, g: Any) -> Any:
            x = x.detach().requires_grad_()
            return {"gradient": torch.autograd.grad(torch.nn.functional.gelu(x, approximate="tanh"), x, g)[0]}

        def written(_: Any, x: Any, g: Any) -> Any:
            t = torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))
            return {"gradient": (0.5 * x * ((1 - t * t) * (0.79788456 + slope * x * x)) + 0.5 * (1 + t)) * g}

        return torch.nn.Identity(), (torch.ones(3), torch.ones(3)), whole if mesh is None else written

    assert scalify_dl.verify(build, mesh={"x": 1}).verdict == expected


@pytest.mark.parametrize("text", ["0.001", "1e-8", "0.99999", "12000", "1/3", "0.044715"])
def test_what_somebody_wrote_is_no_product(text: str) -> None:
    assert is_plain(Fraction(text))
    assert not is_plain(Fraction(text) * Fraction("1.0000019"))


def test_constants_that_are_not_printed_are_no_numbers() -> None:
    pair = Pair(Mesh((("tp", 1),)))
    for side in (pair.base, pair.dist):
        known, left_out = side.constant(0.1234567, "f32", (4,)), side.constant(Literal.elided("0" * 64), "f32", (4,))
        side.output(side.add(known, left_out))
    assert products(load_program(pair.facts().tables)) == {}


def adam(p: Any, m: Any, v: Any) -> Any:
    import jax.numpy as jnp

    return p - 1e-3 * (m / (1 - 0.9**3)) / (jnp.sqrt(v / (1 - 0.999**3)) + 1e-8)


def with_bias_in_the_step(p: Any, m: Any, v: Any, *, factor: float = 1.0) -> Any:
    import jax.numpy as jnp

    root = (1 - 0.999**3) ** 0.5
    return p - 1e-3 * root / (1 - 0.9**3) * factor * m / (jnp.sqrt(v) + 1e-8 * root)


def test_a_step_with_its_corrections_in_one_constant_is_proved_and_lists_them(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    from scalify_dl.pairing.export import export
    from scalify_dl.prove.options import Options
    from scalify_dl.prove.pipeline import analyse

    def analysed(dist: Any) -> Any:
        for name, function in (("base", adam), ("dist", dist)):
            lowered = jax.jit(function).trace(*[jax.ShapeDtypeStruct((3,), "float32")] * 3)
            (tmp_path / f"{name}.mlir").write_text(lowered.lower(lowering_platforms=("cpu",)).as_text())
        return analyse(export(tmp_path / "base.mlir", [tmp_path / "dist.mlir"], "x=1", None), Options())

    right = analysed(with_bias_in_the_step)
    assert [row[2] for row in right.rows("output_verdict")] == ["PROVED"]
    assert sum(row[2] == "rounded" for row in right.rows("assumption")) == 2
    wrong = analysed(lambda *a: with_bias_in_the_step(*a, factor=1 + 3e-7))
    assert [row[2] for row in wrong.rows("output_verdict")] != ["PROVED"]
