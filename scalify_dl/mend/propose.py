"""From an execution to proposals: what values read as goes to the rules, which name faults and edits.

Edits of one kind at one line of the source are one proposal: a loop over parameters is mended as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations

from scalify_dl.facts import Facts
from scalify_dl.facts.model import Row
from scalify_dl.ir.graph import BACKWARD
from scalify_dl.oracle.readings import Readings
from scalify_dl.prove.pipeline import fact_relations
from scalify_dl.prove.verdict import Frame
from scalify_dl.prove.view import user_frames
from scalify_dl.pysouffle import EvaluationError, Program, rules_dir

from .draft import Edit
from .turns import Turns

MAIN = "mend.dl"
SECONDS = 60.0
"""Wall time for the rules on one execution: a machine that does other things gives them a part of itself."""
ORDER = (
    "given back", "again", "gathered", "at hand", "cut", "beside", "whole added", "axis", "joined", "origin",
    "late", "unlike turns", "before", "reducer", "mixed", "every rank", "piece", "foreign", "kind", "constants",
    "line", "constant", "attributes", "term", "operand", "unreduced", "averaged", "far", "by one", "scaled",
    "rescaled", "scaled beside", "common line", "factor", "left out", "handed on", "accumulated", "as often",
    "enters", "direction", "order", "turns", "block", "pieces", "resent", "numbers", "stale", "in step", "newer",
    "other block", "turned", "along", "inside", "function", "repeated", "stops",
)  # fmt: skip
"""Kinds of faults, those first whose edits undo one mistake of a known sort."""
GUESSES = (
    "compare", "not rescaled", "unlike its turns", "sign", "parts of all", "to the next", "all reversed", "all ended",
    "all round", "other ranks", "added behind", "combined", "own block", "unmasked", "shifted", "swapped", "offset",
    "to others", "lacking", "counted otherwise", "superfluous", "another", "real sign", "its part alone",
)  # fmt: skip
"""Kinds of guesses, in the order in which they are tried."""
TOGETHER = ("all reversed", "all ended", "all round")
"""Guesses that are meant of all such ops at once, at whatever lines."""
ALONG = (
    "reduce", "reduce for", "regroup", "reducer", "own block", "plus rank", "combine", "exchange", "gather", "send",
)  # fmt: skip
"""Verbs that speak of mesh axes, or of the turns of some op: others are another proposal."""
PLACES = ("own block", "shift")
"""Verbs that are meant of cuts and of their gradients alike."""
OF_A_LINE = ("late", "before", "line", "at hand", "unlike turns")
"""Kinds of faults whose edits at one line are one proposal, of whatever verbs."""
COPIES = 6
"""Of edits at one line that may belong together, so many are tried by themselves."""
NEAR = 3
"""So many ops from a sum, or from an output, values are siblings of what is wrong."""
STOPS = ("frontier", "right_slice", "right_operand", "pends_at", "right_constant")
"""What a proof says of ops at which it stops: relations of both programs of rules."""
BY_PROOF = "stops"
"""The kind of edits that the proof alone speaks for: for what an execution reads nothing in."""
Said = Mapping[str, Sequence[Row]]
TELLING = ("untaken", "counts for nothing", "undone")
"""Kinds of faults that lead where no edit mends: what follows from them is found at other ops, too."""
VAGUE = ("operand", "parts", "divided", "resent", "pieces", "newer")
"""Kinds of faults that an op of a right program may seem to have, where it computes what the baseline does not, or that
only say what an edit would mend."""
PROMISED = ("turns", "resent", "pieces", "newer", "block", "in step", "piece")
"""Kinds of faults whose sentences say what an edit mends: nothing, where it was not taken."""
UNTOLD = ("in step", "piece", "left out")
"""Kinds of faults that say nothing where no edit mends, or what a value lacks that parts elsewhere."""


@dataclass(frozen=True)
class Proposal:
    """Edits that belong together, with what is wrong and what to do, in words with ids for names."""

    edits: tuple[Edit, ...]
    advice: tuple[str, ...]
    fault: str = ""
    """What is wrong, where it is but a guess."""

    @property
    def why(self) -> str:
        """The kind of fault."""
        return self.edits[0].why

    @property
    def causes(self) -> list[str]:
        """The ops to blame."""
        return list(dict.fromkeys(edit.cause for edit in self.edits))


@dataclass(frozen=True)
class Proposals:
    """What the rules say of one execution: `faults` by op are (kind, sentence), `parting` the ops at which values
    part, `counterparts` the baseline ops that they most likely implement."""

    proposals: list[Proposal]
    faults: dict[str, list[tuple[str, str]]]
    parting: list[str]
    counterparts: dict[str, str]
    guesses: list[Proposal]


@cache
def _rules() -> Program:
    text = (rules_dir() / MAIN).read_text("utf-8")
    return Program.from_source(text, name=MAIN, include_dirs=[rules_dir()])


def cone(facts: Facts, tensors: Iterable[str]) -> list[str]:
    """All tensors that some are computed from, themselves first."""
    maker = {tensor: op for op, _, tensor in facts["result"]}
    reads: dict[str, list[str]] = defaultdict(list)
    for op, _, tensor in facts["operand"]:
        reads[op].append(tensor)
    seen = dict.fromkeys(tensors)
    stack = list(seen)
    while stack:
        for tensor in reads[maker.get(stack.pop(), "")]:
            if tensor not in seen:
                seen[tensor] = None
                stack.append(tensor)
    return list(seen)


def propose(
    facts: Facts,
    readings: Readings,
    wrong: Iterable[tuple[str, str]],
    said: Said | None = None,
    *,
    guess: bool = False,
) -> Proposals:
    """Faults and edits for outputs (distributed, baseline) that came out wrong; guesses too, if they are wanted.
    `said`: what a proof says of the ops at which it stops."""
    wrong = list(wrong)
    program = _rules().fresh()
    for relation, table in fact_relations(program).items():
        program.insert(relation, facts[table])
    seen, lost = [], []
    reals = {tensor for tensor, _, dtype, _ in facts["tensor"] if dtype.startswith(("f", "bf", "c"))}
    given = [tensor for graph in readings.program.top("dist") for tensor in graph.inputs]
    outputs = [dist for dist, _ in wrong]
    others = [*given, *_siblings(facts, outputs), *_of_their_shapes(facts, {*given}.intersection(outputs))]
    others += _read_by_nobody(facts)
    for tensor in dict.fromkeys([*cone(facts, outputs), *others]):
        found = readings.of(tensor)
        seen += [
            (tensor, r.base, ",".join(r.axes), r.scale.numerator, r.scale.denominator, int(r.placed))
            for r in found
            if r.scale == 1 or tensor in readings.varying  # a constant is no multiple of another one
        ]
        if readings.lost(tensor) and tensor in reals:  # a rank's own offsets and masks are nothing of the baseline's
            lost.append((tensor,))
    mesh = [(axis, size) for axis, size in readings.program.mesh.items() if size > 1]
    named = []
    for count in range(1, len(mesh) + 1):
        for some in combinations(mesh, count):
            size = 1
            for _, extent in some:
                size *= extent
            named += [(",".join(a for a, _ in some), axis, size) for axis, _ in some]
    lines = [(op, line) for op, line in _lines(facts, {row[0] for row in facts["op"]}).items() if line != op]
    sent = [(t, *_sending(sources)) for t in _handed(facts, readings) for sources in readings.resent(t)]
    told: Said = {
        "shows": seen, "lost": lost, "wrong_output": wrong, "axes": named, "written_at": lines, "could_send": sent,
        "stands_in": list(_stands_in(facts)),
    }  # fmt: skip
    for relation, rows in chain(told.items(), (said or {}).items()):
        program.insert(relation, rows)
    program.insert("varying", [(tensor,) for tensor in readings.varying])
    copies = _copies(facts, dict(lines))
    program.insert("copy", [row for ops in copies for n, op in enumerate(ops) for row in ((op, n), (op, n - len(ops)))])
    program.insert("turn_with", [(op, ops[0]) for ops in copies if len(ops) > 1 for op in ops])
    if guess:
        program.insert("look_near", [(1,)])
    try:
        program.run(timeout=SECONDS)
    except EvaluationError:  # out of time: there is a verdict, but nothing is proposed
        return Proposals([], {}, [], {}, [])
    faults: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for op, why, text in sorted(program.relation("fault")):
        faults[str(op)].append((str(why), str(text)))
    order = {row[0]: n for n, row in enumerate(facts["op"])}
    blamed = [str(op) for (op,) in program.relation("blamed")]
    kinds = {op: {why for why, _ in faults.get(op, ())} for op in blamed}
    blamed.sort(key=lambda op: (kinds[op].isdisjoint(TELLING), _vague(kinds[op]), order.get(op, 0)))
    proposals = [*Turns(facts, copies).with_all(_bundles(program, facts, order))]
    return Proposals(proposals, dict(faults), blamed,
                     {str(op): str(base) for op, base in program.relation("implements")},
                     _guesses(program, facts, order, dict(lines)))  # fmt: skip


def _vague(kinds: set[str]) -> int:
    """How little kinds of faults say of an op that no edit mends."""
    return 2 if kinds and kinds.issubset((*PROMISED, *UNTOLD)) else kinds.issubset((*VAGUE, *UNTOLD))


def _handed(facts: Facts, readings: Readings) -> list[str]:
    """Values of ops that are something of the baseline's, where an op makes something of them that is not."""
    makers = {tensor: op for op, _, tensor in facts["result"]}
    reads: dict[str, list[str]] = defaultdict(list)
    for op, _, tensor in facts["operand"]:
        reads[op].append(tensor)
    part = [op for tensor, op in makers.items() if readings.lost(tensor) and not any(map(readings.lost, reads[op]))]
    odd = [tensor for tensor in makers if any(not reading.placed for reading in readings.of(tensor))]
    return list(dict.fromkeys([*(t for op in part for t in reads[op] if t in makers), *odd]))


