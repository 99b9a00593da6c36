"""Shards with the borders of their neighbours: convolutions, pooling, shifts and rolls along a sharded dim
(datalog/graph/rewrites/halo/, lemmas/halo/)."""

from __future__ import annotations

import pytest

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz.halo_steps import Window, from_neighbour, moved, rolled, windowed, with_borders, within
from scalify_dl.audit.fuzz.padding_steps import uneven_shard
from scalify_dl.audit.fuzz.partitioner_steps import part, rank_scalar
from scalify_dl.audit.pair import Pair

INFINITY = float("inf")
SHAPE = (4, 16, 2)


def proved(pair: Pair) -> bool:
    """The rules' verdict; whatever they derive on the way is true."""
    tables = pair.tables()
    derived = derive(tables)
    assert audit(tables, derived.corr).false == []
    return not derived.unproved


def window(shape: Window, **options: object) -> Pair:
    """x[4,16,2] over dp=2, tp=4; a window op along dim 1."""
    pair = Pair({"dp": 2, "tp": 4})
    (x, dx), (w, dw) = pair.input(SHAPE, {0: "dp", 1: "tp"}), pair.input((shape.size, 2, 2))
    pair.outputs(*windowed(pair, x, dx, (w, dw), "tp", shape, **options))  # type: ignore[arg-type]
    return pair


