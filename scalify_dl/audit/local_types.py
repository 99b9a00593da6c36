"""Every row of `joined` in `datalog/lift/typing.dl` as a pair: a local op of values of SPMD types, with the backward
that is derived of it, on one device and on ranks. Of what is no row a run has to show that the result has no type."""

from __future__ import annotations

from functools import cache
from itertools import product

from scalify_dl.adjoint import backward
from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.ir.programs import Program
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Distributed, Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.pysouffle import Program as Rules
from scalify_dl.pysouffle import rules_dir

AXIS = "tp"
WORDS = ("R", "I", "V", "P")
GRADIENT = {"R": "P", "P": "R", "I": "I", "V": "V"}
SORTS = {"sum": "add", "product": "multiply", "quotient": "divide", "other": "maximum"}
SHAPE = (4, 4)


@cache
def joined() -> frozenset[tuple[str, str, str, str]]:
    """All rows: the sort of an op, the types of its operands and of its result."""
    path = rules_dir() / "lift.dl"
    program = Rules.from_source(path.read_text("utf-8") + "\n.output joined\n", name=path.name,
                                include_dirs=[rules_dir()])  # fmt: skip
    program.run()
    return frozenset(tuple(map(str, row)) for row in program.relation("joined"))  # type: ignore[misc]


def mixed() -> list[tuple[str, str, str]]:
    """What is no row."""
    known = {row[:3] for row in joined()}
    return [case for case in product(SORTS, (*WORDS, "A"), (*WORDS, "A")) if case not in known]


def agrees(sort: str, left: str, right: str, word: str, ways: int = 2) -> tuple[set[str], str]:
    """The verdicts of the rules on value and gradients, and what a run says, on so many ranks."""
    facts = pair(sort, left, right, word, ways).facts()
    verdicts = {str(found[2]) for found in analyse(facts, Options()).rows("output_verdict")}
    return verdicts, find_counterexample(load_program(facts.tables), localise=False).status


def types_that_a_run_allows(sort: str, left: str, right: str, ways: int = 2) -> list[str]:
    """Types that the result of such an op could have, by the numbers of values and gradients."""
    found = []
    for word in ("V",) if "V" in (left, right) else WORDS:
        try:
            facts = pair(sort, left, right, word, ways).facts()
        except InputError:
            continue
        if find_counterexample(load_program(facts.tables), localise=False).status not in ("refuted", "witness"):
            found.append(word)
    return found


def pair(sort: str, left: str, right: str, word: str, ways: int) -> Pair:
    """The op and its backward, the result said to be of a type; constants (`A`) have no gradient."""
    made = Pair(f"{AXIS}={ways}")
    b, d = made.base, made.dist
    listed = word == "V"
    wholes, mine, used = [], [], []
    for name, its in (("x", left), ("y", right)):
        whole = b.input(name, (ways, *SHAPE) if its == "V" else SHAPE)
        wholes.append(whole)
        spread = listed and its != "V"
        used.append(b.broadcast(whole, (ways, *SHAPE), [1, 2]) if spread else whole)
        mine.append(_given(d, name, whole, "R" if its == "A" else its))
    y = getattr(b, SORTS[sort])(*used)
    g = b.input("g", y.shape)
    result = getattr(d, SORTS[sort])(*mine)
    h = _given(d, "g", g, GRADIENT[word])
    asked = [n for n, its in enumerate((left, right)) if its != "A"]
    b.output(y, *_gradients(b, y, g, [wholes[n] for n in asked]))
    _given_back(d, result, word)
    for n, x in zip(asked, _gradients(d, result, h, [mine[n] for n in asked]), strict=True):
        _given_back(d, x, GRADIENT[(left, right)[n]])
    return made


def _gradients(p: Program, y: Tensor, g: Tensor, wrt: list[Tensor]) -> list[Tensor]:
    return [x for x in backward(p, {y: g}, wrt) if x is not None]


def _placement(word: str) -> Placement:
    if word == "P":
        return Placement({}, {AXIS: "sum"})
    return Placement({0: [AxisPart(AXIS)]} if word == "V" else {})


def _given(d: Distributed, name: str, whole: Tensor, word: str) -> Tensor:
    placement = _placement(word)
    mine = d.graph.input(name, "f32", placement.layout(whole.shape, d.mesh).local_shape, path=name, placement=placement)
    return d.reshape(mine, mine.shape[1:]) if word == "V" else mine


def _given_back(d: Distributed, value: Tensor, word: str) -> None:
    """An output of that type: of parts, what their all-reduce is."""
    if word == "V":
        value = d.reshape(value, (1, *value.shape))
    elif word == "P":
        value, word = d.all_reduce(value, AXIS), "R"
    d.graph.output(value, placement=_placement(word))
