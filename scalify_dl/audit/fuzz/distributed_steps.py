"""Random steps of the distributed side alone (collectives), and of indexed access, random masks and index
arithmetic."""

from __future__ import annotations

from scalify_dl.ir.graph import Graph, Tensor

from .steps import partner
from .world import Retry, World, step


@step("all-reduce", 2.5)
def all_reduce(w: World) -> None:
    t = w.twin()
    name = w.rng.choice(["sum", "sum", "sum", "max", "min", "prod"])
    w.add(t.base, w.emit(w.dist, "all-reduce", [t.dist], reducer=name, groups=w.groups()))


@step("settle", 0.7)
def settle(w: World) -> None:
    """A value that is pending over some axes, reduced over those groups or others."""
    axes = w.axes()
    reducer = w.rng.choice(["sum", "sum", "max", "min"])
    t = w.input("f32", shape=[8, 2], layout=w.pair.layout([8, 2], {}, pending=dict.fromkeys(axes, reducer)))
    groups = w.groups() if w.chance(0.4) else w.pair.groups(*axes)
    if w.slip():
        ranks = w.rng.sample(range(w.pair.mesh.size), w.pair.mesh.size)
        size = w.rng.choice([len(groups[0]), 2])
        groups = [ranks[i : i + size] for i in range(0, len(ranks), size)]
    if len({len(g) for g in groups}) != 1:
        raise Retry
    if w.chance(0.5):
        w.add(t.base, w.emit(w.dist, "all-reduce", [t.dist], reducer=reducer, groups=groups))
    elif 8 % len(groups[0]) == 0:
        scattered = w.emit(w.dist, "reduce-scatter", [t.dist], dimension=0, reducer=reducer, groups=groups)
        gathered = w.emit(w.dist, "all-gather", [scattered], dimension=0, groups=groups)
        w.add(t.base, scattered)
        w.add(t.base, gathered)


@step("all-gather", 2.0)
def all_gather(w: World) -> None:
    t = w.twin(least=1, dtype=None)
    if not t.dist.shape:
        raise Retry
    w.add(
        t.base, w.emit(w.dist, "all-gather", [t.dist], dimension=w.rng.randrange(len(t.dist.shape)), groups=w.groups())
    )


@step("reduce-scatter", 1.5)
def reduce_scatter(w: World) -> None:
    t = w.twin(least=1)
    groups = w.groups()
    fitting = [d for d, n in enumerate(t.dist.shape) if n % len(groups[0]) == 0]
    if not fitting:
        raise Retry
    name = w.rng.choice(["sum", "sum", "max"])
    w.add(
        t.base, w.emit(w.dist, "reduce-scatter", [t.dist], dimension=w.rng.choice(fitting), reducer=name, groups=groups)
    )


@step("all-to-all", 1.5)
def all_to_all(w: World) -> None:
    t = w.twin(least=1, dtype=None)
    groups = w.groups()
    fitting = [d for d, n in enumerate(t.dist.shape) if n % len(groups[0]) == 0]
    if not fitting:
        raise Retry
    split, concat = w.rng.choice(fitting), w.rng.randrange(len(t.dist.shape))
    w.add(t.base, w.emit(w.dist, "all-to-all", [t.dist], split_dimension=split, concat_dimension=concat, groups=groups))


@step("permute", 1.0)
def permute(w: World) -> None:
    t = w.twin(dtype=None)
    ranks = list(range(w.pair.mesh.size))
    if w.chance(0.3):  # as they are, or two atoms of the mesh exchanged
        pairs = [(r, r) for r in ranks]
        if len(ranks) == 4 and w.chance(0.7):
            pairs = [(0, 0), (1, 2), (2, 1), (3, 3)]
    elif w.chance(0.7):
        pairs = []
        for group in w.groups():
            turn = w.rng.randrange(1, max(len(group), 2))
            pairs += [(r, group[(i + turn) % len(group)]) for i, r in enumerate(group)]
    else:
        pairs = list(zip(ranks, w.rng.sample(ranks, len(ranks)), strict=True))
    if w.slip():
        pairs = pairs[1:]
    w.add(t.base, w.emit(w.dist, "collective-permute", [t.dist], pairs=pairs))


@step("collective-broadcast", 0.6)
def collective_broadcast(w: World) -> None:
    t = w.twin(dtype=None)
    w.add(t.base, w.emit(w.dist, "collective-broadcast", [t.dist], groups=w.groups()))


@step("gather", 1.0)
def gather(w: World) -> None:
    """Rows of a table by ids."""
    table, ids = w.twin(least=2), w.twin(dtype="s32", least=1)
    if (
        len(table.base.shape) != 2
        or len(table.dist.shape) != 2
        or len(ids.base.shape) > 2
        or len(ids.dist.shape) != len(ids.base.shape)
    ):
        raise Retry
    rank = len(ids.base.shape)
    results = [
        w.emit(
            g, "gather", [x, i], offset_dims=[rank], collapsed_slice_dims=[0], start_index_map=[0], slice_sizes=[1,
            x.shape[1]],
            index_vector_dim=rank, mode="clamp",
        )
        for g, x, i in ((w.base, table.base, ids.base), (w.dist, table.dist, ids.dist))
    ]  # fmt: skip
    w.add(*results)


