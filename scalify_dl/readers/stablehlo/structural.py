"""StableHLO ops that make, move or cut values: constants, broadcasts, slices, contractions, indexing, windows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor

from .. import reductions, regions
from .scope import Site, Value, lowers, unknown
from .types import is_open, literal

if TYPE_CHECKING:
    from jaxlib.mlir import ir


def broadcast_scalar(site: Site, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A scalar repeated to a shape; anything else as it is."""
    if x.shape or not shape:
        return x
    return site.emit("broadcast", [x], (x.dtype, shape), numbers={"dimensions": []})


@lowers("stablehlo.constant", "sdy.constant", "mhlo.constant")
def constant(site: Site) -> list[Value]:
    """The literal in canonical form."""
    dtype, shape = site.type
    try:
        value = site.attribute("value")
    except (RuntimeError, TypeError):  # element types that the bindings cannot show (complex numbers): by the op's text
        value = str(site.op)
    tensor = site.emit("constant", [])
    tensor.literal = literal(value, dtype, shape)
    return [tensor]


@lowers("stablehlo.iota")
def iota(site: Site) -> list[Value]:
    """Index along a dim."""
    return [site.emit("iota", [], numbers={"dimension": [site.number("iota_dimension")]})]


@lowers("stablehlo.broadcast_in_dim")
def broadcast(site: Site) -> list[Value]:
    """See `expand`."""
    return [expand(site, site.operands[0], site.type[1], site.numbers("broadcast_dimensions"))]


def expand(site: Site, x: Tensor, shape: tuple[int, ...], where: Sequence[int]) -> Tensor:
    """Operand dim i becomes result dim `where[i]`; dims of size 1 that stretch are reshaped away, dims out of order
    transposed first, as the vocabulary's `broadcast` does neither."""
    kept = [i for i, d in enumerate(where) if x.shape[i] == shape[d]]
    if len(kept) < len(where):
        x = site.emit("reshape", [x], (x.dtype, tuple(x.shape[i] for i in kept)))
        where = [where[i] for i in kept]
    if any(a > b for a, b in pairwise(where)):
        order = sorted(range(len(where)), key=where.__getitem__)
        x = site.emit("transpose", [x], (x.dtype, tuple(x.shape[i] for i in order)), numbers={"dimensions": order})
        where = sorted(where)
    return x if x.shape == shape else site.emit("broadcast", [x], (x.dtype, shape), numbers={"dimensions": where})


@lowers("stablehlo.reshape")
def reshape(site: Site) -> list[Value]:
    """Row-major; to the same shape it is the operand."""
    (x,) = site.operands
    return [x if x.shape == site.type[1] else site.emit("reshape", [x])]


@lowers("stablehlo.transpose")
def transpose(site: Site) -> list[Value]:
    """Result dim j is operand dim `permutation[j]`."""
    order = site.numbers("permutation")
    if order == list(range(len(order))):
        return list(site.operands)
    return [site.emit("transpose", site.operands, numbers={"dimensions": order})]


@lowers("stablehlo.slice")
def slice_(site: Site) -> list[Value]:
    """Static bounds; the whole is the operand."""
    (x,) = site.operands
    numbers = {
        "start": site.numbers("start_indices"),
        "limit": site.numbers("limit_indices"),
        "stride": site.numbers("strides"),
    }
    if not is_open(site.type) and x.shape == site.type[1]:
        return [x]
    return [site.emit("slice", [x], numbers=numbers)]


@lowers("stablehlo.pad")
def pad(site: Site) -> list[Value]:
    """As in XLA."""
    numbers = {
        "low": site.numbers("edge_padding_low"),
        "high": site.numbers("edge_padding_high"),
        "interior": site.numbers("interior_padding"),
    }
    if not any(n for values in numbers.values() for n in values):
        return [site.operands[0]]
    return [site.emit("pad", site.operands, numbers=numbers)]


@lowers("stablehlo.concatenate")
def concatenate(site: Site) -> list[Value]:
    """Along one dim."""
    operands, dimension = site.operands, site.number("dimension")
    if len(operands) == 1:
        return list(operands)
    return [site.emit("concatenate", operands, numbers={"dimension": [dimension]})]


@lowers("stablehlo.reverse")
def reverse(site: Site) -> list[Value]:
    """Along some dims."""
    return [site.emit("reverse", site.operands, numbers={"dimensions": site.numbers("dimensions")})]


@lowers("stablehlo.dot_general")
def dot_general(site: Site) -> list[Value]:
    """Result dims: batch, free of the left, free of the right."""
    from jaxlib.mlir.dialects import stablehlo

    dims = stablehlo.DotDimensionNumbers(site.attribute("dot_dimension_numbers"))
    numbers = {
        "lhs_batch_dims": list(dims.lhs_batching_dimensions),
        "rhs_batch_dims": list(dims.rhs_batching_dimensions),
        "lhs_contracting_dims": list(dims.lhs_contracting_dimensions),
        "rhs_contracting_dims": list(dims.rhs_contracting_dimensions),
    }
    return [site.emit("dot", site.operands, numbers=numbers)]


