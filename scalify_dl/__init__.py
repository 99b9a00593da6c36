"""Scalify-DL: proves that a distributed ML program computes what its single-device baseline computes."""

__version__ = "0.1.0"

from typing import Any

from .earlier import install as _install

_install()


def __getattr__(name: str) -> Any:
    """`capture_step` of `scalify_dl.capture.torch`: torch is imported when it is asked for."""
    if name == "capture_step":
        from .capture.torch import capture_step

        return capture_step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
