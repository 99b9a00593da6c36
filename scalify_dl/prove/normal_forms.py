"""Outputs that no rule proves: computed on formulas, and given back to the rules where both sides are equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts

if TYPE_CHECKING:
    from scalify_dl.algebra.compared import Answer
    from scalify_dl.algebra.decide import Found
    from scalify_dl.algebra.rewriting import Rewritten
    from scalify_dl.oracle.program import Program
    from scalify_dl.oracle.rewrites import Rewrite

SECONDS = 6.0
"""CPU time for all outputs of a run, at first."""
AGAIN = 12.0
"""CPU time for all that is asked later, when the rules have gone on from values between."""
BRIEFLY = 1.0
"""CPU time for outputs of which a run says that they differ: at most they are equal for numbers of some kind."""
BESIDE = 1.0
"""CPU time for all other outputs, at first and later, where a run says that some differ: the verdict is known then."""
MANY = 100
"""Ops of both programs above which a run is made before formulas are compared."""
DEEPEST = 600
"""Ops in a row, from what is proved to an output, up to which its formula is looked for."""
WORDS = {
    "finite": "its values are finite",
    "nonzero": "it is not zero where it is divided by",
    "positive": "it is above zero where its logarithm is taken",
    "masked": "what stands beside this mask is small: exp of the mask less that is nothing",
    "absorbed": "what stands beside a mask that is taken away again is not lost by rounding",
    "rounded": "it is a product of powers of other constants of the programs, rounded",
    "order": "equal elements of a row of it are found in the order of their places",
    "threshold": "beyond a threshold it is taken for what rounding makes of it",
    "zeros": "no row of it has zeros of both signs, which some orders tell apart",
    "range": "nothing that it is made of leaves the range of its type, as exponentials of large numbers do",
    "types": "what one side computes in a type the other computes in another one, and rounds it otherwise",
    "jumps": "where it is decided by numbers that are computed (compared, sorted, made whole), no rounding decides, and"
    " none is 0 or infinite for being too small or too large for its type",
    "shown": "no row of it is masked altogether: it is nowhere ∞ − ∞",
    "nonnegative": "it is not below zero where its root is taken",
}
PRECISION = ("absorbed", "threshold", "zeros", "range", "types", "jumps")
"""What is listed as precision: of real numbers nothing is asked."""

Row = tuple[Any, ...]


class Equalities(NamedTuple):
    """What formulas say: rows of `proved_equal` and of `assumed_equality`; where formulas part. `more` is to be asked
    when the rules have gone on from there: not all outputs were looked at, or not for long. `found` is what is known by
    then of values on the way, if anything is."""

    proved: list[Row]
    needs: list[Row]
    parted: list[str]
    more: bool
    found: Found | None = None


def equalities(
    facts: Facts, rows: Callable[[str], Iterable[Row]], seconds: float = SECONDS,
    before: Found | None = None, outputs: Collection[tuple[str, str]] | None = None, *, differ: bool = False,
) -> Equalities:  # fmt: skip
    """Outputs that are not proved (of some, if these are given) and are equal, or where none is known to be, values on
    the way to one that are.

    `before`: what was found on the way when that was asked before, and the rules have gone on from there. `differ`: a
    run says that these outputs do, so nothing is sought on the way to them.
    InputError where somebody's own equalities (`rewrite`) are not understood, or false for some numbers.
    """
    rewrites = own_equalities(rows)
    wanted = unproved(rows, outputs)
    if wanted:
        far = depths(facts, {row[0] for row in rows("corr")})
        wanted = {(dist, base) for dist, base in wanted if far.get(dist, 0) <= DEEPEST}
    if not wanted:
        return Equalities([], [], [], False)
    from scalify_dl.algebra.decide import decider  # imported where something is left to decide
    from scalify_dl.algebra.effort import now

    proved: list[Row] = []
    needs: dict[Row, None] = {}
    cuts: set[str] = set()
    decide = decider(facts.tables, rows("corr"), seconds, real_numbers(rows), rewrites)
    if before:
        decide.go_on(before)
    decide.spared = 0.0 if differ else min(decide.spared, seconds)
    assert decide.rewritten is not None
    stated = Stated(facts, decide.rewritten)

    def enter(answer: Answer) -> None:
        proved.append((answer.dist, answer.base, answer.layout))
        needs.update(dict.fromkeys(stated.rows(answer)))
        cuts.update(answer.cuts)

    more, known = False, before.between.keys() if before else set()
    asked = [row for row in facts["expect"] if row[:2] in wanted]
    for dist, base, text in sorted(asked, key=lambda row: far.get(row[0], 0)):  # the nearest first
        answer = decide.decide(dist, base, text)
        if answer is not None:
            enter(answer)
        elif decide.between.keys() - known or (proved and now() > decide.deadline):  # others took the time
            more = True
            break
    if more:
        for answer in decide.between.values():
            enter(answer)
    needs.update(dict.fromkeys(stated.sources(cuts)))
    if proved:
        needs.update(dict.fromkeys(rounded_otherwise(decide.program)))
    parted = list(decide.differences.values())
    return Equalities(proved, list(needs), parted, more, decide.found if decide.between else None)


def rounded_otherwise(program: Program) -> list[Row]:
    """That both sides compute in other types, where they do; that no rounding decides, where it might."""
    from scalify_dl.oracle.arithmetic import decided_by_computed, rounded_differently

    found = [("types", dist) for dist, _ in sorted(rounded_differently(program))]
    found += [("jumps", dist) for dist, _ in sorted(decided_by_computed(program))]
    return [(dist, WORDS[what], "precision") for what, dist in found]


class Stated:
    """What answers rest on, as rows of `assumed_equality`."""

    def __init__(self, facts: Facts, rewritten: Rewritten | None = None) -> None:
        self.origin = rewritten.origin if rewritten else {}
        self.used = rewritten.used if rewritten else {}
        self.operands = {(op, pos): tensor for op, pos, tensor in facts["operand"]}
        self.inputs = {tensor for _, _, tensor in facts["input"]}
        self.results = [(op, tensor) for op, _, tensor in facts["result"]]
        self.made = {op: tensor for op, pos, tensor in facts["result"] if pos == 0}
        self.types = {tensor: dtype for tensor, _, dtype, _ in facts["tensor"]}
        self.kinds = {op: kind for op, _, kind in facts["op"]}

    def _finite(self, inputs: Iterable[str]) -> Iterator[Row]:
        from scalify_dl.algebra.complexes import is_complex
        from scalify_dl.oracle.dtypes import is_float

        types = {t: self.types[t] for t in inputs}
        yield from ((t, WORDS["finite"], "finite") for t, it in types.items() if is_float(it) or is_complex(it))

    def sources(self, cuts: Iterable[str]) -> Iterator[Row]:
        """That a cut is a number rests on the inputs that it is made of."""
        reads: dict[str, list[str]] = {}
        for (op, _), tensor in self.operands.items():
            reads.setdefault(op, []).append(tensor)
        made = {tensor: reads.get(op, []) for op, tensor in self.results}
        found, stack = {*cuts}, [*cuts]
        while stack:
            more = [t for t in made.get(stack.pop(), ()) if t not in found]
            found.update(more)
            stack += more
        yield from self._finite(sorted(found & self.inputs))

    def rows(self, answer: Answer) -> Iterator[Row]:
        """Of one answer."""
        yield from self._finite(answer.inputs)
        for op, what in answer.needs:
            if what == "rewrite":
                yield self.made[op], f"{self.used[op].name}: {self.used[op].text}", what
            elif op in self.origin:
                rewrite = self.used[self.origin[op]]
                text = f"of a step of {rewrite.name}, {rewrite.text}: {WORDS[what]}"
                yield self.made[self.origin[op]], text, what
            elif what in ("finite", "masked", "rounded", "shown", "order", *PRECISION):
                why = "precision" if what in PRECISION else what
                yield self.made.get(op, op), WORDS[what], why  # of an op, or of a value
            else:
                divides = self.kinds.get(op) == "divide"  # of a power it is what is raised
                tensor = self.operands.get((op, 1 if divides and what == "nonzero" else 0))
                yield tensor or op, WORDS[what], what


def unproved(
    rows: Callable[[str], Iterable[Row]], outputs: Collection[tuple[str, str]] | None
) -> set[tuple[str, str]]:
    """Outputs that are not proved (of some, if these are given)."""
    wanted = {row[:2] for row in rows("output_verdict") if row[2] != "PROVED"}
    return wanted if outputs is None else wanted & set(outputs)


def different_in_numbers(
    facts: Facts, rows: Callable[[str], Iterable[Row]], outputs: Collection[tuple[str, str]] | None
) -> set[tuple[str, str]]:
    """Of outputs that are not proved (of some, if these are given), those that one run of a longer program refutes."""
    wanted = unproved(rows, outputs)
    if not wanted or len(facts["op"]) < MANY:
        return set()
    from scalify_dl.oracle import find_counterexample, load_program

    try:
        search = find_counterexample(
            load_program(facts.tables), outputs={dist for dist, _ in wanted}, rounding=False, localise=False, once=True
        )
    except (InputError, MemoryError):
        return set()
    return {(dist, base) for dist, base in wanted if dist in {c.output for c in search.counterexamples}}


def real_numbers(rows: Callable[[str], Iterable[Row]]) -> frozenset[str]:
    """Values that are derived to be numbers, never infinite or NaN."""
    endless = {value for value, sort in rows("may_be") if sort in ("inf", "-inf", "nan")}
    return frozenset(value for (value,) in rows("needed_tensor") if value not in endless)


def own_equalities(rows: Callable[[str], Iterable[Row]]) -> list[Rewrite]:
    """Somebody's own equalities; InputError where one is not understood, or false for some numbers."""
    if not (found := list(rows("rewrite"))):
        return []
    from scalify_dl.oracle.rewrites import audited, read_rewrites  # imported where there are any

    return audited(read_rewrites(found))


def depths(facts: Facts, known: Collection[str]) -> dict[str, int]:
    """For each result, how many ops in a row make it of values that are known."""
    made: dict[str, list[str]] = {}
    reads: dict[str, list[str]] = {}
    for op, _, tensor in facts["operand"]:
        reads.setdefault(op, []).append(tensor)
    for op, _, tensor in facts["result"]:
        made[tensor] = reads.get(op, [])
    far: dict[str, int] = dict.fromkeys(known, 0)
    entered: set[str] = set()
    stack = list(made)
    while stack:
        tensor = stack.pop()
        if tensor in far:
            continue
        operands = [t for t in made[tensor] if t in made]
        waiting = [t for t in operands if t not in far]
        if waiting and tensor not in entered:
            entered.add(tensor)
            stack += [tensor, *waiting]
        else:
            far[tensor] = 1 + max((far.get(t, 0) for t in operands), default=0)
    return far
