"""What every operator of torch writes and what its results share memory with, from torch's own schemas, as a table.

    python -m scalify_dl.capture.torch_aliases scalify_dl/readers/fx/aliases.tsv

Columns: operator, written arguments, results, functional twin, `pointwise` where torch tags it so. An argument is
`name@position`, `name` where it is keyword-only. Before a written one, `~` says that the tensor's metadata changes, not
its memory; behind it, after a `/`, stands a flag without which it is not written. A result is `-` (memory of its own),
an argument (that one's memory: a view of it, or itself), an argument with `?` (perhaps its memory), or `?` (perhaps
that of any argument). The twin computes what is written instead of writing it.

Torch's annotations are exact but for what stands below: operators that are composed of others (they may hand back an
argument without saying so) and a few old ones.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

__all__ = ["table"]

SPACES = frozenset(
    "aten prims c10d _c10d_functional _c10d_functional_autograd symm_mem _dtensor profiler inductor rngprims".split()  # noqa: SIM905
)
MODULES = (
    "torch._prims", "torch._prims.rng_prims", "torch.distributed._functional_collectives",
    "torch.distributed._symmetric_memory", "torch.distributed.tensor", "torch._inductor.inductor_prims",
)  # fmt: skip
"""Modules that register operators of these namespaces."""

VIEWS = frozenset(
    """adjoint atleast_1d atleast_2d atleast_3d broadcast_to chunk diagonal dsplit expand_as hsplit imag mH mT
    matrix_H movedim moveaxis narrow numpy_T positive real split swapaxes swapdims tensor_split unflatten unbind view_as
    vsplit""".split()  # noqa: SIM905
)
"""Annotated operators composed of others that give a view whatever the strides; the rest may copy."""

HIDDEN = {
    "aten._unsafe_view": "self", "aten.lift": "self", "aten.unsafe_split": "self",
    "aten.unsafe_split_with_sizes": "self", "aten.unsafe_chunk": "self", "_c10d_functional.wait_tensor": "tensor",
    "_c10d_functional._wrap_tensor_autograd": "input", "_c10d_functional_autograd.wait_tensor": "tensor",
}  # fmt: skip
"""Operators that hand on an argument's memory without an annotation."""

WRITERS = {
    "c10d.allreduce_": "tensors", "c10d.allreduce_coalesced_": "tensors", "c10d.broadcast_": "tensors",
    "c10d.reduce_": "tensors", "c10d.recv_": "tensors", "c10d.recv_any_source_": "tensors",
    "c10d.allgather_": "output_tensors", "c10d._allgather_base_": "output_tensor",
    "c10d.allgather_coalesced_": "output_lists", "c10d.allgather_into_tensor_coalesced_": "outputs",
    "c10d.reduce_scatter_": "output_tensors", "c10d._reduce_scatter_base_": "output_tensor",
    "c10d.reduce_scatter_tensor_coalesced_": "outputs", "c10d.gather_": "output_tensors",
    "c10d.scatter_": "output_tensors", "c10d.alltoall_": "output_tensors", "c10d.alltoall_base_": "output",
    "_c10d_functional.irecv": "tensor", "_c10d_functional.batch_p2p_ops": "tensors",
}  # fmt: skip
"""Collectives, whose schemas carry no annotations: the argument that each writes."""

SILENT = frozenset({"c10d.send", "c10d.barrier", "c10d.monitored_barrier_", "c10d.check_for_nan"})
"""Operators of c10d that write nothing."""

FLAGS = ("training", "use_input_stats")
STATISTICS = ("running_mean", "running_var")
PURE_STATISTICS = re.compile(r"_functional$|_no_training$|_no_update$|_backward$|_backward_\w+$")
"""Normalisations write their running statistics, annotated or not; those named so do not."""

POINTWISE = frozenset({"aten.copy_", "prims.copy_to"})
"""Pointwise operators that torch does not tag."""

METADATA = frozenset({"aten.set_data"})
"""Operators that change what a tensor is a view of, beside those that torch tags `inplace_view`."""


def table() -> str:
    """The table of the installed torch, rows sorted by operator."""
    for module in MODULES:
        importlib.import_module(module)
    known = set(torch._C._dispatch_get_all_op_names())
    schemas = {_name(schema): schema for schema in torch._C._jit_get_all_schemas() if _key(schema) in known}
    packets: dict[str, list[str]] = {}
    for name in sorted(schemas):
        packets.setdefault(_packet(name), []).append(name)
    rows = [_row(name, schemas, packets) for name in sorted(schemas) if name.partition(".")[0] in SPACES]
    return "".join(f"{row}\n" for row in rows)


def _key(schema: Any) -> str:
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _name(schema: Any) -> str:
    return f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"


def _packet(name: str) -> str:
    return name.rpartition(".")[0]


