"""Lowering of HLO opcodes that only move values about: tuples, calls, fusions, copies, loops, branches, async pairs."""

from __future__ import annotations

import re
from dataclasses import replace

from scalify_dl.ir.graph import Tensor
from scalify_dl.ir.literals import LIMIT, Literal

from .. import regions
from ..walked import turns
from .attributes import integers
from .lower import OPCODES, Lowerer, Lowering, opcode, unknown
from .module import Instruction, Written
from .types import ArrayType, flatten, type_text
from .values import agree, array, opened, shaped, tensors

_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d+)')


@opcode("tuple")
def tuple_(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A tuple of its operands."""
    return list(operands)


@opcode("get-tuple-element")
def get_tuple_element(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """One element of a tuple."""
    index = integers(i.attributes.get("index", ""))
    if len(operands) != 1 or not isinstance(operands[0], list):
        raise i.error("takes one tuple")
    if len(index) != 1 or not 0 <= index[0] < len(operands[0]):
        raise i.error(f"index={i.attributes.get('index')} of a tuple with {len(operands[0])} elements")
    return operands[0][index[0]]


@opcode("copy", "optimization-barrier", "opt-barrier", "domain", "add-dependency", "copy-start", "send-done")
def same(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The operand itself."""
    if i.opcode == "send-done":
        return None
    if not operands:
        raise i.error("has no operands")
    if i.opcode == "copy-start":
        lo.asynchronous[i.name] = operands[0]
    return operands[0]


@opcode("after-all", "create-token")
def token(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Tokens carry no data."""
    return None


@opcode("call", "fusion", "async-start")
def call(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The called computation, inlined."""
    name = i.attributes.get("to_apply") or i.attributes.get("calls")
    i.attributes.get("is_composite")  # the name of what is called, and its version: said of the same computation
    value = lo.inline(name, i, operands)
    if i.opcode == "async-start":
        begun(lo, i, operands, value)
    return value


def begun(lo: Lowering, i: Instruction, operands: list[object], value: object) -> None:
    """Enters what a start makes, whose type is `((operands), result, contexts…)`."""
    type_ = i.type
    if isinstance(type_, ArrayType) or len(type_) < 2:
        raise i.error(f"has type {i.type_text}", expected="((operands), result, …)")
    agree(i, type_[0], operands)
    agree(i, type_[1], value)
    lo.asynchronous[i.name] = value


def started(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """`X-start` of any opcode X: the result stands second in its type, `((operands), result, contexts…)`."""
    type_ = i.type
    if isinstance(type_, ArrayType) or len(type_) < 2:
        raise i.error(f"has type {i.type_text}", expected="((operands), result, …)")
    agree(i, type_[0], operands)
    opcode_ = i.opcode.removesuffix("-start")
    written = Written(type_text(type_[1]), opcode_, i.attribute_text)
    plain = replace(i, opcode=opcode_, written=written, _attributes=i.attributes)
    value = OPCODES[plain.opcode](lo, plain, operands)
    lo.asynchronous[i.name] = value
    return value


@opcode("async-update", "async-done", "copy-done", "all-reduce-done", "all-gather-done", "collective-permute-done")
def done(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """The result of the matching start."""
    start = i.operands[0] if i.operands else ""
    if start not in lo.asynchronous:
        if start in lo.here and lo.here[start].opcode.endswith(("-start", "-update")):
            return unknown(lo, i, operands)  # so is what was started
        raise i.error(f"`{start}` is no asynchronous start")
    value = lo.asynchronous[start]
    if i.opcode.endswith("-update"):
        types = [[t[:2] for t in flatten(each.type)] for each in (i, lo.here[start])]
        if types[0] != types[1]:
            raise i.error(f"has type {i.type_text}", expected=f"that of `{start}`, {lo.here[start].type_text}")
        lo.asynchronous[i.name] = value
    else:
        agree(i, i.type, value)
    return value


@opcode("get-dimension-size")
def get_dimension_size(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """A constant: shapes are static."""
    (x,) = tensors(i, operands, 1)
    dimension = integers(i.attributes.get("dimensions", ""))
    if len(dimension) != 1 or not 0 <= dimension[0] < len(x.shape):
        raise i.error(f"dimensions={i.attributes.get('dimensions')} of {x.type}")
    op = lo.emit(i, "constant", [])
    op.result.literal = Literal.scalar(x.shape[dimension[0]], array(i).dtype)
    return op.result


@opcode("while")
def while_(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Carried values opened; condition and body are graphs of their own."""
    carried = [tensor for operand in operands for tensor in opened(operand) if tensor is not None]
    condition = lo.region(i.attributes.get("condition"), i)
    body = lo.region(i.attributes.get("body"), i)
    declared = [t.shape for t in flatten(i.type) if t.dtype not in ("token", "opaque")]
    for what, shapes in (
        ("the initial values", [t.shape for t in carried]),
        ("the condition's parameters", [port.tensor.shape for port in condition.inputs]),
        ("the body's parameters", [port.tensor.shape for port in body.inputs]),
        ("the body's results", [port.tensor.shape for port in body.outputs]),
    ):
        if shapes != declared:
            raise i.error(f"{what} have shapes {shapes}", expected=f"{declared}")
    numbers, believed = {}, False
    known = _TRIPS.search(i.attributes.get("backend_config", "").replace('\\"', '"'))
    trips = regions.trip_count(condition, body, carried, lo.producer)
    counted = turns(condition, body, carried, lo.producer, int(known[1])) if known and trips is None else trips
    if known and counted not in (None, regions.WRAPS, int(known[1])):
        raise i.error(
            f"known_trip_count says {known[1]} steps, its condition counts {counted}", hint="is the dump edited?"
        )
    if trips is None and known:
        trips, believed = int(known[1]), True
    if trips not in (None, regions.WRAPS) and trips < LIMIT:
        numbers["trip_count"] = [trips]
    types = [(t.dtype, t.shape) for t in flatten(i.type) if t.dtype not in ("token", "opaque")]
    if not types:
        return shaped([], i.type)
    op = lo.emit(i, "while", carried, types, numbers=numbers, regions=[condition, body])
    if believed:
        lo.graph.assume(
            op.results[0], f"the loop runs {trips} times, as the dump says (known_trip_count)", "annotation"
        )
    return shaped(op.results, i.type)


@opcode("conditional")
def conditional(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Branches by index; a boolean index counts false as 0."""
    index, *arguments = operands
    if not isinstance(index, Tensor):
        raise i.error("takes an index or a predicate first")
    if ("branch_computations" in i.attributes) == (index.dtype == "pred"):
        raise i.error(
            f"chooses by {index.type}", expected="branch_computations by a number, true_computation by a predicate"
        )
    if "branch_computations" in i.attributes:
        names = [part.strip() for part in i.attributes["branch_computations"].strip("{}").split(",")]
    else:
        names = [i.attributes.get("false_computation", ""), i.attributes.get("true_computation", "")]
        arguments = arguments[::-1]
    if len(names) != len(arguments):
        raise i.error(f"{len(names)} branches, {len(arguments)} branch operands")
    if index.dtype == "pred":
        index = lo.emit(i, "convert", [index], [("s32", ())], suffix=".index").result
    flat = [[t for t in opened(argument) if t is not None] for argument in arguments]
    types = [(t.dtype, t.shape) for t in flatten(i.type) if t.dtype not in ("token", "opaque")]
    op = lo.emit(
        i,
        "conditional",
        [index, *(t for part in flat for t in part)],
        types,
        numbers={"branch_operand_count": [len(part) for part in flat]},
        regions=[lo.region(name, i) for name in names],
    )
    return shaped(op.results, i.type)


@opcode("partition-id", "replica-id")
def device(lo: Lowering, i: Instruction, operands: list[object]) -> object:
    """Which device this is. Ranks are `replica * partitions + partition`."""
    many = lo.partitions if i.opcode == "partition-id" else lo.replicas
    if lo.is_base and many > 1:
        raise i.error(f"the baseline asks which of {many} devices it is", expected="a program of one device")
    if many == lo.ranks > 1:
        return lo.emit(i, i.opcode, []).result
    op = lo.emit(i, "constant", [])
    if many == 1:
        op.result.literal = Literal.scalar(0)
        return op.result
    for rank in range(lo.ranks):
        value = rank % lo.partitions if i.opcode == "partition-id" else rank // lo.partitions
        op.rank_numbers.setdefault(("value", 0), {})[rank] = value
    return op.result


def asynchronous(name: str) -> Lowerer | None:
    """The lowering of `X-start`, `X-update` and `X-done`, as asynchronous forms of a known opcode X are printed."""
    opcode_, _, part = name.rpartition("-")
    if opcode_ not in OPCODES:
        return None
    return {"start": started, "update": done, "done": done}.get(part)
