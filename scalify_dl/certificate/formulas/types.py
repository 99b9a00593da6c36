"""Element types."""

from __future__ import annotations

REALS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
"""Element types of real numbers, and how many digits they hold."""
WIDTHS = {"s8": (7, 7), "s16": (15, 15), "s32": (31, 31), "s64": (63, 63), "u8": (0, 8), "u32": (0, 32), "u64": (0, 64)}
"""Types of integers, and how many binary digits they hold below and above zero."""