@lowers("stablehlo.dot")
def dot(site: Site) -> list[Value]:
    """Matrices and vectors."""
    lhs, rhs = site.operands
    numbers = {
        "lhs_batch_dims": [],
        "rhs_batch_dims": [],
        "lhs_contracting_dims": [len(lhs.shape) - 1],
        "rhs_contracting_dims": [0],
    }
    return [site.emit("dot", [lhs, rhs], numbers=numbers)]


@lowers("stablehlo.convolution")
def convolution(site: Site) -> list[Value]:
    """Dim roles and windows as numbers."""
    from jaxlib.mlir.dialects import stablehlo

    dims = stablehlo.ConvDimensionNumbers(site.attribute("dimension_numbers"))
    spatial = list(dims.kernel_spatial_dimensions)
    padding = site.numbers("padding", [0] * (2 * len(spatial)))
    ones = [1] * len(spatial)
    numbers = {
        "input_batch": [dims.input_batch_dimension],
        "input_feature": [dims.input_feature_dimension],
        "input_spatial": list(dims.input_spatial_dimensions),
        "kernel_input_feature": [dims.kernel_input_feature_dimension],
        "kernel_output_feature": [dims.kernel_output_feature_dimension],
        "kernel_spatial": spatial,
        "output_batch": [dims.output_batch_dimension],
        "output_feature": [dims.output_feature_dimension],
        "output_spatial": list(dims.output_spatial_dimensions),
        "feature_group_count": [site.number("feature_group_count")],
        "batch_group_count": [site.number("batch_group_count")],
        "window_size": [site.operands[1].shape[d] for d in spatial],
        "window_stride": site.numbers("window_strides", ones),
        "window_pad_low": padding[::2],
        "window_pad_high": padding[1::2],
        "window_dilation": site.numbers("rhs_dilation", ones),
        "base_dilation": site.numbers("lhs_dilation", ones),
    }
    reversal = site.numbers("window_reversal", [0] * len(spatial))
    if any(reversal):
        numbers["window_reversal"] = reversal
    return [site.emit("convolution", site.operands, numbers=numbers)]


@lowers("stablehlo.gather")
def gather(site: Site) -> list[Value]:
    """XLA's gather; indices are clamped."""
    numbers = gather_numbers(site, site.numbers("slice_sizes"))
    return [promised(site, site.emit("gather", site.operands, numbers=numbers), numbers)]


def promised(site: Site, result: Tensor, numbers: dict[str, list[int]]) -> Tensor:
    """Lists what a gather or scatter says of its indices."""
    flags = [flag for flag in reductions.PROMISES if site.number(flag, 0)]
    reductions.promised(site.scope.body.graph, result, site.operand(1), numbers["index_vector_dim"][0], flags)
    return result


def gather_numbers(site: Site, slice_sizes: Sequence[int]) -> dict[str, list[int]]:
    """The attributes of a gather."""
    from jaxlib.mlir.dialects import stablehlo

    dims = stablehlo.GatherDimensionNumbers(site.attribute("dimension_numbers"))
    return {
        "offset_dims": list(dims.offset_dims),
        "collapsed_slice_dims": list(dims.collapsed_slice_dims),
        "start_index_map": list(dims.start_index_map),
        "operand_batching_dims": list(dims.operand_batching_dims),
        "start_indices_batching_dims": list(dims.start_indices_batching_dims),
        "slice_sizes": list(slice_sizes),
        "index_vector_dim": [dims.index_vector_dim],
    }


@lowers("stablehlo.scatter")
def scatter(site: Site) -> list[Value]:
    """XLA's scatter with a recognised update function."""
    from jaxlib.mlir.dialects import stablehlo

    operands = site.operands
    dims = stablehlo.ScatterDimensionNumbers(site.attribute("scatter_dimension_numbers"))
    reducer = regions.reducer(function_of(site, [operands[0], operands[-1]])) if len(operands) == 3 else None
    if reducer is None:
        return unknown(site)
    numbers = {
        "update_window_dims": list(dims.update_window_dims),
        "inserted_window_dims": list(dims.inserted_window_dims),
        "scatter_dims_to_operand_dims": list(dims.scattered_dims_to_operand_dims),
        "input_batching_dims": list(dims.input_batching_dims),
        "scatter_indices_batching_dims": list(dims.scatter_indices_batching_dims),
        "index_vector_dim": [dims.index_vector_dim],
    }
    result = site.emit("scatter", operands, numbers=numbers, symbols={"reducer": [reducer]})
    return [promised(site, result, numbers)]


@lowers("stablehlo.dynamic_gather")
def dynamic_gather(site: Site) -> list[Value]:
    """A gather whose slice sizes are an operand."""
    return [site.emit("gather", [site.operand(0), site.operand(1)], numbers=gather_numbers(site, site.sizes(2)))]


@lowers("stablehlo.dynamic_slice")
def dynamic_slice(site: Site) -> list[Value]:
    """Starts are clamped."""
    return [site.emit("dynamic-slice", site.operands, numbers={"sizes": site.numbers("slice_sizes")})]


