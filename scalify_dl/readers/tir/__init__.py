"""Kernels as text: TVMScript functions and TileLang sources, parsed as Python syntax trees, never executed."""

from .functions import read_kernel
from .syntax import Kernel

__all__ = ["Kernel", "read_kernel"]
