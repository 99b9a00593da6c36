"""Layout text for people: an einops-like pattern, and a sentence.

`[0:1x8][1:1x128][2:1x256]|dp=r2|tp=2:256x4` of a rank-3 baseline tensor reads

    a b (tp c) -> a b c  (replicated over dp)

On the left is the baseline tensor, one name per dim, split where the distributed program splits it; on the
right is what each rank holds. A mesh axis on the left is a dim that is cut into blocks along that axis.
"""

from __future__ import annotations

import string
from collections import Counter
from functools import cache

from scalify_dl.ir.layout import Digit, Layout, Pending, Repl, parse_piece

_REDUCTION = {"max": "maximum", "min": "minimum", "prod": "product"}


def _group(names: list[str]) -> str:
    return "1" if not names else names[0] if len(names) == 1 else f"({' '.join(names)})"


def _dim_names(count: int, taken: set[str]) -> list[str]:
    letters = [c for c in string.ascii_lowercase if c not in taken]
    return letters[:count] if count <= len(letters) else [f"d{i}" for i in range(count)]


def _positions(layout: Layout) -> list[tuple[str, Digit | Repl | Pending]]:
    """Every position of every mesh axis with its name: the axis, numbered where the axis has several."""
    return [
        (f"{axis}{i}" if len(entries) > 1 else axis, entry)
        for axis, entries in layout.axes
        for i, entry in enumerate(entries)
    ]


def _scale(layout: Layout) -> list[str]:
    pending = any(isinstance(entry, Pending) for _, entries in layout.axes for entry in entries)
    return [] if layout.scale == 1 else [f"times {layout.scale}{' once reduced' if pending else ''}"]


def _arrow(layout: Layout, base_rank: int) -> str:
    """The pattern alone; empty for digits that skip or repeat elements."""
    rank = max([base_rank, *(d.dim + 1 for d in layout.digits())])
    shape = [1] * rank
    for digit in layout.digits():
        shape[digit.dim] *= digit.size
    if layout.gaps(shape):
        return ""
    letters = _dim_names(rank, {axis for axis, _ in layout.axes})
    parts = Counter(d.dim for entries in layout.dims for d in entries if d.stride)
    seen: Counter[int] = Counter()
    named: list[tuple[Digit, str]] = []
    local: list[list[str]] = []
    for entries in layout.dims:
        names = []
        for d in entries:
            if d.stride == 0:  # equal elements, as einops writes a repetition
                names.append(str(d.size))
                continue
            seen[d.dim] += 1
            names.append(letters[d.dim] + (str(seen[d.dim]) if parts[d.dim] > 1 else ""))
        named += zip(entries, names, strict=True)
        local.append(names)
    named = [(d, name) for d, name in named if d.stride]
    named += [(entry, name) for name, entry in _positions(layout) if isinstance(entry, Digit)]
    base = [
        _group([name for d, name in sorted(named, key=lambda pair: -pair[0].stride) if d.dim == dim])
        for dim in range(rank)
    ]
    return f"{' '.join(base) or '()'} -> {' '.join(map(_group, local)) or '()'}"


@cache
def pattern(text: str, base_rank: int = 0) -> str:
    """The einops-like pattern of a layout text, with what the mesh does besides cutting dims.

    `base_rank` is the number of dims of the baseline tensor, needed where its last dims have size 1. A layout whose
    digits skip or repeat elements has no pattern; its text is returned as it is.
    """
    layout = Layout.parse(text)
    arrow = _arrow(layout, base_rank)
    if not arrow:
        return text
    mesh = _positions(layout)
    notes = []
    if whole := [name for name, entry in mesh if isinstance(entry, Repl)]:
        notes.append(f"replicated over {', '.join(whole)}")
    for reducer in sorted({entry.reducer for _, entry in mesh if isinstance(entry, Pending)}):
        over = [name for name, entry in mesh if isinstance(entry, Pending) and entry.reducer == reducer]
        notes.append(f"{_REDUCTION.get(reducer, reducer)} pending over {', '.join(over)}")
    notes += _scale(layout)
    if sizes := [f"{name} = {entry.size}" for name, entry in mesh if name not in dict(layout.axes)]:
        notes.append(f"where {', '.join(sizes)}")
    return f"{arrow}  ({'; '.join(notes)})" if notes else arrow


def _place(layout: Layout, name: str, entry: Digit | Repl | Pending) -> str:
    where = name if name in dict(layout.axes) else f"{name}={entry.size}"
    if isinstance(entry, Repl):
        return f"whole over {where}"
    if isinstance(entry, Pending):
        return f"{_REDUCTION.get(entry.reducer, entry.reducer)} pending over {where}"
    inner = [d for entries in layout.dims for d in entries if d.dim == entry.dim and d.stride]
    blocks = "blocks" if all(d.stride < entry.stride for d in inner) else "interleaved parts"
    return f"dim {entry.dim} cut over {where} into {entry.size} {blocks}"


def holds(text: str, base: str, base_piece: str = "", base_rank: int = 0) -> str:
    """What a tensor holds, as a phrase: `w: dim 1 cut over tp into 2 blocks`."""
    layout = Layout.parse(text)
    parts = [_place(layout, name, entry) for name, entry in _positions(layout)] + _scale(layout)
    local = [d.dim for entries in layout.dims for d in entries if d.stride]
    if local != sorted(local) or any(len(entries) > 1 for entries in layout.dims):
        parts.append(f"arranged {_arrow(layout, base_rank) or text}")
    what = f"{base} ({piece_words(base_piece)})" if base_piece else base
    return f"{what}: {', '.join(parts)}" if parts else what


def due(text: str) -> str:
    """What an output should be that is held so, and is not proved: as whole dims or blocks, reduced, times 1; without
    what it is already."""
    layout = Layout.parse(text)
    open_on = [axis for axis, entries in layout.axes if any(isinstance(entry, Pending) for entry in entries)]
    words = [f"reduced over {' and '.join(open_on)}"] if open_on else []
    words += ["times 1"] if layout.scale != 1 else []
    plain = all(len(entries) <= 1 and all(e.stride == 1 and e.dim == d for e in entries)
                for d, entries in enumerate(layout.dims))  # fmt: skip
    if not words or not plain:
        words.insert(0, "each dim whole or cut in contiguous blocks")
    return ", ".join(words)


def piece_words(piece: str) -> str:
    """`1:0:256,2:4:8` as `dim 1 from 0 to 256, dim 2 from 4 to 8`."""
    return ", ".join(f"dim {w.dim} from {w.lo} to {w.hi}" for w in parse_piece(piece))