@lowers("stablehlo.dynamic_update_slice")
def dynamic_update_slice(site: Site) -> list[Value]:
    """Starts are clamped."""
    return [site.emit("dynamic-update-slice", site.operands)]


def function_of(site: Site, arguments: Sequence[Tensor], region: int = 0) -> Graph:
    """The scalar function in a region of a reduce, scatter or sort, as a graph."""
    return scalar_function(site, site.op.regions[region], arguments)


def scalar_function(site: Site, region: ir.Region, arguments: Sequence[Tensor]) -> Graph:
    """A region of scalars that uses nothing from outside, as a graph."""
    inner = site.scope.region(region, site.name, [(t.dtype, ()) for t in arguments])
    if inner.body.captured:
        raise InputError(f"the function of `{site.op.name}` uses values from outside of it")
    return inner.body.graph


@lowers("stablehlo.reduce")
def reduce(site: Site) -> list[Value]:
    """Known reducers start from their identity; see `reductions`."""
    operands = site.operands
    count = len(operands) // 2
    values, inits = operands[:count], operands[count:]
    graph = site.scope.body.graph
    before = len(graph.ops)
    function = function_of(site, [*inits, *inits])
    results = reductions.reduce(graph, values, inits, site.numbers("dimensions"), function, site.made, **site.about)
    site.made.update(regions.producers(graph.ops[before:]))
    return list(results)


def window(site: Site, rank: int) -> dict[str, list[int]]:
    """Window attributes of a reduce-window or select-and-scatter."""
    ones = [1] * rank
    padding = site.numbers("padding", [0] * (2 * rank))
    return {
        "window_size": site.numbers("window_dimensions", ones),
        "window_stride": site.numbers("window_strides", ones),
        "window_pad_low": padding[::2],
        "window_pad_high": padding[1::2],
        "window_dilation": site.numbers("window_dilations", ones),
        "base_dilation": site.numbers("base_dilations", ones),
    }


@lowers("stablehlo.reduce_window")
def reduce_window(site: Site) -> list[Value]:
    """A window over everything before (or after) a position is a running reduction."""
    if len(site.values) != 2:
        return unknown(site)
    x, init = site.operands
    return windowed(site, x, init, function_of(site, [init, init]), window(site, len(x.shape)))


def windowed(site: Site, x: Tensor, init: Tensor, function: Graph, numbers: dict[str, list[int]]) -> list[Value]:
    """A reduction over windows with these attributes."""
    found = reductions.windowed(x, init, regions.reducer(function), numbers, site.made)
    if found is None:
        return unknown(site)
    kind, numbers, symbols = found
    return [site.emit(kind, [x], numbers=numbers, symbols=symbols)]


@lowers("stablehlo.select_and_scatter")
def select_and_scatter(site: Site) -> list[Value]:
    """The backward of a pooling: select by max or min, scatter by sum."""
    x, source, init = site.operands
    select = regions.selector(function_of(site, [x, x], 0))
    reducer = regions.reducer(function_of(site, [init, init], 1))
    if select is None or reducer in (None, "replace") or not reductions.is_identity(init, str(reducer), site.made):
        return unknown(site)
    numbers = window(site, len(x.shape))
    symbols = {"select": [select], "reducer": [str(reducer)]}
    return [site.emit("select-and-scatter", [x, source], numbers=numbers, symbols=symbols)]


@lowers("stablehlo.sort")
def sort(site: Site) -> list[Value]:
    """By the first operand, ascending or descending; other comparators stay regions."""
    operands = site.operands
    function = function_of(site, [t for t in operands for _ in range(2)])
    direction = regions.comparator(function)
    if direction and not regions.orders_nan(function, direction):
        reductions.sorts_numbers(site.scope.body.graph, operands[0])
    numbers = {"dimension": [site.number("dimension", len(operands[0].shape) - 1)]}
    if site.number("is_stable", 0):
        numbers["stable"] = [1]
    op = site.add(
        "sort",
        operands,
        [(t.dtype, t.shape) for t in operands],
        numbers=numbers,
        symbols={"direction": [direction or "region"]},
        regions=[] if direction else [function],
    )
    return list(op.results)


@lowers("chlo.top_k")
def top_k(site: Site) -> list[Value]:
    """The k largest along the last dim."""
    types = [type_ for type_ in site.types if type_ is not None]
    return list(site.add("top-k", site.operands, types, numbers={"k": [site.number("k")]}).results)


@lowers("stablehlo.rng")
def rng(site: Site) -> list[Value]:
    """Random values between (or with mean and deviation of) two scalars."""
    low, high, _shape = site.operands
    distribution = site.text("rng_distribution").rstrip(">").split()[-1].lower()
    return [site.emit(f"rng-{distribution}", [low, high])]


@lowers("stablehlo.rng_bit_generator")
def rng_bit_generator(site: Site) -> list[Value]:
    """New state and random bits."""
    types = [type_ for type_ in site.types if type_ is not None]
    algorithm = "rng_" + site.text("rng_algorithm").rstrip(">").split()[-1].lower()  # as HLO text spells it
    return list(site.add("rng-bit-generator", site.operands, types, symbols={"algorithm": [algorithm]}).results)