def _sending(sources: Mapping[int, int]) -> tuple[str, str]:
    """Pairs of a permute (a rank to its source) as a text, and the first part that moves in words."""
    to, source = next((to, source) for to, source in sorted(sources.items()) if to != source)
    pairs = ",".join(f"{source}>{to}" for to, source in sorted(sources.items()))
    return pairs, f"rank {source}'s part to rank {to}" + (", …" if len(sources) > 1 else "")


def _siblings(facts: Facts, wrong: Iterable[str]) -> list[str]:
    """What wrong outputs are compared with: values a few ops from an all-reduce or from another output."""
    kinds = {op: kind for op, _, kind in facts["op"]}
    dist = {graph for graph, role in facts["graph"] if role == "dist"}
    makers = {tensor: op for op, _, tensor in facts["result"]}
    read, made, readers = (defaultdict[str, list[str]](list) for _ in range(3))
    for op, _, tensor in facts["operand"]:
        read[op].append(tensor)
        readers[tensor].append(op)
    for op, _, tensor in facts["result"]:
        made[op].append(tensor)
    reducing = [op for op, kind in kinds.items() if kind == "all-reduce"]
    others = {tensor for graph, _, tensor in facts["output"] if graph in dist}.difference(wrong)
    up = {*others, *(t for op in reducing for t in read[op])}
    down = {t for op in reducing for t in made[op]}
    found = dict.fromkeys([*up, *down])
    for _ in range(NEAR):
        up = {t for tensor in up for t in read[makers.get(tensor, "")]} - found.keys()
        down = {t for tensor in down for op in readers[tensor] for t in made[op]} - found.keys()
        found |= dict.fromkeys([*up, *down])
    return list(found)


