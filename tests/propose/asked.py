"""What is asked, with a right and a wrong answer."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
HLO = ROOT / "examples" / "hlo"
PAIR = ("relations", HLO / "base.hlo", HLO / "dist.hlo", "--mesh", "tp=2")
BUG = ROOT / "facts" / "row_parallel_linear_bias_per_rank"
RIGHT = "Here it is:\n```yaml\ninputs:\n  gate_up: {dims: {1: [tp]}, parts: {dim: 1, sizes: [64, 64]}}\n```\n"
WRONG = "```yaml\ninputs:\n  gate_up: {dims: {0: [tp]}}\n```\n"
