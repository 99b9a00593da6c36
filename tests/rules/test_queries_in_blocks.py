"""Attention where every rank has a block of the queries, and its gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.oracle import find_counterexample, load_program

SHAPE = (2, 4, 6)


def attends(
    *, causal: int = 0, masked: bool = True, backward: bool = False, half: bool = False,
    reduced: bool = True,
) -> Pair:  # fmt: skip
    """Queries, masks and the gradient of the result in blocks over cp, keys and values on all ranks."""
    pair = Pair({"cp": 2})
    queries = [pair.input(SHAPE, {1: "cp"}) for _ in range(3 if backward else 1)]
    keys = [pair.input(SHAPE) for _ in range(2)]
    mask = [pair.input((4, 4), {0: "cp"})] if masked else []
    saved = [pair.input(SHAPE[:2], {1: "cp"})] if backward else []
    order = [queries[1], queries[0], *keys, queries[2], *saved, *mask] if backward else [*queries, *keys, *mask]
    made = []
    for side, g in enumerate((pair.base, pair.dist)):
        xs = [pair_[side] for pair_ in order]
        if half:  # the gradient at another scale, which the end undoes
            xs[0] = g.emit("multiply", [xs[0], g.splat((1.0, 3.0)[side], "f32", xs[0].shape)])
        query = xs[1 if backward else 0].shape
        types = [query, SHAPE, SHAPE] if backward else [query, query[:-1]]
        made.append(
            g.add(
                "attention-backward" if backward else "attention",
                xs,
                [("f32", t) for t in types],
                symbols={"scale": ["0.5"]},
                numbers={"causal": [causal]},
            ).results
        )
    for n, (base, dist) in enumerate(zip(*made, strict=True)):
        split = not (backward and n > 0)
        if not split and reduced:
            dist = pair.dist.emit("all-reduce", [dist], reducer="sum", groups=pair.groups("cp"))
        if half:
            dist = pair.dist.emit("divide", [dist, pair.dist.splat(3.0, "f32", dist.shape)])
        pair.outputs(base, dist, layout=str(pair.layout(base.shape, {1: "cp"} if split else {})))
    return pair


RIGHT: dict[str, Callable[[], Pair]] = {
    "a mask of the rank's queries": attends,
    "no mask": lambda: attends(masked=False),
    "gradients": lambda: attends(backward=True),
    "gradients at another scale": lambda: attends(backward=True, half=True),
}
WRONG: dict[str, Callable[[], Pair]] = {
    "positions that begin at 0 on every rank": lambda: attends(causal=1, masked=False),
    "positions of gradients that begin at 0 on every rank": lambda: attends(causal=1, backward=True),
    "gradients of keys that are not added up": lambda: attends(backward=True, reduced=False),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_is_proved(name: str) -> None:
    tables = RIGHT[name]().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).status == "agrees"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_not_proved(name: str) -> None:
    tables = WRONG[name]().tables()
    derived = derive(tables)
    assert derived.unproved
    assert audit(tables, derived.corr).false == []
    assert find_counterexample(load_program(tables)).best is not None