WINDOWS = {
    "convolution": Window(kind="convolution"),
    "causal convolution": Window(4, low=3, kind="convolution"),
    "dilated convolution": Window(3, dilation=2, low=2, kind="convolution"),
    "convolution with a stride": Window(3, stride=2, low=0, kind="convolution"),
    "sums": Window(5, low=2, kind="sum"),
    "maxima": Window(3, low=1, kind="max"),
    "minima of what follows": Window(3, low=0, kind="min"),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_op_on_shards_with_borders(name: str) -> None:
    assert proved(window(WINDOWS[name]))


def test_zeros_that_nobody_sends_pad_a_sum_but_not_a_maximum() -> None:
    assert proved(window(Window(kind="convolution"), masked=False))
    assert proved(window(Window(kind="sum"), masked=False))
    assert not proved(window(Window(kind="max"), masked=False))


@pytest.mark.parametrize("shape", [Window(2, 2, low=0, kind="max"), Window(1, 1, low=0, kind="convolution")])
def test_windows_that_do_not_overlap_need_no_borders(shape: Window) -> None:
    assert proved(window(shape, masked=False))


def uneven(shape: Window, *, cut: int = 10, bounds: tuple[int, int] = (0, 0)) -> Pair:
    """x[2,10,2] over tp=4 in blocks of 3; the results gathered, and ten of them."""
    pair = Pair({"tp": 4})
    (x, dx), (w, dw) = pair.input((2, 10, 2)), pair.input((shape.size, 2, 2))
    shard = uneven_shard(pair, dx, 1, "tp", filler=1.0)
    y, z = windowed(pair, x, shard, (w, dw), "tp", shape, bounds=bounds)
    whole = pair.dist.emit("all-gather", [z], dimension=1, groups=pair.groups("tp"))
    pair.outputs(y, part(pair.dist, whole, 1, cut - 10, cut))
    return pair


@pytest.mark.parametrize("kind", ["convolution", "max"])
def test_a_window_op_over_an_uneven_dim(kind: str) -> None:
    assert proved(uneven(Window(kind=kind)))
    assert not proved(uneven(Window(kind=kind), cut=11))
    assert not proved(uneven(Window(kind=kind), bounds=(0, 1)))


def test_a_window_op_that_leaves_fewer_results() -> None:
    pair = Pair({"tp": 4})
    (x, dx), (w, dw) = pair.input(SHAPE, {1: "tp"}), pair.input((3, 2, 2))
    shape = Window(3, low=0, kind="convolution")
    z = shape.apply(pair.dist, with_borders(pair, dx, 1, "tp", 0, 2), dw, 0, 0)
    whole = pair.dist.emit("all-gather", [z], dimension=1, groups=pair.groups("tp"))
    pair.outputs(shape.apply(pair.base, x, w, 0, 0), part(pair.dist, whole, 1, 0, 14))
    assert proved(pair)


WRONG_WINDOWS = {
    "a mask that begins late": window(Window(kind="convolution"), bounds=(1, 0)),
    "a mask that ends early": window(Window(kind="convolution"), bounds=(0, -1)),
    "zeros in a maximum": window(Window(kind="max"), filler=0.0),
    "borders of the wrong neighbours": window(Window(kind="sum"), swapped=True),
}


@pytest.mark.parametrize("name", WRONG_WINDOWS)
def test_other_borders_show(name: str) -> None:
    assert not proved(WRONG_WINDOWS[name])


def shift(
    off: int,
    *,
    wanted: int | None = None,
    filler: float = 0.0,
    low: int = 0,
    masked: bool = True,
    swapped: bool = False,
) -> Pair:
    """Element i is element i + off of x[4,16,2], with dim 1 over tp=4."""
    pair = Pair({"tp": 4})
    x, dx = pair.input(SHAPE, {1: "tp"})
    z = with_borders(pair, dx, 1, "tp", max(0, -off), max(0, off), swapped=swapped)
    z = part(pair.dist, z, 1, max(0, off), max(0, off) + 4)
    if masked:
        z = within(pair, z, 1, "tp", 4, (-off + low, 16 - off), filler)
    pair.outputs(moved(pair, x, 1, off if wanted is None else wanted, filler), z)
    return pair


@pytest.mark.parametrize("off", [-2, -1, 1, 3])
def test_a_shift(off: int) -> None:
    assert proved(shift(off))
    assert proved(shift(off, masked=False))
    assert proved(shift(off, filler=-INFINITY))


WRONG_SHIFTS = {
    "the other way": shift(-1, wanted=1),
    "too far": shift(-2, wanted=-1),
    "another filler": shift(-1, filler=-INFINITY, masked=False),
    "an element too many masked": shift(-1, low=1),
    "the other neighbour": shift(1, swapped=True),
}


@pytest.mark.parametrize("name", WRONG_SHIFTS)
def test_another_shift(name: str) -> None:
    assert not proved(WRONG_SHIFTS[name])


def chosen(zero_on: int) -> Pair:
    """x[i-1], where what goes around is replaced by zeros on one rank."""
    pair = Pair({"tp": 4})
    x, dx = pair.input((2, 16), {1: "tp"})
    g = pair.dist
    border = from_neighbour(pair, part(g, dx, 1, 3, 4), "tp", -1, around=True)
    there = g.emit("compare", [rank_scalar(pair, range(4)), g.constant(zero_on, "s32")], direction="EQ")
    wide = g.emit("broadcast", [there], shape=border.shape, dimensions=[])
    border = g.emit("select", [wide, g.splat(0.0, "f32", border.shape), border])
    pair.outputs(moved(pair, x, 1, -1), g.emit("concatenate", [border, part(g, dx, 1, 0, 3)], dimension=1))
    return pair


def test_a_rank_that_has_no_neighbour_puts_zeros() -> None:
    assert proved(chosen(0))
    assert not proved(chosen(3))
    assert not proved(chosen(1))


def padded_apart(low: int) -> Pair:
    """The baseline pads, or glues zeros on, and convolves then."""
    pair = Pair({"tp": 4})
    (x, dx), (w, dw) = pair.input(SHAPE, {1: "tp"}), pair.input((3, 2, 2))
    shape, b = Window(3, low=0, kind="convolution"), pair.base
    zeros = b.splat(0.0, "f32", (4, 2, 2))
    glued = b.emit("concatenate", [zeros, x], dimension=1)
    z = shape.apply(pair.dist, with_borders(pair, dx, 1, "tp", low, 2 - low), dw, 0, 0)
    pair.outputs(shape.apply(b, glued, w, 0, 0), z)
    return pair


def test_padding_apart_from_the_window_op() -> None:
    assert proved(padded_apart(2))
    assert not proved(padded_apart(1))


def roll(off: int, *, wanted: int | None = None, around: bool = True) -> Pair:
    pair = Pair({"dp": 2, "tp": 4})
    x, dx = pair.input(SHAPE, {0: "dp", 1: "tp"})
    z = with_borders(pair, dx, 1, "tp", max(0, -off), max(0, off), around=around)
    z = part(pair.dist, z, 1, max(0, off), max(0, off) + 4)
    pair.outputs(rolled(pair, x, 1, off if wanted is None else wanted), z)
    return pair


@pytest.mark.parametrize("off", [-3, -1, 2])
def test_a_roll(off: int) -> None:
    assert proved(roll(off))
    assert not proved(roll(off, around=False))
    assert not proved(roll(off, wanted=off + 1))


def differences(*, end: int = 15, far: int = 1) -> Pair:
    """x[i+1] - x[i], fifteen of them over tp=4: the last shard has one that is cut off."""
    pair = Pair({"tp": 4})
    x, dx = pair.input((2, 16), {1: "tp"})
    g, b = pair.dist, pair.base
    border = from_neighbour(pair, part(g, dx, 1, 0, 1), "tp", far)
    after = g.emit("concatenate", [part(g, dx, 1, 1, 4), border], dimension=1)
    whole = g.emit("all-gather", [g.emit("subtract", [after, dx])], dimension=1, groups=pair.groups("tp"))
    pair.outputs(b.emit("subtract", [part(b, x, 1, 1, 16), part(b, x, 1, 0, 15)]), part(g, whole, 1, end - 15, end))
    return pair


def test_differences_of_neighbours() -> None:
    assert proved(differences())
    assert not proved(differences(end=16))
    assert not proved(differences(far=-1))
