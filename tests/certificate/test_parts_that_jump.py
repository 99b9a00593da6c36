"""Certificates of layers that are written differently and decide by numbers that they compute: that is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.certificate.files import read_lines, write_lines
from scalify_dl.commands.check import check
from scalify_dl.facts.files import write
from scalify_dl.ir.graph import Graph, Tensor

from ..algebra.programs import matmul, number, over, square, two, wide
from .test_certificate import certified
from .test_equal_formulas import facts_of

ROWS, MODEL, LAYERS = 16, 32, 4


def positive(g: Graph, x: Tensor) -> Tensor:
    truth = g.emit("compare", [x, number(g, 0, x)], direction="GT", dtype="pred")
    return g.emit("select", [truth, x, number(g, 0, x)])


def normed(g: Graph, x: Tensor, kind: str) -> Tensor:
    mean = two(g, "divide", over(g, square(g, x), "sum", 1), g.splat(MODEL, "f32", (x.shape[0],)))
    root = g.emit(kind, [two(g, "add", mean, number(g, 1, mean))])
    return two(g, "multiply" if kind == "rsqrt" else "divide", x, wide(g, root, x, 0))


def layers() -> Pair:
    """Rows over ranks; norms in two ways, and only what is above zero goes on."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((ROWS, MODEL), {0: "dp"})
    for _ in range(LAYERS):
        w, dw = pair.input((MODEL, MODEL))
        x = positive(pair.base, matmul(pair.base, normed(pair.base, x, "rsqrt"), w))
        dx = positive(pair.dist, matmul(pair.dist, normed(pair.dist, dx, "sqrt"), dw))
    pair.outputs(x, dx)
    return pair


def test_what_parts_hide_is_listed_and_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = facts_of(layers())
    write(facts, tmp_path / "facts")
    header, *lines = read_lines(certified(facts, tmp_path / "proof"))
    assert header["parts"]
    assert not header.get("equalities")
    assert check(tmp_path / "proof", [tmp_path / "facts"], (), as_json=False) == 0
    for name in ("assumptions", "equality_assumptions"):
        header[name] = [row for row in header[name] if "no rounding decides" not in row[1]]
    write_lines(tmp_path / "forged", iter([header, *lines]))
    assert check(tmp_path / "forged", [tmp_path / "facts"], (), as_json=False) == 3
    assert "does not list what its formulas hide" in capsys.readouterr().err
