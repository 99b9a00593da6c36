"""A training step as nnScaler sees it before ranks: forward ops by stage, what is cut over tp, and the backward pass.

One description gives both sides. Where `tp` is 1 nothing is cut and adapters are nothing: the single-device step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of the model, of one micro-batch: `cut` is the dim of which every tp rank has its block, a `partial` one
    has an addend on every rank. `expert` values are cut over the copies of an expert-parallel group instead."""

    name: str
    shape: Shape
    dtype: str = "float32"
    cut: int | None = None
    partial: bool = False
    expert: bool = False
    weight: bool = False
    wants_gradient: bool = True
    loss: bool = False
    stage: int = 0
    gradient_of: Value | None = None
    same: Value | None = None
    """The value whose tensor it is: what `enter` makes is what it reads."""
    model: Value | None = None
    """The value that is the same tensor of the model: what adapters make is what they read."""

    @property
    def root(self) -> Value:
        """Whose tensor of the model it is a part of."""
        return self.model.root if self.model else self

    @property
    def tensor(self) -> Value:
        """Who has the tensor."""
        return self.same.tensor if self.same else self


@dataclass(eq=False, slots=True)
class Item:
    """An op, or an adapter (`enter`, `reduce`, `chunk`, `gather`, `scatter`, `exchange`, `cross`)."""

    kind: str
    reads: list[Value]
    makes: list[Value]
    stage: int
    cid: int
    direction: str = "fw"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[Any] = ()
    dim: int = -1
    to_dim: int = -1
    experts: bool = False
    """Whether an adapter is over the copies of an expert-parallel group, not over tp."""

    @property
    def adapter(self) -> bool:
        """Whether it only moves values."""
        return self.kind in ADAPTERS


ADAPTERS = frozenset({"enter", "reduce", "chunk", "gather", "scatter", "exchange", "cross", "broadcast"})
NO_GRADIENT: dict[str, frozenset[int]] = {
    "embedding": frozenset({0}), "create_mask": frozenset({0, 1}), "apply_mask": frozenset({1}),
    "apply_rotary_emb": frozenset({2}),
}  # fmt: skip
"""Operands of kinds that get no gradient."""


