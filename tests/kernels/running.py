"""Runs `dlverify kernel` on text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Run = Callable[..., tuple[int, dict[str, Any]]]
