"""Correspondences of inputs: relations file, annotations and shapes → `shard` rows.

Order of trust: given in the relations file, annotated by the dump, inferred from name and shape, from shape alone.
What fits no way stays unrelated, with a note, where another explanation is possible (a fused weight, an ambiguous
mesh); it is bad input where none is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from textwrap import indent

from scalify_dl.errors import InputError
from scalify_dl.facts.names import BY_VALUES
from scalify_dl.ir.graph import Graph, Port, Tensor
from scalify_dl.ir.layout import Layout, Window, piece_text
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible, Misplaced, Placement, inferred
from scalify_dl.readers.relations import ConcatRelation, Dims, InputRelation, Relations

from .crossing import in_another_order
from .pairing import Finder, by_order_alone, find_one, pair_rest
from .patterns import each_concat, filled
from .suggest import fitting


@dataclass(frozen=True)
class Shard:
    """One row of `shard`: a piece of a distributed tensor holds a piece of a baseline tensor in a layout."""

    dist: Tensor
    base: Tensor
    layout: Layout
    why: str
    dist_piece: tuple[Window, ...] = ()
    base_piece: tuple[Window, ...] = ()

    @property
    def row(self) -> tuple[str, str, str]:
        """Piece texts and layout text."""
        return piece_text(self.dist_piece), piece_text(self.base_piece), str(self.layout)


@dataclass
class Correspondence:
    """What was found for the inputs of one distributed program.

    `pairs` maps distributed to baseline positions; `unrelated` are distributed positions without a correspondence;
    `notes` say, per distributed tensor, what was guessed and why something is unrelated; `loud` what the verdict begins
    with.
    """

    shards: list[Shard] = field(default_factory=list)
    notes: list[tuple[Tensor, str]] = field(default_factory=list)
    assumptions: list[tuple[Tensor, str, str]] = field(default_factory=list)
    pairs: dict[int, int] = field(default_factory=dict)
    unrelated: list[int] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    loud: list[str] = field(default_factory=list)

    def sure(self, dist: Graph) -> dict[int, tuple[int, bool]]:
        """The pairs, and whether each is no guess."""
        guessed = {tensor for tensor, _, why in self.assumptions if why == "position"}
        return {d: (b, dist.inputs[d].tensor not in guessed) for d, b in self.pairs.items()}


def correspond(base: Graph, dist: Graph, mesh: Mesh, relations: Relations) -> Correspondence:
    """Correspondences of the inputs of `dist`; InputError where a relation or an annotation does not fit."""
    found = Correspondence()
    given: dict[int, InputRelation] = {}
    partner: dict[int, int] = {}
    ports = Finder(dist.inputs)
    for relation in relations.inputs:
        positions = ports.find(relation.key)
        if positions:
            found.used.add(relation.key)
        for position in positions:
            if position in given:
                raise relation.place.twice(f"inputs: `{_name(dist.inputs[position])}` is placed", given[position].place)
            given[position] = relation
            if relation.base is not None:
                called = filled(relation.base, relation.key, dist.inputs[position])
                partner[position] = find_one(base.inputs, called, relation.place, "baseline input")
    for position, at in told_by_values(base, dist).items():
        if at not in partner.values():
            partner.setdefault(position, at)
    joined = _concatenations(base, dist, mesh, relations, given, found)
    theirs = _without(base.inputs, joined[1])
    try:
        rest = pair_rest(theirs, dist.inputs, partner, joined[0], "input", dist.file or dist.name or "inputs")
    except InputError as error:
        if not joined[0] and (lines := fitting(theirs, dist.inputs, partner, mesh)):
            say = f"relations that say which; by their sizes\n{indent(lines, '    ')}"
            raise InputError(error.message, expected=say, hint=error.hint) from None
        raise
    loud = in_another_order(base, dist, mesh, rest)
    found.loud += [loud] if loud else []
    for position in by_order_alone(base.inputs, dist.inputs, rest):
        b, d = base.inputs[rest[position][0]], dist.inputs[position]
        text = f"`{_name(d)}` is the baseline's `{_name(b)}`: they are paired by their order, their names differ"
        found.assumptions.append((d.tensor, text, "position"))
    for position, at in partner.items():
        rest[position] = (at, False)
    for position in sorted(rest):
        at, by_path = rest[position]
        found.pairs[position] = at
        place(base.inputs[at], dist.inputs[position], position, by_path, mesh, given.get(position), found, dist.ranks)
    _swapped(base, dist, found)
    if not relations.outputs:
        _written(base, dist, found)
    return found


def told_by_values(base: Graph, dist: Graph) -> dict[int, int]:
    """Pairs of inputs that the values of a run tell: distributed position → baseline position."""
    paths = {port.path: n for n, port in enumerate(base.inputs) if port.path}
    found: dict[int, int] = {}
    for position, port in enumerate(dist.inputs):
        theirs = paths.get(getattr(port.placement, "of", None) or "")
        if theirs is not None and theirs not in found.values():
            found[position] = theirs
    return found


def _written(base: Graph, dist: Graph, found: Correspondence) -> None:
    """What a written input holds in the end pairs with what its counterpart holds: both get one path.

    InputError where one side writes an input whose counterpart the other does not write.
    """
    theirs = {id(port.holds): port for port in base.outputs if port.holds is not None}
    returned = {port.path for port in (*base.outputs, *dist.outputs) if port.holds is None}
    for port in dist.outputs:
        if port.holds is None or port.path in returned:  # returned by the other side, under the name of the input
            continue
        at = found.pairs.get(dist.inputs.index(port.holds))
        counterpart = theirs.pop(id(base.inputs[at]), None) if at is not None else None
        if counterpart is None:
            raise _alone(port.holds, "distributed program", "baseline", dist)
        port.path = counterpart.path
    for port in theirs.values():
        if port.holds is not None and port.path not in returned:
            raise _alone(port.holds, "baseline", "distributed program", base)


def _alone(port: Port, side: str, other: str, graph: Graph) -> InputError:
    return InputError(
        f"the {side} writes its input `{_name(port)}`, the {other} does not write what corresponds to it",
        file=graph.file,
        expected="inputs that are written (caches, parameters, buffers) are so on both sides: they are outputs",
        hint="name the outputs to check under `outputs:` of the relations file, if this is meant",
    )


def _without(ports: Sequence[Port], gone: set[int]) -> list[Port]:
    """Ports with those that need no partner made unpairable (positions stay)."""
    return list(ports) if not gone else [_GONE if n in gone else port for n, port in enumerate(ports)]


_GONE = Port(Tensor("token", ()), None)


def _concatenations(
    base: Graph,
    dist: Graph,
    mesh: Mesh,
    relations: Relations,
    given: dict[int, InputRelation],
    found: Correspondence,
) -> tuple[set[int], set[int]]:
    """`concat:` relations; returns the positions that they settle on both sides."""
    settled: dict[int, ConcatRelation] = {}
    bases: set[int] = set()
    for relation in each_concat(relations.concat, base.inputs):
        at = find_one(base.inputs, relation.base, relation.place, "baseline input")
        whole = base.inputs[at].tensor
        bases.add(at)
        offset = 0
        for key in relation.of:
            position = find_one(dist.inputs, key, relation.place, "distributed input")
            part = dist.inputs[position].tensor
            if position in settled:
                raise relation.place.twice(f"concat: `{key}` is placed", settled[position].place)
            settled[position] = relation
            if relation.dim >= len(whole.shape) or len(part.shape) != len(whole.shape):
                raise relation.place.error(f"concat: no dim {relation.dim} in both {whole.type} and {part.type}")
            _element_types(whole, part, position, found)
            entry = given.get(position)
            if entry is not None and (entry.base is not None or entry.parts is not None):
                raise entry.place.twice(
                    f"inputs: `{key}` is placed", relation.place, hint="beside `concat:`, give `dims:` only"
                )
            stated = Placement(entry.dims) if entry and isinstance(entry.dims, Mapping) else None
            length = part.shape[relation.dim] * _ways(stated, relation.dim, part, mesh)
            window = Window(relation.dim, offset, offset + length)
            shape = list(whole.shape)
            shape[relation.dim] = length
            placement = stated or inferred(shape, part.shape, mesh)
            if placement is None:
                raise relation.place.error(f"concat: {part.type} is no part of {whole.type} along dim {relation.dim}")
            layout = placement.layout(shape, mesh)
            if layout.local_shape != part.shape:
                raise relation.place.error(
                    f"concat: `{key}` is {part.type}, the placement makes it {list(layout.local_shape)}"
                )
            why = "given" if stated or not placement.dims else "shape"
            found.shards.append(Shard(part, whole, layout, why, (), (window,)))
            offset += length
        if offset != whole.shape[relation.dim]:
            raise relation.place.error(
                f"concat: the parts have {offset} of {whole.shape[relation.dim]} elements of dim {relation.dim} of"
                f" `{relation.base}` {whole.type}"
            )
    return set(settled), bases


def _ways(placement: Placement | None, dim: int, part: Tensor, mesh: Mesh) -> int:
    """How many ways a placement splits a dim."""
    if placement is None:
        return 1
    ways = 1
    for axis_part in placement.dims.get(dim, ()):
        size = axis_part.size if axis_part.size is not None else mesh.axis_size(axis_part.axis) // axis_part.pre
        ways *= size
    return ways


def place(
    base: Port,
    dist: Port,
    position: int,
    by_path: bool,
    mesh: Mesh,
    relation: InputRelation | None,
    found: Correspondence,
    ranks: Sequence[int] | None = None,
) -> None:
    """The correspondence of one paired input, of a program that these ranks run (None: all)."""
    _element_types(base.tensor, dist.tensor, position, found)
    if relation is not None and (relation.dims is not None or relation.parts is not None):
        shards = _given(base.tensor, dist.tensor, relation, mesh)
        found.shards.extend(shards)
        with suppress(InputError):
            said = dist.placement.layout(base.tensor.shape, mesh) if dist.placement is not None else None
            if said is not None and [shard.layout for shard in shards] != [said]:
                text = f"it is placed by the relations file, and otherwise by the dump, as {said}"
                found.assumptions.append((dist.tensor, text, "given"))
        return
    if len(base.tensor.shape) != len(dist.tensor.shape):
        raise _misfit(base, dist, position, "they have different numbers of dims")
    if dist.placement is not None:
        try:
            layout = dist.placement.layout(base.tensor.shape, mesh)
        except Misplaced as error:
            text, same = f"{BY_VALUES}{error.message}", getattr(dist.placement, "same", None)
            if same is None or getattr(dist.placement, "global_shape", None) != base.tensor.shape:
                _leave(dist, position, text, found)
            else:  # the block that every rank has is a piece of the baseline's
                layout = Placement().layout(dist.tensor.shape, mesh)
                found.shards.append(Shard(dist.tensor, base.tensor, layout, "annotation", (), (same,)))
                found.notes.append((dist.tensor, text))
            return
        except Inexpressible as error:
            cut = getattr(dist.placement, "window", None)
            windows = {cut(rank, mesh) for rank in ranks or ()} if cut is not None else set()
            window = windows.pop() if len(windows) == 1 else None
            if window is not None:  # all ranks of the program have one block: it is a piece of the baseline's
                layout = Placement().layout(dist.tensor.shape, mesh)
                found.shards.append(Shard(dist.tensor, base.tensor, layout, "annotation", (), (window,)))
                return
            _leave(dist, position, f"its annotation cannot be said as a layout: {error.message}", found)
            return
        except InputError as error:
            raise InputError(
                f"input #{position} `{_name(dist)}`: {error.message}",
                file=error.file,
                line=error.line,
                column=error.column,
                expected=error.expected,
                hint=error.hint or "is --mesh right?",
            ) from None
        if layout.local_shape != dist.tensor.shape:
            raise _misfit(base, dist, position, f"the dump's annotation makes it {list(layout.local_shape)}")
        found.shards.append(Shard(dist.tensor, base.tensor, layout, "annotation"))
        return
    placement = inferred(base.tensor.shape, dist.tensor.shape, mesh)
    if placement is not None:
        layout = placement.layout(base.tensor.shape, mesh)
        why = "name" if by_path and not placement.dims else "shape"
        found.shards.append(Shard(dist.tensor, base.tensor, layout, why))
        for dim, parts in placement.dims.items():
            found.notes.append(
                (
                    dist.tensor,
                    f"inferred as contiguous shard of dim {dim} over {', '.join(map(str, parts))};"
                    " if it is a fused weight use `parts:`",
                )
            )
        return
    for d, (b, n) in enumerate(zip(base.tensor.shape, dist.tensor.shape, strict=True)):
        if n > b:
            raise _misfit(base, dist, position, f"dim {d} is larger than in the baseline")
        if n == 0 or b > n * mesh.size:
            raise _misfit(
                base, dist, position, f"dim {d} is more than {mesh.size} (the ranks of the mesh) times smaller"
            )
    _leave(
        dist,
        position,
        f"baseline {base.tensor.type} and {dist.tensor.type} on --mesh {mesh} fit no contiguous shard, or more than"
        " one; give `dims:` (or `parts:` for a fused weight) in the relations file",
        found,
    )


def _leave(dist: Port, position: int, text: str, found: Correspondence) -> None:
    found.unrelated.append(position)
    found.notes.append((dist.tensor, f"unrelated: {text}"))


def _given(base: Tensor, dist: Tensor, relation: InputRelation, mesh: Mesh) -> list[Shard]:
    """Rows of a relation with `dims` and perhaps `parts`."""
    place = relation.place
    parts = relation.parts
    if parts is None:
        dims = relation.dims
        assert dims is not None
        assert not isinstance(dims, tuple)
        return [Shard(dist, base, _layout(base.shape, dist, dims, relation, mesh, dist.shape), "given")]
    if parts.dim >= len(base.shape) or parts.dim < 0 or len(dist.shape) != len(base.shape):
        raise place.error(f"inputs: {relation.key}: no dim {parts.dim} in both {base.type} and {dist.type}")
    if sum(parts.sizes) != base.shape[parts.dim]:
        raise place.error(
            f"inputs: {relation.key}: parts {list(parts.sizes)} add up to {sum(parts.sizes)}, dim {parts.dim} of the"
            f" baseline {base.type} has {base.shape[parts.dim]}"
        )
    found = []
    base_at = dist_at = 0
    for n, size in enumerate(parts.sizes):
        dims = relation.dims[n] if isinstance(relation.dims, tuple) else relation.dims or {}
        shape = list(base.shape)
        shape[parts.dim] = size
        layout = _layout(shape, dist, dims, relation, mesh, None)
        local = layout.local_shape[parts.dim]
        found.append(
            Shard(
                dist,
                base,
                layout,
                "given",
                (Window(parts.dim, dist_at, dist_at + local),),
                (Window(parts.dim, base_at, base_at + size),),
            )
        )
        expected = [local if d == parts.dim else n for d, n in enumerate(dist.shape)]
        if list(layout.local_shape) != expected:
            raise _relation_misfit(base, dist, relation, layout.local_shape)
        base_at += size
        dist_at += local
    if dist_at != dist.shape[parts.dim]:
        whole = list(dist.shape)
        whole[parts.dim] = dist_at
        raise _relation_misfit(base, dist, relation, whole)
    return found


def _layout(
    shape: Sequence[int],
    dist: Tensor,
    dims: Dims,
    relation: InputRelation,
    mesh: Mesh,
    local: Sequence[int] | None,
) -> Layout:
    try:
        layout = Placement(dims).layout(shape, mesh)
    except InputError as error:
        raise relation.place.error(f"inputs: {relation.key}: {error.message}", expected=error.expected) from None
    if local is not None and layout.local_shape != tuple(local):
        raise relation.place.error(
            f"inputs: {relation.key}: the baseline's {list(shape)} placed so is {list(layout.local_shape)} on every"
            f" rank, but the distributed program has {dist.type}"
        )
    return layout


def _relation_misfit(base: Tensor, dist: Tensor, relation: InputRelation, local: Sequence[int]) -> InputError:
    return relation.place.error(
        f"inputs: {relation.key}: the baseline's {base.type} placed so is {list(local)} on every rank,"
        f" but the distributed program has {dist.type}"
    )


def _element_types(base: Tensor, dist: Tensor, position: int, found: Correspondence) -> None:
    """Element types must agree; integers of different widths are assumed to hold the same values."""
    if base.dtype == dist.dtype:
        return
    if base.dtype[0] in "su" and dist.dtype[0] in "su":
        found.assumptions.append(
            (dist, f"holds the same integers as {base.dtype} of the baseline and as {dist.dtype}", "element type")
        )
        return
    raise InputError(
        f"input #{position}: `{base.name}` is {base.type} in the baseline, `{dist.name}` is {dist.type} distributed",
        expected="the same element type on both sides",
        hint="capture both programs with the same precision; are the inputs in the same order?",
    )


def _misfit(base: Port, dist: Port, position: int, why: str) -> InputError:
    return InputError(
        f"input #{position}: baseline `{_name(base)}` {base.tensor.type} and distributed `{_name(dist)}`"
        f" {dist.tensor.type} do not correspond: {why}",
        hint="are BASE and DIST swapped? is --mesh right? otherwise give `dims:`, or `parts:` for a fused weight, in"
        " the relations file",
    )


def _name(port: Port) -> str:
    return port.path or port.tensor.name


def _swapped(base: Graph, dist: Graph, found: Correspondence) -> None:
    """A baseline whose collectives span several ranks is no baseline."""
    for op in base.ops:
        if any(len(group) > 1 for group in op.groups or ()):
            raise InputError(
                f"the baseline has `{op.name}` ({op.kind}) over several ranks",
                file=base.file,
                line=op.at[0],
                column=op.at[1],
                expected="a program of one device",
                hint="are BASE and DIST swapped?",
            )
