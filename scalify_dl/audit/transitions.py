"""Every SPMD transition of `datalog/lift/transitions.dl` as a pair: what it means on one device, and what ranks do to a
value and to its gradient. The rules are to prove it, and a run on ranks to agree; with a wrong backward neither is."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.ir.programs import Program
from scalify_dl.ir.transitions import transition
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Distributed, Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.pysouffle import Program as Rules
from scalify_dl.pysouffle import rules_dir

AXIS = "tp"
GRADIENT = {"R": "P", "P": "R", "I": "I", "V": "V", "S": "S"}


class Row(NamedTuple):
    """A verb between two types, and its backward."""

    verb: str
    src: str
    dst: str
    back: str
    back_src: str
    back_dst: str


WRONG = {
    "reinterpret R V": ("all_reduce", "V", "R"), "reinterpret V P": ("convert", "R", "P"),
    "reinterpret R P": ("convert", "R", "P"), "convert R I": ("reinterpret", "R", "I"),
    "convert I P": ("all_reduce", "P", "I"), "convert R V": ("all_gather", "V", "I"),
    "convert V P": ("reduce_scatter", "P", "V"), "convert R S": ("all_gather", "S", "I"),
    "convert S P": ("reduce_scatter", "P", "S"), "convert R P": ("reinterpret", "R", "P"),
    "convert I R": ("reinterpret", "R", "V"), "all_reduce P I": ("all_reduce", "P", "I"),
    "convert I V": ("convert", "V", "P"), "all_gather V I": ("reduce_scatter", "P", "V"),
    "convert I S": ("convert", "S", "P"), "all_gather S I": ("reduce_scatter", "P", "S"),
    "all_gather V R": ("convert", "R", "V"), "all_gather S R": ("convert", "R", "S"),
    "reduce_scatter P V": ("convert", "V", "P"), "reduce_scatter P S": ("convert", "S", "P"),
    "all_to_all V V": ("reinterpret", "R", "V"), "all_reduce P R": ("reinterpret", "R", "V"),
    "all_reduce V R": ("reinterpret", "R", "V"),
    "all_reduce V I": ("all_reduce", "V", "I"), "reduce_scatter V V": ("convert", "V", "P"),
    "reduce_scatter V S": ("convert", "S", "P"), "reinterpret I V": ("reinterpret", "R", "V"),
    "reinterpret I P": ("reinterpret", "R", "V"), "reinterpret R I": ("reinterpret", "R", "I"),
    "reinterpret I R": ("reinterpret", "R", "V"),
}  # fmt: skip
"""A backward that is none, of the right shape, for every transition that has such."""


@cache
def table() -> tuple[Row, ...]:
    """All rows."""
    path = rules_dir() / "lift" / "transitions.dl"
    program = Rules.from_source(path.read_text("utf-8"), name=path.name, include_dirs=[rules_dir()])
    program.run()
    return tuple(sorted(Row(*map(str, row)) for row in program.relation("transition")))


def agrees(row: Row, ways: int = 2, wrong: bool = False) -> tuple[set[str], str]:
    """The verdicts of the rules on value and gradient, and what a run says, on so many ranks."""
    facts = pair(row, ways, wrong).facts()
    verdicts = {str(found[2]) for found in analyse(facts, Options()).rows("output_verdict")}
    return verdicts, find_counterexample(load_program(facts.tables), localise=False).status


def pair(row: Row, ways: int, wrong: bool = False) -> Pair:
    """The value and the gradient of a transition: on one device, and on ranks."""
    back = WRONG[f"{row.verb} {row.src} {row.dst}"] if wrong else (row.back, row.back_src, row.back_dst)
    made = Pair(f"{AXIS}={ways}")
    b, d = made.base, made.dist
    shape = (2 * ways, 2 * ways) if row.verb == "all_to_all" else (ways, 2 * ways)
    x = b.input("x", (ways, *shape) if _listed(row) else shape)
    y = _meaning(b, row, x, ways)
    g = b.input("g", y.shape)
    b.output(y, _adjoint(b, row, g, ways))
    to = 1 if row.src == row.dst == "S" else 0  # dim 0 in blocks, or dim 1 behind an exchange
    y_mine = transition(d, row.verb, _given(d, "x", x, row.src), AXIS, _at(row.src, 0), _at(row.dst, to))
    g_mine = _given(d, "g", g, GRADIENT[row.dst], to)
    dx = transition(d, back[0], g_mine, AXIS, _at(back[1], to), _at(back[2], 0))
    _given_back(d, y_mine, row.dst, to)
    _given_back(d, dx, GRADIENT[row.src], 0)
    return made


def _at(word: str, dim: int) -> str:
    return f"S{dim}" if word == "S" else word


def _listed(row: Row) -> bool:
    """Whether the values are a list on one device, one of each rank."""
    return row.src == "V" and row.verb in ("reinterpret", "all_reduce", "reduce_scatter", "all_to_all")


def _placement(word: str, dim: int) -> Placement:
    if word == "P":
        return Placement({}, {AXIS: "sum"})
    return Placement({} if word in "RI" else {dim: [AxisPart(AXIS)]})


def _given(d: Distributed, name: str, whole: Tensor, word: str, dim: int = 0) -> Tensor:
    placement = _placement(word, dim)
    mine = d.graph.input(name, "f32", placement.layout(whole.shape, d.mesh).local_shape, path=name, placement=placement)
    return d.reshape(mine, mine.shape[1:]) if word == "V" else mine


def _given_back(d: Distributed, value: Tensor, word: str, dim: int) -> None:
    """An output of that type: of parts, what their all-reduce is."""
    if word == "V":
        value = d.reshape(value, (1, *value.shape))
    elif word == "P":
        value, word = d.all_reduce(value, AXIS), "R"
    d.graph.output(value, placement=_placement(word, dim))


def _meaning(b: Program, row: Row, x: Tensor, ways: int) -> Tensor:
    """What the result stands for, of what the operand stands for."""
    if row.verb == "reinterpret" and row.dst == "V":
        return _copies(b, x, ways)
    if row.verb == "reinterpret" and row.dst == "P" and row.src != "V":
        return b.multiply(x, float(ways))
    if row.verb == "all_to_all" and row.src == "V":
        return _exchanged(b, x, ways)
    return b.reduce(x, 0) if _listed(row) else x


def _adjoint(b: Program, row: Row, g: Tensor, ways: int) -> Tensor:
    """The adjoint of `_meaning`."""
    if row.verb == "reinterpret" and row.dst == "V":
        return b.reduce(g, 0)
    if row.verb == "reinterpret" and row.dst == "P" and row.src != "V":
        return b.multiply(g, float(ways))
    if row.verb == "all_to_all" and row.src == "V":
        return _exchanged(b, g, ways)
    return _copies(b, g, ways) if _listed(row) else g


def _copies(b: Program, x: Tensor, ways: int) -> Tensor:
    return b.broadcast(x, (ways, *x.shape), [d + 1 for d in range(len(x.shape))])


def _exchanged(b: Program, x: Tensor, ways: int) -> Tensor:
    """Block s of the r-th value as block r of the s-th."""
    blocks = b.reshape(x, (ways, ways, x.shape[1] // ways, *x.shape[2:]))
    return b.reshape(b.transpose(blocks, 1, 0, *range(2, len(blocks.shape))), x.shape)
