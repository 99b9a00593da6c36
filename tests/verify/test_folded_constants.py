"""Numbers computed of constants on one side, and written as a constant on the other, as compilers fold them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts.files import write
from scalify_dl.families.capture import Capture
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.report.conclude import conclude

MESH = Mesh((("tp", 2),))


def verdict(number: str, kind: str, written: str, dtype: str, *, discrete: bool = False) -> Report:
    """x divided by a function of a number, against x divided by a written constant."""
    graphs = Graph("base"), Graph("dist")
    for graph in graphs:
        x = graph.input("x", dtype, (4, 8), path="x")
        if graph.name == "base":
            by = graph.emit(kind, [graph.constant(Literal.scalar(number, "f32"), "f32")])
            by = by if dtype == "f32" else graph.emit("convert", [by], dtype=dtype)
        else:
            by = graph.constant(Literal.scalar(written, dtype), dtype)
        y = graph.emit("divide", [x, graph.emit("broadcast", [by], dimensions=[], shape=(4, 8))])
        y = graph.emit("convert", [y], dtype="s32") if discrete else y
        graph.output(y, path="y")
    return conclude(analyse(tables(graphs[0], [graphs[1]], MESH), Options()))


def precision(report: Report) -> list[str]:
    return [a.text for a in report.assumptions if a.why == "precision"]


@pytest.mark.parametrize(
    ("number", "kind", "written", "dtype"),
    [("128", "sqrt", "11.31", "bf16"), ("128", "rsqrt", "0.0884", "f16"), ("2", "log", "0.693147182", "f32"),
     ("96", "sqrt", "9.797959", "f32"),
     ("0.5", "exponential", "1.64872122", "f32")],
)  # fmt: skip
def test_a_folded_number_is_what_it_was_computed_from_and_that_is_listed(
    number: str, kind: str, written: str, dtype: str
) -> None:
    report = verdict(number, kind, written, dtype, discrete=True)
    assert report.verdict is Verdict.PROVED
    assert len(precision(report)) == 1


def test_another_number_of_the_type_is_no_folding() -> None:
    assert verdict("128", "sqrt", "11.375", "bf16", discrete=True).verdict is not Verdict.PROVED
    assert verdict("2", "log", "0.6931475", "f32", discrete=True).verdict is not Verdict.PROVED


EXACT = {
    ("64", "sqrt"): ("8", "8.00000095"), ("0", "exponential"): ("1", "1.00000012"), ("27", "cbrt"): ("3", "3.00000024"),
    ("0.25", "rsqrt"): ("2", "1.99999988"), ("0", "cosine"): ("1", "0.99999994"),
}  # fmt: skip


@pytest.mark.parametrize("number", EXACT)
def test_a_number_beside_one_that_is_exact_is_no_rounding_of_it(number: tuple[str, str]) -> None:
    """It was folded, and for roots nothing was listed."""
    report = verdict(*number, EXACT[number][1], "f32", discrete=True)
    assert report.verdict is not Verdict.PROVED


def test_zeros_have_signs_and_are_not_folded() -> None:
    assert verdict("1", "log", "-0.0", "f32", discrete=True).verdict is not Verdict.PROVED


@pytest.mark.parametrize("number", EXACT)
def test_what_is_exactly_a_number_is_no_rounding(number: tuple[str, str]) -> None:
    report = verdict(*number, EXACT[number][0], "bf16", discrete=True)
    assert (report.verdict, precision(report)) == (Verdict.PROVED, [])


def seeded(kind: str, numbers: tuple[int, int], written: int) -> Report:
    """x plus what is computed of two integers, against x plus a written one."""
    base, dist = Graph("base"), Graph("dist")
    pair = [base.constant(number, "u32") for number in numbers]
    for graph, number in ((base, base.emit(kind, pair)), (dist, dist.constant(written, "u32"))):
        x = graph.input("x", "u32", (4,), path="x")
        graph.output(graph.emit("add", [x, graph.emit("broadcast", [number], dimensions=[], shape=(4,))]), path="y")
    return conclude(analyse(tables(base, [dist], MESH), Options()))


SEEDS = [
    ("and", (3, 4294967295), 3), ("shift-right-logical", (7, 32), 0), ("xor", (4294967295, 1), 4294967294),
    ("add", (4294967295, 2), 1), ("shift-left", (3, 31), 2147483648),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "numbers", "written"), SEEDS)
def test_integers_are_folded_exactly_modulo_their_type(kind: str, numbers: tuple[int, int], written: int) -> None:
    report = seeded(kind, numbers, written)
    assert (report.verdict, precision(report)) == (Verdict.PROVED, [])
    assert seeded(kind, numbers, written ^ 1).verdict is Verdict.REFUTED


HLO = """HloModule m
ENTRY e {{
  x = f32[4]{{0}} parameter(0)
  {number}
  b = f32[4]{{0}} broadcast(n), dimensions={{}}
  ROOT y = f32[4]{{0}} multiply(x, b)
}}
"""


def test_members_of_families_keep_what_they_compute_of_their_sizes(tmp_path: Path) -> None:
    """A root of a size is no number, though it is one at the size that was captured."""
    base, dist = tmp_path / "base.hlo", tmp_path / "dist.hlo"
    base.write_text(HLO.format(number="c = f32[] constant(16)\n  n = f32[] rsqrt(c)"), "utf-8")
    dist.write_text(HLO.format(number="n = f32[] constant(0.25)"), "utf-8")
    capture = Capture(base, (dist,), "tp=2")
    assert "rsqrt" in {row[2] for row in capture.load(member=True)["op"]}
    facts = capture.load()
    assert "rsqrt" not in {row[2] for row in facts["op"]}
    write(facts, tmp_path / "facts")
    with pytest.raises(InputError, match="folded"):
        Capture(facts=tmp_path / "facts").load(member=True)


def test_what_is_folded_within_a_loop_is_listed_too() -> None:
    base, dist = Graph("base"), Graph("dist")
    for graph in (base, dist):
        x = graph.input("x", "f32", (4,), path="x")
        body, cond = Graph(f"{graph.name} body"), Graph(f"{graph.name} cond")
        y, n = body.input("y", "f32", (4,)), body.input("n", "s32", ())
        factor = body.constant(0.5, "f32") if graph is base else body.constant(Literal.scalar("1.64872122"), "f32")
        factor = body.emit("exponential", [factor]) if graph is base else factor
        body.output(body.emit("multiply", [y, body.emit("broadcast", [factor], dimensions=[], shape=(4,))]))
        body.output(body.emit("add", [n, body.constant(1, "s32")]))
        cond.input("y", "f32", (4,))
        cond.output(cond.emit("compare", [cond.input("n", "s32", ()), cond.constant(3, "s32")], direction="LT"))
        loop = graph.add("while", [x, graph.constant(0, "s32")], [("f32", (4,)), ("s32", ())])
        loop.regions = [cond, body]
        graph.output(loop.results[0], path="y")
    assert [row[2] for row in tables(base, [dist], MESH)["assume"]] == ["precision"]


def test_a_fraction_that_is_rounded_on_the_way_and_repeated_before_its_sign_is_changed() -> None:
    """-0.01 / 80 in f32 is not the number nearest to -1/8000."""
    base, dist = Graph("base"), Graph("dist")
    for graph in (base, dist):
        x = graph.input("x", "f32", (4,), path="x")
        if graph is base:
            tenth = graph.emit("divide", [graph.constant(-0.01, "f32"), graph.constant(80, "f32")])
            by = graph.emit("negate", [graph.emit("broadcast", [tenth], dimensions=[], shape=(4,))])
        else:
            number = graph.constant(Literal.scalar("0.000124999991", "f32"), "f32")
            by = graph.emit("broadcast", [number], dimensions=[], shape=(4,))
        graph.output(graph.emit("convert", [graph.emit("multiply", [x, by])], dtype="s32"), path="y")
    report = conclude(analyse(tables(base, [dist], MESH), Options()))
    assert (report.verdict, len(precision(report))) == (Verdict.PROVED, 2)  # its rounding, and that none decides


@pytest.mark.parametrize(
    ("left", "right", "direction", "verdict"),
    [("0.1", "0.3", "EQ", Verdict.UNKNOWN), ("0.1", "0.3", "LE", Verdict.UNKNOWN), ("0.5", "1.5", "EQ", Verdict.PROVED),
     ("0.5", "1.25", "GT", Verdict.PROVED), ("4", "12", "GE", Verdict.PROVED)],
)  # fmt: skip
def test_three_times_a_number_is_compared_where_nothing_is_rounded(
    left: str, right: str, direction: str, verdict: Verdict
) -> None:
    graphs = Graph("base"), Graph("dist")
    for graph in graphs:
        x = graph.input("x", "f64", (4, 8), path="x")
        factor = graph.constant(Literal.scalar("2", "f64"), "f64")
        if graph.name == "base":
            a, three, b, other = (graph.constant(Literal.scalar(n, "f64"), "f64") for n in (left, "3", right, "5"))
            chosen = graph.emit("compare", [graph.emit("multiply", [a, three]), b], direction=direction, dtype="pred")
            factor = graph.emit("select", [chosen, factor, other])
        y = graph.emit("multiply", [x, graph.emit("broadcast", [factor], dimensions=[], shape=(4, 8))])
        graph.output(y, path="y")
    report = conclude(analyse(tables(graphs[0], [graphs[1]], MESH), Options(refute=False)))
    assert report.verdict is verdict


def test_a_rounded_number_is_cast_to_no_integer() -> None:
    graphs = Graph("base"), Graph("dist")
    for graph in graphs:
        x = graph.input("x", "s32", (4, 8), path="x")
        factor = graph.constant(Literal.scalar("3", "s32"), "s32")
        if graph.name == "base":  # 0.3 / 0.1 is a little less than 3
            a, b = (graph.constant(Literal.scalar(n, "f64"), "f64") for n in ("0.3", "0.1"))
            factor = graph.emit("convert", [graph.emit("divide", [a, b])], dtype="s32")
        y = graph.emit("multiply", [x, graph.emit("broadcast", [factor], dimensions=[], shape=(4, 8))])
        graph.output(y, path="y")
    report = conclude(analyse(tables(graphs[0], [graphs[1]], MESH), Options(refute=False)))
    assert report.verdict is Verdict.UNKNOWN
