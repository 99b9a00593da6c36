"""Scalify-DL: proves that a distributed ML program computes what its single-device baseline computes."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

from .unbuilt import prefer_installed as _prefer_installed

_prefer_installed(__path__[0], __path__)  # before any other module of ours

from .earlier import install as _install  # noqa: E402

if TYPE_CHECKING:
    from .api import NotEquivalent, Report, assert_equivalent, verify

__all__ = ["NotEquivalent", "Report", "__version__", "assert_equivalent", "capture_step", "verify"]

_install()


def __getattr__(name: str) -> Any:
    """What is imported when it is asked for: `verify` and what belongs to it; `capture_step` of
    `scalify_dl.capture.torch`."""
    if name == "capture_step":
        from .capture.torch import capture_step

        return capture_step
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is, imported or not."""
    return sorted({*globals(), *__all__})
