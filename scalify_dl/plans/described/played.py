"""What every rank runs, put together from the graphs of stages as the schedule says: a program for every line of it.

An action runs the part of its stage's graph that it is for, on the values of its micro-batch: F what is sent on and
the loss, I what is sent back, W the gradients, B both. Messages are those of the schedule; where it has none, each is
sent where it is made and received where it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from scalify_dl.ir.copies import copied
from scalify_dl.ir.graph import Frame, Graph, Op, Port, Tensor
from scalify_dl.pairing.export import positions
from scalify_dl.schedule.actions import MESSAGES, Action
from scalify_dl.schedule.pipeline_csv import Orders
from scalify_dl.yaml_nodes import Place

from .file import Described
from .stages import check_stages, ports, unused

__all__ = ["CannotPlay", "played"]

BACKWARDS = {"B": ("to_previous", "gradients"), "I": ("to_previous",), "W": ("gradients",)}


class CannotPlay(Exception):
    """An action that cannot run where it stands; the text says why."""

    def __init__(self, text: str, action: str, rank: int, line: int, cell: int) -> None:
        super().__init__(text)
        self.action, self.rank, self.line, self.cell = action, rank, line, cell


def played(
    plan: Described, orders: Orders, graphs: Sequence[Graph], wanted: Sequence[str] | None = None,
    optimisers: Mapping[int, Graph] | None = None,
) -> list[Graph]:  # fmt: skip
    """The programs of all places of the pipeline, in its order. `wanted` are what the baseline gives (None: all of
    it), `optimisers` the graphs of what stages do behind the reduction."""
    check_stages(plan, graphs)
    for graph in (*graphs, *(optimisers or {}).values()):
        positions(graph)
    return [_Player(plan, orders, graphs, wanted, optimisers or {}, place).run() for place in range(len(orders.lines))]


class _Player:
    """One place of the pipeline: all ranks that have it run one program."""

    def __init__(
        self, plan: Described, orders: Orders, graphs: Sequence[Graph], wanted: Sequence[str] | None,
        optimisers: Mapping[int, Graph], place: int,
    ) -> None:  # fmt: skip
        self.plan, self.orders, self.graphs, self.place = plan, orders, graphs, place
        self.wanted, self.optimisers = wanted, optimisers
        axes = [name for name, _ in plan.mesh.axes]
        self.axis = axes.index(plan.pipeline)
        self.rank_at = {c: r for r, c in enumerate(plan.mesh.coordinates)}
        self.out = Graph(f"{plan.pipeline}{place}", str(plan.file))
        self.out.ranks = [r for c, r in self.rank_at.items() if c[self.axis] == place]
        self.mine = sorted(stage for stage, rank in orders.rank_of.items() if rank == place)
        self.given: dict[tuple[int, str], Tensor] = {}
        self.values: dict[tuple[int, int], dict[Tensor, Tensor]] = {}
        self.sums: dict[tuple[int, str], Tensor] = {}
        self.losses: dict[tuple[int, str], Tensor] = {}
        self.source: Frame | None = None

    def run(self) -> Graph:
        """Plays all actions, then reduces."""
        for stage in self.mine:
            self.take_inputs(stage)
        optimisers = {n: graph for n, graph in self.optimisers.items() if n in self.mine}
        self.take_over([*(self.graphs[n] for n in self.mine), *optimisers.values()])
        for step in (n for n, rank in enumerate(self.orders.rank.tolist()) if rank == self.place):
            action, cell = self.orders.action(step), int(self.orders.cell[step])
            self.source = Frame(self.orders.file, self.orders.lines[self.place], action.name)
            try:
                self.act(action)
            except _Lacking as problem:
                line = self.orders.lines[self.place]
                raise CannotPlay(str(problem), action.name, self.place, line, cell) from None
        self.source = None
        reduced = self.reduce()
        after = {n: self.step(n, graph, reduced) for n, graph in optimisers.items()}
        self.assume(after)
        return self.out

    def take_inputs(self, n: int) -> None:
        """Parameters of a stage, and all of the batch."""
        stage, graph = self.plan.stages[n], self.graphs[n]
        own = ports(graph.inputs)
        passed = {own[name].tensor for name in (*stage.from_previous, *stage.from_next)}
        cut = {own[name].tensor for name in stage.batch}
        for port in graph.inputs:
            tensor = port.tensor
            if tensor in passed:
                continue
            what = port.path or tensor.name
            shape = tensor.shape
            if tensor in cut:
                if not shape:
                    raise stage.place.error(f"`{what}` is a single number", expected="a micro-batch along dim 0")
                shape = (shape[0] * self.orders.batches, *shape[1:])
            self.given[n, what] = self.take(port, shape, stage.place)

    def take(self, port: Port, shape: tuple[int, ...], place: Place) -> Tensor:
        """An input of the program; what is called alike is one."""
        what, dtype = port.path or port.tensor.name, port.tensor.dtype
        known = next((t for (_, name), t in self.given.items() if name == what), None)
        if known is not None and (known.shape, known.dtype) != (shape, dtype):
            raise place.error(f"`{what}` is of one shape in one stage and of another in another")
        if known is None:
            new = copy(port)
            known = new.tensor = Tensor(dtype, shape, what)
            new.path = what
            self.out.inputs.append(new)
        return known

    def take_over(self, graphs: Sequence[Graph]) -> None:
        """What is said of the programs of stages as a whole."""
        out = self.out
        out.lookups_fail = all(graph.lookups_fail for graph in graphs)
        out.asynchronous = any(graph.asynchronous for graph in graphs)
        out.outside = list(dict.fromkeys(text for graph in graphs for text in graph.outside))
        out.reductions = {name for graph in graphs for name in graph.reductions}
        out.ignored_inputs = sum(graph.ignored_inputs for graph in graphs)
        out.ignored_outputs = sum(graph.ignored_outputs for graph in graphs)

    def assume(self, after: Mapping[int, dict[Tensor, Tensor]]) -> None:
        """What graphs of stages rest on, once for all micro-batches; and what is left of their outputs. `after`: what
        values of optimisers are."""
        for n, env in after.items():
            optimiser = self.plan.stages[n].optimiser
            assert optimiser is not None
            for tensor, text, why in self.optimisers[n].assumptions:
                if tensor in env:
                    self.out.assume(env[tensor], text, why)
            self.left(f"the optimiser of stage {n} ({optimiser.program.name})", self.optimisers[n], optimiser.updates)
        for n in self.mine:
            stage, graph = self.plan.stages[n], self.graphs[n]
            batches = [env for (of, _), env in sorted(self.values.items(), key=lambda item: item[0]) if of == n]
            for tensor, text, why in graph.assumptions:
                for env in batches:
                    if tensor in env:
                        self.out.assume(env[tensor], text, why)
            named = (*stage.to_next, *stage.to_previous, *stage.gradients, *stage.losses)
            self.left(f"stage {n} ({stage.program.name})", graph, named)

    def left(self, where: str, graph: Graph, named: Iterable[str]) -> None:
        """Outputs of a graph that the plan says nothing of."""
        for name in unused(graph, named):
            for port in self.out.outputs[:1]:
                text = f"nobody reads `{name}` of {where}, which the plan does not name"
                self.out.assume(port.tensor, text, "effect")

    # ---- actions

    def act(self, action: Action) -> None:
        """One action of the schedule."""
        stage, kind, batch = action
        if kind in MESSAGES:
            self.message(stage, kind, batch)
        elif kind == "F":
            self.forward(stage, batch)
        elif kind in BACKWARDS:
            self.backward(stage, kind, batch)

    def message(self, n: int, kind: str, batch: int, channel: str = "pipeline") -> None:
        """Sends or receives what a stage passes on, as many values as it has."""
        stage, there = self.plan.stages[n], n + (1 if kind in ("SEND_F", "RECV_B") else -1)
        peer = self.orders.rank_of[there]
        if kind.startswith("SEND"):
            for name in stage.to_next if kind == "SEND_F" else stage.to_previous:
                self.meet("send", [self.value(n, batch, name)], (), peer, channel)
            return
        for name in stage.from_previous if kind == "RECV_F" else stage.from_next:
            tensor = ports(self.graphs[n].inputs)[name].tensor
            op = self.meet("recv", [], ((tensor.dtype, tensor.shape),), peer, channel)
            self.env(n, batch)[tensor] = op.result

    def meet(
        self, kind: str, operands: list[Tensor], types: Sequence[tuple[str, tuple[int, ...]]], peer: int, channel: str
    ) -> Op:
        """A message to or from the same place of another stage."""
        op = self.out.add(kind, operands, types, symbols={"channel": [channel]}, source=self.frames())
        coordinates = {r: c for c, r in self.rank_at.items()}
        peers = {}
        for rank in self.out.ranks or ():
            at = list(coordinates[rank])
            at[self.axis] = peer
            peers[rank] = self.rank_at[tuple(at)]
        op.numbers["peer"] = [next(iter(peers.values()))]
        if len(set(peers.values())) > 1:
            op.rank_numbers["peer", 0] = peers
        return op

    def frames(self) -> Sequence[Frame]:
        """Where in the schedule an op comes from."""
        return [self.source] if self.source else []

    def forward(self, n: int, batch: int) -> None:
        """What a stage sends on, and its losses."""
        stage = self.plan.stages[n]
        self.arrive(n, batch, "RECV_F", stage.from_previous)
        for name in (*stage.to_next, *stage.losses):
            self.value(n, batch, name)
        for name, what in stage.losses.items():
            self.add(self.losses, (n, what), self.value(n, batch, name))
        self.pass_on(n, batch, "SEND_F", n + 1, stage.to_next)

    def backward(self, n: int, kind: str, batch: int) -> None:
        """What a stage sends back, its gradients, or both."""
        stage = self.plan.stages[n]
        if kind != "W":
            self.arrive(n, batch, "RECV_B", stage.from_next)
        if "to_previous" in BACKWARDS[kind]:
            for name in stage.to_previous:
                self.value(n, batch, name)
            self.pass_on(n, batch, "SEND_B", n - 1, stage.to_previous)
        if "gradients" in BACKWARDS[kind]:
            for name, what in stage.gradients.items():
                self.add(self.sums, (n, what), self.value(n, batch, name))

    def arrive(self, n: int, batch: int, kind: str, names: Sequence[str]) -> None:
        """What comes from a neighbour is there: handed over on this rank, received before, or now."""
        if not names:
            return
        there = n - 1 if kind == "RECV_F" else n + 1
        if there in self.mine:
            other = self.plan.stages[there]
            sent = other.to_next if kind == "RECV_F" else other.to_previous
            for name, what in zip(names, sent, strict=True):
                self.env(n, batch)[ports(self.graphs[n].inputs)[name].tensor] = self.value(there, batch, what)
        elif not self.orders.has_messages:
            self.message(n, kind, batch, f"{kind[-1]} of {min(n, there)}, micro-batch {batch}")

    def pass_on(self, n: int, batch: int, kind: str, there: int, names: Sequence[str]) -> None:
        if names and there not in self.mine and not self.orders.has_messages:
            self.message(n, kind, batch, f"{kind[-1]} of {min(n, there)}, micro-batch {batch}")

    # ---- values

    def env(self, n: int, batch: int) -> dict[Tensor, Tensor]:
        """What values of a stage's graph are, for a micro-batch."""
        found = self.values.get((n, batch))
        if found is None:
            found = self.values[n, batch] = {}
            stage = self.plan.stages[n]
            own = ports(self.graphs[n].inputs)
            cut = {own[name].tensor for name in stage.batch}
            for port in self.graphs[n].inputs:
                whole = self.given.get((n, port.path or port.tensor.name))
                if whole is None:
                    continue
                if port.tensor in cut:
                    size = port.tensor.shape[0]
                    ends = [size * batch, *(0 for _ in whole.shape[1:])], [size * (batch + 1), *whole.shape[1:]]
                    whole = self.out.emit(
                        "slice", [whole], start=ends[0], limit=ends[1], stride=[1] * len(whole.shape),
                        source=self.frames(),
                    )  # fmt: skip
                found[port.tensor] = whole
        return found

    def value(self, n: int, batch: int, name: str) -> Tensor:
        """An output of a stage, for a micro-batch; what it needs is computed now."""
        target, env = ports(self.graphs[n].outputs)[name].tensor, self.env(n, batch)
        wanted, needed = [target], set()
        makers = {t: op for op in self.graphs[n].ops for t in op.results}
        while wanted:
            tensor = wanted.pop()
            if tensor in env or tensor in needed:
                continue
            needed.add(tensor)
            if tensor not in makers:
                raise _Lacking(f"`{tensor.name}` of micro-batch {batch} is not there: it was not received before")
            wanted += makers[tensor].operands
        for op in self.graphs[n].ops:
            if needed.intersection(op.results):
                self.out.ops.append(copied(op, env, f"{n}.{batch}/"))
        return env[target]

    def add(self, sums: dict[tuple[int, str], Tensor], key: tuple[int, str], value: Tensor) -> None:
        """Adds a value to a sum."""
        before = sums.get(key)
        sums[key] = value if before is None else self.out.emit("add", [before, value], source=self.frames())

    # ---- the end of the step

    def reduce(self) -> dict[tuple[int, str], Tensor]:
        """Gradients and losses of all micro-batches: scaled, added up over tied stages and over copies. By stage and
        name, what they are then."""
        found: dict[str, list[Tensor]] = {}
        stages: dict[str, list[int]] = {}
        reduced: dict[tuple[int, str], Tensor] = {}
        for (n, what), value in [*self.losses.items(), *self.sums.items()]:
            found.setdefault(what, []).append(value)
            stages.setdefault(what, []).append(n)
        for what, values in sorted(found.items()):
            places = {rank for n, rank in self.orders.rank_of.items() if what in self.plan.stages[n].gradients.values()}
            tied = what in self.plan.tied
            values = [self.scaled(value, self.plan.micro_batches, self.orders.batches) for value in values]
            if tied:
                total = values[0]
                for value in values[1:]:
                    total = self.out.emit("add", [total, value])
                values = [total]
            for at_stages, value in zip([stages[what]] if tied else [[n] for n in stages[what]], values, strict=True):
                if tied and len(places) > 1:
                    value = self.summed(value, self.axis, places)
                if self.plan.copies and not self.reduces(at_stages[0], what):
                    at = [name for name, _ in self.plan.mesh.axes].index(self.plan.copies)
                    size = self.plan.mesh.axes[at][1]
                    value = self.scaled(self.summed(value, at, set(range(size))), self.plan.over_copies, size)
                reduced |= {(n, what): value for n in at_stages}
                if self.wanted is None or what in self.wanted:
                    self.out.output(value, path=what)
        return reduced

    def reduces(self, n: int, what: str) -> bool:
        """Whether the optimiser of a stage reduces a gradient over copies itself."""
        optimiser = self.plan.stages[n].optimiser
        return optimiser is not None and optimiser.reduces and what in optimiser.gradients.values()

    def step(self, n: int, graph: Graph, reduced: Mapping[tuple[int, str], Tensor]) -> dict[Tensor, Tensor]:
        """What the optimiser of a stage makes of reduced gradients; by values of its graph, what they are."""
        optimiser = self.plan.stages[n].optimiser
        assert optimiser is not None
        named = {ports(graph.inputs)[name].tensor: what for name, what in optimiser.gradients.items()}
        env: dict[Tensor, Tensor] = {}
        for port in graph.inputs:
            tensor, what = port.tensor, named.get(port.tensor)
            if what is None:
                env[tensor] = self.given[n, port.path or tensor.name] = self.take(port, tensor.shape, optimiser.place)
                continue
            if (n, what) not in reduced:
                raise optimiser.place.error(f"stage {n}: the schedule has no backward that gives `{what}`")
            env[tensor] = reduced[n, what]
            if env[tensor].type != tensor.type:
                raise optimiser.place.error(
                    f"`{what}` is {env[tensor].type}, taken as `{tensor.name}`, which is {tensor.type}",
                    expected="the same type on both sides",
                )
        for op in graph.ops:
            self.out.ops.append(copied(op, env, f"{n}.optimiser/"))
        for name, what in optimiser.updates.items():
            self.out.output(env[ports(graph.outputs)[name].tensor], path=what)
        return env

    def scaled(self, value: Tensor, way: str, count: int) -> Tensor:
        """A sum of so many, or their mean."""
        if way == "sum" or count == 1:
            return value
        return self.out.emit("divide", [value, self.out.splat(count, value.dtype, value.shape)])

    def summed(self, value: Tensor, axis: int, at: set[int]) -> Tensor:
        """An all-reduce along a mesh axis, of the ranks at some of its coordinates."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for coordinates, rank in self.rank_at.items():
            if coordinates[axis] in at:
                groups.setdefault((*coordinates[:axis], *coordinates[axis + 1 :]), []).append(rank)
        return self.out.emit("all-reduce", [value], reducer="sum", groups=list(groups.values()))


class _Lacking(Exception):
    """A value that is not there."""
