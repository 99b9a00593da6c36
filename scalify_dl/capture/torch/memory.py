"""Which name of a recorded text is which view of which memory.

Tensors are known by where they look (storage, offset, sizes, strides, type), not by the Python object that holds them:
`x.data`, a DTensor's local part or a parameter that a hook swaps are found whatever way they came. A view that no op
of the record made is written as views of a name of the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import torch

from scalify_dl.errors import InputError

__all__ = ["Names", "Storage", "copied", "typed"]

MAX_CONSTANT = 1 << 20
"""Elements of the largest tensor from outside of the step whose value is written."""

SHORT = {
    torch.bool: "b8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64", torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2",
}  # fmt: skip

Geometry = tuple[Any, ...]


def typed(t: torch.Tensor) -> str:
    """`"f32[8, 16]"`, as FX prints it."""
    if t.dtype not in SHORT:
        raise InputError(f"a tensor of {t.dtype}", hint="no dump says this element type")
    return f'"{SHORT[t.dtype]}[{", ".join(map(str, t.shape))}]"'


def geometry(t: torch.Tensor) -> Geometry:
    """Where a tensor looks in its storage; strides of dims of size 1 say nothing."""
    strides = tuple(0 if n == 1 else s for n, s in zip(t.shape, t.stride(), strict=True))
    return t.dtype, t.storage_offset(), tuple(t.shape), strides, t.is_conj(), t.is_neg()


class Storage:
    """Memory of the record: the names that look at it; `free` says that its contents follow from no input."""

    def __init__(self, held: torch.UntypedStorage, free: bool) -> None:
        self.held = held
        self.free = free
        self.bytes = held.nbytes()
        self.views: dict[Geometry, tuple[str, torch.Tensor]] = {}
        self.padded: set[Geometry] = set()
        self.awaited: list[tuple[str, torch.Tensor]] = []


class Names:
    """The memory that a record knows. `emit` writes a line and gives the name that it binds."""

    def __init__(self, emit: Callable[[str, str, torch.Tensor], str]) -> None:
        self.emit = emit
        self.storages: dict[int, Storage] = {}
        self.constants: dict[str, Any] = {}
        self.types: dict[str, torch.dtype] = {}
        self.received: dict[str, torch.Tensor] = {}
        self.older: dict[int, torch.UntypedStorage] = {}
        self.numbers: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """A name that is not used yet."""
        while True:
            n = self.numbers.get(stem, 0)
            self.numbers[stem] = n + 1
            name = stem if n == 0 else f"{stem}_{n}"
            if n == 0 or name not in self.numbers:
                self.numbers.setdefault(name, 1)
                return name

    def older_than_the_step(self, memory: Iterable[torch.UntypedStorage]) -> None:
        """Memory that was there before the step, or that belongs to what runs it: what it holds is a constant."""
        self.older.update({held._cdata: held for held in memory})

    def storage(self, t: torch.Tensor) -> Storage | None:
        """The memory that a tensor looks at, if the record knows it."""
        return self.storages.get(t.untyped_storage()._cdata)

    def free(self, t: torch.Tensor) -> bool:
        """Whether a tensor's values follow from no input: then the program may read them."""
        known = self.storage(t)
        return known is None or known.free

    def bind(self, t: torch.Tensor, name: str, free: bool = False) -> None:
        """A name is this view from now on."""
        known = self.storage(t)
        if known is None:
            held = t.untyped_storage()
            known = self.storages[held._cdata] = Storage(held, free)
        known.views.setdefault(geometry(t), (name, t.detach()))

    def written(self, t: torch.Tensor) -> None:
        """An op writes through a tensor: InputError where its name is no view of what it writes."""
        known = self.storage(t)
        if known is not None and geometry(t) in known.padded:
            raise InputError(f"a tensor {typed(t)} that sees more than an input is written")

    def overlaps(self, t: torch.Tensor) -> bool:
        """Whether a tensor looks at memory that another name looks at, but not in the same way."""
        known = self.storage(t)
        if known is None or geometry(t) in known.views:
            return False
        start, end = t.storage_offset() * t.element_size(), (t.storage_offset() + _span(t)) * t.element_size()
        return any(
            start < (other.storage_offset() + _span(other)) * other.element_size()
            and other.storage_offset() * other.element_size() < end
            for _, other in known.views.values()
        )

    def resized(self, t: torch.Tensor) -> None:
        """The memory of a tensor was given back and taken anew: what it holds is not known."""
        known = self.storage(t)
        if known is None or known.held.nbytes() == known.bytes:
            return
        known.bytes = known.held.nbytes()
        for name, view in [*known.views.values()]:
            if known.bytes and view.is_contiguous() and prod(view.shape) * view.element_size() == known.bytes:
                empty = self.emit(
                    "empty", f"torch.ops.aten.empty.memory_format({list(view.shape)}, dtype = {view.dtype})", view
                )
                self.emit("copy_", f"torch.ops.aten.copy_.default({name}, {empty})", view)
                known.free = False
                return
        if known.bytes:
            known.views.clear()

    def name(self, t: torch.Tensor) -> str:
        """The name of a tensor; lines are written where no name looks there yet."""
        self.resized(t)
        known = self.storage(t)
        while known is not None and known.awaited:  # what is read now was waited for
            line, received = known.awaited.pop(0)
            self.received[line] = copied(received)
        if known is None or not known.views:
            return self.constant(t)
        found = known.views.get(geometry(t))
        if found is not None:
            return found[0]
        made = self.view(t, known)
        if made is None:
            return self.padded(t, known)
        self.bind(t, made)
        return made

    def placed(self, t: torch.Tensor) -> bool:
        """Whether a tensor has a name by where it looks, as plain views of a name of the same memory."""
        self.resized(t)
        known = self.storage(t)
        if known is None or not known.views:
            return False
        if geometry(t) not in known.views and (made := self.view(t, known)) is not None:
            self.bind(t, made)
        return geometry(t) in known.views

    def overwritten(self, t: torch.Tensor) -> None:
        """A tensor is about to be written without being read. Where that is memory from outside of the step, all of
        it, what it held before is no value of the program."""
        if self.storage(t) is None and t.numel() and t.is_contiguous() and t.untyped_storage().nbytes() == t.nbytes:
            call = f"torch.ops.aten.empty.memory_format({list(t.shape)}, dtype = {t.dtype})"
            self.bind(t, self.emit("empty", call, t))

    def constant(self, t: torch.Tensor, written: bool = False) -> str:
        """A tensor from outside of the step that is no argument: its value. `written`: numbers of the program."""
        if not written and t.numel() and t.untyped_storage()._cdata not in self.older:
            return self.unknown(t)
        if t.numel() > MAX_CONSTANT or t.is_complex():
            raise InputError(
                f"the step uses a tensor {typed(t)} that is neither an argument nor of the model",
                hint="return it with the arguments of the step, so that the verdict holds for all its values",
            )
        whole = t.detach() if t.is_contiguous() and t.untyped_storage().nbytes() == t.nbytes else _all_of(t)
        self.bind(whole, self.literal(whole), free=True)
        return self.name(t)

    def unknown(self, t: torch.Tensor) -> str:
        """Memory that the step got from no op of the record (a library's buffer, numpy's): nobody knows what its
        contents depend on, so they may not be used before they are written. Run again, they are no number."""
        whole = _all_of(t)
        call = f"torch.ops.aten.empty.memory_format([{whole.numel()}], dtype = {whole.dtype})"
        name = self.emit("empty", call, whole)
        self.bind(whole, name)
        self.received[name] = torch.full(whole.shape, torch.nan if whole.is_floating_point() else 1, dtype=whole.dtype)
        return self.name(t)

    def literal(self, t: torch.Tensor) -> str:
        """A constant of a tensor's value."""
        name = f"_tensor_constant{len(self.constants)}"
        self.numbers[name] = 1
        self.constants[name], self.types[name] = torch._C.TensorBase.tolist(t), t.dtype  # unwatched
        return self.emit(name, f"self.{name}", t)

    # --- views that no op made -------------------------------------------------------------------------------------

    def view(self, t: torch.Tensor, known: Storage) -> str | None:
        """A tensor as views of a name of the same memory; None where no name has all of it in a plain way."""
        start = t.storage_offset() * t.element_size()
        end = start + _span(t) * t.element_size()
        for name, base in sorted(known.views.values(), key=lambda item: -item[1].nbytes):
            first = base.storage_offset() * base.element_size()
            order = _row_major(base)
            if order is None or base.dtype.is_complex != t.dtype.is_complex or t.is_conj() or t.is_neg():
                continue
            if not (first <= start and end <= first + base.nbytes) or base.is_conj() or base.is_neg():
                continue
            flat = self.flat(name, base, order)
            if base.dtype != t.dtype:
                if base.element_size() == 0 or base.nbytes % t.element_size() or first % t.element_size():
                    continue
                shape = [base.nbytes // t.element_size()]
                call = f"torch.ops.aten.view.dtype({flat}, {t.dtype})"
                flat = self.emit("view", call, torch.empty(shape, dtype=t.dtype, device="meta"))
            made = self.cut(flat, (start - first) // t.element_size(), base.nbytes // t.element_size(), t)
            if made is not None:
                return made
        return None

    def padded(self, t: torch.Tensor, known: Storage) -> str:
        """What a tensor holds now that sees an input and the padding behind it; written, it would not be the input."""
        end = t.storage_offset() + t.numel()
        others = [base for _, base in known.views.values() if _reach(base) > t.storage_offset()]
        for name, base in known.views.values():
            order = _row_major(base)
            inside = base.storage_offset() == t.storage_offset() and base.dtype == t.dtype and t.is_contiguous()
            if order is not None and inside and all(_reach(other) <= _reach(base) for other in others):
                rest = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), _reach(base), (end - _reach(base),))
                padding = self.literal(rest)
                flat = self.flat(name, base, order)
                whole = self.emit("cat", f"torch.ops.aten.cat.default([{flat}, {padding}])", _shaped(t, [t.numel()]))
                known.padded.add(geometry(t))
                return self.emit("view", f"torch.ops.aten.view.default({whole}, {list(t.shape)})", t)
        raise InputError(
            f"a tensor {typed(t)} looks at memory in a way that no dump says",
            hint="strides and offset of a view that no recorded op made",
        )

    def flat(self, name: str, base: torch.Tensor, order: list[int]) -> str:
        """All elements of a name in the order of memory."""
        if order != sorted(order):
            moved = base.permute(order)
            name = self.emit("permute", f"torch.ops.aten.permute.default({name}, {order})", moved)
        if base.dim() == 1:
            return name
        return self.emit("view", f"torch.ops.aten.view.default({name}, [-1])", _shaped(base, [base.numel()]))

    def cut(self, flat: str, offset: int, length: int, t: torch.Tensor) -> str | None:
        """A tensor from elements of memory: a block of them, its dims permuted, perhaps parts of rows; None where it is
        something else (broadcast, too)."""
        if any(t.stride(d) == 0 and t.shape[d] != 1 for d in range(t.dim())):
            return None
        order = sorted(range(t.dim()), key=lambda d: -t.stride(d) if t.shape[d] != 1 else 0)
        shape = [t.shape[d] for d in order]
        rows = self.rows(t, order)
        if rows is None:
            return None
        if 0 in shape:
            return None
        whole, windows = rows
        need = prod(whole)
        if offset + need > length:
            return None
        part = flat
        if offset or need != length:
            call = f"torch.ops.aten.slice.Tensor({flat}, 0, {offset}, {offset + need})"
            part = self.emit("slice", call, _shaped(t, [need]))
        if whole != [need]:
            part = self.emit("view", f"torch.ops.aten.view.default({part}, {whole})", _shaped(t, whole))
        for dim, size in windows:
            whole = [*whole[:dim], size, *whole[dim + 1 :]]
            call = f"torch.ops.aten.slice.Tensor({part}, {dim}, 0, {size})"
            part = self.emit("slice", call, _shaped(t, whole))
        if order != sorted(order):
            back = [order.index(d) for d in range(t.dim())]
            call = f"torch.ops.aten.permute.default({part}, {back})"
            part = self.emit("permute", call, t)
        return part

    def rows(self, t: torch.Tensor, order: list[int]) -> tuple[list[int], list[tuple[int, int]]] | None:
        """Sizes of the block that the dims (in this order) are the first positions of, and what is cut of each."""
        whole: list[int] = []
        windows: list[tuple[int, int]] = []
        inner = 1
        for position, d in reversed(list(enumerate(order))):
            stride = inner if t.shape[d] == 1 else t.stride(d)
            if stride % inner:
                return None
            if stride != inner:  # rows of the dims inside are longer than what is seen of them
                if not whole:
                    return None
                windows.append((position + 1, whole[0]))
                whole[0] = whole[0] * (stride // inner)
                inner = stride
            whole.insert(0, t.shape[d])
            inner *= t.shape[d]
        return whole, windows


def copied(t: torch.Tensor) -> torch.Tensor:
    """A copy that lies as the tensor does, in memory of its own."""
    t = t.detach()
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype).copy_(t) if _row_major(t) is not None else t.clone()


def _shaped(like: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """A tensor of a shape, for its type alone."""
    return torch.empty(shape, dtype=like.dtype, device="meta")


def _row_major(t: torch.Tensor) -> list[int] | None:
    """The order of dims in which a tensor lies without gaps; None where there is none."""
    order = sorted(range(t.dim()), key=lambda d: (-t.stride(d), d) if t.shape[d] != 1 else (0, d))
    expected = 1
    for d in reversed(order):
        if t.shape[d] != 1:
            if t.stride(d) != expected:
                return None
            expected *= t.shape[d]
    return order


def _span(t: torch.Tensor) -> int:
    """Elements from the first to the last one that a tensor looks at."""
    if 0 in t.shape:
        return 0
    last: int = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return last + 1


def _reach(t: torch.Tensor) -> int:
    """The position in memory behind the last element that a tensor looks at."""
    start: int = t.storage_offset()
    return start + _span(t)


def _all_of(t: torch.Tensor) -> torch.Tensor:
    """All elements of the memory that a tensor looks at."""
    storage = t.untyped_storage()
    whole = torch.empty(0, dtype=t.dtype)
    return whole.set_(storage, 0, (storage.nbytes() // t.element_size(),))
