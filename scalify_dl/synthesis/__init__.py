"""From a program of one device and placements of its inputs and outputs to a distributed program."""

from __future__ import annotations

from .build import Distributed, distribute

__all__ = ["Distributed", "distribute"]
