"""Stand-ins with the attributes of nnScaler's cells and tensors that the exporter reads, and a step made of them: two
linear layers, cut by columns and rows over two ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

NUMBERS = count(1)
BATCH, IN, HIDDEN = 2, 4, 6


@dataclass(eq=False)
class Full:
    name: str
    shape: tuple[int, ...]
    attribute: bool = False
    gradient: bool = False
    loss: bool = False
    dtype: str = "torch.float32"
    grad: Full | None = None
    tid: int = field(default_factory=lambda: next(NUMBERS))
    parts: dict[object, int] = field(default_factory=dict)

    def is_attr(self) -> bool:
        return self.attribute

    def is_param(self) -> bool:
        return self.attribute and not self.gradient

    def is_grad(self) -> bool:
        return self.gradient

    def is_loss(self) -> bool:
        return self.loss


@dataclass(eq=False)
class Sub:
    parent: Full
    indmap: tuple[tuple[int, int], ...]
    valmap: tuple[int, int]
    device: tuple[int, ...]

    def __post_init__(self) -> None:
        self.tid = self.parent.parts.setdefault((self.indmap, self.valmap), next(NUMBERS))
        self.is_attr, self.is_param, self.is_grad = self.parent.is_attr, self.parent.is_param, self.parent.is_grad
        self.dtype = self.parent.dtype

    @property
    def grad(self) -> Sub | None:
        return self.parent.grad and Sub(self.parent.grad, self.indmap, (0, 1), self.device)


def full(name: str, *shape: int, attribute: bool = False, loss: bool = False) -> Full:
    made = Full(name, shape, attribute, loss=loss)
    made.grad = Full("g" + name, shape, attribute, True, loss)
    return made


def part(of: Full | None, rank: int, dim: int = -1, ways: int = 1, addend: tuple[int, int] = (0, 1)) -> Sub:
    assert of is not None
    spans = [(0, n) for n in of.shape]
    if dim >= 0:
        size = of.shape[dim] // ways
        spans[dim] = (rank * size, (rank + 1) * size)
    return Sub(of, tuple(spans), addend, (rank,))


@dataclass(eq=False)
class Cell:
    signature: str
    reads: Sequence[Any]
    makes: Sequence[Any]
    device: tuple[int, ...]
    forward: bool = True
    kwargs: dict[str, object] = field(default_factory=dict)
    mirror: Any = None
    cid: int = field(default_factory=lambda: next(NUMBERS))

    def inputs(self) -> tuple[Any, ...]:
        return tuple(self.reads)

    def outputs(self) -> tuple[Any, ...]:
        return tuple(self.makes)

    def isfw(self) -> bool:
        return self.forward


class IRDataOperation(Cell):
    pass


class IRWeightReducer(Cell):
    pass


class IRAdapter(Cell):
    prims: Sequence[Any] = ()
    differentiable = True


class Prim(Cell):
    pass


class AllReduceIdentityPrim(Prim):
    pass


class IdentityAllreducePrim(Prim):
    pass


class MovePrim(Prim):
    pass


@dataclass(eq=False)
class Segment:
    cells: Sequence[Cell]
    forward: bool = True
    mirror: Any = None
    cid: int = field(default_factory=lambda: next(NUMBERS))

    def nodes(self) -> Sequence[Cell]:
        return self.cells

    def isfw(self) -> bool:
        return self.forward


@dataclass(eq=False)
class Reuse:
    cell: Any
    mirror: Any = None


@dataclass
class Model:
    """Tensors of the model, of a batch of so many rows."""

    rows: int

    def __post_init__(self) -> None:
        n = self.rows
        self.x = Full("x", (n, IN))
        self.w1, self.w2 = full("w1", HIDDEN, IN, attribute=True), full("w2", IN, HIDDEN, attribute=True)
        self.h, self.a = full("h", n, HIDDEN), full("a", n, HIDDEN)
        self.y, self.loss = full("y", n, IN), full("loss", 1, loss=True)

    def adapter(self, prim: type[Prim], x: Sub, made: Sub, ways: int, forward: bool, cid: int) -> list[Cell]:
        if ways == 1:
            return []
        ranks = list(range(ways))
        cell = IRAdapter("adapter", [x], [made], x.device, forward, cid=cid)
        cell.prims = [prim("", [x], [made], x.device, kwargs={"ranks": ranks})]
        return [cell]

    def cells(self, rank: int = 0, ways: int = 1) -> tuple[list[Cell], list[Cell]]:
        """Forward and backward cells of a rank."""
        some = (rank, ways)
        x, y, loss = part(self.x, rank), part(self.y, rank), part(self.loss, rank)
        w1, w2 = part(self.w1, rank, 0, ways), part(self.w2, rank, 1, ways)
        h, a = part(self.h, rank, 1, ways), part(self.a, rank, 1, ways)
        partial = part(self.y, rank, addend=some)
        fw = [
            Cell("torch.nn.functional.linear", [x, w1], [h], (rank,), kwargs={"bias": None}, cid=2),
            Cell("torch.nn.functional.silu", [h], [a], (rank,), kwargs={"inplace": False}, cid=3),
            Cell("torch.nn.functional.linear", [a, w2], [partial], (rank,), kwargs={"bias": None}, cid=4),
            *self.adapter(AllReduceIdentityPrim, partial, y, ways, True, 5),
            Cell("torch.sum", [y], [loss], (rank,), cid=6),
        ]

        def back(cell: Cell, gradients: Sequence[Sub | None], makes: Sequence[Sub | None]) -> Cell:
            return Cell("", gradients, makes, (rank,), False, mirror=cell, cid=cell.cid + 100)

        one, two, three, last = fw[0], fw[1], fw[2], fw[-1]
        return fw, [
            back(last, [loss.grad], [y.grad]), back(three, [y.grad], [a.grad, w2.grad]), back(two, [a.grad], [h.grad]),
            back(one, [h.grad], [w1.grad]),
        ]  # fmt: skip


def step(micro_batches: int, ways: int, copies: int) -> tuple[list[Cell], dict[int, list[Any]]]:
    """Cells of the single-device step, and what every rank of the first copy runs."""
    whole = Model(BATCH * micro_batches * copies)
    fw, bw = whole.cells()
    base = [IRDataOperation("", [], [part(whole.x, 0)], (0,), cid=1), *fw, *bw]
    model, sequences = Model(BATCH), {}
    for rank in range(ways):
        fw, bw = model.cells(rank, ways)
        forward, backward = Segment(fw, cid=50), Segment(bw, False, cid=51)
        load = IRDataOperation("", [], [part(model.x, rank)], (rank,), cid=1)
        sequence: list[Any] = []
        for _ in range(micro_batches):
            there, back = Reuse(forward), Reuse(backward)
            there.mirror, back.mirror = back, there
            sequence += [Reuse(load), there, back]
        weights = [part(model.w1, rank, 0, ways), part(model.w2, rank, 1, ways)]
        sequences[rank] = [*sequence, IRWeightReducer("", weights, [], (rank,), False, cid=90)]
    return base, sequences
