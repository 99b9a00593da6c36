"""Layouts: which baseline elements a distributed tensor holds on every rank (docs/facts.md, “Layout text”).

    Layout.parse("[0:1x8][1:1x256]|dp=r2|tp=1:256x4")

reads: local dim 0 is baseline dim 0; local dim 1 is a block of 256 of baseline dim 1, the rank's `tp` coordinate says
which; `dp` replicates. Entries are major to minor; sizes in elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import NamedTuple


class Digit(NamedTuple):
    """`size` values, each a step of `stride` along baseline dim `dim`.

    Stride 0, in a local dim: equal elements (a broadcast).
    """

    dim: int
    stride: int
    size: int

    def __str__(self) -> str:
        return f"{self.dim}:{self.stride}x{self.size}" if self.stride else f"r{self.size}"


class Repl(NamedTuple):
    """Positions of an axis along which the value is the same."""

    size: int

    def __str__(self) -> str:
        return f"r{self.size}"


class Pending(NamedTuple):
    """Positions of an axis over which a reduction is still to be done."""

    reducer: str
    size: int

    def __str__(self) -> str:
        return f"{self.reducer}{self.size}"


Entry = Digit | Repl | Pending
_ENTRY = re.compile(r"(\d+):(\d+)x(\d+)|r(\d+)|(sum|max|min|prod|and|or)(\d+)", re.ASCII)
_SCALE = re.compile(r"(-?[1-9]\d{0,9}|0)/([1-9]\d{0,9})", re.ASCII)
_LIMIT = 2**31
AXIS = re.compile(r"[^|=,\[\]\s*]+")


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout: entries per local dim (digits only), entries per mesh axis in mesh order, and an exact scale."""

    dims: tuple[tuple[Digit, ...], ...]
    axes: tuple[tuple[str, tuple[Entry, ...]], ...]
    scale: Fraction = Fraction(1)

    @classmethod
    def of(
        cls,
        dims: Iterable[Iterable[Digit]],
        axes: Iterable[tuple[str, Iterable[Entry]]],
        scale: Fraction = Fraction(1),
    ) -> Layout:
        """The canonical layout of the given entries: size-1 entries dropped, continuing neighbours merged."""
        return cls(
            tuple(merge_digits(entries) for entries in dims),
            tuple((axis, merge(entries)) for axis, entries in axes),
            scale,
        )

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Reads layout text; ValueError with what is wrong."""
        body, _, scale_text = text.partition(" *")
        head, *axis_texts = body.split("|")
        if not re.fullmatch(r"(\[[^\[\]]*\])*", head):
            raise ValueError(f"`{head}` is not a list of `[dim:stride x size,…]`")
        dims = []
        for inner in re.findall(r"\[([^\[\]]*)\]", head):
            entries = [_entry(word) for word in inner.split(",") if inner]
            entries = [Digit(0, 0, entry.size) if isinstance(entry, Repl) else entry for entry in entries]
            if not all(isinstance(entry, Digit) for entry in entries):
                raise ValueError(f"`[{inner}]`: a local dim holds digits `dim:stride x size` and `rN` only")
            dims.append(tuple(entry for entry in entries if isinstance(entry, Digit)))
        axes = []
        for axis_text in axis_texts:
            axis, equals, inner = axis_text.partition("=")
            if not equals or not AXIS.fullmatch(axis):
                raise ValueError(f"`{axis_text}` is not `axis=entries`")
            axes.append((axis, tuple(_entry(word) for word in inner.split(",") if inner)))
        ratio = _SCALE.fullmatch(scale_text or "1/1")
        if ratio is None or max(abs(int(ratio[1])), int(ratio[2])) >= _LIMIT:
            raise ValueError(f"`{scale_text[:40]}` is not a scale `num/den` of numbers below 2^31")
        scale = Fraction(int(ratio[1]), int(ratio[2]))
        return cls(tuple(dims), tuple(axes), scale)

    def __str__(self) -> str:
        text = "".join(f"[{','.join(map(str, entries))}]" for entries in self.dims)
        text += "".join(f"|{axis}={','.join(map(str, entries))}" for axis, entries in self.axes)
        return text if self.scale == 1 else f"{text} *{self.scale.numerator}/{self.scale.denominator}"

    @property
    def canonical(self) -> Layout:
        """The same layout in canonical form."""
        return Layout.of(self.dims, self.axes, self.scale)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Sizes of the local dims."""
        return tuple(prod(digit.size for digit in entries) for entries in self.dims)

    @property
    def axis_sizes(self) -> dict[str, int]:
        """Sizes of the mesh axes."""
        return {axis: prod(entry.size for entry in entries) for axis, entries in self.axes}

    def digits(self) -> list[Digit]:
        """All digits that address the baseline, local dims first."""
        local = [digit for entries in self.dims for digit in entries if digit.stride]
        return local + [entry for _, entries in self.axes for entry in entries if isinstance(entry, Digit)]

    def gaps(self, base_shape: Sequence[int]) -> str | None:
        """Why the digits do not address every element of `base_shape` exactly once; None where they do."""
        by_dim: dict[int, list[Digit]] = {d: [] for d in range(len(base_shape))}
        for digit in self.digits():
            if digit.dim not in by_dim:
                return f"digit {digit} names baseline dim {digit.dim} of a tensor with {len(base_shape)} dims"
            by_dim[digit.dim].append(digit)
        for dim, digits in by_dim.items():
            covered = 1
            for digit in sorted(digits, key=lambda digit: (digit.stride, digit.size)):
                if digit.stride != covered:
                    return f"digits of baseline dim {dim} overlap or leave gaps at stride {digit.stride}"
                covered *= digit.size
            if covered != base_shape[dim]:
                return f"digits cover {covered} of {base_shape[dim]} elements of baseline dim {dim}"
        return None