def _read_by_nobody(facts: Facts) -> list[str]:
    """Values of the distributed side that no op reads and no output is: the right ones may be among them."""
    dist = {graph for graph, role in facts["graph"] if role == "dist"}
    used = {tensor for _, _, tensor in facts["operand"]} | {tensor for _, _, tensor in facts["output"]}
    of = {tensor for tensor, graph, _, _ in facts["tensor"] if graph in dist}
    return [tensor for _, _, tensor in facts["result"] if tensor in of - used]


def _of_their_shapes(facts: Facts, outputs: set[str]) -> list[str]:
    """Values of the shapes and types of outputs that are inputs as they came: one of them may be what is wanted."""
    if not outputs:
        return []
    dist = {graph for graph, role in facts["graph"] if role == "dist"}
    shapes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for tensor, pos, size in facts["dim"]:
        shapes[tensor].append((pos, size))
    types = {tensor: (dtype, *sorted(shapes[tensor])) for tensor, graph, dtype, _ in facts["tensor"] if graph in dist}
    wanted = {types[tensor] for tensor in outputs}
    return [tensor for tensor, found in types.items() if found in wanted]


def _lines(facts: Facts, ops: set[str]) -> dict[str, str]:
    """The innermost frame of the user's sources for each op, as a text; its id where no source is known."""
    frames: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
    for op, pos, file, line, _ in facts["source"]:
        if op in ops:
            frames[op].append((pos, Frame(file, line, "")))
    return {op: str(user_frames(f for _, f in sorted(frames[op], key=lambda p: p[0]))[:1] or op) for op in ops}