class Step:
    """A step under construction, for one batch."""

    def __init__(self, batch: int, tp: int = 1, ep: int = 1) -> None:
        self.batch, self.tp, self.ep = batch, tp, ep
        self.stage = 0
        self.forward: list[Item] = []
        self.backward: list[Item] = []
        self.weights: dict[str, Value] = {}
        self.gradients: list[tuple[Value, Value]] = []
        """(gradient, weight) pairs."""
        self.loss: Value | None = None
        self._cid = 0
        self._names: dict[str, int] = defaultdict(int)

    # ---- ops

    def op(
        self, kind: str, reads: Sequence[Value], *shapes: Shape, cut: int | Sequence[int | None] | None = None,
        partial: bool = False, expert: bool = False, constants: Sequence[Any] = (), **attributes: Any,
    ) -> Any:  # fmt: skip
        """An op; what it makes, one value or several. Where tp is 1, `cut` and `partial` mean nothing."""
        self._cid += 1
        cuts = list(cut) if isinstance(cut, Sequence) else [cut] * len(shapes)
        wants = any(
            x.wants_gradient for n, x in enumerate(reads) if n not in NO_GRADIENT.get(kind, ()) and x.dtype != "int64"
        )
        spread = self.ep > 1 if expert else self.tp > 1
        makes = [
            Value(
                self._named(kind), shape, "float32", c if spread else None, partial and spread, expert and spread,
                wants_gradient=wants, stage=self.stage,
            )
            for shape, c in zip(shapes, cuts, strict=True)
        ]  # fmt: skip
        self.forward.append(Item(kind, list(reads), makes, self.stage, self._cid, "fw", attributes, constants))
        return makes[0] if len(makes) == 1 else makes

    def _named(self, kind: str) -> str:
        self._names[kind] += 1
        n = self._names[kind] - 1
        return f"{kind}_{n}" if n else kind

    def weight(
        self, name: str, *shape: int, cut: int | None = None, expert: bool = False, dtype: str = "float32",
        constant: bool = False,
    ) -> Value:  # fmt: skip
        """A weight, or a constant that stands beside the weights; the same on all stages that name it."""
        if name not in self.weights:
            spread = self.ep > 1 if expert else self.tp > 1
            self.weights[name] = Value(
                name, shape, dtype, cut if spread else None, expert=expert and spread, weight=True,
                wants_gradient=not constant, stage=self.stage,
            )  # fmt: skip
        return self.weights[name]

    def data(self, name: str, *shape: int) -> Value:
        """What the loader gives."""
        value = Value(name, shape, "int64", wants_gradient=False, stage=self.stage)
        self.forward.append(Item("dataloader", [], [value], self.stage, 109))
        return value

    # ---- adapters

    def _adapter(
        self, kind: str, x: Value, made: Value, dim: int = -1, to_dim: int = -1, experts: bool = False
    ) -> Value:
        self._cid += 1
        made.stage = self.stage
        if made.shape == x.shape:
            made.model = x
        self.forward.append(
            Item(kind, [x], [made], self.stage, 5000 + self._cid, "-", dim=dim, to_dim=to_dim, experts=experts)
        )
        return made

    def enter(self, x: Value) -> Value:
        """A whole value as ranks read it that each compute a part: its gradient comes in addends."""
        if self.tp == 1:
            return x
        return self._adapter("enter", x, Value(x.name, x.shape, x.dtype, same=x, wants_gradient=x.wants_gradient))

    def leave(self, x: Value) -> Value:
        """The sum of addends."""
        return self._adapter("reduce", x, Value(x.name, x.shape, x.dtype)) if x.partial and not x.expert else x

    def part(self, x: Value, dim: int) -> Value:
        """Every tp rank's own block of a whole value."""
        if self.tp == 1:
            return x
        return self._adapter("chunk", x, Value(x.name, x.shape, x.dtype, dim), dim)

    def gather(self, x: Value, dim: int) -> Value:
        """The values of all copies of an expert-parallel group, one after the other."""
        shape = tuple(n * self.ep if d == dim else n for d, n in enumerate(x.shape))
        return self._adapter("gather", x, Value(x.name, shape, x.dtype), dim, experts=True)

    def scatter(self, x: Value, dim: int) -> Value:
        """Its own block of the sum over an expert-parallel group."""
        shape = tuple(n // self.ep if d == dim else n for d, n in enumerate(x.shape))
        return self._adapter("scatter", x, Value(x.name, shape, x.dtype), dim, experts=True)

    def exchange(self, x: Value, dim: int, to_dim: int) -> Value:
        """Every copy of an expert-parallel group gives each its block along one dim, and gets the blocks of all along
        another one."""
        shape = tuple(n * self.ep if d == to_dim else n for d, n in enumerate(x.shape))
        made = Value(x.name, shape, x.dtype, dim, expert=True)
        return self._adapter("exchange", x, made, dim, to_dim, experts=True)

    def next_stage(self, *values: Value) -> list[Value]:
        """Moves values to the next stage; what arrives there."""
        self.stage += 1
        out = []
        for x in values:
            moved = Value(x.name, x.shape, x.dtype, wants_gradient=x.wants_gradient)
            out.append(self.op("identity", [self._adapter("cross", x, moved)], x.shape))
            out[-1].dtype = x.dtype
        return out

    # ---- the backward pass

    def finish(self, loss: Value) -> None:
        """Makes copies of what several ops read (`multiref`), and the backward pass."""
        loss.loss = True
        self.loss = loss
        self._copies()
        start = Value("loss", loss.shape, wants_gradient=False, loss=True, stage=loss.stage, gradient_of=loss)
        gradients: dict[Value, Value] = {loss: start}
        self._cid += 1
        for item in reversed(self.forward):
            given = [gradients.get(x) for x in item.makes]
            if all(g is None for g in given) or not any(x.wants_gradient for x in item.reads):
                continue
            self._back(item, [g for g in given if g is not None], gradients)

    def _copies(self) -> None:
        readers: dict[tuple[Value, int | None], list[tuple[Item, int]]] = defaultdict(list)
        for item in self.forward:
            for n, x in enumerate(item.reads):
                if x.wants_gradient:
                    readers[x, item.stage if x.weight else None].append((item, n))
        out: list[Item] = []
        for item in self.forward:
            for x in item.reads:  # a weight that several ops of a stage read, before the first of them
                if x.weight:
                    here = [(reader, n) for reader, n in readers.pop((x, item.stage), [])]
                    out += self._copied(x, here, item.stage)
            out.append(item)
            for x in item.makes:
                out += self._copied(x, readers[x, None], item.stage)
        self.forward = out

    def _copied(self, x: Value, found: list[tuple[Item, int]], stage: int) -> list[Item]:
        if len(found) < 2:
            return []
        self._cid += 1
        copies = [Value(x.name, x.shape, x.dtype, x.cut, x.partial, x.expert, stage=stage) for _ in found]
        for copy, (reader, n) in zip(copies, found, strict=True):
            reader.reads[n] = copy
            for made in reader.makes:
                if made.same is x:
                    made.same = copy
        return [Item("multiref", [x], copies, stage, 3000 + self._cid, "fw", {"times": len(copies)})]

    def _back(self, item: Item, given: list[Value], gradients: dict[Value, Value]) -> None:
        """The backward op of one forward op."""
        self._cid += 1
        x, kind = item.reads[0] if item.reads else None, item.kind

        def of(value: Value, *, partial: bool = False, cut: int | None = None) -> Value:
            made = Value(
                value.name, value.shape, value.dtype, cut if cut is not None else value.cut, partial, value.expert,
                wants_gradient=False, stage=item.stage, gradient_of=value,
            )  # fmt: skip
            gradients[value] = made
            return made

        cid = 1000 + self._cid if not item.adapter else 7000 + self._cid
        if kind == "reduce":
            assert x is not None
            gradients[x] = given[0]
            return
        if item.adapter:
            assert x is not None
            turned = {"enter": "reduce", "chunk": "gather", "gather": "scatter", "scatter": "gather"}.get(kind, kind)
            if kind == "enter":
                given[0].partial = True
            dim, to_dim = (item.to_dim, item.dim) if kind == "exchange" else (item.dim, item.to_dim)
            stage = x.stage if kind == "cross" else item.stage
            made = of(x)
            made.stage = stage
            if made.shape == given[0].shape:
                made.model = given[0]
            self.backward.append(Item(turned, given, [made], stage, cid, "-", {}, (), dim, to_dim, item.experts))
            return
        wanted = [y for n, y in enumerate(item.reads) if y.wants_gradient and n not in NO_GRADIENT.get(kind, ())]
        makes = [of(y) for y in wanted]
        reads = given if kind in ("multiref", "identity") else [*given, *item.reads]
        self.backward.append(Item(kind, reads, makes, item.stage, cid, "bw", item.attributes, item.constants))
        self.gradients += [(g, y) for g, y in zip(makes, wanted, strict=True) if y.weight]
