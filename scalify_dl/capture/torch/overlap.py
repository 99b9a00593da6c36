"""Whether a collective writes memory that it, or another member's message, still has to read.

Backends begin to write while they read. What a member reads and writes may be one memory only where it is the member's
own part: its rows of what is gathered, or of what is reduced and scattered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import torch

__all__ = ["overlapping"]

def overlapping(name: str, written: Any, read: Any, place: int) -> bool:
    """Whether a collective's buffers share memory otherwise than as the own part of the member at a place."""
    outs, xs = list(_items(written)), list(_items(read))
    if any(_meet(a, b) for (_, a), (_, b) in combinations(outs, 2)):
        return True
    for (n, out), (m, x) in product(outs, xs):
        if "gather" in name:
            whole, part, item = out, x, n
        else:
            whole, part, item = x, out, m
        kept = "gather" in name or "scatter" in name
        if _meet(out, x) and not (kept and _own(whole, part, None if "coalesced" in name else item, place)):
            return True
    return False


def _items(value: Any) -> Iterator[tuple[int | None, torch.Tensor]]:
    """Tensors of an argument, with their places in the innermost list."""
    if isinstance(value, torch.Tensor):
        yield None, value
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for n, item in enumerate(value):
            if isinstance(item, torch.Tensor):
                yield n, item
            else:
                yield from _items(item)


def _meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors span bytes in common."""
    (first, last), (begin, end) = _span(a), _span(b)
    return first < end and begin < last


def _span(x: torch.Tensor) -> tuple[int, int]:
    reach = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) + 1 if x.numel() else 0
    return x.data_ptr(), x.data_ptr() + reach * x.element_size()


def _own(whole: torch.Tensor, part: torch.Tensor, item: int | None, place: int) -> bool:
    """Whether a part is that of the member at a place: an item of a list, or rows of a tensor."""
    if not (whole.is_contiguous() and part.is_contiguous()):
        return False
    if whole.numel() == part.numel():
        return whole.data_ptr() == part.data_ptr() and item in (None, place)
    return bool(part.data_ptr() - whole.data_ptr() == place * part.numel() * part.element_size())
