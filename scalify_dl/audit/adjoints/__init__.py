"""Derived backwards against what JAX gives, on random programs."""

from __future__ import annotations

from .campaign import Report, run

__all__ = ["Report", "run"]
