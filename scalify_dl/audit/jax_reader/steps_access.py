"""Random steps: gather and scatter with any dimension numbers, slices whose starts are values."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .raw import binary, emit, second
from .steps_plain import step
from .world import World, is_bool, is_float, is_integer


def mlir_list(numbers: Any) -> str:
    """Integers as the text of an MLIR array attribute."""
    items = ", ".join(map(str, numbers))
    return f"array<i64: {items}>" if items else "array<i64>"


def chosen(w: World, items: list[int], p: float) -> list[int]:
    """Some of the items, in order."""
    return [item for item in items if w.chance(p)]


def truth(flag: bool) -> str:
    """An MLIR boolean."""
    return "true" if flag else "false"


class Places:
    """What gather and scatter have in common: which dims of the operand the indices speak of, and how the indices lie.

    `batching` are pairs of an operand's dim and a dim among the batch dims of the indices."""

    def __init__(self, w: World, shape: tuple[int, ...]) -> None:
        rank = len(shape)
        tied = [d for d in range(rank) if 0 < shape[d] <= 4 and w.chance(0.2)][:2]
        self.batch = [w.integer(1, 3) for _ in range(w.integer(0, 2))]
        places: list[int] = []
        for d in tied:
            at = w.integer(0, len(self.batch))
            self.batch.insert(at, shape[d])
            places = [p + (p >= at) for p in places] + [at]
        self.tied = tied
        free = [d for d in range(rank) if d not in tied]
        self.gone = chosen(w, [d for d in free if shape[d]], 0.4)
        """Dims that are indexed by one element and do not appear."""
        self.mapped = chosen(w, free, 0.7)
        w.rng.shuffle(self.mapped)
        self.windows = [d for d in free if d not in self.gone]
        self.sizes = [1 if d not in self.windows else w.integer(min(1, n), n) for d, n in enumerate(shape)]
        self.vector = w.integer(0, len(self.batch))
        """Where the dim of index components stands."""
        self.places = [p + (p >= self.vector) for p in places]
        plain = len(self.mapped) == 1 and w.chance(0.4)
        if plain:  # no dim of components: the last one, of one element, is left out
            self.vector, self.places = len(self.batch), places
        self.indices = list(self.batch)
        if not plain:
            self.indices.insert(self.vector, len(self.mapped))
        rank = len(self.batch) + len(self.windows)
        self.offsets = sorted(int(d) for d in w.rng.permutation(rank)[: len(self.windows)])
        """Where the windows' dims stand among the result's."""
        rest = iter(self.batch)
        inside = iter(self.windows)
        self.result = [self.sizes[next(inside)] if d in self.offsets else next(rest) for d in range(rank)]


def indices_for(w: World, places: Places, shape: tuple[int, ...]) -> tuple[int, Any]:
    """A value, and what makes indices of it: mostly inside, now and then as they are."""
    i = w.find(is_integer)
    top = None if w.chance(0.3) or max(shape, default=0) > 100 else max(shape, default=0) + 1

    def f(v: Any) -> Any:
        flat = jnp.resize(v, tuple(places.indices)) if v.size else jnp.zeros(tuple(places.indices), v.dtype)
        return flat if top is None else lax.rem(flat, jnp.full_like(flat, top))

    return i, f


@step(2)
def gather(w: World) -> None:
    """A gather as XLA has it."""
    a = w.find(lambda t: len(t.shape) <= 4)
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    p = Places(w, shape)
    i, f = indices_for(w, p, shape)
    attributes = {
        "dimension_numbers": f"#stablehlo.gather<offset_dims = {p.offsets}, collapsed_slice_dims = {p.gone}, "
        f"operand_batching_dims = {p.tied}, start_indices_batching_dims = {p.places}, "
        f"start_index_map = {p.mapped}, index_vector_dim = {p.vector}>",
        "slice_sizes": mlir_list(p.sizes),
        "indices_are_sorted": "false",
    }
    w.add("gather", lambda x, j: emit("stablehlo.gather", (x, f(j)), [(tuple(p.result), dtype)], attributes), a, i)


@step(2)
def scatter(w: World) -> None:
    """A scatter as XLA has it. What replaces is one number, as the order of updates is nobody's promise."""
    a = w.find(lambda t: len(t.shape) <= 4)
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    p = Places(w, shape)
    i, f = indices_for(w, p, shape)
    names = ["add", "maximum", "minimum", "multiply", "and", "or", "xor", ""]
    name = w.choice([n for n in names if n not in ("and", "or", "xor") or not is_float(w.types[a])])
    if is_bool(w.types[a]) and name == "":
        name = "or"
    region = binary(f"stablehlo.{name}", dtype) if name else second(dtype)
    attributes = {
        "scatter_dimension_numbers": f"#stablehlo.scatter<update_window_dims = {p.offsets}, "
        f"inserted_window_dims = {p.gone}, input_batching_dims = {p.tied}, "
        f"scatter_indices_batching_dims = {p.places}, scatter_dims_to_operand_dims = {p.mapped}, "
        f"index_vector_dim = {p.vector}>",
        "indices_are_sorted": "false",
        "unique_indices": truth(int(np.prod(p.batch)) == 1 and w.chance(0.5)),
    }

    def g(x: Any, j: Any) -> Any:
        updates = jnp.full(tuple(p.result), 2, x.dtype)
        if name:
            updates = (jnp.arange(updates.size) % 3).reshape(updates.shape).astype(x.dtype)
        return emit("stablehlo.scatter", (x, f(j), updates), [(shape, dtype)], attributes, [region])

    w.add(f"scatter {name or 'replace'}", g, a, i)


@step(2)
def window_at(w: World) -> None:
    """A window read or written where values say, every dim by its own."""
    a = w.find(lambda t: bool(t.shape))
    shape, dtype = w.types[a].shape, np.dtype(w.types[a].dtype).name
    sizes = tuple(w.integer(min(1, n), n) for n in shape)
    first = w.find(lambda t: t.shape == () and is_integer(t))
    starts = [w.find(lambda t: t.shape == () and t.dtype == w.types[first].dtype) for _ in shape]
    if w.chance(0.5):
        attributes = {"slice_sizes": mlir_list(sizes)}
        w.add("dynamic_slice", lambda x, *s: emit("stablehlo.dynamic_slice", (x, *s), [(sizes, dtype)], attributes), a,
              *starts)  # fmt: skip
    else:
        b = w.find(lambda t: t.dtype == w.types[a].dtype)

        def write(x: Any, y: Any, *s: Any) -> Any:
            patch = jnp.resize(y, sizes) if y.size else jnp.zeros(sizes, y.dtype)
            return emit("stablehlo.dynamic_update_slice", (x, patch, *s), [(shape, dtype)])

        w.add("dynamic_update_slice", write, a, b, *starts)