@step("scatter", 0.7)
def scatter(w: World) -> None:
    """Updates added to rows of a value by ids."""
    x, ids = w.twin(least=2), w.twin(dtype="s32", least=1)
    if len(x.base.shape) != 2 or len(x.dist.shape) != 2 or len(ids.base.shape) != 1 or len(ids.dist.shape) != 1:
        raise Retry
    shape = (ids.base.shape[0], x.base.shape[1])
    for _ in range(10):
        layout = w.layout(shape, pending=w.chance(0.2))
        if layout.local_shape == (ids.dist.shape[0], x.dist.shape[1]):
            break
    else:
        raise Retry
    updates = w.input("f32", shape=shape, layout=layout)
    attributes = {
        "update_window_dims": [1], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0],
        "index_vector_dim": 1,
    }  # fmt: skip
    name = w.rng.choice(["sum", "sum", "max"])
    w.add(
        w.emit(w.base, "scatter", [x.base, ids.base, updates.base], reducer=name, **attributes),
        w.emit(w.dist, "scatter", [x.dist, ids.dist, updates.dist], reducer=name, **attributes),
    )


@step("iota", 0.8)
def iota(w: World) -> None:
    """Index vectors, shifted by an offset of the rank where the local one is a part, compared with ids."""
    t = w.twin(dtype="s32", least=1)
    dim = w.rng.randrange(len(t.base.shape))
    if len(t.dist.shape) != len(t.base.shape):
        raise Retry
    base = w.emit(w.base, "iota", [], dtype="s32", shape=t.base.shape, dimension=dim)
    dist = w.emit(w.dist, "iota", [], dtype="s32", shape=t.dist.shape, dimension=dim)
    if t.dist.shape[dim] != t.base.shape[dim] and w.chance(0.8):
        axis, _ = w.rng.choice(w.pair.mesh.axes)
        position = [name for name, _ in w.pair.mesh.axes].index(axis)
        offset = w.dist.add("constant", [], [("s32", ())])
        offset.rank_numbers["value", 0] = {
            rank: at[position] * t.dist.shape[dim] + (1 if w.slip() else 0)
            for rank, at in enumerate(w.pair.mesh.coordinates)
        }
        wide = w.emit(w.dist, "broadcast", [offset.result], shape=t.dist.shape, dimensions=[])
        dist = w.emit(w.dist, "add", [dist, wide])
    w.add(base, dist)
    p, q = (
        w.emit(g, "compare", [x, y], direction="LE") for g, x, y in ((w.base, base, t.base), (w.dist, dist, t.dist))
    )
    w.add(*(w.emit(g, "convert", [x], dtype="f32") for g, x in ((w.base, p), (w.dist, q))))


@step("dynamic", 0.7)
def dynamic(w: World) -> None:
    """A window at a given start, or an update there."""
    t = w.level(least=1)
    dim = w.rng.randrange(len(t.base.shape))
    at = w.rng.choice([0, 1, 2])
    results = []
    size = 2 if min(t.base.shape[dim], t.dist.shape[dim]) >= 2 else 1
    other = at + 1 if w.slip() else at
    for g, x, start in ((w.base, t.base, at), (w.dist, t.dist, other)):
        starts = [g.constant(start if d == dim else 0, "s32") for d in range(len(x.shape))]
        sizes = [size if d == dim else n for d, n in enumerate(x.shape)]
        results.append(w.emit(g, "dynamic-slice", [x, *starts], sizes=sizes))
    if w.chance(0.5):
        results = [
            w.emit(g, "dynamic-update-slice", [x, r, *(g.constant(start if d == dim else 0,
            "s32") for d in range(len(x.shape)))])
            for g, x, r, start in ((w.base, t.base, w.emit(w.base, "negate", [results[0]]), at), (w.dist, t.dist,
            w.emit(w.dist, "negate", [results[1]]), other))
        ]  # fmt: skip
    w.add(*results)


@step("dropout", 0.5)
def dropout(w: World) -> None:
    """A random mask, applied."""
    t = w.twin()
    results = []
    for g, x in ((w.base, t.base), (w.dist, t.dist)):
        mask = w.emit(g, "convert", [w.emit(g, "dropout-mask", [x], probability="0.5")], dtype="f32")
        results.append(w.emit(g, "multiply", [x, mask]))
    w.add(*results)


@step("top-k", 0.4)
def top_k(w: World) -> None:
    """Values of the largest elements along the last dim."""
    t = w.twin(least=1)
    if not t.dist.shape or min(t.base.shape[-1], t.dist.shape[-1]) < 2:
        raise Retry
    results = []
    for g, x in ((w.base, t.base), (w.dist, t.dist)):
        op = g.add("top-k", [x], [("f32", (*x.shape[:-1], 2)), ("s32", (*x.shape[:-1], 2))], numbers={"k": [2]})
        results.append(op.results[0])
    w.add(*results)


@step("softmax", 0.7)
def softmax(w: World) -> None:
    """exp(x - max) / sum of them along a dim: where several lemmas meet."""
    t = w.level(least=1)
    dim = w.rng.randrange(len(t.base.shape))
    groups = w.groups() if w.chance(0.6) else None
    results = []
    for g, x in ((w.base, t.base), (w.dist, t.dist)):
        kept = [d for d in range(len(x.shape)) if d != dim]

        def along(y: Tensor, name: str, g: Graph = g, x: Tensor = x, kept: list[int] = kept) -> Tensor:
            r = w.emit(g, "reduce", [y], dimensions=[dim], reducer=name)
            if g is w.dist and groups and not w.slip():
                r = w.emit(g, "all-reduce", [r], reducer=name, groups=groups)
            return w.emit(g, "broadcast", [r], shape=x.shape, dimensions=kept)

        e = w.emit(g, "exponential", [w.emit(g, "subtract", [x, along(x, "max")])])
        results.append(w.emit(g, "divide", [e, along(e, "sum")]))
    w.add(*results)


@step("residual", 1.0)
def residual(w: World) -> None:
    """A value added to one that has just been made: pending meets replicated."""
    t = w.twin()
    o = partner(w, t)
    w.add(w.emit(w.base, "add", [t.base, o.base]), w.emit(w.dist, "add", [t.dist, o.dist]))