def _stands_in(facts: Facts) -> Iterator[Row]:
    """The user's frames for each op of the distributed side, innermost first, and whether it is of their gradients."""
    dist = {graph for graph, role in facts["graph"] if role == "dist"}
    ops = {op for op, graph, _ in facts["op"] if graph in dist}
    frames: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
    for op, pos, file, line, function in facts["source"]:
        if op in ops:
            frames[op].append((pos, Frame(file, line, function)))
    for op, stack in frames.items():
        for place, frame in enumerate(user_frames(f for _, f in sorted(stack, key=lambda p: p[0]))):
            function = frame.function.removeprefix(BACKWARD).removeprefix(" of ")
            yield op, place, frame.file, frame.line, function, int(frame.backward)


def _bundles(program: Program, facts: Facts, order: dict[str, int]) -> list[Proposal]:
    edits = [Edit(*row) for row in program.relation("edit")]
    edits.sort(key=lambda e: (ORDER.index(e.why), order.get(e.cause, 0), e))
    words = {tuple(row[:5]): str(row[5]) for row in program.relation("advice")}
    lines = _lines(facts, {edit.cause for edit in edits})
    if facts["source"]:  # of what has lines: what nobody wrote is edited as a whole
        lines = {op: line if line != op else "" for op, line in lines.items()}
    bundles: dict[tuple[object, ...], dict[object, Edit]] = defaultdict(dict)
    for edit in edits:
        how = edit.how.split(";")[0] if edit.verb in ALONG else ""
        how += edit.target if edit.verb == "send" else ""
        key: tuple[object, ...] = (edit.why, edit.verb, lines[edit.cause], how, edit.num, edit.den)
        bundles[key if edit.why not in OF_A_LINE else (edit.why, lines[edit.cause])].setdefault(
            (edit.verb, edit.target, edit.how if edit.verb in ("reduce for", "behind", "send on") else ""), edit
        )
    for edit in edits:  # operands of one op that are each another one's
        if edit.why == "operand" and edit.verb == "read":
            bundles["operands", edit.target].setdefault(edit.num, edit)
    return [
        Proposal(tuple(b), tuple(dict.fromkeys(words.get(tuple(e[1:6]), e.verb) for e in b)))
        for key, bundle in bundles.items()
        if key[0] != "operands" or len(bundle) > 1
        for b in [sorted(bundle.values(), key=lambda e: e.why == "at hand" and e.target != e.cause)]
    ]


