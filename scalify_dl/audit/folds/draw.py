"""Random right plans: small models of blocks drawn at random, on random numbers of copies, stages, tp ranks and
micro-batches, as nnScaler would write them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scalify_dl.audit.plan_tables import Shape, Step, write_plan
from scalify_dl.audit.plan_tables.llama import Llama, attention, gated, linear, norm, start
from scalify_dl.audit.plan_tables.step import Value

HIDDEN, INNER, ROWS, POSITIONS = 8, 12, 12, 4
SIZE = Llama(1, HIDDEN, 2, 2, INNER, ROWS, POSITIONS)
Block = Callable[[Step, str, Value, Value], Value]


def _gated(s: Step, name: str, x: Value, mask: Value) -> Value:
    return _added(s, x, s.leave(gated(s, name, s.enter(x), HIDDEN, INNER)))


def _column_row(s: Step, name: str, x: Value, mask: Value) -> Value:
    y = linear(s, s.enter(x), s.weight(f"{name}.a", INNER, HIDDEN, cut=0), cut=True)
    y = s.op("silu", [y], y.shape, cut=2, inplace=False)
    return s.leave(linear(s, y, s.weight(f"{name}.b", HIDDEN, INNER, cut=1), partial=True))


def _plain(s: Step, name: str, x: Value, mask: Value) -> Value:
    return linear(s, x, s.weight(f"{name}.w", HIDDEN, HIDDEN))


def _shared(s: Step, name: str, x: Value, mask: Value) -> Value:
    """A weight that several blocks have, perhaps on several stages."""
    return linear(s, x, s.weight("shared.w", HIDDEN, HIDDEN))


def _scaled(s: Step, name: str, x: Value, mask: Value) -> Value:
    found: Value = s.op("mul", [x, s.weight(f"{name}.scale", HIDDEN)], x.shape)
    return found


def _norm(s: Step, name: str, x: Value, mask: Value) -> Value:
    return norm(s, x, f"{name}.norm")


def _twice(s: Step, name: str, x: Value, mask: Value) -> Value:
    y = s.op("silu", [x], x.shape, inplace=False)
    found: Value = s.op("mul", [x, y], x.shape)
    return found


def _attention(s: Step, name: str, x: Value, mask: Value) -> Value:
    return attention(s, SIZE, name, x, mask)


def _across(s: Step, name: str, x: Value, mask: Value) -> Value:
    """Weights that lie over the copies of an expert-parallel group, each of which computes its part for all tokens."""
    inside = s.ep > 1
    tokens = s.gather(x, 0) if inside else x
    one, two = ((INNER, HIDDEN), 0), ((HIDDEN, INNER), 1)
    w1, w2 = (s.weight(f"{name}.{n}", *w, cut=dim, expert=inside) for n, (w, dim) in (("one", one), ("two", two)))
    shape = (*tokens.shape[:2], INNER)
    y = s.op("linear", [tokens, w1], shape, cut=2 if inside else None, expert=inside, bias=None)
    y = s.op("silu", [y], shape, cut=2 if inside else None, expert=inside, inplace=False)
    y = s.op("linear", [y, w2], tokens.shape, partial=inside, expert=inside, bias=None)
    return _added(s, x, s.scatter(y, 0) if inside else y)


def _added(s: Step, x: Value, y: Value) -> Value:
    found: Value = s.op("add", [x, y], x.shape, alpha=1)
    return found


def _residual(s: Step, name: str, x: Value, mask: Value) -> Value:
    return _added(s, x, _column_row(s, name, x, mask))


BLOCKS: tuple[tuple[Block, int], ...] = (
    (_gated, 2), (_column_row, 3), (_plain, 2), (_shared, 2), (_scaled, 2), (_norm, 1), (_twice, 2), (_attention, 1),
    (_residual, 3),
)  # fmt: skip


def model(blocks: list[Block], head: str | None) -> Callable[[Step, int], None]:
    """Blocks one after the other, shared out among stages; the loss is a sum, perhaps behind a last linear layer."""

    def build(s: Step, stages: int) -> None:
        x, mask = start(s, ROWS, HIDDEN, POSITIONS)
        for n, block in enumerate(blocks):
            while s.stage < n * stages // len(blocks):
                x, mask = s.next_stage(x, mask)
            x = block(s, f"blocks.{n}", x, mask)
        while s.stage < stages - 1:
            x, mask = s.next_stage(x, mask)
        if head:
            x = linear(s, x, s.weight(head, ROWS, HIDDEN))
        s.finish(s.op("sum", [x], (1,)))

    return build


def write_random(directory: Path, rng: random.Random) -> tuple[Path, str]:
    """Writes a random plan; the directory, and what it is."""
    count = rng.choice((1, 2, 2, 3, 3, 4))
    blocks = rng.choices([b for b, _ in BLOCKS], [w for _, w in BLOCKS], k=count)
    head = rng.choice((None, "head", "tok_embeddings.weight"))
    ep = 2 if rng.random() < 0.2 else 1
    if ep > 1:
        blocks[rng.randrange(len(blocks))] = _across
    shape = Shape(
        dp=rng.choice((2, 2, 4) if ep > 1 else (1, 1, 2, 2, 3)), ep=ep, tp=rng.choice((1, 2, 2)),
        pp=rng.choice((1, 2, 2, 3)), nm=rng.choice((1, 2, 2, 3)), batch=rng.choice((1, 2)), unit=rng.random() < 0.3,
    )  # fmt: skip
    text = f"{' '.join(b.__name__ for b in blocks)}, head {head}, {shape}"
    chosen = random.Random(text).choice(("", "", "", "whole", "shards"))
    if chosen == "whole" or (chosen and not shape.unit and ep == 1):  # shards are on copies that are written and alike
        shape = replace(shape, optimiser=chosen)
        text += f", {chosen}"
    return write_plan(directory, model(blocks, head), shape), text
