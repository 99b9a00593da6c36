"""What a program reads of tensors without an op that a dispatch mode sees, or only to check it.

Numbers that leave the tensors (numpy, DLPack, lists) and come back would be recorded as constants: the methods that
give them are watched wherever they are called, in hooks and backward passes, too, where no function mode is active.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import compress
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.dlpack
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["Reads", "living", "passed_over"]

CHECKING = ((torch.nn.functional, "one_hot"), (torch._C._nn, "one_hot"))
"""Functions that read values of their arguments only to raise where they make no sense, if `num_classes` is given."""
CHECKED = frozenset(vars(owner)[name] for owner, name in CHECKING)

READING = (
    (torch.Tensor, "tolist"), (torch.Tensor, "numpy"), (torch.Tensor, "__array__"), (torch.Tensor, "__dlpack__"),
    (torch.utils.dlpack, "to_dlpack"),
)  # fmt: skip
"""Methods and functions that give values to the program behind the dispatcher."""


class Reads(TorchFunctionMode):  # type: ignore[misc]
    """Stops a recording where values that depend on inputs leave the tensors."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.watched = contextlib.ExitStack()

    def __enter__(self) -> Any:
        for owner, name in READING:
            self.watched.enter_context(_instead(owner, name, self.watched_read))
        for owner, name in CHECKING:
            self.watched.enter_context(_instead(owner, name, self.checked))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.watched.close()

    def watched_read(self, func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """What a method gives of a tensor; InputError where that depends on inputs."""
        self.watch(func.__name__, tensor)
        return func(tensor, *args, **kwargs)

    def watch(self, name: str, tensor: Any) -> None:
        """InputError where a tensor that is read depends on inputs."""
        if self.recorder.kernel is not None:  # of a call that stays opaque: what it does with values is its own
            for part in _plain(tensor):
                self.recorder.kernel.reads(part)
        elif any(not self.recorder.names.free(part) for part in _plain(tensor)):
            self.recorder.move()
            raise self.recorder.unread(name)

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self.checked(func, *args, **kwargs or {}) if func in CHECKED else func(*args, **kwargs or {})

    def checked(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """What a function makes that reads values to check them, if it is told what the result depends on."""
        before, self.recorder.checking = self.recorder.checking, self.recorder.checking or len(args) + len(kwargs) > 1
        try:
            return func(*args, **kwargs)
        finally:
            self.recorder.checking = before


@contextlib.contextmanager
def _instead(owner: Any, name: str, call: Callable[..., Any]) -> Iterator[None]:
    """Whoever calls a function of an owner (a class or a module) makes that call with it instead."""
    own, before = vars(owner).get(name), getattr(owner, name)

    @wraps(before)
    def watched(*args: Any, **kwargs: Any) -> Any:
        return call(before, *args, **kwargs)

    setattr(owner, name, watched)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _plain(tensor: Any) -> list[Any]:
    """The plain tensors that a tensor is made of; none of one that has no values."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor) or tensor.is_meta:
        return []
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in _plain(getattr(tensor, name))]


_earlier: list[Any] = []
"""Tensors of before, while they are not gone through."""


@contextlib.contextmanager
def passed_over() -> Iterator[None]:
    """Goes through what there is once, and not again in processes that are forked inside: each would copy it."""
    _earlier.extend(_tensors())
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        _earlier.clear()


def living() -> list[torch.UntypedStorage]:
    """The memory of all tensors that there are."""
    parts = [part for value in (*_earlier, *_tensors()) for part in _plain(value)]
    return [part.untyped_storage() for part in parts if part.layout is torch.strided]


def _tensors() -> Iterator[Any]:
    kinds = {torch.Tensor}
    more = [torch.Tensor]
    while more:  # fewer than objects by far
        more = [kind for known in more for kind in known.__subclasses__()]
        kinds.update(more)
    there = gc.get_objects()
    return compress(there, map(kinds.__contains__, map(type, there)))
