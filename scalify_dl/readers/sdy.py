"""Shardy's meshes and shardings, from their text: `<["dp"=2, "tp"=4]>` and `<@mesh, [{"dp"}, {"tp":(1)2, ?}]>`.

StableHLO modules carry them as attributes, HLO dumps as frontend attributes; the text is the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout
from scalify_dl.ir.mesh import Mesh

from .hlo.sharding import Sharding as Tiling

_NAME = r'"((?:[^"\\]|\\.)*)"'
_MESH = re.compile(r"(?:#sdy\.mesh|mesh)?<\[(?P<axes>[^\]]*)\](?:,\s*device_ids=\[(?P<ids>[\d,\s]*)\])?>\Z")
_AXIS = re.compile(rf"{_NAME}\s*=\s*(\d+)")
_SHARDING = re.compile(
    r"(?:#sdy\.sharding)?<(?:@(?P<ref>[\w.$-]+|\"[^\"]*\")|(?P<mesh>mesh<.*?>)),\s*\[(?P<dims>[^\]]*)\](?P<rest>.*)>\Z",
    re.DOTALL,
)
_DIM = re.compile(r"\{([^{}]*)\}(?:p\d+)?")
_REFERENCE = re.compile(rf"{_NAME}(?:\s*:\s*\((\d+)\)\s*(\d+))?")


class AxisRef(NamedTuple):
    """An axis, or the part of it of `size` positions that has `pre` positions before it (major side)."""

    name: str
    pre: int
    size: int

    def __str__(self) -> str:
        return f'"{self.name}":({self.pre}){self.size}'


@dataclass(frozen=True)
class DeviceMesh:
    """Named axes (the first one major) and the device at every position (row-major); the device is the rank."""

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> DeviceMesh:
        """Reads `<["dp"=2, "tp"=4], device_ids=[…]>`; InputError on anything else."""
        match = _MESH.match(text.strip())
        if not match:
            raise InputError(f"`{text[:80]}` is no mesh", expected='<["axis"=size, …]>')
        axes = tuple((name, int(size)) for name, size in _AXIS.findall(match["axes"]))
        count = prod(size for _, size in axes)
        if count > 2**20:
            raise InputError(f"a mesh of {count} devices")
        ids = tuple(int(word) for word in match["ids"].split(",")) if match["ids"] else tuple(range(count))
        if axes and sorted(ids) != list(range(count)):
            raise InputError(f"device_ids={list(ids)} do not order the {count} devices of the mesh")
        return cls(axes, ids)

    @classmethod
    def of(cls, mesh: Mesh) -> DeviceMesh:
        """The same axes in rank order."""
        return cls(mesh.axes, tuple(range(mesh.size)))

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.devices)

    @cached_property
    def coordinates(self) -> list[dict[str, int]]:
        """Coordinates of every rank by axis."""
        names = [name for name, _ in self.axes]
        by_rank: list[dict[str, int]] = [{} for _ in self.devices]
        for rank, position in zip(self.devices, product(*(range(size) for _, size in self.axes)), strict=True):
            by_rank[rank] = dict(zip(names, position, strict=True))
        return by_rank

    def axis(self, name: str) -> AxisRef:
        """The whole axis of that name."""
        for axis, size in self.axes:
            if axis == name:
                return AxisRef(name, 1, size)
        raise InputError(f"no mesh axis `{name}`", expected=f"one of {', '.join(name for name, _ in self.axes)}")

    def coordinate(self, rank: int, refs: Sequence[AxisRef]) -> int:
        """The number of a rank among the positions of some axes, major to minor."""
        number = 0
        for ref in refs:
            minor = self.axis(ref.name).size // (ref.pre * ref.size)
            number = number * ref.size + self.coordinates[rank][ref.name] // minor % ref.size
        return number

    def groups(self, refs: Sequence[AxisRef]) -> list[list[int]]:
        """The groups of ranks that differ in the given axes only, each in the order of these axes."""
        groups: dict[tuple[int, ...], dict[int, int]] = {}
        for rank, coordinates in enumerate(self.coordinates):
            rest = []
            for name, size in self.axes:
                digit = coordinates[name]
                for ref in refs:
                    if ref.name == name:
                        minor = size // (ref.pre * ref.size)
                        digit -= coordinates[name] // minor % ref.size * minor
                rest.append(digit)
            groups.setdefault(tuple(rest), {})[self.coordinate(rank, refs)] = rank
        return [[group[i] for i in sorted(group)] for group in groups.values()]


@dataclass(frozen=True)
class Sharding:
    """Which axes split every dim, major to minor. An `Annotation` of the graph model."""

    mesh: DeviceMesh
    dims: tuple[tuple[AxisRef, ...], ...]
    unreduced: tuple[AxisRef, ...] = ()

    @classmethod
    def parse(cls, text: str, meshes: dict[str, DeviceMesh]) -> Sharding:
        """Reads `<@mesh, [{"dp"}, {?}]>`; meshes by name. InputError where it is malformed or does not fit its mesh."""
        match = _SHARDING.match(text.strip())
        if not match:
            raise InputError(f"`{text[:80]}` is no sharding", expected='<@mesh, [{"axis", …}, {}, …]>')
        if match["mesh"]:
            mesh = DeviceMesh.parse(match["mesh"])
        elif (name := match["ref"].strip('"')) in meshes:
            mesh = meshes[name]
        else:
            raise InputError(f"a sharding names the mesh `@{name}`, which the module does not define")
        dims = tuple(cls._references(inner, mesh) for inner in _DIM.findall(match["dims"]))
        unreduced = re.search(r"unreduced=\{([^}]*)\}", match["rest"])
        sharding = cls(mesh, dims, cls._references(unreduced[1], mesh) if unreduced else ())
        sharding._check_disjoint()
        return sharding

    @staticmethod
    def _references(text: str, mesh: DeviceMesh) -> tuple[AxisRef, ...]:
        references = []
        for name, pre, size in _REFERENCE.findall(text):
            whole = mesh.axis(name)
            ref = AxisRef(name, int(pre), int(size)) if pre else whole
            if not ref.pre * ref.size or whole.size % (ref.pre * ref.size):
                raise InputError(f'sub-axis "{name}":({pre}){size} does not divide an axis of size {whole.size}')
            references.append(ref)
        return tuple(references)

    def _check_disjoint(self) -> None:
        used: dict[str, list[range]] = {}
        for ref in (*(ref for dim in self.dims for ref in dim), *self.unreduced):
            span = range(ref.pre, ref.pre * ref.size)
            for other in used.setdefault(ref.name, []):
                if span.start < other.stop and other.start < span.stop:
                    raise InputError(f'a sharding uses the axis "{ref.name}" twice')
            used[ref.name].append(span)

    def restricted(self, names: set[str]) -> Sharding:
        """The sharding over some axes only (manual ones)."""
        return Sharding(self.mesh, tuple(tuple(ref for ref in dim if ref.name in names) for dim in self.dims))

    @property
    def tiles(self) -> tuple[int, ...]:
        """Number of shards per dim."""
        return tuple(prod(ref.size for ref in dim) for dim in self.dims)

    def local_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a shard."""
        return tuple(n // count for n, count in zip(shape, self.tiles, strict=True))

    def layout(self, base_shape: Sequence[int], mesh: Mesh) -> Layout:
        """The layout of a value of `base_shape` that is placed so, on the mesh of the verification."""
        if len(self.dims) != len(base_shape):
            raise InputError(f"a sharding of {len(self.dims)} dims for a tensor of shape {list(base_shape)}")
        if self.unreduced:
            raise InputError("a sharding with unreduced axes: only inputs that are whole or split can be placed")
        tiles = [ref for dim in self.dims for ref in dim]
        held = tuple(self.mesh.coordinate(rank, tiles) for rank in range(self.mesh.size))
        return Tiling(str(self), self.tiles, held).layout(base_shape, mesh)

    def __str__(self) -> str:
        dims = (", ".join(str(ref) for ref in dim) for dim in self.dims)
        return f"[{', '.join(f'{{{dim}}}' for dim in dims)}]"
