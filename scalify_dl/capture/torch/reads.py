"""What a program reads of tensors without an op that a dispatch mode sees, or only to check it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["Reads"]

CHECKING = frozenset({torch._C._nn.one_hot})
"""Functions that read values of their arguments only to raise where they make no sense, if `num_classes` is given."""

READING = frozenset({torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__})
"""Methods that give values to the program behind the dispatcher."""


class Reads(TorchFunctionMode):  # type: ignore[misc]
    """Stops a recording where values that depend on inputs leave the tensors."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in READING and type(args[0]) is torch.Tensor and not self.recorder.names.free(args[0]):
            self.recorder.move()
            raise self.recorder.unread(func.__name__)
        if func in CHECKING and len(args) + len(kwargs) > 1:
            before, self.recorder.checking = self.recorder.checking, True
            try:
                return func(*args, **kwargs)
            finally:
                self.recorder.checking = before
        return func(*args, **kwargs)
