"""Proofs that take for granted what the programs themselves provide for.

Lemmas assume, and list, that inputs are finite or that the baseline does not divide by zero. Where a program asks
(`isnan(loss)`), or guards what becomes of a division, that is the very case that it was written for: both sides are run
there, and an output that differs where the baseline is a number is not proved (`oracle/erased.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from scalify_dl.deadline import OutOfTime, until
from scalify_dl.facts import Facts
from scalify_dl.facts.model import Row
from scalify_dl.ir.dtypes import is_integer
from scalify_dl.ir.vocabulary import words
from scalify_dl.prove.normal_forms import WORDS

ASKING = frozenset({"compare", "is-finite"})
"""Kinds of ops by which a program tells some real numbers from others."""
TOLD = ASKING | words("constant broadcast reshape transpose convert negate slice maximum minimum select")
"""Kinds of ops by which it is known that a program looks for infinities, or that it does not."""
MOST_OPS = 20_000
"""Ops on all ranks up to which programs are run that do not visibly ask."""
Output = tuple[str, str]
"""Distributed and baseline tensor."""


def left_out(
    facts: Facts,
    whys: Collection[str],
    proved: Collection[Output],
    deadline: float | None = None,
    *,
    claimed: bool = False,
) -> set[Output]:
    """Which proved outputs rest on an assumption (`whys`: the reasons of all) that leaves out what a program provides
    for; all of them where no time is left to say.

    `claimed`: conditions of a certificate, which somebody may have chosen: they are looked at whether a program asks or
    not, and have to hold of some inputs.
    """
    whys = {*whys}
    asking = bool(proved) and _may_ask(facts)
    if not proved or not (claimed or asking):
        return set()
    large = len(facts["op"]) * prod(size for _, _, size in facts["mesh_axis"]) > MOST_OPS
    if large and not (claimed or _looks_for_infinities(facts)):
        return set()
    from scalify_dl.oracle import load_program  # with numpy: most proofs do without
    from scalify_dl.oracle.erased import CONDITIONS, Limits
    from scalify_dl.oracle.finiteness import asks

    claimed = claimed and not whys.isdisjoint(CONDITIONS)
    if whys.isdisjoint({"finite", *CONDITIONS}) or not (claimed or asking):
        return set()
    if large and not (claimed or asks(load_program(_what_asks(facts)))):
        return set()
    program = load_program(facts.tables)
    limits = Limits(program, program.shards)
    try:
        with until(deadline):
            found = limits.erased if whys & CONDITIONS else frozenset()
            found |= limits.unseen if claimed else frozenset()
            return {*proved} & (found | limits.erased_infinities)
    except OutOfTime:
        return {*proved}


def hidden(facts: Facts, claims: Collection[Output], assumed: Collection[Row]) -> str | None:
    """What a certificate of equal formulas does not say of an output (`assumed`: tensor, text and reason of all that it
    assumes): that it is no number for some large inputs for which the baseline is one, is rounded in other types, or
    jumps at what is rounded.

    Inputs are large in programs that are run as they are, so that it is the same whoever asks."""
    if not claims:
        return None
    from scalify_dl.oracle import load_program
    from scalify_dl.oracle.arithmetic import decided_by_computed, rounded_differently
    from scalify_dl.oracle.erased import Limits

    outputs = {(dist, base) for dist, base, _ in facts["expect"]}
    on_the_way = {dist for dist, _ in {*claims} - outputs}
    asked = outputs if on_the_way else {*claims}
    listed = {(tensor, text) for tensor, text, why in assumed if why == "precision"}

    def silent(what: str, among: Collection[Output]) -> list[Output]:
        """Of which it is not said: of what is found by what stands on the way to it, its range is told there."""
        elsewhere = on_the_way if what == "range" else set()
        told = {pair: {pair[0]} if pair in claims else {pair[0], *elsewhere} for pair in among}
        return sorted(pair for pair in among if listed.isdisjoint((tensor, WORDS[what]) for tensor in told[pair]))

    program = load_program(facts.tables)
    limits = Limits(program, program.shards)
    found = [("types", pair) for pair in silent("types", rounded_differently(program))]
    found += [("jumps", pair) for pair in silent("jumps", asked & decided_by_computed(program))]
    unsaid = silent("range", asked)
    if not found and unsaid and limits.small:
        found = [("range", pair) for pair in unsaid if pair in limits.overflowing]
    return f"{found[0][1][0]}: {WORDS[found[0][0]]}" if found else None


def _looks_for_infinities(facts: Facts) -> bool:
    """Whether an op may say of numbers that they are infinite, or no numbers, by its kind or a constant."""
    extreme = any("inf" in text or "nan" in text for _, text in facts["literal"])
    return extreme or any(kind == "is-finite" for _, _, kind in facts["op"]) or _compares_with_itself(facts)


def _what_asks(facts: Facts) -> dict[str, list[Row]]:
    """The tables, less the ops of which `asks` sees nothing but that they are there, or nothing at all: it looks at
    what compares read, at who reads what they say, and at the constants of both."""
    told = {op: kind for op, _, kind in facts["op"] if kind in TOLD}
    asking = {op for op, kind in told.items() if kind in ASKING}
    truths = {tensor for op, _, tensor in facts["result"] if told.get(op) == "compare"}
    kept = asking | {op for op, _, tensor in facts["operand"] if tensor in truths}
    reads: dict[str, list[str]] = {}
    for op, _, tensor in facts["operand"]:
        if op in told or op in kept:
            reads.setdefault(op, []).append(tensor)
    maker = {tensor: op for op, _, tensor in facts["result"] if op in told}
    waiting = [*kept]
    while waiting:  # what they ask of, as far as that is only arranged
        for tensor in reads.get(waiting.pop(), ()):
            made = maker.get(tensor)
            if made is not None and made not in kept:
                kept.add(made)
                waiting.append(made)
    kept |= {row[0] for row in facts["region"]}
    by_op = {name: [row for row in facts[name] if row[0] in kept] for name in ("op", "operand", "result", "region")}
    tensors = {tensor for name in ("operand", "result") for _, _, tensor in by_op[name]}
    compares = {op for op, kind in told.items() if kind == "compare"}
    return by_op | {
        "graph": facts["graph"], "output": facts["output"],
        "attr_symbol": [row for row in facts["attr_symbol"] if row[0] in compares],
        "tensor": [row for row in facts["tensor"] if row[0] in tensors],
        "literal": [row for row in facts["literal"] if row[0] in tensors],
    }  # fmt: skip


def _compares_with_itself(facts: Facts) -> bool:
    compares = {op for op, _, kind in facts["op"] if kind == "compare"}
    first = {op: tensor for op, place, tensor in facts["operand"] if place == 0 and op in compares}
    return any(place == 1 and first.get(op) == tensor for op, place, tensor in facts["operand"])


def _may_ask(facts: Facts) -> bool:
    """Whether a program compares real numbers, or asks whether they are finite."""
    asking = {op for op, _, kind in facts["op"] if kind in ASKING}
    reals = {tensor for tensor, _, dtype, _ in facts["tensor"] if dtype != "pred" and not is_integer(dtype)}
    return any(op in asking and tensor in reals for op, _, tensor in facts["operand"])
