"""Attacks the checker's algebra of large dims: random programs on ranks, followed block by block with variables, must
be worth at each place what an execution gives there, and what is called equal must be.

    python -m scalify_dl.audit.algebra_blocks [--count N] [--seed S]

Dims are small here, so that each place is counted; nothing in the algebra knows that they are.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from scalify_dl.certificate.formulas.equal import equal
from scalify_dl.certificate.formulas.forms import Form, Unknown
from scalify_dl.certificate.formulas.large.atoms import Spread
from scalify_dl.certificate.formulas.large.blocks import Blocks, aligned, made
from scalify_dl.certificate.formulas.large.cuts import cut_as_wanted
from scalify_dl.certificate.formulas.large.held import held
from scalify_dl.certificate.formulas.large.machine import Large
from scalify_dl.certificate.formulas.large.places import of_dim
from scalify_dl.certificate.formulas.programs import Layout, Program
from scalify_dl.errors import InputError
from scalify_dl.oracle import load_program
from scalify_dl.oracle.trial import run_trial

from .block_programs import RANKS, drawn
from .block_worth import Undefined, Worth, array

CLOSE = 1e-7
PARTS = 3_000
"""What is looked at of formulas: each of their products is worth something at each place."""


def wrong(rng: random.Random) -> tuple[int, int, str | None]:
    """How many values of a random program are followed, how many twins are called equal, and what is false."""
    pair, draw = drawn(rng)
    first = pair.dist.inputs[0].tensor
    pair.outputs(pair.base.ops[0].results[0], pair.dist.emit("negate", [first]))
    tables = {name: list(rows) for name, rows in pair.tables().items()}
    rows = [row[2] for row in tables["result"] if row[0] in {op for op, graph, _ in tables["op"] if graph == "dist"}]
    names = dict(zip((t for op in pair.dist.ops for t in op.results), rows, strict=True))
    targets = [names[t] for op in pair.dist.ops for t in op.results if t.dtype == "f32"]
    executed = load_program(tables)
    inputs = [row[2] for row in tables["shard"]]
    trial = run_trial(executed, rng.randrange(10**6), "reals", keep_base=inputs, keep_dist=targets)
    program, atoms = Program(tables), Spread()
    atoms.left = PARTS
    machine, ranks = Large(program, atoms), [*range(RANKS)]
    known: dict[str, Any] = {}
    for dist, _, source, _, text in program.shards:
        size = program.shapes[source]
        parts = [cut_as_wanted(n, {rng.randrange(n) for _ in range(rng.randrange(3))}, set()) for n in size]
        if rng.random() < 0.2:
            parts = [cut_as_wanted(n, set(), {rng.choice((1, 2, 3))}) for n in size]
        whole = unknown(atoms, source, parts)
        known[dist] = {
            rank: held(atoms, whole, program.types[source], Layout(text), rank, program.shapes[dist], program)
            for rank in ranks
        }
    followed, equals = 0, 0
    worth = Worth(atoms, trial.baseline)
    for target in targets:
        try:
            found: dict[int, Any] = machine.value(target, known, ranks)
        except Unknown:
            continue
        if not worth.allows():
            return followed, equals, None
        for rank in ranks:
            worth.scale = 1.0
            claimed, actual = array(worth, found[rank]), trial.distributed[target][rank]
            text = differs(claimed, actual, worth.scale)
            if text:
                return followed, equals, f"{target} ({text}) on rank {rank}: {written(tables)}"
        followed += 1
    for one, two in ((names[a], names[b]) for a, b in draw.twins):
        if one in known and two in known:
            sides = aligned(atoms, [known[one][0], known[two][0]])
            cells = zip(*(x.cells.reshape(-1) for x in sides), strict=True)
            if all(isinstance(a, Form) and isinstance(b, Form) and equal(atoms, a, b) for a, b in cells):
                equals += 1
                text = differs(trial.distributed[one][0], trial.distributed[two][0], worth.scale)
                if text:
                    return followed, equals, f"{one} is called {two} ({text}): {written(tables)}"
    return followed, equals, None


def written(tables: Mapping[str, Any]) -> str:
    """The program in words."""
    shapes = {t: [n for other, _, n in sorted(tables["dim"]) if other == t] for t, *_ in tables["tensor"]}
    lines = []
    for op, _, kind in tables["op"]:
        reads = [t for o, _, t in sorted(tables["operand"]) if o == op]
        (made_of, *_) = [t for o, _, t in tables["result"] if o == op]
        more = [row[1:] for name in ("attr_number", "attr_symbol") for row in tables.get(name, ()) if row[0] == op]
        lines.append(f"{made_of}{shapes[made_of]} = {kind}({', '.join(reads)}) {more}")
    return "\n  " + "\n  ".join(lines)


def unknown(atoms: Spread, tensor: str, parts: Any) -> Blocks:
    """An input in blocks."""

    def element(at: tuple[int, ...]) -> Form:
        starts = [sum(map(math.prod, own[:i])) for own, i in zip(parts, at, strict=True)]
        return atoms.element(tensor, tuple(of_dim(d, parts[d][i], starts[d]) for d, i in enumerate(at)))

    return made(parts, element)


def differs(claimed: Any, actual: Any, scale: float) -> str | None:
    """Where values are not the same, in words; where one is not known they are."""
    known = ~np.isnan(claimed) & (np.abs(actual) < 1e30 if not np.isneginf(actual).any() else True)
    if claimed.shape != actual.shape:
        return f"shapes {claimed.shape} and {actual.shape}"
    with np.errstate(invalid="ignore"):
        same = (claimed == actual) | (np.abs(claimed - actual) <= CLOSE * scale * (1 + np.abs(actual)))
    bad = np.argwhere(known & ~same)
    return f"{claimed[tuple(bad[0])]} for {actual[tuple(bad[0])]} at {bad[0].tolist()}" if len(bad) else None


def campaign(count: int, seed: int, enough: int = 1000) -> tuple[int, int, list[str]]:
    """Random programs: how many values are followed, how many pairs are called equal, and what is wrong; no more are
    drawn once `enough` are."""
    followed, equals, found = 0, 0, []
    for n in range(count):
        try:
            more, called, text = wrong(random.Random(f"blocks/{seed}/{n}"))
        except (Undefined, Unknown, RecursionError, OverflowError, InputError):
            continue
        followed, equals = followed + more, equals + called
        if text:
            found.append(f"{seed}/{n}: {text}")
            if len(found) >= enough:
                break
    return followed, equals, found


def main() -> None:
    """Run a campaign; status 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    followed, equals, found = campaign(options.count, options.seed)
    print(f"{options.count:,} programs, {followed:,} values followed, {equals:,} called equal, {len(found)} wrong")
    print("\n".join(found[:20]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