def _entry(word: str) -> Entry:
    match = _ENTRY.fullmatch(word)
    if not match:
        raise ValueError(f"`{word}` is no entry `dim:stride x size`, `rN`, `sumN`, …")
    if match[1]:
        if int(match[2]) == 0:
            raise ValueError(f"`{word}` has stride 0; a repetition is `rN`")
        return Digit(int(match[1]), int(match[2]), int(match[3]))
    return Repl(int(match[4])) if match[4] else Pending(match[5], int(match[6]))


def merge(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries without those of size 1, neighbours that continue each other merged."""
    merged: list[Entry] = []
    for entry in entries:
        if entry.size == 1:
            continue
        last = merged[-1] if merged else None
        if isinstance(entry, Digit) and isinstance(last, Digit):
            if last.dim == entry.dim and last.stride == entry.stride * entry.size:
                merged[-1] = Digit(entry.dim, entry.stride, last.size * entry.size)
                continue
        elif isinstance(entry, Repl) and isinstance(last, Repl):
            merged[-1] = Repl(last.size * entry.size)
            continue
        elif isinstance(entry, Pending) and isinstance(last, Pending) and last.reducer == entry.reducer:
            merged[-1] = Pending(last.reducer, last.size * entry.size)
            continue
        merged.append(entry)
    return tuple(merged)


def merge_digits(entries: Iterable[Digit]) -> tuple[Digit, ...]:
    """`merge` for a local dim."""
    return tuple(entry for entry in merge(entries) if isinstance(entry, Digit))


class Window(NamedTuple):
    """`lo ≤ index < hi` along one dim of a piece."""

    dim: int
    lo: int
    hi: int


def parse_piece(text: str) -> tuple[Window, ...]:
    """Reads piece text `dim:lo:hi[,…]`, dims ascending; empty is the whole tensor. ValueError where it is wrong."""
    if not text:
        return ()
    windows = []
    for word in text.split(","):
        match = re.fullmatch(r"(0|[1-9][0-9]{0,9}):(0|[1-9][0-9]{0,9}):([1-9][0-9]{0,9})", word)
        if not match or int(match[2]) >= int(match[3]):
            raise ValueError(f"`{word}` is no window `dim:lo:hi` with lo < hi")
        windows.append(Window(int(match[1]), int(match[2]), int(match[3])))
    if any(a.dim >= b.dim for a, b in pairwise(windows)):
        raise ValueError(f"`{text}`: dims must ascend")
    return tuple(windows)


def piece_text(windows: Iterable[Window]) -> str:
    """The text of a piece."""
    return ",".join(f"{w.dim}:{w.lo}:{w.hi}" for w in sorted(windows))


def piece_shape(windows: Iterable[Window], shape: Sequence[int]) -> tuple[int, ...]:
    """Sizes of a piece of a tensor of `shape`; ValueError where it does not fit."""
    sizes = list(shape)
    for window in windows:
        if window.dim >= len(sizes) or window.hi > shape[window.dim]:
            raise ValueError(f"piece {window.dim}:{window.lo}:{window.hi} does not fit shape {list(shape)}")
        sizes[window.dim] = window.hi - window.lo
    return tuple(sizes)


def dims_written(text: str) -> str:
    """The `dims` of a layout, as a relations file has them."""
    parts: dict[int, list[tuple[int, str]]] = {}
    for axis, entries in Layout.parse(text).axes:
        whole, before = len(entries) == 1, 1
        for entry in entries:
            if isinstance(entry, Digit):
                some = f'"{axis}:{entry.size}"' if before == 1 else f'"{axis}:({before}){entry.size}"'
                parts.setdefault(entry.dim, []).append((entry.stride, axis if whole else some))
            before *= entry.size
    dims = ", ".join(f"{d}: [{', '.join(p for _, p in sorted(found, reverse=True))}]" for d, found in parts.items())
    return f"{{{dims}}}"