def _row(name: str, schemas: dict[str, Any], packets: dict[str, list[str]]) -> str:
    schema, packet = schemas[name], _packet(name)
    written = _written(packet, schema)
    metadata = _changes_metadata(name)
    columns = [
        name,
        ",".join(("~" if metadata else "") + _place(schema, n) + _flag(schema, n) for n in written),
        ",".join(_results(name, schema, written)),
        twin := _twin(name, schemas, packets, written) if written else "",
        "pointwise" if written and _pointwise(name, twin) else "",
    ]
    return "\t".join(columns).rstrip("\t")


def _place(schema: Any, n: int) -> str:
    argument = schema.arguments[n]
    return str(argument.name) if argument.kwarg_only else f"{argument.name}@{n}"


def _flag(schema: Any, n: int) -> str:
    """The flag without which running statistics are not written."""
    flags = [m for m, argument in enumerate(schema.arguments) if argument.name in FLAGS]
    return f"/{_place(schema, flags[0])}" if schema.arguments[n].name in STATISTICS and flags else ""


def _written(packet: str, schema: Any) -> list[int]:
    """The arguments that are written: every tensor, where the name says so and no annotation which."""
    found = [n for n, argument in enumerate(schema.arguments) if _writes(packet, argument)]
    if found or not packet.endswith("_") or packet.endswith("__") or packet in SILENT:
        return found
    return [n for n, argument in enumerate(schema.arguments) if "Tensor" in str(argument.type)]


def _writes(packet: str, argument: Any) -> bool:
    space, _, plain = packet.partition(".")
    if argument.alias_info is not None and argument.alias_info.is_write:
        return True
    if "Tensor" not in str(argument.type):
        return False
    if space == "symm_mem":  # memory that other ranks write
        return True
    if argument.name in STATISTICS and space == "aten":
        return not PURE_STATISTICS.search(plain)
    if space == "c10d" and packet not in SILENT and packet not in WRITERS:
        return True
    return bool(WRITERS.get(packet) == argument.name)


def _changes_metadata(name: str) -> bool:
    return _packet(name) in METADATA or torch.Tag.inplace_view in _tags(name)


def _pointwise(name: str, twin: str) -> bool:
    tags = [*_tags(name), *(_tags(twin) if twin else ())]
    return torch.Tag.pointwise in tags or _packet(name) in POINTWISE


def _tags(name: str) -> list[Any]:
    space, plain, overload = name.split(".", 2)
    return list(getattr(getattr(getattr(torch.ops, space), plain), overload).tags)


def _results(name: str, schema: Any, written: list[int]) -> list[str]:
    """What each result shares memory with; nothing where none does."""
    packet = _packet(name)
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(_key(schema), "CompositeImplicitAutograd")
    found = [_result(packet, schema, result, written, composed) for result in schema.returns]
    return found if any(each != "-" for each in found) else []


def _result(packet: str, schema: Any, result: Any, written: list[int], composed: bool) -> str:
    if "Tensor" not in str(result.type):
        return "-"
    if packet in HIDDEN and not written:
        return next(_place(schema, n) for n, a in enumerate(schema.arguments) if a.name == HIDDEN[packet])
    if packet in WRITERS or packet.startswith("symm_mem."):
        return _place(schema, written[0]) if packet in WRITERS else "?"
    if result.alias_info is not None:
        shared = result.alias_info.before_set
        for n, argument in enumerate(schema.arguments):
            info = argument.alias_info
            if info is not None and (info.before_set & shared or (not shared and not info.is_write)):
                sure = info.is_write or not composed or packet.partition(".")[2] in VIEWS
                return _place(schema, n) + ("" if sure else "?")
        return "?"
    return "?" if composed else "-"


def _twin(name: str, schemas: dict[str, Any], packets: dict[str, list[str]], written: list[int]) -> str:
    """The operator of the same arguments that gives what this one writes: `add.Tensor` of `add_.Tensor`, `add.out`."""
    schema, packet = schemas[name], _packet(name)
    space, _, plain = packet.partition(".")
    arguments = _signature(schema, ())
    if match := re.fullmatch(r"__i(\w+)__", plain):
        same: Iterable[str] = packets.get(f"{space}.__{match[1]}__", ())
    else:
        same = packets.get(packet[:-1], ()) if plain.endswith("_") else ()
    for other in same:
        if _signature(schemas[other], ()) == arguments:
            return str(other)
    rest = _signature(schema, written)
    for other in (*packets[packet], *packets.get(packet.removesuffix("_out"), ())):
        functional = schemas[other]
        fits = _signature(functional, ()) == rest and _outs(functional, written)
        if other != name and fits and not _written(_packet(other), functional):
            return str(other)
    return ""


def _outs(functional: Any, written: list[int]) -> bool:
    kinds = [str(result.type) for result in functional.returns]
    return len(kinds) == len(written) or (len(kinds) == 1 and "List" in kinds[0])


def _signature(schema: Any, without: Iterable[int]) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for n, a in enumerate(schema.arguments) if n not in without]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(table(), "utf-8")