def _copies(facts: Facts, lines: Mapping[str, str]) -> list[list[str]]:
    """Ops of one line, kind and shape (slices, of one value), in order."""
    shapes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for tensor, pos, size in facts["dim"]:
        shapes[tensor].append((pos, size))
    made = {op: tensor for op, pos, tensor in facts["result"] if not pos}
    makers = {tensor: op for op, tensor in made.items()}
    first: dict[str, str] = {op: tensor for op, pos, tensor in facts["operand"] if not pos}
    moving = {op for op, _, kind in facts["op"] if kind in ("reshape", "transpose", "convert")}

    def root(op: str) -> str:
        """What an op takes elements of, before they are only moved."""
        tensor = first.get(op, "")
        while makers.get(tensor) in moving:
            tensor = first[makers[tensor]]
        return tensor

    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for op, graph, kind in facts["op"]:
        source = root(op) if kind == "slice" else ""
        alike[graph, lines.get(op, ""), kind, source, tuple(sorted(shapes[made.get(op, "")]))].append(op)
    return list(alike.values())


def _ways(edits: list[Edit], forms: Mapping[str, object]) -> Iterator[list[Edit]]:
    """Which of some edits at one line may belong together: all; those of ops of one form, as turns of a loop are; the
    first half, as a backward pass repeats ops of its forward pass at the same line; some by themselves."""
    alike: dict[object, list[Edit]] = defaultdict(list)
    for edit in edits:
        alike[forms[edit.cause]].append(edit)
    if edits[0].why in TOGETHER:
        yield edits
        return
    for some in [edits, *(alike.values() if len(alike) > 1 else ())]:
        half = len(some) // 2
        yield some
        if half:
            yield some[:half]
        if half and edits[0].verb == "ring":  # gradients go back
            yield some[:half] + [edit._replace(num=-edit.num) for edit in some[half:]]
    yield from ([edit] for edit in edits[:COPIES])


def _guesses(program: Program, facts: Facts, order: Mapping[str, int], lines: Mapping[str, str]) -> list[Proposal]:
    """What nothing but its place speaks for, guesses at one line together."""
    kinds = {op: kind for op, _, kind in facts["op"]}
    maker = {tensor: op for op, _, tensor in facts["result"]}
    words = {tuple(row[:5]): str(row[5]) for row in program.relation("advice")}
    faults: dict[str, str] = dict(program.relation("supposed"))
    bundles: dict[tuple[object, ...], list[Edit]] = defaultdict(list)
    for edit in sorted((Edit(*row) for row in program.relation("guess")),
                       key=lambda e: (GUESSES.index(e.why), order.get(e.cause, 0), e)):  # fmt: skip
        copied = maker[edit.how] if edit.verb == "times" else edit.how.split(";")[0] if "insert" in edit.verb else ""
        how = lines.get(copied, edit.how)  # (one op for each parameter)
        line = lines.get(edit.cause, edit.cause)
        kind = kinds[edit.cause] if edit.verb not in PLACES else ""
        apart = (edit.verb, line, kind, how, edit.num, edit.den) if edit.why not in TOGETHER else ()
        bundles[(edit.why, *apart)].append(edit)
    makers: dict[str, list[str]] = defaultdict(list)
    for op, _, tensor in facts["operand"]:
        makers[op].append(kinds.get(maker.get(tensor, ""), ""))
    forms = {op: (kind, *makers[op]) for op, kind in kinds.items()}
    together = list({tuple(way): way for edits in bundles.values() for way in _ways(edits, forms)}.values())
    together.sort(key=lambda edits: GUESSES.index(edits[0].why))
    return [
        Proposal(tuple(edits), tuple(dict.fromkeys(words.get(tuple(e[1:6]), e.verb) for e in edits)),
                 faults[edits[0].why])
        for edits in together
    ]  # fmt: skip
