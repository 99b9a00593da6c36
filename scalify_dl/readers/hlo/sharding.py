"""Sharding annotations of HLO text → layouts on the mesh that the user names.

`{devices=[2,1,4]<=[8] last_tile_dim_replicate}` says for every device which tile it holds; the layout says it in digits
of the mesh coordinates of the rank. What is said otherwise (`unreduced`, `maximal device=0`, a spelling not known here)
is no layout, and never dropped: a shape alone says something else. Shardy's
`#sdy.sharding<@mesh, [{"batch"}, {"model"}]>` in frontend attributes is read the same way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Annotation
from scalify_dl.ir.layout import Digit, Entry, Layout, Repl
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible, Rearranged

from .attributes import integers, parse_attributes, unquote
from .groups import iota
from .module import Instruction, Module

_DEVICES = re.compile(
    r"devices=\[([\d,\s]*)\](?:<=\[([\d,\s]*)\](?:T\(([\d,\s]*)\))?|([\d,\s]*))"
    r"\s*(?:(last_tile_dim_replicate)|last_tile_dims=\{([^}]*)\})?"
)
_ASIDE = re.compile(
    r'metadata=\{(?>(?:[^{}"]++|"(?>(?:\\.|[^"\\])*)"|\{(?>(?:[^{}"]++|"(?>(?:\\.|[^"\\])*)")*)\})*)\}'
    r"|shard_(?:as|like) \d+"
)
"""What stands beside a placement and says nothing of it."""
_TUPLE = re.compile(r"\{((?>(?:[^{}]++|\{[^{}]*+\})*))\}")
_SDY_MESH = re.compile(r"([\w.\-]+)\s*=\s*(#sdy\.mesh<\[[^\]]*\](?:,\s*device_ids=\[[^\]]*\])?>)")


@dataclass(frozen=True)
class Sharding:
    """Tiles per base dim, and for each device (= rank) the tile that it holds; `why` it cannot be used, if so."""

    text: str
    tiles: tuple[int, ...] | None
    device_tile: tuple[int, ...] = ()
    line: int = 0

    def layout(self, base_shape: Sequence[int], mesh: Mesh) -> Layout:
        """The layout of a value of `base_shape`; InputError where sharding, shape and mesh do not fit."""
        if self.tiles is None:
            return Layout.of(
                [[Digit(d, 1, n)] for d, n in enumerate(base_shape)],
                [(axis, [Repl(size)]) for axis, size in mesh.axes],
            )
        if len(self.tiles) != len(base_shape):
            raise self.error(f"tiles {len(self.tiles)} dims, the baseline value has shape {list(base_shape)}")
        if len(self.device_tile) != mesh.size:
            raise self.error(f"places {len(self.device_tile)} devices, --mesh has {mesh.size} ranks")
        for d, (tiles, size) in enumerate(zip(self.tiles, base_shape, strict=True)):
            if size % tiles:
                raise Inexpressible(f"sharding={self.text} splits dim {d} of size {size} in {tiles} uneven tiles")
        blocks = tuple(size // tiles for size, tiles in zip(base_shape, self.tiles, strict=True))
        axes = axis_entries(self.tiles, self.device_tile, blocks, mesh)
        if axes is None:
            raise Rearranged(f"sharding={self.text} does not split over digits of the axes of --mesh {mesh}")
        return Layout.of([[Digit(d, 1, n)] for d, n in enumerate(blocks)], axes)

    def error(self, message: str) -> InputError:
        """An error about this annotation."""
        return InputError(f"sharding={self.text} {message}", line=self.line, column=1)


@dataclass(frozen=True)
class Unread:
    """An annotation that says something, but not which tile a rank holds. An `Annotation` of the graph model."""

    text: str

    def layout(self, base_shape: Sequence[int], mesh: Mesh) -> Layout:
        """Raises Rearranged."""
        raise Rearranged(f"sharding={self.text} does not say which tile of {list(base_shape)} a rank of {mesh} holds")


@lru_cache(maxsize=256)
def axis_entries(
    tiles: tuple[int, ...], device_tile: tuple[int, ...], blocks: tuple[int, ...], mesh: Mesh
) -> list[tuple[str, list[Entry]]] | None:
    """Entries per mesh axis such that the rank at coordinates c holds tile `device_tile[rank]`; None where none do.

    The tile index along each dim must be a sum over axes, each a mixed-radix number of the coordinate."""
    strides = [prod(tiles[d + 1 :]) for d in range(len(tiles))]

    def tile(rank: int) -> tuple[int, ...]:
        return tuple(device_tile[rank] // strides[d] % tiles[d] for d in range(len(tiles)))

    if device_tile[0]:
        return None
    axes: list[tuple[str, list[Entry]]] = []
    farthest = [0] * len(tiles)
    held = [0]  # tiles of ranks that differ along the axes so far, if these add up
    for position, (axis, size) in enumerate(mesh.axes):
        stride = prod(n for _, n in mesh.axes[position + 1 :])
        along = [tile(coordinate * stride) for coordinate in range(size)]
        entries = _radix(along, blocks)
        if entries is None:
            return None
        axes.append((axis, entries))
        farthest = [a + max(step) for a, step in zip(farthest, zip(*along, strict=True), strict=True)]
        steps = device_tile[: stride * size : stride]
        held = [a + b for a in held for b in steps]
    within = all(a < n for a, n in zip(farthest, tiles, strict=True))  # else a sum would be carried to the next dim
    return axes if within and tuple(held) == device_tile else None


def _radix(along: list[tuple[int, ...]], blocks: Sequence[int]) -> list[Entry] | None:
    """A function of one coordinate as digits, major to minor: each a step along one dim, or a repetition."""
    entries: list[Entry] = []
    zero = (0,) * len(blocks)
    while len(along) > 1:
        step = along[1]
        moved = [d for d, n in enumerate(step) if n]
        if len(moved) > 1 or any(n < 0 for n in step):
            return None
        count = len(along)
        size = next(
            (
                s
                for s in range(count, 1, -1)
                if count % s == 0 and all(along[c] == tuple(c * n for n in step) for c in range(s))
            ),
            0,
        )
        if not size:
            return None
        entries.insert(0, Digit(moved[0], step[moved[0]] * blocks[moved[0]], size) if moved else Repl(size))
        major = along[::size]
        if any(
            along[c] != tuple(a + b for a, b in zip(major[c // size], along[c % size], strict=True))
            for c in range(count)
        ):
            return None
        along = major
    return entries if along[0] == zero else None


def parse_shardings(i: Instruction, count: int, module: Module) -> list[Annotation | None]:
    """The annotations of an instruction's `count` arrays; None for those without one that says where the data is."""
    text = i.attributes.get("sharding")
    if text is None:
        found = _shardy(i, module)
        return [found if found is None or count == 1 else Unread(str(found))] * count
    parts = _TUPLE.findall(text[1:-1]) if text.startswith("{{") else [text[1:-1]]
    if text.startswith("{{") and len(parts) != count:
        return [Unread(text)] * count
    if len(parts) == 1:
        parts = parts * count
    try:
        return [_sharding(part, i.line) for part in parts]
    except ValueError as error:
        raise i.error(f"sharding={text}: {error}") from None


