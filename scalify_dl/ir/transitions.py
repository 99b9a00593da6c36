"""SPMD transitions along one axis of the mesh: what ranks do to a value whose type changes, and what its type was.

    y = transition(program, "convert", x, "tp", "I", "R")       # nothing moves; the gradient will be summed over tp
    z = transition(program, "all_gather", y, "tp", "S0", "R")   # blocks of dim 0

Types: `R` and `I` the same on all ranks (gradient: a part on each, or the whole), `P` a part of a sum, `V` its own on
every rank, `S0`, `S1`, … blocks of a dim. Which there are, and what their backward is, say `datalog/lift/types`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from scalify_dl.errors import InputError

from .callers import BUILDERS
from .graph import Op, Tensor
from .programs import Program

BUILDERS.add(os.path.abspath(__file__))


@dataclass(frozen=True)
class Transition:
    """What a value became: from `x` of one type to `y` of another along an axis, by these ops."""

    verb: str
    axis: str
    src: str
    dst: str
    x: Tensor
    y: Tensor
    ops: tuple[Op, ...]


def transition(p: Program, verb: str, x: Tensor, axis: str, src: str, dst: str) -> Tensor:
    """Does it, and keeps in the program's graph what was said of types."""
    first = len(p.graph.ops)
    y = _done(p, verb, x, axis, src, dst)
    if y is x:  # a value has one type
        y = p.op("reshape", x, shape=x.shape, name=verb).result
    p.graph.transitions.append(Transition(verb, axis, src, dst, x, y, tuple(p.graph.ops[first:])))
    return y


def _done(p: Program, verb: str, x: Tensor, axis: str, src: str, dst: str) -> Tensor:
    alike = ("R", "I")
    match verb, src[:1], dst[:1]:
        case ("reinterpret", "R", "V" | "P") | ("reinterpret", "V", "P") | ("reinterpret", "I", "V" | "P"):
            return x
        case ("convert" | "reinterpret", "R", "I") | ("convert" | "reinterpret", "I", "R"):
            return x
        case "convert", "R" | "I", "S":
            return own_block(p, x, _dim(dst, x), axis)
        case "convert", "R" | "I", "V":
            mine = own_block(p, x, 0, axis)
            return p.reshape(mine, mine.shape[1:]) if mine.shape[0] == 1 else _wrong(x, verb, src, dst)
        case "convert", "R" | "I", "P":
            return p.select(_is_mine(p, x, axis, None), x, p.full(0.0, x.shape, x.dtype))
        case "convert", "S", "P":
            return _among_zeros(p, x, _dim(src, x), axis)
        case "convert", "V", "P":
            return _among_zeros(p, p.reshape(x, (1, *x.shape)), 0, axis)
        case "all_reduce", "P" | "V", _ if dst in alike:
            return p.all_reduce(x, axis)
        case "all_gather", "S", _ if dst in alike:
            return p.all_gather(x, axis, _dim(src, x))
        case "all_gather", "V", _ if dst in alike:
            return p.all_gather(p.reshape(x, (1, *x.shape)), axis, 0)
        case "reduce_scatter", "P" | "V", "S":
            return p.reduce_scatter(x, axis, _dim(dst, x))
        case "reduce_scatter", "P" | "V", "V":
            mine = p.reduce_scatter(x, axis, 0)
            return p.reshape(mine, mine.shape[1:]) if mine.shape[0] == 1 else _wrong(x, verb, src, dst)
        case "all_to_all", "S", "S":
            return p.all_to_all(x, axis, _dim(dst, x), _dim(src, x))
        case "all_to_all", "V", "V":
            return p.all_to_all(x, axis, 0, 0)
    return _wrong(x, verb, src, dst)


def _wrong(x: Tensor, verb: str, src: str, dst: str) -> Tensor:
    raise InputError(f"no `{verb}` of {x.type} from {src} to {dst}")


def _dim(word: str, x: Tensor) -> int:
    if not word[1:].isdigit() or int(word[1:]) >= len(x.shape):
        raise InputError(f"`{word}` is no block of a dim of {x.type}")
    return int(word[1:])


def coordinate(p: Program, axis: str) -> Mapping[int, int]:
    """Rank → its place on an axis."""
    at = [name for name, _ in p.mesh.axes].index(axis)
    return {rank: place[at] for rank, place in enumerate(p.mesh.coordinates)}


def own_block(p: Program, x: Tensor, dim: int, axis: str) -> Tensor:
    """The rank's own block of a dim."""
    ways = p.mesh.axis_size(axis)
    if x.shape[dim] % ways:
        raise InputError(f"dim {dim} of {x.type} does not divide by {axis}={ways}")
    block = x.shape[dim] // ways
    starts = {rank: at * block for rank, at in coordinate(p, axis).items()}
    return p.slice(x, dim, starts, {rank: start + block for rank, start in starts.items()})


def _is_mine(p: Program, like: Tensor, axis: str, dim: int | None) -> Tensor:
    """Where the index along a dim is the rank's place on an axis; without a dim: on the first rank of it."""
    here = p.broadcast(p.rank_constant(coordinate(p, axis)), like.shape, ())
    there = p.iota(like.shape, dim) if dim is not None else p.full(0, like.shape, "s32")
    return p.compare(here, there, direction="EQ")


def _among_zeros(p: Program, x: Tensor, dim: int, axis: str) -> Tensor:
    """The rank's block of a dim at its place, zeros where those of others are."""
    ways = p.mesh.axis_size(axis)
    wide = (*x.shape[:dim], ways, *x.shape[dim:])
    copies = p.broadcast(x, wide, [d for d in range(len(wide)) if d != dim])
    mine = p.select(_is_mine(p, copies, axis, dim), copies, p.full(0.0, wide, x.dtype))
    return p.reshape(mine, (*x.shape[:dim], ways * x.shape[dim], *x.shape[dim + 1 :]))
