"""A parsed module → the graph of its public function, with names, shardings and shapes of inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph
from scalify_dl.ir.mesh import Mesh

from ..prune import prune
from ..sdy import DeviceMesh
from ..sizes import Formula, Resolve, given_none
from . import collectives, control, dynamic, elementwise, libraries, manual, structural  # noqa: F401  (they register handlers)
from .open_sizes import argument_path, open_sizes
from .parse import parse
from .scope import Body, Module, Scope, Shards, Value

if TYPE_CHECKING:
    from jaxlib.mlir import ir

RANK_OPS = frozenset(
    {
        "stablehlo.all_gather",
        "stablehlo.all_reduce",
        "stablehlo.all_to_all",
        "stablehlo.collective_broadcast",
        "stablehlo.collective_permute",
        "stablehlo.partition_id",
        "stablehlo.reduce_scatter",
        "stablehlo.replica_id",
    }
)
"""Ops that only make sense where several ranks run the program."""


def read_baseline(data: bytes, file: str | None = None, resolve: Resolve = given_none) -> Graph:
    """The whole program that a module describes, shardings left aside; `resolve` gives sizes that it leaves open.

    Raises InputError where the module is malformed, or speaks of several ranks (shard_map, collectives).
    """
    with _readable(file):
        return _read_baseline(data, file, resolve)


def _read_baseline(data: bytes, file: str | None, resolve: Resolve) -> Graph:
    module, main, manual_mesh = _open(data, file)
    module.replicas = module.partitions = 1
    if manual_mesh is not None and manual_mesh.size > 1:
        raise InputError(
            f"the baseline is a manual computation (shard_map) over {manual_mesh.size} devices", file=file, hint=SWAPPED
        )
    return _lower(module, main, resolve, distributed=False)


def read_program(data: bytes, file: str | None = None, resolve: Resolve = given_none) -> tuple[Graph, Mesh]:
    """What every rank runs, and the mesh of the module (axes as it names them; one axis `rank` where it names none).
    `resolve` gives sizes that the module leaves open.

    Inputs that enter manual computations by one sharding are the rank's shards, annotated so; outputs alike. Raises
    InputError where the module is malformed, or a global program that the partitioner has still to split.
    """
    with _readable(file):
        return _read_program(data, file, resolve)


def _read_program(data: bytes, file: str | None, resolve: Resolve) -> tuple[Graph, Mesh]:
    module, main, manual_mesh = _open(data, file)
    per_rank = any(op.name in RANK_OPS for op in _all_ops(module))
    if manual_mesh is not None:
        if module.ranks not in (1, manual_mesh.size):
            raise InputError(
                f"the module runs on {module.ranks} devices, its manual computations on {manual_mesh.size}", file=file
            )
        module.replicas, module.partitions = 1, manual_mesh.size
    elif not per_rank and (module.ranks > 1 or _has_shardings(main)):
        raise InputError(
            "the module is a global program with shardings: no rank runs it as it stands",
            file=file,
            expected="manual computations (shard_map), collectives, or the HLO text after XLA's SPMD partitioner",
            hint="compile with --xla_dump_to=DIR --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=spmd-partition.* and"
            " give the file `…after_spmd-partitioning…`; this module can be the baseline",
        )
    graph = _lower(module, main, resolve, distributed=True)
    return graph, _mesh(module, manual_mesh)


@contextmanager
def _readable(file: str | None) -> Iterator[None]:
    """Text in a module that the bindings cannot hand over (strings that are no UTF-8) is bad input."""
    try:
        yield
    except (RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"the module cannot be read: {error}", file=file) from None


SWAPPED = "the baseline is the program of one device: are the two files swapped?"


def _open(data: bytes, file: str | None) -> tuple[Module, ir.Operation, DeviceMesh | None]:
    """The module, its public function, and the mesh of its manual computations."""
    parsed = parse(data, file)
    from jaxlib.mlir import ir

    functions: dict[str, ir.Operation] = {}
    meshes: dict[str, DeviceMesh] = {}
    for view in parsed.body.operations:
        op = view.operation
        name = op.attributes["sym_name"].value if "sym_name" in op.attributes else ""
        if op.name == "func.func":
            functions[name] = op
        elif op.name == "sdy.mesh":
            meshes[name] = DeviceMesh.parse(str(op.attributes["mesh"]))
    attributes = parsed.operation.attributes
    replicas, partitions = (
        attributes[key].value if key in attributes else 1 for key in ("mhlo.num_replicas", "mhlo.num_partitions")
    )
    module = Module(file, functions, meshes, replicas, partitions, ir.AsmState(parsed.operation), parsed)
    manual_mesh = None
    for op in _all_ops(module):
        if op.name == "sdy.manual_computation":
            entering, leaving = manual.shardings(op, module)
            for sharding in entering + leaving:
                if manual_mesh is not None and sharding.mesh.size not in (1, manual_mesh.size):
                    raise InputError("manual computations over meshes of different sizes", file=file)
                if manual_mesh is None or manual_mesh.size == 1:
                    manual_mesh = sharding.mesh
    return module, _main(functions, file), manual_mesh


def _main(functions: dict[str, ir.Operation], file: str | None) -> ir.Operation:
    """The public function: `main`, or the only one."""
    public = [
        op
        for op in functions.values()
        if "sym_visibility" not in op.attributes or op.attributes["sym_visibility"].value == "public"
    ]
    main = functions.get("main") or (public[0] if len(public) == 1 else None)
    if main is None or not len(main.regions[0].blocks):
        raise InputError(
            f"the module has {len(public)} public functions", file=file, expected="one function, or one named @main"
        )
    return main


def _all_ops(module: Module) -> list[ir.Operation]:
    """Every op of every function, regions included."""
    found: list[ir.Operation] = []
    todo = list(module.functions.values())
    while todo:
        op = todo.pop()
        for region in op.regions:
            for block in region.blocks:
                inner = [view.operation for view in block.operations]
                found += inner
                todo += [op for op in inner if len(op.regions)]
    return found


def _has_shardings(main: ir.Operation) -> bool:
    text = str(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else ""
    return "sdy.sharding" in text or "mhlo.sharding" in text


def _lower(module: Module, main: ir.Operation, resolve: Resolve, *, distributed: bool) -> Graph:
    """The graph of the public function."""
    graph = Graph(str(main.attributes["sym_name"].value), module.file, for_all=distributed)
    scope = Scope(module, Body(graph))
    block = main.regions[0].blocks[0]
    sizes = open_sizes(module, main, scope, distributed=distributed)
    values = resolve(sizes) if sizes.symbols else {}
    module.sized = bool(values)
    shapes = (tuple(d.at(values) if isinstance(d, Formula) else d for d in port.dims) for port in sizes.inputs)
    arguments: list[Value] = []
    for ssa in block.arguments:
        type_ = module.types(ssa.type)
        if type_ is not None:
            type_ = type_[0], next(shapes)
        if type_ is None:
            graph.ignored_inputs += 1
            arguments.append(None)
            continue
        path = argument_path(ssa, scope)
        name = path or ssa.get_name(module.names)
        sharding = manual.entering_sharding(ssa, scope) if distributed else None
        if sharding is None:
            arguments.append(graph.input(name, *type_, path=path))
        else:
            local = graph.input(name, type_[0], sharding.local_shape(type_[1]), path=path, placement=sharding)
            arguments.append(Shards(local, sharding, type_[1]))
        graph.inputs[-1].argument = True
    results = scope.run(block, arguments)
    for value, path in zip(results, _result_paths(main, len(results)), strict=True):
        if value is None:
            graph.ignored_outputs += 1
        elif isinstance(value, Shards):
            graph.output(value.local, path=path, placement=value.sharding)
        else:
            graph.output(scope.tensor(value), path=path)
    graph.leave_out(module.effects)
    if module.sized:
        prune(graph)  # what sizes were computed from
    return graph


def _result_paths(main: ir.Operation, count: int) -> list[str | None]:
    """Names that JAX gives to results (`result[0]['w']`)."""
    if "res_attrs" not in main.attributes:
        return [None] * count
    return [
        attributes["jax.result_info"].value if "jax.result_info" in attributes else None
        for attributes in main.attributes["res_attrs"]
    ]


def _mesh(module: Module, manual_mesh: DeviceMesh | None) -> Mesh:
    """The axes of the module's mesh where ranks are its positions in order, else one axis of all ranks."""
    mesh = manual_mesh or next((mesh for mesh in module.meshes.values() if mesh.size == module.ranks), None)
    if mesh is not None and mesh.axes and mesh.devices == tuple(range(mesh.size)) and mesh.size == module.ranks:
        return Mesh(mesh.axes)
    return Mesh((("rank", module.ranks),))