def _sharding(text: str, line: int) -> Annotation | None:
    said = _ASIDE.sub("", text).strip()
    if said in ("", "manual", "unknown"):
        return None  # says nothing about a shared placement
    if said == "replicated":
        return Sharding(f"{{{text}}}", None, (), line)
    match = _DEVICES.fullmatch(said)
    if not match:
        return Unread(f"{{{text}}}")
    dims = integers(match[1])
    if match[2] is not None:
        devices = iota(dims, integers(match[2]), integers(match[3]) if match[3] else None)
    else:
        devices = integers(match[4] or "")
    if sorted(devices) != list(range(prod(dims))):
        raise ValueError(f"{len(devices)} devices for tiles {dims}")
    kinds = ["replicated"] if match[5] else [kind.strip() for kind in (match[6] or "").split(",") if kind.strip()]
    if any(kind not in ("replicated", "manual") for kind in kinds):
        return Unread(f"{{{text}}}")
    if "manual" in kinds:
        return None
    extra = len(kinds)
    tiles = dims[: len(dims) - extra]
    replicas = prod(dims[len(dims) - extra :])
    device_tile = [0] * len(devices)
    for position, device in enumerate(devices):
        device_tile[device] = position // replicas
    return Sharding(f"{{{text}}}", tuple(tiles), tuple(device_tile), line)


def _shardy(i: Instruction, module: Module) -> Annotation | None:
    """`xla.sdy.sharding` among the frontend attributes."""
    text = i.attributes.get("frontend_attributes")
    if not text or "sdy.sharding" not in text:
        return None
    from ..sdy import DeviceMesh
    from ..sdy import Sharding as Shardy

    pairs = parse_attributes(", " + text[1:-1])
    value = unquote(pairs.get("xla.sdy.sharding", ""))
    if not value:
        return None
    if not value.startswith("#sdy.sharding<"):
        return Unread(value)
    meshes = unquote(
        parse_attributes(", " + module.header.get("frontend_attributes", "{}")[1:-1]).get("xla.sdy.meshes", "")
    )
    try:
        named = {name: DeviceMesh.parse(mesh) for name, mesh in _SDY_MESH.findall(meshes)}
        return Shardy.parse(value, named)
    except InputError as error:
        raise i.error(error.message) from None
